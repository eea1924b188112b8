"""carryon experiments: what there is to run, what was run, and what the rest would take."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..reports.wording import duration
from .options import RESULTS, ResultsFolder
from .output import console, print_json

if TYPE_CHECKING:
    from ..results import Store

Row = dict[str, Any]

COLUMNS = (
    ("name", "name", 0),
    ("question", "question", 120),
    ("claims", "claims", 90),
    ("fast", "fast", 0),
    ("fast missing", "missing", 0),
    ("paper", "paper", 0),
    ("paper missing", "missing", 0),
)
"""Of the table: what stands there, its heading, and how wide a screen has to be for it."""
ONE_LINE = 90
"""How wide it has to be for both times side by side."""


def experiments(
    results: ResultsFolder = RESULTS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List all experiments: what they answer, what was run in each tier, what is missing and what it would cost.

    Two times are told: until the claims are decided, where curves are sought by halves; until all is run.

    Example: carryon experiments
    """
    from ..results import Store

    store = Store(results)
    rows, total = _survey(store)
    if not results.is_dir():
        print(f"carryon: there is no folder {results}: nothing was run yet", file=sys.stderr)
    for note in store.broken:
        print(f"carryon: {note}", file=sys.stderr)
    if as_json:
        print_json({"experiments": rows, "all": total})
    else:
        _print_table(rows, total)


def _survey(store: "Store") -> tuple[list[Row], Row]:
    """A row for each experiment, and one for all, in which a run that several want is counted once."""
    from ..experiments import EXPERIMENTS
    from ..planning import Known, make_plan
    from ..results import TIERS

    rows: list[Row] = [
        {"name": name, "title": experiment.title, "paper": list(experiment.paper), "claims": len(experiment.claims)}
        for name, experiment in EXPERIMENTS.items()
    ]
    total: Row = {"name": "all", "claims": sum(row["claims"] for row in rows)}
    for tier in TIERS:
        known = Known.read(store, tier)
        seconds: dict[str, float] = {}
        for_claims: dict[str, float] = {}
        for row, experiment in zip(rows, EXPERIMENTS.values(), strict=True):
            plan = make_plan([experiment], tier, store, None, known, copy=False)  # type: ignore[arg-type]
            here = {task.key: plan.estimate(task) for task in plan.tasks}
            row[tier] = _state(plan.done, plan.total, here, plan.for_claims, plan.guessed)
            seconds |= here
            for key, chance in plan.for_claims.items():
                for_claims[key] = max(chance, for_claims.get(key, 0.0))
        states = [row[tier] for row in rows]
        done, wanted, guessed = (sum(state.get(key, 0) for state in states) for key in ("done", "of", "guessed"))
        total[tier] = _state(done, wanted, seconds, for_claims, guessed)
    return rows, total


def _state(
    done: int, wanted: int, seconds: Mapping[str, float], for_claims: Mapping[str, float], guessed: int
) -> dict[str, int]:
    """`for_claims`: how likely each run decides one."""
    return {
        "done": done,
        "of": wanted,
        "claims_wait_for_seconds": round(sum(for_claims.get(key, 0.0) * cost for key, cost in seconds.items())),
        "missing_seconds": round(sum(seconds.values())),
        **({"guessed": guessed} if guessed else {}),
    }


def _print_table(rows: Sequence[Row], total: Row) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    screen = console()
    # On a narrow screen the numbers come first.
    shown = [(key, heading) for key, heading, least in COLUMNS if screen.width >= least]
    table = Table(
        title="Runs done, and what it would take on the machine measured:\n"
        "to decide the claims / to finish (~: partly a guess)",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for key, heading in shown:
        table.add_column(Text(heading, no_wrap=True), no_wrap=key not in ("name", "question"), overflow="fold")
    for row in (*rows, total):
        if row is total:
            table.add_section()
        cells = _cells(row, " / " if screen.width >= ONE_LINE else " /\n")
        table.add_row(*(cells[key] for key, _ in shown))
    screen.print(table)


def _cells(row: Row, between: str) -> dict[str, str]:
    cells = {"name": row["name"], "question": row.get("title", ""), "claims": str(row["claims"])}
    for tier in ("fast", "paper"):
        state = row[tier]
        cells[tier] = f"{state['done']}/{state['of']}"
        cells[f"{tier} missing"] = between.join(_missing(state))
    return cells


def _missing(state: Mapping[str, int]) -> list[str]:
    """Until the claims are decided, until everything is run; once where these are the same."""
    decide, finish = state["claims_wait_for_seconds"], state["missing_seconds"]
    if not finish:
        return []
    guessed = "~" if "guessed" in state else ""
    both = (f"{guessed}{duration(decide)}" if decide else "–", f"{guessed}{duration(finish)}")
    return list(dict.fromkeys(both))
