"""Folders that are whole or not there."""

import errno
import glob
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import PathExists
from ..files import sync_folder

IsOurs = Callable[[Path], bool]
"""Whether a folder holds what we write into such a folder, and no other file."""


@contextmanager
def whole_folder(path: Path, force: bool, kind: str, is_ours: IsOurs) -> Iterator[Path]:
    """A folder to write into, which gets the name `path` when the block ends, and is gone if it fails.

    `kind` is what such a folder is called: a data set, say. `force` lets it take the place of an older one of its kind.
    """
    refuse_existing_folder(path, force, kind, is_ours)
    named, path = path, path.absolute()
    new_parents = [parent for parent in path.parents if not parent.exists()]
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        try:
            partial.mkdir(parents=True)
        except OSError as error:  # about a name that nobody gave
            raise OSError(error.errno, error.strerror, str(named)) from None
        _remove_leftovers(path)
        yield partial
        _put_in_place(partial, path, force, kind)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in new_parents:
            with suppress(OSError):
                parent.rmdir()
        raise


def refuse_existing_folder(path: Path, force: bool, kind: str, is_ours: IsOurs) -> None:
    """PathExists unless `path` is free, or `force` may replace what is there; never anything that is not ours."""
    if os.path.realpath(path) == str(Path.cwd()):  # Path.resolve raises an error of its own for links in a circle
        raise PathExists(f"{str(path)!r} is where you are: name a folder to make")
    if not path.name:
        raise PathExists(f"{str(path)!r} is a root, not a folder to make: name one")
    if path.is_symlink():
        raise PathExists(f"{path} is a link, and links are not replaced: choose another path")
    if not path.exists():
        return
    if not path.is_dir():
        raise PathExists(f"{path} is a file, not a folder: choose another path")
    if not force:
        raise PathExists(f"{path} is already there: choose another path, or pass --force to replace it")
    if files_in(path) and not is_ours(path):
        raise PathExists(f"{path} holds more than {kind}, so --force does not replace it: choose another path")


def files_in(path: Path) -> set[str]:
    """All files under a folder, links among them."""
    return {file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir() or file.is_symlink()}


def _remove_leftovers(path: Path) -> None:
    """What processes that were killed had begun under this name."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.partial-*"):
        pid = leftover.name.rpartition("-")[2]
        if pid.isdigit() and int(pid) != os.getpid():
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                shutil.rmtree(leftover, ignore_errors=True)
            except OSError:
                pass


def _put_in_place(partial: Path, path: Path, force: bool, kind: str) -> None:
    """Rename the finished folder to `path`; with `force`, an old one there makes room first and goes last."""
    old = path.with_name(f".{path.name}.old-{os.getpid()}")
    if force and path.exists():
        path.rename(old)
    try:
        partial.rename(path)
    except OSError as error:
        if old.exists():
            old.rename(path)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise PathExists(f"{path} appeared while {kind} was being made there: choose another path") from None
        raise
    sync_folder(path.parent)
    shutil.rmtree(old, ignore_errors=True)
