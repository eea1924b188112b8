"""Any causal model of the transformers library, trained and asked as ours are.

Shapes: B batch, T tokens, S tokens attended to, V vocabulary.
"""

import inspect
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import safetensors
import torch
from torch import Tensor, nn

from ..config import LoraConfig, PretrainedConfig
from ..errors import BadConfig, BadInput, CarryonError, MissingExtra, Unsupported
from ..model import LanguageModel, run_block
from ..pretrained import find_pretrained
from .attending import attend_as_the_library, attend_our_way, make_past
from .library import library, quiet


class CausalModel(LanguageModel):
    """A model of transformers, perhaps with an adapter of peft inside, as a `LanguageModel`."""

    def __init__(self, inner: Any, context: int) -> None:
        super().__init__()
        self.inner, self.context = inner, context
        sizes = inner.config.get_text_config()
        heads = sizes.num_attention_heads
        kv_heads = getattr(sizes, "num_key_value_heads", None) or heads
        head = getattr(sizes, "head_dim", None) or sizes.hidden_size // heads
        self.vocab_size = inner.get_output_embeddings().weight.shape[0]
        self.numbers_per_token = 2 * sizes.num_hidden_layers * kv_heads * head
        self.working_numbers_per_token = 16 * sizes.hidden_size
        self._scores_few = "logits_to_keep" in inspect.signature(inner.forward).parameters
        repeated = import_module("transformers.modeling_layers").GradientCheckpointingLayer
        self._layers = [module for module in inner.modules() if isinstance(module, repeated)]

    @property
    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    @property
    def num_trained(self) -> int:
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def weights(self) -> dict[str, Tensor]:
        """By the library's names: all of them, or an adapter's alone."""
        return {name: p.detach() for name, p in self.inner.named_parameters() if p.requires_grad}

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        self.inner.load_state_dict(weights, strict=False)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """The scores of every next token."""
        logits_BTV: Tensor = self.inner(input_ids=tokens_BT, use_cache=False).logits
        return logits_BTV

    def loss(self, inputs_BT: Tensor, targets_BT: Tensor, mask_BT: Tensor | None = None) -> Tensor:
        with self._layers_run_as_told():
            return self._loss(inputs_BT, targets_BT, mask_BT)

    @contextmanager
    def _layers_run_as_told(self) -> Iterator[None]:
        """The layers that a model repeats go through the function that training may have compiled.

        Only meanwhile: a layer that kept it would keep itself, and its model, when nobody else needs them.
        """
        layers: list[Any] = self._layers if self.run_block is not run_block else []
        for layer in layers:
            layer.forward = partial(self.run_block, type(layer).forward, layer)
        try:
            yield
        finally:
            for layer in layers:
                del layer.forward

    def _loss(self, inputs_BT: Tensor, targets_BT: Tensor, mask_BT: Tensor | None) -> Tensor:
        if mask_BT is None or not self._scores_few or mask_BT.device.type == "cuda":
            return super().loss(inputs_BT, targets_BT, mask_BT)
        # Scores are most of a small model's work: none for the columns in which no row's target counts. On a GPU a look
        # at the mask would wait for the device, and a CUDA graph cannot take it.
        counted = mask_BT.any(dim=0).nonzero().squeeze(1)
        logits_BCV = self.inner(input_ids=inputs_BT, use_cache=False, logits_to_keep=counted).logits
        targets_BC = targets_BT[:, counted].masked_fill(~mask_BT[:, counted], -100)
        return self.cross_entropy(logits_BCV.flatten(0, 1), targets_BC.flatten())

    def new_cache(self, batch: int, length: int, device: torch.device, dtype: torch.dtype) -> "CausalCache":
        return CausalCache(length)

    def first_scores(self, tokens_BT: Tensor, lengths_B: Tensor, cache: "CausalCache") -> Tensor:
        rows_B = torch.arange(len(tokens_BT), device=tokens_BT.device)
        places_T = torch.arange(tokens_BT.shape[1], device=tokens_BT.device)
        cache.mask_BS = (places_T < lengths_B.unsqueeze(1)).long()
        if not self._scores_few:
            return self._read(tokens_BT, None, cache)[rows_B, lengths_B - 1]
        # Rows end in few different places: nothing else is given scores, which take the most memory by far.
        ends, which_B = torch.unique(lengths_B - 1, return_inverse=True)
        return self._read(tokens_BT, None, cache, logits_to_keep=ends)[rows_B, which_B]

    def next_scores(self, tokens_BS: Tensor, at_B: Tensor, cache: "CausalCache") -> Tensor:
        at_B1 = at_B.unsqueeze(1)
        # The library's cache grows at its end, behind the padding, which stays masked; the place is told beside.
        cache.mask_BS = torch.cat([cache.mask_BS, torch.ones_like(cache.mask_BS[:, :1])], dim=1)
        return self._read(tokens_BS.gather(1, at_B1), at_B1, cache)[:, -1]

    def _read(self, tokens_BT: Tensor, at_BT: Tensor | None, cache: "CausalCache", **options: Any) -> Tensor:
        out = self.inner(
            input_ids=tokens_BT,
            attention_mask=cache.mask_BS,
            position_ids=at_BT,
            past_key_values=cache.past,
            use_cache=True,
            **options,
        )
        logits_BTV: Tensor = out.logits
        return logits_BTV


class CausalCache:
    """The library's cache, and which of its places are padding."""

    mask_BS: Tensor

    def __init__(self, length: int) -> None:
        self.past = make_past(length)

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        self.past.batch_select_indices(rows)
        self.mask_BS = self.mask_BS[rows]


