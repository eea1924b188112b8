"""The decoder's loss, written for speed on a GPU: `Decoder.loss` with our kernels between the matrix products.

Weights stay in float32; the products take 16-bit copies of them, made once a step, and give the weights' gradients in
float32. What lies in memory between kernels has 16 bits; inside them sums are taken in float32.

Shapes: B batch, T tokens, N = B T rows, D width, V vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..model import Block, Decoder
from ..positions import Learned, Position
from .add_norm import add_norm
from .attention import attend
from .cross_entropy import cross_entropy
from .dropout import drop_everywhere
from .gelu import gelu
from .launching import compile_ahead

HEAD_WIDTHS = (16, 32, 64, 128)
MOST_WIDTH = 8192
MOST_AS_ONE_HOT = 2**26
"""Rows of a table times ids looked up in it."""
ROWS_TOGETHER = 64


class FusedLoss:
    """Called like `Decoder.loss`; dropout is seeded with `reseed`."""

    def __init__(self, model: Decoder, precision: torch.dtype) -> None:
        self._model, self._precision = model, precision
        self._seed = torch.zeros(1, dtype=torch.int32, device=model.embedding.weight.device)
        self._weights = [p for p in model.parameters() if p.dim() == 2]
        self._copy_of: dict[Tensor, Tensor] = {
            weight: torch.empty_like(weight, dtype=precision) for weight in self._weights
        }
        self._copy_of[model.embedding.weight] = _room_for(model.embedding.weight, precision)
        self._copies = [self._copy_of[weight][: len(weight)] for weight in self._weights]

    @staticmethod
    def fits(model: Decoder, precision: torch.dtype) -> bool:
        position, config = model.position, model.config
        return (
            precision in (torch.bfloat16, torch.float16)
            and type(position).rotate is Position.rotate
            and not position.acts_on_scores
            and config.loops == 1
            and config.streams == 1
            and config.width // config.heads in HEAD_WIDTHS
            and config.width <= MOST_WIDTH
            and 3 * config.width * config.context < 2**31  # places within a row are 32-bit numbers
        )

    def reseed(self, seed: int) -> None:
        self._seed.fill_(seed % 2**31)

    def compile(self, inputs_BT: Tensor, targets_BT: Tensor, mask_BT: Tensor | None = None) -> None:
        """All kernels of such a step at the same time; otherwise each is compiled when it is met."""
        seed = self._seed.clone()
        weights = [parameter for parameter in self._model.parameters() if parameter.requires_grad]
        try:
            with compile_ahead():
                torch.autograd.grad(self(inputs_BT, targets_BT, mask_BT), weights, allow_unused=True)
        finally:
            self._seed.copy_(seed)

    def __call__(self, inputs_BT: Tensor, targets_BT: Tensor, mask_BT: Tensor | None = None) -> Tensor:
        model, config = self._model, self._model.config
        self._seed.add_(0x10001)  # so that the pieces of an accumulated batch drop different elements
        torch._foreach_copy_(self._copies, [weight.detach() for weight in self._weights])
        B, T = inputs_BT.shape
        blocks = [block for block in model.blocks if isinstance(block, Block)]
        drops = iter(drop_everywhere(self._seed, 1 + 3 * len(blocks), max(T, config.width), config.dropout))
        dtype = self._precision

        x_ND = self._embed(inputs_BT).reshape(B * T, -1)
        x_ND, h_ND = add_norm(None, x_ND, blocks[0].attention_norm.weight, next(drops), dtype)
        for layer, block in enumerate(blocks):
            last = layer == len(blocks) - 1
            next_norm = model.norm if last else blocks[layer + 1].attention_norm
            qkv = self._linear(h_ND, block.attention.query_key_value).view(B, T, -1)
            a_ND = attend(qkv, config.heads, next(drops)).view(B * T, -1)
            a_ND = self._linear(a_ND, block.attention.out)
            x_ND, h_ND = add_norm(x_ND, a_ND, block.mlp_norm.weight, next(drops), dtype)
            m_ND = self._linear(gelu(self._linear(h_ND, block.up)), block.down)
            x_ND, h_ND = add_norm(x_ND, m_ND, next_norm.weight, next(drops), dtype)
        logits_NV = self._linear(h_ND, model.embedding)
        if mask_BT is not None:
            targets_BT = targets_BT.masked_fill(~mask_BT, -100)
        return cross_entropy(logits_NV, targets_BT.reshape(-1), model.vocab_size)

    def _embed(self, tokens_BT: Tensor) -> Tensor:
        position = self._model.position
        x_BTD = self._look_up(self._model.embedding, tokens_BT)
        ids_BT = position.ids(tokens_BT)
        if ids_BT.stride(0) == 0:  # the same in every row
            ids_BT = ids_BT[:1]
        if isinstance(position, Learned):
            return x_BTD + self._look_up(position.table, ids_BT, len(x_BTD))
        embedded_BTD = position.embed(ids_BT)
        return x_BTD if embedded_BTD is None else x_BTD + embedded_BTD

    def _look_up(self, table: nn.Embedding, ids_BT: Tensor, rows: int | None = None) -> Tensor:
        return look_up(table.weight, self._copy_of[table.weight], ids_BT, rows)

    def _linear(self, x_ND: Tensor, layer: nn.Linear | nn.Embedding) -> Tensor:
        out: Tensor = _Linear.apply(x_ND, layer.weight, self._copy_of[layer.weight])  # type: ignore[no-untyped-call]
        return out


def _room_for(weight: Tensor, precision: torch.dtype) -> Tensor:
    """For its 16-bit copy: zeros after its last row, so that all rows of scores begin where matrix units like it."""
    rows = -(-len(weight) // ROWS_TOGETHER) * ROWS_TOGETHER
    return torch.zeros(rows, weight.shape[1], dtype=precision, device=weight.device)


class _Linear(torch.autograd.Function):
    """x times a 16-bit copy of the weight, which may have more rows; the weight's gradient in float32."""

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, weight: Tensor, copy: Tensor) -> Tensor:
        ctx.save_for_backward(x_ND, copy)
        ctx.rows = len(weight)
        return x_ND @ copy.T

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, Tensor, None]:
        x_ND, copy = ctx.saved_tensors
        return d_out @ copy, _matmul_in_float32(d_out.T, x_ND)[: ctx.rows], None


