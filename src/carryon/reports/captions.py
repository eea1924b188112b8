"""What is said under a figure: how well the paper's points are known, what is drawn how, where ours are elsewhere."""

from collections.abc import Sequence

from .content import Figure, HeatMap, Series

_LEAST = 0.5
"""What two runs differ by for nothing, in the figure's unit; a point that was read off a plot may be off by more."""


def captions(figure: Figure | HeatMap) -> list[str]:
    """Whole sentences."""
    if isinstance(figure, HeatMap):
        return []
    theirs = [series for series in figure.series if series.source == "paper" and series.points]
    ours = [series for series in figure.series if series.source == "ours" and series.points]
    said = [f"The paper's points: {exactness}."] if (exactness := _exactness(theirs)) else []
    if theirs and not ours:
        said.append("Of ours nothing was run yet.")
    if figure.x_end is not None:
        last = max(float(point.x) for series in theirs for point in figure.placed(series))
        said.append(f"The paper's go on to {last:,.10g}.")
    if figure.log_x and figure.kind == "lines":
        unplaced = [
            f"{'the paper ' if series.source == 'paper' else ''}{point.y:g} at {point.x} ({series.subject})"
            for series in (*ours, *theirs)
            for point in series.points
            if not isinstance(point.x, str) and point not in figure.placed(series)
        ]
        if unplaced:
            said.append(f"Left of the axis: {'; '.join(unplaced)}.")
    if figure.y_start:
        said.append(f"The axis begins at {figure.y_start:.0f} %.")
    points = [point for series in ours for point in series.points]
    if any(point.spread for point in points):
        said.append(f"{'Bands' if figure.kind == 'lines' else 'Whiskers'}: the range over our seeds.")
        if figure.kind == "lines" and any(point.seeds == 1 for point in points):
            said.append("Small points: one seed.")
    elif any(point.seeds == 1 for point in points):
        said.append("Ours are one seed.")
    if figure.kind == "lines" and any(point.after_gap for point in points):
        said.append("Thinly dashed: what was planned in between was not run.")
    by_name = {series.name: series for series in ours}
    pairs = [(by_name.get(series.subject), series) for series in theirs]
    apart = [text for mine, paper in pairs if mine is not None and (text := _apart(mine, paper))]
    if apart:
        most = max(_LEAST, *(series.within for series in theirs))
        said.append(
            f"Further from the paper than our seeds are from each other, by more than {most:g}: {'; '.join(apart)}."
        )
    return said


def _exactness(theirs: Sequence[Series]) -> str:
    """How well they are known; which, where some are known better than others."""
    groups: dict[str, list[str]] = {}
    for series in theirs:
        if series.exactness:
            groups.setdefault(series.exactness, []).append(series.subject)
    if len(groups) < 2:
        return "".join(groups)
    *few, (most, _) = sorted(groups.items(), key=lambda group: len(group[1]))
    return "; ".join([*(f"{', '.join(names)} {how}" for how, names in few), f"the others {most}"])


def _apart(ours: Series, theirs: Series) -> str:
    """Of two lines: at how many points, and where most."""
    mine = {point.x: point for point in ours.points if point.spread and (point.seeds or 0) > 1}
    both = [(mine[point.x], point) for point in theirs.points if point.x in mine]
    off = max(_LEAST, theirs.within)
    outside = [
        (one, other) for one, other in both if one.spread and not one.spread[0] - off <= other.y <= one.spread[1] + off
    ]
    if not outside:
        return ""
    one, other = max(outside, key=lambda pair: abs(pair[0].y - pair[1].y))
    where = f"{one.x:,}" if isinstance(one.x, int | float) else one.x
    return (
        f"{ours.name} at {len(outside)} of {len(both)} points (most at {where}: {one.y:.1f}, the paper {other.y:.1f})"
    )
