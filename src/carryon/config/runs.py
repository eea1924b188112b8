"""What a run is, and the questions put to it."""

import re
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from .base import Config, FolderName, config_hash
from .data import DataConfig, TextConfig
from .models import AnyModel, ModelConfig, PretrainedConfig, kind_of_model
from .names import BY_LENGTHS, MAX_DIGITS, TextPromptName, TokenizerName


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
    window: int | None = Field(default=None, ge=2)
    """Tokens of a window, where it is to be shorter than model.context."""
    accumulation: int = Field(default=1, ge=1, le=10_000)
    """Pieces a batch is cut into, where it does not fit the memory."""
    packing: Literal["stream", "rows"] = "stream"
    """Random windows of one long stream (the paper's way), or one example a row."""
    loss: Literal["all", "answer"] = "all"
    """What the loss counts; rows only: the answer alone."""
    endless: bool = False
    """New problems for ever instead of a set of num_examples."""
    grow: int = Field(default=0, ge=0, le=10_000_000)
    """Endless only: steps over which the longest numbers grow from a few digits to all of data.digits."""
    lr: float = Field(default=1e-3, gt=0)
    final_lr: float = Field(default=0.1, ge=0, le=1)
    """Where the schedule ends, as a part of lr."""
    schedule: Literal["cosine", "constant_then_linear"] = "cosine"
    """How the learning rate goes from there: constant_then_linear stays at lr, and falls over the last steps."""
    falling: float = Field(default=0.2, gt=0, le=1)
    """constant_then_linear: in which part of all steps it falls, the last of them."""
    warmup_steps: int = Field(default=100, ge=0)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.99, ge=0, lt=1)
    weight_decay: float = Field(default=0.1, ge=0)
    """On matrices only."""
    average: float = Field(default=0.0, ge=0, lt=1)
    """Decay of a running mean of the weights, which is what is asked and kept; 0: the weights themselves."""
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
        if self.window is not None and self.packing == "rows":
            problems.append("train.window needs train.packing stream: rows are as long as their examples")
        if self.falling != 0.2 and self.schedule == "cosine":
            problems.append("train.falling goes with train.schedule constant_then_linear: a cosine falls all the way")
        if self.batch_size % self.accumulation:
            problems.append(f"train.batch_size {self.batch_size} is not a multiple of accumulation {self.accumulation}")
        if problems:
            raise ValueError("; ".join(problems))
        return self


