"""Does a model learn addition where matrix completion becomes possible?

The paper (fig nanogpt_vs_mc): a 100 x 100 table, plain and reverse models trained on the revealed entries and tested
on the rest, beside the success of algorithm 1: both turn near 1,500 entries. The released code trains the reverse
models with a command that forgets its script. Ours: models and algorithms on the very same samples, and the algorithms
on a hundred tables a seed, since one is a coin's toss.
"""

from dataclasses import replace

from ..config import CompletionConfig, DataConfig
from ..reports import Figure, Series, Table
from .base import Case, Experiment, Tier
from .bounds import ratio
from .claims import Claim
from .matrix_completion import ENTRIES, in_percent, many_tables
from .measured import Measured, number
from .protocols import BARE, greedy_and_sampled, make_run
from .showing import cell, cell_with_sampled, paper_series

SIZES = (500, 1_000, 1_200, 1_500, 1_800, 2_000, 3_000, 5_000)
METHODS = ("as_published", "sums")
MANY = "a hundred tables"
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


def half_way(measured: Measured, method: str) -> float:
    return measured.crossing(50, "revealed", FILLED, solver=f"{method}, {MANY}")


class MatrixCompletionVsModel(Experiment):
    name = "matrix_completion_vs_model"
    title = "Models and matrix completion on the same entries"
    paper = ("fig:nanogpt_vs_mc",)
    claims = (
        Claim(
            "transitions coincide",
            "A reverse model learns addition at the number of entries where the published completion succeeds.",
            lambda m: ratio(m.crossing(50, "revealed", solver="reverse"), half_way(m, "as_published")),
            "half-way point, reverse model over published completion",
            (0.75, 1.33),
            (0.5, 2),
            "they lie near each other",
            after_the_runs="before, completion's half-way point came from one table a seed, now from a hundred",
        ),
        Claim(
            "near 1,500",
            "A reverse model turns near 1,500 revealed entries.",
            lambda m: m.crossing(50, "revealed", solver="reverse"),
            "half-way point of the reverse model",
            (1_000, 2_000),
            (500, 4_000),
            "within a factor of two or three",
        ),
        Claim(
            "plain, too",
            "A plain model learns nearly all of the table there, too.",
            lambda m: m.mean(solver="plain", revealed=2_000),
            "plain model with 2,000 entries, bare prompt",
            (90, 100),
            (50, 90),
            "most of it, not nearly all",
            " %",
            after_the_runs="added later: the paper says so of both models, and only reverse was judged",
        ),
        Claim(
            "completion is possible much earlier",
            "Entries far fewer than a model needs already determine the table.",
            lambda m: ratio(m.crossing(50, "revealed", solver="reverse"), half_way(m, "sums")),
            "half-way point, reverse model over the right algorithm",
            (1.5, float("inf")),
            (1.1, 1.5),
            "somewhat fewer",
            after_the_runs="before, completion's half-way point came from one table a seed, now from a hundred",
            ours=True,
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        cases = []
        for size in SIZES if tier != "smoke" else SIZES[:2]:
            for format in ("plain", "reverse"):
                run = make_run(tier, table_of_sums(format, size))
                cases.append(Case({"solver": format, "revealed": size}, run, greedy_and_sampled(tier, BARE)))
            for method in METHODS:
                config = CompletionConfig(
                    kind="matrix completion",
                    method=method,  # type: ignore[arg-type]
                    n=100,
                    revealed=size,
                    trials=1,
                    data=table_of_sums("plain", size),
                )
                cases.append(Case({"solver": method, "revealed": size}, config))
        for method in METHODS:
            for revealed in ENTRIES[100] if tier != "smoke" else ENTRIES[100][3:5]:
                settings = {"solver": f"{method}, {MANY}", "revealed": revealed}
                cases.append(Case(settings, many_tables(tier, method, 100, revealed)))
        return cases

    def report(self, measured: Measured) -> list[Figure | Table]:
        series = [Series(f"{f} model", measured.curve("revealed", solver=f)) for f in ("plain", "reverse")]
        for method in METHODS:
            points = measured.curve("revealed", FILLED, solver=f"{method}, {MANY}")
            series.append(Series(f"completion, {method}", points))
        series += [
            replace(in_percent(theirs), name="completion, as_published (paper)")
            for theirs in paper_series(self.paper[0])
        ]
        rows = [
            [
                f"{size:,}",
                *(cell_with_sampled(measured, solver=format, revealed=size) for format in ("plain", "reverse")),
                *(cell(measured.stat(FILLED, solver=method, revealed=size)) for method in METHODS),
            ]
            for size in SIZES
            if measured.of(revealed=size)
        ]
        columns = ("revealed", "plain model", "reverse model", "as published, filled", "sums, filled")
        note = (
            "Completion of the very entries the models were trained on: one table a seed; in the figure, a hundred. "
            "The paper's curves of its models were not published as numbers."
        )
        return [
            Figure("Models and completion, n = 100", "revealed entries", "accuracy, success (%)", series, log_x=True),
            Table("Percent", columns, rows, note),
        ]
