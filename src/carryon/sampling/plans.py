"""Which problems a training set holds: the samplers, as plans of how many to take from which stratum.

A plan's counts never fall as the set grows, stratum by stratum, so that the sets of a family are nested:
the 1,000 examples are among the 10,000.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import UnknownName, Unsupported
from ..operations import Codes, Domain, Lists, Operation, Pairs
from ..operations.digits import num_digits
from ..operations.multiplication import Multiplication
from .strata import (
    AlikeLists,
    FullLists,
    Strata,
    by_carries,
    by_digits,
    by_digits_and_carries,
    by_lengths,
    by_operands,
    longest,
    of_lengths,
    one_digit_and_longer,
    whole,
)

Counts = Mapping[Any, int]
Goals = dict[str, dict[str, int]]

MAX_CARRY_DIGITS, MAX_PAIR_DIGITS = 100, 300
"""Samplers that go by digits and carries, or by pairs of lengths, have D²/2 classes: beyond this, too many."""
MAX_OPERAND_CLASSES = 10_000
"""The same of one that goes by operands and digits."""


@dataclass(frozen=True)
class Plan:
    strata: Strata
    allot: Callable[[int, Counts], Counts]
    """How many to take from each stratum for a set of this size, given how many each can give."""
    goals: Callable[[int], Goals] = field(default=lambda size: {})
    """What a set of this size should hold by the sampler's own rule, where the domain is rich enough."""
    length: Callable[[Any], int] | None = None
    """Digits of the longer operand in a stratum, by its key, where all of them have as many."""


