"""What self-improvement is: a model that labels longer problems than it was taught, and learns from its own labels."""

from typing import Literal, Self

from pydantic import Field, model_validator

from .base import Config, FolderName, config_hash
from .data import DataConfig
from .models import PretrainedConfig
from .names import MAX_DIGITS, MAX_EXAMPLES
from .runs import RunConfig, TrainConfig


class RoundsConfig(Config):
    """What happens once the base is trained, again and again."""

    count: int = Field(default=5, ge=1, le=1_000)
    """How many rounds."""
    digits: int = Field(default=1, ge=1, le=100)
    """So many digits more in each round: both operands of its problems have them all."""
    problems: int = Field(default=5_000, ge=1, le=MAX_EXAMPLES)
    """The model labels so many new ones in each round, greedily."""
    steps: int = Field(default=1_000, ge=1, le=1_000_000)
    """It trains so many more in each round, with the optimizer as it was."""
    lr: float | None = Field(default=None, gt=0)
    """None: that of the base. A round begins with it, without warm-up …"""
    falling: float = Field(default=0.5, gt=0, le=1)
    """… and falls in a line over this part of its steps, the last of them …"""
    final_lr: float = Field(default=0.01, ge=0, le=1)
    """… to this part of lr."""
    newest: float = Field(default=0.5, gt=0, lt=1)
    """Share of the newest labels in what it trains on. The rest is shared by the base's problems, which weigh as much
    as they have lengths, and the older labels, a round's as much as one length."""


class FiltersConfig(Config):
    """Which labels are kept. Whether they are true plays no part: nobody would know."""

    length: bool = False
    """Drop labels that are shorter, by two characters or more, than the longest of their batch …"""
    batch: int = Field(default=1_024, ge=1, le=MAX_EXAMPLES)
    """… of so many problems."""
    votes: int = Field(default=1, ge=1, le=100)
    """So many models label, each of another seed, and all train on what they agree on. The first one is the outcome."""
    agree: float = Field(default=0.7, gt=0, le=1)
    """Keep a label if this part of the models wrote it."""

    @model_validator(mode="after")
    def _options_belong_to_filters(self) -> Self:
        problems = []
        if self.agree != 0.7 and self.votes == 1:
            problems.append("filters.agree needs several models: set filters.votes")
        if self.batch != 1_024 and not self.length:
            problems.append("filters.batch goes with filters.length: set it, or leave batch out")
        if problems:
            raise ValueError("; ".join(problems))
        return self


