"""What was measured along the way, as points of a figure."""

from collections.abc import Iterable

from ..reports import Point
from ..results import Line


def curve(lines: Iterable[Line], column: str, scale: float = 100) -> list[Point]:
    """One column of the runs' histories, in percent, over steps: mean and range over seeds."""
    by_step: dict[int, list[float]] = {}
    for line in lines:
        for row in line.metrics.get("history") or []:
            if (value := row.get(column)) is not None:
                by_step.setdefault(row["step"], []).append(scale * value)
    return [Point(step, sum(v) / len(v), min(v), max(v), len(v)) for step, v in sorted(by_step.items())]
