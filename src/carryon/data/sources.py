"""Examples without end, addressed by number.

A source's examples depend on nothing but its seed and their number, so that a resumed run starts anywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from ..config import DataConfig
from ..corpora import passages
from ..errors import BadConfig
from ..formats import Example, make_format
from ..operations import Codes, Problem
from ..rng import Label, Stream
from .splits import Endless, domain_of


class Source(ABC):
    @abstractmethod
    def examples(self, start: int = 0) -> Iterator[Example]:
        """Example number `start` and all that follow."""

    def take(self, count: int, start: int = 0) -> list[Example]:
        return list(islice(self.examples(start), count))


class Repeated(Source):
    """A finite set, every pass over it in a new order."""

    def __init__(self, examples: Sequence[Example], seed: int = 0) -> None:
        if not examples:
            raise BadConfig("a source needs at least one example")
        self._examples, self._seed = examples, seed
        self._order: tuple[int, list[int]] = (-1, [])

    def examples(self, start: int = 0) -> Iterator[Example]:
        return (self._examples[index] for index in self.indices(start))

    def indices(self, start: int = 0) -> Iterator[int]:
        """The places in the set of example number `start` and all that follow."""
        size = len(self._examples)
        while True:
            epoch, offset = divmod(start, size)
            if self._order[0] != epoch:
                self._order = epoch, Stream("epoch", self._seed, epoch).permutation(size).tolist()
            yield from self._order[1][offset:]
            start = (epoch + 1) * size


class Fresh(Source):
    """New problems for ever, by the config's sampler, without its test and validation problems."""

    _AT_ONCE = 1_000

    def __init__(self, config: DataConfig, seed: int = 0, grow: int = 0) -> None:
        """`grow`: how many examples it takes until there are numbers of all digits; before, there are shorter ones."""
        self._digits, self._grow = config.digits, grow
        self._operation, self._domain = domain_of(config)
        self._format = make_format(config.format, seed)
        self._format.check(config.operation)
        self._endless = Endless(config, seed)
        size = self._endless.block_size
        # Numbers grow from block to block, which must not be longer than it takes to grow by a digit.
        self._size = max(1, min(size, grow // config.digits)) if grow else size
        self._block: tuple[int, Codes] | None = None

    def examples(self, start: int = 0) -> Iterator[Example]:
        while True:
            block, offset = divmod(start, self._size)
            for operands in self._domain.operands(self._codes(block)[offset : offset + self._AT_ONCE]):
                # The example's number is its draw: a problem met again carries other noise.
                yield self._format.write(Problem(self._operation, operands), draw=start)
                start += 1

    def _codes(self, number: int) -> Codes:
        """A block's problems, the newest block's kept: batches are small parts of it."""
        if self._block is None or self._block[0] != number:
            first = number * self._size
            longest = -(-self._digits * first // self._grow) if first < self._grow else None
            self._block = number, self._endless.block(number, self._size, longest)
        return self._block[1]


class Passages(Source):
    """A text in pieces, cut at its blank lines; every pass over it in a new order."""

    def __init__(self, text: str, seed: int = 0) -> None:
        self._pieces = Repeated([Example("", piece, "") for piece in passages(text)], seed)

    def examples(self, start: int = 0) -> Iterator[Example]:
        return self._pieces.examples(start)


class Mixture(Source):
    """Several sources interleaved example by example, each as often as its weight says."""

    _PICKS = 4096

    def __init__(self, parts: Sequence[tuple[Source, float]], seed: int = 0) -> None:
        if not parts or not all(0 < weight < float("inf") for _, weight in parts):
            raise BadConfig(f"a mixture needs positive weights, not {[weight for _, weight in parts]}")
        self._sources = [source for source, _ in parts]
        self._weights = [weight for _, weight in parts]
        self._seed = seed

    def examples(self, start: int = 0) -> Iterator[Example]:
        skipped = [0] * len(self._sources)
        block, offset = divmod(start, self._PICKS)
        for earlier in range(block):
            for which in self._picks(earlier):
                skipped[which] += 1
        picks = self._picks(block)
        for which in picks[:offset]:
            skipped[which] += 1
        streams = [source.examples(skip) for source, skip in zip(self._sources, skipped, strict=True)]
        while True:
            for which in picks[offset:]:
                yield next(streams[which])
            block, offset = block + 1, 0
            picks = self._picks(block)

    def _picks(self, block: int) -> list[int]:
        picks: list[int] = Stream("mixture", self._seed, block).pick(self._weights, self._PICKS).tolist()
        return picks


class Shares:
    """The order in which examples of several finite sets are met: each set as often as its weight says, each example
    of a set as often as any other.

        Shares([(20_000, 0.5), (5_000, 0.5)])     half of all are 0 … 19,999, half 20,000 … 24,999

    Unlike those of a mixture, its sets have no order of their own, so that it begins anywhere at no cost.
    """

    _PICKS = 4096

    def __init__(self, sets: Sequence[tuple[int, float]], *labels: Label) -> None:
        """`sets`: the size and weight of each."""
        if not all(size > 0 and 0 <= weight < float("inf") for size, weight in sets) or not sum(w for _, w in sets) > 0:
            raise BadConfig(f"shares need sets that are not empty, with weights, not {list(sets)}")
        self._sizes = np.array([size for size, _ in sets])
        self._weights = [weight for _, weight in sets]
        self._labels = labels

    def indices(self, start: int = 0) -> Iterator[int]:
        """The places, in all sets laid end to end, of example number `start` and all that follow."""
        block, offset = divmod(start, self._PICKS)
        firsts = np.cumsum(self._sizes) - self._sizes
        while True:
            stream = Stream("shares", *self._labels, block)
            which = stream.pick(self._weights, self._PICKS)
            places = firsts[which] + (stream.unit(self._PICKS) * self._sizes[which]).astype(np.int64)
            yield from places[offset:].tolist()
            block, offset = block + 1, 0
