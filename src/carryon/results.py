"""What was measured: results/<tier>/<experiment>.jsonl, one line per run and evaluation, committed with the code.

A line holds the run's and the evaluation's hash, a config that repeats it, what its experiment varies, seed, metrics,
seconds, device and the commit of the code.
"""

import json
import math
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from .errors import PathExists, RunMismatch
from .files import hold, write_whole

TIERS = ("smoke", "fast", "paper")
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Line:
    run: str
    evaluation: str
    config: Mapping[str, Any]
    settings: Mapping[str, Any]
    seed: int
    metrics: Mapping[str, Any]
    seconds: float
    device: str
    version: str | None

    @property
    def key(self) -> Key:
        return key_of(self.run, self.evaluation, self.settings)


def key_of(run: str, evaluation: str, settings: Mapping[str, Any]) -> Key:
    """What a line is known by: the same run may answer the same question under several settings."""
    return run, evaluation, json.dumps(settings, sort_keys=True)


_WAY_OUT = "delete it, and its run will be run again, or take it from git"
_UNREADABLE = (ValueError, TypeError, RecursionError)
_COUNTS = {"model": ("layers", "width", "context"), "train": ("steps", "batch_size", "window")}
"""Numbers of a run's config that tell what others will take."""
_SHARES = ("accuracy", "exact", "relaxed")
_MOST = 10**9
"""More steps, tokens or seconds than a run has: thirty years."""


def _row(line: Line) -> str:
    return json.dumps(asdict(line), sort_keys=True)


def _parse(row: str) -> Line:
    """Somebody may have edited it."""
    try:
        values = json.loads(row)
    except (ValueError, RecursionError):
        raise TypeError("it is not JSON") from None
    names = {field.name for field in fields(Line)}
    if not isinstance(values, dict) or values.keys() != names:
        found = values.keys() if isinstance(values, dict) else ()
        odd = ", ".join(sorted(found ^ names))[:200] if found else "all of them"
        raise TypeError(f"a result has other keys than it ({odd})")
    line = Line(**values)
    _check(line)
    return line


def _check(line: Line) -> None:
    if not all(isinstance(table, dict) for table in (line.config, line.settings, line.metrics)):
        raise TypeError("config, settings and metrics are tables")
    for part, counts in _COUNTS.items():
        if not isinstance(table := line.config.get(part, {}), dict):
            raise TypeError(f"config.{part} is a table")
        for name in counts:
            if type(value := table.get(name, 0)) is not int or not 0 <= value <= _MOST:
                raise TypeError(
                    f"config.{part}.{name} is {reprlib.repr(value)}, not a whole number from 0 to {_MOST:,}"
                )
    if not isinstance(line.seed, int):
        raise TypeError(f"seed is {line.seed!r}, not a whole number")
    if type(line.seconds) not in (int, float) or not 0 <= line.seconds <= _MOST:
        raise TypeError(f"seconds is {reprlib.repr(line.seconds)}, not a number from 0 to {_MOST:,}")
    for name, value in line.metrics.items():
        written = isinstance(value, str) and name != "stopped"
        if written or (isinstance(value, float) and not math.isfinite(value)):
            raise TypeError(f"metrics.{name} is {value!r}, not a number")
        if name in _SHARES and not (value is None or (type(value) in (int, float) and 0 <= value <= 1)):
            raise TypeError(f"metrics.{name} is {reprlib.repr(value)}, not a share from 0 to 1")
    _check_agree(*(line.metrics.get(name) for name in ("right", "count", "accuracy")))


def _check_agree(right: Any, count: Any, accuracy: Any) -> None:
    if not (type(right) is type(count) is int and isinstance(accuracy, float)) or not count:
        return
    if not math.isclose(right / count, accuracy, abs_tol=1e-6):
        raise TypeError(f"metrics.accuracy is {accuracy}, but {right:,} of {count:,} are right")


@dataclass
class Store:
    """The results folder."""

    root: Path
    broken: list[str] = field(default_factory=list)
    """Lines that could not be read, by file and number: named, never silently left out."""

    def __post_init__(self) -> None:
        if self.root.exists() and not self.root.is_dir():
            raise PathExists(f"{self.root} is not a folder; results are kept in one: choose another with --results")

    def path(self, tier: str, experiment: str) -> Path:
        return self.root / tier / f"{experiment}.jsonl"

    def read(self, tier: str, experiment: str) -> list[Line]:
        """All lines, each once."""
        path = self.path(tier, experiment)
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        lines: dict[Key, Line] = {}
        for number, row in enumerate(text.splitlines(), start=1):
            if not row.strip():
                continue
            try:
                line = _parse(row)
                if lines.setdefault(line.key, line).metrics != line.metrics:
                    raise TypeError("another line before it answers the same, otherwise")
            except _UNREADABLE as error:
                note = f"{path} line {number} was skipped: {str(error).splitlines()[0]}; {_WAY_OUT}"
                if note not in self.broken:
                    self.broken.append(note)
        return list(lines.values())

    def add(self, tier: str, experiment: str, lines: Iterable[Line]) -> None:
        """Put lines behind those that are there; a line that is there already is left as it is."""
        lines = list(lines)
        if not lines:
            return
        known = {line.key for line in self.read(tier, experiment)}
        rows = [_row(line) for line in lines if line.key not in known]
        if not rows:
            return
        path = self.path(tier, experiment)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab+") as file:
            # A kill in the middle of a write leaves half a line: do not write on behind it.
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(("\n".join(rows) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def put(self, tier: str, experiment: str, lines: Iterable[Line]) -> None:
        """Put lines in the places of those they measure again, and the others behind."""
        new = {line.key: line for line in lines}
        if not new.keys() & {line.key for line in self.read(tier, experiment)}:
            self.add(tier, experiment, new.values())
            return
        path = self.path(tier, experiment)
        rows = []
        for row in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                line = new.pop(_parse(row).key, None)
            except _UNREADABLE:
                line = None
            rows.append(row if line is None else _row(line))
        rows += map(_row, new.values())
        write_whole(path, "".join(f"{row}\n" for row in rows))

    def everything(self) -> Iterator[tuple[str, str, Line]]:
        """Tier, experiment and line of all that was ever measured."""
        for path in sorted(self.root.glob("*/*.jsonl")):
            tier, experiment = path.parent.name, path.stem
            for line in self.read(tier, experiment):
                yield tier, experiment, line

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time may add results. A folder that is made for that and gets none goes again."""
        is_new = not self.root.exists()
        self.root.mkdir(parents=True, exist_ok=True)

        def busy(holder: str) -> RunMismatch:
            return RunMismatch(f"{self.root} is in use by process {holder}: wait for it, or stop it")

        with hold(self.root / ".lock", busy):
            try:
                yield
            finally:
                if is_new and [path.name for path in self.root.iterdir()] == [".lock"]:
                    with suppress(OSError):  # some systems keep a file that is open
                        (self.root / ".lock").unlink()
                        self.root.rmdir()
