"""Does it matter which sums a model is trained on?

The paper (fig and tab data_sampling): three-digit sums, zero-padded, 10,000 examples drawn at random, balanced by the
number of digits, or balanced by the number of carries; accuracy overall, on one- and two-digit sums and by carries.
The released code: the random set has 9,969 distinct problems, its "balanced carry" file holds one one-digit sum (yet
the table says 100 % on them), tests are sampled at temperature 0.8 from about 9,900 problems. Ours: exactly 10,000
distinct problems, one test set for all samplers, two-digit sums from a test set of their own without those that
training saw, all hundred one-digit sums (which those that balance digits have seen); five seeds: they differ by points.
"""

from collections.abc import Mapping
from typing import ClassVar

from ..config import DataConfig, EvaluationConfig, FormatConfig
from ..paper import table
from ..reports import Figure, Point, Series, Table
from .base import SEEDS, Case, Experiment, Tier
from .claims import INF, Claim
from .measured import Measured, Metric, Stat, accuracy, share
from .protocols import BARE, greedy_and_sampled, make_run
from .showing import cell_with_sampled

SAMPLERS = {"uniform": "Random", "balanced_digits": "Balanced Digits", "balanced_carries": "Balanced Carry-Ons"}
PADDED = FormatConfig(name="plain_padded")
ONE_DIGIT = EvaluationConfig(data=DataConfig(digits=1, format=PADDED), problems="exhaustive", seen=True)
TWO_DIGITS = EvaluationConfig(data=DataConfig(digits=2, format=PADDED, num_test=2_000, num_validation=0))
METRICS: dict[str, tuple[Metric, str]] = {
    **{name: (accuracy, name) for name in ("overall", "1-digit", "2-digit")},
    **{f"carry-{k}": (share("carries", str(k)), "overall") for k in range(4)},
}
"""By the table's columns: what is counted, and of which question."""
COLUMNS = tuple(METRICS)


class Sampling(Experiment):
    name = "sampling"
    title = "Which sums to train on: random, or balanced by digits or carries"
    paper = ("fig:data_sampling", "tab:data_sampling")
    finding = (
        "Samplers differ here by no more than two trainings of the same data: the balanced set, seeds 0 to 2, gives "
        "93.53, 92.96 and 91.37 %, and 97.18, 97.34 and 91.44 % in wrapping, whose runs were made before the residual "
        "stream had 16 bits. After the paper's steps it gives 97.93 and 96.93 % (tier paper of wrapping, seeds 0 and "
        "1). Random sampling was not run for so long, so whether two digits stay its stronger side is open."
    )
    seeds: ClassVar[Mapping[str, int]] = {**SEEDS, "fast": 5, "paper": 3}
    claims = (
        Claim(
            "balancing digits helps short numbers",
            "Balancing the number of digits lifts accuracy on two-digit sums.",
            lambda m: m.mean(sampler="balanced_digits", on="2-digit") - m.mean(sampler="uniform", on="2-digit"),
            "two-digit accuracy, balanced by digits minus random",
            (1, INF),
            (0.2, 1),
            "it helps, but hardly",
            " points",
        ),
        Claim(
            "balancing carries helps overall",
            "Balancing carries gives the best accuracy overall.",
            lambda m: (
                m.mean(sampler="balanced_carries", on="overall")
                - max(m.mean(sampler=sampler, on="overall") for sampler in ("uniform", "balanced_digits"))
            ),
            "overall accuracy, balanced by carries minus the better of random and balanced by digits",
            (0.2, INF),
            (-0.2, 0.2),
            "it makes no difference overall",
            " points",
        ),
        Claim(
            "random sampling is weak on two digits",
            "A model trained on random sums is weaker on two-digit sums than on the rest.",
            lambda m: m.mean(sampler="uniform", on="overall") - m.mean(sampler="uniform", on="2-digit"),
            "random sampling, accuracy overall minus on two-digit sums",
            (1, INF),
            (0.2, 1),
            "weaker by little",
            " points",
        ),
        Claim(
            "three carries are hard for random sampling",
            "Random sampling is weakest where every digit carries.",
            lambda m: (
                min(m.mean(share("carries", carries), sampler="uniform", on="overall") for carries in "012")
                - m.mean(share("carries", "3"), sampler="uniform", on="overall")
            ),
            "random sampling, worst accuracy with fewer carries minus with three",
            (0.5, INF),
            (0, 0.5),
            "weaker by little",
            " points",
        ),
        Claim(
            "balancing helps everywhere",
            "Balancing digits and carries together is better than random sampling on every kind of sum.",
            lambda m: min(
                m.mean(metric, sampler="balanced", on=on) - m.mean(metric, sampler="uniform", on=on)
                for metric, on in METRICS.values()
            ),
            "balanced minus random, least of all kinds of sums",
            (0, INF),
            (-1, 0),
            "on nearly every kind",
            " points",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        questions = [
            question
            for on, config in (("overall", BARE), ("1-digit", ONE_DIGIT), ("2-digit", TWO_DIGITS))
            for question in greedy_and_sampled(tier, config, on=on)
        ]
        return [
            Case({"sampler": sampler}, make_run(tier, DataConfig(format=PADDED, sampler=sampler)), questions)  # type: ignore[arg-type]
            for sampler in (*SAMPLERS, "balanced")
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        def stat(sampler: str, column: str) -> Stat | None:
            metric, on = METRICS[column]
            return measured.stat(metric, sampler=sampler, on=on)

        theirs = {row[0]: row[1:] for row in table("tab:data_sampling")["rows"]}
        decimals = max(len(f"{value:g}".partition(".")[2]) for row in theirs.values() for value in row)
        series, rows = [], []
        for sampler in (*SAMPLERS, "balanced"):
            stats = {column: stat(sampler, column) for column in COLUMNS}
            series.append(Series(sampler, [s.point(c) for c, s in stats.items() if s]))
            rows.append(
                [
                    sampler,
                    *(cell_with_sampled(measured, metric, sampler=sampler, on=on) for metric, on in METRICS.values()),
                ]
            )
            if sampler in SAMPLERS:
                numbers = theirs[SAMPLERS[sampler]]
                points = [Point(column, value) for column, value in zip(COLUMNS, numbers, strict=True)]
                series.append(Series(f"{sampler} (paper)", points, "paper", "exact"))
                rows.append([f"{sampler} (paper)", *(f"{value:.{decimals}f}" for value in numbers)])
        skew = (
            "Of random three-digit sums 1 in 100 has no operand of three digits, 1 in 10,000 has two of one digit. "
            "The one-digit sums are part of the training sets balanced by digits: there, that column measures memory."
        )
        return [
            Figure("Accuracy by training sampler", "tested on", "test accuracy (%)", series, bars=True),
            Table("Accuracy (%)", ("sampler", *COLUMNS), rows, skew),
        ]
