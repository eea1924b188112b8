"""What a data set is."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from .base import Config
from .names import (
    MAX_DIGITS,
    MAX_EXAMPLES,
    MAX_HINTS,
    MAX_OPERANDS,
    FormatName,
    Noise,
    OperationName,
    SamplerName,
)


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
    hints: int = Field(default=102, ge=2, le=MAX_HINTS)
    """index_hints: how many different hints there are, and so the longest number that can be written."""

    @model_validator(mode="after")
    def _options_belong_to_the_format(self) -> Self:
        if self.noise != "none" and self.name != "simplified_scratchpad":
            raise ValueError(f"noise exists for simplified_scratchpad only, not for {self.name}")
        if self.width != 3 and not self.name.endswith("_padded"):
            raise ValueError(f"width exists for padded formats such as reverse_padded only, not for {self.name}")
        if self.hints != 102 and self.name != "index_hints":
            raise ValueError(f"hints exist for index_hints only, not for {self.name}")
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


class TextConfig(Config):
    """Text to train on, examples in between."""

    corpus: str = Field(default="tinyshakespeare", min_length=1, max_length=200)
    """tinyshakespeare, sample, or a file of your own (kept as name@digest)."""
    mixing: Literal["dialogue", "blocks", "none"] = "dialogue"
    """dialogue: a random number of examples between any two passages, as the paper says; blocks: some passages, then
    some of each kind of example, a hundred times, as the authors' data are; none: not trained on, its characters only
    join the vocabulary."""
    leave_out: str | None = Field(default=None, max_length=200)
    """Characters to leave out. None: of tiny Shakespeare its one `$`, a slip; the paper's count of 80 is without it."""
    characters: str = Field(default="", max_length=200)
    """More characters for the vocabulary."""
    held_out: float = Field(default=0.1, gt=0, lt=1)
    """Part of the text, its end, that perplexity is measured on."""

    @property
    def left_out(self) -> str:
        if self.leave_out is not None:
            return self.leave_out
        return "$" if self.corpus == "tinyshakespeare" else ""


def _name_alone(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class DataConfig(Config):
    operation: OperationName = "add"
    base: int = Field(default=10, ge=2, le=10)
    digits: int = Field(default=3, ge=1, le=MAX_DIGITS)
    """Longest operand of the integer operations."""
    operands: int = Field(default=2, ge=2, le=MAX_OPERANDS)
    """add: the most numbers of a sum; above 2 there are sums of 2, of 3, and so on up to these."""
    table: int | None = Field(default=None, ge=2, le=1_000_000)
    """revealed: operands are 0 … table-1."""
    format: Annotated[FormatConfig, BeforeValidator(_name_alone)] = FormatConfig()
    sampler: SamplerName | None = None
    """None: balanced for the integer operations, equal_operands for sums of more than two numbers, uniform for sine
    and sqrt."""
    num_examples: int = Field(default=10_000, ge=1, le=MAX_EXAMPLES)
    """Training examples; with endless sampling, the size of the blocks it comes in."""
    exclude: ExcludeConfig = ExcludeConfig()
    num_test: int | None = Field(default=None, ge=0, le=MAX_EXAMPLES)
    """None: 10,000, or 60 % of a domain too small for that."""
    num_validation: int | None = Field(default=None, ge=0, le=MAX_EXAMPLES)
    """None: 1,000, or 10 % of a domain too small for that."""
    test_sampler: Literal["uniform", "equal_lengths", "full_length", "both_full_length", "equal_operands"] = "uniform"
    """equal_lengths: as many test problems of every length; full_length: only such as have all digits in the longer
    operand, and of more operands all of these; both_full_length: in both; equal_operands: as many of every number of
    operands and every length."""
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
        if self.operands > 2:
            return self.sampler or "equal_operands"
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
        problems += self._faults_of_operands()
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

    def _faults_of_operands(self) -> list[str]:
        if self.operands == 2:
            if "equal_operands" in (self.sampler, self.test_sampler):
                return ["equal_operands is for sums of more than 2 numbers: set operands, or use equal_lengths"]
            return []
        if self.operation != "add":
            return [f"operands {self.operands} exist for add only, not for {self.operation}: leave them out"]
        faults = []
        kinds = ("equal_operands", "uniform", "full_length", "both_full_length")
        if others := [name for name in (self.sampler_name, self.test_sampler) if name not in kinds]:
            faults.append(
                f"{others[0]} draws 2 operands, not {self.operands}: use {', '.join(kinds[:-1])} or {kinds[-1]}"
            )
        if not self.exclude.is_empty:
            faults.append(f"exclusions exist for 2 operands only, not for {self.operands}: leave them out")
        return faults
