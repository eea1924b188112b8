"""Does a model learn addition where matrix completion becomes possible?

The paper (fig nanogpt_vs_mc): a 100 x 100 table, plain and reverse models trained on the revealed entries and tested
on the rest, beside the success of algorithm 1: both turn near 1,500 entries. The released code trains the reverse
models with a command that forgets its script. Ours: models and algorithms on the very same samples.
"""

from ..config import CompletionConfig, DataConfig
from ..reports import Figure, Point, Series, Table
from .base import Case, Claim, Experiment, Measured, Question, Tier, cell, number, paper_series, ratio
from .protocols import BARE, ask, make_run

SIZES = (500, 1_000, 1_200, 1_500, 1_800, 2_000, 3_000, 5_000)
FILLED = number("filled_share", 100)


def table_of_sums(format: str, size: int) -> DataConfig:
    """Entries of the 100 x 100 table; a tenth of it for validation, all the test needs from the rest."""
    return DataConfig(
        format=format,  # type: ignore[arg-type]
        table=100,
        sampler="revealed",
        num_examples=size,
        num_test=4_000,
        num_validation=1_000,
    )


class MatrixCompletionVsModel(Experiment):
    name = "matrix_completion_vs_model"
    title = "Models and matrix completion on the same entries"
    paper = ("fig:nanogpt_vs_mc",)
    claims = (
        Claim(
            "transitions coincide",
            "Models learn addition at the number of entries where the published completion succeeds.",
            lambda m: ratio(
                m.crossing(50, "revealed", solver="reverse"),
                m.crossing(50, "revealed", FILLED, solver="as_published"),
            ),
            "half-way point, reverse model over published completion",
            (0.75, 1.33),
            (0.5, 2),
            "they lie near each other",
        ),
        Claim(
            "near 1,500",
            "The models turn near 1,500 revealed entries.",
            lambda m: m.crossing(50, "revealed", solver="reverse"),
            "half-way point of the reverse model",
            (1_000, 2_000),
            (500, 4_000),
            "within a factor of two or three",
        ),
        Claim(
            "completion is possible much earlier",
            "Entries far fewer than a model needs already determine the table.",
            lambda m: ratio(
                m.crossing(50, "revealed", solver="reverse"), m.crossing(50, "revealed", FILLED, solver="sums")
            ),
            "half-way point, reverse model over the right algorithm",
            (1.5, float("inf")),
            (1.1, 1.5),
            "somewhat fewer",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        cases = []
        for size in SIZES if tier != "smoke" else SIZES[:2]:
            for format in ("plain", "reverse"):
                run = make_run(tier, table_of_sums(format, size))
                cases.append(Case({"solver": format, "revealed": size}, run, [Question(ask(tier, BARE))]))
            for method in ("as_published", "sums"):
                config = CompletionConfig(
                    kind="matrix completion",
                    method=method,
                    n=100,
                    revealed=size,
                    trials=1,
                    data=table_of_sums("plain", size),
                )
                cases.append(Case({"solver": method, "revealed": size}, config))
        return cases

    def report(self, measured: Measured) -> list[Figure | Table]:
        series = [Series(f"{f} model", measured.curve("revealed", solver=f)) for f in ("plain", "reverse")]
        for method in ("as_published", "sums"):
            series.append(Series(f"completion, {method}", measured.curve("revealed", FILLED, solver=method)))
        series += [
            Series("completion, as_published (paper)", [Point(p.x, 100 * p.y) for p in s.points], "paper", s.exactness)
            for s in paper_series(self.paper[0])
        ]
        rows = [
            [
                f"{size:,}",
                *(cell(measured.stat(solver=format, revealed=size)) for format in ("plain", "reverse")),
                *(cell(measured.stat(FILLED, solver=method, revealed=size)) for method in ("as_published", "sums")),
            ]
            for size in measured.values("revealed")
        ]
        columns = ("revealed", "plain model", "reverse model", "as published, filled", "sums, filled")
        note = "The paper's curves of its models were not published as numbers."
        return [
            Figure("Models and completion, n = 100", "revealed entries", "accuracy, success (%)", series, log_x=True),
            Table("Percent", columns, rows, note),
        ]
