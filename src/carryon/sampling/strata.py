"""Classes of problems one can draw from: two-digit problems, problems with three carries, …

A stratum knows how many problems it holds and draws them uniformly. Small ones are listed; large ones are
drawn by construction, never by waiting for luck: among 20-digit sums one in 200,000 has 20 carries.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ..operations import Codes, Domain, Lists, Pairs
from ..operations.digits import carries_of_sum
from ..rng import Stream

LISTABLE = 2**21
"""Strata up to this size are kept as a list of codes: all of three-digit arithmetic is."""
_LISTABLE_BIG = 2**14
"""The same where codes outgrow 64 bits and are Python integers."""


def is_listable(domain: Domain, size: int) -> bool:
    return size <= (LISTABLE if domain.size < 2**63 else _LISTABLE_BIG)


class Stratum(ABC):
    @property
    @abstractmethod
    def size(self) -> int:
        """How many problems it holds."""

    @abstractmethod
    def draw(self, stream: Stream, count: int) -> Codes:
        """`count` problems, uniform, repeats included."""


@dataclass(frozen=True)
class Strata:
    """A domain cut into classes: a problem's label names its stratum; of a name that is not here, it is in none."""

    of: Mapping[Any, Stratum]
    label: Callable[[Codes], list[Any]]


@dataclass(frozen=True, eq=False)
class Listed(Stratum):
    codes: Codes

    @property
    def size(self) -> int:
        return len(self.codes)

    def draw(self, stream: Stream, count: int) -> Codes:
        drawn: Codes = self.codes[stream.below(self.size, count)]
        return drawn


@dataclass(frozen=True)
class Whole(Stratum):
    """Every problem of the domain."""

    domain: Domain

    @property
    def size(self) -> int:
        return self.domain.size

    def draw(self, stream: Stream, count: int) -> Codes:
        return stream.below(self.size, count)


@dataclass(frozen=True)
class Lengths(Stratum):
    """One operand with `short` digits and one with `long`, in either order. Zero is a one-digit number."""

    domain: Pairs
    short: int
    long: int

    @property
    def size(self) -> int:
        both: int = self._count(self.short) * self._count(self.long)
        return both if self.short == self.long else 2 * both

    def _first(self, length: int) -> int:
        return 0 if length == 1 else int(self.domain.base ** (length - 1))

    def _count(self, length: int) -> int:
        return int(self.domain.base**length) - self._first(length)

    def draw(self, stream: Stream, count: int) -> Codes:
        a, b = self._draw_number(stream, self.short, count), self._draw_number(stream, self.long, count)
        swap = stream.below(2, count) == 1
        return self.domain.join(np.where(swap, b, a), np.where(swap, a, b))

    @classmethod
    def in_order(cls, domain: Pairs, first: int, second: int, stream: Stream, count: int) -> Codes:
        """Different ones with `first` digits in the first operand; all there are, if they are fewer."""
        lengths = cls(domain, first, second)
        exist = lengths._count(first) * lengths._count(second)
        if exist <= 2 * count:
            a, b = (np.arange(lengths._count(length)) + lengths._first(length) for length in (first, second))
            every = domain.join(np.repeat(a, len(b)), np.tile(b, len(a)))
            return every[stream.permutation(exist)[:count]]
        found: dict[int, None] = {}
        while len(found) < count:
            a, b = (lengths._draw_number(stream, length, count) for length in (first, second))
            found.update(dict.fromkeys(domain.join(a, b).tolist()))
        return domain.codes(list(found)[:count])

    def _draw_number(self, stream: Stream, length: int, count: int) -> Codes:
        offsets = stream.below(self._count(length), count)
        # 19-digit offsets still fit 64 bits where the numbers themselves do not.
        big = self.domain.base**length >= 2**63
        return (offsets.astype(object) if big else offsets) + self._first(length)

    def codes(self) -> Codes:
        a = np.arange(self._count(self.short)) + self._first(self.short)
        b = np.arange(self._count(self.long)) + self._first(self.long)
        codes = self.domain.join(np.repeat(a, len(b)), np.tile(b, len(a)))
        return codes if self.short == self.long else np.concatenate([codes, self.domain.swapped(codes)])


