"""What do more digits cost?

The paper (fig multidigit_scratch): addition of up to 5, 7 and 10 digits, four formats, 5,000 to 500,000 examples. The
released code gives plain 10,000 to 25,000 steps, reverse lr 5e-4, scratchpads a context of 2,048 and detailed ones
five batches a step; its simplified scratchpads are mostly noise, and most scratchpad points are tested on 100 problems.
Ours: the same budgets (simplified scratchpads, at most 170 characters, have a context of 1,024), right scratchpads,
test problems that do not occur in training. Tier fast gives longer numbers more steps, too: with 5,000 for all, ten
digits were learnt by no format (14 to 49 % with the most examples, one seed), and the detailed scratchpad of ten digits
was at 45 % after 15,000.
"""

from ..config import DataConfig
from ..reports import Figure, Series, Table
from .base import Case, Experiment, Question, Tier
from .bounds import largest, ratio
from .claims import INF, Claim
from .measured import Measured
from .protocols import BARE, FORMATS, LONGER_STEPS, ask, few, make_run
from .showing import by_examples, cell, paper_series

DIGITS = (5, 7, 10)
SIZES = {
    "plain": (10_000, 20_000, 50_000, 100_000, 200_000, 500_000),
    "reverse": (1_000, 2_000, 5_000, 10_000, 20_000),
    "simplified_scratchpad": (1_000, 2_000, 5_000, 10_000, 20_000),
    "detailed_scratchpad": (500, 1_000, 2_000, 5_000),
}
FAST_SIZES = {
    "plain": (10_000, 20_000, 50_000, 100_000, 200_000),
    "reverse": (1_000, 2_000, 5_000, 10_000, 20_000, 50_000),
    "simplified_scratchpad": (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000),
    "detailed_scratchpad": (250, 500, 1_000, 2_000, 5_000, 10_000),
}
"""The same at the lengths that are compared: a gap in one grid would pass for a difference. So wide that the claims are
decided, too, where twice or half of the paper's examples are needed; what lies beyond the turns need not be run.
"""
COMPARED = (5, 10)
FAST_LONGER_STEPS = {
    "plain": {5: 5_000, 7: 7_500, 10: 10_000},
    "reverse": {5: 5_000, 7: 5_000, 10: 5_000},
    "simplified_scratchpad": {5: 10_000, 7: 15_000, 10: 20_000},
    "detailed_scratchpad": {5: 10_000, 7: 15_000, 10: 30_000},
}
FAST_WINDOWS = {"plain": 256, "reverse": 256, "simplified_scratchpad": 16, "detailed_scratchpad": 8}
CONTEXT = {"plain": 256, "reverse": 256, "simplified_scratchpad": 1024, "detailed_scratchpad": 2048}


def longer(format: str, digits: int, size: int) -> DataConfig:
    num_test = 1_000 if "scratchpad" in format else 10_000
    return DataConfig(
        digits=digits,
        sampler="balanced_lengths",
        format=format,  # type: ignore[arg-type]
        num_examples=size,
        num_test=num_test,
        num_validation=200 if "scratchpad" in format else 1_000,
    )


def growth(measured: Measured, format: str, level: float) -> float:
    """How many times the examples ten digits need, compared to five."""
    return ratio(*(measured.crossing(level, format=format, digits=digits) for digits in reversed(COMPARED)))


def sizes(tier: Tier, format: str, digits: int) -> tuple[int, ...]:
    """Tier fast tries every other size at the length between those that are compared."""
    if tier == "paper":
        return SIZES[format]
    return FAST_SIZES[format] if digits in COMPARED else FAST_SIZES[format][1::2]


class LongerDigits(Experiment):
    name = "longer_digits"
    title = "Addition of up to 5, 7 and 10 digits"
    paper = ("fig:multidigit_scratch",)
    claims = (
        Claim(
            "plain needs ever more",
            "The longer the numbers, the more examples plain needs.",
            lambda m: growth(m, "plain", 80),
            "examples for 80 %, plain, 10 digits over 5",
            (1.5, INF),
            (1.1, 1.5),
            "slightly more",
        ),
        Claim(
            "reverse does not",
            "Reverse needs hardly more examples for longer numbers.",
            lambda m: growth(m, "reverse", 90),
            "examples for 90 %, reverse, 10 digits over 5",
            (0, 2),
            (2, 5),
            "somewhat more",
        ),
        Claim(
            "scratchpads do not",
            "With scratchpads the number of examples needed stays about the same.",
            lambda m: largest(growth(m, format, 80) for format in ("simplified_scratchpad", "detailed_scratchpad")),
            "examples for 80 %, 10 digits over 5, worse of the scratchpads",
            (0, 2),
            (2, 5),
            "it grows somewhat",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        cases = []
        for format in FORMATS:
            for digits in few(tier, DIGITS):
                for size in few(tier, sizes(tier, format, digits)):
                    run = make_run(
                        tier,
                        longer(format, digits, size),
                        steps=LONGER_STEPS[format][digits],
                        lr=5e-4 if format == "reverse" else 1e-3,
                        context=CONTEXT[format],
                        batch_size=80 if "detailed" in format else None,
                        accumulation=5 if "detailed" in format else 1,
                        fast_steps=FAST_LONGER_STEPS[format][digits],
                        fast_batch=FAST_WINDOWS[format],
                        eval_every=1_000 if "detailed" in format else None,  # answers of 900 characters
                    )
                    settings = {"format": format, "digits": digits, "examples": size}
                    cases.append(Case(settings, run, [Question(ask(tier, BARE))]))
        return cases

    def report(self, measured: Measured) -> list[Figure | Table]:
        items: list[Figure | Table] = []
        for letter, digits in zip("abc", DIGITS, strict=True):
            ours = [Series(f, measured.curve("examples", format=f, digits=digits)) for f in FORMATS]
            names = {f"({letter}) {digits}-digit, {f.replace('_', ' ')}": f"{f} (paper)" for f in FORMATS}
            series = [*ours, *paper_series(self.paper[0], names)]
            items.append(by_examples(f"Up to {digits} digits", series))
        rows = [
            [format, str(digits), f"{size:,}", cell(measured.stat(format=format, digits=digits, examples=size))]
            for format in FORMATS
            for digits in DIGITS
            for size in measured.values("examples", format=format, digits=digits)
        ]
        return [*items, Table("Accuracy (%)", ("format", "digits", "examples", "accuracy"), rows)]
