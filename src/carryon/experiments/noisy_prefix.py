"""What does a model do after wrong digits: go on from them, or from the question?

The paper (tab noise_output): sums of two three-digit numbers; the first two digits of the answer are replaced, by
random ones or by the second off by one; is the third digit right, exactly and within one? The released code samples
one token at temperature 0.8, and its random digits never start with 0. Ours: greedy and sampled.
"""

from ..config import EvaluationConfig
from ..paper import table
from ..reports import Figure, Point, Series, Table
from .base import Case, Experiment, Question, Tier
from .claims import INF, Claim
from .measured import GREEDY, SAMPLED_AT_08, Measured, number
from .protocols import addition, ask, make_run
from .showing import cell

EXACT, RELAXED = number("exact", 100), number("relaxed", 100)
DECODINGS = {GREEDY: 0.0, SAMPLED_AT_08: 0.8}


class NoisyPrefix(Experiment):
    name = "noisy_prefix"
    title = "Wrong digits written first"
    paper = ("tab:noise_output",)
    finding = (
        "Random digits throw plain off less than in the paper, where it is trained for 13 times as long. Trained like "
        "that (tier paper, seeds 0 and 1), it has 50.07 % of the third digits right, and 62.04 % within one; the paper "
        "has 49.88 and 61.55."
    )
    claims = (
        Claim(
            "reverse stays within one",
            "After random wrong digits reverse is still within one of the right third digit.",
            lambda m: m.mean(RELAXED, format="reverse", noise="random", decoding=SAMPLED_AT_08),
            "reverse, random digits, within one",
            (99, 100),
            (90, 99),
            "nearly always",
            " %",
        ),
        Claim(
            "plain is thrown off",
            "Random wrong digits throw plain off.",
            lambda m: (
                m.mean(RELAXED, format="reverse", noise="random", decoding=SAMPLED_AT_08)
                - m.mean(RELAXED, format="plain", noise="random", decoding=SAMPLED_AT_08)
            ),
            "within one after random digits, reverse minus plain",
            (20, INF),
            (5, 20),
            "by less",
            " points",
        ),
        Claim(
            "plain survives a near miss",
            "A second digit that is off by one leaves plain's third digit right.",
            lambda m: m.mean(EXACT, format="plain", noise="precise", decoding=SAMPLED_AT_08),
            "plain, precise noise, exactly right",
            (97, 100),
            (85, 97),
            "mostly",
            " %",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        questions = [
            Question(
                ask(tier, EvaluationConfig(corrupt=noise, temperature=temperature)),
                {"noise": noise, "decoding": decoding},
            )
            for noise in ("random", "precise")
            for decoding, temperature in DECODINGS.items()
        ]
        return [Case({"format": f}, make_run(tier, addition(f)), questions) for f in ("plain", "reverse")]

    def report(self, measured: Measured) -> list[Figure | Table]:
        data = table("tab:noise_output")
        theirs = {
            (metric, name): value
            for row, metric in zip(data["rows"], ("exact", "within one"), strict=True)
            for name, value in zip(data["columns"][1:], row[1:], strict=True)
        }
        kinds = [(noise, format) for noise in ("random", "precise") for format in ("plain", "reverse")]
        rows, series = [], []
        for metric, name in ((EXACT, "exact"), (RELAXED, "within one")):
            for decoding in DECODINGS:
                stats = [measured.stat(metric, noise=n, format=f, decoding=decoding) for n, f in kinds]
                rows.append([name, decoding, *map(cell, stats)])
                labelled = zip(kinds, stats, strict=True)
                points = [stat.point(f"{n}, {f}") for (n, f), stat in labelled if stat]
                series.append(Series(f"{name}, {decoding}", points))
            values = [theirs[name, f"{n}/{f}"] for n, f in kinds]
            rows.append([name, "paper", *(f"{value}" for value in values)])
            paper = [Point(f"{n}, {f}", value) for (n, f), value in zip(kinds, values, strict=True)]
            series.append(Series(f"{name}, sampled at 0.8 (paper)", paper, "paper", "exact"))
        columns = ("third digit", "decoding", *(f"{noise}, {format}" for noise, format in kinds))
        return [
            Figure("The third digit after two wrong ones", "noise, format", "right (%)", series, bars=True),
            Table("Third digit right (%)", columns, rows),
        ]
