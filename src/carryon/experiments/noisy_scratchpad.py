"""Do the intermediate steps have to be right?

The paper (fig simplified_scratchpad): simplified scratchpads with right steps, random digit sums (A), random carries
(C), or both; the final answer always right; addition and subtraction. In the released code the "right" addition set
of one pipeline is itself mostly noise. Ours: right means right.
"""

from ..config import DataConfig, FormatConfig
from ..reports import Figure, Series, Table
from .base import Case, Experiment, Question, Tier
from .bounds import ratio
from .claims import INF, Claim
from .measured import Measured
from .protocols import BARE, ask, few, make_run, sizes
from .showing import by_examples, cell, paper_series

NOISES = ("none", "A", "C", "both")
SIZES = (500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000)
PAPER = {"none": "correct A & C", "A": "random A", "C": "random C", "both": "random A & C"}


def sizes_of(tier: Tier, operation: str, noise: str) -> tuple[int, ...]:
    """Tier fast draws the curves that claims compare, and the ends of the others."""
    if tier != "fast":
        return sizes(tier, SIZES)[: None if tier == "paper" else 1]
    if operation == "add":
        return (500, 1_000, 2_000, 3_000, 5_000, 20_000) if noise in ("none", "both") else (1_000, 2_000, 20_000)
    return (1_000, 3_000, 20_000)


def cost_of_noise(measured: Measured) -> float:
    """Examples for 90 % with noise, over those without."""
    return ratio(*(measured.crossing(90, operation="add", noise=noise) for noise in ("both", "none")))


class NoisyScratchpad(Experiment):
    name = "noisy_scratchpad"
    title = "Scratchpads with wrong steps"
    paper = ("fig:simplified_scratchpad",)
    finding = (
        "A verdict on 5,000 steps, a quarter of the paper's: noise of either kind alone leaves subtraction 97.01 and "
        "99.90 %, both together 25.95, 37.29 and 7.33 % (seeds 0 to 2). Whether subtraction is worse with noise, or "
        "slower, the paper's own training has to say."
    )
    finding_under = 1  # subtraction
    claims = (
        Claim(
            "noise leaves the final accuracy",
            "With enough examples, models with noisy steps reach the same accuracy.",
            lambda m: min(m.mean(operation="add", noise=noise, examples=20_000) for noise in NOISES[1:]),
            "addition, 20,000 examples, worst kind of noise",
            (98, 100),
            (90, 98),
            "nearly the same",
            " %",
        ),
        Claim(
            "noise costs samples",
            "Noisy steps cost examples.",
            cost_of_noise,
            "addition, examples for 90 %, both noisy over none",
            (1.5, INF),
            (1.1, 1.5),
            "few",
        ),
        Claim(
            "the same for subtraction",
            "The same is true of subtraction.",
            lambda m: min(m.mean(operation="subtract", noise=noise, examples=20_000) for noise in NOISES[1:]),
            "subtraction, 20,000 examples, worst kind of noise",
            (98, 100),
            (85, 98),
            "nearly the same",
            " %",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        return [
            Case(
                {"operation": op, "noise": noise, "examples": size},
                make_run(
                    tier,
                    DataConfig(
                        operation=op,
                        format=FormatConfig(name="simplified_scratchpad", noise=noise),
                        num_examples=size,
                    ),
                ),
                [Question(ask(tier, BARE))],
            )
            for op in ("add", "subtract")
            for noise in few(tier, NOISES, 2)
            for size in sizes_of(tier, op, noise)
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        items: list[Figure | Table] = []
        for op, letter in (("add", "a"), ("subtract", "b")):
            ours = [Series(f"noise: {n}", measured.curve("examples", operation=op, noise=n)) for n in NOISES]
            word = "addition" if op == "add" else "subtraction"
            names = {f"({letter}) {word}, {theirs}": f"noise: {ours} (paper)" for ours, theirs in PAPER.items()}
            series = [*ours, *paper_series(self.paper[0], names)]
            items.append(by_examples(f"Simplified scratchpad, {word}", series))
        rows = [
            [op, f"{size:,}", *(cell(measured.stat(operation=op, noise=noise, examples=size)) for noise in NOISES)]
            for op in ("add", "subtract")
            for size in measured.values("examples", operation=op)
        ]
        items.append(Table("Accuracy (%) by noise", ("operation", "examples", *NOISES), rows))
        return items
