"""carryon runs: what is in the runs folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .options import RUNS, RunsFolder


def runs(
    runs: RunsFolder = RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the runs, how far they are, and how well they do.

    Example: carryon runs
    """
    from rich import box
    from rich.table import Table

    from ..runs import run_folders
    from .output import console, print_json

    rows = [_row(path) for path in run_folders(runs)]
    if as_json:
        print_json(rows)
        return
    if not rows:
        print(f"no runs in {runs}: 'carryon train' makes one")
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("run", "data", "model", "state", "accuracy"):
        table.add_column(column, no_wrap=column == "run", overflow="fold")  # the name is there to be copied
    for row in rows:
        table.add_row(row["run"], row.get("data", ""), row.get("model", ""), row["state"], row.get("accuracy", ""))
    console().print(table)


def _row(path: Path) -> dict[str, Any]:
    from ..config import ImprovementConfig
    from ..errors import CarryonError
    from ..runs import Run

    try:
        run = Run.open(path)
        result, metrics = run.read_result(), run.metrics()
    except CarryonError as error:
        return {"run": path.name, "state": f"broken: {error}"}
    config = run.config
    row = {
        "run": path.name,
        "data": f"{config.data.operation} {config.data.format.name} {config.data.num_examples:,}",
        "model": config.model.label,
    }
    if isinstance(run.asked, ImprovementConfig):
        row["data"] = (
            f"{config.data.operation} {config.data.format.name}, {run.asked.base.data.digits} digits "
            f"and {run.asked.longest - run.asked.base.data.digits} by itself"
        )
    if result is not None:
        texts = {question.hash for question in config.evaluations if question.problems == "text"}
        found = {name: value for name, value in result["evaluations"].items() if value is not None}
        shown = [f"perplexity {value:.2f}" if name in texts else f"{value:.2%}" for name, value in found.items()]
        row["state"] = f"done, {result['steps']:,} steps, {result['seconds']:.0f} s"
        if isinstance(run.asked, ImprovementConfig):
            shown = [f"{least} % up to {digits} digits" for least in (99, 50) if (digits := result[f"reaches_{least}"])]
        row["accuracy"] = ", ".join(shown)
    else:
        last = metrics[-1] if metrics else {"step": 0}
        row["state"] = f"at step {last['step']:,} of {config.train.steps:,}"
        if last.get("validation") is not None:
            row["accuracy"] = f"validation {last['validation']:.2%}"
    return row
