"""What reports are made of: the paper's points, and cells of tables."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..paper import figure
from ..reports import Figure, Point, Series
from .measured import SAMPLED_AT_08, Measured, Metric, Stat, accuracy


def paper_series(label: str, names: Mapping[str, str] | None = None) -> list[Series]:
    """The paper's points of a figure, by the names we give them; those that are not named are left out."""
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


def by_examples(title: str, series: Sequence[Series]) -> Figure:
    """The paper's usual figure."""
    return Figure(title, "training examples", "test accuracy (%)", series, log_x=True)


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
