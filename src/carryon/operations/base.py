"""What is true: an operation, and a problem posed with it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, overload

from ..config import MAX_DIGITS
from ..errors import BadOperand
from .decimals import decimal_text, parse_decimal
from .digits import Whole, to_text
from .domains import Codes, Domain, Line, Pairs

_WHOLE = re.compile("[0-9]+")


class Problem(NamedTuple):
    """An operation and its operands as canonical text: Problem(Addition(), ("128", "367"))."""

    operation: "Operation"
    operands: tuple[str, ...]

    @property
    def question(self) -> str:
        """128+367"""
        return self.operation.question(self.operands)

    @property
    def answer(self) -> str:
        """495"""
        return self.operation.answer(self.operands)


class Problems(Sequence[Problem]):
    """Problems of one operation, kept as the codes of a domain and made into text when they are looked at."""

    _CHUNK = 8192

    def __init__(self, operation: "Operation", domain: Domain, codes: Codes) -> None:
        self.operation, self.domain, self.codes = operation, domain, codes

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Problem]:
        for start in range(0, len(self.codes), self._CHUNK):  # text for all at once would take hundreds of MB
            for operands in self.domain.operands(self.codes[start : start + self._CHUNK]):
                yield Problem(self.operation, operands)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> "Problems": ...
    def __getitem__(self, index: int | slice) -> "Problem | Problems":
        if isinstance(index, slice):
            return Problems(self.operation, self.domain, self.codes[index])
        (operands,) = self.domain.operands(self.codes[[index]])
        return Problem(self.operation, operands)


@dataclass(frozen=True)
class Operation(ABC):
    base: int = 10

    name: ClassVar[str]
    bases: ClassVar[range]

    def __post_init__(self) -> None:
        if self.base not in self.bases:
            choices = f"{self.bases[0]} to {self.bases[-1]}" if len(self.bases) > 1 else f"{self.bases[0]} only"
            raise BadOperand(f"{self.name} does not exist in base {self.base}: choose base {choices}")

    def problem(self, *operands: object) -> Problem:
        """A problem from operands somebody typed; BadOperand says what is wrong with them."""
        return Problem(self, self.check(operands))

    @abstractmethod
    def check(self, operands: Iterable[object]) -> tuple[str, ...]:
        """The operands if they are canonical text inside the domain, else BadOperand."""

    @abstractmethod
    def question(self, operands: tuple[str, ...]) -> str:
        """How the problem is asked: 128+367, sin(0.5)."""

    @abstractmethod
    def parse(self, question: str) -> tuple[str, ...] | None:
        """The operands of a question, unchecked; None if it does not ask this operation."""

    @abstractmethod
    def answer(self, operands: tuple[str, ...]) -> str:
        """The exact answer."""

    @abstractmethod
    def steps(self, operands: tuple[str, ...]) -> list[Any]:
        """The worked steps, as the scratchpad formats need them."""


class IntegerOperation(Operation):
    """Two whole numbers without sign, any number of digits, written in `base`."""

    symbol: ClassVar[str]
    most: ClassVar[int] = 2
    """Operands it takes."""
    bases = range(2, 11)

    @staticmethod
    @abstractmethod
    def compute(a: Whole, b: Whole) -> Whole: ...

    @abstractmethod
    def carries(self, a: Whole, b: Whole) -> Whole:
        """How many times a digit passes something on to the next higher one."""

    def domain(self, digits: int) -> Pairs:
        """All pairs of numbers with at most this many digits."""
        return Pairs(self.base**digits, self.base)

    def numbers(self, operands: tuple[str, ...]) -> tuple[int, int]:
        a, b = operands
        return int(a, self.base), int(b, self.base)

    def check(self, operands: Iterable[object]) -> tuple[str, ...]:
        operands = tuple(_number_text(operand) for operand in operands)
        if not 2 <= len(operands) <= self.most:
            takes = "2" if self.most == 2 else f"2 to {self.most}"
            raise BadOperand(f"{self.name} takes {takes} operands, not {len(operands)}: {_short(list(operands))}")
        return tuple(self._check_number(operand) for operand in operands)

    def _check_number(self, operand: object) -> str:
        if not (isinstance(operand, str) and operand.isascii() and operand.isdigit()):
            raise BadOperand(
                f"operand {_short(operand)} of {self.name} is not a whole number without sign, such as 128"
            )
        if len(operand) > MAX_DIGITS:
            raise BadOperand(
                f"operand {_short(operand)} of {self.name} has {len(operand):,} digits; at most {MAX_DIGITS:,}"
            )
        if any(digit >= str(self.base) for digit in operand) and self.base < 10:
            raise BadOperand(f"operand {_short(operand)} of {self.name} has digits that base {self.base} does not have")
        if operand != "0" and operand.startswith("0"):
            raise BadOperand(
                f"operand {_short(operand)} of {self.name} has leading zeros: write {operand.lstrip('0') or '0'}"
            )
        return operand

    def question(self, operands: tuple[str, ...]) -> str:
        return self.symbol.join(operands)

    def parse(self, question: str) -> tuple[str, ...] | None:
        operands = tuple(question.split(self.symbol))
        known = 2 <= len(operands) <= self.most and all(map(_WHOLE.fullmatch, operands))
        return operands if known else None

    def answer(self, operands: tuple[str, ...]) -> str:
        a, b = operands
        if self.base == 10:  # nearly always: two calls fewer count when a million answers are wanted
            return str(self.compute(int(a), int(b)))
        return to_text(self.compute(int(a, self.base), int(b, self.base)), self.base)


class DecimalFunction(Operation):
    """A function of one decimal number with at most four decimals; answers are floored to four decimals."""

    symbol: ClassVar[str]
    bases = range(10, 11)
    domain: ClassVar[Line]

    @staticmethod
    @abstractmethod
    def compute(value: int) -> int:
        """The answer's ten-thousandths for an operand's, floored: exact, because binary floats drift."""

    def value(self, operands: tuple[str, ...]) -> int:
        value = parse_decimal(operands[0])
        assert value is not None
        return value

    def check(self, operands: Iterable[object]) -> tuple[str, ...]:
        operands = tuple(operands)
        if len(operands) != 1:
            raise BadOperand(f"{self.name} takes 1 operand, not {len(operands)}: {list(operands)}")
        (operand,) = operands
        value = parse_decimal(operand) if isinstance(operand, str) else None
        if value is None:
            raise BadOperand(
                f"operand {_short(operand)} of {self.name} is not a decimal as text, "
                "such as '0.5' or '1.0' (one to four decimals, no trailing zeros)"
            )
        if not self.domain.first <= value <= self.domain.last:
            low, high = decimal_text(self.domain.first), decimal_text(self.domain.last)
            raise BadOperand(f"operand {_short(operand)} of {self.name} is out of range: {low} to {high}")
        return (str(operand),)

    def question(self, operands: tuple[str, ...]) -> str:
        return f"{self.symbol}({operands[0]})"

    def parse(self, question: str) -> tuple[str, ...] | None:
        match = re.fullmatch(rf"{self.symbol}\((-?[0-9.]+)\)", question)
        return match.groups() if match else None

    def answer(self, operands: tuple[str, ...]) -> str:
        return decimal_text(self.compute(self.value(operands)))


class DigitStep(NamedTuple):
    """One column of a sum or a difference, lowest first: 8+7+0=15 gives digit 5 and carry 1."""

    left: int
    right: int
    carry_in: int
    total: int
    digit: int
    carry_out: int


def columns(a: str, b: str) -> list[tuple[int, int]]:
    """The digits of two numbers side by side, lowest first, the shorter one filled with zeros."""
    width = max(len(a), len(b))
    return [(int(x), int(y)) for x, y in zip(reversed(a.zfill(width)), reversed(b.zfill(width)), strict=True)]


def _number_text(operand: object) -> object:
    """A whole number may be given as one, if it is not too long for Python to write."""
    if not isinstance(operand, int) or isinstance(operand, bool):
        return operand
    if abs(operand) >= 10**MAX_DIGITS:
        raise BadOperand(f"an operand has more than {MAX_DIGITS:,} digits; at most {MAX_DIGITS:,}")
    return str(operand)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…{text[-1]}"
