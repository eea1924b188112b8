"""What a data set is, as frozen values that are checked whole before anything is built.

The names a config may use are literals here, so that a recipe is checked without loading what it
names; a test compares them with the registries.
"""

import copy
import hashlib
import json
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from .errors import BadConfig, did_you_mean

OperationName = Literal["add", "subtract", "multiply", "sine", "sqrt"]
FormatName = Literal[
    "plain",
    "plain_wrapped",
    "plain_padded",
    "reverse",
    "reverse_unwrapped",
    "reverse_padded",
    "simplified_scratchpad",
    "detailed_scratchpad",
    "detailed_scratchpad_v2",
    "hosted_plain",
    "hosted_reverse",
    "hosted_simplified_scratchpad",
    "hosted_detailed_scratchpad",
]
SamplerName = Literal[
    "uniform",
    "full_length",
    "balanced_digits",
    "balanced_carries",
    "balanced",
    "balanced_lengths",
    "equal_lengths",
    "revealed",
]
TokenizerName = Literal["characters", "ascii", "gpt2"]
PositionName = Literal["learned", "sinusoidal", "none", "rotary"]
FormName = Literal["txt", "jsonl", "parquet", "hf", "openai", "openai_prompt"]
Noise = Literal["none", "A", "C", "both"]

MAX_DIGITS = 2_000
"""Longest operand. Python converts at most 4,300 digits by default, and a product has twice its operands' digits."""
MAX_EXAMPLES = 100_000_000
"""Largest data set: past this a file is the wrong shape, and endless sampling the right one."""


def choices(names: Any) -> tuple[str, ...]:
    """The names of a Literal: choices(FormatName) == ("plain", …)."""
    return typing.get_args(names)


class Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class FormatConfig(Config):
    name: FormatName = "reverse"
    spaces: bool = False
    """A space between neighbouring digits, so that a BPE tokenizer sees every digit alone."""
    stop: str | None = Field(default=None, min_length=1, max_length=16)
    """Text that ends a completion, in the place of its newline."""
    noise: Noise = "none"
    """simplified_scratchpad: make the digit sums (A), the carries (C) or both random; the final answer stays right."""
    width: int = Field(default=3, ge=0, le=MAX_DIGITS)
    """The padded formats: digits that operands are padded to, answers to one more; 0: as wide as the longer operand."""

    @model_validator(mode="after")
    def _options_belong_to_the_format(self) -> Self:
        if self.noise != "none" and self.name != "simplified_scratchpad":
            raise ValueError(f"noise exists for simplified_scratchpad only, not for {self.name}")
        if self.width != 3 and not self.name.endswith("_padded"):
            raise ValueError(f"width exists for plain_padded and reverse_padded only, not for {self.name}")
        if self.name.startswith("hosted_") and (self.spaces or self.stop is not None):
            raise ValueError(f"{self.name} has its own spaces and stop mark: leave both options out")
        if self.stop is not None and any(mark in "0123456789-. " for mark in self.stop):
            raise ValueError(f"stop mark {self.stop!r} could be part of an answer: use something like '###'")
        return self


