"""carryon train: a recipe in, a run folder out."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..reports.wording import duration
from .options import RUNS, RunsFolder, number

if TYPE_CHECKING:
    from ..config import RunConfig
    from ..runs import Run


def train(
    recipe: Annotated[
        str, typer.Argument(help="A recipe's name or a TOML file; the quick start if left out.")
    ] = "quickstart",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="A.B=C",
            help="Change a setting, such as train.steps=100; model.reach= puts its default back.",
        ),
    ] = None,
    seed: Annotated[int | None, number("The run's seed.")] = None,
    runs: RunsFolder = RUNS,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    compile: Annotated[str, typer.Option(help="auto, on or off: kernels, torch.compile and CUDA graphs.")] = "auto",
    parent: Annotated[str | None, typer.Option(help="Start from the weights of this run.")] = None,
    track: Annotated[
        list[str] | None, typer.Option(help="Also send metrics to tensorboard or wandb (repeatable).")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the config and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a model; with no recipe, an adder of three-digit numbers in about a minute.

    Ctrl-C and kill are safe: the same command goes on where it stopped.

    Example: carryon train paper-reverse --set data.num_examples=5000 --seed 1
    """
    from ..errors import UnknownName
    from ..recipes import load_recipe
    from .output import print_json

    changes = list(settings or ())
    if seed is not None:
        changes.append(f"seed={seed}")
    if compile not in ("auto", "on", "off"):
        raise UnknownName("compile setting", compile, ("auto", "on", "off"))
    config = load_recipe(recipe, changes, keep=not show)
    started_from = None
    if parent is not None:
        from ..runs import find_run

        started_from = find_run(parent, runs)
        config = config.model_copy(update={"parent": started_from.asked.hash})
    if show:
        print_json(config.model_dump(mode="json") | {"folder": config.folder})
        return

    from ..devices import pick_device
    from .trackers import make_trackers

    pick_device(device)  # not there: say so before anything else
    trackers = make_trackers(track or [], runs / config.folder)
    display = Screen(trackers, quiet=as_json)
    display.say(f"run {config.folder}")
    from ..training import train as run_training

    run = run_training(config, runs, device=device, compile=compile, display=display, parent=started_from)
    display.close()
    result = run.read_result()
    if result is None:  # a process that is not the first of several
        return
    if as_json:
        print_json({"run": str(run.path), **result})
        return
    print_result(run, result)
    if recipe == "quickstart" and not changes:
        _show_off(run, device)


def print_result(run: "Run", result: Mapping[str, Any]) -> None:
    from ..config import EvaluationConfig, load
    from ..evaluation import describe, percent

    trained = f", {result['trained_parameters']:,} of them trained" if "trained_parameters" in result else ""
    print(
        f"{run.path}: {result['steps']:,} steps in {result['training_seconds']:.1f} s on {result['device']} "
        f"({result['stopped']}); {result['parameters']:,} parameters{trained}, "
        f"trained on {result['trained_on']:,} examples{_among(run.config)}"
    )
    if result.get("test_problems_in_text"):
        print(f"  {result['test_problems_in_text']:,} test problems occur in the text: they are not unseen")
    for name in result["evaluations"]:
        evaluation = run.read_evaluation(name)
        if evaluation is None:
            continue
        question = describe(load(EvaluationConfig, evaluation["config"]))
        if "perplexity" in evaluation:
            print(f"  {question}: perplexity {evaluation['perplexity']:.3f} over {evaluation['tokens']:,} tokens")
            continue
        if "accuracy" not in evaluation:
            print(f"  {question}: exact {evaluation['exact']:.2%}, within one {evaluation['relaxed']:.2%}")
            continue
        low, high = evaluation["interval"] or (0, 0)
        right, count = evaluation["right"], evaluation["count"]
        print(
            f"  {question}: {percent(right, count)} ({right:,} of {count:,}, "
            f"95 % interval {low:.3%} to {high:.3%}) in {evaluation['seconds']:.1f} s"
        )
        for part, (right, count) in evaluation["by"].get("slice", {}).items():
            print(f"    {part}: {percent(right, count)} ({right:,} of {count:,})")


def _among(config: "RunConfig") -> str:
    return f" among {config.text.corpus}" if config.text is not None and config.text.mixing != "none" else ""


def _show_off(run: "Run", device: str) -> None:
    """A few questions to the new model, and what to do next."""
    from ..operations import parse_question
    from .ask import answer

    print("\na few questions:")
    for question in ("7+58", "128+367", "999+1", "500+500"):
        problem = parse_question(question)
        assert problem is not None
        written, read = answer(run, problem, run.config.data, device)
        mark = "right" if read == problem.answer else f"wrong, it is {problem.answer}"
        print(f"  {question} = {read} ({mark}; it wrote {written!r}, lowest digit first)")
    name = run.path.name
    print(
        f"\nnext: carryon ask {name} 345+678 --tokens   what it writes, with probabilities\n"
        f"      carryon evaluate {name}               the test set, by digits and carries\n"
        "      carryon train paper-reverse             the paper's model (wants a GPU)"
    )


def _shown(name: str, value: float) -> str:
    if isinstance(value, int):  # of a self-improvement's round
        return f"{value:,}"
    return f"{value:.2f}" if name == "perplexity" or name.endswith("_seconds") else f"{value:.2%}"


class Screen:
    """What a person sees while training runs: one moving line on a terminal, plain lines elsewhere."""

    _LINE_EVERY = 5.0

    def __init__(self, trackers: list[Callable[[Mapping[str, Any]], None]], quiet: bool = False) -> None:
        self._trackers, self._quiet = trackers, quiet
        self._tty = sys.stderr.isatty() and not quiet
        self._started = time.monotonic()
        self._last = 0.0
        self._first_step: int | None = None
        self._accuracy = ""

    def say(self, text: str) -> None:
        if not self._quiet:
            self._clear()
            print(text, file=sys.stderr, flush=True)

    def step(self, step: int, steps: int, lr: float, tokens_per_second: float, loss: Callable[[], float]) -> None:
        now = time.monotonic()
        if self._first_step is None:
            self._first_step, self._started = step, now
        if self._quiet or now - self._last < (0.2 if self._tty else self._LINE_EVERY):
            return
        self._last = now
        line = f"step {step:,}/{steps:,}  loss {loss():.4f}  lr {lr:.1e}  {tokens_per_second / 1000:,.0f}k tokens/s"
        if step > self._first_step:  # one step tells nothing: it compiles, and fills caches
            left = (now - self._started) / (step - self._first_step) * (steps - step)
            line += f"  {duration(left)} left"
        line += self._accuracy
        print(f"\r\033[K{line}" if self._tty else line, end="" if self._tty else "\n", file=sys.stderr, flush=True)

    def evaluated(self, row: Mapping[str, Any]) -> None:
        for tracker in self._trackers:
            tracker(row)
        others = {k: v for k, v in row.items() if k not in ("step", "seconds", "lr", "loss") and v is not None}
        shown = {k.replace("_", " "): _shown(k, v) for k, v in others.items()}
        self._accuracy = "".join(f"  {name} {value}" for name, value in shown.items())
        loss = "" if row["loss"] is None else f"  loss {row['loss']:.4f}"
        self.say(f"step {row['step']:,}{loss}{self._accuracy}  ({row['seconds']:.1f} s)")

    def close(self) -> None:
        self._clear()

    def _clear(self) -> None:
        if self._tty:
            print("\r\033[K", end="", file=sys.stderr)
