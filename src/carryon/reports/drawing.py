"""Figures as SVG. The same figure is the same file, byte for byte, so that a report only changes when a number does."""

import io
import math
import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from statistics import median
from typing import Any

from ..errors import MissingExtra
from .content import Figure, HeatMap, Point, Series

# Okabe and Ito's palette, black last, and a brown. Colour is never all that tells two lines apart: see MARKERS.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000", "#7A4A00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")
_ROOM_FOR_LABELS = 50
"""Characters that stand side by side below a figure."""
_MANY = 30
"""More points than this are a curve: a few of them get a marker, and it breaks where some are missing."""
_GREY = "#555555"


def draw(figure: Figure | HeatMap) -> str:
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
        "axes.axisbelow": True,
    }
    with matplotlib.rc_context(settings):
        size = (7.4, 3.8) if isinstance(figure, Figure) else _size(figure)
        canvas, axes = plt.subplots(figsize=size, layout="constrained")
        axes.set_xlabel(figure.x)
        axes.set_ylabel(figure.y)
        if isinstance(figure, Figure):
            _figure(axes, figure)
        else:
            _heat(axes, figure)
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(canvas)
    svg = text.getvalue()
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return re.sub(r"(<svg[^>]*>)", lambda tag: f"{tag[0]}\n <title>{escape(figure.title)}</title>", svg, count=1)


