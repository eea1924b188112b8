"""From experiments to tasks, and from outcomes back to results.

A run that several experiments need is one task; what is measured already, in any tier, is not run again. What a claim
waits for comes first, the claims that cost least before the others.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from .config import AnyRun, DataConfig, EvaluationConfig, RunConfig, StopConfig
from .costs import Costs, Work, work_of
from .data import make_dataset
from .errors import UnknownName, Unsupported
from .execution import Outcome, Task
from .experiments import Case, Claim, Experiment, Measured, Tier, matches, needs
from .experiments.protocols import small
from .results import Key, Line, Store

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
            work = Work(name, 1.0) if line.evaluation == "trials" else work_of(line.config)
            known.costs.add(line.run, work, line.seconds)
        return known


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
    for_claims: set[str] = field(default_factory=set)
    """Hashes of the runs that claims waited for when the plan was made."""
    known: Known = field(default_factory=Known)
    experiments: Sequence[Experiment] = ()
    seeds: int | None = None
    """Of each run, if others than the claims want."""

    @cached_property
    def by_key(self) -> dict[str, list[Wanted]]:
        """Who wants a run."""
        found: dict[str, list[Wanted]] = {}
        for want in self.wanted:
            found.setdefault(want.key, []).append(want)
        return found

    @property
    def trains_at_full_size(self) -> bool:
        return self.tier != "smoke" and any(isinstance(task.run, RunConfig) for task in self.tasks)

    def estimate(self, task: Task) -> float:
        """Seconds a task will take, by what its likes took."""
        return self.known.estimate(self._work(task), self.tier)

    @property
    def guessed(self) -> int:
        """Tasks whose likes were never measured."""
        return sum(self.known.costs.estimate(self._work(task)) is None for task in self.tasks)

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

    def _work(self, task: Task) -> Work:
        return _work(task.run, self.by_key[task.key][0].experiment if task.key in self.by_key else "")

    def name_of(self, task: Task) -> str:
        """What a task is for, in words."""
        found = self.by_key.get(task.key)
        return f"{found[0].experiment} {_words(found[0].case.settings)}" if found else "a run that others start from"

    def only(self, choices: Sequence[str]) -> "Plan":
        """What a choice is about: "reverse,2000" names cases with both among their settings. Several choices add up."""
        chosen = {id(want): want for choice in choices for want in self._named(choice)}.values()
        missing = [want for want in chosen if _find(want, self.known) is None]
        keys = {key for want in missing for key, _ in want.chain}
        tasks = [task for task in self.tasks if task.key in keys]
        return replace(self, tasks=tasks, total=len(chosen), done=len(chosen) - len(missing))

    def _named(self, choice: str) -> list[Wanted]:
        there = {id(want): Counter(str(value) for value in want.case.settings.values()) for want in self.wanted}
        values = {value for some in there.values() for value in some}
        choice = re.sub(r"(?<=\d),(?=\d{3}\b)", "", choice.strip())  # 2,000, as it is printed
        words = [choice] if choice in values else [word.strip() for word in choice.split(",")]  # some have a comma
        for word in words:
            if word not in values:
                raise UnknownName("setting", word, sorted(values))
        found = [want for want in self.wanted if Counter(words) <= there[id(want)]]
        if not found:
            raise Unsupported(f"no run has all of {', '.join(words)}: '--dry-run' lists what there is")
        return found

    def reorder(self, tasks: Sequence[Task]) -> list[Task]:
        """The same, by what is known by now: what a curve turned out not to need comes later."""
        places: dict[str, int] = {}
        first, rest = _in_order(self.wanted, self.experiments, self.tier, self.seeds, self.known)
        for want in (*first, *rest):
            for key, _ in want.chain:
                places.setdefault(key, len(places))
        return sorted(tasks, key=lambda task: places.get(task.key, len(places)))

    def keep(self, task: Task, outcome: Outcome) -> None:
        """Write an outcome to the results of every experiment that wanted it, now or before.

        A run that had to be trained again gives other numbers, if only by rounding: all that is told of it comes from
        the same weights. What was missing is written last, so that after a kill it is still missing.
        """
        self.known.costs.add(task.key, self._work(task), outcome.seconds)
        again: dict[tuple[str, str], list[Line]] = {}
        for tier, experiment, line in self.known.of_run.get(task.key, ()):
            if line.evaluation != "history" and (answer := outcome.answers.get(line.evaluation)) is not None:
                again.setdefault((tier, experiment), []).append(_measured_again(line, answer, outcome))
        for place, lines in again.items():
            self.store.put(*place, lines)
        kept = []
        for want in sorted(self.by_key.get(task.key, ()), key=lambda want: _find(want, self.known) is None):
            lines = _lines(want, outcome)
            self.store.put(self.tier, want.experiment, lines)
            kept += lines
        self.known.lines |= {(line.run, line.evaluation): line for line in kept}


def _work(run: AnyRun, experiment: str) -> Work:
    if isinstance(run, RunConfig):
        return work_of(run.model_dump(include={"data", "model", "train"}))
    return Work(experiment, 1.0)


def _words(settings: Any) -> str:
    return ", ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in settings.values())


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
            store.add(tier, want.experiment, [line for line in _find(want, known) or () if line.key not in own])
    first, rest = _in_order(wanted, experiments, tier, seeds, known)
    runs = {want.key for want in (*first, *rest)}
    others = [want for want in wanted if want.key in runs]
    tasks = _tasks([*first, *rest, *others], known)
    total, done = len(wanted), len(wanted) - len(first) - len(rest)
    for_claims = {key for want in first for key, _ in want.chain}
    return Plan(tier, store, wanted, tasks, total, done, for_claims, known, experiments, seeds)


def _in_order(
    wanted: Sequence[Wanted], experiments: Iterable[Experiment], tier: Tier, seeds: int | None, known: Known
) -> tuple[list[Wanted], list[Wanted]]:
    """What is missing: that which claims wait for, and the rest, both the most informative first."""
    waited_for: list[list[Wanted]] = []
    missing: list[Wanted] = []
    for experiment in experiments:
        found = [(want, _find(want, known)) for want in wanted if want.experiment == experiment.name]
        lines = [line for _, some in found for line in some or ()]
        missing_here = [want for want, some in found if some is None]
        missing += missing_here
        if missing_here and (seeds is None or seeds >= experiment.seeds[tier]):
            measured = Measured(lines, tier, experiment.seeds[tier], experiment.planned(tier))
            enough = [want for want in missing_here if want.case.run.seed < experiment.seeds[tier]]
            waited_for += (_waited_for(claim, measured, enough) for claim in experiment.claims)
    first = _cheapest_first(waited_for, tier, known)
    taken = {id(want) for want in first}
    # Of the rest, one seed of everything before the second of anything.
    rest = sorted((want for want in missing if id(want) not in taken), key=lambda want: want.case.run.seed)
    return first, rest


def _waited_for(claim: Claim, measured: Measured, missing: Sequence[Wanted]) -> list[Wanted]:
    """What a claim asks for, in that order: the end of a curve may not be needed."""
    asked = needs(claim, measured)

    def places(want: Wanted) -> Iterable[int]:
        return (at for at, one in enumerate(asked) if any(matches(given, one) for _, given in want.lines))

    found = [(place, want) for want in missing if (place := next(iter(places(want)), None)) is not None]
    return [want for _, want in sorted(found, key=lambda pair: pair[0])]


def _cheapest_first(waited_for: Sequence[list[Wanted]], tier: Tier, known: Known) -> list[Wanted]:
    """Each claim's runs together, those first that take the least beyond what was put before them."""
    seconds: dict[str, float] = {}
    for want in (want for wants in waited_for for want in wants):
        for key, run in want.chain:
            if key not in seconds:
                seconds[key] = known.estimate(_work(run, want.experiment), tier)
    ordered: dict[int, Wanted] = {}
    left = [wants for wants in waited_for if wants]
    while left:
        costs = [sum(seconds[key] for key in {key for want in wants for key, _ in want.chain}) for wants in left]
        wants = left.pop(costs.index(min(costs)))
        ordered |= {id(want): want for want in wants}
        seconds |= dict.fromkeys((key for want in wants for key, _ in want.chain), 0.0)
    return list(ordered.values())


