"""carryon reproduce: the paper's figures and tables, run."""

import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..reports.wording import counted, duration
from .many_runs import ManyRuns
from .options import RESULTS, RUNS, ResultsFolder, RunsFolder, amount, check_folder, number

if TYPE_CHECKING:
    from ..execution import Outcome, Task
    from ..planning import Plan


def reproduce(
    names: Annotated[list[str], typer.Argument(help="Experiments, or all.")],
    tier: Annotated[str, typer.Option(help="smoke, fast or paper: how much compute.")] = "fast",
    seeds: Annotated[
        int | None,
        number("Seeds of each run; if left out, what its claims ask for: mostly 3 in fast, 2 in paper.", 1, 1000),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SETTINGS",
            help="Only runs with these settings, such as reverse,2000 or 'to 3, plain'. Can be repeated.",
        ),
    ] = None,
    decide: Annotated[
        bool, typer.Option("--decide", help="Only what claims wait for; curves are sought by halves.")
    ] = False,
    budget: Annotated[str | None, typer.Option(help="Stop in time: 90s, 25m, 2h.")] = None,
    on: Annotated[str, typer.Option(help="local, ray or slurm.")] = "local",
    jobs: Annotated[
        int | None,
        number("Runs at the same time, which share a GPU's memory; as many as cores, one on a GPU, if left out.", 1),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    compile: Annotated[str, typer.Option(help="auto, on or off.")] = "auto",
    runs: RunsFolder = RUNS,
    results: ResultsFolder = RESULTS,
    gpus: Annotated[float, amount("ray, slurm: GPUs for each run, such as 0.5 or 1.", 0)] = 0.0,
    address: Annotated[
        str | None, typer.Option(help="ray: the cluster to join; one on this machine if left out.")
    ] = None,
    probe: Annotated[
        int | None, number("Only try the heaviest run of each for so many steps, and keep no results.", 1, 10_000)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run and stop.")] = False,
) -> None:
    """Run what is missing of the paper's figures and tables. Safe to kill; the same command goes on.

    What claims wait for is run first, the claims that cost least before the others.
    Where a curve reaches a level is sought by halves. '--decide' ends there.

    Example: carryon reproduce plain_vs_reverse --tier fast --budget 25m
    """
    from ..config import TrainedConfig
    from ..experiments import EXPERIMENTS, experiment
    from ..planning import make_plan
    from ..results import Store
    from ..runs import part_done

    _check_options(tier, on, compile, gpus, address)
    every = "all" in names
    chosen = list(EXPERIMENTS.values()) if every else [experiment(name) for name in dict.fromkeys(names)]
    seconds = _seconds(budget) if budget is not None else None
    _check_choice(only, decide, seeds, probe)
    if probe is not None:
        _probe(chosen, tier, probe, on, jobs, device, compile, gpus, address)
        return
    store = Store(results)
    if not dry_run:
        check_folder(results / tier, "results", "--results")
        check_folder(runs, "runs", "--runs")
    with nullcontext() if dry_run else store.locked():
        plan = make_plan(chosen, tier, store, seeds, copy=not dry_run)  # type: ignore[arg-type]
        for note in store.broken:
            print(f"carryon: {note}", file=sys.stderr)
        plan = plan.only(only) if only else plan
        plan = plan.to_decide() if decide else plan
        plan.begun = {
            task.key: part
            for task in plan.tasks
            if isinstance(task.run, TrainedConfig) and (part := part_done(task.run, runs))
        }
        if dry_run:
            _print_plan(plan, seconds)
            return
        _check_budget(plan, seconds)
        failed, left = _carry_out(plan, on, jobs, device, compile, runs, seconds, gpus, address)
    _say_what_failed(failed)
    if left:
        most, cost = " at most" if decide else "", sum(map(plan.expected, left))
        many = f"{counted(len(left), 'run')}{most}"
        print(f"{many} did not fit the budget (about {duration(cost)}): the same command goes on")
    if failed or left:
        raise typer.Exit(1 if failed else 0)
    where = "" if results == RESULTS else f" --results {results}"
    what = "all done"
    if decide:
        what = f"no claim waits for {'one of these runs' if only else 'a run'} any more"
        if undecided := plan.open_claims:
            what += f" ({undecided} of {sum(len(one.claims) for one in chosen)} stay open)"
    print(f"{what}: 'carryon report {' '.join(names)} --tier {tier}{where}' shows it")


def _check_options(tier: str, on: str, compile: str, gpus: float, address: str | None) -> None:
    from ..errors import UnknownName, Unsupported
    from ..results import TIERS

    if tier not in TIERS:
        raise UnknownName("tier", tier, TIERS)
    if on not in ("local", "ray", "slurm"):
        raise UnknownName("place to run on", on, ("local", "ray", "slurm"))
    if compile not in ("auto", "on", "off"):
        raise UnknownName("compile setting", compile, ("auto", "on", "off"))
    if on == "local" and gpus:
        raise Unsupported("'--gpus' is for ray and slurm: here '--jobs' says how many runs share the GPU")
    if on != "ray" and address is not None:
        raise Unsupported(f"'--address' names a Ray cluster, and '--on' says {on}: give '--on ray'")


def _check_choice(only: list[str] | None, decide: bool, seeds: int | None, probe: int | None) -> None:
    from ..errors import Unsupported

    if probe is not None and (only or decide):
        other = "'--only' chooses runs" if only else "'--decide' runs what claims wait for"
        raise Unsupported(f"'--probe' tries the heaviest run of each experiment, {other}: give one")
    if decide and seeds is not None:
        raise Unsupported("'--decide' runs the seeds that claims ask for, '--seeds' says how many: give one")


def _say_what_failed(failed: list[tuple[str, str]]) -> None:
    """Runs and why; what many have in common is said once."""
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in failed:
        names_by_reason.setdefault(reason, []).append(name)
    if failed:
        print(f"carryon: {counted(len(failed), 'run')} failed:", file=sys.stderr)
    for reason, (first, *others) in names_by_reason.items():
        more = f", and {len(others)} more" if others else ""
        print(f"  {first}{more}: {reason}", file=sys.stderr)


def _probe(chosen: list[Any], tier: str, steps: int, *how: Any) -> None:
    """Nothing of it stays: runs and results go to a folder that is deleted."""
    import tempfile

    from ..planning import probe_plan
    from ..results import Store

    on, jobs, device, compile, gpus, address = how
    with tempfile.TemporaryDirectory() as folder:
        plan = probe_plan(chosen, tier, steps, Store(Path(folder) / "results"))  # type: ignore[arg-type]
        failed, _ = _carry_out(plan, on, jobs, device, compile, Path(folder) / "runs", None, gpus, address)
    _say_what_failed(failed)
    if failed:
        raise typer.Exit(1)
    print(f"the heaviest {tier} run of {len(chosen)} experiments works for {steps} steps")


def _carry_out(
    plan: "Plan",
    on: str,
    jobs: int | None,
    device: str,
    compile: str,
    runs: Path,
    budget: float | None,
    gpus: float,
    address: str | None,
) -> tuple[list[tuple[str, str]], list["Task"]]:
    """What failed and why, and what was not begun."""
    if not plan.tasks:
        return [], []
    on_gpu, workers = False, None
    if on == "local":
        from ..devices import pick_device

        on_gpu = pick_device(device).type != "cpu"
        jobs = jobs or (1 if on_gpu else os.cpu_count() or 1)
        workers = 1 if on_gpu else jobs
        if not on_gpu and plan.trains_at_full_size:
            print(f"note: tier {plan.tier} trains the paper's model, which is slow without a GPU", file=sys.stderr)
    screen = ManyRuns(plan, workers)
    failed: list[tuple[str, str]] = []
    stopped: list[Task] = []

    def tell(task: "Task", outcome: "Outcome") -> None:
        if outcome.error is not None:
            failed.append((f"{plan.name_of(task)}, seed {task.run.seed}", outcome.error))
        elif outcome.interrupted:
            stopped.append(task)
        else:
            plan.keep(task, outcome)
        screen.finished(task, outcome)

    def reorder(tasks: "Sequence[Task]") -> "list[Task]":
        ordered = plan.reorder(tasks)
        screen.plan_again(ordered)
        return ordered

    arguments: dict[str, Any] = {
        "device": device,
        "compile": compile,
        "deadline": time.time() + budget if budget is not None else None,
    }
    if on == "ray":
        from ..execution.on_ray import run_on_ray

        run: Callable[..., list[Task]] = partial(run_on_ray, gpus=gpus, address=address)
    elif on == "slurm":
        from ..execution.on_slurm import run_on_slurm

        run = partial(run_on_slurm, gpus=gpus, jobs=jobs)
    else:
        from ..execution.local import run_local

        # Small runs take less than to think about them.
        again = reorder if plan.deciding or plan.trains_at_full_size else None
        run = partial(
            run_local,
            jobs=jobs or 1,
            sharing=on_gpu,
            estimate=screen.estimate if again else plan.estimate,
            started=screen.started,
            reorder=again,
        )

    left: list[Task] = []
    waiting = list(plan.tasks)
    while waiting and not (left or stopped):
        # A cluster is given what is surely needed, and then what that turns out to need.
        now = plan.surest(waiting) if plan.deciding and on != "local" else waiting
        left = run(now, runs, tell, **arguments)
        given = {task.key for task in now}
        waiting = [task for task in waiting if task.key not in given]
        waiting = reorder(waiting) if plan.deciding else waiting
    left = [*stopped, *left, *waiting]
    screen.close()
    left = list({task.key: task for task in left}.values())
    return failed, plan.reorder(left) if plan.deciding else left


def _seconds(text: str) -> float:
    from ..errors import BadConfig

    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|h)", text.strip())
    if match is None:
        raise BadConfig(f"budget {text!r} is not a time such as 90s, 25m or 2h")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def _check_budget(plan: "Plan", budget: float | None) -> None:
    from ..errors import BadConfig

    if budget is None or not plan.tasks:
        return
    least = min(plan.estimate(task) for task in plan.tasks)
    if budget < least:
        raise BadConfig(f"a budget of {duration(budget)} fits no run: the shortest takes about {duration(least)}")


def _print_plan(plan: "Plan", budget: float | None) -> None:
    count, parents = len(plan.tasks), sum(task.key not in plan.by_key for task in plan.tasks)
    if plan.deciding:
        left = f"claims wait for {count - parents} at most" if count else "no claim waits for one"
    else:
        left = f"{count - parents} to do" if count else "none to do"
    left += f" and {parents} to start them from" if parents else ""
    about = f", about {duration(sum(map(plan.expected, plan.tasks)))} ({plan.basis})" if count else ""
    print(f"{plan.done} of {plan.total} runs are done, {left}{about}")
    fit = count
    if budget is not None:
        fit = sum(spent <= budget for spent in accumulate(map(plan.expected, plan.tasks)))
        print(f"the first {fit} fit into {duration(budget)}")
    for place, tasks in enumerate((plan.tasks[:fit], plan.tasks[fit:])):
        if place and fit and tasks:
            print(f"  --- {duration(budget or 0)}, and then:")
        for name, same in groupby(tasks, key=plan.name_of):
            alike = list(same)
            seeds = f"seed{'s' * (len(alike) > 1)} {', '.join(str(task.run.seed) for task in alike)}"
            print(f"  {name}; {seeds}; {duration(sum(map(plan.estimate, alike)))}")
