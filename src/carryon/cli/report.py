"""carryon report: results as figures, tables and verdicts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..reports.wording import counted
from .options import RESULTS, ResultsFolder, place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..reports import Figure, HeatMap


def report(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; all if left out.")] = None,
    format: Annotated[str, typer.Option("--format", help="html (one file) or md (a folder).")] = "html",
    tier: Annotated[str | None, typer.Option(help="smoke, fast or paper; fast and paper if left out.")] = None,
    out: Annotated[Path | None, place("Where to; report.html or docs/results if left out.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are no reports, too.")] = False,
    results: ResultsFolder = RESULTS,
) -> None:
    """Write the report: every figure and table beside the paper's, and a verdict on each claim.

    Example: carryon report plain_vs_reverse --format html
    """
    import sys

    from ..errors import BadRun, PathExists, UnknownName, Unsupported
    from ..experiments import EXPERIMENTS, experiment
    from ..files import write_whole
    from ..overview import make_chapter
    from ..results import TIERS, Store

    if format not in ("html", "md"):
        raise UnknownName("report format", format, ("html", "md"))
    if tier is not None and tier not in TIERS:
        raise UnknownName("tier", tier, TIERS)
    if format == "md" and tier is not None and out is None:
        raise Unsupported(
            f"pages of tier {tier} alone would take the place of those in docs/results: name another folder with --out"
        )
    every = not names or "all" in names
    chosen = list(EXPERIMENTS.values()) if every else [experiment(name) for name in dict.fromkeys(names or ())]
    store = Store(results)
    if not results.exists():
        raise BadRun(
            f"there are no results in {results}: `carryon reproduce` makes them, --results names another folder"
        )
    tiers = (tier,) if tier else ("fast", "paper")
    chapters = [make_chapter(one, store, tiers) for one in chosen]
    for note in store.broken:
        print(f"carryon: {note}", file=sys.stderr)
    if format == "html":
        from ..reports.html import write_page

        path = out or Path("report.html")
        if path.is_dir():
            path = path / "report.html"
        _check_are_reports([path], force)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, write_page(chapters))
        print(
            f"{path}: {sum(len(chapter.parts) > 0 for chapter in chapters)} of {len(chapters)} experiments have results"
        )
        return
    from ..reports.drawing import draw
    from ..reports.markdown import write_chapter, write_overview

    folder = out or Path("docs/results")
    if folder.is_file():
        raise PathExists(f"{folder} is a file; Markdown is written as a folder: choose another path with --out")
    pages = [folder / f"{chapter.name}.md" for chapter in chapters]
    overview = [folder / "README.md"] if every else []
    _check_are_reports([*pages, *overview], force)
    (folder / "figures").mkdir(parents=True, exist_ok=True)

    def put(name: str, figure: "Figure | HeatMap") -> str:
        write_whole(folder / "figures" / f"{name}.svg", draw(figure))
        return f"figures/{name}.svg"

    for path, chapter in zip(pages, chapters, strict=True):
        write_whole(path, write_chapter(chapter, put))
    for path in overview:
        write_whole(path, write_overview(chapters))
    print(f"{folder}: {counted(len(chapters), 'page')}")


_MARKS = ("<title>carryon report</title>", "\n`carryon reproduce ", "\nMade by `carryon report ")
"""By one of which a report is known, near its beginning."""


def _check_are_reports(paths: "Sequence[Path]", force: bool) -> None:
    """A report takes the place of an older one, but not of anything else."""
    from ..errors import PathExists

    for path in paths:
        if path.exists() and not path.is_file():  # /dev/null, say, which would be one afterwards
            raise PathExists(f"{path} is no ordinary file: choose another path with --out")
        if force or not path.exists():
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            head = file.read(1_000)
        if not any(mark in head for mark in _MARKS):
            raise PathExists(
                f"{path} is there and no report of carryon's: choose another path with --out, or pass --force"
            )