def _find(want: Wanted, known: Known) -> list[Line] | None:
    """Its lines, whoever measured them, under its own settings; None if one is missing."""
    found = []
    for evaluation, settings in want.lines:
        line = known.lines.get((want.key, evaluation))
        if line is None:
            return None
        found.append(replace(line, settings=settings))
    return found


def probe_plan(experiments: Iterable[Experiment], tier: Tier, steps: int, store: Store) -> Plan:
    """The heaviest run of each experiment, cut to a few steps, with all its questions: does it work at full size?"""
    wanted = []
    for experiment in experiments:
        cases = experiment.cases(tier)
        most = max(map(_tokens, cases))
        case = max((case for case in cases if _tokens(case) == most), key=_size)
        if isinstance(case.run, RunConfig):
            parents = tuple(_cut(parent, steps) for parent in case.parents)
            case = replace(case, run=_cut(case.run, steps), parents=parents)
        wanted.append(Wanted(experiment.name, case.with_seed(0)))
    return Plan(tier, store, wanted, _tasks(wanted, Known()), len(wanted), 0)


def _tokens(case: Case) -> float:
    """What a case costs, roughly: tokens of all its steps."""
    run = case.run
    if not isinstance(run, RunConfig):
        return 0.0
    # A long context weighs more than its tokens: attention, and generation when it is asked.
    return float(run.train.steps * run.train.batch_size * run.model.context**1.5)


