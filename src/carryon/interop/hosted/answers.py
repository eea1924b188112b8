"""The file of every answer: a JSON object a line, on disk before the next request is counted as answered.

    {"key": "…", "prompt": "…", "text": " 1 5 7 5", "finish": "stop", "input": 15, "output": 8, "model": "…"}
    {"key": "…", "fault": "no answer within 60 s", "input": 15, "output": 24, "at_most": true}

The second may have cost as much, as nobody said how many tokens it took, and is asked again. So is
one that was still on its way when everything stopped.

A key is the hash of all that was asked, so that one file can hold the answers of many evaluations, and an evaluation
that was interrupted asks only for the keys that are not there. What a kill tore is cut off and asked again.
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import BadInput, RunMismatch
from ...files import hold, sync_folder

_START = '{"key": "'
_LONGEST_LINE = 64 * 2**20
_MOST_TOKENS = 10**9
"""Of one request; no server counts so many."""
_CUT = ("length", "max_tokens")
_FILTERED = ("content_filter",)
_NOT_ENDED = (*_CUT, *_FILTERED, "tool_calls", "function_call", "error")
"""What servers say where the model did not come to its end. For that itself they have many words: stop, eos_token, …"""


@dataclass(frozen=True)
class Answer:
    text: str
    finish: str | None
    input_tokens: int
    output_tokens: int

    @property
    def was_cut(self) -> bool:
        return (self.finish or "").lower() in _CUT

    @property
    def was_filtered(self) -> bool:
        return (self.finish or "").lower() in _FILTERED


def has_ended(finish: str | None) -> bool:
    """Whether the model came to its end, by itself or by a stop sequence."""
    return finish is not None and finish.lower() not in _NOT_ENDED


def count_of(value: Any) -> int | None:
    """A number of tokens as somebody else gives it; None if it cannot be one."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


class Answers:
    def __init__(self, path: Path, names: Mapping[str, str] | None = None) -> None:
        """`names`: what keys that older files hold are called now."""
        self.path, self._names = path, names or {}
        self._lock = threading.Lock()
        self._is_open = False
        self._handle: int | None = None
        self.known: dict[str, Answer] = {}
        self._spent: dict[str, tuple[int, int, int]] = {}
        self._uncounted: Counter[str] = Counter()
        self.torn = 0
        """Lines that a kill left unfinished."""
        self._whole = 0
        """Bytes up to the end of the last line that can be read or has a newline."""
        self._lacks_newline = self._tail_is_whole = False
        self._read()

    def _read(self) -> None:
        try:
            file = open(self.path, "rb")  # noqa: SIM115
        except FileNotFoundError:
            return
        with file:
            number = self._whole = 0
            while raw := file.readline(_LONGEST_LINE):
                number += 1
                self._lacks_newline = not raw.endswith(b"\n")
                text = raw.decode("utf-8", "replace")
                if not (text.startswith(_START) or _START.startswith(text.rstrip("\n"))):
                    raise BadInput(f"{self.path} line {number} is not an answer of ours: name another file")
                try:
                    self._take(json.loads(text))
                    self._tail_is_whole = True
                except (ValueError, KeyError, TypeError, RecursionError):
                    self.torn += 1
                    self._tail_is_whole = False
                self._whole += len(raw) if self._tail_is_whole or not self._lacks_newline else 0

    def _mend(self) -> None:
        """Take off the line that a kill tore, so that every line of the file is a JSON object again."""
        if self._lacks_newline:
            with open(self.path, "r+b") as file:
                file.truncate(self._whole)
                if self._tail_is_whole:
                    file.seek(0, os.SEEK_END)
                    file.write(b"\n")
                file.flush()
                os.fsync(file.fileno())
            self._lacks_newline = False

    def _take(self, row: dict[str, Any]) -> None:
        key, tokens = str(row["key"]), (count_of(row["input"]), count_of(row["output"]))
        if tokens[0] is None or tokens[1] is None:
            raise ValueError("no numbers of tokens")
        key = self._names.get(key, key)
        before = self._spent.get(key, (0, 0, 0))
        self._spent[key] = (before[0] + 1, before[1] + tokens[0], before[2] + tokens[1])
        self._uncounted[key] += bool(row.get("at_most"))
        if "text" in row and "fault" not in row:
            self.known[key] = Answer(str(row["text"]), row["finish"], tokens[0], tokens[1])

    def spent(self, keys: Iterable[str]) -> tuple[int, int, int]:
        """Requests and tokens, of prompts and of answers, that these have taken so far."""
        rows = [self._spent[key] for key in set(keys) if key in self._spent]
        return sum(r[0] for r in rows), sum(r[1] for r in rows), sum(r[2] for r in rows)

    def uncounted(self, keys: Iterable[str]) -> int:
        """Requests of which the server did not say how many tokens they took: the most they can have is taken."""
        return sum(self._uncounted[key] for key in set(keys))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open for writing, by one process at a time."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = self.path.with_name(f".{self.path.name}.lock")

        def busy(holder: str) -> RunMismatch:
            return RunMismatch(f"{self.path} is being written by process {holder}: wait for it, or name another file")

        with hold(lock, busy):
            self.known.clear()
            self._spent.clear()
            self._uncounted.clear()
            self.torn, self._lacks_newline = 0, False
            self._read()  # again: another process may have written until now
            self._mend()
            self._is_open = True
            try:
                yield
            finally:
                with self._lock:
                    self._is_open = False
                    if self._handle is not None:
                        os.close(self._handle)
                        self._handle = None

    def write(self, key: str, row: dict[str, Any]) -> None:
        row = {"key": key, **row}
        line = (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        with self._lock:
            if not self._is_open:
                return  # closed in the meantime: a straggler's answer is asked again
            if self._handle is None:
                self._handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
                sync_folder(self.path.parent)
            written = 0
            while written < len(line):
                written += os.write(self._handle, line[written:])
            os.fsync(self._handle)
            self._take(row)
