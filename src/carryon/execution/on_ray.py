"""A Ray cluster: its scheduler places the runs, shares GPUs out in fractions and begins again what a dead node took."""

import logging
import math
import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import MissingExtra, Unsupported
from .local import Tell
from .tasks import Outcome, Task, order_tasks
from .work import perform_in_time

RETRIES = 3
"""Times that a task is begun again because its worker or node died; a run goes on from its checkpoint."""
PATIENCE_SECONDS = 300.0
"""After the deadline, for evaluations; then what is still running, or waiting for a place, is called back."""
SAVING_SECONDS = 30.0
"""For those who are called back."""


def run_on_ray(
    tasks: Iterable[Task],
    root: Path,
    tell: Tell,
    *,
    gpus: float = 0.0,
    address: str | None = None,
    device: str = "auto",
    compile: str = "auto",
    deadline: float | None = None,
) -> list[Task]:
    """Carry out tasks, telling each outcome as it comes. Returns those not begun before the deadline.

    Ray is given all of them, so that a cluster can grow with what waits. It begins them in order, a child after its
    parent; one whose turn comes after the deadline finds that it is too late. `root` must be one folder on all nodes.
    """
    ordered = order_tasks(tasks)
    left: set[str] = set()
    failed: set[str] = set()
    pending: dict[Any, Task] = {}
    """By what Ray promised for it."""
    give_up_at = deadline + PATIENCE_SECONDS if deadline is not None else math.inf
    with _cluster(address) as ray:
        _check_room(ray.nodes(), gpus)
        work = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES, retry_exceptions=False)(_work)
        part = gpus if 0 < gpus < 1 else 1.0
        promises: dict[str | None, Any] = {}
        for task in ordered:
            promise = work.remote(promises.get(task.parent), task, root.absolute(), device, compile, deadline, part)
            promises[task.key] = promise
            pending[promise] = task
        try:
            while pending:
                if time.time() > give_up_at:
                    _call_back(ray, list(pending))
                    give_up_at = math.inf
                for promise in ray.wait(list(pending), timeout=1.0)[0]:
                    task = pending.pop(promise)
                    outcome = _receive(ray, promise, task, failed)
                    if outcome is None:
                        left.add(task.key)
                        continue
                    if outcome.error:
                        failed.add(task.key)
                    tell(task, outcome)
        finally:
            _call_back(ray, list(pending))  # there are some only after Ctrl-C or an error here
    return [task for task in ordered if task.key in left]


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """Ray, connected: as it was found, to the cluster at an address, or to one on this machine that ends with us."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("running on ray needs it: pip install 'carryon[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    try:
        if address is not None and ":" in address:
            _knock(address)
        ray.init(address or "local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError):
        if address is None:
            raise
        raise Unsupported(f"no Ray cluster answers at {address}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Ray would try for many minutes to reach what is not there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _check_room(nodes: Iterable[Any], gpus: float) -> None:
    """Ray would wait for such a node to join, without a word."""
    if gpus < 0 or (gpus > 1 and gpus != int(gpus)):
        raise Unsupported(f"a run cannot have {gpus:g} GPUs: a part of one, or a whole number")
    rooms = [node["Resources"] for node in nodes if node["Alive"]]
    if not any(room.get("CPU", 0) >= 1 and room.get("GPU", 0) >= gpus for room in rooms):
        raise Unsupported(f"no node of the Ray cluster has a CPU and {gpus:g} GPUs for a run")


def _receive(ray: Any, promise: Any, task: Task, failed: set[str]) -> Outcome | None:
    """None: it was not begun."""
    try:
        outcome: Outcome | None = ray.get(promise)
        return outcome
    except ray.exceptions.TaskCancelledError:
        return None
    except ray.exceptions.RayError as error:
        if task.parent in failed:  # which was told before: Ray gives them in order
            return _orphan(task)
        # A dead worker is told in the first line; what an error in a worker was, in its traceback's last.
        line = str(error).strip().splitlines()[-isinstance(error, ray.exceptions.RayTaskError)]
        return Outcome(task.key, error=f"{type(error).__name__}: {line}")


def _call_back(ray: Any, promises: list[Any]) -> None:
    """Ctrl-C for those at work, who save what they have; those in the queue leave it."""
    if not promises:
        return
    for promise in promises:
        ray.cancel(promise)
    _, deaf = ray.wait(promises, num_returns=len(promises), timeout=SAVING_SECONDS)
    for promise in deaf:
        ray.cancel(promise, force=True)


# --- on the node ------------------------------------------------------------------------------------------------------


def _work(
    before: Outcome | None, task: Task, root: Path, device: str, compile: str, deadline: float | None, part: float
) -> Outcome | None:
    """`before` is what came of its parent, for which Ray has waited."""
    if before is not None and before.error:
        return _orphan(task)
    if before is not None and before.interrupted:
        return None
    return perform_in_time(task, root, device, compile, deadline, part)


def _orphan(task: Task) -> Outcome:
    return Outcome(task.key, error=f"its parent {task.parent} is not there")
