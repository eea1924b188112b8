"""Can a model add numbers it never met?

The paper (tab hiding_numbers): 100, 200 or 500 three-digit numbers never occur as operands in training; accuracy over
all sums and over sums with a hidden number. The released code hides the least frequent operands of its training set,
not random ones. Ours: both; the test set is the same as ever, sums with a hidden number are a slice of it.
"""

from ..config import ExcludeConfig
from ..paper import table
from ..reports import Figure, Point, Series, Table
from .base import Case, Experiment, Tier
from .claims import INF, Claim
from .measured import Measured, accuracy, share
from .protocols import BARE, addition, few, greedy_and_sampled, make_run
from .showing import cell_with_sampled

COUNTS = (100, 200, 500)
HIDDEN = share("slice", "with a hidden number")


def loss(measured: Measured, format: str) -> float:
    """How much worse the worst of the three is than with nothing hidden."""
    worst = min(measured.mean(format=format, hidden=count, choice="random") for count in COUNTS)
    return measured.mean(format=format, hidden=0) - worst


class UnseenNumbers(Experiment):
    name = "unseen_numbers"
    title = "Numbers that training never shows"
    paper = ("tab:hiding_numbers",)
    claims = (
        Claim(
            "reverse loses nothing",
            "Hiding up to 500 of the 900 three-digit numbers costs reverse nothing.",
            lambda m: loss(m, "reverse"),
            "reverse, overall accuracy lost at most",
            (-INF, 0.5),
            (0.5, 2),
            "it costs little",
            " points",
        ),
        Claim(
            "plain loses nothing",
            "Hiding up to 500 numbers costs plain nothing, and sometimes helps.",
            lambda m: loss(m, "plain"),
            "plain, overall accuracy lost at most",
            (-INF, 1),
            (1, 4),
            "it costs a little",
            " points",
        ),
        Claim(
            "hidden numbers are added as well",
            "Sums with a hidden number come out as well as others.",
            lambda m: (
                m.mean(format="reverse", hidden=500, choice="random")
                - m.mean(HIDDEN, format="reverse", hidden=500, choice="random")
            ),
            "reverse, 500 hidden, overall minus sums with a hidden number",
            (-INF, 0.5),
            (0.5, 3),
            "a little worse",
            " points",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        asked = greedy_and_sampled(tier, BARE)
        cases = []
        for format in ("plain", "reverse"):
            cases.append(Case({"format": format, "hidden": 0}, make_run(tier, addition(format)), asked))
            for choice in ("random", "rarest"):
                for count in few(tier, COUNTS):
                    exclude = ExcludeConfig(numbers=count, choice=choice)
                    settings = {"format": format, "hidden": count, "choice": choice}
                    cases.append(Case(settings, make_run(tier, addition(format, exclude=exclude)), asked))
        return cases

    def report(self, measured: Measured) -> list[Figure | Table]:
        overall, hidden = table("tab:hiding_numbers")["rows"]
        columns = table("tab:hiding_numbers")["columns"][1:]
        series, rows = [], []
        for format in ("plain", "reverse"):
            nothing = measured.stat(format=format, hidden=0)
            found = cell_with_sampled(measured, format=format, hidden=0)
            rows.append([format, "none", found, "–", f"{overall[1 + columns.index(f'none/{format}')]}", "–"])
            for choice in ("random", "rarest"):
                points = [nothing.point(0)] if nothing else []
                points += measured.curve("hidden", format=format, choice=choice)
                series.append(Series(f"{format}, {choice} hidden", points))
                for count in measured.values("hidden", format=format, choice=choice):
                    at = 1 + columns.index(f"{count}/{format}") if f"{count}/{format}" in columns else None
                    theirs = [f"{row[at]}" if at and choice == "rarest" else "–" for row in (overall, hidden)]
                    ours = [
                        cell_with_sampled(measured, metric, format=format, hidden=count, choice=choice)
                        for metric in (accuracy, HIDDEN)
                    ]
                    rows.append([format, f"{count} ({choice})", *ours, *theirs])
            theirs_points = [
                Point(0 if name.startswith("none") else int(name.split("/")[0]), value)
                for name, value in zip(columns, overall[1:], strict=True)
                if name.endswith(f"/{format}")
            ]
            series.append(Series(f"{format}, rarest hidden (paper)", theirs_points, "paper", "exact"))
        head = ("format", "hidden numbers", "overall", "with a hidden number", "overall (paper)", "hidden (paper)")
        return [
            Figure("Numbers hidden from training", "numbers hidden", "test accuracy (%)", series),
            Table("Accuracy (%)", head, rows, "The paper's numbers are the least frequent ones."),
        ]
