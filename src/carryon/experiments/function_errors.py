"""Where do sine and square root go wrong?

The paper (fig analyzing_sin_sqrt): models of 10,000 examples, accuracy by the true output in bins of 0.02, exactly
and within 5e-4. The released analysis counts `< eps` where the accuracy counts `<= eps`, and drops what is no number.
Ours: `<=` for both, and no number is wrong. Right is the number that the format's text ends on: the detailed series
for sine stops so early that what it writes is the true value in 3 % of all problems; the table shows how often a
model's text ends on the one and on the other.
"""

from collections.abc import Mapping
from typing import Any

from ..reports import Figure, Point, Series, Table
from .base import Case, Experiment, Question, Tier
from .claims import Claim
from .measured import Measured, share
from .other_operations import STEPS_MISSING, data_of
from .protocols import BARE, ask, detailed_steps, make_run
from .showing import cell, paper_series

FORMATS = ("plain", "detailed_scratchpad")


def near(measured: Measured, operation: str, format: str, low: float, high: float, within: str = "0") -> float:
    """Accuracy over the bins whose middle lies between two outputs."""

    def metric(metrics: Mapping[str, Any]) -> float | None:
        bins = metrics.get("by", {}).get(f"output within {within}", {})
        inside = [counts for middle, counts in bins.items() if low <= float(middle) <= high]
        count = sum(every for _, every in inside)
        return 100 * sum(right for right, _ in inside) / count if count else None

    return measured.mean(metric, operation=operation, format=format)


def half_way_up(measured: Measured) -> float:
    return (near(measured, "sine", "plain", 0.3, 0.8) + near(measured, "sine", "plain", -0.8, -0.3)) / 2


class FunctionErrors(Experiment):
    name = "function_errors"
    title = "Sine and square root, by the value they give"
    paper = ("fig:analyzing_sin_sqrt",)
    finding = STEPS_MISSING
    claims = (
        Claim(
            "sine gets better near 1",
            "Sine is more often right where it is flat, near 1 and -1, than half-way up.",
            lambda m: (near(m, "sine", "plain", 0.97, 1) + near(m, "sine", "plain", -1, -0.97)) / 2 - half_way_up(m),
            "plain, accuracy beyond 0.97 minus between 0.3 and 0.8",
            (5, float("inf")),
            (1, 5),
            "by less",
            " points",
        ),
        Claim(
            "sine is good near 0",
            "Sine is more often right near 0 than half-way up.",
            lambda m: near(m, "sine", "plain", -0.1, 0.1) - half_way_up(m),
            "plain, accuracy within 0.1 of 0 minus between 0.3 and 0.8",
            (5, float("inf")),
            (1, 5),
            "by less",
            " points",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        return [
            Case(
                {"operation": op, "format": format},
                make_run(tier, data_of(op, format, 10_000), steps=detailed_steps(format)),
                [Question(ask(tier, BARE))],
            )
            for op in ("sine", "sqrt")
            for format in FORMATS
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        items: list[Figure | Table] = []
        for op in ("sine", "sqrt"):
            for within, eps in (("0", "eps=0"), ("5e-4", "eps=5e-4")):
                series = [Series(format, _bins(measured, op, format, within)) for format in FORMATS]
                names = {f"{op}: {format.replace('_', ' ')}, {eps}": f"{format} (paper)" for format in FORMATS}
                series += paper_series(self.paper[0], names)
                title = f"{op}, exactly right" if within == "0" else f"{op}, within 5e-4"
                items.append(Figure(title, "true output", "accuracy (%)", series))
        rows = [
            [
                op,
                format,
                *(
                    cell(measured.stat(share(kind, t), operation=op, format=format))
                    for kind in ("tolerance of the ending", "tolerance")
                    for t in ("0", "5e-4")
                ),
            ]
            for op in ("sine", "sqrt")
            for format in FORMATS
        ]
        columns = ("operation", "format", "exact", "within 5e-4", "exact, of the true value", "within 5e-4 of it")
        return [*items, Table("Accuracy (%)", columns, rows)]


def _bins(measured: Measured, operation: str, format: str, within: str) -> list[Point]:
    lines = measured.of(operation=operation, format=format)
    middles = sorted(
        {m for line in lines for m in line.metrics.get("by", {}).get(f"output within {within}", {})}, key=float
    )
    points = []
    for middle in middles:
        stat = measured.stat(share(f"output within {within}", middle), operation=operation, format=format)
        if stat is not None:
            points.append(stat.point(float(middle)))
    return points
