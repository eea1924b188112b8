"""carryon render: problems in, examples out, a JSON object a line."""

import io
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

MAX_LINE = 1_000_000
"""Characters of one input line."""
_IN_MEMORY = 64 * 2**20


def render(
    file: Annotated[Path | None, typer.Argument(help="JSONL file; standard input if left out.")] = None,
) -> None:
    """Write problems in their formats.

    Reads {"operation", "format", "operands"} a line, with "base" and "options" (spaces, stop, noise, width, hints,
    seed, draw) where wanted, and adds "prompt", "completion" and "answer". Prints nothing if a line cannot be used.

    Example: echo '{"operation":"add","format":"reverse","operands":["128","367"]}' | carryon render
    """
    from ..errors import BadInput

    # All or nothing: output waits until the last line is known to be good.
    with tempfile.SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="ascii", newline="\n") as held:
        if file is None:
            if sys.stdin is None:
                raise BadInput("standard input is closed: name a file, or pipe problems in")
            _render_into(held, sys.stdin.buffer, "standard input")
        else:
            with open(file, "rb") as source:
                _render_into(held, source, str(file))
        held.seek(0)
        shutil.copyfileobj(held, sys.stdout)
    sys.stdout.flush()


def _render_into(held: Any, source: Any, where: str) -> None:
    # Strict, whatever the locale says: a byte that is no text must not slip through as half a character.
    for row in render_lines(_lines(io.TextIOWrapper(source, encoding="utf-8", errors="strict")), where):
        held.write(json.dumps(row) + "\n")


def _lines(source: Any) -> Iterator[str]:
    """Lines, none of them read further than is allowed."""
    while line := source.readline(MAX_LINE + 1):
        yield line


def render_lines(lines: Iterable[str], where: str) -> Iterator[dict[str, Any]]:
    from ..errors import BadInput, CarryonError

    number = 0
    try:
        for number, line in enumerate(lines, start=1):  # noqa: B007  (the handlers below name the line)
            if line.strip():
                yield _render_row(line)
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} line {number + 1} is not UTF-8: {error.reason}") from None
    except CarryonError as error:
        raise BadInput(f"{where} line {number}: {error}") from None


def _render_row(line: str) -> dict[str, Any]:
    from ..config import FormatConfig, load
    from ..errors import BadInput
    from ..formats import FORMATS, make_format
    from ..operations import operation

    if len(line) > MAX_LINE:
        raise BadInput(f"has more than {MAX_LINE:,} characters")
    try:
        row = json.loads(line, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"is not JSON ({error})") from None
    if not isinstance(row, dict):
        raise BadInput("is not a JSON object with operation, format and operands")
    if missing := [key for key in ("operation", "format", "operands") if key not in row]:
        raise BadInput(f"has no {', '.join(missing)}")
    options = row.get("options") or {}
    operands = row["operands"]
    if not isinstance(operands, list) or not isinstance(options, dict):
        raise BadInput("operands must be a list and options an object")
    options = dict(options)
    if "name" in options:
        raise BadInput("has the option 'name': the format's name goes into \"format\"")
    seed, draw = (_whole(options.pop(key, 0), key) for key in ("seed", "draw"))
    problem = operation(str(row["operation"]), _whole(row.get("base", 10), "base")).problem(*operands)
    name = str(row["format"])
    if name not in FORMATS:
        make_format(name)
    format = make_format(load(FormatConfig, {"name": name, **options}), seed)
    return {**row, **format.write(problem, draw)._asdict()}


def _whole(value: Any, name: str) -> int:
    from ..errors import BadInput

    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadInput(f"{name} must be a whole number, not {value!r}")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value
