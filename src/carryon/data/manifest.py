"""What a data set holds, as counted: the proof that travels with it."""

from collections.abc import Mapping
from itertools import combinations
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ..config import Config, DataConfig, FormName
from ..operations import Codes, Domain, IntegerOperation, Lists, Operation, Pairs
from ..operations.addition import Addition
from .splits import SPLITS, Splits

Tally = dict[Annotated[str, Field(pattern=r"^[0-9]+(\+[0-9]+)?$")], int]
"""Counts by a number, or by two lengths: {"3": 9000} or {"1+2": 183}."""


class SplitRecord(Config):
    file: str
    bytes: int
    sha256: str
    """Of the file."""
    content: str
    """Of the examples in their order, the same in every kind of file."""
    examples: int
    characters: int
    duplicates: int
    """Problems that occur more than once."""
    digits: Tally
    """Examples by the digits of the largest operand; empty for sine and sqrt."""
    carries: Tally
    """Examples by carries (for subtract, the borrows of larger minus smaller); empty for more than two operands."""
    operands: Tally = Field(default_factory=dict)
    """Examples by how many operands they have, where these are more than two."""


class Manifest(Config):
    schema_number: Literal[1] = 1
    """Goes up when the meaning of these fields changes."""
    carryon: str
    """The version that made it."""
    config: DataConfig
    seed: int
    """Which training sample."""
    form: FormName
    splits: dict[str, SplitRecord]
    overlap: dict[str, int]
    """Problems that two splits share, as counted."""
    swapped: dict[str, int]
    """Held-out problems that occur in training with their operands swapped."""
    excluded_numbers: tuple[int, ...]
    goals: dict[str, Tally]
    """What the sampler's rule asks of the training set."""
    missed: dict[str, Tally]
    """Where the training set departs from that, and by how much (given - asked)."""
    notes: tuple[str, ...]
    """What a small domain could not give."""


def count_strata(operation: Operation, domain: Domain, codes: Codes) -> dict[str, dict[str, int]]:
    """Examples by digits and by carries; with more than two operands, by digits and by operands."""
    if isinstance(domain, Lists):
        return {
            "digits": _tally(np.array(domain.longest(codes))),
            "carries": {},
            "operands": _tally(np.array(domain.counts(codes))),
        }
    if not (isinstance(domain, Pairs) and isinstance(operation, IntegerOperation)):
        return {"digits": {}, "carries": {}, "operands": {}}
    return {
        "digits": _tally(domain.longest(codes)),
        "carries": _tally(operation.carries(*domain.split(codes))),
        "operands": {},
    }


def count_lengths(domain: Pairs, codes: Codes) -> dict[str, int]:
    """Examples by the lengths of both operands, the shorter first: {"1+2": 45, …}."""
    a, b = (lengths.astype(np.int64) for lengths in domain.lengths(codes))
    pairs, counts = np.unique(np.stack([np.minimum(a, b), np.maximum(a, b)], axis=1), axis=0, return_counts=True)
    return {f"{short}+{long}": count for (short, long), count in zip(pairs.tolist(), counts.tolist(), strict=True)}


def count_duplicates(codes: Codes) -> int:
    return len(codes) - len(set(codes.tolist()))


def count_overlap(splits: Mapping[str, Codes]) -> dict[str, int]:
    """Problems in common, for every two splits."""
    sets = {name: set(codes.tolist()) for name, codes in splits.items()}
    return {f"{one} & {other}": len(sets[one] & sets[other]) for one, other in combinations(sets, 2)}


def count_swapped(domain: Domain, splits: Mapping[str, Codes]) -> dict[str, int]:
    """Problems of a held-out split whose swapped twin, other than itself, was trained on."""
    if not isinstance(domain, Pairs):
        return {}
    train = set(splits["train"].tolist())
    counts = {}
    for name in SPLITS[1:]:
        codes = splits[name]
        twins = domain.swapped(codes)
        counts[name] = sum(twin in train for twin in twins[twins != codes].tolist())
    return counts


def missed_goals(splits: Splits) -> dict[str, dict[str, int]]:
    """Where the training set departs from its sampler's rule by more than rounding."""
    if not splits.goals or not isinstance(splits.domain, Pairs):
        return {}
    # The rule speaks of the carries of sums, also for subtraction, which uses the same pairs of operands.
    counts = count_strata(Addition(splits.config.base), splits.domain, splits.train)
    counts["lengths"] = count_lengths(splits.domain, splits.train)
    missed: dict[str, dict[str, int]] = {}
    for kind, goals in splits.goals.items():
        for label, goal in goals.items():
            difference = counts[kind].get(label, 0) - goal
            # A goal is rounded down, and what is left over goes to some of the classes, one each.
            if difference not in (0, 1):
                missed.setdefault(kind, {})[label] = difference
    return missed


def _tally(labels: Any) -> dict[str, int]:
    values, counts = np.unique(labels.astype(np.int64), return_counts=True)
    return {str(value): count for value, count in zip(values.tolist(), counts.tolist(), strict=True)}
