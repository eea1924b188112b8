"""How much of a format's accuracy is decided by what stands before the prompt?

Not in the paper. There, plain's prompt is given at position 0, bare; but training windows are cut at random places, so
that what stands there is mostly the rest of an example: "20+690=" is likelier the end of "520+690=" than a sum of its
own. Ours: every format, bare, after a newline, and after one or three training examples (three detailed ones do not fit
the context); and by the operands' lengths.
"""

from ..config import EvaluationConfig
from ..reports import Figure, Series, Table
from .base import Case, Experiment, Question, Tier
from .claims import INF, Claim
from .measured import Measured, share
from .protocols import BARE, NEWLINE, addition, ask, detailed_steps, few, make_run
from .showing import cell

FORMATS = {
    "plain": 10_000,
    "plain_wrapped": 10_000,
    "plain_padded": 10_000,
    "reverse": 10_000,
    "reverse_unwrapped": 10_000,
    "reverse_padded": 10_000,
    "simplified_scratchpad": 2_000,
    "detailed_scratchpad": 1_000,
}
UNMARKED = ("plain", "reverse_unwrapped")
LENGTHS = ("3x3", "3x2", "2x3", "3x1", "1x3", "2x2")
STARTS = {
    "bare": BARE,
    "newline": NEWLINE,
    "1 example": EvaluationConfig(examples=1),
    "3 examples": EvaluationConfig(examples=3),
}


class PromptStart(Experiment):
    name = "prompt_start"
    title = "What stands before the prompt"
    claims = (
        Claim(
            "plain's plateau is the prompt",
            "Most of what plain addition lacks to 100 % is lost to a prompt that starts at position 0.",
            lambda m: (
                (m.mean(format="plain", start="newline") - m.mean(format="plain", start="bare"))
                / max(1e-9, 100 - m.mean(format="plain", start="bare"))
            ),
            "share of plain's errors that a newline in front mends",
            (0.5, 1),
            (0.25, 0.5),
            "a good part, not most",
            ours=True,
        ),
        Claim(
            "an example does as well",
            "One example in front mends as much as a newline.",
            lambda m: m.mean(format="plain", start="1 example") - m.mean(format="plain", start="newline"),
            "plain, one example minus newline",
            (-1, INF),
            (-3, -1),
            "nearly as much",
            " points",
            ours=True,
        ),
        Claim(
            "marks make the start visible",
            "Formats that open with a mark lose nothing to a bare prompt.",
            lambda m: max(
                m.mean(format=format, start="newline") - m.mean(format=format, start="bare")
                for format in ("reverse", "plain_wrapped")
            ),
            "largest gain by a newline among formats with `$`",
            (-INF, 1),
            (1, 3),
            "they lose little",
            " points",
            ours=True,
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        return [
            Case(
                {"format": format},
                make_run(tier, addition(format, size), steps=detailed_steps(format)),
                [
                    Question(ask(tier, config), {"start": start})
                    for start, config in STARTS.items()
                    if (format, start) != ("detailed_scratchpad", "3 examples")
                ],
            )
            for format, size in few(tier, tuple(FORMATS.items()), 3)
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        formats = [format for format in FORMATS if measured.of(format=format)]
        stats = {(f, s): measured.stat(format=f, start=s) for f in formats for s in STARTS}
        written = {f: f if FORMATS[f] == 10_000 else f"{f} ({FORMATS[f]:,})" for f in formats}
        series = [Series(s, [stat.point(written[f]) for f in formats if (stat := stats[f, s])]) for s in STARTS]
        rows = [[f, f"{FORMATS[f]:,}", *(cell(stats[f, s]) for s in STARTS)] for f in formats]
        sizes = "Trained on 10,000 examples, or on as many as stand behind the format."
        note = "The paper asked bare prompts only. Three detailed examples and an answer do not fit the context."
        by_length = [
            [f, lengths, *(cell(measured.stat(share("lengths", lengths), format=f, start=s)) for s in STARTS)]
            for f in UNMARKED
            for lengths in LENGTHS
            if measured.of(format=f)
        ]
        why = (
            "Digits of the first operand x digits of the second. A bare prompt whose first operand is the shorter one "
            "reads like the rest of a longer sum."
        )
        return [
            Figure("What stands before the prompt", "format", "test accuracy (%)", series, bars=True, note=sizes),
            Table("Accuracy (%)", ("format", "examples", *STARTS), rows, note),
            Table("Accuracy (%) by the operands' lengths", ("format", "digits", *STARTS), by_length, why),
        ]
