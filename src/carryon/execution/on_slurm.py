"""A Slurm queue: the runs as arrays of jobs, parents before their children."""

import math
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import MissingExtra, Unsupported
from .local import Tell
from .tasks import Outcome, Task, order_tasks
from .work import perform_in_time

LONGEST_ARRAY = 1_000
"""Slurm takes 1,001 unless MaxArraySize says otherwise."""
MINUTES = 24 * 60
"""A job's time if there is no deadline. A run that needs more is queued again and goes on from its checkpoint."""
PATIENCE_MINUTES = 10
"""After the deadline, for evaluations; then jobs that are still running, or waiting for their turn, are cancelled."""
THREADS = "export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_ON_NODE:-1}}"
"""Where jobs are not tied to their cores, torch would take all cores of the node."""
LOOK_SECONDS = 1.0
"""How often the jobs' answers are looked for: files."""
ASK_SECONDS = 60.0
"""How often the queue is asked for jobs that ended without one."""


def run_on_slurm(
    tasks: Iterable[Task],
    root: Path,
    tell: Tell,
    *,
    gpus: float = 0.0,
    jobs: int | None = None,
    device: str = "auto",
    compile: str = "auto",
    deadline: float | None = None,
    cluster: str | None = None,
) -> list[Task]:
    """Carry out tasks, telling each outcome as it comes. Returns those not begun before the deadline.

    A job gets whole GPUs. sbatch's own variables (SBATCH_PARTITION, SBATCH_ACCOUNT, …) say where and for whom.
    `root` must be one folder on all nodes; what the jobs print is kept in it, under `slurm`.
    """
    root = root.absolute()
    executor = _executor(root / "slurm", cluster)
    left: list[Task] = []
    failed: set[str] = set()
    unfinished: set[str] = set()
    """Not begun, or stopped: their children cannot begin either."""

    def settle(task: Task, outcome: Outcome | None) -> None:
        if outcome is None:
            left.append(task)
            unfinished.add(task.key)
            return
        if outcome.error:
            failed.add(task.key)
        elif outcome.interrupted:
            unfinished.add(task.key)
        tell(task, outcome)

    for array in _arrays(tasks):
        ready = []
        for task in array:
            if task.parent in failed:
                settle(task, Outcome(task.key, error=f"its parent {task.parent} is not there"))
            elif task.parent in unfinished or (deadline is not None and time.time() > deadline):
                settle(task, None)
            else:
                ready.append(task)
        executor.update_parameters(
            name="carryon",
            timeout_min=_minutes(deadline),
            gpus_per_node=math.ceil(gpus) or None,
            slurm_array_parallelism=jobs,
            slurm_setup=[THREADS],
        )
        pending = _submit(executor, ready, root, device, compile, deadline)
        queue = _queue if executor.cluster == "slurm" else _alive
        try:
            for job in _as_they_end(pending, executor.folder, queue, deadline):
                task = pending.pop(job)
                settle(task, _receive(job, task))
            for task in pending.values():
                settle(task, None)
        finally:
            for job in pending:  # those for whom the queue was too long; all, after Ctrl-C or an error here
                job.cancel(check=False)
    return left


class _Work:
    """What a job does."""

    def __call__(self, task: Task, *arguments: Any) -> Outcome | None:
        return perform_in_time(task, *arguments)

    def checkpoint(self, *arguments: Any) -> Any:
        """What submitit puts into the queue when a job's time is up: the same once more, which finds its checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, *arguments)


def _executor(folder: Path, cluster: str | None) -> Any:
    if cluster is None and shutil.which("srun") is None:
        raise Unsupported("there is no Slurm here: its command srun is not found")
    try:
        import submitit
    except ImportError:
        raise MissingExtra("running on slurm needs submitit: pip install 'carryon[slurm]'") from None
    return submitit.AutoExecutor(folder, cluster)


def _arrays(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Those without a parent here, their children, and so on, each cut to what Slurm takes."""
    depths: dict[str | None, int] = {}
    levels: dict[int, list[Task]] = {}
    for task in order_tasks(tasks):
        depths[task.key] = depths.get(task.parent, -1) + 1
        levels.setdefault(depths[task.key], []).append(task)
    for _, level in sorted(levels.items()):
        for start in range(0, len(level), LONGEST_ARRAY):
            yield level[start : start + LONGEST_ARRAY]


def _minutes(deadline: float | None) -> int:
    if deadline is None:
        return MINUTES
    return max(1, math.ceil((deadline - time.time()) / 60)) + PATIENCE_MINUTES


def _submit(executor: Any, tasks: list[Task], *arguments: Any) -> dict[Any, Task]:
    from submitit.core.utils import FailedJobError

    if not tasks:
        return {}
    try:
        jobs = executor.map_array(_Work(), tasks, *([argument] * len(tasks) for argument in arguments))
    except FailedJobError as error:
        raise Unsupported(f"sbatch refused the jobs: {str(error).strip().splitlines()[-1]}") from None
    return dict(zip(jobs, tasks, strict=True))


def _as_they_end(
    pending: dict[Any, Task], folder: Path, queue: Callable[[Iterable[Any]], set[str]], deadline: float | None
) -> Iterator[Any]:
    """Each job once it has ended, until some time after the deadline; whoever asks takes it out of `pending`."""
    until = deadline + 60 * PATIENCE_MINUTES if deadline is not None else math.inf
    missed: set[Any] = set()
    """Not in the queue when it was asked last. Their answers may still be on the way through a network."""
    asked_at = time.monotonic()
    while pending and time.time() < until:
        answers = {path.name for path in folder.glob("*_result.pkl")}
        ended = {job for job in pending if job.paths.result_pickle.name in answers}
        if time.monotonic() - asked_at > ASK_SECONDS:
            queued = queue(pending)
            gone = {job for job in pending if job.job_id not in queued}
            ended |= gone & missed
            missed, asked_at = gone, time.monotonic()
        yield from [job for job in pending if job in ended]
        if not ended:
            time.sleep(LOOK_SECONDS)


def _queue(jobs: Iterable[Any]) -> set[str]:
    """Ids of all jobs that wait or run. squeue knows them even where accounting is off, unlike sacct."""
    command = ["squeue", "--me", "--noheader", "--array", "--format=%i"]
    listed = subprocess.run(command, capture_output=True, text=True)
    return set(listed.stdout.split()) if listed.returncode == 0 else {job.job_id for job in jobs}


def _alive(jobs: Iterable[Any]) -> set[str]:
    """The same where submitit starts the jobs itself."""
    return {job.job_id for job in jobs if not job.done()}


def _receive(job: Any, task: Task) -> Outcome | None:
    """None: it was not begun."""
    from submitit.core.utils import FailedJobError

    if job.paths.result_pickle.exists():
        try:
            outcome: Outcome | None = job.result()
            job.paths.result_pickle.unlink()  # or a later job with this number would seem to have ended
            job.paths.submitted_pickle.unlink()
            return outcome
        except FailedJobError:
            pass  # perform never raises: the job could not even begin
    return Outcome(task.key, error=f"job {job.job_id} ended without an answer; {job.paths.stderr} may say why")
