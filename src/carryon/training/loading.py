"""Models built, and filled with weights that were trained before."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ..config import RunConfig
from ..devices import is_out_of_memory, pick_device
from ..errors import OutOfMemory, Unsupported
from ..model import Decoder
from ..rng import Label, Stream
from ..runs import Run
from ..tokenizers import Characters, Tokenizer, make_tokenizer


def build_model(config: RunConfig, tokenizer: Tokenizer, device: torch.device) -> Decoder:
    """The untrained model, the same on every device: weights are drawn on the CPU."""
    seed_torch("weights", config.seed)
    try:
        return Decoder(config.model, tokenizer.vocab_size).to(device)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory("the model does not fit the device: lower model.width or model.layers") from None


def load_weights(model: Decoder, tokenizer: Tokenizer, parent: Run) -> None:
    """Start from a finished run's weights."""
    arrays, vocabulary = parent.read_model()
    if isinstance(tokenizer, Characters) and vocabulary != tokenizer.vocabulary:
        raise Unsupported(
            f"the parent {parent.path.name} reads the characters {vocabulary!r}, this run {tokenizer.vocabulary!r}: "
            "train both with tokenizer ascii"
        )
    load_arrays(model, arrays, parent.path.name)


def load_model(run: Run, device: str | torch.device = "auto") -> tuple[Decoder, Tokenizer]:
    """A finished run's model and tokenizer."""
    arrays, vocabulary = run.read_model()
    tokenizer = Characters(vocabulary) if vocabulary is not None else make_tokenizer(run.config.tokenizer)
    picked = pick_device(device) if isinstance(device, str) else device
    model = Decoder(run.config.model, tokenizer.vocab_size).to(picked)
    load_arrays(model, arrays, run.path.name)
    return model.eval(), tokenizer


def load_arrays(model: Decoder, arrays: Mapping[str, Any], name: str) -> None:
    tensors = {key: torch.from_numpy(np.array(value)) for key, value in arrays.items()}
    expected = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    given = {key: tuple(value.shape) for key, value in tensors.items()}
    if expected != given:
        wrong = sorted(key for key in expected | given if expected.get(key) != given.get(key))[0]
        raise Unsupported(
            f"the weights of {name} do not fit this model: {wrong} is {given.get(wrong)}, not {expected.get(wrong)}"
        )
    model.load_state_dict(tensors)


def seed_torch(*labels: Label) -> None:
    """Start torch's own generators, on every device, from a named stream."""
    torch.manual_seed(int(Stream(*labels).words(1)[0]) >> 1)
