"""What an experiment is: cases to run, a report, and claims with the rules that decide them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..config import AnyRun, EnumerationConfig, EvaluationConfig, RunConfig
from ..reports import Decision, Figure, Point, Series, Table, Verdict
from ..results import Line

Tier = Literal["smoke", "fast", "paper"]
Settings = Mapping[str, Any]

GREEDY, SAMPLED_AT_08 = "greedy", "sampled at 0.8"
"""What the setting `decoding` can be; a line without it was greedy."""
SEEDS: dict[str, int] = {"smoke": 1, "fast": 3, "paper": 2}
"""Seeds a claim wants before it is decided, and what `reproduce` runs if nothing else is said."""


@dataclass(frozen=True)
class Question:
    """An evaluation, and what it varies."""

    config: EvaluationConfig
    settings: Settings = field(default_factory=dict)


ASKED = (Question(EvaluationConfig()),)


@dataclass(frozen=True)
class Case:
    """One run of an experiment, apart from its seed."""

    settings: Settings
    run: AnyRun
    questions: Sequence[Question] = ASKED
    parents: Sequence[RunConfig] = ()
    """Runs whose weights this one starts from, the first one first."""
    history: bool = False
    """Keep what was measured along the way, too."""

    def with_seed(self, seed: int) -> "Case":
        """The same with another seed, parents and all."""
        if not isinstance(self.run, RunConfig):
            return Case(self.settings, self.run.model_copy(update={"seed": seed}), self.questions)
        before: str | None = None
        chain = []
        for config in (*self.parents, self.run):
            config = config.model_copy(update={"seed": seed, "parent": before})
            chain.append(config)
            before = config.hash
        return Case(self.settings, chain[-1], self.questions, tuple(chain[:-1]), self.history)

    def with_seeds(self, count: int) -> "list[Case]":
        """Once for each seed; an enumeration draws nothing, and once is enough."""
        return [self.with_seed(seed) for seed in range(1 if isinstance(self.run, EnumerationConfig) else count)]


class NotEnough(Exception):
    """A number that a claim needs was not measured, or with too few seeds."""


@dataclass(frozen=True)
class Stat:
    """One number over several seeds."""

    mean: float
    low: float
    high: float
    seeds: int

    def point(self, x: float | str) -> Point:
        return Point(x, self.mean, self.low, self.high, self.seeds)


Metric = Callable[[Mapping[str, Any]], float | None]


def accuracy(metrics: Mapping[str, Any]) -> float | None:
    """In percent."""
    found = metrics.get("accuracy")
    return None if found is None else 100 * float(found)


def share(kind: str, label: str) -> Metric:
    """Accuracy in percent of one part: share("digits", "2"), share("slice", "with a hidden number")."""

    def metric(metrics: Mapping[str, Any]) -> float | None:
        right, count = metrics.get("by", {}).get(kind, {}).get(label, (0, 0))
        return 100 * right / count if count else None

    return metric


def number(name: str, scale: float = 1.0) -> Metric:
    """A number that is stored under this name."""

    def metric(metrics: Mapping[str, Any]) -> float | None:
        found = metrics.get(name)
        return None if found is None else scale * float(found)

    return metric


class Measured:
    """An experiment's results in one tier, asked by what they vary.

    `planned`: the settings of all lines there will be, so that a rule knows what was not measured yet.
    """

    def __init__(
        self, lines: Iterable[Line], tier: str = "fast", min_seeds: int = 1, planned: Sequence[Settings] = ()
    ) -> None:
        self.lines, self.tier, self.min_seeds, self.planned = list(lines), tier, min_seeds, planned

    def of(self, **settings: Any) -> list[Line]:
        """The lines with just these settings among theirs; greedy ones, unless another decoding is named."""
        return [line for line in self.lines if _matches(line.settings, settings)]

    def values(self, name: str, **settings: Any) -> list[Any]:
        """What a setting takes among the lines, each once, in their order."""
        return _values(name, (line.settings for line in self.lines), settings)

    def stat(self, metric: Metric = accuracy, /, **settings: Any) -> Stat | None:
        """Mean and range over seeds; lines of one seed are averaged first. None: nothing measured."""
        by_seed: dict[int, list[float]] = {}
        for line in self.of(**settings):
            if (value := metric(line.metrics)) is not None:
                by_seed.setdefault(line.seed, []).append(value)
        means = [sum(values) / len(values) for values in by_seed.values()]
        return Stat(sum(means) / len(means), min(means), max(means), len(means)) if means else None

    def mean(self, metric: Metric = accuracy, /, **settings: Any) -> float:
        """For a claim: NotEnough where too few seeds were run."""
        stat = self.stat(metric, **settings)
        if stat is None or stat.seeds < self.min_seeds:
            so_far = f" ({stat.seeds} of {self.min_seeds} seeds so far)" if stat else ""
            raise NotEnough(_words(settings) + so_far)
        return stat.mean

    def curve(self, x: str, metric: Metric = accuracy, /, **settings: Any) -> list[Point]:
        """A line of a figure, over the values that setting `x` takes."""
        points = []
        for value in self.values(x, **settings):
            if stat := self.stat(metric, **{**settings, x: value}):
                points.append(stat.point(value))
        return points

    def crossing(self, level: float, x: str = "examples", metric: Metric = accuracy, /, **settings: Any) -> float:
        """The smallest `x` at which the mean reaches a level, on straight lines between points.

        Outside of what was tried, a bound. NotEnough where an `x` up to there was not measured: a curve that lacks its
        beginning crosses nowhere.
        """
        values = _values(x, self.planned, settings) or self.values(x, **settings)
        if not values:
            raise NotEnough(_words(settings))
        before: tuple[float, float] | None = None
        for value in values:
            y = self.mean(metric, **{**settings, x: value})
            if y >= level:
                return AtMost(value) if before is None else _where(before, (value, y), level)
            before = value, y
        return AtLeast(values[-1])


def _matches(given: Settings, wanted: Settings) -> bool:
    wanted = {"decoding": GREEDY, **wanted}
    return all((given.get(key, GREEDY) if key == "decoding" else given.get(key)) == wanted[key] for key in wanted)


def _values(name: str, all_settings: Iterable[Settings], wanted: Settings) -> list[Any]:
    found = {settings[name] for settings in all_settings if name in settings and _matches(settings, wanted)}
    return sorted(found, key=lambda value: (isinstance(value, str), value))


def _where(start: tuple[float, float], end: tuple[float, float], level: float) -> float:
    """The x of a level on the straight line between two points."""
    (x0, y0), (x1, y1) = start, end
    return x0 + (x1 - x0) * (level - y0) / (y1 - y0)


class _Bound(float):
    """All that is known of a positive number."""

    def __mul__(self, factor: float) -> "_Bound":
        return type(self)(float(self) * factor)

    def __truediv__(self, divisor: float) -> "_Bound":
        return type(self)(float(self) / divisor)


class AtLeast(_Bound):
    """A level that was not reached by the largest `x` tried."""


class AtMost(_Bound):
    """A level that was reached from the smallest `x` tried on."""


def ratio(above: float, below: float) -> float:
    """For a claim: one crossing over another. NotEnough where two bounds on the same side say nothing."""
    if isinstance(above, AtLeast) and isinstance(below, AtLeast):
        raise NotEnough("neither side of the ratio got that far")
    if isinstance(above, AtMost) and isinstance(below, AtMost):
        raise NotEnough("both sides of the ratio were there from the first point on")
    value = float(above) / float(below)
    if isinstance(above, AtLeast) or isinstance(below, AtMost):
        return AtLeast(value)
    return AtMost(value) if isinstance(above, AtMost) or isinstance(below, AtLeast) else value


def largest(values: Iterable[float]) -> float:
    """The maximum, and what is known of it."""
    values = list(values)
    top = max(values)
    return AtLeast(top) if any(isinstance(value, AtLeast) for value in values) else top


def smallest(values: Iterable[float]) -> float:
    """The minimum, and what is known of it."""
    values = list(values)
    low = min(values)
    return AtMost(low) if any(isinstance(value, AtMost) for value in values) else low


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, in our words, and the rule that decides it: one number and two ranges.

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
            return Verdict(self.name, self.says, self.rule, "not enough runs", f"not measured: {missing}")
        because = f"{self.of} is {_shown(value)}{self.unit}"
        decision, *others = {self._decision(possible) for possible in self._possible(value)}
        if others:
            return Verdict(
                self.name, self.says, self.rule, "not enough runs", f"not measured: {because}, no more is known"
            )
        if decision == "holds with a correction":
            because += f": {self.correction}"
        return Verdict(self.name, self.says, self.rule, decision, because)

    def _decision(self, value: float) -> Decision:
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


def _words(settings: Settings) -> str:
    return ", ".join(
        f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in settings.items()
    )


INF = float("inf")


def _range(bounds: tuple[float, float], unit: str) -> str:
    low, high = bounds
    if low == -INF:
        return f"up to {_shown(high)}{unit}"
    return f"from {_shown(low)}{unit}" + ("" if high == INF else f" to {_shown(high)}{unit}")


def _shown(value: float) -> str:
    if isinstance(value, _Bound):
        return f"{'at least' if isinstance(value, AtLeast) else 'at most'} {_shown(float(value))}"
    if value in (INF, -INF):
        return "without limit" if value > 0 else "none"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


class Experiment(ABC):
    """One figure or table of the paper, or a question of ours."""

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[tuple[str, ...]] = ()
    """Labels of the paper's figures and tables."""
    claims: ClassVar[tuple[Claim, ...]] = ()
    seeds: ClassVar[Mapping[str, int]] = SEEDS
    """By tier; more where the seeds differ by more than what is to be told apart."""

    @abstractmethod
    def cases(self, tier: Tier) -> list[Case]:
        """What to run."""

    @abstractmethod
    def report(self, measured: Measured) -> list[Figure | Table]:
        """What to show, the paper's numbers beside ours."""

    def planned(self, tier: Tier) -> list[Settings]:
        """What each line varies once everything is run."""
        return [{**case.settings, **question.settings} for case in self.cases(tier) for question in case.questions]

    def verdicts(self, measured: Measured) -> list[Verdict]:
        return [claim.decide(measured) for claim in self.claims]


