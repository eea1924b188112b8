"""Where a number comes from: the commit of the code, and what it ran on."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from . import __version__


@cache
def commit() -> str | None:
    """The commit this code stands at, with a + if files were changed since; None outside a repository.

    A copy of the code without its history says it in CARRYON_COMMIT.
    """
    if named := os.environ.get("CARRYON_COMMIT"):
        return named
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None


def origin(**more: Any) -> dict[str, Any]:
    """Code, packages, machine and command; `more` is what only the caller knows, such as the device."""
    packages = ("numpy", "safetensors", "pydantic")
    return {
        "commit": commit(),
        "versions": {"carryon": __version__, "python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in packages},
        "platform": platform.platform(),
        "command": sys.argv,
        **more,
    }
