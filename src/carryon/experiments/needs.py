"""Which results a claim still waits for."""

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
        self.missing: list[Settings] = []

    def of(self, **settings: Any) -> list[Line]:
        lines = super().of(**settings)
        if len({line.seed for line in lines}) < self.min_seeds:
            self.missing.append(settings)
        return lines

    def lacking(self, what: str) -> float:
        return _GUESS

    def crossing(self, level: float, x: str = "examples", metric: Metric = accuracy, /, **settings: Any) -> float:
        """All of a curve from its first gap on, since nobody knows where it will reach the level."""
        before = len(self.missing)
        for value in self.values_planned(x, **settings):
            y = self.mean(metric, **{**settings, x: value})
            if y >= level and len(self.missing) == before:
                break
        return _GUESS if len(self.missing) > before else super().crossing(level, x, metric, **settings)


def needs(claim: Claim, measured: Measured) -> list[Settings]:
    """Settings of lines that are missing, as they are asked for. Once these are there, a rule may ask for more."""
    asking = _Asking(measured)
    with suppress(NotEnough):
        claim.measure(asking)
    return asking.missing
