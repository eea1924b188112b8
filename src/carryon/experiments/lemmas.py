"""The paper's two lemmas on which digits an answer's digits depend on, checked on every case.

Lemma 1: the first (highest) digit of a sum depends on every digit of both operands. Lemma 2: lowest digit first, each
digit follows from three inputs: the two digits at its place and the carry. The paper proves them; here they are
counted.
"""

from ..config import EnumerationConfig
from ..reports import Figure, Table
from .base import Case, Experiment, Tier
from .claims import Claim
from .measured import Measured, number
from .protocols import few

FIRST, THREE = "first digit needs every digit", "lowest digit first needs three inputs"
DIGITS = (1, 2, 3)
SHARE = number("share", 100)


def counted(measured: Measured, lemma: str) -> float:
    """Every case was looked at: one seed says it all."""
    stat = measured.stat(SHARE, lemma=lemma, digits=3)
    return measured.lacking(f"lemma {lemma}") if stat is None else stat.mean


class Lemmas(Experiment):
    name = "lemmas"
    title = "Which digits a digit depends on"
    paper = ("lemma 1", "lemma 2")
    claims = (
        Claim(
            "the first digit needs every digit",
            "The highest digit of a sum depends on every digit of both operands.",
            lambda m: counted(m, FIRST),
            "three digits, digits of the operands that can change the first digit of the sum",
            (100, 100),
            (50, 100),
            "on most of them",
            " %",
        ),
        Claim(
            "three inputs are enough",
            "Lowest digit first, two digits and a carry determine the next digit.",
            lambda m: counted(m, THREE),
            "three digits, digits of all sums that follow from their three inputs",
            (100, 100),
            (90, 100),
            "nearly always",
            " %",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        return [
            Case(
                {"lemma": lemma, "digits": digits},
                EnumerationConfig(kind="enumeration", lemma=lemma, digits=digits),  # type: ignore[arg-type]
            )
            for lemma in (FIRST, THREE)
            for digits in few(tier, DIGITS, 2)
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        found = {(line.settings["lemma"], line.settings["digits"]): line.metrics for line in measured.lines}
        rows = [
            [lemma, str(digits), f"{metrics['true']:,} of {metrics['count']:,}"]
            for (lemma, digits), metrics in sorted(found.items())
        ]
        return [
            Table("Every case", ("lemma", "digits", "true"), rows),
        ]