@dataclass(frozen=True)
class Longest(Stratum):
    """The larger operand has `least` to `most` digits."""

    domain: Pairs
    least: int
    most: int

    @property
    def size(self) -> int:
        return int(self.domain.base ** (2 * self.most)) - self._shorter**2

    @property
    def _shorter(self) -> int:
        """Numbers below this have too few digits; zero has one."""
        return 0 if self.least == 1 else int(self.domain.base ** (self.least - 1))

    def draw(self, stream: Stream, count: int) -> Codes:
        limit = self.domain.base**self.most
        a, b = stream.below(limit, count), stream.below(limit, count)
        while len(again := np.flatnonzero((a < self._shorter) & (b < self._shorter))):  # one in base² at most
            a[again], b[again] = stream.below(limit, len(again)), stream.below(limit, len(again))
        return self.domain.join(a, b)


@dataclass(frozen=True)
class Carries(Stratum):
    """Sums with exactly `carries` carries; with `exact`, the larger operand has exactly `digits` digits."""

    domain: Pairs
    digits: int
    carries: int
    exact: bool

    @property
    def size(self) -> int:
        return self._ways(0, 0, self.carries)

    def _ways(self, column: int, carry: int, carries: int) -> int:
        """In how many ways the columns from here on can be filled with this many carries still to come."""
        if carries < 0:
            return 0
        top_is_free = not self.exact or self.digits == 1
        return _ways(self.domain.base, top_is_free, self.digits - column)[carry].get(carries, 0)

    def _is_first_digit(self, column: int) -> bool:
        return self.exact and self.digits > 1 and column == self.digits - 1

    def draw(self, stream: Stream, count: int) -> Codes:
        base = self.domain.base
        dtype = np.int64 if base**self.digits < 2**63 else object
        a, b = np.zeros(count, dtype), np.zeros(count, dtype)
        carry, left = np.zeros(count, np.int64), np.full(count, self.carries)
        for column in range(self.digits):
            on = stream.unit(count) < self._chances(column)[carry, left]
            digits = np.empty((count, 2), np.int64)
            for carry_in in (0, 1):
                ways = _column_ways(base, carry_in, self._is_first_digit(column))
                for carry_out in (0, 1):
                    here = np.flatnonzero((carry == carry_in) & (on == carry_out))
                    pairs = _digit_pairs(base, carry_in)[carry_out]
                    # The pair 0 and 0 is listed last, so that leaving it out is drawing from one fewer.
                    digits[here] = pairs[stream.below(max(ways[carry_out], 1), len(here))]
            a += digits[:, 0].astype(dtype) * base**column
            b += digits[:, 1].astype(dtype) * base**column
            carry, left = on.astype(np.int64), left - on
        return self.domain.join(a, b)

    def _chances(self, column: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Probability that this column passes a carry on, by carry coming in and carries still to come."""
        chances = np.zeros((2, self.carries + 1))
        for carry in (0, 1):
            on = _column_ways(self.domain.base, carry, self._is_first_digit(column))[1]
            for left in range(1, self.carries + 1):
                if ways := self._ways(column, carry, left):
                    chances[carry, left] = on * self._ways(column + 1, 1, left - 1) / ways
        return chances


@dataclass(frozen=True)
class Operands(Stratum):
    """Lists of `count` numbers, the largest of which has `longest` digits.

    Half of them have that length throughout; of the others one does, at any place, and each of the rest is as likely
    to have any length up to it. Drawn uniformly they would nearly all be long.
    """

    domain: Lists
    count: int
    longest: int

    @property
    def size(self) -> int:
        base, shorter = self.domain.base, self.longest - 1
        return int(base ** (self.longest * self.count) - (base ** (shorter * self.count) if shorter else 0))

    def draw(self, stream: Stream, count: int) -> Codes:
        lengths_NC = stream.below(self.longest, count * self.count).reshape(count, self.count) + 1
        lengths_NC[np.arange(count), stream.below(self.count, count)] = self.longest
        lengths_NC[stream.below(2, count) == 0] = self.longest
        base = self.domain.base
        numbers_NC = np.zeros(lengths_NC.shape, np.int64 if base**self.longest < 2**63 else object)
        for length in range(1, self.longest + 1):
            here = lengths_NC == length
            first = base ** (length - 1) if length > 1 else 0
            offsets = stream.below(base**length - first, int(here.sum()))
            numbers_NC[here] = offsets.astype(numbers_NC.dtype) + first
        return self.domain.join(numbers_NC)


@dataclass(frozen=True)
class FullLists(Stratum):
    """Lists of the most numbers there may be, the largest of which has all digits, uniformly."""

    domain: Lists

    @property
    def size(self) -> int:
        return int(self.domain.limit**self.domain.most - self._shorter**self.domain.most)

    @property
    def _shorter(self) -> int:
        return self.domain.limit // self.domain.base if self.domain.limit > self.domain.base else 0

    def draw(self, stream: Stream, count: int) -> Codes:
        shape = (count, self.domain.most)
        numbers_NC = stream.below(self.domain.limit, count * self.domain.most).reshape(shape)
        while len(again := np.flatnonzero(numbers_NC.max(axis=1, initial=0) < self._shorter)):  # 1 in 100 at most
            numbers_NC[again] = stream.below(self.domain.limit, len(again) * self.domain.most).reshape(-1, shape[1])
        return self.domain.join(numbers_NC)


@dataclass(frozen=True)
class AlikeLists(Stratum):
    """Lists of the most numbers there may be, all of which have all digits, uniformly."""

    domain: Lists

    @property
    def size(self) -> int:
        return int((self.domain.limit - self._first) ** self.domain.most)

    @property
    def _first(self) -> int:
        return self.domain.limit // self.domain.base if self.domain.limit > self.domain.base else 0

    def draw(self, stream: Stream, count: int) -> Codes:
        offsets = stream.below(self.domain.limit - self._first, count * self.domain.most)
        return self.domain.join((offsets + self._first).reshape(count, self.domain.most))


@cache
def _ways(base: int, top_is_free: bool, columns: int) -> tuple[dict[int, int], dict[int, int]]:
    """For a carry of 0 and 1 coming in: {carries to come: ways to fill the last `columns` columns}.

    It depends on the columns left and not on those before, so that strata of all lengths share these tables.
    """
    if columns == 0:
        return {0: 1}, {0: 1}
    rest = _ways(base, top_is_free, columns - 1)
    tables = []
    for carry in (0, 1):
        off, on = _column_ways(base, carry, columns == 1 and not top_is_free)
        table: dict[int, int] = {}
        for carries, ways in rest[0].items():
            table[carries] = table.get(carries, 0) + off * ways
        for carries, ways in rest[1].items():
            table[carries + 1] = table.get(carries + 1, 0) + on * ways
        tables.append(table)
    return tables[0], tables[1]


def _column_ways(base: int, carry: int, is_first_digit: bool) -> tuple[int, int]:
    """Digit pairs of one column that pass no carry on, and that do."""
    on = base * (base - 1) // 2 + carry * base
    return base**2 - on - is_first_digit, on  # 0 and 0 would make the number shorter


@cache
def _digit_pairs(base: int, carry: int) -> tuple[Codes, Codes]:
    """Pairs of digits that pass no carry on, and that do, when `carry` comes in."""
    pairs = np.array([(x, y) for x in reversed(range(base)) for y in reversed(range(base))])
    on = pairs.sum(axis=1) + carry >= base
    return pairs[~on], pairs[on]


# --- a domain cut into strata -------------------------------------------------------------------------------------


def whole(domain: Domain) -> Strata:
    """All in one."""
    stratum = Listed(np.arange(domain.size)) if is_listable(domain, domain.size) else Whole(domain)
    return Strata({"all": stratum}, lambda codes: ["all"] * len(codes))


def by_lengths(domain: Pairs, digits: int) -> Strata:
    """(1, 1), (1, 2), (2, 2), (1, 3), …: problems by the lengths of both operands, the shorter first."""
    strata: dict[Hashable, Stratum] = {
        (short, long): of_lengths(domain, short, long) for long in range(1, digits + 1) for short in range(1, long + 1)
    }

    def label(codes: Codes) -> list[Any]:
        a, b = domain.lengths(codes)
        return list(zip(np.minimum(a, b).tolist(), np.maximum(a, b).tolist(), strict=True))

    return Strata(strata, label)


def of_lengths(domain: Pairs, short: int, long: int) -> Stratum:
    """Problems with one operand of `short` digits and one of `long`."""
    stratum = Lengths(domain, short, long)
    return Listed(stratum.codes()) if is_listable(domain, stratum.size) else stratum


def longest(domain: Pairs, least: int, most: int) -> Stratum:
    """Problems whose larger operand has `least` to `most` digits."""
    listed = _listed_up_to(domain, most)
    if listed is None:
        return Longest(domain, least, most)
    return Listed(listed[domain.longest(listed) >= least])


def by_digits(domain: Pairs, digits: int) -> Strata:
    """1, 2, …: problems by the digits of the larger operand."""
    strata = {length: longest(domain, length, length) for length in range(1, digits + 1)}
    return Strata(strata, lambda codes: domain.longest(codes).tolist())


def one_digit_and_longer(domain: Pairs, digits: int) -> Strata:
    return Strata(
        {"one digit": longest(domain, 1, 1), "longer": longest(domain, 2, digits)},
        lambda codes: ["one digit" if length == 1 else "longer" for length in domain.longest(codes).tolist()],
    )


def by_carries(domain: Pairs, digits: int) -> Strata:
    """0, 1, …: problems by the carries of their sum."""

    def label(codes: Codes) -> list[Any]:
        labels: list[Any] = carries_of_sum(*domain.split(codes), domain.base).tolist()
        return labels

    listed = _listed_up_to(domain, digits)
    if listed is None:
        return Strata({c: Carries(domain, digits, c, exact=False) for c in range(digits + 1)}, label)
    labels = carries_of_sum(*domain.split(listed), domain.base)
    return Strata({c: Listed(listed[labels == c]) for c in range(digits + 1)}, label)


@lru_cache(maxsize=2)
def by_digits_and_carries(domain: Pairs, digits: int) -> Strata:
    """(digits of the larger operand, carries of the sum)."""

    def label(codes: Codes) -> list[Any]:
        carries = carries_of_sum(*domain.split(codes), domain.base)
        return list(zip(domain.longest(codes).tolist(), carries.tolist(), strict=True))

    strata: dict[Hashable, Stratum] = {}
    for length in range(1, digits + 1):
        listed = _listed_up_to(domain, length)
        if listed is None:
            strata |= {(length, c): Carries(domain, length, c, exact=True) for c in range(length + 1)}
        else:
            listed = listed[domain.longest(listed) == length]
            labels = carries_of_sum(*domain.split(listed), domain.base)
            strata |= {(length, c): Listed(listed[labels == c]) for c in range(length + 1)}
    return Strata(strata, label)


def by_operands(domain: Lists, digits: int) -> Strata:
    """(2, 1), (2, 2), …, (3, 1), …: lists by how many numbers they have and the digits of the largest."""
    strata = {
        (count, longest): Operands(domain, count, longest)
        for count in range(2, domain.most + 1)
        for longest in range(1, digits + 1)
    }
    return Strata(strata, lambda codes: list(zip(domain.counts(codes), domain.longest(codes), strict=True)))


def listed_by_label(strata: Strata, codes: Codes) -> Strata:
    """The same classes, holding these problems alone."""
    members: dict[Any, list[int]] = {key: [] for key in strata.of}
    for place, label in enumerate(strata.label(codes)):
        if label in members:
            members[label].append(place)
    return Strata({key: Listed(codes[np.array(places, np.int64)]) for key, places in members.items()}, strata.label)


def _listed_up_to(domain: Pairs, digits: int) -> Codes | None:
    """All pairs with at most this many digits, if they are few enough to list."""
    limit = domain.base**digits
    if not is_listable(domain, limit**2):
        return None
    numbers = np.arange(limit)
    return domain.join(np.repeat(numbers, limit), np.tile(numbers, limit))
