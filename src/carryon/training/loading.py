"""Models built, and filled with weights that were trained before."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from ..config import PretrainedConfig, RunConfig
from ..devices import is_out_of_memory, pick_device
from ..errors import OutOfMemory, Unsupported
from ..model import Decoder, LanguageModel
from ..rng import Label, Stream
from ..runs import Run
from ..tokenizers import Characters, Tokenizer, make_tokenizer


def build_model(config: RunConfig, tokenizer: Tokenizer, device: torch.device) -> LanguageModel:
    """The untrained model, the same on every device: weights are drawn on the CPU."""
    seed_torch("weights", config.seed)
    try:
        if isinstance(config.model, PretrainedConfig):
            return _pretrained(config, config.model, tokenizer).to(device)
        return Decoder(config.model, tokenizer.vocab_size, tokenizer.tokens).to(device)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        remedy = (
            "choose a smaller one"
            if isinstance(config.model, PretrainedConfig)
            else "lower model.width or model.layers"
        )
        raise OutOfMemory(f"the model does not fit the device: {remedy}") from None


def _pretrained(config: RunConfig, model: PretrainedConfig, tokenizer: Tokenizer) -> LanguageModel:
    from ..interop.causal import load_causal

    # A run without steps keeps no copy of weights that anybody can load again.
    made = load_causal(model, trains=config.train.steps > 0 or config.parent is not None)
    if tokenizer.vocab_size > made.vocab_size:
        raise Unsupported(
            f"{model.pretrained} has a tokenizer of {tokenizer.vocab_size:,} tokens "
            f"and scores for {made.vocab_size:,}: they do not belong together"
        )
    return made


def tokenizer_of(config: RunConfig, texts: Iterable[str] = ()) -> Tokenizer:
    """The tokenizer a config names; one of characters is made of the texts."""
    named = config.model.pretrained if isinstance(config.model, PretrainedConfig) else ""
    return make_tokenizer(config.tokenizer, texts, named)


def load_weights(model: LanguageModel, config: RunConfig, tokenizer: Tokenizer, parent: Run) -> None:
    """Start from a finished run's weights."""
    arrays, vocabulary = parent.read_model()
    name = parent.path.name
    if isinstance(config.model, PretrainedConfig) != isinstance(parent.config.model, PretrainedConfig):
        remedy = "leave model.pretrained out"
        if isinstance(parent.config.model, PretrainedConfig):
            remedy = f"set model.pretrained={parent.config.model.pretrained}"
        raise Unsupported(
            f"the parent {name} is {parent.config.model.label}, this run {config.model.label}: "
            f"{remedy}, or start from another parent"
        )
    if isinstance(tokenizer, Characters) != (vocabulary is not None):
        raise Unsupported(
            f"the parent {name} reads with the tokenizer {parent.config.tokenizer}, this run with {config.tokenizer}: "
            f"set tokenizer={parent.config.tokenizer}"
        )
    if isinstance(tokenizer, Characters) and vocabulary != tokenizer.vocabulary:
        raise Unsupported(
            f"the parent {name} reads the characters {vocabulary!r}, this run {tokenizer.vocabulary!r}: "
            "train both with tokenizer ascii"
        )
    if isinstance(config.model, PretrainedConfig) and isinstance(parent.config.model, PretrainedConfig):
        ours, theirs = config.model, parent.config.model
        if (ours.pretrained, ours.lora) != (theirs.pretrained, theirs.lora):
            raise Unsupported(f"the parent {name} is {theirs.label}, this run {ours.label}: they have to be the same")
        if not arrays:
            raise Unsupported(f"the parent {name} trained nothing: start from {ours.pretrained} itself, with no parent")
    load_arrays(model, arrays, name)


def load_model(run: Run, device: str | torch.device = "auto") -> tuple[LanguageModel, Tokenizer]:
    """A finished run's model and tokenizer."""
    arrays, vocabulary = run.read_model()
    tokenizer = Characters(vocabulary) if vocabulary is not None else tokenizer_of(run.config)
    picked = pick_device(device) if isinstance(device, str) else device
    if isinstance(run.config.model, PretrainedConfig):
        model = build_model(run.config, tokenizer, picked)
    else:
        model = Decoder(run.config.model, tokenizer.vocab_size, tokenizer.tokens).to(picked)
    load_arrays(model, arrays, run.path.name)
    return model.eval(), tokenizer


def load_arrays(model: LanguageModel, arrays: Mapping[str, Any], name: str) -> None:
    tensors = {key: torch.from_numpy(np.array(value)) for key, value in arrays.items()}
    expected = {key: tuple(value.shape) for key, value in model.weights().items()}
    given = {key: tuple(value.shape) for key, value in tensors.items()}
    if expected != given:
        wrong = sorted(key for key in expected | given if expected.get(key) != given.get(key))[0]
        if wrong not in given:
            reason = f"there is no {wrong}"
        elif wrong not in expected:
            reason = f"this model has no place for {wrong}"
        else:
            reason = f"{wrong} is {given[wrong]}, not {expected[wrong]}"
        raise Unsupported(f"the weights of {name} do not fit this model: {reason}")
    model.set_weights(tensors)


def seed_torch(*labels: Label) -> None:
    """Start torch's own generators, on every device, from a named stream."""
    torch.manual_seed(int(Stream(*labels).words(1)[0]) >> 1)