def _size(case: Case) -> tuple[int, int]:
    """Of two runs of as many tokens, the one with longer examples, or more of them, costs more to ask and to make."""
    if not isinstance(case.run, RunConfig):
        return 0, 0
    return _longest(small(case.run.data)), case.run.data.num_examples


@cache
def _longest(data: DataConfig) -> int:
    return max(len(example.text) for example in make_dataset(data, 0).examples("test"))


def _cut(run: RunConfig, steps: int) -> RunConfig:
    train = run.train.model_copy(update={"steps": steps, "eval_every": steps, "stop": StopConfig()})
    return run.model_copy(update={"train": train, "name": f"probe-{run.name}"})


def spread(cases: Sequence[Case]) -> list[Case]:
    """The ends first, then the middles: a curve that is cut short has its shape."""
    order, gaps = [], [(0, len(cases) - 1)]
    seen: set[int] = set()
    while gaps:
        low, high = gaps.pop(0)
        if low > high:
            continue
        for place in (low, high):
            if place not in seen:
                seen.add(place)
                order.append(place)
        middle = (low + high) // 2
        if high - low > 1:
            gaps += [(low + 1, middle), (middle + 1, high - 1)]
    return [cases[place] for place in order]


def _tasks(wanted: Iterable[Wanted], known: Known) -> list[Task]:
    """What has to be run for them, in their order."""
    runs: dict[str, AnyRun] = {}
    evaluations: dict[str, dict[str, Any]] = {}
    for want in wanted:
        case = want.case
        for parent in case.parents:
            runs.setdefault(parent.hash, parent)
            evaluations.setdefault(parent.hash, {})
        key, run = want.key, case.run
        if isinstance(run, RunConfig):
            before = runs.get(key)
            watch = dict.fromkeys((*(before.watch if isinstance(before, RunConfig) else ()), *run.watch))
            run = run.model_copy(update={"watch": tuple(watch)})
            evaluations.setdefault(key, {}).update(
                {question.config.hash: question.config for question in case.questions}
            )
        runs[key] = run
    for key in evaluations:
        for _, _, line in known.of_run.get(key, ()):  # once it is trained again, all of that is asked again
            question = line.config.get("evaluation")
            if line.evaluation not in evaluations[key] and isinstance(question, dict):
                evaluations[key] |= _question(question, line.evaluation)
    return [
        Task(run, tuple(evaluations.get(key, {}).values()), run.parent if isinstance(run, RunConfig) else None)
        for key, run in runs.items()
    ]


def _question(stored: Mapping[str, Any], name: str) -> dict[str, EvaluationConfig]:
    """A question as a line repeats it, by its hash; nothing if it has another meaning by now."""
    try:
        question = EvaluationConfig.model_validate(stored)
    except ValueError:
        return {}
    return {name: question} if question.hash == name else {}


def _measured_again(line: Line, answer: Mapping[str, Any], outcome: Outcome) -> Line:
    metrics = {key: value for key, value in answer.items() if key != "config"}
    return replace(line, metrics=metrics, seconds=outcome.seconds, device=outcome.device, version=outcome.version)


def _lines(want: Wanted, outcome: Outcome) -> list[Line]:
    case, lines = want.case, []
    config = case.run.model_dump(mode="json", exclude_defaults=True, exclude={"name", "evaluations", "watch"})
    if case.parents:
        config["parents"] = [
            p.model_dump(mode="json", exclude_defaults=True, exclude={"name", "evaluations", "watch"})
            for p in case.parents
        ]
    for evaluation, settings in want.lines:
        answer = outcome.answers.get(evaluation)
        if answer is None:
            continue
        metrics = dict(answer)
        question = metrics.pop("config", None)
        if evaluation == "history":
            metrics["history"] = _named(metrics["history"], case)
        complete = {**config, "evaluation": question} if question else config
        lines.append(
            Line(
                want.key,
                evaluation,
                complete,
                settings,
                case.run.seed,
                metrics,
                outcome.seconds,
                outcome.device,
                outcome.version,
            )
        )
    return lines


def _named(history: Iterable[dict[str, Any]], case: Case) -> list[dict[str, Any]]:
    """Columns by what the experiment calls them, instead of by hash."""
    names: dict[str, str] = {}
    for question in case.questions:
        names.setdefault(question.config.column, "-".join(str(value) for value in question.settings.values()))
    return [{names.get(key, key): value for key, value in row.items()} for row in history]
