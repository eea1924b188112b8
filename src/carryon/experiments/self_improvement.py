"""Does a model that learns from its own labels get to numbers far longer than those it was taught?

Lee et al. (2025): a decoder without any positions is taught short sums, labels sums one digit longer, trains on its
labels, and so on, with no true answer beyond the first; theirs got from ten digits to a hundred. Here: every number
lowest digit first and padded, up to ten digits taught, fifty rounds of a digit each in tier fast, with no filter, with
labels dropped that are too short, and with three models that vote. How many labels are true is counted and told, and
chooses nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..config import (
    DataConfig,
    FiltersConfig,
    FormatConfig,
    ImprovementConfig,
    ModelConfig,
    RoundsConfig,
    RunConfig,
    TrainConfig,
)
from ..reports import Figure, Item, Point, Series, Table
from .base import Case, Experiment, Tier
from .claims import INF, Claim
from .lengths import GROWING, SIZES, typical, worst
from .measured import Measured

FILTERS = {
    "none": FiltersConfig(),
    "length": FiltersConfig(length=True),
    "three votes": FiltersConfig(votes=3),
}
TAUGHT = 10
ALL_DONE = "all rounds done"
ROUNDS = {"fast": 55, "paper": 90}
DIAGONAL = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 80, 100)


def reaches(level: int) -> Any:
    """The longest length with at least so many percent; 0: none."""

    def metric(metrics: Mapping[str, Any]) -> float | None:
        return None if "diagonal" not in metrics else float(metrics.get(f"reaches_{level}") or 0)

    return metric


def least_true(metrics: Mapping[str, Any]) -> float | None:
    """Of the kept labels of any round, the least part in percent that was true; 0 where a round kept none."""
    if "rounds" not in metrics:
        return None
    if metrics.get("stopped") != ALL_DONE:
        return 0.0
    shares = [row["labels_true"] for row in metrics.get("rounds", ()) if row["labels_true"] is not None]
    return 100 * min(shares) if shares else None


def without_filter(measured: Measured) -> float:
    """How far it gets without a filter, as a part of how far with the best."""
    lengths = {name: typical(measured, reaches(99), filter=name) for name in FILTERS}
    return lengths["none"] / max(1.0, *lengths.values())


class SelfImprovement(Experiment):
    name = "self_improvement"
    title = "Models that learn from their own labels"
    claims = (
        Claim(
            "from ten digits to sixty",
            "Taught ten digits, a plain decoder without positions labels its own way to sixty.",
            lambda m: max(typical(m, reaches(99), filter=name) for name in FILTERS),
            "the longest length with 99 %, median over seeds, best of three filters",
            (60, INF),
            (20, 60),
            "part of the way",
            " digits",
            ours=True,
        ),
        Claim(
            "reverse sums need no filter",
            "Sums written lowest digit first need no filter.",
            without_filter,
            "the longest length with 99 %, median over seeds, without a filter as a part of the best",
            (0.9, 1),
            (0.5, 0.9),
            "they get further with one",
            "",
            ours=True,
        ),
        Claim(
            "labels stay true",
            "With the better filter nearly all labels stay true through all rounds.",
            lambda m: max(worst(m, least_true, filter=name) for name in FILTERS),
            "kept labels that are true, in the worst round of the worst seed, best of three filters",
            (99, 100),
            (90, 99),
            "most of them",
            " %",
            ours=True,
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        if tier == "smoke":
            return [Case({"filter": "none"}, make_improvement(tier, FiltersConfig()))]
        return [Case({"filter": name}, make_improvement(tier, filters)) for name, filters in FILTERS.items()]

    def report(self, measured: Measured) -> Sequence[Item]:
        along = [Series(f"filter: {name}", _along(measured, name)) for name in FILTERS]
        true = [Series(f"filter: {name}", _true(measured, name)) for name in FILTERS]
        cells = [
            [name, *(_each(measured, metric, name) for metric in (reaches(99), reaches(50), least_true))]
            for name in FILTERS
        ]
        return [
            Figure(f"At the end, taught up to {TAUGHT} digits", "digits of both numbers", "accuracy (%)", along),
            Figure("Labels that are true, of those kept in a round", "digits of the round", "labels (%)", true),
            Table(
                "The longest numbers added at the end, and the worst round's true labels, seed by seed",
                ("filter", "99 % up to", "50 % up to", "true labels (%)"),
                cells,
            ),
        ]


def make_improvement(tier: Tier, filters: FiltersConfig) -> ImprovementConfig:
    few = tier == "smoke"
    steps = {"smoke": 12, "fast": 5_000, "paper": 10_000}[tier]
    size: dict[str, Any] = {"layers": 1, "heads": 2, "width": 16} if few else dict(SIZES[tier])
    data = DataConfig(
        digits=3 if few else TAUGHT,
        format=FormatConfig(name="reverse_all_padded", width=0),
        sampler="equal_lengths",
        test_sampler="equal_lengths",
        num_examples=200 if few else 20_000,
        num_test=20 if few else 2_000,
        num_validation=10 if few else 200,
    )
    return ImprovementConfig(
        kind="self-improvement",
        name="self-improvement",
        base=RunConfig(
            data=data,
            model=ModelConfig(**size, position="none", dropout=0.0, context=48 if few else 3 * DIAGONAL[-1] + 32),
            train=TrainConfig(
                packing="rows",
                loss="answer",
                endless=True,
                batch_size=4 if few else 256,
                steps=steps,
                grow=int(steps * GROWING),
                lr=1e-3,
                final_lr=0.1,
                schedule="constant_then_linear",
                falling=0.2,
                beta2=0.98,
                weight_decay=0.01,
                eval_every=steps // 2,
            ),
        ),
        rounds=RoundsConfig(
            count=1 if few else ROUNDS[tier], problems=20 if few else 5_000, steps=4 if few else 400, lr=5e-4
        ),
        filters=filters,
        diagonal=(3, 4) if few else DIAGONAL,
        num_test=10 if few else 200,
        num_validation=10 if few else 200,
    )


def _along(measured: Measured, name: str) -> list[Point]:
    """Accuracy by digits at the end: mean and range over seeds."""

    def at(length: int) -> Any:
        def metric(metrics: Mapping[str, Any]) -> float | None:
            share = metrics.get("diagonal", {}).get(str(length))
            return None if share is None else 100 * float(share)

        return metric

    stats = [(length, measured.stat(at(length), filter=name)) for length in DIAGONAL]
    return [stat.point(length) for length, stat in stats if stat is not None]


def _true(measured: Measured, name: str) -> list[Point]:
    """True labels by the digits of their round."""
    by_digits: dict[int, list[float]] = {}
    for line in measured.of(filter=name):
        for row in line.metrics.get("rounds", ()):
            if row["labels_true"] is not None:
                by_digits.setdefault(row["digits"], []).append(100 * row["labels_true"])
    return [Point(digits, sum(v) / len(v), min(v), max(v), len(v)) for digits, v in sorted(by_digits.items())]


def _each(measured: Measured, metric: Any, name: str) -> str:
    """A number of every seed."""
    lines = sorted(measured.of(filter=name), key=lambda line: line.seed)
    return ", ".join("–" if (value := metric(line.metrics)) is None else f"{value:g}" for line in lines) or "–"
