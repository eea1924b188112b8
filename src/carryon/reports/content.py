"""What a report is made of, before anybody decides how it looks."""

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


@dataclass(frozen=True)
class Figure:
    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    bars: bool = False
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
    items: Sequence[Figure | Table]
    provenance: str
    """Runs, seeds, devices, commits."""
    missing: str
    """What was not run; empty if nothing is missing."""


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
    claims: Sequence[tuple[str, str, str]]
    """Name, sentence and rule of every claim, decided or not."""
