"""carryon bench: how fast things are here, beside what they should reach."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

app = typer.Typer(
    help="Measure speed, one core and a fresh process for each row.", no_args_is_help=True, rich_markup_mode="rich"
)

MILLION = 1_000_000


class Benchmark(NamedTuple):
    what: str
    run: Callable[[], None]
    reach_seconds: float | None
    reach_mib: float | None = None


def _write_all(format: str) -> None:
    import numpy as np

    from ..formats import make_format
    from ..operations import Problem, operation

    add, writer = operation("add"), make_format(format)
    domain = add.domain(3)  # type: ignore[attr-defined]
    texts = [writer.write(Problem(add, operands)).text for operands in domain.operands(np.arange(MILLION))]
    assert len(texts) == MILLION


def _draw(sampler: str) -> None:
    from ..config import DataConfig
    from ..data import make_splits

    config = DataConfig(digits=6, sampler=sampler, num_examples=MILLION)  # type: ignore[arg-type]
    assert len(make_splits(config).train) == MILLION


def _make_file() -> None:
    import tempfile
    from pathlib import Path

    from ..config import DataConfig, FormatConfig
    from ..data import make_dataset, write_dataset

    config = DataConfig(digits=6, sampler="uniform", num_examples=MILLION, format=FormatConfig(name="plain"))
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(make_dataset(config), Path(folder) / "data", "txt")


def _encode() -> None:
    from ..tokenizers import Characters

    text = "".join(f"{a}+{b}={a + b}\n" for a in range(1000) for b in range(1000))
    started = time.perf_counter()
    Characters.of([text]).encode(text)
    print(f"{len(text) / (time.perf_counter() - started) / 1e6:.0f} MB/s", file=sys.stderr)


def _help() -> None:
    subprocess.run([sys.executable, "-m", "carryon", "--help"], check=True, stdout=subprocess.DEVNULL)


DATA = {
    "plain": Benchmark("write all 1,000,000 three-digit sums, plain", lambda: _write_all("plain"), 3, 1024),
    "detailed": Benchmark(
        "write all 1,000,000 three-digit sums, detailed scratchpad", lambda: _write_all("detailed_scratchpad"), 25, 1024
    ),
    "uniform": Benchmark("draw 1,000,000 six-digit sums, uniform, with splits", lambda: _draw("uniform"), None),
    "balanced": Benchmark("draw 1,000,000 six-digit sums, balanced, with splits", lambda: _draw("balanced"), None),
    "file": Benchmark("data make, 1,000,000 six-digit plain sums as txt", _make_file, None),
    "encode": Benchmark("characters of 1,000,000 plain sums to ids", _encode, None),
    "help": Benchmark("carryon --help", _help, 0.4),
}


@app.command("data")
def data(
    only: Annotated[list[str] | None, typer.Option(help=f"Rows to run: {', '.join(DATA)} (repeatable).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure making data.

    Example: carryon bench data --only plain --only detailed
    """
    from ..errors import UnknownName
    from .output import console, print_json
    from .progress import progress

    for name in only or ():
        if name not in DATA:
            raise UnknownName("benchmark", name, DATA)
    names = only or list(DATA)
    results = []
    with progress(len(names), "rows measured") as advance:
        for done, name in enumerate(names):
            advance(done, name)
            results.append(measure(name))
    if as_json:
        print_json(results)
        return
    from rich.table import Table

    table = Table(title="Making data, on one core")
    for column in ("what", "seconds", "reach", "times faster", "peak MiB", "reach MiB"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for row in results:
        reach, mib = row["reach_seconds"], row["reach_mib"]
        table.add_row(
            row["what"],
            f"{row['seconds']:.2f}",
            f"{reach:g}" if reach else "",
            f"{reach / row['seconds']:.1f}" if reach else "",
            f"{row['peak_mib']:.0f}",
            f"{mib:g}" if mib else "",
        )
    console().print(table)


def measure(name: str) -> dict[str, Any]:
    """One row, run in a process of its own that may use one core."""
    command = [sys.executable, "-m", "carryon.cli.bench", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    benchmark = DATA[name]
    return {
        "name": name,
        "what": benchmark.what,
        **json.loads(done.stdout.splitlines()[-1]),
        "reach_seconds": benchmark.reach_seconds,
        "reach_mib": benchmark.reach_mib,
    }


def _measure_here(name: str) -> None:
    import os

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    started = time.perf_counter()
    DATA[name].run()
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak_mib": _peak_mib()}))


def _peak_mib() -> float:
    """Most memory this process has held; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    _measure_here(sys.argv[1])
