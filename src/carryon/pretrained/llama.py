"""A Llama as a Hugging Face folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from ..files import write_whole


def llama_config(*, rope_theta: float, **sizes: Any) -> dict[str, Any]:
    """config.json of a LlamaForCausalLM."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "dtype": "float32",
        # Versions of transformers differ in where they look for it.
        "rope_theta": rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": rope_theta},
        **sizes,
    }


def halves_from_pairs(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Queries or keys whose rotary positions turn neighbouring rows, reordered so that they turn halves of a head."""
    out, width = weight.shape
    pairs = weight.reshape(heads, out // heads // 2, 2, width)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(out, width)


def write_llama(
    folder: Path,
    config: dict[str, Any],
    arrays: dict[str, NDArray[np.float32]],
    tokenizer: dict[str, Any],
    tokenizer_settings: dict[str, Any],
) -> None:
    """All files of the folder, which is there and empty."""
    for name, values in (
        ("config.json", config),
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", tokenizer_settings),
    ):
        (folder / name).write_text(json.dumps(values, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    weights = {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
    write_whole(folder / "model.safetensors", safetensors.numpy.save(weights, {"format": "pt"}))
