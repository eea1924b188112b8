"""nanoGPT's checkpoints, and those of the paper's authors, which are the same, as runs.

A `.pt` file is a pickle. It is read with `weights_only=True`, which builds tensors and plain values and runs nothing.
What such a file does not hold, the vocabulary and the format, has to be given.
"""

import re
import warnings
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..config import DataConfig
from ..errors import BadInput
from ..files import file_hash
from ..runs import Run
from ..tokenizers import PRINTABLE_ASCII
from .architectures import Gpt2Architecture, plain_arrays
from .importing import write_imported
from .vocabularies import named_characters

GELU_NOTE = (
    "older nanoGPT approximates GELU by tanh, as is done here, newer nanoGPT does not, and the file does not tell: "
    "logits of a newer model may be off by some thousandths"
)


class NanogptArchitecture(Gpt2Architecture):
    """GPT-2 by its own names, but with matrices as torch keeps them, outputs first."""

    output_axis = 0
    settings_name = "model_args"
    sizes: ClassVar = {
        "layers": "n_layer",
        "heads": "n_head",
        "width": "n_embd",
        "context": "block_size",
        "dropout": "dropout",
    }

    def turn(self, part: str, array: Any, heads: int) -> Any:
        return array

    turn_back = turn


def import_nanogpt(
    path: Path, root: Path, data: DataConfig, vocabulary: str | None = None, name: str = "nanogpt"
) -> Run:
    """A checkpoint as a finished run, to be evaluated and asked like any other.

    `vocabulary`: the characters the model was trained on, sorted as nanoGPT sorts them; printable ASCII if left out.
    """
    weights, settings, steps = _read(path)
    sizes, arrays = NanogptArchitecture().read(plain_arrays(weights.items(), str(path)), settings, str(path))
    named = PRINTABLE_ASCII if vocabulary is None else vocabulary
    tokenizer = named_characters(named, len(arrays["embedding.weight"]), str(path))
    told = {"name": name, "data": data, "model": sizes, "parent": f"weights {file_hash(path)[:12]}"}
    return write_imported(root, told, arrays, tokenizer, path.name, steps)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], int]:
    """A checkpoint's weights, settings and steps."""
    if path.suffix == ".safetensors":
        raise BadInput(f"{path} is one file of a Hugging Face folder: import the folder, {path.parent}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch remarks on what it is about to refuse
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # whatever bytes can make an unpickler trip over
        called = re.search(r"GLOBAL ([\w.]{1,80})", str(error))
        what = f"holds more than tensors and plain values ({called[1]})" if called else "is not a checkpoint of torch's"
        raise BadInput(
            f"{path} {what}, so it cannot be read safely: nothing of it was run. Name a .pt file that "
            "nanoGPT wrote, or a folder of Hugging Face's"
        ) from None
    told = checkpoint if isinstance(checkpoint, dict) else {}
    weights, settings, steps = told.get("model"), told.get("model_args"), told.get("iter_num", 0)
    if not (isinstance(weights, dict) and all(isinstance(n, str) and torch.is_tensor(t) for n, t in weights.items())):
        raise BadInput(f"{path} is not a nanoGPT checkpoint: it has no 'model' made of named tensors")
    if not isinstance(settings, dict):
        raise BadInput(f"{path} is not a nanoGPT checkpoint: it has no 'model_args' with the sizes of its model")
    if type(steps) is not int or not 0 <= steps <= 10**18:
        raise BadInput(f"{path} is not a nanoGPT checkpoint: its iter_num, {str(steps)[:40]!r}, is no number of steps")
    return weights, settings, steps
