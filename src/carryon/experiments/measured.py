"""What was measured, asked by what it varies: means and ranges over seeds, curves, and where they reach a level."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..reports import Point
from ..results import Line
from .bounds import AtLeast, AtMost, NotEnough

Settings = Mapping[str, Any]
GREEDY, SAMPLED_AT_08 = "greedy", "sampled at 0.8"
"""What the setting `decoding` can be; a line without it was greedy."""


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

    def by_seed(self) -> "list[Measured]":
        """Each seed by itself."""
        seeds = sorted({line.seed for line in self.lines})
        return [
            Measured([line for line in self.lines if line.seed == seed], self.tier, 1, self.planned) for seed in seeds
        ]

    def of(self, **settings: Any) -> list[Line]:
        """The lines with just these settings among theirs; greedy ones, unless another decoding is named."""
        return [line for line in self.lines if matches(line.settings, settings)]

    def values(self, name: str, **settings: Any) -> list[Any]:
        """What a setting takes among the lines, each once, in their order."""
        return _values(name, (line.settings for line in self.lines), settings)

    def values_planned(self, name: str, **settings: Any) -> list[Any]:
        """What it will take once everything is run, if that is known."""
        return _values(name, self.planned, settings) or self.values(name, **settings)

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
            return self.lacking(_words(settings) + so_far)
        return stat.mean

    def lacking(self, what: str) -> float:
        """For a rule that finds no number to go on with."""
        raise NotEnough(what)

    def curve(self, x: str, metric: Metric = accuracy, /, **settings: Any) -> list[Point]:
        """A line of a figure, over the values that setting `x` takes; it tells where planned ones were not run."""
        points: list[Point] = []
        skipped = False
        for value in _in_order({*self.values(x, **settings), *self.values_planned(x, **settings)}):
            stat = self.stat(metric, **{**settings, x: value})
            if stat is not None:
                points.append(replace(stat.point(value), after_gap=skipped and bool(points)))
            skipped = stat is None
        return points

    def crossing(self, level: float, x: str = "examples", metric: Metric = accuracy, /, **settings: Any) -> float:
        """The smallest `x` at which the mean reaches a level, on straight lines between points.

        Outside of what was tried, a bound. NotEnough where the point before it was not measured: a curve that lacks its
        beginning crosses nowhere. A point below the level speaks for those before it.
        """
        bracket = self.bracket(level, x, metric, **settings)
        lacking = [value for value, y in bracket.items() if y is None]
        if len(lacking) > 1:
            raise NotEnough(f"{_words(settings)}, {x} {lacking[0]:,} to {lacking[-1]:,}")
        points = [(value, self.mean(metric, **{**settings, x: value})) for value in bracket]
        if not points:
            raise NotEnough(_words(settings))
        start, end = points[0], points[-1]
        if start != end:
            return _where(start, end, level)
        return AtMost(start[0]) if start[1] >= level else AtLeast(start[0])

    def bracket(
        self, level: float, x: str = "examples", metric: Metric = accuracy, /, **settings: Any
    ) -> dict[Any, float | None]:
        """Where a curve reaches a level: from the last `x` that is known to lie below it to the first that is known to
        reach it, and all between them, which have too few seeds (None).
        """
        points: dict[Any, float | None] = {}
        for value in self.values_planned(x, **settings):
            stat = self.stat(metric, **{**settings, x: value})
            y = stat.mean if stat is not None and stat.seeds >= self.min_seeds else None
            points[value] = y
            if y is not None and y >= level:
                break
            if y is not None:
                points = {value: y}
        return points


def matches(given: Settings, wanted: Settings) -> bool:
    """Whether a line with these settings is one of those asked for."""
    wanted = {"decoding": GREEDY, **wanted}
    return all((given.get(key, GREEDY) if key == "decoding" else given.get(key)) == wanted[key] for key in wanted)


def _values(name: str, all_settings: Iterable[Settings], wanted: Settings) -> list[Any]:
    return _in_order({settings[name] for settings in all_settings if name in settings and matches(settings, wanted)})


def _in_order(values: Iterable[Any]) -> list[Any]:
    """Numbers, then words."""
    return sorted(values, key=lambda value: (isinstance(value, str), value))


def _where(start: tuple[float, float], end: tuple[float, float], level: float) -> float:
    """The x of a level on the straight line between two points."""
    (x0, y0), (x1, y1) = start, end
    return x0 + (x1 - x0) * (level - y0) / (y1 - y0)


def _words(settings: Settings) -> str:
    return ", ".join(
        f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in settings.items()
    )
