"""Checkpoints of llama2.c, with the tokenizer that its C program reads, as Hugging Face folders.

The checkpoint: seven int32 (width, hidden width, layers, heads, heads of keys and values, vocabulary, context), then
float32 matrices, those of all layers together. The tokenizer: the longest token's length, then for each token a float32
score, an int32 length, and its text, in which spaces are spaces.
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from .llama import halves_from_pairs, llama_config, write_llama
from .vocabulary import sentencepiece_tokenizer

_HEADER = 7


def widen(content: bytes, folder: Path) -> None:
    """A checkpoint with its tokenizer behind it, as a folder."""
    sizes, arrays, end = read_checkpoint(content)
    pieces, scores = read_tokenizer(content[end:], sizes["vocab_size"])
    tokenizer, settings = sentencepiece_tokenizer(pieces, scores)
    config = llama_config(**sizes, tie_word_embeddings="lm_head.weight" not in arrays, bos_token_id=1, eos_token_id=2)
    write_llama(folder, config, arrays, tokenizer, settings)


def read_checkpoint(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]], int]:
    """Sizes, weights by their Hugging Face names, and where the checkpoint ends."""
    if len(content) < 4 * _HEADER:
        raise BadInput("a llama2.c checkpoint has a header of 28 bytes")
    width, hidden, layers, heads, kv_heads, vocab, context = struct.unpack(f"<{_HEADER}i", content[: 4 * _HEADER])
    shared, vocab = vocab > 0, abs(vocab)
    if not all(0 < size < 2**20 for size in (width, hidden, layers, heads, kv_heads, vocab, context)) or width % heads:
        raise BadInput("this is not a llama2.c checkpoint: its header makes no sense")
    head = width // heads
    at = 4 * _HEADER

    def take(*shape: int) -> NDArray[np.float32]:
        nonlocal at
        count = int(np.prod(shape, dtype=np.int64))
        if at + 4 * count > len(content):
            raise BadInput("a llama2.c checkpoint is cut off")
        taken = np.frombuffer(content, "<f4", count, at).reshape(shape)
        at += 4 * count
        return taken

    arrays = {"model.embed_tokens.weight": take(vocab, width)}
    for name, *shape in (
        ("input_layernorm", width),
        ("self_attn.q_proj", width, width),
        ("self_attn.k_proj", kv_heads * head, width),
        ("self_attn.v_proj", kv_heads * head, width),
        ("self_attn.o_proj", width, width),
        ("post_attention_layernorm", width),
        ("mlp.gate_proj", hidden, width),
        ("mlp.down_proj", width, hidden),
        ("mlp.up_proj", hidden, width),
    ):
        for layer, weight in enumerate(take(layers, *shape)):
            if name.endswith(("q_proj", "k_proj")):
                weight = halves_from_pairs(weight, heads if name.endswith("q_proj") else kv_heads)
            arrays[f"model.layers.{layer}.{name}.weight"] = weight
    arrays["model.norm.weight"] = take(width)
    take(2, context, head // 2)  # cosines and sines, which are computed
    if not shared:
        arrays["lm_head.weight"] = take(vocab, width)
    sizes = {
        "vocab_size": vocab,
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
    }
    return sizes, arrays, at


def read_tokenizer(content: bytes, count: int) -> tuple[list[bytes], list[float]]:
    """The tokens and their scores."""
    pieces, scores, at = [], [], 4
    try:
        for _ in range(count):
            score, length = struct.unpack_from("<fi", content, at)
            at += 8
            if not 0 <= length <= len(content) - at:
                raise BadInput("a llama2.c tokenizer is cut off")
            pieces.append(content[at : at + length])
            scores.append(score)
            at += length
    except struct.error:
        raise BadInput("a llama2.c tokenizer is cut off") from None
    return pieces, scores
