"""Does it matter which sums a model is trained on?

The paper (fig and tab data_sampling): three-digit sums, zero-padded, 10,000 examples drawn at random, balanced by the
number of digits, or balanced by the number of carries; accuracy overall, on one- and two-digit sums and by carries.
The released code: the random set has 9,969 distinct problems, its "balanced carry" file holds one one-digit sum (yet
the table says 100 % on them), tests are sampled at temperature 0.8 from about 9,900 problems, 9 of 10 files are cut to
their first 90 %. Ours: exactly 10,000 distinct problems, one test set for all samplers, two-digit sums from a test
set of their own without those that training saw, the hundred one-digit sums all (seen by every balanced sampler).
"""

from ..config import DataConfig, EvaluationConfig, FormatConfig
from ..paper import table
from ..reports import Figure, Point, Series, Table
from .base import INF, Case, Claim, Experiment, Measured, Metric, Question, Stat, Tier, accuracy, cell, share
from .protocols import BARE, ask, make_run

SAMPLERS = {"uniform": "Random", "balanced_digits": "Balanced Digits", "balanced_carries": "Balanced Carry-Ons"}
PADDED = FormatConfig(name="plain_padded")
ONE_DIGIT = EvaluationConfig(data=DataConfig(digits=1, format=PADDED), problems="exhaustive", seen=True)
TWO_DIGITS = EvaluationConfig(data=DataConfig(digits=2, format=PADDED, num_test=2_000, num_validation=0))
COLUMNS = ("overall", "1-digit", "2-digit", "carry-0", "carry-1", "carry-2", "carry-3")


class Sampling(Experiment):
    name = "sampling"
    title = "Which sums to train on: random, or balanced by digits or carries"
    paper = ("fig:data_sampling", "tab:data_sampling")
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
            lambda m: m.mean(sampler="balanced", on="overall") - m.mean(sampler="uniform", on="overall"),
            "overall accuracy, balanced by digits and carries minus random",
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
                m.mean(share("carries", "3"), sampler="balanced", on="overall")
                - m.mean(share("carries", "3"), sampler="uniform", on="overall")
            ),
            "accuracy with three carries, balanced minus random",
            (1, INF),
            (0, 1),
            "weaker by little",
            " points",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        questions = [
            Question(ask(tier, BARE), {"on": "overall"}),
            Question(ask(tier, ONE_DIGIT), {"on": "1-digit"}),
            Question(ask(tier, TWO_DIGITS), {"on": "2-digit"}),
        ]
        return [
            Case({"sampler": sampler}, make_run(tier, DataConfig(format=PADDED, sampler=sampler)), questions)  # type: ignore[arg-type]
            for sampler in (*SAMPLERS, "balanced")
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        metrics: dict[str, tuple[Metric, str]] = {name: (accuracy, name) for name in COLUMNS[:3]}
        metrics |= {f"carry-{k}": (share("carries", str(k)), "overall") for k in range(4)}

        def stat(sampler: str, column: str) -> Stat | None:
            metric, on = metrics[column]
            return measured.stat(metric, sampler=sampler, on=on)

        theirs = {row[0]: row[1:] for row in table("tab:data_sampling")["rows"]}
        series, rows = [], []
        for sampler in (*SAMPLERS, "balanced"):
            stats = {column: stat(sampler, column) for column in COLUMNS}
            series.append(Series(sampler, [s.point(c) for c, s in stats.items() if s]))
            rows.append([sampler, *(cell(stats[column]) for column in COLUMNS)])
            if sampler in SAMPLERS:
                numbers = theirs[SAMPLERS[sampler]]
                points = [Point(column, value) for column, value in zip(COLUMNS, numbers, strict=True)]
                series.append(Series(f"{sampler} (paper)", points, "paper"))
                rows.append([f"{sampler} (paper)", *(f"{value:g}" for value in numbers)])
        skew = (
            "Of random three-digit sums 1 in 100 has no operand of three digits, 1 in 10,000 has two of one digit. "
            "The one-digit sums are part of every balanced training set: that column measures memory."
        )
        return [
            Figure("Accuracy by training sampler", "tested on", "test accuracy (%)", series, bars=True),
            Table("Accuracy (%)", ("sampler", *COLUMNS), rows, skew),
        ]
