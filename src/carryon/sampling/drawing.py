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
        if isinstance(stratum, Listed):
            allowed = barred.allows(stratum.codes)
            self._codes, self._keys = stratum.codes[allowed], stream.words(stratum.size)[allowed]
            self.capacity = len(self._codes)
        else:
            # A floor: all that is avoided might lie in this stratum.
            self.capacity = max(0, stratum.size - barred.num_avoided)

    def take(self, count: int) -> Codes:
        return self._take_listed(count) if isinstance(self._stratum, Listed) else self._take_drawn(count)

    def _take_listed(self, count: int) -> Codes:
        """The codes with the `count` smallest random keys, in their order: sorting all would take ten times as long."""
        least = np.argpartition(self._keys, count)[:count] if count < self.capacity else np.arange(self.capacity)
        taken: Codes = self._codes[least[np.argsort(self._keys[least], kind="stable")]]
        return taken

    def _take_drawn(self, count: int) -> Codes:
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
