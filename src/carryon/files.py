"""Files that are whole or not there, and locks."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def cache_folder(name: str) -> Path:
    """A folder of the user's cache, for what is fetched once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "carryon" / name


def read_json(path: Path, broken: Callable[[str], Exception], most_bytes: int = 2**28) -> dict[str, Any] | None:
    """The object in a file; None where there is none. `broken` makes an error of what is wrong with it."""
    try:
        if path.stat().st_size > most_bytes:
            raise broken(f"{path.stat().st_size:,} bytes are more than any file of its kind has")
        values = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:
        raise broken(str(error)[:100]) from None
    if not isinstance(values, dict):
        raise broken("it is not a JSON object")
    return values


@contextmanager
def hold(path: Path, busy: Callable[[str], Exception] = BlockingIOError) -> Iterator[None]:
    """Hold a lock file, which the system frees however the process ends; `busy` makes an error of who has it."""
    with open(path, "a+") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass  # no such locks on this system
        except OSError:
            file.seek(0)
            raise busy(file.read().strip() or "?") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
