"""All the problems there are, numbered.

A problem's number in its domain is its *code*. Samplers, splits and overlaps work on arrays of codes,
which are quick to draw, compare and keep; text appears only when an example is written.

    Pairs(limit=1000)      128 and 367        <->  code 128367
    Lists(3, limit=1000)   12, 7 and 305      <->  code 13007305, behind the million of two numbers
    Line(-15707, 15707)    sin(-1.5707)       <->  code 0
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rng import Label
from .decimals import decimal_text, parse_decimal
from .digits import num_digits, to_text

Codes = NDArray[Any]
"""int64 where the domain's codes fit, otherwise Python integers in an array of dtype object."""


class Domain(ABC):
    @property
    @abstractmethod
    def size(self) -> int:
        """How many problems there are; codes run from 0 to size-1."""

    @property
    @abstractmethod
    def key(self) -> tuple[Label, ...]:
        """What names this domain's random streams."""

    @abstractmethod
    def operands(self, codes: Codes) -> Iterator[tuple[str, ...]]:
        """The canonical text of each code's operands."""

    @abstractmethod
    def code(self, operands: tuple[str, ...]) -> int | None:
        """The code of canonical operands; None if they lie outside."""

    def codes(self, values: Iterable[int]) -> Codes:
        return np.array(list(values), np.int64 if self.size < 2**63 else object)


@dataclass(frozen=True)
class Pairs(Domain):
    """Two whole numbers below `limit`, each written in `base`."""

    limit: int
    base: int = 10

    @property
    def size(self) -> int:
        return self.limit**2

    @property
    def key(self) -> tuple[Label, ...]:
        return ("pairs", self.limit, self.base)

    def split(self, codes: Codes) -> tuple[Codes, Codes]:
        return codes // self.limit, codes % self.limit

    def join(self, a: Codes, b: Codes) -> Codes:
        dtype = np.int64 if self.size < 2**63 else object
        codes: Codes = a.astype(dtype) * self.limit + b.astype(dtype)
        return codes

    def operands(self, codes: Codes) -> Iterator[tuple[str, ...]]:
        a, b = (numbers.tolist() for numbers in self.split(codes))
        if self.base == 10:
            return zip(map(str, a), map(str, b), strict=True)
        return ((to_text(x, self.base), to_text(y, self.base)) for x, y in zip(a, b, strict=True))

    def code(self, operands: tuple[str, ...]) -> int | None:
        if len(operands) != 2:
            return None
        a, b = (int(operand, self.base) for operand in operands)
        return a * self.limit + b if max(a, b) < self.limit else None

    def lengths(self, codes: Codes) -> tuple[Codes, Codes]:
        a, b = self.split(codes)
        return num_digits(a, self.base), num_digits(b, self.base)

    def longest(self, codes: Codes) -> Codes:
        """Digits of the larger operand."""
        return np.maximum(*self.lengths(codes))

    def swapped(self, codes: Codes) -> Codes:
        a, b = self.split(codes)
        return self.join(b, a)


@dataclass(frozen=True)
class Lists(Domain):
    """Two numbers, three, and so on up to `most` of them, each below `limit` and written in `base`.

    Lists of two come first, in the order of Pairs, then those of three:   of Lists(3, limit=10)

        0+0 is 0   0+1 is 1   9+9 is 99   0+0+0 is 100   1+2+3 is 223   9+9+9 is 1099
    """

    most: int
    limit: int
    base: int = 10

    @property
    def size(self) -> int:
        return self.first(self.most + 1)

    @property
    def key(self) -> tuple[Label, ...]:
        return ("lists", self.most, self.limit, self.base)

    def first(self, count: int) -> int:
        """The code of so many zeros: all codes below it are shorter lists."""
        return int(self.limit**count - self.limit**2) // (self.limit - 1)

    def split(self, codes: Codes) -> list[list[int]]:
        """The numbers of each."""
        firsts = [self.first(count) for count in range(2, self.most + 1)]
        lists = []
        for code in codes.tolist():
            count = bisect_right(firsts, code) + 1
            rest, numbers = code - firsts[count - 2], [0] * count
            for place in reversed(range(count)):
                rest, numbers[place] = divmod(rest, self.limit)
            lists.append(numbers)
        return lists

    def join(self, numbers_NC: Codes) -> Codes:
        """Lists of one length, a row each."""
        codes = self.codes([0] * len(numbers_NC))
        for numbers in numbers_NC.T:
            codes = codes * self.limit + numbers.astype(codes.dtype)
        return codes + self.first(numbers_NC.shape[1])

    def operands(self, codes: Codes) -> Iterator[tuple[str, ...]]:
        return (tuple(to_text(number, self.base) for number in numbers) for numbers in self.split(codes))

    def code(self, operands: tuple[str, ...]) -> int | None:
        numbers = [int(operand, self.base) for operand in operands]
        if not 2 <= len(numbers) <= self.most or max(numbers) >= self.limit:
            return None
        code = 0
        for number in numbers:
            code = code * self.limit + number
        return code + self.first(len(numbers))

    def counts(self, codes: Codes) -> list[int]:
        """How many numbers each has."""
        return [len(numbers) for numbers in self.split(codes)]

    def longest(self, codes: Codes) -> list[int]:
        """Digits of the largest number of each."""
        return [num_digits(max(numbers), self.base) for numbers in self.split(codes)]


@dataclass(frozen=True)
class Line(Domain):
    """One decimal number, from `first` to `last` ten-thousandths."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def key(self) -> tuple[Label, ...]:
        return ("line", self.first, self.last)

    def operands(self, codes: Codes) -> Iterator[tuple[str, ...]]:
        return ((decimal_text(code + self.first),) for code in codes.tolist())

    def code(self, operands: tuple[str, ...]) -> int | None:
        value = parse_decimal(operands[0])
        return value - self.first if value is not None and self.first <= value <= self.last else None
