"""One task, from start to end, in the process that is given it."""

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..config import CompletionConfig, EnumerationConfig, ImprovementConfig, RunConfig, TrainedConfig
from ..errors import CarryonError, OutOfMemory, RunMismatch
from ..origin import commit
from ..runs import Run
from .tasks import Outcome, Task

Stop = Callable[[], bool]

LOCK_SECONDS = 60.0
"""For a worker that was given up, but still holds its run."""


def perform(
    task: Task,
    root: Path,
    device: str = "auto",
    compile: str = "auto",
    stop: Stop | None = None,
    part: float = 1.0,
) -> Outcome:
    """Never raises: a task that fails says why, and the others go on. `part`: of a GPU shared with others."""
    from ..devices import keep_to_part, pick_device
    from ..training import Interrupted

    started = time.monotonic()
    try:
        if isinstance(task.run, TrainedConfig) and part < 1:
            keep_to_part(pick_device(device), part)
        if isinstance(task.run, ImprovementConfig):
            return _improve(task, task.run, root, device, compile, stop)
        if isinstance(task.run, RunConfig):
            return _train(task, task.run, root, device, compile, stop)
        answer = _complete(task.run) if isinstance(task.run, CompletionConfig) else _enumerate(task.run)
        return Outcome(task.key, {"trials": answer}, time.monotonic() - started, "cpu", commit())
    except Interrupted:
        return Outcome(task.key, interrupted=True, seconds=time.monotonic() - started)
    except Exception as error:
        return Outcome(task.key, error=_words(error, part), seconds=time.monotonic() - started)


def _words(error: Exception, part: float) -> str:
    from ..devices import is_out_of_memory

    text = str(error)
    if is_out_of_memory(error):
        text = f"memory ran out: {text.splitlines()[0][:100]}"
    elif not isinstance(error, CarryonError):
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {text} ({Path(where.filename).name}:{where.lineno})"
    if part < 1 and (isinstance(error, OutOfMemory) or is_out_of_memory(error)):
        text += f"; each job has {part:.0%} of the GPU: fewer --jobs leave it more"
    return text


def perform_in_time(
    task: Task, root: Path, device: str, compile: str, deadline: float | None, part: float = 1.0
) -> Outcome | None:
    """Perform a task that has waited in a queue and may have been begun before. None: it is too late to begin."""
    if deadline is not None and time.time() > deadline:
        return None
    if isinstance(task.run, TrainedConfig):
        _wait_until_free(Run(root / task.run.folder, task.run))
    stop = (lambda: time.time() > deadline) if deadline is not None else None
    return perform(task, root, device, compile, stop, part)


def _wait_until_free(run: Run) -> None:
    """On a node that is cut off, the worker that was begun before may still train, and even finish: then it is done."""
    until = time.monotonic() + LOCK_SECONDS
    while run.path.exists() and time.monotonic() < until:
        try:
            with run.locked():
                return
        except RunMismatch:
            time.sleep(0.5)


def _train(task: Task, config: RunConfig, root: Path, device: str, compile: str, stop: Stop | None) -> Outcome:
    """Train, or find it trained; ask what was not asked yet."""
    from ..data import make_dataset
    from ..devices import pick_precision
    from ..runs import find_run
    from ..training import Interrupted, load_model, make_exam, train

    parent = find_run(config.parent, root) if config.parent else None
    run = Run(root / config.folder, config)
    if run.is_done and not {question.column for question in config.watch} <= _columns(run):
        run.start_again()  # it was trained when nobody wanted to watch this
    run = train(config, root, device=device, compile=compile, parent=parent, stop=stop)
    result = run.read_result() or {}
    # The command's own time, or, of a run that was resumed, what all its sittings took.
    seconds = max(float(result.get("command_seconds", 0.0)), float(result.get("seconds", 0.0)))
    missing = [question for question in task.evaluations if run.read_evaluation(question.hash) is None]
    if missing:
        model, tokenizer = load_model(run, device)
        precision = pick_precision("auto", next(model.parameters()).device)
        parts = [make_dataset(data, config.seed) for data in config.parts]
        for question in missing:
            if stop is not None and stop():
                raise Interrupted("what was answered so far is kept")
            began = time.monotonic()
            answer, _ = make_exam(question, parts, model, tokenizer, precision, run=config).ask()
            answer |= {"config": question.model_dump(mode="json"), "seconds": round(time.monotonic() - began, 3)}
            run.write_evaluation(question.hash, answer)
    answers: dict[str, Any] = {q.hash: run.read_evaluation(q.hash) for q in task.evaluations}
    answers["history"] = {"history": run.metrics(), "steps": result.get("steps"), "stopped": result.get("stopped")}
    seconds += sum(float(answers[question.hash].get("seconds", 0.0)) for question in task.evaluations)
    origin = run.read_origin()
    return Outcome(task.key, answers, round(seconds, 3), str(result.get("device")), origin.get("commit"))


def _improve(
    task: Task, config: ImprovementConfig, root: Path, device: str, compile: str, stop: Stop | None
) -> Outcome:
    """Go through the rounds, or find that done."""
    from ..training import improve

    run = improve(config, root, device=device, compile=compile, stop=stop)
    result = run.read_result() or {}
    seconds = max(float(result.get("command_seconds", 0.0)), float(result.get("seconds", 0.0)))
    told = ("rounds", "diagonal", "reaches_99", "reaches_50", "steps", "stopped")
    answers = {"trials": {key: result.get(key) for key in told}}
    return Outcome(task.key, answers, round(seconds, 3), str(result.get("device")), run.read_origin().get("commit"))


def _columns(run: Run) -> set[str]:
    rows = run.metrics()
    return set(rows[-1]) if rows else set()


def _complete(config: CompletionConfig) -> dict[str, Any]:
    from ..data import make_splits
    from ..matrix_completion import METHODS, run_trials

    if config.data is None:
        found = run_trials(config.method, config.n, config.revealed, config.trials, config.seed)
    else:
        one = METHODS[config.method](config.n, make_splits(config.data, config.seed).train)
        found = {
            "trials": 1,
            "filled": int(one.filled),
            "all_right": int(one.right == 1.0),
            "all_rounded": int(one.rounded == 1.0),
            "determined": one.determined,
            "right": one.right,
            "rounded": one.rounded,
        }
    shares = {f"{name}_share": found[name] / found["trials"] for name in ("filled", "all_right", "all_rounded")}
    return {**found, **shares}


def _enumerate(config: EnumerationConfig) -> dict[str, Any]:
    from ..lemmas import LEMMAS

    true, count = LEMMAS[config.lemma](config.digits, config.base)
    return {"true": true, "count": count, "share": true / count}
