"""Fine-tuned models of transformers as folders that `AutoModelForCausalLM` and `AutoTokenizer` open."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..config import PretrainedConfig
from ..data import make_dataset, whole_folder
from ..errors import BadInput, BadRun
from ..files import read_json, write_whole
from ..pretrained import find_pretrained
from ..runs import Run
from ..tokenizers import Pretrained
from .cards import tuned_card
from .causal import CausalModel
from .huggingface import (
    ask_one,
    compare_logits,
    compared_batches,
    evidence_of,
    holds_an_export,
    scores,
    write_record,
)
from .library import library, quiet
from .vocabularies import find_marks


def save_tuned(model: CausalModel, run: Run, folder: Path, *, force: bool = False) -> Path:
    """A Hugging Face folder of a trained model, its adapter merged into the weights; the model is used up by it.

    Its tokenizer reads as the run's did: the base model's own may put <s> and a space in front. Nothing appears at
    `folder` before it was opened and compared.
    """
    config, transformers = run.config, library()
    assert isinstance(config.model, PretrainedConfig)
    base, tokenizer = find_pretrained(config.model.pretrained), Pretrained.of(config.model.pretrained)
    parts = [make_dataset(data, config.seed) for data in config.parts]
    stop, evidence = find_marks(parts, tokenizer).stop, evidence_of(run)
    if evidence["result"] is None:
        raise BadRun(f"{run.path} is not finished: '{run.command}' goes on where it stopped")
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with whole_folder(folder, force, "an exported model", holds_an_export) as partial, quiet(), torch.no_grad():
        settings = _tokenizer_settings(base.folder, tokenizer, model.inner.config, config.model.context)
        write_whole(partial / "tokenizer.json", tokenizer.file)
        write_whole(partial / "tokenizer_config.json", json.dumps(settings, indent=2) + "\n")
        model.eval()
        model.inner.config.save_pretrained(partial)  # AutoTokenizer looks into it
        reader = transformers.AutoTokenizer.from_pretrained(partial, **local)
        batches = compared_batches(reader, tokenizer, parts, model.vocab_size, config.model.context)
        ours = scores(model, batches)
        _merge_adapter(model.inner)
        padding = settings.get("pad_token")
        model.inner.generation_config = transformers.GenerationConfig(
            do_sample=False,
            max_length=config.model.context,
            eos_token_id=stop[0] if len(stop) == 1 else stop or None,
            pad_token_id=None if padding is None else tokenizer.number(padding),
        )
        model.inner.save_pretrained(partial)
        for weights in partial.glob("*.safetensors"):  # which the library lets nobody else read
            weights.chmod((partial / "tokenizer.json").stat().st_mode)
        theirs = transformers.AutoModelForCausalLM.from_pretrained(partial, dtype=torch.float32, **local).eval()
        compared = compare_logits(ours, [theirs(batch).logits for batch in batches])
        shown = ask_one(theirs, reader, parts[0])
        ends = [tokenizer.decode(np.array([token])) for token in stop]
        marks = sorted({part.format.end for part in parts})
        card = tuned_card(run.path.name, config, evidence, base.card, ends, marks, shown, compared)
        write_whole(partial / "README.md", card)
        write_record(partial, evidence, None)
    return folder


def _tokenizer_settings(base: Path, tokenizer: Pretrained, theirs: Any, context: int) -> dict[str, Any]:
    """tokenizer_config.json, with the base model's names of its marks and nothing that would change a text."""
    path = base / "tokenizer_config.json"
    told = read_json(path, lambda reason: BadInput(f"{path} is broken: {reason}")) or {}
    marks: dict[str, str] = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        mark = told[name].get("content") if isinstance(told.get(name), dict) else told.get(name)
        if not isinstance(mark, str) or tokenizer.number(mark) is None:
            ids = getattr(theirs, f"{name}_id", None)
            mark = tokenizer.token(ids[0] if isinstance(ids, list) and ids else ids)
        if mark is not None:
            marks[name] = mark
    if "pad_token" not in marks and (padding := marks.get("eos_token") or marks.get("unk_token")):
        marks["pad_token"] = padding
    return {
        # The one class that opens tokenizer.json as it is, in every version.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": context,
        # A model that writes to the right has its prompts padded on the left.
        "padding_side": "left",
        **{name: told[name] for name in ("chat_template",) if name in told},
        **marks,
    }


def _merge_adapter(inner: nn.Module) -> None:
    """Add what an adapter has learnt to the matrices beside it, and take it away."""
    for name, module in list(inner.named_modules()):
        if hasattr(module, "get_base_layer") and hasattr(module, "merge"):
            module.merge()
            parent, _, last = name.rpartition(".")
            setattr(inner.get_submodule(parent), last, module.get_base_layer())
    for name in ("peft_config", "_hf_peft_config_loaded"):
        inner.__dict__.pop(name, None)
