"""Sentences of the paper, a few of ours, and the rules that decide them."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from ..reports import Decision, Verdict
from .bounds import AtLeast, AtMost, NotEnough
from .measured import Measured

INF = float("inf")


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper in our words, or one of ours, and the rule that decides it: one number and two ranges.

    Rules are committed before the runs they judge; one that was changed or added later says why.
    """

    name: str
    says: str
    measure: Callable[[Measured], float]
    of: str
    """What the number is."""
    holds: tuple[float, float]
    corrected: tuple[float, float]
    correction: str
    """What would have to be said instead."""
    unit: str = ""
    after_the_runs: str = ""
    """Why the rule was changed or added when results were known."""
    ours: bool = False
    """Whether it is not the paper's."""

    @property
    def sentence(self) -> str:
        return f"{self.says} (ours)" if self.ours else self.says

    @property
    def rule(self) -> str:
        late = f" (set when results were known: {self.after_the_runs})" if self.after_the_runs else ""
        return (
            f"{self.of}: holds {_range(self.holds, self.unit)}; "
            f"with a correction {_range(self.corrected, self.unit)}: {self.correction}{late}"
        )

    def decide(self, measured: Measured) -> Verdict:
        try:
            value = self.measure(measured)
        except NotEnough as missing:
            return Verdict(self.name, self.sentence, self.rule, "not enough runs", f"not measured: {missing}")
        because = f"{self.of} is {_shown(value)}{self.unit}"
        decision = self._decision(value)
        if decision is None:
            return Verdict(
                self.name, self.says, self.rule, "not enough runs", f"not measured: {because}, no more is known"
            )
        if decision == "holds with a correction":
            because += f": {self.correction}"
        alone = [(one, judged) for one in self._by_seed(measured) if (judged := self._decision(one))]
        differs = any(judged != decision for _, judged in alone)
        if differs:
            low, high = min(one for one, _ in alone), max(one for one, _ in alone)
            because += f"; seed by seed {_shown(low)} to {_shown(high)}{self.unit}: {_tally(j for _, j in alone)}"
        return Verdict(self.name, self.sentence, self.rule, decision, because, differs)

    def _by_seed(self, measured: Measured) -> list[float]:
        """What the rule gives on each seed by itself, where that was measured."""
        values = []
        for part in measured.by_seed():
            with suppress(NotEnough):
                values.append(self.measure(part))
        return values

    def _decision(self, value: float) -> Decision | None:
        """None: a bound that leaves it open."""
        decision, *others = {self._range_of(possible) for possible in self._possible(value)}
        return None if others else decision

    def _range_of(self, value: float) -> Decision:
        if self.holds[0] <= value <= self.holds[1]:
            return "holds"
        return "holds with a correction" if self.corrected[0] <= value <= self.corrected[1] else "does not hold"

    def _possible(self, value: float) -> list[float]:
        """The number, or, of a bound, one from each range between the rule's limits that it leaves open."""
        limits = (*self.holds, *self.corrected)
        if isinstance(value, AtLeast):
            return [value, *(p for limit in limits if limit > value for p in (limit, math.nextafter(limit, INF))), INF]
        if isinstance(value, AtMost):
            least = math.nextafter(0.0, 1.0)
            return [
                value,
                *(p for limit in limits if 0 < limit < value for p in (limit, math.nextafter(limit, 0))),
                least,
            ]
        return [value]


def _tally(decisions: Iterable[Decision]) -> str:
    words: dict[Decision, str] = {
        "holds": "it holds",
        "holds with a correction": "with a correction",
        "does not hold": "not",
    }
    counts = Counter(decisions)
    return ", ".join(f"{word} for {counts[decision]}" for decision, word in words.items() if counts[decision])


def _range(bounds: tuple[float, float], unit: str) -> str:
    low, high = bounds
    if low == -INF:
        return f"up to {_shown(high)}{unit}"
    return f"from {_shown(low)}{unit}" + ("" if high == INF else f" to {_shown(high)}{unit}")


def _shown(value: float) -> str:
    if isinstance(value, AtLeast | AtMost):
        return f"{'at least' if isinstance(value, AtLeast) else 'at most'} {_shown(float(value))}"
    if value in (INF, -INF):
        return "without limit" if value > 0 else "none"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
