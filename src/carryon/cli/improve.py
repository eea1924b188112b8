"""carryon improve: a model that labels longer problems than it was taught, and learns from its labels."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import RUNS, RunsFolder, number

if TYPE_CHECKING:
    from ..runs import Run


def improve(
    config: Annotated[
        str, typer.Argument(help="A TOML file, six-to-ten (digits, on a CPU) or longer-sums (16 to 100, on a GPU).")
    ],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change a setting, such as rounds.count=3.")
    ] = None,
    seed: Annotated[int | None, number("The seed.")] = None,
    runs: RunsFolder = RUNS,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    compile: Annotated[str, typer.Option(help="auto, on or off: kernels, torch.compile and CUDA graphs.")] = "auto",
    track: Annotated[
        list[str] | None, typer.Option(help="Also send metrics to tensorboard or wandb (repeatable).")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the config and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a model, then let it label longer and longer problems and learn from its labels.

    Ctrl-C and kill are safe: the same command goes on where it stopped.

    Example: carryon improve six-to-ten --set filters.votes=1 --seed 1
    """
    from ..errors import UnknownName
    from ..recipes import load_improvement
    from .output import print_json

    changes = list(settings or ())
    if seed is not None:
        changes.append(f"seed={seed}")
    if compile not in ("auto", "on", "off"):
        raise UnknownName("compile setting", compile, ("auto", "on", "off"))
    loaded = load_improvement(config, changes)
    if show:
        print_json(loaded.model_dump(mode="json") | {"folder": loaded.folder})
        return

    from ..devices import pick_device
    from .trackers import make_trackers
    from .train import Screen

    pick_device(device)  # not there: say so before anything else
    display = Screen(make_trackers(track or [], runs / loaded.folder), quiet=as_json)
    display.say(f"run {loaded.folder}")
    from ..training import improve as run_improvement

    run = run_improvement(loaded, runs, device=device, compile=compile, display=display)
    display.close()
    result = run.read_result() or {}
    if as_json:
        print_json({"run": str(run.path), **result})
    else:
        print_improvement(run, result)


def print_improvement(run: "Run", result: Mapping[str, Any]) -> None:
    """Round by round, and along the diagonal."""
    from rich import box
    from rich.table import Table

    from .output import console

    print(
        f"{run.path}: {result['steps']:,} steps in {result['training_seconds']:.1f} s on {result['device']} "
        f"({result['stopped']}); {result['parameters']:,} parameters"
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("round", "digits", "labelled", "finished", "agreed", "long enough", "of these true", "then right"):
        table.add_column(column, justify="right")
    for row in result["rounds"]:
        counts = (f"{row[key]:,}" for key in ("round", "digits", "labelled", "finished", "agreed", "long_enough"))
        table.add_row(*counts, *(_share(row[key]) for key in ("labels_true", "validation")))
    console().print(table)
    print("right by length: " + ", ".join(f"{digits} {_share(right)}" for digits, right in result["diagonal"].items()))
    for least in (99, 50):
        digits = result[f"reaches_{least}"]
        print(f"  at least {least} %: " + (f"up to {digits} digits" if digits else "no length that was asked"))


def _share(part: float | None) -> str:
    return "-" if part is None else f"{part:.1%}"