class ImprovementConfig(Config):
    """One self-improvement, complete: a base, and rounds that go on from it."""

    kind: Literal["self-improvement"]
    base: RunConfig
    """What is trained before the first round: padded rows without end, the answers alone, every length alike."""
    rounds: RoundsConfig = RoundsConfig()
    filters: FiltersConfig = FiltersConfig()
    diagonal: tuple[int, ...] = ()
    """Lengths that are asked at the end, both operands of that many digits; none: all from two digits on."""
    num_test: int = Field(default=1_000, ge=1, le=MAX_EXAMPLES)
    """Problems of each length that are asked at the end; of the base's lengths what base.data.num_test has of them."""
    num_validation: int = Field(default=1_000, ge=1, le=MAX_EXAMPLES)
    """Problems of its length that are asked after a round."""
    seed: int = Field(default=0, ge=0)
    name: FolderName = "improve"
    """Names the folder; changes nothing else."""

    @model_validator(mode="after")
    def _the_base_can_be_built_on(self) -> Self:
        base, data, train = self.base, self.base.data, self.base.train
        problems = []
        if isinstance(base.model, PretrainedConfig):
            problems.append("rounds go on from a model of ours: leave base.model.pretrained out")
        if (train.packing, train.loss, train.endless) != ("rows", "answer", True):
            problems.append(
                "the base learns from rows without end, the answers alone: set base.train.packing=rows, "
                "base.train.loss=answer and base.train.endless=true"
            )
        if not data.is_integer or data.table is not None:
            problems.append(f"there are no longer problems of {data.operation}: choose add, subtract or multiply")
        elif (data.sampler, data.test_sampler) != ("equal_lengths", "equal_lengths"):
            problems.append(
                "the base learns every length alike: set base.data.sampler=equal_lengths and "
                "base.data.test_sampler=equal_lengths"
            )
        if not data.exclude.is_empty:
            problems.append("base.data.exclude would hide problems from the base alone: leave it out")
        if train.stop.is_on:
            problems.append("rounds begin when all steps of the base are done: leave base.train.stop out")
        if not train.steps:
            problems.append("a base of no steps has no labels to give: set base.train.steps")
        ours = {"name": "name", "seed": "seed", "evaluations": "diagonal"}
        plain = RunConfig()
        for field in ("name", "seed", "evaluations", "watch", "mix", "text", "parent"):
            if getattr(base, field) != getattr(plain, field):
                remedy = f"set {ours[field]} instead" if field in ours else "leave it out"
                problems.append(f"base.{field} is not of a base: {remedy}")
        if self.longest > MAX_DIGITS:
            problems.append(f"the last round has {self.longest:,} digits, of {MAX_DIGITS:,} at most: set rounds.count")
        elif data.format.name.endswith("_padded") and 0 < data.format.width < max(self.longest, *self.diagonal, 0):
            problems.append(
                f"base.data.format.width {data.format.width} is too narrow for {max(self.longest, *self.diagonal, 0)} "
                "digits: set it to 0, as wide as the longer operand"
            )
        if bad := [digits for digits in self.diagonal if not 1 <= digits <= MAX_DIGITS]:
            problems.append(f"diagonal {bad[0]} is no length: choose 1 to {MAX_DIGITS:,}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def lengths(self) -> tuple[int, ...]:
        """Digits of each round's problems."""
        return tuple(self.base.data.digits + self.rounds.digits * number for number in range(1, self.rounds.count + 1))

    @property
    def longest(self) -> int:
        return self.base.data.digits + self.rounds.digits * self.rounds.count

    @property
    def asked(self) -> tuple[int, ...]:
        """The lengths that are asked at the end."""
        return self.diagonal or tuple(range(2, self.longest + 1))

    @property
    def steps(self) -> int:
        """Of the base and all rounds, each model's."""
        return self.base.train.steps + self.rounds.count * self.rounds.steps

    def steps_before(self, number: int) -> int:
        """A round."""
        return self.base.train.steps + (number - 1) * self.rounds.steps

    @property
    def round_train(self) -> TrainConfig:
        """How a round trains."""
        rounds, train = self.rounds, self.base.train
        changes = {
            "steps": rounds.steps,
            "lr": rounds.lr or train.lr,
            "warmup_steps": 0,
            "schedule": "constant_then_linear",
            "falling": rounds.falling,
            "final_lr": rounds.final_lr,
            "eval_every": rounds.steps,
        }
        return train.model_copy(update=changes)

    def learner(self, number: int = 0) -> RunConfig:
        """The base of each model: no two improvements have a model in common, whatever their seeds."""
        return self.base.model_copy(update={"name": self.name, "seed": self.seed * self.filters.votes + number})

    def data_of(self, digits: int) -> DataConfig:
        """Problems of one length: training ones to label, and apart from them some to validate and to test with."""
        changes = {
            "digits": digits,
            "sampler": "both_full_length",
            "test_sampler": "both_full_length",
            "num_examples": self.rounds.problems,
            "num_test": self.num_test,
            "num_validation": self.num_validation,
        }
        return self.base.data.model_copy(update=changes)

    @property
    def outcome(self) -> RunConfig:
        """The model it ends with, for all that asks models: it is asked what was held out of the longest problems."""
        run = self.learner()
        train = run.train.model_copy(update={"steps": self.steps})
        return run.model_copy(update={"data": self.data_of(self.longest), "train": train, "evaluations": ()})

    @property
    def hash(self) -> str:
        return config_hash(self, leave_out={"name"})

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.hash}"
