"""Figures as SVG. The same figure is the same file, byte for byte, so that a report only changes when a number does."""

import io
import math
import re
from itertools import pairwise
from typing import Any

from ..errors import MissingExtra
from .content import Figure

# Okabe and Ito's palette: told apart by everyone, and in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000", "#B8A900")
_ROOM_FOR_LABELS = 50
"""Characters that stand side by side below a figure."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")


def draw(figure: Figure) -> str:
    """The figure as SVG text."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'carryon[plots]'") from None
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    settings: dict[Any, Any] = {
        "svg.hashsalt": "carryon",
        "svg.fonttype": "none",
        "font.size": 9,
        "font.family": "sans-serif",
    }
    with matplotlib.rc_context(settings):
        canvas, axes = plt.subplots(figsize=(7.4, 3.8), layout="constrained")
        (_bars if figure.bars else _lines)(axes, figure)
        axes.set_xlabel(figure.x)
        axes.set_ylabel(figure.y)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25, linewidth=0.6)
        if "%" in figure.y:
            axes.set_ylim(-3, 103)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
        else:
            axes.text(0.5, 0.5, "nothing measured yet", transform=axes.transAxes, ha="center", alpha=0.6)
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(canvas)
    svg = text.getvalue()
    return re.sub(r"\s*<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)


def styles(figure: Figure) -> dict[str, tuple[str, str]]:
    """Colour and marker of every series; the paper's has those of ours with the same name."""
    names = list(dict.fromkeys(series.subject for series in figure.series))
    kinds = {n: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, n in enumerate(names)}
    return {series.name: kinds[series.subject] for series in figure.series}


def _lines(axes: Any, figure: Figure) -> None:
    looks = styles(figure)
    for series in figure.series:
        points = [point for point in series.points if isinstance(point.x, int | float)]
        if not points:
            continue
        colour, marker = looks[series.name]
        x, y = [point.x for point in points], [point.y for point in points]
        theirs = series.source == "paper"
        many = len(points) > 30
        axes.plot(
            x,
            y,
            color=colour,
            marker="" if many else marker,
            markersize=5,
            markerfacecolor="none" if theirs else colour,
            linestyle=":" if theirs else "-",
            linewidth=1.1 if theirs else 1.7,
            alpha=0.75 if theirs else 1.0,
            label=series.name,
        )
        if not theirs and any(point.low is not None and point.low != point.high for point in points):
            low = [point.y if point.low is None else point.low for point in points]
            high = [point.y if point.high is None else point.high for point in points]
            if len(points) > 1:
                axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
            else:  # a band would have no width
                axes.vlines(x, low, high, color=colour, alpha=0.5, linewidth=1.7)
    if figure.log_x:
        axes.set_xscale("log")
        _plain_ticks(axes, figure)
    else:
        axes.xaxis.set_major_formatter("{x:,.10g}")


def _plain_ticks(axes: Any, figure: Figure) -> None:
    """Ticks people read: the points themselves where they are few, else 500, 1,000, 5,000."""
    values = sorted({p.x for s in figure.series for p in s.points if isinstance(p.x, int | float) and p.x > 0})
    if not values:
        return
    low, high = values[0], values[-1]
    if len(values) <= 9 and all(b / a > 1.3 for a, b in pairwise(values)):
        axes.set_xticks(values, [f"{value:,}" for value in values])
        axes.minorticks_off()
        return
    ticks = [m * 10**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)]
    ticks = [tick for tick in ticks if low * 0.9 <= tick <= high * 1.1]
    if len(ticks) > 9:
        ticks = [tick for tick in ticks if str(tick).startswith("1")]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()


def _bars(axes: Any, figure: Figure) -> None:
    looks = styles(figure)
    shown = [series for series in figure.series if series.points]
    labels = list(dict.fromkeys(str(point.x) for series in shown for point in series.points))
    width = min(0.82 / max(1, len(shown)), 0.3)
    for number, series in enumerate(shown):
        colour, _ = looks[series.name]
        theirs = series.source == "paper"
        x = [labels.index(str(point.x)) + width * (number - (len(shown) - 1) / 2) for point in series.points]
        y = [point.y for point in series.points]
        axes.bar(
            x,
            y,
            width,
            color="none" if theirs else colour,
            edgecolor=colour,
            hatch="////" if theirs else None,
            linewidth=0.9,
            label=series.name,
        )
        spread = [
            (p.y - (p.low if p.low is not None else p.y), (p.high if p.high is not None else p.y) - p.y)
            for p in series.points
        ]
        if not theirs and any(sum(pair) for pair in spread):
            axes.errorbar(
                x, y, yerr=list(zip(*spread, strict=True)), fmt="none", ecolor="#222222", elinewidth=1, capsize=2
            )
    crowded = sum(map(len, labels)) > _ROOM_FOR_LABELS
    axes.set_xticks(range(len(labels)), labels, rotation=20 if crowded else 0, ha="right" if crowded else "center")
    if len(labels) < 3:
        axes.set_xlim(-0.8, len(labels) - 0.2)