class ExcludeConfig(Config):
    """What training never sees. Tests keep all of it: that is their point."""

    numbers: int = Field(default=0, ge=0, le=100_000)
    """How many numbers of full length to hide."""
    choice: Literal["random", "rarest"] = "random"
    """Which ones: random, or the least frequent operands of the training set (what the paper's authors really did)."""
    listed: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Numbers to hide by name, beside the chosen ones."""
    digit: int | None = Field(default=None, ge=0, le=9)
    """A digit to hide at `position`."""
    position: int | None = Field(default=None, ge=1, le=MAX_DIGITS)
    """1 is the lowest digit."""
    lengths: tuple[Annotated[int, Field(ge=1, le=MAX_DIGITS)], ...] = ()
    """Operands with this many digits are hidden."""

    @model_validator(mode="after")
    def _digit_and_position_go_together(self) -> Self:
        if (self.digit is None) != (self.position is None):
            raise ValueError("exclude.digit and exclude.position go together: give both or neither")
        return self

    @property
    def is_empty(self) -> bool:
        return self == ExcludeConfig()


def _name_alone(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class DataConfig(Config):
    operation: OperationName = "add"
    base: int = Field(default=10, ge=2, le=10)
    digits: int = Field(default=3, ge=1, le=MAX_DIGITS)
    """Longest operand of the integer operations."""
    table: int | None = Field(default=None, ge=2, le=1_000_000)
    """revealed: operands are 0 … table-1."""
    format: Annotated[FormatConfig, BeforeValidator(_name_alone)] = FormatConfig()
    sampler: SamplerName | None = None
    """None: balanced for the integer operations, uniform for sine and sqrt."""
    num_examples: int = Field(default=10_000, ge=1, le=MAX_EXAMPLES)
    """Training examples; with endless sampling, the size of the blocks it comes in."""
    exclude: ExcludeConfig = ExcludeConfig()
    num_test: int | None = Field(default=None, ge=0, le=MAX_EXAMPLES)
    """None: 10,000, or 60 % of a domain too small for that."""
    num_validation: int | None = Field(default=None, ge=0, le=MAX_EXAMPLES)
    """None: 1,000, or 10 % of a domain too small for that."""
    test_sampler: Literal["uniform", "equal_lengths", "full_length"] = "uniform"
    """equal_lengths: as many test problems of every length; full_length: only such as have all digits."""
    split_seed: int = Field(default=0, ge=0)
    """Which test and validation sets. The training sample has its own seed, which belongs to the run."""

    @property
    def is_integer(self) -> bool:
        return self.operation in ("add", "subtract", "multiply")

    @property
    def longest(self) -> int:
        """Digits of the longest operand there is: of a table, those of its last number."""
        count, rest = 1, (self.table or 0) - 1
        while rest >= self.base:
            count, rest = count + 1, rest // self.base
        return count if self.table else self.digits

    @property
    def sampler_name(self) -> SamplerName:
        return self.sampler or ("balanced" if self.is_integer else "uniform")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = []
        if not self.is_integer and self.base != 10:
            problems.append(f"{self.operation} exists in base 10 only, not {self.base}")
        if not self.is_integer and not self.exclude.is_empty:
            problems.append(f"exclusions exist for the integer operations only, not for {self.operation}")
        if (self.table is None) == (self.sampler == "revealed"):
            problems.append("table goes with sampler revealed, and the other way round")
        if self.format.name.endswith("_padded") and self.is_integer and 0 < self.format.width < self.longest:
            problems.append(
                f"format.width {self.format.width} is too narrow for {self.longest}-digit operands: "
                f"set it to {self.longest}"
            )
        if self.exclude.digit is not None and self.exclude.digit >= self.base:
            problems.append(f"exclude.digit {self.exclude.digit} is not a digit of base {self.base}")
        if self.exclude.position is not None and self.exclude.position > self.longest:
            problems.append(f"exclude.position {self.exclude.position} lies beyond {self.longest}-digit operands")
        if problems:
            raise ValueError("; ".join(problems))
        return self


class ModelConfig(Config):
    """The paper's NanoGPT; GPT-2 is layers=12, heads=12, width=768."""

    layers: int = Field(default=6, ge=1, le=200)
    heads: int = Field(default=6, ge=1, le=200)
    width: int = Field(default=384, ge=1, le=20_000)
    context: int = Field(default=256, ge=2, le=100_000)
    """Most tokens the model can look at."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    position: PositionName = "learned"

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} cannot be shared by {self.heads} heads: make it a multiple")
        if self.position in ("sinusoidal", "rotary") and self.width // self.heads % 2:
            raise ValueError(f"{self.position} positions need an even width per head, not {self.width // self.heads}")
        return self


class StopConfig(Config):
    """When to stop before the last step, judged on the validation set."""

    accuracy: float | None = Field(default=None, gt=0, le=1)
    """Stop once validation accuracy has been at least this …"""
    hold: int = Field(default=1, ge=1)
    """… for this many evaluations in a row."""
    plateau: int | None = Field(default=None, ge=1)
    """Stop after this many evaluations without a better one."""

    @property
    def is_on(self) -> bool:
        return self.accuracy is not None or self.plateau is not None


class TrainConfig(Config):
    steps: int = Field(default=5_000, ge=0, le=10_000_000)
    """Optimizer steps."""
    batch_size: int = Field(default=256, ge=1, le=1_000_000)
    """Windows or rows per step."""
    accumulation: int = Field(default=1, ge=1, le=10_000)
    """Pieces a batch is cut into, where it does not fit the memory."""
    packing: Literal["stream", "rows"] = "stream"
    """Random windows of one long stream (the paper's way), or one example a row."""
    loss: Literal["all", "answer"] = "all"
    """What the loss counts; rows only: the answer alone."""
    endless: bool = False
    """New problems for ever instead of a set of num_examples."""
    lr: float = Field(default=1e-3, gt=0)
    final_lr: float = Field(default=0.1, ge=0, le=1)
    """Where the cosine ends, as a part of lr."""
    warmup_steps: int = Field(default=100, ge=0)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.99, ge=0, lt=1)
    weight_decay: float = Field(default=0.1, ge=0)
    """On matrices only."""
    grad_clip: float = Field(default=1.0, ge=0)
    """0: no clipping."""
    precision: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """auto: bfloat16 on GPUs that have it, float16 with loss scaling on others, float32 elsewhere."""
    eval_every: int = Field(default=250, ge=1)
    """Steps between evaluations; also what early stopping goes by."""
    stop: StopConfig = StopConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = []
        if self.loss == "answer" and self.packing == "stream":
            problems.append("train.loss answer needs train.packing rows: a stream has no rows to mask")
        if self.batch_size % self.accumulation:
            problems.append(f"train.batch_size {self.batch_size} is not a multiple of accumulation {self.accumulation}")
        if problems:
            raise ValueError("; ".join(problems))
        return self


