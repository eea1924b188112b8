"""Rows about making data."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

MILLION = 1_000_000


class Row(NamedTuple):
    what: str
    run: Callable[[], None]
    reach: str | None = None


def _write_all(format: str) -> None:
    import numpy as np

    from ...formats import make_format
    from ...operations import Problem, operation

    add, writer = operation("add"), make_format(format)
    domain = add.domain(3)  # type: ignore[attr-defined]
    texts = [writer.write(Problem(add, operands)).text for operands in domain.operands(np.arange(MILLION))]
    assert len(texts) == MILLION


def _write_at_once(format: str) -> None:
    import numpy as np

    from ...formats import make_format
    from ...operations import operation

    add = operation("add")
    texts = make_format(format).write_all(add, add.domain(3), np.arange(MILLION))  # type: ignore[attr-defined]
    assert len(texts.lengths) == MILLION


def _draw(sampler: str) -> None:
    from ...config import DataConfig
    from ...data import make_splits

    config = DataConfig(digits=6, sampler=sampler, num_examples=MILLION)  # type: ignore[arg-type]
    assert len(make_splits(config).train) == MILLION


def _make_file() -> None:
    import tempfile
    from pathlib import Path

    from ...config import DataConfig, FormatConfig
    from ...data import make_dataset, write_dataset

    config = DataConfig(digits=6, sampler="uniform", num_examples=MILLION, format=FormatConfig(name="plain"))
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(make_dataset(config), Path(folder) / "data", "txt")


def _encode() -> None:
    from ...tokenizers import Characters

    text = "".join(f"{a}+{b}={a + b}\n" for a in range(1000) for b in range(1000))
    Characters.of([text]).encode(text)


def _complete() -> None:
    from ...matrix_completion import run_trials

    assert run_trials("sums", 500, 5_000, 100, 0)["trials"] == 100


def _help() -> None:
    subprocess.run([sys.executable, "-m", "carryon", "--help"], check=True, stdout=subprocess.DEVNULL)


ROWS = {
    "plain": Row("write all 1,000,000 three-digit sums, plain", lambda: _write_all("plain"), "3 s, 1024 MiB"),
    "detailed": Row(
        "write all 1,000,000 three-digit sums, detailed scratchpad",
        lambda: _write_all("detailed_scratchpad"),
        "25 s, 1024 MiB",
    ),
    "at-once": Row("write all 1,000,000 three-digit sums as one text, reverse", lambda: _write_at_once("reverse")),
    "uniform": Row("draw 1,000,000 six-digit sums, uniform, with splits", lambda: _draw("uniform")),
    "balanced": Row("draw 1,000,000 six-digit sums, balanced, with splits", lambda: _draw("balanced")),
    "file": Row("data make, 1,000,000 six-digit plain sums as txt", _make_file),
    "encode": Row("write 1,000,000 plain sums with f-strings, and their characters to ids", _encode),
    "completion": Row("complete a 500 x 500 table of sums from 5,000 entries, 100 trials", _complete, "10 s"),
    "help": Row("carryon --help", _help, "0.4 s"),
}


def measure(name: str) -> dict[str, Any]:
    """One row, in a process of its own that may use one core."""
    command = [sys.executable, "-m", "carryon.cli.bench.data", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return {"on": "one core", "measured": f"{found['seconds']:.2f} s", **found}


def _measure_here(name: str) -> None:
    import os

    from .memory import peak_mib

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    started = time.perf_counter()
    ROWS[name].run()
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak_mib": peak_mib()}))


if __name__ == "__main__":
    _measure_here(sys.argv[1])
