"""Which worked steps for subtraction?

The paper (fig subtraction_ar_result): plain, reverse, detailed scratchpad, and a second detailed version that
compares the operands first and subtracts the smaller; version 2 does worse. In the released code version 2 compares
operands as text (so that 9 > 10) and teaches wrong comparisons. Ours: the same two versions, with right labels.
"""

from ..config import DataConfig
from ..reports import Figure, Series, Table
from .base import Case, Experiment, Question, Tier
from .bounds import NotEnough
from .claims import INF, Claim
from .measured import Measured
from .protocols import BARE, ask, detailed_steps, make_run
from .showing import cell

FORMATS = ("plain", "reverse", "detailed_scratchpad", "detailed_scratchpad_v2")
LEAST_ERRORS = 20


def comparison_share(measured: Measured) -> float:
    """Of version 2's wrong answers, those whose scratchpad first goes wrong in the comparison."""
    lines = measured.of(format="detailed_scratchpad_v2")
    measured.mean(format="detailed_scratchpad_v2")  # enough seeds?
    counts: list[dict[str, int]] = [line.metrics.get("first_wrong_lines", {}) for line in lines]
    every = sum(sum(kinds.values()) for kinds in counts)
    if every < LEAST_ERRORS:
        raise NotEnough(f"version 2 gave {every} wrong answers: too few to say where they come from")
    return sum(kinds.get("comparison", 0) for kinds in counts) / every


class SubtractionSteps(Experiment):
    name = "subtraction_steps"
    title = "Worked steps for subtraction: borrow as you go, or compare first"
    paper = ("fig:subtraction_ar_result",)
    claims = (
        Claim(
            "comparing first is worse",
            "Comparing the operands first (version 2) gives considerably lower accuracy.",
            lambda m: m.mean(format="detailed_scratchpad") - m.mean(format="detailed_scratchpad_v2"),
            "accuracy, version 1 minus version 2",
            (5, INF),
            (0.2, 5),
            "lower by little",
            " points",
        ),
        Claim(
            "errors come from the comparison",
            "Most of version 2's errors start in the comparison.",
            comparison_share,
            "share of version 2's wrong answers whose scratchpad first goes wrong in the comparison",
            (0.5, 1),
            (0.2, 0.5),
            "many, not most",
        ),
        Claim(
            "detailed beats plain",
            "The detailed scratchpad beats plain by far.",
            lambda m: m.mean(format="detailed_scratchpad") - m.mean(format="plain"),
            "accuracy, detailed minus plain",
            (10, INF),
            (2, 10),
            "by less",
            " points",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        return [
            Case(
                {"format": format},
                make_run(tier, DataConfig(operation="subtract", format=format), steps=detailed_steps(format)),  # type: ignore[arg-type]
                [Question(ask(tier, BARE))],
            )
            for format in FORMATS
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        stats = {format: measured.stat(format=format) for format in FORMATS}
        wrong = {format: _first_wrong(measured, format) if "scratchpad" in format else "" for format in FORMATS}
        rows = [[format, cell(stats[format]), wrong[format]] for format in FORMATS]
        points = [stat.point(format) for format, stat in stats.items() if stat]
        note = "The paper's bars were not published as numbers."
        return [
            Figure("Subtraction, 10,000 examples", "format", "test accuracy (%)", [Series("ours", points)], bars=True),
            Table(
                "Accuracy (%)",
                ("format", "accuracy", "where the scratchpads of wrong answers first go wrong"),
                rows,
                note,
            ),
        ]


def _first_wrong(measured: Measured, format: str) -> str:
    counts: dict[str, int] = {}
    for line in measured.of(format=format):
        for kind, count in line.metrics.get("first_wrong_lines", {}).items():
            counts[kind] = counts.get(kind, 0) + count
    if not counts:
        return "none" if measured.of(format=format) else "–"
    return ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts.items(), key=lambda item: -item[1]))