class EvaluationConfig(Config):
    """A question put to a model. It has its own hash: a new question to an old model trains nothing."""

    problems: Literal["test", "validation", "train", "exhaustive"] = "test"
    """exhaustive: every problem of the domain, told apart by whether training saw it."""
    limit: int | None = Field(default=None, ge=1)
    """At most this many."""
    part: int = Field(default=0, ge=0)
    """Which of the run's data sets: 0 is `data`, 1 the first of `mix`, and so on."""
    data: DataConfig | None = None
    """Ask problems of another data set instead: more digits, say. Those that training saw are left out …"""
    seen: bool = False
    """… unless this is set."""
    listed: tuple[str, ...] = ()
    """Ask just these, such as 8465+3541."""
    prefix: str = ""
    """Text in front of every prompt."""
    examples: int = Field(default=0, ge=0, le=100)
    """Training examples in front of every prompt, after `prefix`."""
    wrong_examples: bool = False
    """Give those examples wrong answers."""
    example_set: int = Field(default=0, ge=0)
    """Which ones."""
    examples_part: int | None = Field(default=None, ge=0)
    """The data set they come from; None: the one that is asked."""
    shown: tuple[str, ...] = ()
    """Problems written out in full in front of every prompt, such as 8465+3541."""
    given_lines: int = 0
    """Lines of the right completion that are given; -1: all but the last."""
    corrupt: Literal["none", "random", "precise"] = "none"
    """Give the model two wrong digits of the answer, random ones or the second off by one, and score its third."""
    temperature: float = Field(default=0.0, ge=0)
    """0: greedy."""
    top_k: int | None = Field(default=None, ge=1)
    seed: int = 0
    """Of the sampled tokens."""

    @property
    def hash(self) -> str:
        return config_hash(self)

    @property
    def column(self) -> str:
        """What its column is called where it is asked along the way."""
        return self.problems if self == EvaluationConfig(problems=self.problems) else self.hash


