"""What is wanted, and what is known of it."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..config import AnyRun, RunConfig
from ..costs import Costs, Work, work_of
from ..experiments import Case, Tier
from ..results import Key, Line, Store

DEFAULT_SECONDS = {"smoke": 1.0, "fast": 25.0, "paper": 150.0}
"""What a run is taken to cost where none was measured, nor any other whose size could tell."""


@dataclass
class Wanted:
    """One case of an experiment with a seed: which lines its results need."""

    experiment: str
    case: Case

    @cached_property
    def key(self) -> str:
        """The run's hash."""
        return self.case.run.hash

    @cached_property
    def chain(self) -> list[tuple[str, AnyRun]]:
        """The run and those it starts from, with their hashes."""
        return [*((parent.hash, parent) for parent in self.case.parents), (self.key, self.case.run)]

    @cached_property
    def lines(self) -> list[tuple[str, dict[str, Any]]]:
        """Each line's evaluation and settings."""
        if not isinstance(self.case.run, RunConfig):
            return [("trials", dict(self.case.settings))]
        wanted = [(q.config.hash, {**self.case.settings, **q.settings}) for q in self.case.questions]
        return [*wanted, ("history", dict(self.case.settings))] if self.case.history else wanted


@dataclass
class Known:
    """What was measured: all of it, and what each experiment of a tier has in its own file."""

    lines: dict[tuple[str, str], Line] = field(default_factory=dict)
    """By run and evaluation, whoever asked."""
    own: dict[str, set[Key]] = field(default_factory=dict)
    of_run: dict[str, list[tuple[str, str, Line]]] = field(default_factory=dict)
    """Every line of a run, with its tier and experiment."""
    costs: Costs = field(default_factory=Costs)

    def estimate(self, work: Work, tier: Tier) -> float:
        """Seconds, by what its likes took."""
        told = self.costs.estimate(work)
        told = self.costs.guess(work) if told is None else told
        return DEFAULT_SECONDS[tier] if told is None else told

    @classmethod
    def read(cls, store: Store, tier: str) -> "Known":
        known = cls()
        for line_tier, name, line in store.everything():
            known.lines.setdefault((line.run, line.evaluation), line)
            known.of_run.setdefault(line.run, []).append((line_tier, name, line))
            if line_tier == tier:
                known.own.setdefault(name, set()).add(line.key)
            known.costs.add(line.run, work_of(line.config), line.seconds)
        return known

    def find(self, want: Wanted) -> list[Line] | None:
        """A case's lines, whoever measured them, under its own settings; None if one is missing."""
        found = []
        for evaluation, settings in want.lines:
            line = self.lines.get((want.key, evaluation))
            if line is None:
                return None
            found.append(replace(line, settings=settings))
        return found


def work_for(run: AnyRun) -> Work:
    parts = {"data", "model", "train"} if isinstance(run, RunConfig) else None
    return work_of(run.model_dump(include=parts))
