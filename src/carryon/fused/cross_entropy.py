# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Cross-entropy that reads 16-bit scores as they are: once to sum them up, once for their gradient.

Otherwise a large vocabulary's scores go through memory about ten times, most of them as float32.

Shapes: N rows (batch times tokens), V vocabulary.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launching import launch

LOWEST = tl.constexpr(-1e30)
"""As good as minus infinity, and can be taken from itself."""


@triton.jit
def _cross_entropy_forward(
    logits_ptr, targets_ptr, losses_ptr, logs_ptr, N, V, stride, ROWS: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """Some rows, so many columns at a time, with a running maximum."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = rows < N
    starts = rows.to(tl.int64) * stride
    best = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    for first in range(0, V, WIDTH):
        columns = first + tl.arange(0, WIDTH)
        inside = here[:, None] & (columns[None, :] < V)
        x = tl.load(logits_ptr + starts[:, None] + columns[None, :], mask=inside, other=0.0)
        x = tl.where(inside, x.to(tl.float32), LOWEST)
        new_best = tl.maximum(best, tl.max(x, 1))
        total = total * tl.exp(best - new_best) + tl.sum(tl.exp(x - new_best[:, None]), 1)
        best = new_best
    log = best + tl.log(total)
    targets = tl.load(targets_ptr + rows, mask=here, other=-1)
    counts = targets >= 0
    scored = tl.load(logits_ptr + starts + targets, mask=counts, other=0.0).to(tl.float32)
    tl.store(losses_ptr + rows, tl.where(counts, log - scored, 0.0), mask=here)
    tl.store(logs_ptr + rows, log, mask=here)


@triton.jit
def _cross_entropy_backward(
    logits_ptr, targets_ptr, logs_ptr, d_loss_ptr, d_logits_ptr, N, V, stride,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """What stands behind the vocabulary gets a gradient of zero."""
    blocks = tl.cdiv(stride, WIDTH)
    rows = tl.program_id(0) // blocks * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) % blocks * WIDTH + tl.arange(0, WIDTH)
    inside = (rows[:, None] < N) & (columns[None, :] < stride)
    at = rows.to(tl.int64)[:, None] * stride + columns[None, :]
    x = tl.load(logits_ptr + at, mask=inside, other=0.0)
    x = tl.where(columns[None, :] < V, x.to(tl.float32), LOWEST)
    logs = tl.load(logs_ptr + rows, mask=rows < N, other=0.0)
    targets = tl.load(targets_ptr + rows, mask=rows < N, other=-1)
    weight = tl.where(targets >= 0, tl.load(d_loss_ptr), 0.0)
    d_x = (tl.exp(x - logs[:, None]) - (columns[None, :] == targets[:, None])) * weight[:, None]
    tl.store(d_logits_ptr + at, d_x.to(d_logits_ptr.dtype.element_ty), mask=inside)


_MOST_COLUMNS = 4096


def _tile(V: int) -> dict[str, int]:
    """Several rows of a small vocabulary at once, one of a large one in pieces."""
    width = min(_MOST_COLUMNS, triton.next_power_of_2(V))
    rows = max(1, 1024 // width)
    return {"ROWS": rows, "WIDTH": width, "num_warps": max(1, min(8, rows * width // 256))}


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, targets_N: Tensor, V: int) -> Tensor:
        N, stride = logits_NV.shape
        logits_NV, targets_N = logits_NV.contiguous(), targets_N.contiguous()
        losses_N, logs_N = torch.empty((2, N), dtype=torch.float32, device=logits_NV.device)
        tile = _tile(V)
        programs = triton.cdiv(N, tile["ROWS"])
        launch(_cross_entropy_forward, programs, logits_NV, targets_N, losses_N, logs_N, N, V, stride, **tile)
        ctx.save_for_backward(logits_NV, targets_N, logs_N)
        ctx.V = V
        total: Tensor = losses_N.sum()
        return total

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor, None, None]:
        logits_NV, targets_N, logs_N = ctx.saved_tensors
        N, stride = logits_NV.shape
        d_logits_NV = torch.empty_like(logits_NV)
        tile = _tile(stride)
        programs = triton.cdiv(N, tile["ROWS"]) * triton.cdiv(stride, tile["WIDTH"])
        arguments = (logits_NV, targets_N, logs_N, d_loss, d_logits_NV, N, ctx.V, stride)
        launch(_cross_entropy_backward, programs, *arguments, **tile)
        return d_logits_NV, None, None


def cross_entropy(logits_NV: Tensor, targets_N: Tensor, vocab_size: int | None = None) -> Tensor:
    """The sum over the rows whose target is not negative, in float32. Columns from `vocab_size` on do not exist."""
    out: Tensor = _CrossEntropy.apply(logits_NV, targets_N, vocab_size or logits_NV.shape[1])
    return out
