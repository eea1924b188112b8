"""A model that has learnt nothing, made in a moment: what tests and tier smoke use in a real one's place."""

from pathlib import Path
from typing import Any

import numpy as np

from ..rng import Stream
from .llama import llama_config, write_llama
from .vocabulary import byte_level_tokenizer

_WIDTH, _HEADS, _LAYERS, _INNER, _CONTEXT = 16, 2, 2, 32, 512


def make_tiny(folder: Path) -> None:
    """A Llama of 2 layers of random numbers, always the same; every byte is a token."""
    tokens = [_shown(byte) for byte in range(256)]
    tokenizer = byte_level_tokenizer(tokens, [], [1] * len(tokens), "gpt-2")
    config = llama_config(
        rope_theta=10_000.0,
        vocab_size=len(tokens),
        hidden_size=_WIDTH,
        intermediate_size=_INNER,
        num_hidden_layers=_LAYERS,
        num_attention_heads=_HEADS,
        num_key_value_heads=_HEADS,
        max_position_embeddings=_CONTEXT,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    arrays: dict[str, Any] = {"model.embed_tokens.weight": _drawn("embedding", len(tokens), _WIDTH)}
    for layer in range(_LAYERS):
        at = f"model.layers.{layer}"
        for part in "qkvo":
            arrays[f"{at}.self_attn.{part}_proj.weight"] = _drawn(f"{layer}.{part}", _WIDTH, _WIDTH)
        for part, shape in {"gate": (_INNER, _WIDTH), "up": (_INNER, _WIDTH), "down": (_WIDTH, _INNER)}.items():
            arrays[f"{at}.mlp.{part}_proj.weight"] = _drawn(f"{layer}.{part}", *shape)
        for part in ("input_layernorm", "post_attention_layernorm"):
            arrays[f"{at}.{part}.weight"] = np.ones(_WIDTH, np.float32)
    arrays["model.norm.weight"] = np.ones(_WIDTH, np.float32)
    write_llama(folder, config, arrays, tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast"})


def _drawn(name: str, rows: int, columns: int) -> Any:
    return ((Stream("tiny", name).unit(rows * columns) - 0.5) * 0.2).reshape(rows, columns).astype(np.float32)


def _shown(byte: int) -> str:
    """How byte-level tokenizers write a byte: itself where that can be printed, else a character from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in printable:
        return chr(byte)
    return chr(256 + [other for other in range(256) if other not in printable].index(byte))
