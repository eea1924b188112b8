"""Plans carried out: distinct problems for finite sets, blocks without end for sampling on the fly."""

import numpy as np

from ..errors import OutOfProblems
from ..operations import Codes
from ..rng import Label, Stream
from .exclusions import Barred
from .plans import Plan
from .strata import Listed, Stratum

_FIRST_BATCH, _LARGEST_BATCH = 2**10, 2**17
_PATIENCE = 200
"""Batches without a single new problem before a stratum counts as exhausted."""


class _Deck:
    """A stratum's problems in a random order that does not depend on how many are taken."""

    def __init__(self, stratum: Stratum, stream: Stream, barred: Barred) -> None:
        self._stratum, self._stream, self._barred = stratum, stream, barred
        self._listed: Codes | None = None
        if isinstance(stratum, Listed):
            shuffled = stratum.codes[stream.permutation(stratum.size)]
            self._listed = shuffled[barred.allows(shuffled)]
        # A large stratum's count is a floor: all that is avoided might lie in it.
        self.capacity = len(self._listed) if self._listed is not None else max(0, stratum.size - barred.num_avoided)

    def take(self, count: int) -> Codes:
        if self._listed is not None:
            return self._listed[:count]
        found: dict[int, None] = {}
        barren, size = 0, _FIRST_BATCH
        while len(found) < count:
            # Batches grow by a fixed schedule, not with `count`: the order stays the same for every count.
            batch = self._stratum.draw(self._stream, size)
            size = min(2 * size, _LARGEST_BATCH)
            before = len(found)
            found.update(dict.fromkeys(batch[self._barred.allows(batch)].tolist()))
            barren = 0 if len(found) > before else barren + 1
            if barren == _PATIENCE:
                raise OutOfProblems(count, len(found), "in one class of the sampler, after what is excluded")
        return self._barred.domain.codes(list(found)[:count])


def draw_distinct(plan: Plan, size: int, barred: Barred, *labels: Label) -> Codes:
    """`size` different problems by the plan, shuffled. Equal labels: a smaller set is part of a larger one."""
    decks = {
        key: _Deck(stratum, Stream(*labels, barred.domain.key, str(key)), barred)
        for key, stratum in plan.strata.items()
    }
    counts = plan.allot(size, {key: deck.capacity for key, deck in decks.items()})
    if (given := sum(counts.values())) < size:
        raise OutOfProblems(size, given, "after the test and validation sets and what is excluded")
    codes = np.concatenate([decks[key].take(count) for key, count in counts.items()])
    return codes[Stream(*labels, "order").permutation(size)]


def draw_block(plan: Plan, size: int, barred: Barred, *labels: Label) -> Codes:
    """`size` problems in the plan's proportions, repeats allowed: what endless sampling is made of."""
    counts = plan.allot(size, {key: stratum.size for key, stratum in plan.strata.items()})
    parts = [
        _draw_allowed(plan.strata[key], count, barred, Stream(*labels, str(key)))
        for key, count in counts.items()
        if count
    ]
    codes = np.concatenate(parts)
    return codes[Stream(*labels, "order").permutation(len(codes))]


def _draw_allowed(stratum: Stratum, count: int, barred: Barred, stream: Stream) -> Codes:
    parts: list[Codes] = []
    missing, barren = count, 0
    while missing:
        batch = stratum.draw(stream, missing)
        parts.append(batch[barred.allows(batch)])
        missing -= len(parts[-1])
        barren = 0 if len(parts[-1]) else barren + 1
        if barren == _PATIENCE:
            raise OutOfProblems(count, count - missing, "in one class of the sampler, after what is excluded")
    return np.concatenate(parts)
