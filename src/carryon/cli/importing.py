"""carryon import: other tools' checkpoints as runs."""

from pathlib import Path
from typing import Annotated

import typer

from .train import RUNS


def import_(
    file: Annotated[Path, typer.Argument(help="A .pt file of nanoGPT or of the paper's authors.")],
    format: Annotated[str, typer.Option(help="The format it was trained on.")] = "plain",
    operation: Annotated[str, typer.Option(help="The operation it was trained on.")] = "add",
    vocabulary: Annotated[
        str | None, typer.Option(help="Its characters, \\n for a newline; all printable ASCII if left out.")
    ] = None,
    name: Annotated[str, typer.Option(help="Names the run's folder.")] = "nanogpt",
    runs: Annotated[Path, typer.Option(help="Where run folders are kept.")] = RUNS,
) -> None:
    """Make a run of a nanoGPT checkpoint, to be evaluated and asked like any other. Nothing in the file is executed.

    Example: carryon import ckpt.pt --format plain --vocabulary '0123456789+=\\n'
    """
    from ..config import DataConfig, load
    from ..interop import import_nanogpt

    data = load(DataConfig, {"operation": operation, "format": format})
    characters = vocabulary.replace("\\n", "\n") if vocabulary is not None else None
    run = import_nanogpt(file, runs, data, characters, name)
    print(f"{run.path}: now 'carryon evaluate {run.path.name}' or 'carryon ask {run.path.name} 128+367'")
