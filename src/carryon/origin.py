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
    """The commit this code stands at, with a + if the code was changed since; None outside a repository.

    A copy of the code without its history says it in CARRYON_COMMIT.
    """
    return os.environ.get("CARRYON_COMMIT") or commit_of(Path(__file__).parent)


def commit_of(package: Path) -> str | None:
    """Only changes inside `package` count: results are files of the repository, too, and grow while runs go on.

    None if the package is not the repository's, but was installed somewhere inside of it.
    """

    def git(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", *arguments]  # runs ask side by side
        return subprocess.run(command, cwd=package, capture_output=True, text=True, timeout=10).stdout.strip()

    try:
        described = git("describe", "--always", "--abbrev=12", "--exclude=*")
        if not described or not git("ls-files", "."):
            return None
        return described + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.TimeoutExpired):
        return None


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
