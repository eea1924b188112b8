"""Our tokenizers as the files that Hugging Face's AutoTokenizer opens, and such files as our tokenizers.

Every character of a vocabulary is one token with the id it has here. There is no unknown token: a character that the
model does not know is an error there as it is here, not a gap in the text.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data import Dataset
from ..errors import BadInput, MissingExtra, Unsupported
from ..formats import Example
from ..tokenizers import Characters, Gpt2, Pretrained, Tokenizer, gpt2_folder

_ANY_CHARACTER = r"[\s\S]"
_END_OF_TEXT = "<|endoftext|>"
_SAMPLES = 2_000
_LARGEST = 64 * 2**20
"""Bytes of a tokenizer.json; GPT-2's has four million."""


class Marks(NamedTuple):
    """Where a completion ends, in tokens."""

    stop: list[int]
    """Generation stops at any of these; none: it goes on to the context's end."""
    padding: str | None
    """The token that the tokenizer calls the end of a text and pads with."""


def find_marks(parts: Sequence[Dataset], tokenizer: Tokenizer) -> Marks:
    """The marks of what a model was trained on.

    Generation stops at the end mark, where that is one token and stands nowhere inside an answer. A scratchpad's
    newline does: there it is the token that the next example would start with.

    A tokenizer needs a token to pad with, and what it calls special its users may drop from texts: that is the
    newline, where it only ends lines, or else the character that does the least harm.
    """
    examples = [(part, example) for part in parts for example in _samples(part)]
    if not examples:
        return Marks([], _END_OF_TEXT if isinstance(tokenizer, Gpt2) else None)
    inside = [example.completion[: -len(part.format.closing)] for part, example in examples]
    ends = sorted({part.format.end for part, _ in examples})
    encoded_ends = [tokenizer.encode(end).tolist() for end in ends]
    stop: list[int] = []
    single = {ids[0] for ids in encoded_ends if len(ids) == 1}
    if (
        all(len(ids) == 1 for ids in encoded_ends)
        and not any(end in text for end in ends for text in inside)
        # Byte pairs may join the mark to what stands beside it.
        and (isinstance(tokenizer, Characters) or all(single & {*_ids_of(tokenizer, e)} for _, e in examples))
    ):
        stop = [ids[0] for ids in encoded_ends]
    else:
        written = {int(i) for _, example in examples for i in np.unique(tokenizer.encode(example.completion))}
        starts = {int(tokenizer.encode(example.prompt)[0]) for _, example in examples}
        if not starts & written:
            stop = sorted(starts)
    return Marks(stop, _padding(tokenizer, [example for _, example in examples], inside, stop))


def _ids_of(tokenizer: Tokenizer, example: Example) -> list[int]:
    ids: list[int] = tokenizer.encode(example.completion).tolist()
    return ids


def _samples(part: Dataset) -> Iterable[Example]:
    for split in ("train", "test"):
        yield from map(part.format.write, part.problems(split)[:_SAMPLES])


def _padding(tokenizer: Tokenizer, examples: list[Example], inside: list[str], stop: list[int]) -> str | None:
    if isinstance(tokenizer, Pretrained):
        return None  # it has marks of its own
    if not isinstance(tokenizer, Characters):
        return _END_OF_TEXT
    lines = set("".join(inside)) | set("".join(example.prompt for example in examples))
    every = lines | set("".join(example.completion for example in examples))
    preferred = (
        ["\n"] if "\n" not in lines else [],  # it only ends lines
        [character for character in tokenizer.vocabulary if character not in every],  # never written
        [character for character in tokenizer.vocabulary if character not in lines],  # part of an end mark alone
        [tokenizer.vocabulary[token] for token in stop],  # ends an answer, stands in none
    )
    return next((c for characters in preferred for c in characters if c in tokenizer.vocabulary), None)