def paper_series(label: str, names: Mapping[str, str] | None = None) -> list[Series]:
    """The paper's points of a figure, by the names we give them; those that are not named are left out."""
    from ..paper import figure

    data = figure(label)
    wanted = names if names is not None else {name: name for name in data["series"]}
    return [
        Series(
            shown,
            [Point(x, y) for x, y in data["series"][name]],
            "paper",
            _exactness(data.get("exactness", {}), name),
        )
        for name, shown in wanted.items()
        if name in data["series"]
    ]


def _exactness(told: Mapping[str, str], name: str) -> str:
    """How exactly a series was read: told by its name, by how the name begins, or of all others."""
    starts = [key for key in told if key.endswith("*") and name.startswith(key[:-1])]
    keys = (name, *sorted(starts, key=len, reverse=True), "others")
    return next((told[key] for key in keys if key in told), "")


def cell_with_sampled(measured: Measured, metric: Metric = accuracy, /, **settings: Any) -> str:
    """A number in a table, and what it was when sampled, if that was asked."""
    sampled = measured.stat(metric, **settings, decoding=SAMPLED_AT_08)
    shown = cell(measured.stat(metric, **settings))
    return f"{shown}; sampled {cell(sampled)}" if sampled else shown


def cell(stat: Stat | None, unit: str = "") -> str:
    """A number in a table: mean, spread, seeds. Rounded down: 99.996 is not 100.00."""
    if stat is None:
        return "–"
    mean, low, high = (f"{math.floor(100 * value + 1e-6) / 100:.2f}" for value in (stat.mean, stat.low, stat.high))
    seeds = "1 seed" if stat.seeds == 1 else f"{stat.seeds} seeds"
    return f"{mean}{unit} ({seeds})" if low == high else f"{mean}{unit} ({low} to {high}, {seeds})"
