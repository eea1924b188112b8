"""What training must not see: test problems, hidden numbers, digits and lengths."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import ExcludeConfig
from ..errors import OutOfProblems, Unsupported
from ..operations import Codes, Domain, Pairs
from ..operations.digits import num_digits
from ..rng import Label, Stream
from .strata import LISTABLE, is_listable

Mask = NDArray[np.bool_]


class Barred:
    """Problems that may not be drawn, by code (`avoid`) or by what they contain (`exclude`, `numbers`)."""

    def __init__(
        self, domain: Domain, avoid: Codes, exclude: ExcludeConfig | None = None, numbers: Iterable[int] = ()
    ) -> None:
        self.domain = domain
        self.exclude = exclude or ExcludeConfig()
        self.numbers = sorted({*numbers, *self.exclude.listed})
        self.avoid = avoid
        self._avoid = _Membership(avoid.tolist())
        self._hidden = _Membership(self.numbers)
        self.excludes = bool(self.numbers) or not self.exclude.is_empty

    def allows(self, codes: Codes) -> Mask:
        """Which of these may be drawn."""
        return ~self._avoid.of(codes) & self.shows(codes)

    def shows(self, codes: Codes) -> Mask:
        """Which of these contain nothing that is hidden."""
        shown = np.ones(len(codes), bool)
        if self.excludes and isinstance(self.domain, Pairs):
            for operand in self.domain.split(codes):
                shown &= ~self._hides(operand)
        return shown

    def all_shown(self) -> Codes | None:
        """Every problem without anything hidden, if something is hidden and few enough are left to list."""
        if not (self.excludes and isinstance(self.domain, Pairs) and self.domain.limit <= LISTABLE):
            return None
        numbers = np.arange(self.domain.limit)
        numbers = numbers[~self._hides(numbers)]
        if not is_listable(self.domain, len(numbers) ** 2):
            return None
        return self.domain.join(np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers)))

    def _hides(self, operand: Codes) -> Mask:
        assert isinstance(self.domain, Pairs)
        base, exclude = self.domain.base, self.exclude
        hidden = self._hidden.of(operand)
        if exclude.position is not None:
            place = base ** (exclude.position - 1)
            there = (operand >= place) | (exclude.position == 1)  # 57 has no third digit, not a third digit 0
            hidden |= (there & (operand // place % base == exclude.digit)).astype(bool)
        if exclude.lengths:
            hidden |= np.isin(num_digits(operand, base).astype(np.int64), exclude.lengths)
        return hidden


class _Membership:
    """`x in set` for arrays: numpy's where the numbers fit 64 bits, Python's beyond."""

    def __init__(self, values: list[int]) -> None:
        self._set = set(values)
        fits = all(-(2**63) <= value < 2**63 for value in values)
        self._array: NDArray[Any] | None = np.array(sorted(self._set), np.int64) if fits else None

    def of(self, values: Codes) -> Mask:
        if not self._set:
            return np.zeros(len(values), bool)
        if values.dtype == object or self._array is None:
            return np.fromiter((value in self._set for value in values.tolist()), bool, len(values))
        return np.isin(values, self._array)


def random_numbers(domain: Pairs, count: int, *labels: Label) -> list[int]:
    """`count` numbers of full length, at random; fewer are the first of more."""
    first, exist = _full_length(domain)
    if count > exist:
        raise OutOfProblems(count, exist, "numbers of full length, to exclude", what="numbers")
    stream = Stream("excluded numbers", domain.key, *labels)
    if exist <= LISTABLE:
        return (stream.permutation(exist)[:count] + first).tolist()  # type: ignore[no-any-return]
    found: dict[int, None] = {}
    while len(found) < count:
        found.update(dict.fromkeys((stream.below(exist, 1024) + first).tolist()))
    return list(found)[:count]


def rarest_numbers(domain: Pairs, count: int, codes: Codes, *labels: Label) -> list[int]:
    """The `count` numbers of full length that are operands least often in `codes`; ties fall at random.

    The paper says it excludes random numbers; the released data excludes these. They depend on the training set they
    are counted in, so that sets of different sizes made this way are not nested.
    """
    if domain.limit > LISTABLE:
        raise Unsupported("the rarest numbers can be told up to 6 digits: choose random ones")
    _, exist = _full_length(domain)
    candidates = random_numbers(domain, max(count, exist), *labels)
    a, b = domain.split(codes)
    times = np.bincount(np.concatenate([a, b]), minlength=domain.limit)
    return sorted(candidates, key=lambda number: int(times[number]))[:count]


def _full_length(domain: Pairs) -> tuple[int, int]:
    """The first number of full length and how many there are; a table has all its numbers to choose from."""
    digits = num_digits(domain.limit - 1, domain.base)
    first = domain.base ** (digits - 1) if domain.limit == domain.base**digits and digits > 1 else 0
    return first, domain.limit - first


def excluded_numbers(domain: Domain, exclude: ExcludeConfig, codes: Codes | None, *labels: Label) -> list[int]:
    """The numbers that a config hides; `codes` is the training set without exclusions, for the rarest."""
    if not exclude.numbers:
        return []
    assert isinstance(domain, Pairs)
    if codes is None:
        return random_numbers(domain, exclude.numbers, *labels)
    return rarest_numbers(domain, exclude.numbers, codes, *labels)
