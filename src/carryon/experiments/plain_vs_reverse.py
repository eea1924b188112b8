"""Is it easier to write a sum lowest digit first?

The paper (fig plain_vs_reverse): three-digit addition, plain with 1,000 to 20,000 examples, reverse with 250 to 20,000.
Plain levels off near 85 %, reverse turns from nothing to nearly all between 1,000 and 4,000. The released code: one
seed; plain's prompt starts at position 0, where in training mostly the rest of an example stands; the curves come from
two evaluations with different test sets. Ours: one test set, greedy and sampled, and the same prompt after a newline,
as nearly every example stood in training.
"""

from ..reports import Figure, Series, Table
from .base import Case, Experiment, Question, Tier
from .claims import Claim
from .measured import GREEDY, SAMPLED_AT_08, Measured
from .protocols import BARE, NEWLINE, SAMPLED, addition, ask, make_run, sizes
from .showing import by_examples, cell, paper_series

SIZES = (500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000, 20_000, 40_000)
BARE_GREEDY = {"prompt": "bare", "decoding": GREEDY}
FEW_EXAMPLES = (
    "Of a few thousand sums plain and reverse make more here than in the paper, where they are trained for 13 times "
    "as long. Trained like that (tier paper of plain_vs_reverse), 2,000 examples give plain 4.86 % (seed 0) and "
    "reverse 31.75 % (seeds 0 and 1); the paper has 1.6 and 30.6."
)


class PlainVsReverse(Experiment):
    name = "plain_vs_reverse"
    title = "Plain against reverse, by the number of examples"
    paper = ("fig:plain_vs_reverse",)
    finding = FEW_EXAMPLES
    claims = (
        Claim(
            "plain levels off",
            "Plain addition levels off near 85 %.",
            lambda m: m.mean(format="plain", examples=10_000, **BARE_GREEDY),
            "plain with 10,000 examples, bare prompt",
            (80, 92),
            (70, 97),
            "it levels off, at another height",
            " %",
        ),
        Claim(
            "the plateau is a limit of the format",
            "Asked after a newline, too, no amount of plain data up to 40,000 examples gets a model close to perfect.",
            lambda m: max(m.mean(format="plain", examples=n, prompt="newline") for n in (10_000, 20_000, 40_000)),
            "best plain accuracy after a newline, 10,000 to 40,000 examples",
            (0, 95),
            (95, 99.5),
            "most of the gap is the prompt: after a newline, as in training, plain comes close",
            " %",
            ours=True,
        ),
        Claim(
            "reverse turns",
            "Reverse turns from hardly any to nearly all sums between 1,000 and 4,000 examples.",
            lambda m: m.crossing(50, format="reverse", **BARE_GREEDY),
            "examples at which reverse passes 50 %",
            (1_000, 4_000),
            (500, 8_000),
            "it turns, elsewhere",
        ),
        Claim(
            "reverse is perfect",
            "With 10,000 examples reverse is practically perfect.",
            lambda m: m.mean(format="reverse", examples=10_000, **BARE_GREEDY),
            "reverse with 10,000 examples",
            (99.5, 100),
            (98, 99.5),
            "nearly so",
            " %",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        asked = [
            Question(ask(tier, BARE), BARE_GREEDY),
            Question(ask(tier, SAMPLED), {"prompt": "bare", "decoding": SAMPLED_AT_08}),
        ]
        newline = Question(ask(tier, NEWLINE), {"prompt": "newline", "decoding": GREEDY})
        return [
            Case({"format": "plain", "examples": size}, make_run(tier, addition("plain", size)), [*asked, newline])
            for size in sizes(tier, SIZES)
        ] + [
            Case({"format": "reverse", "examples": size}, make_run(tier, addition("reverse", size)), asked)
            for size in sizes(tier, SIZES)
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        ours = [
            Series("plain", measured.curve("examples", format="plain", **BARE_GREEDY)),
            Series("plain, newline first", measured.curve("examples", format="plain", prompt="newline")),
            Series("reverse", measured.curve("examples", format="reverse", **BARE_GREEDY)),
        ]
        theirs = paper_series(self.paper[0], {"plain": "plain (paper)", "reverse": "reverse (paper)"})
        rows = [
            [
                f"{size:,}",
                *(cell(measured.stat(format="plain", examples=size, **how)) for how in _HOW),
                *(cell(measured.stat(format="reverse", examples=size, **how)) for how in _HOW[:2]),
            ]
            for size in measured.values("examples")
        ]
        columns = ("examples", "plain", "plain, sampled", "plain, newline first", "reverse", "reverse, sampled")
        return [
            by_examples("Plain and reverse", [*ours, *theirs]),
            Table("Accuracy (%)", columns, rows),
        ]


_HOW = (BARE_GREEDY, {"prompt": "bare", "decoding": SAMPLED_AT_08}, {"prompt": "newline"})
