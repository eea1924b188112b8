"""What has to be run, in which order, what it will take, and where its outcome is kept.

A run that several experiments need is one task; what is measured already, in any tier, is not run again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..config import TrainedConfig
from ..execution import Outcome, Task
from ..experiments import Experiment, Measured, Tier
from ..results import Line, Store
from .choosing import choose
from .converting import make_lines, make_tasks, measured_again
from .known import Known, Wanted, work_for
from .ordering import chances_by_run, in_order, spread

_TO_EVALUATE = 0.05
"""Part of a run's time that is left when its training is done, about."""


@dataclass
class Plan:
    tier: Tier
    store: Store
    wanted: list[Wanted]
    tasks: list[Task]
    """What has to be run, the most informative first."""
    total: int
    """Cases that were asked for."""
    done: int
    """Those of them that need nothing."""
    for_claims: dict[str, float] = field(default_factory=dict)
    """By hash, runs that claims waited for when they were last asked, and the chance that they need them, about."""
    known: Known = field(default_factory=Known)
    experiments: Sequence[Experiment] = ()
    seeds: int | None = None
    """Of each run, if others than the claims want."""
    begun: dict[str, float] = field(default_factory=dict)
    """By hash, which part of a run an earlier sitting did."""
    deciding: bool = False
    """Whether only the claims are to be decided."""

    @cached_property
    def by_key(self) -> dict[str, list[Wanted]]:
        """Who wants a run."""
        found: dict[str, list[Wanted]] = {}
        for want in self.wanted:
            found.setdefault(want.key, []).append(want)
        return found

    @property
    def trains_at_full_size(self) -> bool:
        return self.tier != "smoke" and any(isinstance(task.run, TrainedConfig) for task in self.tasks)

    def estimate(self, task: Task) -> float:
        """Seconds a task will still take, by what its likes took. One that is trained has to be evaluated, at least."""
        return self.known.estimate(work_for(task.run), self.tier) * max(_TO_EVALUATE, 1 - self.begun.get(task.key, 0.0))

    def expected(self, task: Task) -> float:
        """The same, but for the chance that it turns out not to be needed."""
        return self.estimate(task) * (self.for_claims.get(task.key, 0.0) if self.deciding else 1.0)

    @property
    def open_claims(self) -> int:
        """How many are not decided by what is known."""
        open_here = 0
        for one in self.experiments:
            lines = [
                line for want in self.wanted if want.experiment == one.name for line in self.known.find(want) or ()
            ]
            measured = Measured(lines, self.tier, one.seeds[self.tier], one.planned(self.tier))
            open_here += sum(verdict.decision == "not enough runs" for verdict in one.verdicts(measured))
        return open_here

    @property
    def guessed(self) -> int:
        """Tasks whose likes were never measured."""
        return sum(self.known.costs.estimate(work_for(task.run)) is None for task in self.tasks)

    @property
    def basis(self) -> str:
        """What the estimates stand on."""
        if not self.guessed:
            return "by runs that were measured"
        return (
            "partly a guess: not all kinds of run were measured yet"
            if self.guessed < len(self.tasks)
            else "a guess: none was measured yet"
        )

    def name_of(self, task: Task) -> str:
        """What a task is for, in words."""
        if found := self.by_key.get(task.key):
            return f"{found[0].experiment} {_words(found[0].case.settings)}"
        return f"{task.run.name if isinstance(task.run, TrainedConfig) else task.key}, to start others from"

    def only(self, choices: Sequence[str]) -> "Plan":
        """What a choice is about: "reverse,2000" names cases with both among their settings. Several choices add up."""
        chosen = {id(want): want for choice in choices for want in choose(self.wanted, choice)}.values()
        missing = [want for want in chosen if self.known.find(want) is None]
        keys = {key for want in missing for key, _ in want.chain}
        tasks = [task for task in self.tasks if task.key in keys]
        return replace(self, tasks=tasks, total=len(chosen), done=len(chosen) - len(missing))

    def to_decide(self) -> "Plan":
        """Only what claims wait for."""
        return replace(self, tasks=[task for task in self.tasks if task.key in self.for_claims], deciding=True)

    def surest(self, tasks: Sequence[Task]) -> list[Task]:
        """Those of them that claims most likely need: at first, what they need whatever the rest will say."""
        most = max(self.for_claims.get(task.key, 0.0) for task in tasks)
        return [task for task in tasks if self.for_claims.get(task.key, 0.0) >= most]

    def reorder(self, tasks: Sequence[Task]) -> list[Task]:
        """The same, by what is known by now: what a curve turned out not to need comes later, or not at all if only the
        claims are to be decided.
        """
        places: dict[str, int] = {}
        likely, rest = in_order(self.wanted, self.experiments, self.tier, self.seeds, self.known)
        self.for_claims = chances_by_run(likely)
        for want in (*(want for want, _ in likely), *(() if self.deciding else rest)):
            for key, _ in want.chain:
                places.setdefault(key, len(places))
        kept = [task for task in tasks if task.key in places or not self.deciding]
        return sorted(kept, key=lambda task: places.get(task.key, len(places)))

    def keep(self, task: Task, outcome: Outcome) -> None:
        """Write an outcome to the results of every experiment that wanted it, now or before.

        A run that had to be trained again gives other numbers, if only by rounding: all that is told of it comes from
        the same weights. What was missing is written last, so that after a kill it is still missing.
        """
        self.known.costs.add(task.key, work_for(task.run), outcome.seconds)
        again: dict[tuple[str, str], list[Line]] = {}
        for tier, experiment, line in self.known.of_run.get(task.key, ()):
            if line.evaluation != "history" and (answer := outcome.answers.get(line.evaluation)) is not None:
                again.setdefault((tier, experiment), []).append(measured_again(line, answer, outcome))
        for place, lines in again.items():
            self.store.put(*place, lines)
        kept = []
        for want in sorted(self.by_key.get(task.key, ()), key=lambda want: self.known.find(want) is None):
            lines = make_lines(want, outcome)
            self.store.put(self.tier, want.experiment, lines)
            kept += lines
        self.known.lines |= {(line.run, line.evaluation): line for line in kept}


def _words(settings: Any) -> str:
    """A number says what it is the number of."""
    return ", ".join(f"{k} {v:,}" if isinstance(v, int | float) else str(v) for k, v in settings.items())


def make_plan(
    experiments: Iterable[Experiment],
    tier: Tier,
    store: Store,
    seeds: int | None = None,
    known: Known | None = None,
    copy: bool = True,
) -> Plan:
    """What is wanted, what is there, and what is missing.

    `copy`: results that another experiment measured are written to this one's file, too.
    """
    known = known or Known.read(store, tier)
    experiments = list(experiments)
    wanted = [
        Wanted(experiment.name, one)
        for experiment in experiments
        for case in spread(experiment.cases(tier))
        for one in case.with_seeds(seeds or experiment.seeds[tier])
    ]
    if copy:
        for want in wanted:
            own = known.own.get(want.experiment, set())
            store.add(tier, want.experiment, [line for line in known.find(want) or () if line.key not in own])
    likely, rest = in_order(wanted, experiments, tier, seeds, known)
    first = [want for want, _ in likely]
    runs = {want.key for want in (*first, *rest)}
    others = [want for want in wanted if want.key in runs]
    tasks = make_tasks([*first, *rest, *others], known)
    total, done = len(wanted), len(wanted) - len(first) - len(rest)
    return Plan(tier, store, wanted, tasks, total, done, chances_by_run(likely), known, experiments, seeds)
