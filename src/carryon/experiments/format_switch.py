"""Can a model trained in one format be fine-tuned to another?

The paper (fig ft_formats): three-digit models of four formats, and untrained ones, fine-tuned on four digits in each
of the four formats. The released code picks the best of four learning rates on the plotted test accuracy and halves
the axis of some curves. Ours: one learning rate, validation accuracy along the way, every curve on its own axis; what
was learnt is its mean along the way, since plain levels off below any level that others reach. Tier paper's
models to start from have all read windows of 1,024 tokens, as the authors', who gave plain 20,000 steps for that and
reverse 10,000. Tier fast's plain and reverse ones come without places 257 to 1,024; a scratchpad has to learn them
with everything else.
"""

from collections.abc import Mapping
from typing import Any

from ..reports import Figure, Series, Table
from .base import Case, Experiment, Question, Tier
from .claims import INF, Claim
from .families import child_run, parent, up_to
from .histories import curve
from .measured import Measured
from .protocols import BARE, FORMATS, ask, few
from .showing import cell, paper_series

TARGETS = {"plain": 20_000, "reverse": 10_000, "simplified_scratchpad": 5_000, "detailed_scratchpad": 2_000}
STARTS = (*FORMATS, "none")
SHORT = {"simplified_scratchpad": "simple", "detailed_scratchpad": "detailed", "none": "random init"}


def learnt(measured: Measured, start: str, target: str) -> float:
    """Validation accuracy in percent, on average along the way: the sooner and the better, the more."""
    return measured.mean(_along_the_way, start=start, target=target)


def _along_the_way(metrics: Mapping[str, Any]) -> float | None:
    if (history := metrics.get("history")) is None:
        return None
    values: list[float] = [100.0 * row["validation"] for row in history if row.get("validation") is not None]
    return sum(values) / max(1, len(values))


class FormatSwitch(Experiment):
    name = "format_switch"
    title = "From one format to another"
    paper = ("fig:ft_formats",)
    finding = (
        "Plain models end at 49.26 % here because tier fast stops at 2,500 steps and starts from models that have "
        "never seen places 257 to 1,024. With the paper's steps, from models that have, they get 100.00 and 99.10 % "
        "(tier paper, seeds 0 and 1), half right after 1,000 and 1,750 steps, where the paper has 61 % after 500. The "
        "released code shows the best of four learning rates there, chosen on the accuracy that is plotted; ours has "
        "one."
    )
    finding_under = FORMATS.index("simplified_scratchpad")
    claims = (
        Claim(
            "same format is quickest",
            "A model learns four digits quickest in the format it was trained in.",
            lambda m: min(
                learnt(m, target, target) - max(learnt(m, start, target) for start in FORMATS if start != target)
                for target in FORMATS
            ),
            "accuracy along the way, same format minus the best other start, least of four targets",
            (0, INF),
            (-10, 0),
            "not in every format",
            " points",
        ),
        Claim(
            "detailed is hard to leave",
            "Of the four formats a model may come from, reverse is learnt slowest from detailed.",
            lambda m: (
                min(learnt(m, start, "reverse") for start in ("plain", "reverse", "simplified_scratchpad"))
                - learnt(m, "detailed_scratchpad", "reverse")
            ),
            "accuracy in reverse along the way, worst other start minus detailed",
            (5, INF),
            (-5, 5),
            "no slower than others",
            " points",
        ),
        Claim(
            "often worse than untrained",
            "To come from another format is often worse than to begin untrained.",
            lambda m: sum(
                learnt(m, start, target) < learnt(m, "none", target)
                for target in FORMATS
                for start in FORMATS
                if start != target
            ),
            "of the twelve ways from one format to another, those learnt more slowly than untrained",
            (4, 12),
            (1, 3),
            "now and then",
            after_the_runs="added later: the paper says so, and it was missing; of untrained models one seed was known",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        cases = []
        for target in few(tier, FORMATS, 2):
            for start in few(tier, STARTS, 2):
                steps = 10_000 if tier == "paper" else 2_500
                data = up_to(target, 4, TARGETS[target])
                run = child_run(tier, data, steps, 5e-4, eval_every=250, stop=False)
                parents = [] if start == "none" else [parent(tier, start, all_places=tier == "paper")]
                asked = [Question(ask(tier, BARE))]
                cases.append(Case({"start": start, "target": target}, run, asked, parents, history=True))
        return cases

    def report(self, measured: Measured) -> list[Figure | Table]:
        items: list[Figure | Table] = []
        for target in FORMATS:
            series = [Series(start, curve(measured.of(start=start, target=target), "validation")) for start in STARTS]
            names = {
                f"fine-tune with {SHORT.get(target, target)} | pretrained {SHORT.get(s, s)}": f"{s} (paper)"
                for s in STARTS
            }
            series += paper_series(self.paper[0], names)
            items.append(Figure(f"To four digits in {target}", "steps", "validation accuracy (%)", series))
        rows = [[start, *(cell(measured.stat(start=start, target=target)) for target in FORMATS)] for start in STARTS]
        return [*items, Table("Test accuracy (%) at the end", ("trained before in", *FORMATS), rows)]
