"""What is said under a figure: how well the paper's points are known, and where ours are elsewhere."""

from .content import Figure, Point, Series

_READ_OFF = 0.5
"""A point of the paper that was read off a plot may be off by this, in the figure's unit."""


def captions(figure: Figure) -> list[str]:
    """Whole sentences."""
    theirs = [series for series in figure.series if series.source == "paper" and series.points]
    exactness = sorted({series.exactness for series in theirs if series.exactness})
    said = [f"The paper's points: {'; '.join(exactness)}. Bands: the range over our seeds."] if exactness else []
    ours = {series.name: series for series in figure.series if series.source == "ours"}
    pairs = [(ours.get(series.subject), series) for series in theirs]
    apart = [text for mine, paper in pairs if mine is not None and (text := _apart(mine, paper))]
    return [*said, f"Further from the paper than our seeds are from each other: {'; '.join(apart)}."] if apart else said


def _apart(ours: Series, theirs: Series) -> str:
    """Of two lines: at how many points, and where most."""
    mine = {point.x: point for point in ours.points if point.low is not None and (point.seeds or 0) > 1}
    both = [(mine[point.x], point) for point in theirs.points if point.x in mine]
    outside = [(one, other) for one, other in both if not _is_inside(one, other.y)]
    if not outside:
        return ""
    one, other = max(outside, key=lambda pair: abs(pair[0].y - pair[1].y))
    where = f"{one.x:,}" if isinstance(one.x, int | float) else one.x
    return (
        f"{ours.name} at {len(outside)} of {len(both)} points (most at {where}: {one.y:.1f}, the paper {other.y:.1f})"
    )


def _is_inside(point: Point, value: float) -> bool:
    assert point.low is not None
    assert point.high is not None
    return point.low - _READ_OFF <= value <= point.high + _READ_OFF