def load_causal(config: PretrainedConfig, *, trains: bool = True) -> CausalModel:
    """The model a config names, from its prepared folder, in float32, with an untrained adapter if it has one.

    What is random (fresh weights, an adapter's start) comes from torch's generator. Unless it `trains`, it is frozen.
    """
    folder, transformers = find_pretrained(config.pretrained).folder, library()
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with quiet():
        try:
            theirs = transformers.AutoConfig.from_pretrained(folder, **local)
            _check_context(config, theirs)
            _set_dropout(theirs, config.dropout)
            if config.weights == "random":
                inner = transformers.AutoModelForCausalLM.from_config(
                    theirs, dtype=torch.float32, trust_remote_code=False
                )
            else:
                inner, report = transformers.AutoModelForCausalLM.from_pretrained(
                    folder, config=theirs, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **local
                )
                if missing := sorted(report["missing_keys"]):
                    raise BadInput(f"{folder} lacks weights of its model: {', '.join(missing[:3])}")
                if more := _of_more_layers(report["unexpected_keys"], inner):
                    raise BadInput(f"{folder} has weights of more layers than its config.json tells of: {more[0]}, …")
        except (CarryonError, torch.OutOfMemoryError, MemoryError):
            raise
        except safetensors.SafetensorError as error:
            raise BadInput(
                f"the weights of {config.pretrained} in {folder} are broken ({error}): put the whole file there, and "
                "register the folder again"
            ) from None
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise Unsupported(f"transformers cannot load {folder} as a causal model: {reason[:200]}") from None
        attend_our_way(inner)
        model = _checked(inner, config)
    if config.lora is not None:
        _add_adapter(inner, config.lora)
    if not trains:
        inner.requires_grad_(False)
    return model


def _of_more_layers(names: Collection[str], inner: nn.Module) -> list[str]:
    """Of the names that a model does not know, those that are a known one's with another number."""
    known = {re.sub(r"\d+", "#", name) for name in inner.state_dict()}
    return sorted(name for name in names if re.sub(r"\d+", "#", name) in known)


def _checked(inner: Any, config: PretrainedConfig) -> CausalModel:
    """As a `LanguageModel`, if it can be asked as one: kinds of model keep their past and count places differently."""
    kind = inner.config.model_type
    try:
        model = CausalModel(inner, config.context)
        wrong = config.context >= _CHECKED_TOKENS and _differs(model)
        if wrong and attend_as_the_library(inner):
            wrong = _differs(model)
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:  # whatever a model of another kind trips over
        raise Unsupported(
            f"{config.pretrained} is of the kind {kind}, which cannot be read token by token here "
            f"({type(error).__name__}: {str(error)[:100]}): use a causal transformer such as llama or gpt2"
        ) from None
    if wrong:
        raise Unsupported(
            f"{config.pretrained} is of the kind {kind}, which answers differently when rows of several lengths "
            "are read together: use a causal transformer such as llama or gpt2"
        )
    return model


_CHECKED_TOKENS = 6


@torch.no_grad()
def _differs(model: CausalModel) -> bool:
    """Are two rows of unlike length, read together and token by token, given other scores than each read alone?"""
    was_training = model.training
    model.eval()
    device, lengths = next(model.parameters()).device, (2, _CHECKED_TOKENS - 1)
    rows_BS = torch.arange(1, 2 * _CHECKED_TOKENS + 1, device=device).view(2, -1) * 7 % model.vocab_size
    alone = [model(row[None])[0] for row in rows_BS]
    cache = model.new_cache(2, _CHECKED_TOKENS, device, torch.float32)
    at_B = torch.tensor(lengths, device=device)
    together = [model.first_scores(rows_BS[:, :-1], at_B, cache), model.next_scores(rows_BS, at_B, cache)]
    model.train(was_training)
    return any(
        bool((scores_BV[row] - (right_V := alone[row][length - 1 + step])).abs().max() > 1e-4 * right_V.abs().max())
        for step, scores_BV in enumerate(together)
        for row, length in enumerate(lengths)
    )


def _check_context(config: PretrainedConfig, theirs: Any) -> None:
    sizes = theirs.get_text_config()
    limits = [getattr(sizes, "max_position_embeddings", None)]
    if getattr(sizes, "use_sliding_window", True):
        # Beyond its window a row's padding would count as tokens.
        limits += [getattr(sizes, name, None) for name in ("sliding_window", "window_size", "attention_window")]
    limit = min((size for size in limits if isinstance(size, int) and size > 0), default=config.context)
    if config.context > limit:
        raise BadConfig(f"{config.pretrained} looks at {limit} tokens at most: set model.context to that, or less")


def _set_dropout(theirs: Any, dropout: float) -> None:
    """Architectures name theirs differently: attention_dropout, resid_pdrop, …"""
    for name, value in theirs.to_dict().items():
        if "drop" in name and isinstance(value, int | float) and not isinstance(value, bool):
            setattr(theirs, name, 0.0 if name == "layerdrop" else dropout)


def _add_adapter(inner: nn.Module, lora: LoraConfig) -> None:
    """Small trainable matrices beside the frozen ones."""
    try:
        peft = import_module("peft")
    except ImportError:
        raise MissingExtra("model.lora needs peft: pip install 'carryon[lora]'") from None
    settings = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets) or "all-linear",
    )
    with warnings.catch_warnings():
        # GPT-2 keeps its matrices transposed: peft notices, does the right thing, and warns.
        warnings.filterwarnings("ignore", message="fan_in_fan_out is set to")
        try:
            peft.inject_adapter_in_model(settings, inner)
        except ValueError as error:
            raise BadConfig(f"model.lora does not fit this model: {str(error).splitlines()[0][:200]}") from None