def deal(size: int, capacity: Counts, order: list[Any]) -> Counts:
    """Equal shares for all, what one cannot give going to the others; the remainder one each, in `order`."""
    counts = dict.fromkeys(order, 0)
    open_keys = [key for key in order if capacity[key]]
    while size and open_keys:
        share = min(size // len(open_keys), *(capacity[key] - counts[key] for key in open_keys))
        takers = open_keys if share else open_keys[:size]
        for key in takers:
            counts[key] += max(share, 1)
        size -= max(share, 1) * len(takers)
        open_keys = [key for key in open_keys if counts[key] < capacity[key]]
    return counts


def uniform(domain: Domain, operation: Operation, digits: int) -> Plan:
    """Every problem with the same probability: one in 10,000 three-digit problems has two one-digit operands."""
    strata = whole(domain)
    if isinstance(domain, Pairs) and domain.base**digits < domain.limit:
        strata = Strata({"all": longest(domain, 1, digits)}, strata.label)
    return Plan(strata, lambda size, capacity: {"all": min(size, capacity["all"])})


def full_length(domain: Domain, operation: Operation, digits: int) -> Plan:
    """Every problem whose longer operand has all digits, with the same probability; of lists, such of most operands."""
    if isinstance(domain, Lists):
        whole_lists = Strata({"all": FullLists(domain)}, _of_full_lists(domain, digits))
        return Plan(whole_lists, lambda size, capacity: {"all": min(size, capacity["all"])})
    pairs = _pairs(domain)

    def label(codes: Codes) -> list[Any]:
        return ["all" if length == digits else None for length in pairs.longest(codes).tolist()]

    strata = Strata({"all": longest(pairs, digits, digits)}, label)
    return Plan(strata, lambda size, capacity: {"all": min(size, capacity["all"])})


def both_full_length(domain: Domain, operation: Operation, digits: int) -> Plan:
    """Every problem whose operands both have all digits, with the same probability; of lists, such of most operands."""
    if isinstance(domain, Lists):
        lists = domain

        def label_list(codes: Codes) -> list[Any]:
            full = (domain.most, {digits})
            return ["all" if (len(o), set(map(len, o))) == full else None for o in lists.operands(codes)]

        alike = Strata({"all": AlikeLists(domain)}, label_list)
        return Plan(alike, lambda size, capacity: {"all": min(size, capacity["all"])})
    pairs = _pairs(domain)

    def label(codes: Codes) -> list[Any]:
        a, b = pairs.lengths(codes)
        return ["all" if length == digits else None for length in np.minimum(a, b).tolist()]

    strata = Strata({"all": of_lengths(pairs, digits, digits)}, label)
    return Plan(strata, lambda size, capacity: {"all": min(size, capacity["all"])})


def balanced_full_length(domain: Domain, operation: Operation, digits: int) -> Plan:
    """Problems whose longer operand has all digits, the same number for each length of the other."""
    lengths = by_lengths(_pairs(domain), _few_digits(digits, MAX_PAIR_DIGITS, "full_length"))
    strata = Strata({key: stratum for key, stratum in lengths.of.items() if key[1] == digits}, lengths.label)
    return Plan(
        strata,
        lambda size, capacity: deal(size, capacity, list(reversed(list(strata.of)))),
        lambda size: {"lengths": {f"{short}+{long}": size // digits for short, long in strata.of}},
    )


def revealed(domain: Domain, operation: Operation, digits: int) -> Plan:
    """Entries of the n x n table, uniformly: the domain is the table."""
    return uniform(domain, operation, digits)


def balanced_lengths(domain: Domain, operation: Operation, digits: int) -> Plan:
    """All one-digit problems, then the same number for every pair of lengths.

    The paper's rule for many digits: d = floor((N-100) / (D(D+1)/2-1)) for each pair. A pair gives what it has;
    what is missing or left over goes to the others, longest first. A one-digit number may be zero.
    """
    domain = _pairs(domain)
    strata = by_lengths(domain, _few_digits(digits, MAX_PAIR_DIGITS, "equal_lengths or uniform"))
    order = [key for key in reversed(list(strata.of)) if key != (1, 1)]

    def allot(size: int, capacity: Counts) -> Counts:
        ones = min(size, capacity[1, 1])
        return {(1, 1): ones, **deal(size - ones, capacity, order)}

    def goals(size: int) -> Goals:
        ones = min(size, domain.base**2)
        share = (size - ones) // max(len(order), 1)
        return {"lengths": {"1+1": ones} | {f"{short}+{long}": share for short, long in reversed(order)}}

    return Plan(strata, allot, goals, length=max)


def equal_lengths(domain: Domain, operation: Operation, digits: int) -> Plan:
    """The same number for each length of the longer operand, as far as they go: there are 100 one-digit problems."""
    domain = _pairs(domain)
    strata = by_digits(domain, digits)
    return Plan(
        strata,
        lambda size, capacity: deal(size, capacity, list(reversed(list(strata.of)))),
        lambda size: {"digits": {str(length): size // digits for length in strata.of}},
        length=int,
    )


def equal_operands(domain: Domain, operation: Operation, digits: int) -> Plan:
    """The same number for each count of operands and each length of the longest, as far as they go.

    Half of them have operands of one length, of the others every length up to the longest is as likely.
    """
    if not isinstance(domain, Lists):
        raise Unsupported("equal_operands is for sums of more than 2 numbers: use uniform or equal_lengths")
    if (classes := (domain.most - 1) * digits) > MAX_OPERAND_CLASSES:
        raise Unsupported(
            f"equal_operands would have {classes:,} classes of operands and digits, at most {MAX_OPERAND_CLASSES:,}: "
            "use uniform"
        )
    strata = by_operands(domain, digits)
    return Plan(
        strata, lambda size, capacity: deal(size, capacity, list(reversed(list(strata.of)))), length=lambda key: key[1]
    )


def balanced_carries(domain: Domain, operation: Operation, digits: int) -> Plan:
    """The same number with each count of carries, digits as they come."""
    domain = _pairs(domain)
    if isinstance(operation, Multiplication):
        raise Unsupported("balanced_carries balances the carries of sums; multiply has balanced and balanced_lengths")
    strata = by_carries(domain, _few_digits(digits, MAX_CARRY_DIGITS, "balanced_lengths or equal_lengths"))
    return Plan(
        strata,
        lambda size, capacity: deal(size, capacity, list(reversed(list(strata.of)))),
        lambda size: {"carries": {str(carries): size // (digits + 1) for carries in strata.of}},
    )


def balanced_digits(domain: Domain, operation: Operation, digits: int) -> Plan:
    """All one-digit problems, shorter lengths as often as among single numbers, the rest of full length.

    For three digits: 100, floor(0.09 N), the rest. Carries as they come.
    """
    domain = _pairs(domain)
    strata = by_digits(domain, digits)

    def allot(size: int, capacity: Counts) -> Counts:
        counts = dict.fromkeys(strata.of, 0)
        for total in range(1, size + 1):
            length = next((d for d in _lengths_due(total, counts, domain.base) if counts[d] < capacity[d]), None)
            if length is None:
                break
            counts[length] += 1
        return counts

    return Plan(strata, allot, lambda size: {"digits": _digit_goals(size, digits, domain.base)})


def balanced(domain: Domain, operation: Operation, digits: int) -> Plan:
    """Balanced by digits and by carries at once: the paper's default.

    10,000 three-digit sums are 100 / 900 / 9,000 by digits and 2,500 with each of 0, 1, 2 and 3 carries.
    Problems are added one at a time, each to the length that is due and to the count of carries that is
    furthest behind, so that both rules hold at every size from 500 on and smaller sets lie inside larger ones.
    Lengths below the full one take carries as they come. For products: all one-digit ones, then uniform.
    """
    domain = _pairs(domain)
    if isinstance(operation, Multiplication):
        return _one_digit_first(domain, digits)
    strata = by_digits_and_carries(domain, _few_digits(digits, MAX_CARRY_DIGITS, "balanced_lengths or equal_lengths"))
    exist = {length: sum(strata.of[length, c].size for c in range(length + 1)) for length in range(1, digits + 1)}
    natural = {(length, c): stratum.size / exist[length] for (length, c), stratum in strata.of.items()}
    # Until here the one-digit problems, which have few carries, outweigh the rest, and no balance can be kept.
    settled = 5 * domain.base**2

    def allot(size: int, capacity: Counts) -> Counts:
        counts = dict.fromkeys(strata.of, 0)
        lengths = dict.fromkeys(range(1, digits + 1), 0)
        carries = [0] * (digits + 1)
        # How far the shorter lengths are behind their natural share of each count of carries.
        behind = [0.0] * digits + [float("-inf")]

        def pick(total: int, length: int) -> int | None:
            """The count of carries that the next problem of this length should have."""
            free = [c for c in range(length + 1) if counts[length, c] < capacity[length, c]]
            if not free or not 1 < length < digits:
                # Furthest behind; of several, one that the shorter lengths need least or cannot have.
                return min(free, key=lambda c: (carries[c], behind[c]), default=None)
            quota = -(-max(total, settled) // (digits + 1))
            below_quota = [c for c in free if carries[c] < quota] or free
            return max(below_quota, key=lambda c: natural[length, c] * (lengths[length] + 1) - counts[length, c])

        for total in range(1, size + 1):
            for length in _lengths_due(total, lengths, domain.base):
                c = pick(total, length)
                if c is not None:
                    counts[length, c] += 1
                    lengths[length] += 1
                    carries[c] += 1
                    if 1 < length < digits:
                        behind[c] -= 1
                        for k in range(length + 1):
                            behind[k] += natural[length, k]
                    break
            else:
                break
        return counts

    def goals(size: int) -> Goals:
        return {
            "digits": _digit_goals(size, digits, domain.base),
            "carries": {str(c): size // (digits + 1) for c in range(digits + 1)},
        }

    return Plan(strata, allot, goals)


def _one_digit_first(domain: Pairs, digits: int) -> Plan:
    """What the paper does for products: all 100 of one digit, then random ones of up to D."""

    def allot(size: int, capacity: Counts) -> Counts:
        ones = min(size, capacity["one digit"])
        return {"one digit": ones, "longer": min(size - ones, capacity["longer"])}

    return Plan(one_digit_and_longer(domain, digits), allot)


def _lengths_due(total: int, counts: Mapping[int, int], base: int) -> Iterator[int]:
    """The lengths that the `total`-th problem may have, the one that is due first."""
    digits = len(counts)
    if counts[1] < base**2:
        yield 1
    for length in range(2, digits):
        if counts[length] < _share(total, length, digits, base):
            yield length
    yield from range(digits, 0, -1)


def _share(size: int, length: int, digits: int, base: int) -> int:
    """Of `size` numbers below base**digits, how many have this length: floor(0.09 N) for 2 of 3 digits."""
    return int(size * (base - 1) * base ** (length - 1) // base**digits)


def _digit_goals(size: int, digits: int, base: int) -> dict[str, int]:
    if digits == 1:
        return {"1": size}
    goals = {1: min(size, base**2)}
    for length in range(2, digits):
        goals[length] = min(_share(size, length, digits, base), size - sum(goals.values()))
    return {str(length): goal for length, goal in {**goals, digits: size - sum(goals.values())}.items()}


def _of_full_lists(domain: Lists, digits: int) -> Callable[[Codes], list[Any]]:
    def label(codes: Codes) -> list[Any]:
        both = zip(domain.counts(codes), domain.longest(codes), strict=True)
        return ["all" if here == (domain.most, digits) else None for here in both]

    return label


def _pairs(domain: Domain) -> Pairs:
    """The domain, for samplers that go by digits."""
    if isinstance(domain, Lists):
        raise Unsupported(
            "this sampler goes by two operands; more have equal_operands, uniform, full_length and both_full_length"
        )
    if not isinstance(domain, Pairs):
        raise Unsupported("this sampler goes by digits and carries; sine and sqrt have the sampler uniform")
    if domain.limit != domain.base ** num_digits(domain.limit - 1, domain.base):
        raise Unsupported(f"a table of {domain.limit} numbers has the samplers uniform and revealed")
    return domain


def _few_digits(digits: int, most: int, instead: str) -> int:
    if digits > most:
        raise Unsupported(f"this sampler goes up to {most} digits, not {digits}: use {instead}")
    return digits


SAMPLERS: dict[str, Callable[[Domain, Operation, int], Plan]] = {
    "uniform": uniform,
    "full_length": full_length,
    "both_full_length": both_full_length,
    "balanced_full_length": balanced_full_length,
    "balanced_digits": balanced_digits,
    "balanced_carries": balanced_carries,
    "balanced": balanced,
    "balanced_lengths": balanced_lengths,
    "equal_lengths": equal_lengths,
    "equal_operands": equal_operands,
    "revealed": revealed,
}


def make_plan(sampler: str, domain: Domain, operation: Operation, digits: int | None = None) -> Plan:
    """A sampler's plan; `digits` is the longest operand wanted, if that is shorter than the domain's."""
    if sampler not in SAMPLERS:
        raise UnknownName("sampler", sampler, SAMPLERS)
    if digits is None:
        digits = num_digits(domain.limit - 1, domain.base) if isinstance(domain, Pairs | Lists) else 1
    return SAMPLERS[sampler](domain, operation, digits)
