"""carryon report: results as figures, tables and verdicts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .reproduce import RESULTS

if TYPE_CHECKING:
    from ..reports import Figure


def report(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; all if left out.")] = None,
    format: Annotated[str, typer.Option("--format", help="html (one file) or md (a folder).")] = "html",
    tier: Annotated[str | None, typer.Option(help="smoke, fast or paper; fast and paper if left out.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to; report.html or docs/results if left out.")] = None,
    results: Annotated[Path, typer.Option(help="Where results are kept.")] = RESULTS,
) -> None:
    """Write the report: every figure and table beside the paper's, and a verdict on each claim.

    Example: carryon report plain_vs_reverse --format html
    """
    import sys

    from ..errors import BadRun, PathExists, UnknownName
    from ..experiments import EXPERIMENTS, experiment
    from ..files import write_whole
    from ..overview import make_chapter
    from ..results import TIERS, Store

    if format not in ("html", "md"):
        raise UnknownName("report format", format, ("html", "md"))
    if tier is not None and tier not in TIERS:
        raise UnknownName("tier", tier, TIERS)
    chosen = [experiment(name) for name in names] if names and "all" not in names else list(EXPERIMENTS.values())
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
    (folder / "figures").mkdir(parents=True, exist_ok=True)

    def place(name: str, figure: "Figure") -> str:
        write_whole(folder / "figures" / f"{name}.svg", draw(figure))
        return f"figures/{name}.svg"

    for chapter in chapters:
        write_whole(folder / f"{chapter.name}.md", write_chapter(chapter, place))
    if len(chosen) == len(EXPERIMENTS):
        write_whole(folder / "README.md", write_overview(chapters))
    print(f"{folder}: {len(chapters)} pages")
