"""How far along a command is, on stderr: a bar on a terminal, a plain line now and then elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PATIENCE = 1.0
"""Seconds before anything is shown: a bar that flashes by is noise."""
_LINE_EVERY = 10.0


@contextmanager
def progress(total: int, what: str) -> Iterator[Callable[[int, str], None]]:
    """`advance(done, label)` tells how many of `total` are done and what is being worked on."""
    started = last = time.monotonic()
    bar: Any = None
    task: Any = None

    def advance(done: int, label: str) -> None:
        nonlocal bar, task, last
        now = time.monotonic()
        if now - started < _PATIENCE:
            return
        if not sys.stderr.isatty():
            if now - last >= _LINE_EVERY or last == started:
                last = now
                left = (now - started) * (total - done) / max(done, 1)
                print(f"{label}: {done:,} of {total:,} {what}, {left:.0f} s left", file=sys.stderr, flush=True)
            return
        if bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            bar = Progress(*columns, console=Console(stderr=True), transient=True)
            bar.start()
            task = bar.add_task(label, total=total)
        bar.update(task, completed=done, description=f"{label} ({what})")

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say what is going on where nobody can tell how far it is: a spinner on a terminal, one line elsewhere."""
    shown: list[Any] = []

    def show() -> None:
        if sys.stderr.isatty():
            from rich.console import Console

            shown.append(Console(stderr=True).status(what))
            shown[0].start()
        else:
            print(f"{what} …", file=sys.stderr, flush=True)

    timer = threading.Timer(_PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        for status in shown:
            status.stop()
