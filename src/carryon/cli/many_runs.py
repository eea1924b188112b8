"""What a person sees while many runs are carried out."""

import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..reports.wording import counted, duration

if TYPE_CHECKING:
    from ..execution import Outcome, Task
    from ..planning import Plan


class ManyRuns:
    """One display over all runs: a moving line on a terminal, a line per finished run elsewhere."""

    def __init__(self, plan: "Plan", workers: int | None) -> None:
        """`workers`: how many runs have a processor of their own; not known where a cluster decides."""
        from ..costs import Forecast

        self._plan = plan
        self._forecast = Forecast({task.key: plan.expected(task) for task in plan.tasks}, workers)
        self._tty = sys.stderr.isatty()
        self._total, self._done = len(plan.tasks), 0
        self._began = time.monotonic()
        self._running: dict[str, str] = {}
        self._recent: deque[tuple[Task, float]] = deque(maxlen=20)
        """The last runs that were done, and their seconds."""
        cost = duration(self._forecast.left())
        to_do = f"{counted(self._total, 'run')} to do{' at most' if plan.deciding else ''}"
        print(f"{to_do}, {plan.done} done; about {cost} ({plan.basis})", file=sys.stderr, flush=True)

    def plan_again(self, waiting: "Sequence[Task]") -> None:
        """By what is known now: others that waited are not needed any more, and estimates have learnt."""
        running = {key: seconds for key, seconds in self._forecast.to_do.items() if key in self._running}
        self._forecast.to_do = running | {task.key: self._plan.expected(task) for task in waiting}
        self._forecast.done = [(self._plan.estimate(task), seconds) for task, seconds in self._recent]
        self._total = self._done + len(self._forecast.to_do)

    def estimate(self, task: "Task") -> float:
        """Seconds it will take, by what its likes took, and by how fast the last runs were here."""
        return self._forecast.slower * self._plan.estimate(task)

    def started(self, task: "Task") -> None:
        self._running[task.key] = self._plan.name_of(task)
        self._forecast.to_do[task.key] = self._plan.estimate(task)
        self._draw()

    def finished(self, task: "Task", outcome: "Outcome") -> None:
        self._running.pop(task.key, None)
        self._done += 1
        is_done = outcome.error is None and not outcome.interrupted
        # What was done in an earlier sitting, elsewhere perhaps, says nothing of how fast runs are now.
        tells = is_done and self._plan.begun.pop(task.key, 0.0) == 0.0
        count = self._forecast.finished if tells else self._forecast.gave_up
        count(task.key, outcome.seconds, time.monotonic() - self._began)
        if tells:
            self._recent.append((task, outcome.seconds))
        if outcome.error is not None:
            what = f"failed: {outcome.error}"
        elif outcome.interrupted:
            what = "stopped, state saved"
        else:
            accuracies = [a["accuracy"] for a in outcome.answers.values() if a.get("accuracy") is not None]
            what = f"{100 * accuracies[0]:.2f} %, " if accuracies else ""
            what += f"{outcome.seconds:.1f} s"
        self._clear()
        name = self._plan.name_of(task)
        print(
            f"[{self._done}/{self._total}] {name}, seed {task.run.seed}: {what}{self._left()}",
            file=sys.stderr,
            flush=True,
        )
        self._draw()

    def _left(self) -> str:
        seconds = self._forecast.left(time.monotonic() - self._began)
        return f"  ({duration(max(1.0, seconds))} left)" if self._done < self._total else ""

    def _draw(self) -> None:
        if self._tty and self._running:
            line = f"{self._done}/{self._total} done, running: {'; '.join(self._running.values())}{self._left()}"
            print(f"\r\033[K{line[:110]}", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._tty:
            print("\r\033[K", end="", file=sys.stderr)

    def close(self) -> None:
        self._clear()
