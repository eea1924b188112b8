"""How many examples teach a model one more digit?

The paper (fig multidigit_ft): models of 2, 3, 5 and 7 digits fine-tuned on 3, 4, 6 and 8 digits, four formats. The
released code loads the optimizer's state too and picks learning rates on the test set. Ours: fresh optimizer, one
rate a format, 500 to 10,000 examples.
"""

from ..reports import Figure, Series, Table
from .base import Case, Claim, Experiment, Measured, Question, Tier, cell, paper_series, ratio
from .families import child_run, parent, up_to
from .protocols import BARE, FORMATS, ask, few

STEPS_UP = ((2, 3), (3, 4), (5, 6), (7, 8))
SIZES = (1_000, 2_000, 5_000, 10_000)
LR = {"plain": 1e-3, "reverse": 1e-4, "simplified_scratchpad": 1e-4, "detailed_scratchpad": 1e-4}


def enough(measured: Measured, format: str, to: int) -> float:
    return measured.crossing(95, format=format, to=to)


class OneMoreDigit(Experiment):
    name = "one_more_digit"
    title = "From k digits to k + 1"
    paper = ("fig:multidigit_ft",)
    claims = (
        Claim(
            "few examples suffice",
            "Except for plain, 1,000 to 5,000 examples teach one more digit.",
            lambda m: max(enough(m, format, to) for format in FORMATS[1:] for _, to in STEPS_UP),
            "examples for 95 %, worst of three formats and four lengths",
            (0, 5_000),
            (5_000, 10_000),
            "up to twice as many",
        ),
        Claim(
            "plain needs more",
            "Plain needs more than the other formats at every length.",
            lambda m: min(
                ratio(enough(m, "plain", to), max(enough(m, format, to) for format in FORMATS[1:]))
                for _, to in STEPS_UP
            ),
            "examples for 95 %, plain over the worst other, least of four lengths",
            (1.5, float("inf")),
            (1, 1.5),
            "somewhat more",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        return [
            Case(
                {"format": format, "from": start, "to": to, "examples": size},
                child_run(tier, up_to(format, to, size), 5_000 if tier == "paper" else 2_000, LR[format]),
                [Question(ask(tier, BARE))],
                [parent(tier, format, start)],
            )
            for format in few(tier, FORMATS, 2)
            for start, to in few(tier, STEPS_UP)
            for size in few(tier, SIZES)
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        items: list[Figure | Table] = []
        for letter, format in zip("abcd", FORMATS, strict=True):
            series = [Series(f"to {to} digits", measured.curve("examples", format=format, to=to)) for _, to in STEPS_UP]
            word = format.replace("_", " ")
            names = {f"({letter}) {word}, to {to}-digit": f"to {to} digits (paper)" for _, to in STEPS_UP}
            series += paper_series(self.paper[0], names)
            items.append(
                Figure(f"One more digit, {word}", "fine-tuning examples", "test accuracy (%)", series, log_x=True)
            )
        rows = [
            [format, f"{start} to {to}", f"{size:,}", cell(measured.stat(format=format, to=to, examples=size))]
            for format in FORMATS
            for start, to in STEPS_UP
            for size in measured.values("examples", format=format, to=to)
        ]
        return [*items, Table("Accuracy (%)", ("format", "digits", "examples", "accuracy"), rows)]