def _matmul_in_float32(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == torch.float32 or not a.is_cuda:
        return a.float() @ b.float()
    return torch.mm(a, b, out_dtype=torch.float32)


class _LookUp(torch.autograd.Function):
    """Rows of the 16-bit copy; the gradient of a small table as one product: a sum in a fixed order, and no sorting."""

    @staticmethod
    def forward(ctx: Any, table_VD: Tensor, copy: Tensor, ids_BT: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(ids_BT)
        ctx.rows = len(table_VD)
        return copy[ids_BT].expand(rows, -1, -1)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, None, None, None]:
        (ids_BT,) = ctx.saved_tensors
        if len(d_out) > len(ids_BT):
            d_out = d_out.sum(0, keepdim=True, dtype=torch.float32)
        one_hot_VN = (torch.arange(ctx.rows, device=ids_BT.device)[:, None] == ids_BT.reshape(1, -1)).to(d_out.dtype)
        return _matmul_in_float32(one_hot_VN, d_out.reshape(-1, d_out.shape[-1])), None, None, None


def look_up(table_VD: Tensor, copy: Tensor, ids_BT: Tensor, rows: int | None = None) -> Tensor:
    """`rows`: so many, all with the ids of the only one given."""
    if len(table_VD) * ids_BT.numel() > MOST_AS_ONE_HOT:
        return F.embedding(ids_BT, table_VD).to(copy.dtype)
    out: Tensor = _LookUp.apply(table_VD, copy, ids_BT, rows or len(ids_BT))  # type: ignore[no-untyped-call]
    return out