def _figure(axes: Any, figure: Figure) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    {"bars": _bars, "dots": _dots, "lines": _lines}[figure.kind](axes, figure)
    if "%" in figure.y:
        start = figure.y_start
        axes.set_ylim(start if figure.kind == "bars" else start - 0.03 * (100 - start), 100 + 0.03 * (100 - start))
    shown = [series.name for series in figure.series if series.points]
    if shown and shown != ["ours"]:
        axes.legend(handles=_legend(figure), loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    if not shown:
        _nothing(axes)


def _nothing(axes: Any) -> None:
    axes.text(0.5, 0.5, "nothing measured yet", transform=axes.transAxes, ha="center", alpha=0.6)


def _size(heat: HeatMap) -> tuple[float, float]:
    """In inches, so that cells have room for their numbers."""
    return min(7.4, 1.2 + 0.55 * len(heat.columns)), 0.9 + 0.36 * len(heat.rows)


def _heat(axes: Any, heat: HeatMap) -> None:
    """Every cell with its number, so that no colour has to be read."""
    from matplotlib.colors import LinearSegmentedColormap

    values = [[math.nan if value is None else value for value in row] for row in heat.values]
    if not any(value is not None for row in heat.values for value in row):
        _nothing(axes)
        return
    colours = LinearSegmentedColormap.from_list("percent", ("#ffffff", COLOURS[0]))
    axes.pcolormesh(values, cmap=colours, vmin=0, vmax=100, edgecolors="#ffffff", linewidth=1.2)
    for row, each in enumerate(heat.values):
        for column, value in enumerate(each):
            shown = "–" if value is None else f"{math.floor(value + 1e-9)}"
            ink = "#ffffff" if (value or 0) > 60 else "#222222"
            axes.text(column + 0.5, row + 0.5, shown, ha="center", va="center", fontsize=7.5, color=ink)
    axes.set_xticks([place + 0.5 for place in range(len(heat.columns))], heat.columns)
    axes.set_yticks([place + 0.5 for place in range(len(heat.rows))], heat.rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def styles(figure: Figure) -> dict[str, tuple[str, str]]:
    """Colour and marker of every subject: the paper's points have those of ours."""
    names = list(dict.fromkeys(series.subject for series in figure.series))
    return {n: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, n in enumerate(names)}


def _legend(figure: Figure) -> list[Any]:
    """Each subject once, and how ours and the paper's differ where the paper has points."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown = [series for series in figure.series if series.points]
    subjects = {series.subject for series in shown}
    looks = {name: look for name, look in styles(figure).items() if name in subjects}
    sources = list(dict.fromkeys(series.source for series in shown))
    told = [] if sources == ["ours"] else sources
    words = {"ours": "ours", "paper": "the paper"}
    handles: list[Any] = []
    if figure.kind == "bars":
        handles += [Patch(facecolor=colour, label=name) for name, (colour, _) in looks.items()]
        filled: dict[str, Any] = {"ours": {"facecolor": _GREY}, "paper": {"facecolor": "none", "hatch": "////"}}
        handles += [Patch(edgecolor=_GREY, label=words[source], **filled[source]) for source in told]
    else:
        line: Any = "-" if figure.kind == "lines" else ""
        handles += [
            Line2D([], [], color=colour, marker=marker, markersize=5, linestyle=line, linewidth=1.7, label=name)
            for name, (colour, marker) in looks.items()
        ]
        handles += [Line2D([], [], linestyle="", label="")] * bool(told)
        handles += [
            Line2D([], [], color=_GREY, label=words[source], **_look(source, figure.kind == "lines")) for source in told
        ]
    return handles


def _look(source: str, line: bool) -> dict[str, Any]:
    """Ours are solid and filled, the paper's dotted and open."""
    if source == "paper":
        return {"linestyle": ":" if line else "", "linewidth": 1.1, "marker": "o", "markerfacecolor": "none"}
    return {"linestyle": "-" if line else "", "linewidth": 1.7, "marker": "o"}


def _lines(axes: Any, figure: Figure) -> None:
    looks = styles(figure)
    alpha = 0.18 if sum(series.source == "ours" for series in figure.series) <= 5 else 0.09
    for series in figure.series:
        points = figure.placed(series)
        if not points:
            continue
        colour, marker = looks[series.subject]
        theirs = series.source == "paper"
        fill: dict[str, Any] = {"color": colour, "alpha": 0.75 if theirs else 1.0}
        line: dict[str, Any] = {"linestyle": ":" if theirs else "-", "linewidth": 1.1 if theirs else 1.7}
        for piece in _pieces(points):
            axes.plot([p.x for p in piece], [p.y for p in piece], **line, **fill)
        for before, after in pairwise(points):
            if after.after_gap:
                axes.plot([before.x, after.x], [before.y, after.y], linestyle=(0, (2, 4)), linewidth=0.9, **fill)
        marked = points[:: math.ceil(len(points) / 10)] if len(points) > _MANY else points
        for point in marked:
            size = 3 if point.seeds == 1 and not theirs else 5
            face = "none" if theirs else colour
            axes.plot(point.x, point.y, marker=marker, markersize=size, markerfacecolor=face, linestyle="", **fill)
        if not theirs:
            _bands(axes, points, colour, alpha)
    if figure.log_x:
        axes.set_xscale("log")
        _ticks(axes, figure)
    else:
        if figure.x_end is not None:
            first = min(float(p.x) for series in figure.series for p in figure.placed(series))
            axes.set_xlim(first - 0.02 * (figure.x_end - first), figure.x_end)
        axes.xaxis.set_major_formatter("{x:,.10g}")


def _pieces(points: Sequence[Point]) -> Iterator[Sequence[Point]]:
    """Points that a line joins: what was planned between them was run, and curves have no hole there."""
    step = math.inf
    if len(points) > _MANY:
        step = 2.5 * median(float(after.x) - float(before.x) for before, after in pairwise(points))
    begin = 0
    for place, (before, after) in enumerate(pairwise(points), start=1):
        if after.after_gap or float(after.x) - float(before.x) > step:
            yield points[begin:place]
            begin = place
    yield points[begin:]


def _bands(axes: Any, points: Sequence[Point], colour: str, alpha: float) -> None:
    """The range over seeds, where there are several; a point alone has a line."""
    begin = 0
    for place in range(1, len(points) + 1):
        joined = place < len(points) and not points[place].after_gap and points[place].spread and points[begin].spread
        if joined:
            continue
        part = [point for point in points[begin:place] if point.spread]
        x, ends = [point.x for point in part], [point.spread or (point.y, point.y) for point in part]
        low, high = [end[0] for end in ends], [end[1] for end in ends]
        if len(part) > 1:
            axes.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0)
        elif part and low != high:  # a band would have no width
            axes.vlines(x, low, high, color=colour, alpha=0.5, linewidth=1.7)
        begin = place


def _ticks(axes: Any, figure: Figure) -> None:
    """Ticks people read: the ends, and of the points themselves, or else of 500, 1,000, 5,000, what has room."""
    values = sorted({float(p.x) for series in figure.series for p in figure.placed(series)})
    if not values:
        return
    low, high = values[0], values[-1]
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    round_ones = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
    between = values if len(values) <= 12 else [tick for tick in round_ones if low < tick < high]
    labels = {value: f"{value:,.0f}" if value >= 100 else f"{value:,.4g}" for value in (low, high, *between)}
    room = math.log10(high / low) / 62 if high > low else 1.0  # what a character takes, with the legend beside it
    chosen: list[float] = []
    # Thousands before what lies between them: 10,000 says more than 20,000.
    for value in sorted(labels, key=lambda v: (v not in (low, high), -_zeros(v), v)):
        if all(
            abs(math.log10(value / other)) > room * (len(labels[value]) + len(labels[other]) + 2) / 2
            for other in chosen
        ):
            chosen.append(value)
    axes.set_xticks(sorted(chosen), [labels[value] for value in sorted(chosen)])
    axes.minorticks_off()


def _zeros(value: float) -> bool:
    return math.log10(value) % 1 == 0


def _places(figure: Figure) -> tuple[list[str], list[tuple[Series, list[float]]]]:
    """What stands below, and where each series has its points beside the others'."""
    shown = [series for series in figure.series if series.points]
    labels = list(dict.fromkeys(_label(point.x) for series in shown for point in series.points))
    width = _width(len(shown))
    return labels, [
        (series, [labels.index(_label(p.x)) + width * (number - (len(shown) - 1) / 2) for p in series.points])
        for number, series in enumerate(shown)
    ]


def _width(count: int) -> float:
    return min(0.82 / max(1, count), 0.3)


def _label(x: float | str) -> str:
    return x if isinstance(x, str) else f"{x:,.10g}"


def _bars(axes: Any, figure: Figure) -> None:
    labels, placed = _places(figure)
    for series, x in placed:
        colour, _ = styles(figure)[series.subject]
        theirs = series.source == "paper"
        axes.bar(
            x,
            [point.y for point in series.points],
            _width(len(placed)),
            color="none" if theirs else colour,
            edgecolor=colour,
            hatch="////" if theirs else None,
            linewidth=0.9,
        )
        _whiskers(axes, x, series, "#222222")
    _name_places(axes, labels)


def _dots(axes: Any, figure: Figure) -> None:
    labels, placed = _places(figure)
    for series, x in placed:
        colour, marker = styles(figure)[series.subject]
        face = "none" if series.source == "paper" else colour
        y = [point.y for point in series.points]
        axes.plot(x, y, color=colour, marker=marker, markersize=5.5, markerfacecolor=face, linestyle="")
        _whiskers(axes, x, series, colour)
    for place in range(1, len(labels)):
        axes.axvline(place - 0.5, color="#000000", alpha=0.08, linewidth=0.8)
    _name_places(axes, labels)


def _whiskers(axes: Any, places: Sequence[float], series: Series, colour: str) -> None:
    for x, point in zip(places, series.points, strict=True):
        if point.spread and point.spread[0] != point.spread[1]:
            low, high = point.spread
            axes.errorbar(
                x, point.y, yerr=[[point.y - low], [high - point.y]], fmt="none", ecolor=colour, elinewidth=1, capsize=2
            )


def _name_places(axes: Any, labels: Sequence[str]) -> None:
    crowded = sum(map(len, labels)) > _ROOM_FOR_LABELS
    axes.set_xticks(range(len(labels)), labels, rotation=20 if crowded else 0, ha="right" if crowded else "center")
    edge = 0.8 if len(labels) < 3 else 0.6
    axes.set_xlim(-edge, len(labels) - 1 + edge)