class EvaluationConfig(Config):
    """A question put to a model. It has its own hash: a new question to an old model trains nothing."""

    problems: Literal["test", "validation", "train", "exhaustive", "text"] = "test"
    """exhaustive: every problem of the domain, told apart by whether training saw it; text: no problems, but how well
    the model reads the text that was held out, and what it writes by itself."""
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
    lengths: tuple[str, ...] = ()
    """Ask problems of just these numbers of digits, in this order: 100 for both operands, or 100x3; of each …"""
    each: int = Field(default=100, ge=1, le=1_000_000)
    """… so many. Those of `problems` test and validation are others."""
    prefix: str = ""
    """Text in front of every prompt."""
    examples: int = Field(default=0, ge=0, le=100)
    """Training examples in front of every prompt, after `prefix`."""
    wrong_examples: bool = False
    """Give those examples wrong answers."""
    example_set: int = Field(default=0, ge=0)
    """Which ones."""
    sets: int = Field(default=1, ge=1, le=100)
    """Ask all after so many sets of examples, from `example_set` on, and count them apart."""
    text_prompts: tuple[TextPromptName, ...] = ()
    """Ask all after every text of these kinds, in front of `prefix`, and count them apart."""
    examples_part: int | None = Field(default=None, ge=0)
    """The data set they come from; None: the one that is asked."""
    examples_among: int | None = Field(default=None, ge=1)
    """Take them from the training set of so many, which lies inside every larger one, so that models of several sizes
    are asked after the same examples; None: from the whole training set."""
    shown: tuple[str, ...] = ()
    """Problems written out in full in front of every prompt, such as 8465+3541."""
    digit_apart: int | None = Field(default=None, ge=0, le=9)
    """Count the problems with this digit at each place apart, as is done where it was hidden from training."""
    given_lines: int = 0
    """Lines of the right completion that are given; -1: all but the last."""
    corrupt: Literal["none", "random", "precise"] = "none"
    """Give the model two wrong digits of the answer, random ones or the second off by one, and score its third."""
    temperature: float = Field(default=0.0, ge=0)
    """0: greedy."""
    top_k: int | None = Field(default=None, ge=1)
    seed: int = 0
    """Of the sampled tokens."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.wrong_examples and not self.examples:
            raise ValueError("wrong_examples needs examples: say how many")
        if self.examples_among is not None and not self.examples:
            raise ValueError("examples_among needs examples: say how many")
        if self.lengths and (self.listed or self.data is not None or self.problems not in ("test", "validation")):
            raise ValueError(
                "lengths asks test or validation problems of the run's own operation: leave out listed and data"
            )
        if self.each != 100 and not self.lengths:
            raise ValueError("each goes with lengths: name some, such as 100 or 100x3")
        if self.problems == "text":
            given = self.model_dump(exclude_defaults=True, exclude={"problems", "temperature", "top_k", "seed"})
            if given:
                raise ValueError(f"{', '.join(given)} cannot go with text: it is read as it is, with no problems")
        return self

    @field_validator("lengths")
    @classmethod
    def _are_lengths(cls, lengths: tuple[str, ...]) -> tuple[str, ...]:
        for text in lengths:
            found = re.fullmatch(r"([1-9][0-9]{0,5})(?:x([1-9][0-9]{0,5}))?", text)
            if found is None or max(int(length or 1) for length in found.groups()) > MAX_DIGITS:
                raise ValueError(f"{text!r} is not a number of digits up to {MAX_DIGITS:,} such as 100, or two: 100x3")
        if len(set(lengths)) < len(lengths):
            raise ValueError(f"lengths names one twice: {', '.join(lengths)}")
        return lengths

    @property
    def cells(self) -> tuple[tuple[int, int], ...]:
        """`lengths` as pairs of numbers."""
        pairs = (text.split("x") for text in self.lengths)
        return tuple((int(pair[0]), int(pair[-1])) for pair in pairs)

    @property
    def hash(self) -> str:
        return config_hash(self)

    @property
    def column(self) -> str:
        """What its column is called where it is asked along the way."""
        if self != EvaluationConfig(problems=self.problems):
            return self.hash
        return "perplexity" if self.problems == "text" else self.problems


class RunConfig(Config):
    """One training run, complete."""

    data: DataConfig = DataConfig()
    mix: tuple[DataConfig, ...] = ()
    """More data sets to train on together with `data`, in one shuffled stream."""
    text: TextConfig | None = None
    """Text to train on together with the examples."""
    tokenizer: TokenizerName = "characters"
    """A pretrained model has its own, and nothing else reads that."""
    model: AnyModel = ModelConfig()
    train: TrainConfig = TrainConfig()
    seed: int = 0
    """Training sample, initial weights, order, dropout."""
    parent: str | None = None
    """Hash of the run whose weights this one starts from."""
    name: FolderName = "run"
    """Names the folder; changes nothing else."""
    evaluations: tuple[EvaluationConfig, ...] = (EvaluationConfig(),)
    """What to ask the model when it is done; not part of the run's hash."""
    watch: tuple[EvaluationConfig, ...] = ()
    """What to ask it along the way, every train.eval_every steps, beside the validation set; not part of the hash."""

    @model_validator(mode="before")
    @classmethod
    def _a_pretrained_model_brings_its_tokenizer(cls, values: Any) -> Any:
        if not isinstance(values, dict) or kind_of_model(values.get("model")) != "PretrainedConfig":
            return values
        return {"tokenizer": "own"} | values

    @model_validator(mode="after")
    def _tokenizer_and_model_belong_together(self) -> Self:
        if isinstance(self.model, PretrainedConfig) != (self.tokenizer == "own"):
            raise ValueError(
                f"tokenizer own goes with model.pretrained, and the other way round, not {self.tokenizer} "
                f"with {self.model.label}"
            )
        return self

    @property
    def window(self) -> int:
        """Tokens of a window."""
        return self.train.window or self.model.context

    @model_validator(mode="after")
    def _windows_fit(self) -> Self:
        if self.window > self.model.context:
            raise ValueError(
                f"train.window {self.window} is longer than model.context {self.model.context}: choose 2 to "
                f"{self.model.context}, or raise model.context"
            )
        return self

    @model_validator(mode="after")
    def _ids_of_digits_find_them(self) -> Self:
        if not isinstance(self.model, ModelConfig) or (self.model.ids != "abacus" and self.model.reads_only is None):
            return self
        problems = []
        if self.tokenizer not in ("characters", "ascii"):
            problems.append(f"{self.model.ids} ids need a token for each digit: set tokenizer=characters")
        if (format := self.model.reads_only) is not None:
            if self.train.loss != "answer":
                problems.append(
                    "coupled ids of a prompt depend on what follows in it: set train.packing=rows and train.loss=answer"
                )
            if other := next((part.format.name for part in self.parts if part.format.name != format), None):
                problems.append(
                    f"{self.model.ids} ids find digits where {format} writes them: set data.format.name={format}, "
                    f"not {other}"
                )
            if any(part.format.spaces for part in self.parts):
                problems.append("coupled ids need numbers in one piece: set data.format.spaces=false")
            if any(q.prefix or q.examples or q.shown or q.text_prompts for q in (*self.evaluations, *self.watch)):
                problems.append("coupled ids know one problem at a time: ask with nothing in front of it")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        if self.train.grow and (not self.train.endless or self.train.packing != "rows"):
            raise ValueError("train.grow chooses among new problems, a row each: set train.endless and packing rows")
        if self.train.grow and self.data.sampler_name not in BY_LENGTHS:
            able = f"{', '.join(BY_LENGTHS[:-1])} or {BY_LENGTHS[-1]}"
            raise ValueError(f"train.grow needs a sampler that goes by lengths, {able}, not {self.data.sampler_name}")
        if self.mix and self.train.endless:
            raise ValueError("train.endless goes with one data set: leave mix out")
        if (
            self.text is not None
            and self.text.mixing != "none"
            and (self.train.endless or self.train.packing == "rows")
        ):
            raise ValueError(
                "text goes into a stream of a finite set: leave train.endless out, and set train.packing=stream and "
                "train.loss=all"
            )
        for question in (*self.evaluations, *self.watch):
            if question.problems == "text" and self.text is None:
                raise ValueError("an evaluation asks how well the model reads text, but there is none: set text.corpus")
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
