"""Plans carried out: distinct problems for finite sets, blocks without end for sampling on the fly."""

import numpy as np

from ..errors import OutOfProblems
from ..operations import Codes
from ..rng import Label, Stream
from .exclusions import Barred
from .plans import Plan
from .strata import Listed, Stratum

_FIRST_BATCH, _LARGEST_BATCH = 2**10, 2**17
_PATIENCE = 8
"""Batches in a row without one new problem before a stratum counts as exhausted."""


class Drawing:
    """A plan and what it may not draw."""

    def __init__(self, plan: Plan, barred: Barred) -> None:
        self._plan = plan
        self._domain = barred.domain
        self._pools = {key: _pool(stratum, barred) for key, stratum in plan.strata.items()}
        self._capacity = {key: pool.capacity for key, pool in self._pools.items()}

    def distinct(self, size: int, *labels: Label) -> Codes:
        """`size` different problems by the plan, shuffled. Equal labels: a smaller set is part of a larger one."""
        parts = [
            self._pools[key].distinct(count, Stream(*labels, self._domain.key, str(key)))
            for key, count in self._counts(size).items()
        ]
        return np.concatenate(parts)[Stream(*labels, "order").permutation(size)]

    def block(self, size: int, *labels: Label) -> Codes:
        """`size` problems in the plan's proportions, repeats allowed: what endless sampling is made of."""
        parts = [
            self._pools[key].draw(count, Stream(*labels, self._domain.key, str(key)))
            for key, count in self._counts(size).items()
        ]
        return np.concatenate(parts)[Stream(*labels, "order").permutation(size)]

    def _counts(self, size: int) -> dict[object, int]:
        exist = sum(self._capacity.values())
        if size > exist:
            raise OutOfProblems(size, exist, "after the test and validation sets and what is excluded")
        counts = {key: count for key, count in self._plan.allot(size, self._capacity).items() if count}
        assert sum(counts.values()) == size, "a plan hands out all that there is"
        return counts or {next(iter(self._pools)): 0}


def _pool(stratum: Stratum, barred: Barred) -> "_ListedPool | _DrawnPool":
    return _ListedPool(stratum, barred) if isinstance(stratum, Listed) else _DrawnPool(stratum, barred)


class _ListedPool:
    """The allowed problems of a listed stratum."""

    def __init__(self, stratum: Listed, barred: Barred) -> None:
        self._num_listed = stratum.size
        self._allowed = barred.allows(stratum.codes)
        self._codes = stratum.codes[self._allowed]
        self.capacity = len(self._codes)

    def distinct(self, count: int, stream: Stream) -> Codes:
        """The codes with the `count` smallest random keys, in their order: sorting all would take ten times as long.

        Barred problems have keys too, so that the others keep their order whatever is barred.
        """
        keys = stream.words(self._num_listed)[self._allowed]
        least = np.argpartition(keys, count)[:count] if count < self.capacity else np.arange(self.capacity)
        taken: Codes = self._codes[least[np.argsort(keys[least], kind="stable")]]
        return taken

    def draw(self, count: int, stream: Stream) -> Codes:
        drawn: Codes = self._codes[stream.below(self.capacity, count)]
        return drawn


class _DrawnPool:
    """A stratum too large to list: draws that are barred are drawn again."""

    def __init__(self, stratum: Stratum, barred: Barred) -> None:
        self._stratum, self._barred = stratum, barred
        # A floor: all that is avoided might lie here.
        self.capacity = max(0, stratum.size - barred.num_avoided)
        if barred.excludes and not barred.allows(stratum.draw(Stream("probe"), _FIRST_BATCH)).any():
            self.capacity = 0  # a hidden length, say

    def distinct(self, count: int, stream: Stream) -> Codes:
        found: dict[int, None] = {}
        barren, size = 0, _FIRST_BATCH
        while len(found) < count:
            # Batches grow by a fixed schedule, not with `count`: the order stays the same for every count.
            batch = self._stratum.draw(stream, size)
            size = min(2 * size, _LARGEST_BATCH)
            before = len(found)
            found.update(dict.fromkeys(batch[self._barred.allows(batch)].tolist()))
            barren = 0 if len(found) > before else barren + 1
            if barren == _PATIENCE:
                raise OutOfProblems(count, len(found), "in one class of the sampler, after what is excluded")
        return self._barred.domain.codes(list(found)[:count])

    def draw(self, count: int, stream: Stream) -> Codes:
        codes = self._stratum.draw(stream, count)
        while len(again := np.flatnonzero(~self._barred.allows(codes))):
            codes[again] = self._stratum.draw(stream, len(again))
        return codes
