"""Worker processes on this machine, each reused for many tasks."""

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ..config import TrainedConfig
from .tasks import Outcome, Task, order_tasks
from .work import perform

Tell = Callable[[Task, Outcome], None]


def run_local(
    tasks: Iterable[Task],
    root: Path,
    tell: Tell,
    *,
    jobs: int = 1,
    sharing: bool = False,
    device: str = "auto",
    compile: str = "auto",
    deadline: float | None = None,
    estimate: Callable[[Task], float] = lambda task: 0.0,
    started: Callable[[Task], None] = lambda task: None,
    reorder: Callable[[Sequence[Task]], list[Task]] | None = None,
) -> list[Task]:
    """Carry out tasks, telling each outcome as it comes. Returns those not begun or not finished by the deadline.

    A worker that dies takes its task with it, not the others: another takes its place. `sharing`: the jobs take turns
    on one GPU, so that a run has cost its part of the time it took. `reorder`: asked after every outcome what to begin
    next.
    """
    waiting = order_tasks(tasks)
    jobs = max(1, min(jobs, len(waiting)))
    part = 1 / jobs if sharing else 1.0
    pool = _Pool(root, device, compile, max(1, (os.cpu_count() or 1) // jobs), deadline, part)
    keys = {task.key for task in waiting}
    done: set[str] = set()
    failed: set[str] = set()
    left: dict[str, Task] = {}
    try:
        while waiting or pool.busy:
            remaining = deadline - time.time() if deadline is not None else math.inf
            owed = pool.owed(estimate) if sharing else 0.0
            for task in list(waiting):
                if len(pool.busy) >= jobs:
                    break
                if task.parent in keys and task.parent not in done | failed | left.keys():
                    continue
                alone = estimate(task)
                too_late = alone > remaining
                if not too_late and owed + alone > remaining:
                    continue  # it would take the time from those that run; one of them may be done early
                waiting.remove(task)
                if task.parent in failed:
                    failed.add(task.key)
                    tell(task, Outcome(task.key, error=f"its parent {task.parent} is not there"))
                elif too_late or task.parent in left:
                    left[task.key] = task
                else:
                    started(task)
                    pool.give(task)
                    owed += alone if sharing else 0.0
            for task, outcome, part in pool.wait():
                if sharing and isinstance(task.run, TrainedConfig):
                    outcome = replace(outcome, seconds=round(outcome.seconds * part, 3))
                if outcome.interrupted:
                    left[task.key] = task
                else:
                    (failed if outcome.error else done).add(task.key)
                tell(task, outcome)
                if reorder is not None and waiting:
                    waiting = order_tasks(reorder(waiting))
    finally:
        pool.close()
    return list(left.values())


class _Worker:
    def __init__(
        self, root: Path, device: str, compile: str, threads: int, deadline: float | None, part: float
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, root, device, compile, deadline, part), daemon=True)
        # Read by OpenMP when torch is loaded: too late once the worker runs.
        before = os.environ.get("OMP_NUM_THREADS")
        os.environ["OMP_NUM_THREADS"] = str(threads)
        try:
            self.process.start()
        finally:
            if before is None:
                del os.environ["OMP_NUM_THREADS"]
            else:
                os.environ["OMP_NUM_THREADS"] = before
        theirs.close()


class _Pool:
    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments
        self._idle: list[_Worker] = []
        self.busy: dict[_Worker, tuple[Task, float]] = {}
        self._parts: dict[_Worker, float] = {}
        """Seconds of each busy worker, every moment divided among those busy then."""
        self._counted = time.monotonic()

    def give(self, task: Task) -> None:
        self._count()
        while True:
            worker = self._idle.pop() if self._idle else _Worker(*self._arguments)
            try:
                worker.connection.send(task)
                break
            except OSError:  # it died while it was idle
                worker.connection.close()
        self.busy[worker] = (task, time.monotonic())
        self._parts[worker] = 0.0

    def _count(self) -> None:
        now = time.monotonic()
        for worker in self.busy:
            self._parts[worker] += (now - self._counted) / len(self.busy)
        self._counted = now

    def owed(self, estimate: Callable[[Task], float]) -> float:
        """Seconds that those busy still need if they share one device."""
        self._count()
        return sum(max(0.0, estimate(task) - self._parts[worker]) for worker, (task, _) in self.busy.items())

    def wait(self) -> list[tuple[Task, Outcome, float]]:
        """The outcomes of one or more workers, and which part of its time each had; none if nobody works."""
        if not self.busy:
            return []
        ready = wait([worker.connection for worker in self.busy], timeout=1.0)
        self._count()
        outcomes = []
        for worker in [worker for worker in self.busy if worker.connection in ready]:
            task, began = self.busy.pop(worker)
            part = self._parts.pop(worker) / max(1e-9, time.monotonic() - began)
            try:
                outcome = worker.connection.recv()
                self._idle.append(worker)
            except (EOFError, OSError):
                worker.process.join(5)
                code = worker.process.exitcode
                why = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with {code}"
                if code == -signal.SIGKILL:
                    why += " (out of memory? fewer --jobs leave each more)"
                outcome = Outcome(task.key, error=f"the worker {why}", seconds=time.monotonic() - began)
            outcomes.append((task, outcome, min(1.0, part)))
        return outcomes

    def close(self) -> None:
        for worker in self._idle:
            worker.connection.close()
        for worker in self.busy:  # only after Ctrl-C or an error here: let them save what they have
            if worker.process.is_alive():
                worker.process.terminate()
        for worker in (*self._idle, *self.busy):
            worker.process.join(30)
            if worker.process.is_alive():
                worker.process.kill()


def _serve(connection: Connection, root: Path, device: str, compile: str, deadline: float | None, part: float) -> None:
    """What a worker does: take a task, carry it out, send the outcome, until the other side goes away."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    stop = (lambda: time.time() > deadline) if deadline is not None else None
    try:
        while True:
            connection.send(perform(connection.recv(), root, device, compile, stop, part))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return


def _die_with_parent() -> None:
    """Nobody waits for a worker whose parent was killed, and its run must be free for the next `reproduce`."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
