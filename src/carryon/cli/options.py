"""Options that several commands share."""

import re
from typing import Any

import typer


def whole(value: Any) -> int:
    """A whole number as typed; the parser's own message would not name the value."""
    if not re.fullmatch(r"[+-]?[0-9]{1,30}", str(value)):
        raise typer.BadParameter(f"{value!r} is not a whole number")
    return int(value)


def number(help: str) -> Any:
    """An option that takes a whole number."""
    return typer.Option(help=help, parser=whole, metavar="N")
