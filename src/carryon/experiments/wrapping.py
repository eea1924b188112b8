"""Do marks around an example help, and as much as zero-padding?

The paper (tab zeropad_dollar, fig dollar_pad): plain and reverse with and without `$` marks, and plain zero-padded.
The released code: the table's "vanilla" and zero-padded rows are trained on random, not balanced, sums; the `$` row
cannot be traced. Ours: balanced data for all, reverse padded too.
"""

from ..config import FormatConfig
from ..paper import table
from ..reports import Figure, Point, Series, Table
from .base import Case, Experiment, Tier
from .claims import INF, Claim
from .measured import Measured
from .protocols import BARE, addition, greedy_and_sampled, make_run, sizes
from .showing import by_examples, cell_with_sampled

WRAPPINGS = {
    ("plain", "bare"): "plain",
    ("plain", "$"): "plain_wrapped",
    ("plain", "zero-padded"): "plain_padded",
    ("reverse", "bare"): "reverse_unwrapped",
    ("reverse", "$"): "reverse",
    ("reverse", "zero-padded"): "reverse_padded",
}
SIZES = (1_000, 2_000, 3_000, 5_000, 10_000, 20_000)


def at_10_000(measured: Measured, order: str, around: str) -> float:
    return measured.mean(order=order, around=around, examples=10_000)


class Wrapping(Experiment):
    name = "wrapping"
    title = "Marks around an example, or zeros inside it"
    paper = ("tab:zeropad_dollar", "fig:dollar_pad")
    finding = (
        "Zero-padded reverse is learnt from 3,000 examples to 54.84 % and from 10,000 not at all, where the authors' "
        "own table has 99.79; the quick start learns it from rows in seconds. Why a stream of 13 characters a line "
        "keeps it from being learnt is not known (LOG.md, 2026-11-15)."
    )
    claims = (
        Claim(
            "marks are as good as padding",
            "Plain between `$` marks is as good as zero-padded plain.",
            lambda m: at_10_000(m, "plain", "$") - at_10_000(m, "plain", "zero-padded"),
            "10,000 examples, `$` minus zero-padded",
            (-1, INF),
            (-3, -1),
            "nearly as good",
            " points",
        ),
        Claim(
            "marks lift plain",
            "`$` marks lift plain addition by about ten points.",
            lambda m: at_10_000(m, "plain", "$") - at_10_000(m, "plain", "bare"),
            "10,000 examples, `$` minus bare",
            (5, INF),
            (1, 5),
            "by less",
            " points",
        ),
        Claim(
            "marks lift reverse",
            "`$` marks lift reverse, too.",
            lambda m: at_10_000(m, "reverse", "$") - at_10_000(m, "reverse", "bare"),
            "10,000 examples, reverse, `$` minus bare",
            (1, INF),
            (0, 1),
            "hardly",
            " points",
            after_the_runs="before, it had the paper say the opposite",
        ),
        Claim(
            "plain with marks stays below reverse",
            "Plain between `$` marks stays below reverse.",
            lambda m: at_10_000(m, "reverse", "$") - at_10_000(m, "plain", "$"),
            "10,000 examples, `$`, reverse minus plain",
            (0.5, INF),
            (0, 0.5),
            "hardly",
            " points",
            after_the_runs="added later: the paper says so, and it was missing",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        return [
            Case(
                {"order": order, "around": around, "examples": size},
                make_run(tier, addition(FormatConfig(name=format), size)),  # type: ignore[arg-type]
                greedy_and_sampled(tier, BARE),
            )
            for (order, around), format in WRAPPINGS.items()
            for size in sizes(tier, SIZES)
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        ours = [
            Series(f"{order}, {around}", measured.curve("examples", order=order, around=around))
            for order, around in WRAPPINGS
        ]
        (theirs,) = table("tab:zeropad_dollar")["rows"]
        names = ("plain, bare (paper)", "plain, zero-padded (paper)", "plain, $ (paper)")
        paper = [
            Series(name, [Point(10_000, value)], "paper", "exact") for name, value in zip(names, theirs, strict=True)
        ]
        rows = [
            [f"{order}, {around}"]
            + [
                cell_with_sampled(measured, order=order, around=around, examples=size)
                for size in measured.values("examples")
            ]
            for order, around in WRAPPINGS
        ]
        columns = ("written", *(f"{size:,}" for size in measured.values("examples")))
        note = f"The paper, 10,000 examples: bare {theirs[0]}, zero-padded {theirs[1]}, `$` {theirs[2]}."
        return [
            by_examples("Marks and zeros", [*ours, *paper]),
            Table("Accuracy (%) by training examples", columns, rows, note),
        ]
