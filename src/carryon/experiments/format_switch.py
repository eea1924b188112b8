"""Can a model trained in one format be fine-tuned to another?

The paper (fig ft_formats): three-digit models of four formats, and untrained ones, fine-tuned on four digits in each
of the four formats. The released code picks the best of four learning rates on the plotted test accuracy and halves
the axis of some curves. Ours: one learning rate, validation accuracy along the way, every curve on its own axis.
"""

from ..reports import Figure, Series, Table
from .base import INF, Case, Claim, Experiment, Measured, NotEnough, Question, Tier, cell, paper_series, ratio
from .families import child_run, parent, up_to
from .histories import curve
from .protocols import BARE, FORMATS, ask, few

TARGETS = {"plain": 20_000, "reverse": 10_000, "simplified_scratchpad": 5_000, "detailed_scratchpad": 2_000}
STARTS = (*FORMATS, "none")
SHORT = {"simplified_scratchpad": "simple", "detailed_scratchpad": "detailed", "none": "random init"}


def steps_to(measured: Measured, start: str, target: str, level: float = 0.9) -> float:
    """Steps until validation accuracy reaches a level, on average over seeds; inf: never."""
    found: list[float] = []
    for line in measured.of(start=start, target=target):
        if (history := line.metrics.get("history")) is not None:
            found.append(min((row["step"] for row in history if row.get("validation", 0) >= level), default=INF))
    if len(found) < measured.min_seeds:
        raise NotEnough(f"start {start}, target {target}, along the way")
    return max(1.0, sum(found) / len(found))


class FormatSwitch(Experiment):
    name = "format_switch"
    title = "From one format to another"
    paper = ("fig:ft_formats",)
    claims = (
        Claim(
            "same format is quickest",
            "A model learns four digits quickest in the format it was trained in.",
            lambda m: min(
                ratio(min(steps_to(m, s, target) for s in FORMATS if s != target), steps_to(m, target, target))
                for target in FORMATS
            ),
            "steps to 90 %, quickest other start over the same format, least of four targets",
            (1, INF),
            (0.5, 1),
            "not in every format",
        ),
        Claim(
            "detailed is hard to leave",
            "A detailed start is the slowest to learn reverse from.",
            lambda m: ratio(
                steps_to(m, "detailed_scratchpad", "reverse"),
                max(steps_to(m, start, "reverse") for start in ("plain", "reverse", "simplified_scratchpad")),
            ),
            "steps to 90 % in reverse, detailed start over the slowest other",
            (1.2, INF),
            (0.9, 1.2),
            "no slower than others",
        ),
        Claim(
            "any start beats none",
            "Any trained start beats random weights.",
            lambda m: min(
                ratio(steps_to(m, "none", target), max(steps_to(m, start, target) for start in FORMATS))
                for target in FORMATS
            ),
            "steps to 90 %, no start over the slowest trained one, least of four targets",
            (1.1, INF),
            (0.8, 1.1),
            "not in every format",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        cases = []
        for target in few(tier, FORMATS, 2):
            for start in few(tier, STARTS, 2):
                steps = 10_000 if tier == "paper" else 2_500
                data = up_to(target, 4, TARGETS[target])
                run = child_run(tier, data, steps, 5e-4, eval_every=250)
                parents = [] if start == "none" else [parent(tier, start)]
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
