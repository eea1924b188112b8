"""What a report is made of, before anybody decides how it looks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Source = Literal["paper", "ours"]
Decision = Literal["holds", "holds with a correction", "does not hold", "not enough runs"]


@dataclass(frozen=True)
class Point:
    x: float | str
    y: float
    low: float | None = None
    high: float | None = None
    """The spread over seeds; None: a single number, such as the paper's."""
    seeds: int | None = None
    after_gap: bool = False
    """Whether what was planned between the point before and this one was not run."""

    @property
    def spread(self) -> tuple[float, float] | None:
        """The range over several seeds; one seed has none."""
        several = self.low is not None and self.high is not None and (self.seeds is None or self.seeds > 1)
        return (self.low, self.high) if several else None  # type: ignore[return-value]


@dataclass(frozen=True)
class Series:
    name: str
    points: Sequence[Point]
    source: Source = "ours"
    exactness: str = ""
    """How well the paper's numbers are known: exact, or read off a plot."""

    @property
    def subject(self) -> str:
        """What it is about: the same for ours and the paper's."""
        return self.name.removesuffix(" (paper)")

    @property
    def within(self) -> float:
        """How far off the paper's numbers may be, in the figure's unit."""
        found = re.search(r"within ([0-9.]+)", self.exactness)
        return float(found[1]) if found else 0.0


@dataclass(frozen=True)
class Figure:
    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    bars: bool = False
    note: str = ""

    def placed(self, series: Series) -> list[Point]:
        """The points that have a place on an axis of numbers; a logarithmic one has none for 0."""
        return [
            point
            for point in series.points
            if not isinstance(point.x, str) and not (self.log_x and float(point.x) <= 0)
        ]

    @property
    def kind(self) -> Literal["bars", "dots", "lines"]:
        """Dots are for categories of which bars from 0 would show nothing, and where a line has no second point."""
        if self.bars:
            return "dots" if self.y_start else "bars"
        return "lines" if len({point.x for series in self.series for point in self.placed(series)}) > 1 else "dots"

    @property
    def y_start(self) -> float:
        """Where an axis of percent begins: above 0 if all there is lies far up, and differs."""
        ends = [point.spread[0] if point.spread else point.y for series in self.series for point in series.points]
        if "%" not in self.y or len(set(ends)) < 2 or min(ends) < 60:
            return 0
        return min(90, 10 * ((min(ends) - 1) // 10))

    @property
    def x_end(self) -> float | None:
        """Where the axis ends if the paper's points go on for so long that ours would have no room."""
        ends = {
            source: max((float(p.x) for s in self.series if s.source == source for p in self.placed(s)), default=0)
            for source in ("ours", "paper")
        }
        far = not self.log_x and 0 < ends["ours"] < ends["paper"] / 2
        return 1.6 * ends["ours"] if far else None


@dataclass(frozen=True)
class HeatMap:
    """Percentages by two things: rows from below, columns from the left, as axes go."""

    title: str
    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float | None]]
    """Row by row; None: not measured."""
    note: str = ""


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    claim: str
    """Its name inside the experiment."""
    says: str
    rule: str
    decision: Decision
    because: str
    """The number that decides it, in words."""
    hangs_on_seed: bool = False
    """Whether single seeds, each by itself, would decide otherwise."""


@dataclass(frozen=True)
class TierPart:
    """What one tier has to say about an experiment."""

    tier: str
    verdicts: Sequence[Verdict]
    items: "Sequence[Item]"
    provenance: str
    """Runs, seeds, devices, commits."""
    missing: str
    """What was not run; empty if nothing is missing."""


@dataclass(frozen=True)
class Sentence:
    """A claim, decided or not."""

    name: str
    says: str
    rule: str
    ours: bool = False
    """Whether it is not the paper's."""


@dataclass(frozen=True)
class Chapter:
    """All about one experiment."""

    name: str
    title: str
    about: str
    paper: Sequence[str]
    without_numbers: Sequence[str]
    """Those of the paper's figures whose numbers were never published."""
    parts: Sequence[TierPart]
    missing: str
    """What was not run, if that is everything."""
    claims: Sequence[Sentence]


Item = Figure | HeatMap | Table
