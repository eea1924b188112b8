"""Options that several commands share."""

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..runs import Run


def whole(value: Any) -> int:
    """A whole number as typed; the parser's own message would not name the value."""
    if not re.fullmatch(r"[+-]?[0-9]{1,30}", str(value)):
        raise typer.BadParameter(f"{value!r} is not a whole number")
    return int(value)


def number(help: str, least: int | None = None, most: int | None = None) -> Any:
    """An option that takes a whole number, of at least and at most so much."""

    def parse(value: Any) -> int:
        given = whole(value)
        if least is not None and given < least:
            raise typer.BadParameter(f"{given} is too small: at least {least}")
        if most is not None and given > most:
            raise typer.BadParameter(f"{given} is too large: at most {most}")
        return given

    return typer.Option(help=help, parser=parse, metavar="N")


def amount(help: str, least: float | None = None) -> Any:
    """An option that takes a number, whole or not, of at least so much."""

    def parse(value: Any) -> float:
        try:
            given = float(value)
        except ValueError:
            given = math.nan
        if not math.isfinite(given):
            raise typer.BadParameter(f"{value!r} is not a number")
        if least is not None and given < least:
            raise typer.BadParameter(f"{value} is too small: at least {least:g}")
        return given

    return typer.Option(help=help, parser=parse, metavar="X")


def place(help: str) -> Any:
    """An option that takes a path; an empty one, of a variable that was not set say, would be the current folder."""

    def parse(value: Any) -> Path:
        if not str(value):
            raise typer.BadParameter("an empty path: name one, such as . for this folder")
        return Path(value)

    return typer.Option(help=help, parser=parse, metavar="<path>")


RUNS = Path("runs")
RESULTS = Path("results")
RunsFolder = Annotated[Path, place("Where run folders are kept.")]
ResultsFolder = Annotated[Path, place("Where results are kept.")]


def check_part(run: "Run", option: str, given: int) -> None:
    """BadInput unless a run learnt from so many data sets."""
    from ..errors import BadInput

    last = len(run.config.mix)
    if not 0 <= given <= last:
        learnt = f"data sets 0 to {last}" if last else "one data set, number 0"
        raise BadInput(f"{option} {given} is not there: {run.path.name} learnt from {learnt}")


def check_failures(path: Path | None, force: bool) -> None:
    """Whether what went wrong can be written there, before everything is asked."""
    from ..errors import BadInput, PathExists

    if path is None:
        return
    if path.is_dir():
        raise BadInput(f"--failures {path} is a folder: name a file to write")
    if path.exists() and not force:
        raise PathExists(f"{path} is already there: choose another path, or pass --force to replace it")
    if not path.parent.is_dir():
        raise BadInput(f"--failures {path} cannot be written: make the folder {path.parent} first")


def check_folder(folder: Path, what: str, option: str) -> None:
    """Whether files can be kept there, though it may have to be made, before there are any."""
    from ..errors import PathExists

    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise PathExists(f"{there} is not a folder; {what} are kept in one: choose another with {option}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PathExists(f"{there} cannot be written to; {what} are kept there: choose another with {option}")
