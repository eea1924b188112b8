"""How models of transformers attend here: to whole rows without a mask, to a cache by reading it once.

The library's own cache copies all that it holds to add a token, and where heads share their keys and values, torch's
attention is given a copy for each of them. Of long prompts that is nearly all of the time. Ours has room for more.

Shapes: B rows, S tokens attended to, H heads, J heads that have keys and values of their own, G of those heads that
share each, K numbers a head.
"""

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from .library import library

_NAME = "carryon"


def make_past(length: int) -> Any:
    """An empty cache of the library's kind, with room for so many tokens."""
    past = library().DynamicCache()
    past.layer_class_to_replicate = partial(_layer_class(), length)
    return past


@cache
def _layer_class() -> Any:
    class Layer(import_module("transformers.cache_utils").DynamicLayer):  # type: ignore[misc]
        """Keys and values as attention will want them: in the precision that is computed in."""

        def __init__(self, length: int) -> None:
            super().__init__()
            self._rooms: list[Tensor] = []
            """Of keys and of values; `keys` and `values` are the part of them that is filled."""
            self._length, self._filled = length, 0

        def update(self, keys: Tensor, values: Tensor, *args: Any, **more: Any) -> tuple[Tensor, Tensor]:
            start, self._filled = self._filled, self._filled + keys.shape[-2]
            if not self._rooms:
                self.dtype, self.device, self.is_initialized = _precision(keys), keys.device, True
                self._length = max(self._length, self._filled)
                self._rooms = [self._make_room(new) for new in (keys, values)]
            elif self._filled > self._length:  # short rows go on while the places of long ones stay behind padding
                self._length = max(2 * self._length, self._filled)
                self._rooms = [self._make_room(old) for old in self._rooms]
                for room, old in zip(self._rooms, (self.keys, self.values), strict=True):
                    room[:, :, :start] = old
            for room, new in zip(self._rooms, (keys, values), strict=True):
                room[:, :, start : self._filled] = new
            self._show()
            return self.keys, self.values

        def _make_room(self, like: Tensor) -> Tensor:
            return like.new_empty((*like.shape[:2], self._length, like.shape[-1]), dtype=self.dtype)

        def _show(self) -> None:
            self.keys, self.values = (room[:, :, : self._filled] for room in self._rooms)

        def batch_select_indices(self, indices: Tensor) -> None:
            self._rooms = [room[indices] for room in self._rooms]
            self._show()

    return Layer


def _precision(numbers: Tensor) -> torch.dtype:
    kind = numbers.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else numbers.dtype


def attend_our_way(inner: Any) -> None:
    """For models whose attention is torch's; others stay as they are."""
    if inner.config.get_text_config()._attn_implementation != "sdpa":
        return
    library().AttentionInterface.register(_NAME, partial(_attend, library().AttentionInterface()["sdpa"]))
    library().AttentionMaskInterface.register(_NAME, partial(_mask, library().AttentionMaskInterface()["sdpa"]))
    inner.set_attn_implementation(_NAME)


def attend_as_the_library(inner: Any) -> bool:
    """For models that build on the mask they ask for, and must have one. Returns whether that changed anything."""
    ours: bool = inner.config.get_text_config()._attn_implementation == _NAME
    if ours:
        inner.set_attn_implementation("sdpa")
    return ours


def _mask(
    theirs: Callable[..., Tensor | None],
    q_length: int,
    kv_length: int,
    attention_mask: Tensor | None = None,
    **more: Any,
) -> Tensor | None:
    """The library's mask, and none where whole rows are read: torch's attention is fast when it is causal by itself.

    While a CUDA graph is recorded, the library cannot look whether a row holds several texts, and takes it that it
    does. Here none ever does. Layers that look at less than a row, or otherwise than back, still get their masks.
    """
    window = more.get("local_size")
    is_plain = (window is None or kv_length <= window) and not more.get("use_vmap")
    if attention_mask is None and q_length == kv_length and is_plain:
        return None
    return theirs(q_length=q_length, kv_length=kv_length, attention_mask=attention_mask, **more)


def _attend(
    theirs: Callable[..., tuple[Tensor, Any]],
    module: Any,
    query_BHTK: Tensor,
    key_BJSK: Tensor,
    value_BJSK: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, Any]:
    """The library's function for torch's attention, and a short way where each row asks for one token."""
    B, H, T, K = query_BHTK.shape
    asks_for_one = T == 1 and not torch.is_grad_enabled()
    has_bias = more.get("position_bias") is not None or (
        attention_mask is not None and attention_mask.is_floating_point()
    )
    if not asks_for_one or has_bias:
        return theirs(
            module, query_BHTK, key_BJSK, value_BJSK, attention_mask, dropout=dropout, scaling=scaling, **more
        )
    J, S = key_BJSK.shape[1:3]
    query_BJGK = query_BHTK.reshape(B, J, H // J, K).to(key_BJSK.dtype)
    scores_BJGS = (query_BJGK @ key_BJSK.mT).float() * (K**-0.5 if scaling is None else scaling)
    if attention_mask is not None:
        scores_BJGS = scores_BJGS.masked_fill(~attention_mask[..., :S], float("-inf"))
    mixed_BJGK = scores_BJGS.softmax(dim=-1).to(value_BJSK.dtype) @ value_BJSK
    return mixed_BJGK.reshape(B, 1, H, -1), None