def vocabulary_files(tokenizer: Tokenizer, padding: str | None, context: int) -> dict[str, str]:
    """tokenizer.json and tokenizer_config.json."""
    tokenizers = _tokenizers()
    if isinstance(tokenizer, Characters):
        ids = {character: i for i, character in enumerate(tokenizer.vocabulary)}
        # The library wants a name for what is unknown. As it is not in the vocabulary, meeting it is an error.
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="<a character the model does not know>"))
        made.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(_ANY_CHARACTER), "isolated")
        made.decoder = tokenizers.decoders.Fuse()
    else:
        files = gpt2_folder()
        merges = (files / "vocab.bpe").read_text(encoding="utf-8").splitlines()[1:]
        made = tokenizers.Tokenizer(
            tokenizers.models.BPE(
                json.loads((files / "encoder.json").read_text(encoding="utf-8")),
                [tuple(line.split()) for line in merges if line],
            )
        )
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = tokenizers.decoders.ByteLevel()
    settings = {
        # The one class that opens tokenizer.json as it is, in every version.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        # Not token types too, which GPT-2 would look up in its embedding and add.
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": context,
        # A model that writes to the right has its prompts padded on the left.
        "padding_side": "left",
    }
    if padding is not None:
        made.add_special_tokens([tokenizers.AddedToken(padding, special=True, normalized=False)])
        settings |= {"eos_token": padding, "pad_token": padding}
    return {
        "tokenizer.json": made.to_str(pretty=True) + "\n",
        "tokenizer_config.json": json.dumps(settings, indent=2) + "\n",
    }


def named_characters(vocabulary: str, rows: int, where: str) -> Characters:
    """The characters that somebody named for a model of so many tokens."""
    if not is_text(vocabulary):
        raise BadInput(f"the vocabulary {vocabulary!r} is not text: it holds half a character")
    characters = Characters(vocabulary)
    if characters.vocab_size != rows:
        raise Unsupported(
            f"{where} has {rows} tokens, but {characters.vocab_size} characters were given: name them with --vocabulary"
        )
    return characters


def is_text(text: str) -> bool:
    """Whether it can be written down: JSON and command lines can hold surrogates, halves of characters."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def read_vocabulary(folder: Path, rows: int) -> tuple[Tokenizer, list[int]]:
    """A folder's tokenizer as ours, and for each of our ids the id it has there."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise BadInput(f"{folder} has no tokenizer.json: name the model's characters with --vocabulary")
    if path.stat().st_size > _LARGEST:
        raise BadInput(
            f"{path} has {path.stat().st_size:,} bytes: no tokenizer of characters or of GPT-2 is that large"
        )
    library = _tokenizers()
    try:
        theirs = library.Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises plain exceptions, and what it says is for programmers
        raise BadInput(f"{path} is not a tokenizer ({str(error)[:80]})") from None
    vocabulary: dict[str, int] = theirs.get_vocab()
    if all(len(token) == 1 for token in vocabulary):
        ours: Tokenizer = Characters("".join(vocabulary))
        ids = [vocabulary[character] for character in "".join(sorted(vocabulary))]
        text = "".join(sorted(vocabulary)) * 2
        same = _ids(theirs, text) == ids * 2
    else:
        ours = _gpt2_for(path)
        ids = list(range(rows))
        same = len(vocabulary) == ours.vocab_size and _ids(theirs, _PROBE) == ours.encode(_PROBE).tolist()
    if not same:
        raise Unsupported(f"{path} is a tokenizer of another kind: characters and GPT-2's byte pairs are known here")
    if len(vocabulary) != rows or sorted(ids) != list(range(rows)):
        raise Unsupported(f"{path} has {len(vocabulary)} tokens, the model {rows}: they do not belong together")
    return ours, ids


_PROBE = (
    "Input:\n128+367=495\nTarget:\n<scratch>\n [1,2,8] has 3 digits.\n\n  sin(-0.8649) déjà vu, it's 1234567890$###"
)


def _ids(tokenizer: Any, text: str) -> list[int] | None:
    try:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    except Exception:  # a token it does not know
        return None
    return ids


def _gpt2_for(path: Path) -> Gpt2:
    try:
        return Gpt2.load()
    except MissingExtra as error:
        raise MissingExtra(f"{path} may be GPT-2's tokenizer; to compare it, {error}") from None


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise MissingExtra("Hugging Face's tokenizers are not installed: pip install 'carryon[hf]'") from None
    return tokenizers
