"""Which results a claim still waits for."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..results import Line
from .bounds import NotEnough
from .claims import Claim
from .measured import Measured, Metric, Settings, accuracy

_GUESS = 100.0
"""Of what was not measured: all was learnt, so that a rule that asks for that goes on."""


@dataclass(frozen=True)
class Need:
    """Lines that are missing."""

    settings: Settings
    place: int = 0
    """How many have to be there before it turns out whether these are needed."""
    chance: float = 1.0
    """That they are, about."""


class _Asking(Measured):
    """Notes what a rule asks for and has too few seeds of; where it wants a number, it is given one and goes on."""

    def __init__(self, measured: Measured) -> None:
        super().__init__(measured.lines, measured.tier, measured.min_seeds, measured.planned)
        self._measured = measured
        self._so_far = Measured(measured.lines, measured.tier, 1, measured.planned)
        self._missing: list[Need] = []

    @property
    def missing(self) -> list[Need]:
        """What is surely needed before what may turn out not to be."""
        return sorted(self._missing, key=lambda need: need.place)

    def of(self, **settings: Any) -> list[Line]:
        lines = super().of(**settings)
        if len({line.seed for line in lines}) < self.min_seeds:
            self._missing.append(Need(settings))
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
        for place, chance, value in _halving(likely):
            self._missing.append(Need({**settings, x: value}, place, chance))
        for value in gap:
            if value not in so_far:
                self._missing.append(Need({**settings, x: value}, len(gap), 0.0))
        return _GUESS


def _halving(values: Sequence[Any]) -> Iterator[tuple[int, float, Any]]:
    """The middle, the middles of the two halves, and so on: how many come before it on its way, and the chance that the
    way leads to it.
    """
    parts, depth = [values] if values else [], 0
    while parts:
        middles = [(part, len(part) // 2) for part in parts]
        yield from ((depth, 0.5**depth, part[middle]) for part, middle in middles)
        parts = [half for part, middle in middles for half in (part[:middle], part[middle + 1 :]) if half]
        depth += 1


def needs(claim: Claim, measured: Measured) -> list[Need]:
    """What is missing, in the order to get it. With some of it there, the rest may not be needed, or a rule may ask for
    more.
    """
    asking = _Asking(measured)
    with suppress(NotEnough):
        claim.measure(asking)
    return asking.missing
