"""Vocabularies as tokenizer.json, the file that Hugging Face's fast tokenizers are."""

from collections.abc import Sequence
from typing import Any

from ..errors import BadInput, Unsupported

_SPACE = "▁"
_CONTROL, _USER = 3, 4
"""Kinds of tokens in a GGUF file that are not pieces of text."""

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "gpt-2": _BYTE_LEVEL,
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTE_LEVEL]},
}


def byte_level_tokenizer(
    tokens: Sequence[str], merges: Sequence[str], kinds: Sequence[int], pre: str
) -> dict[str, Any]:
    """Byte pairs as GPT-2 has them, cut into words first in the way that `pre` names."""
    if pre not in _PRE_TOKENIZERS:
        raise Unsupported(f"the pre-tokenizer {pre!r} is not known; those of {', '.join(_PRE_TOKENIZERS)} are")
    added = [_added(i, tokens[i], kind == _CONTROL) for i, kind in enumerate(kinds) if kind in (_CONTROL, _USER)]
    model = {
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": [pair.split(" ", 1) for pair in merges],
        "byte_fallback": False,
        "fuse_unk": False,
    }
    return _tokenizer(model, added, None, _PRE_TOKENIZERS[pre], _BYTE_LEVEL)


def sentencepiece_tokenizer(pieces: Sequence[bytes], scores: Sequence[float]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Llama's tokenizer, from the pieces and scores that llama2.c keeps: the best-scored neighbours join first."""
    if len(pieces) < 3 + 256:
        raise BadInput(
            f"a vocabulary of {len(pieces)} tokens is too small for Llama's: 3 marks and 256 bytes come first"
        )
    specials = ["<unk>", "<s>", "</s>"]
    tokens = specials + [f"<0x{byte:02X}>" for byte in range(256)]
    try:
        tokens += [piece.decode().replace(" ", _SPACE) for piece in pieces[len(tokens) :]]
    except UnicodeDecodeError as error:
        raise BadInput(f"a llama2.c tokenizer holds a token that is not UTF-8: {error}") from None
    vocab = {token: number for number, token in enumerate(tokens)}
    if len(vocab) != len(tokens):
        raise BadInput("a llama2.c tokenizer holds a token twice")
    pairs = []
    for number, token in enumerate(tokens[len(specials) + 256 :], start=len(specials) + 256):
        splits = ((token[:at], token[at:]) for at in range(1, len(token)))
        pairs += [(-scores[number], number, vocab[a], a, b) for a, b in splits if a in vocab and b in vocab]
    model = {
        "vocab": vocab,
        "merges": [[a, b] for *_, a, b in sorted(pairs)],
        "unk_token": "<unk>",
        "byte_fallback": True,
        "fuse_unk": True,
    }
    # As the model was trained: a text begins with a space, and with <s>.
    normalizer = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": _SPACE},
            {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE},
        ],
    }
    decoder = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    }
    tokenizer = _tokenizer(model, [_added(i, s, True) for i, s in enumerate(specials)], normalizer, None, decoder)
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "<s>", "type_id": 1}},
            {"Sequence": {"id": "B", "type_id": 1}},
        ],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    return tokenizer, tokenizer_settings(bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def tokenizer_settings(**tokens: str) -> dict[str, Any]:
    """tokenizer_config.json, with which transformers' AutoTokenizer reads the folder, too."""
    return {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **tokens}


def _added(number: int, token: str, special: bool) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": token, **flags, "special": special}


def _tokenizer(
    model: dict[str, Any],
    added: list[dict[str, Any]],
    normalizer: dict[str, Any] | None,
    pre_tokenizer: dict[str, Any] | None,
    decoder: dict[str, Any],
) -> dict[str, Any]:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": decoder,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None}
        | {"end_of_word_suffix": None, "ignore_merges": False}
        | model,
    }
