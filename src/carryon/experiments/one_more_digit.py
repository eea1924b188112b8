"""How many examples teach a model one more digit?

The paper (fig multidigit_ft): models of 2, 3, 5 and 7 digits fine-tuned on up to 3, 4, 6 and 8 digits, four formats;
counted are the examples that have all digits. The released code loads the optimizer's state too and picks learning
rates on the test set. Ours: fresh optimizer, the authors' rates; the steps and sizes that the claims need. Tier fast
has 5,000 steps, as the authors (who give four digits 10,000, and 20,000 in detailed scratchpads), of fewer rows in
plain and reverse; simplified scratchpads have 2,000. In 2,000 steps the authors' small rates taught models of two
digits the third worse than training from nothing does (with 5,940 examples reverse 89 to 98 %, detailed scratchpads
86 to 97 %).
"""

from ..reports import Figure, Series, Table
from .base import Case, Experiment, Question, Tier
from .bounds import largest, ratio, smallest
from .claims import Claim
from .families import child_run, parent, up_to
from .measured import Measured
from .protocols import BARE, FORMATS, ask, few
from .showing import cell, paper_series

STEPS_UP = ((2, 3), (3, 4), (5, 6), (7, 8))
SIZES = {
    3: (1_000, 5_000, 10_000, 20_000),
    4: (1_000, 5_000, 10_000, 50_000),
    6: (2_000, 5_000, 20_000, 50_000),
    8: (5_000, 10_000, 20_000, 50_000),
}
"""Examples in all, by the digits they go up to: from some 500 with all digits to more than 10,000."""
FAST_STEPS = {"plain": 5_000, "reverse": 5_000, "simplified_scratchpad": 2_000, "detailed_scratchpad": 5_000}


def steps_up(tier: str) -> tuple[tuple[int, int], ...]:
    """Tier fast leaves out models of seven digits, which its training may be too short for."""
    return STEPS_UP if tier != "fast" else STEPS_UP[:3]


def rate(format: str, to: int) -> float:
    if "scratchpad" in format:
        return 5e-4 if to == 4 else 5e-5
    return 1e-3 if format == "plain" else 1e-4


def with_all_digits(size: int, digits: int) -> int:
    """How many of the examples have all digits, as the paper counts them; a few more may be drawn to fill up."""
    pairs = digits * (digits + 1) // 2
    return (size - 100) // (pairs - 1) * digits


def enough(measured: Measured, format: str, to: int, level: float) -> float:
    return measured.crossing(level, format=format, to=to)


class OneMoreDigit(Experiment):
    name = "one_more_digit"
    title = "From k digits to k + 1"
    paper = ("fig:multidigit_ft",)
    finding = (
        "Detailed scratchpads get 88.13, 90.40, 92.23 and 88.66 % of six digits with 570, 1,470, 5,970 and 14,970 "
        "examples, where the paper has 99 from 1,170 on. The models of five digits that they start from have not "
        "learnt those: 70.50, 95.20 and 88.70 % (seeds 0 to 2), after at most 6,000 steps, 20,000 in tier paper, of "
        "windows of which the authors read five times as many. Both stumble at one place: of 456 wrong answers with "
        "five digits 429, and of 1,217 with six 1,164, go wrong first where an operand is written out and its digits "
        "are counted. Seed 0 is the worst before and after: with 1,470 examples they get 78.60, 95.90 and 96.70."
    )
    finding_under = FORMATS.index("detailed_scratchpad")
    claims = (
        Claim(
            "few examples suffice",
            "Except for plain, 1,000 to 5,000 examples teach one more digit.",
            lambda m: largest(enough(m, format, to, 95) for format in FORMATS[1:] for _, to in steps_up(m.tier)),
            "examples with all digits for 95 %, worst of three formats and all lengths",
            (0, 5_000),
            (5_000, 10_000),
            "up to twice as many",
        ),
        Claim(
            "plain needs more",
            "Plain needs more than the other formats at every length.",
            lambda m: smallest(
                ratio(enough(m, "plain", to, 80), largest(enough(m, format, to, 80) for format in FORMATS[1:]))
                for _, to in steps_up(m.tier)
            ),
            "examples with all digits for 80 %, plain over the worst other, least of all lengths",
            (1.5, float("inf")),
            (1, 1.5),
            "somewhat more",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        cases = []
        for format in few(tier, FORMATS, 2):
            for start, to in few(tier, steps_up(tier)):
                before = parent(tier, format, start)
                cases.append(Case({"format": format, "digits": start}, before, [Question(ask(tier, BARE))]))
                steps = (20_000 if "detailed" in format else 10_000) if to == 4 else 5_000
                for size in few(tier, SIZES[to]):
                    settings = {"format": format, "from": start, "to": to, "examples": with_all_digits(size, to)}
                    data = up_to(format, to, size)
                    run = child_run(tier, data, steps, rate(format, to), fast_steps=FAST_STEPS[format])
                    cases.append(Case(settings, run, [Question(ask(tier, BARE))], [before]))
        return cases

    def report(self, measured: Measured) -> list[Figure | Table]:
        items: list[Figure | Table] = []
        for letter, format in zip("abcd", FORMATS, strict=True):
            series = [
                Series(f"to {to} digits", measured.curve("examples", format=format, to=to))
                for _, to in steps_up(measured.tier)
            ]
            word = format.replace("_", " ")
            names = {f"({letter}) {word}, to {to}-digit": f"to {to} digits (paper)" for _, to in STEPS_UP}
            series += paper_series(self.paper[0], names)
            items.append(
                Figure(f"One more digit, {word}", "examples with all digits", "test accuracy (%)", series, log_x=True)
            )
        rows = [
            [format, f"{start} to {to}", f"{size:,}", cell(measured.stat(format=format, to=to, examples=size))]
            for format in FORMATS
            for start, to in STEPS_UP
            for size in measured.values("examples", format=format, to=to)
        ]
        note = "Examples: those with all digits; shorter ones come on top."
        items.append(Table("Accuracy (%)", ("format", "digits", "examples", "accuracy"), rows, note))
        starts = [start for start, _ in steps_up(measured.tier)]
        known = [
            [format, *(cell(measured.stat(format=format, digits=start)) for start in starts)]
            for format in FORMATS
            if measured.values("digits", format=format)
        ]
        note = "One that was trained again to be asked rounds otherwise than the one that its children started from."
        items.append(
            Table(
                "Accuracy (%) of the models it starts from", ("format", *(f"{n} digits" for n in starts)), known, note
            )
        )
        return items
