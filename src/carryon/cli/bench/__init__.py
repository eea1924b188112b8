"""carryon bench: how fast things are here, beside what they should reach."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

app = typer.Typer(help="Measure speed, a fresh process for each row.", no_args_is_help=True, rich_markup_mode="rich")

Only = Annotated[list[str] | None, typer.Option(help="Rows to run, see --list (repeatable).")]
List = Annotated[bool, typer.Option("--list", help="Name the rows and stop.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print a table in Markdown.")]


@app.command("data")
def data(only: Only = None, list_rows: List = False, as_json: Json = False, markdown: Markdown = False) -> None:
    """Measure making data, on one core.

    Example: carryon bench data --only plain --only detailed
    """
    from .data import ROWS, measure

    _run(ROWS, measure, only, list_rows, as_json, markdown)


@app.command("model")
def model(
    only: Only = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda: what the quick start runs on, too.")] = "auto",
    list_rows: List = False,
    as_json: Json = False,
    markdown: Markdown = False,
) -> None:
    """Measure training, generation and evaluation; rows that need a GPU are left out where there is none.

    Example: carryon bench model --only step --only sums
    """
    from ...devices import pick_device
    from .model import ROWS, measure

    pick_device(device)  # not there: say so once
    _run(ROWS, lambda name: measure(name, device), only, list_rows, as_json, markdown)


def _run(
    rows: Mapping[str, Any],
    measure: Callable[[str], dict[str, Any]],
    only: Sequence[str] | None,
    list_rows: bool,
    as_json: bool,
    markdown: bool,
) -> None:
    from ...errors import UnknownName
    from ..output import print_json
    from ..progress import progress

    for name in only or ():
        if name not in rows:
            raise UnknownName("benchmark", name, rows)
    if list_rows and as_json:
        print_json([{"name": name, "what": row.what, "reach": row.reach} for name, row in rows.items()])
        return
    if list_rows:
        for name, row in rows.items():
            print(f"{name:12} {row.what}")
        return
    names = list(only or rows)
    results = []
    with progress(len(names), "rows measured") as advance:
        for done, name in enumerate(names):
            advance(done, name)
            results.append({"name": name, "what": rows[name].what, **measure(name), "reach": rows[name].reach})
    if as_json:
        print_json({"where": where(), "rows": results})
    else:
        _print(results, markdown)


def where() -> str:
    """Device, versions and commit, on one line."""
    import platform

    from ...origin import commit

    return (
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, commit {commit() or 'unknown'}"
    )


def _print(results: list[dict[str, Any]], markdown: bool) -> None:
    lines = [(row["what"], row["measured"], row["reach"] or "", f"{row['peak_mib']:.0f}") for row in results]
    columns = ("what", "measured", "reach", "peak MiB")
    on = next((row["on"] for row in results if row.get("on")), "")
    title = f"{on + ', ' if on else ''}{where()}"
    if markdown:
        print(f"{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
        for line in lines:
            print(f"| {' | '.join(line)} |")
        return
    from rich.table import Table

    from ..output import console

    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="right" if column == "peak MiB" else "left")
    for line in lines:
        table.add_row(*line)
    console().print(table)
