"""nanoGPT's checkpoints, and those of the paper's authors, which are the same, as runs.

A `.pt` file is a pickle. It is read with `weights_only=True`, which builds tensors and plain values and runs nothing.
What such a file does not hold, the vocabulary and the format, has to be given.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import DataConfig, ModelConfig, RunConfig, TrainConfig, load
from ..errors import BadInput, Unsupported
from ..model import Decoder
from ..runs import Run, as_arrays
from ..tokenizers import PRINTABLE_ASCII

_PARTS = {
    "ln_1.weight": "attention_norm.weight",
    "attn.c_attn.weight": "attention.query_key_value.weight",
    "attn.c_proj.weight": "attention.out.weight",
    "ln_2.weight": "mlp_norm.weight",
    "mlp.c_fc.weight": "up.weight",
    "mlp.c_proj.weight": "down.weight",
}
_WHOLE = {
    "transformer.wte.weight": "embedding.weight",
    "transformer.wpe.weight": "position.table.weight",
    "transformer.ln_f.weight": "norm.weight",
}


def import_nanogpt(
    path: Path, root: Path, data: DataConfig, vocabulary: str | None = None, name: str = "nanogpt"
) -> Run:
    """A checkpoint as a finished run, to be evaluated and asked like any other.

    `vocabulary`: the characters the model was trained on, sorted as nanoGPT sorts them; printable ASCII if left out.
    """
    checkpoint = _read(path)
    weights, sizes = _translate(checkpoint, path)
    characters = "".join(sorted(set(vocabulary))) if vocabulary is not None else PRINTABLE_ASCII
    rows = weights["embedding.weight"].shape[0]
    if rows != len(characters):
        raise Unsupported(
            f"{path} has a vocabulary of {rows} characters, but {len(characters)} were given: "
            "name them with --vocabulary"
        )
    config = RunConfig(name=name, data=data, model=sizes, train=TrainConfig(steps=0), evaluations=())
    model = Decoder(sizes, rows)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if missing or unexpected:
        raise Unsupported(f"{path} does not hold a model of this kind: {[*missing, *unexpected][:3]} do not match")
    run = Run.start(root, config.model_copy(update={"parent": f"file {path.name}"}))
    run.write_model(as_arrays(model.state_dict()), characters)
    run.write_result(
        {
            "steps": int(checkpoint.get("iter_num", 0)),
            "stopped": f"imported from {path.name}",
            "seconds": 0.0,
            "training_seconds": 0.0,
            "parameters": model.num_parameters,
            "trained_on": data.num_examples,
            "device": "elsewhere",
            "evaluations": {},
        }
    )
    return run


def _read(path: Path) -> dict[str, Any]:
    try:
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # whatever bytes can make an unpickler trip over
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BadInput(
            f"{path} cannot be read safely ({reason[:120]}): only plain tensors and values are accepted"
        ) from None
    weights = checkpoint.get("model") if isinstance(checkpoint, dict) else None
    if not (isinstance(weights, dict) and all(isinstance(n, str) and torch.is_tensor(t) for n, t in weights.items())):
        raise BadInput(f"{path} is not a nanoGPT checkpoint: it has no 'model' made of named tensors")
    return checkpoint


def _translate(checkpoint: dict[str, Any], path: Path) -> tuple[dict[str, Tensor], ModelConfig]:
    weights: dict[str, Tensor] = {}
    for name, tensor in checkpoint["model"].items():
        name = name.removeprefix("_orig_mod.")  # what torch.compile puts in front
        if name.endswith(".bias") and ".attn.bias" not in name and bool(tensor.any()):
            raise Unsupported(f"{path} has biases ({name}): this model has none")
        if name in _WHOLE:
            weights[_WHOLE[name]] = tensor.float()
        elif name.startswith("transformer.h."):
            layer, _, part = name.removeprefix("transformer.h.").partition(".")
            if part in _PARTS:
                weights[f"blocks.{layer}.{_PARTS[part]}"] = tensor.float()
    if set(_WHOLE.values()) - set(weights):
        raise BadInput(f"{path} is not a nanoGPT checkpoint: {sorted(set(_WHOLE.values()) - set(weights))} are missing")
    context, width = weights["position.table.weight"].shape
    layers = len({name.split(".")[1] for name in weights if name.startswith("blocks.")})
    sizes = checkpoint.get("model_args")
    heads = sizes.get("n_head") if isinstance(sizes, dict) else None
    if not isinstance(heads, int) or heads < 1 or not layers:
        raise BadInput(f"{path} does not say how many heads or layers its model has")
    return weights, load(ModelConfig, {"layers": layers, "heads": heads, "width": width, "context": context})
