"""Plans carried out: distinct problems for finite sets, blocks without end for sampling on the fly."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import OutOfProblems
from ..operations import Codes
from ..rng import Label, Stream
from .exclusions import Barred
from .plans import Plan
from .strata import Listed, Stratum, listed_by_label

_FIRST_BATCH, _LARGEST_BATCH = 2**10, 2**17
_PROBE = 2**13
_PATIENCE = 40
"""How often a stratum must have been gone through without a new problem before it counts as exhausted."""


class Drawing:
    """A plan and what it may not draw."""

    def __init__(self, plan: Plan, barred: Barred) -> None:
        self._plan = plan
        self._domain = barred.domain
        strata = plan.strata
        if (shown := barred.all_shown()) is not None:
            strata = listed_by_label(strata, shown)
        avoid = barred.avoid[barred.shows(barred.avoid)]
        avoided = Counter(strata.label(avoid)) if len(avoid) else Counter()
        self._pools = {key: _pool(stratum, barred, avoided[key]) for key, stratum in strata.of.items()}
        self._capacity = {key: pool.capacity for key, pool in self._pools.items()}
        self.exist = sum(self._capacity.values())
        """How many problems may be drawn; a careful estimate where much is hidden in a large domain."""

    def distinct(self, size: int, *labels: Label) -> Codes:
        """`size` different problems by the plan, shuffled. Equal labels: a smaller set is part of a larger one."""
        parts = [
            self._pools[key].distinct(count, Stream(*labels, self._domain.key, str(key)))
            for key, count in self._counts(size, self._capacity).items()
        ]
        return self._shuffled(parts, *labels)

    def block(self, size: int, *labels: Label, longest: int | None = None) -> Codes:
        """`size` problems in the plan's proportions, repeats allowed: what endless sampling is made of.

        `longest`: only such as have no more digits. If those are too few, the next longer ones, too.
        """
        capacity = self._capacity
        while longest is not None and sum((capacity := self._up_to(longest)).values()) < size <= self.exist:
            longest += 1
        parts = [
            self._pools[key].draw(count, Stream(*labels, self._domain.key, str(key)))
            for key, count in self._counts(size, capacity).items()
        ]
        return self._shuffled(parts, *labels)

    def _up_to(self, longest: int) -> dict[Any, int]:
        length = self._plan.length
        assert length is not None, "a sampler that goes by lengths"
        return {key: exist if length(key) <= longest else 0 for key, exist in self._capacity.items()}

    def _counts(self, size: int, capacity: Mapping[Any, int]) -> dict[object, int]:
        if size > self.exist:
            raise OutOfProblems(size, self.exist, "after the test and validation sets and what is excluded")
        counts = {key: count for key, count in self._plan.allot(size, capacity).items() if count}
        assert sum(counts.values()) == size, "a plan hands out all that there is"
        return counts

    def _shuffled(self, parts: list[Codes], *labels: Label) -> Codes:
        codes = np.concatenate([self._domain.codes([]), *parts])
        return codes[Stream(*labels, "order").permutation(len(codes))]


def _pool(stratum: Stratum, barred: Barred, avoided: int) -> "_ListedPool | _DrawnPool":
    return _ListedPool(stratum, barred) if isinstance(stratum, Listed) else _DrawnPool(stratum, barred, avoided)


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

    def __init__(self, stratum: Stratum, barred: Barred, avoided: int) -> None:
        self._stratum, self._barred = stratum, barred
        self.capacity = stratum.size - avoided
        if barred.excludes:
            shown = float(barred.shows(stratum.draw(Stream("probe"), _PROBE)).mean())
            self.capacity = max(0, int(stratum.size * shown * 0.9) - avoided)

    def distinct(self, count: int, stream: Stream) -> Codes:
        found: dict[int, None] = {}
        barren, size = 0, _FIRST_BATCH
        while len(found) < count:
            # Batches grow by a fixed schedule, not with `count`: the order stays the same for every count.
            batch = self._stratum.draw(stream, size)
            before = len(found)
            found.update(dict.fromkeys(batch[self._barred.allows(batch)].tolist()))
            barren = 0 if len(found) > before else barren + size
            size = min(2 * size, _LARGEST_BATCH)
            if barren > _PATIENCE * self._stratum.size:
                raise OutOfProblems(count, len(found), "in one class of the sampler, after what is excluded")
        return self._barred.domain.codes(list(found)[:count])

    def draw(self, count: int, stream: Stream) -> Codes:
        codes = self._stratum.draw(stream, count)
        while len(again := np.flatnonzero(~self._barred.allows(codes))):
            codes[again] = self._stratum.draw(stream, len(again))
        return codes
