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
from .strata import LISTABLE

Mask = NDArray[np.bool_]


class Barred:
    """Problems that may not be drawn, by code (`avoid`) or by what they contain (`exclude`, `numbers`)."""

    def __init__(
        self, domain: Domain, avoid: Codes, exclude: ExcludeConfig | None = None, numbers: Iterable[int] = ()
    ) -> None:
        self.domain = domain
        self.exclude = exclude or ExcludeConfig()
        self.numbers = sorted({*numbers, *self.exclude.listed})
        self._avoid = _Membership(avoid.tolist())
        self._hidden = _Membership(self.numbers)
        self.num_avoided = len(avoid)
        self.excludes = bool(self.numbers) or not self.exclude.is_empty

    def allows(self, codes: Codes) -> Mask:
        """Which of these may be drawn."""
        allowed = ~self._avoid.of(codes)
        if self.excludes and isinstance(self.domain, Pairs):
            for operand in self.domain.split(codes):
                allowed &= ~self._hides(operand)
        return allowed

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


def random_numbers(domain: Pairs, digits: int, count: int, *labels: Label) -> list[int]:
    """`count` numbers of full length, at random; fewer are the first of more."""
    first = 0 if digits == 1 else domain.base ** (digits - 1)
    exist = domain.limit - first
    if count > exist:
        raise OutOfProblems(count, exist, f"numbers of {digits} digits to exclude")
    stream = Stream("excluded numbers", domain.key, *labels)
    if exist <= LISTABLE:
        return (stream.permutation(exist)[:count] + first).tolist()  # type: ignore[no-any-return]
    found: dict[int, None] = {}
    while len(found) < count:
        found.update(dict.fromkeys((stream.below(exist, 1024) + first).tolist()))
    return list(found)[:count]


def rarest_numbers(domain: Pairs, digits: int, count: int, codes: Codes, *labels: Label) -> list[int]:
    """The `count` numbers of full length that are operands least often in `codes`; ties fall at random.

    The paper says it excludes random numbers; the released data excludes these.
    """
    candidates = random_numbers(domain, digits, domain.limit - domain.limit // domain.base, *labels)
    a, b = domain.split(codes)
    times = np.bincount(np.concatenate([a, b]), minlength=domain.limit)
    return sorted(candidates, key=lambda number: int(times[number]))[:count]


def excluded_numbers(
    domain: Domain, digits: int, exclude: ExcludeConfig, codes: Codes | None, *labels: Label
) -> list[int]:
    """The numbers that a config hides; `codes` is the training set without exclusions, for the rarest."""
    if not exclude.numbers:
        return []
    assert isinstance(domain, Pairs)
    if exclude.choice == "random":
        return random_numbers(domain, digits, exclude.numbers, *labels)
    if domain.limit > LISTABLE or codes is None:
        raise Unsupported(f"the rarest numbers can be told up to 6 digits, not {digits}: choose random ones")
    return rarest_numbers(domain, digits, exclude.numbers, codes, *labels)
