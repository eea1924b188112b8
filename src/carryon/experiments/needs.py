"""Which results a claim still waits for."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from ..results import Line
from .bounds import NotEnough
from .claims import Claim
from .measured import Measured, Metric, Settings, accuracy

_GUESS = 100.0
"""Of what was not measured: all was learnt, so that a rule that asks for that goes on."""


class _Asking(Measured):
    """Notes what a rule asks for and has too few seeds of; where it wants a number, it is given one and goes on."""

    def __init__(self, measured: Measured) -> None:
        super().__init__(measured.lines, measured.tier, measured.min_seeds, measured.planned)
        self._measured = measured
        self._so_far = Measured(measured.lines, measured.tier, 1, measured.planned)
        self._missing: list[tuple[int, Settings]] = []

    @property
    def missing(self) -> list[Settings]:
        """What is surely needed before what may turn out not to be."""
        return [settings for _, settings in sorted(self._missing, key=lambda pair: pair[0])]

    def of(self, **settings: Any) -> list[Line]:
        lines = super().of(**settings)
        if len({line.seed for line in lines}) < self.min_seeds:
            self._missing.append((0, settings))
        return lines

    def lacking(self, what: str) -> float:
        return _GUESS

    def crossing(self, level: float, x: str = "examples", metric: Metric = accuracy, /, **settings: Any) -> float:
        """All of a curve where it may reach the level, the middle first: it makes half of the rest unnecessary.

        Where some seeds say already where that is, the rest comes last.
        """
        bracket = self._measured.bracket(level, x, metric, **settings)
        gap = [value for value, y in bracket.items() if y is None]
        if not gap:
            return self._measured.crossing(level, x, metric, **settings)
        so_far = self._so_far.bracket(level, x, metric, **settings)
        likely = [value for value in gap if value in so_far]
        ranked = [*_halving(likely), *((len(gap), value) for value in gap if value not in so_far)]
        self._missing += ((rank, {**settings, x: value}) for rank, value in ranked)
        return _GUESS


def _halving(values: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The middle, the middles of the two halves, and so on, each with how many come before it on its way."""
    parts, depth = [values] if values else [], 0
    while parts:
        middles = [(part, len(part) // 2) for part in parts]
        yield from ((depth, part[middle]) for part, middle in middles)
        parts = [half for part, middle in middles for half in (part[:middle], part[middle + 1 :]) if half]
        depth += 1


def needs(claim: Claim, measured: Measured) -> list[Settings]:
    """Settings of lines that are missing, in the order to get them. With some of them there, others may not be needed,
    or a rule may ask for more.
    """
    asking = _Asking(measured)
    with suppress(NotEnough):
        claim.measure(asking)
    return asking.missing
