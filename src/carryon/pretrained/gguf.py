"""Quantized Llamas in GGUF files, widened to float32, as Hugging Face folders. Needs the package gguf."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, MissingExtra, Unsupported
from .llama import halves_from_pairs, llama_config, write_llama
from .vocabulary import byte_level_tokenizer, tokenizer_settings

_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def widen(content: bytes, folder: Path) -> None:
    """The bytes of a GGUF file as a folder. Every number is what the quantized one stands for, none is rounded."""
    facts, arrays = read_gguf(content)

    def fact(name: str) -> Any:
        if name not in facts:
            raise BadInput(f"the GGUF file does not say its {name}")
        return facts[name]

    if (kind := fact("general.architecture")) != "llama":
        raise Unsupported(f"a GGUF file with a {kind} model cannot be widened: only Llamas can")
    if (kind := fact("tokenizer.ggml.model")) != "gpt2":
        raise Unsupported(f"a GGUF file with a tokenizer of kind {kind} cannot be widened: only byte pairs (gpt2) can")
    heads, kv_heads = fact("llama.attention.head_count"), fact("llama.attention.head_count_kv")
    tokens = fact("tokenizer.ggml.tokens")
    marks = {
        mark: facts[key]
        for mark, key in {
            "bos_token": "tokenizer.ggml.bos_token_id",
            "eos_token": "tokenizer.ggml.eos_token_id",
            "pad_token": "tokenizer.ggml.padding_token_id",
            "unk_token": "tokenizer.ggml.unknown_token_id",
        }.items()
        if key in facts
    }
    weights = dict(_named(arrays, heads, kv_heads))
    config = llama_config(
        vocab_size=len(tokens),
        hidden_size=fact("llama.embedding_length"),
        intermediate_size=fact("llama.feed_forward_length"),
        num_hidden_layers=fact("llama.block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=fact("llama.context_length"),
        # A float32 of 1e-5, written as 1e-05 and not as 9.999999747378752e-06.
        rms_norm_eps=float(str(np.float32(fact("llama.attention.layer_norm_rms_epsilon")))),
        rope_theta=float(facts.get("llama.rope.freq_base", 10_000.0)),
        tie_word_embeddings="lm_head.weight" not in weights,
        **{f"{mark}_id": number for mark, number in marks.items() if mark != "unk_token"},
    )
    tokenizer = byte_level_tokenizer(
        tokens, fact("tokenizer.ggml.merges"), fact("tokenizer.ggml.token_type"), fact("tokenizer.ggml.pre")
    )
    settings = tokenizer_settings(**{mark: tokens[number] for mark, number in marks.items()})
    if "tokenizer.chat_template" in facts:
        settings["chat_template"] = facts["tokenizer.chat_template"]
    write_llama(folder, config, weights, tokenizer, settings)


def read_gguf(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
    """What a GGUF file says of itself, and its tensors in float32."""
    try:
        import gguf
    except ImportError:
        raise MissingExtra("widening a GGUF file needs gguf: pip install 'carryon[pretrained]'") from None
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:  # its reader maps a file into memory
        file.write(content)
        file.flush()
        try:
            reader = gguf.GGUFReader(file.name)
            facts = {name: field.contents() for name, field in reader.fields.items()}
            arrays = {t.name: gguf.dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
        except (ValueError, IndexError, KeyError, NotImplementedError) as error:
            raise BadInput(f"this is not a GGUF file that can be read ({error})") from None
    return facts, arrays


def _named(
    arrays: dict[str, NDArray[np.float32]], heads: int, kv_heads: int
) -> "list[tuple[str, NDArray[np.float32]]]":
    """The weights by their Hugging Face names."""
    named = []
    for name, array in arrays.items():
        if name in _WHOLE:
            named.append((_WHOLE[name], array))
            continue
        block, _, rest = name.removeprefix("blk.").partition(".")
        part = rest.removesuffix(".weight")
        if not name.startswith("blk.") or part not in _PARTS:
            raise Unsupported(f"the GGUF file holds a tensor that a plain Llama has not: {name}")
        if part in ("attn_q", "attn_k"):
            array = halves_from_pairs(array, heads if part == "attn_q" else kv_heads)
        named.append((f"model.layers.{block}.{_PARTS[part]}.weight", array))
    return named