class RunConfig(Config):
    """One training run, complete."""

    data: DataConfig = DataConfig()
    mix: tuple[DataConfig, ...] = ()
    """More data sets to train on together with `data`, in one shuffled stream."""
    tokenizer: TokenizerName = "characters"
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    seed: int = 0
    """Training sample, initial weights, order, dropout."""
    parent: str | None = None
    """Hash of the run whose weights this one starts from."""
    name: str = "run"
    """Names the folder; changes nothing else."""
    evaluations: tuple[EvaluationConfig, ...] = (EvaluationConfig(),)
    """What to ask the model when it is done; not part of the run's hash."""
    watch: tuple[EvaluationConfig, ...] = ()
    """What to ask it along the way, every train.eval_every steps, beside the validation set; not part of the hash."""

    @model_validator(mode="after")
    def _name_is_a_folder(self) -> Self:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", self.name):
            raise ValueError(f"name {self.name!r} cannot name a folder: use letters, digits, '.', '_' and '-'")
        return self

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        if self.mix and self.train.endless:
            raise ValueError("train.endless goes with one data set: leave mix out")
        for question in (*self.evaluations, *self.watch):
            if max(question.part, question.examples_part or 0) > len(self.mix):
                raise ValueError(
                    f"an evaluation asks for part {max(question.part, question.examples_part or 0)}, "
                    f"but there are parts 0 to {len(self.mix)}"
                )
        return self

    @property
    def parts(self) -> tuple[DataConfig, ...]:
        """All data sets."""
        return (self.data, *self.mix)

    @property
    def hash(self) -> str:
        return config_hash(self, leave_out={"name", "evaluations", "watch"})

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.hash}"


class CompletionConfig(Config):
    """Trials of matrix completion on the table of sums."""

    kind: Literal["matrix completion"]
    method: Literal["as_published", "sums", "nuclear_norm"]
    n: int = Field(ge=2, le=10_000)
    """The table is n x n."""
    revealed: int = Field(ge=0)
    trials: int = Field(default=100, ge=1, le=100_000)
    data: DataConfig | None = None
    """Reveal the training examples of this data set instead of drawing trials."""
    seed: int = 0

    @property
    def hash(self) -> str:
        return config_hash(self)


class EnumerationConfig(Config):
    """A lemma checked on every case there is."""

    kind: Literal["enumeration"]
    lemma: Literal["first digit needs every digit", "lowest digit first needs three inputs"]
    base: int = Field(default=10, ge=2, le=10)
    digits: int = Field(ge=1, le=8)
    seed: int = 0

    @property
    def hash(self) -> str:
        return config_hash(self)


AnyRun = RunConfig | CompletionConfig | EnumerationConfig

SCHEMA = 1
"""Part of every hash: goes up when the same config comes to mean something else."""


def config_hash(config: Config, leave_out: set[str] | None = None) -> str:
    """Ten hex digits over the fields that differ from their defaults, so that new fields leave old hashes alone."""
    values = config.model_dump(mode="json", exclude_defaults=True, exclude=leave_out)
    canonical = json.dumps({"schema": SCHEMA, **values}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


def override(values: dict[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """`values` with settings such as "train.steps=100" put in; values are TOML, and text where that fails."""
    result = copy.deepcopy(values)
    for setting in settings:
        path, equals, text = setting.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise BadConfig(f"setting {setting!r} is not of the form a.b=c, such as train.steps=100")
        inner = result
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise BadConfig(f"setting {setting!r} goes into {key!r}, which is not a table")
        try:
            inner[keys[-1]] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            inner[keys[-1]] = text.strip()
    return result


C = TypeVar("C", bound=Config)


def load(kind: type[C], values: Mapping[str, Any]) -> C:
    """`values` as a config of this kind; all that is wrong with them at once, as one BadConfig."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise BadConfig("; ".join(_explain(kind, dict(e)) for e in error.errors(include_url=False))) from None


def _explain(kind: type[Config], error: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in error["loc"])
    given = error.get("input")
    match error["type"]:
        case "literal_error":
            names = [name.strip(" '") for name in error["ctx"]["expected"].replace(" or ", ",").split(",")]
            return f"unknown {path} {given!r}{did_you_mean(given, names)}; choose from {', '.join(sorted(names))}"
        case "extra_forbidden":
            known = _fields_at(kind, error["loc"][:-1])
            return f"unknown key {path}{did_you_mean(error['loc'][-1], known)}; choose from {', '.join(sorted(known))}"
        case "value_error":
            return str(error["ctx"]["error"])
        case _:
            return f"{path}: {error['msg'][0].lower()}{error['msg'][1:]}, not {given!r}"


def _fields_at(kind: type[Config], path: tuple[int | str, ...]) -> list[str]:
    for part in path:
        field = kind.model_fields.get(str(part))
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, Config)):
            return []
        kind = inner
    return list(kind.model_fields)
