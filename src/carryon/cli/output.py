"""What commands print: tables for people, JSON for programs."""

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def console() -> "Console":
    from rich.console import Console

    # A pipe has no width: leave lines whole there.
    return Console(
        width=None if sys.stdout.isatty() else max(120, shutil.get_terminal_size().columns),
        highlight=False,
        emoji=False,
    )


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def visible(text: str) -> str:
    """A newline shown as ⏎ before it breaks the line."""
    return text.replace("\n", "⏎\n")
