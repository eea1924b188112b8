"""What is to be done, and what came of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..config import AnyRun, EvaluationConfig


@dataclass(frozen=True)
class Task:
    """A run and the questions to put to it."""

    run: AnyRun
    evaluations: tuple[EvaluationConfig, ...] = ()
    parent: str | None = None
    """Hash of the run that has to be done before."""

    @cached_property
    def key(self) -> str:
        return self.run.hash


@dataclass(frozen=True)
class Outcome:
    key: str
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By the evaluation's hash; "history" is what was measured along the way."""
    seconds: float = 0.0
    device: str = ""
    version: str | None = None
    error: str | None = None
    """Why it failed."""
    interrupted: bool = False
    """It was told to stop, and saved its state."""


def order_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Parents before their children, otherwise as given. A parent that is not among them is done already."""
    tasks = list(tasks)
    by_key = {task.key: task for task in tasks}
    ordered: dict[str, Task] = {}

    def put(task: Task) -> None:
        if task.key not in ordered:
            if task.parent in by_key:
                put(by_key[task.parent])
            ordered[task.key] = task

    for task in tasks:
        put(task)
    return list(ordered.values())
