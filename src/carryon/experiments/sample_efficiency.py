"""How many examples does each format need?

The paper (figs nanogpt_sample_efficiency, input_formatting): plain, reverse, simplified and detailed scratchpad, 250 to
20,000 examples of three-digit addition (plain from 1,000 on). The released code: detailed runs for 20,000 or 50,000
steps and simplified for 20,000; its simplified scratchpads are mostly noise in one of two pipelines; scratchpads are
tested on 990 prompts, some without their "Target:" line. Ours: the same test set for all, right scratchpads.
"""

from ..reports import Figure, Series, Table
from .base import Case, Experiment, Question, Tier
from .bounds import ratio
from .claims import INF, Claim
from .measured import Measured
from .plain_vs_reverse import FEW_EXAMPLES
from .protocols import BARE, FORMATS, addition, ask, detailed_steps, make_run, sizes
from .showing import by_examples, cell, paper_series

SIZES = (250, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000, 20_000, 40_000)
SCRATCHPAD_SIZES = SIZES[:-2]
"""Scratchpads are perfect long before: more examples would show nothing."""
PAPER_NAMES = {name.replace("_", " "): f"{name} (paper)" for name in FORMATS}


def needed(measured: Measured, format: str, level: float = 99) -> float:
    return measured.crossing(level, format=format)


class SampleEfficiency(Experiment):
    name = "sample_efficiency"
    title = "How many examples each format needs"
    paper = ("fig:nanogpt_sample_efficiency", "fig:input_formatting")
    finding = FEW_EXAMPLES
    claims = (
        Claim(
            "detailed needs 1,000",
            "With a detailed scratchpad about 1,000 examples are enough.",
            lambda m: needed(m, "detailed_scratchpad"),
            "examples for 99 %, detailed scratchpad",
            (0, 1_000),
            (1_000, 2_000),
            "about twice as many",
        ),
        Claim(
            "simplified needs 2,000",
            "With a simplified scratchpad about 2,000 examples are enough.",
            lambda m: needed(m, "simplified_scratchpad"),
            "examples for 99 %, simplified scratchpad",
            (0, 2_000),
            (2_000, 4_000),
            "about twice as many",
        ),
        Claim(
            "reverse needs twice that",
            "Reverse needs more than twice the examples of the simplified scratchpad.",
            lambda m: ratio(needed(m, "reverse"), needed(m, "simplified_scratchpad")),
            "examples for 99 %, reverse over simplified scratchpad",
            (2, INF),
            (1, 2),
            "more, but less than twice",
            after_the_runs="before, it asked for about twice; reverse was measured, scratchpads in part",
        ),
        Claim(
            "plain never gets there",
            "Plain does not reach perfect accuracy with any number of examples tried.",
            lambda m: max(m.mean(format="plain", examples=n) for n in SIZES),
            "best plain accuracy, bare prompt",
            (0, 98),
            (98, 99.5),
            "it nearly does",
            " %",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        return [
            Case(
                {"format": format, "examples": size},
                make_run(tier, addition(format, size), steps=detailed_steps(format)),
                [Question(ask(tier, BARE))],
            )
            for format in FORMATS
            for size in sizes(tier, SCRATCHPAD_SIZES if "scratchpad" in format else SIZES)
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        ours = [Series(format, measured.curve("examples", format=format)) for format in FORMATS]
        rows = [
            [f"{size:,}", *(cell(measured.stat(format=format, examples=size)) for format in FORMATS)]
            for size in measured.values("examples")
        ]
        theirs = paper_series(self.paper[0], PAPER_NAMES)
        return [
            by_examples("Sample efficiency", [*ours, *theirs]),
            Table("Accuracy (%)", ("examples", *FORMATS), rows),
        ]
