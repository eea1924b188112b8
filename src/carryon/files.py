"""Files that are whole or not there."""

import hashlib
import os
from pathlib import Path
from typing import IO, Any


def sync(file: IO[Any]) -> None:
    """What was written is on disk, not in a buffer."""
    file.flush()
    os.fsync(file.fileno())


def write_whole(path: Path, content: bytes | str) -> None:
    """Replace `path` at one stroke: a reader, or a crash, finds the old file or the new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(partial, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            sync(file)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename last; not every system lets a folder be opened for that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
