# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""x + dropout(branch) and its LayerNorm, in one pass over memory each way.

Shapes: N rows (batch times tokens), D width, P programs.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .dropout import Drop, is_kept, jit_for_all_sites, keys_in, read_keys, stream_of_rows
from .launching import launch


@jit_for_all_sites
def _add_norm_forward(
    x_ptr, branch_ptr, weight_ptr, seed_ptr, column_keys_ptr, out_ptr, normed_ptr, means_ptr, rstds_ptr,
    N, D, site, threshold, scale, eps,
    HAS_X: tl.constexpr, DROPOUT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    inside = (rows[:, None] < N) & (columns[None, :] < D)
    at = rows.to(tl.int64)[:, None] * D + columns[None, :]
    x = tl.load(branch_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if DROPOUT:
        row_keys = keys_in(stream_of_rows(seed_ptr, site), rows)[:, None]
        column_keys = read_keys(column_keys_ptr, columns)[None, :]
        x = tl.where(is_kept(row_keys, column_keys, threshold), x * scale, 0.0)
    if HAS_X:
        x += tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    rounded = x.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + at, rounded, mask=inside)
    x = rounded.to(tl.float32)  # what is normalized is what the gradient will read
    mean = tl.sum(x, 1) / D
    centred = tl.where(inside, x - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 1) / D + eps)
    tl.store(means_ptr + rows, mean, mask=rows < N)
    tl.store(rstds_ptr + rows, rstd, mask=rows < N)
    weight = tl.load(weight_ptr + columns, mask=columns < D, other=0.0)
    normed = centred * rstd[:, None] * weight[None, :]
    tl.store(normed_ptr + at, normed.to(normed_ptr.dtype.element_ty), mask=inside)


@jit_for_all_sites
def _add_norm_backward(
    out_ptr, means_ptr, rstds_ptr, weight_ptr, seed_ptr, column_keys_ptr, d_out_ptr, d_normed_ptr,
    d_x_ptr, d_branch_ptr, d_weight_ptr,
    N, D, site, threshold, scale,
    HAS_D_OUT: tl.constexpr, HAS_X: tl.constexpr, DROPOUT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Each program walks over many blocks of rows and keeps its own sum for the weight: no atomics, one order.

    What it reads is asked for two blocks ahead: it would wait for memory twice in every block otherwise.
    """
    columns = tl.arange(0, WIDTH)
    weight = tl.load(weight_ptr + columns, mask=columns < D, other=0.0)[None, :]
    if DROPOUT:
        stream = stream_of_rows(seed_ptr, site)
        column_keys = read_keys(column_keys_ptr, columns)[None, :]
    share = 1.0 / D
    d_weight = tl.zeros([ROWS, WIDTH], tl.float32)
    for block in tl.range(tl.program_id(0), tl.cdiv(N, ROWS), tl.num_programs(0), num_stages=3):
        rows = block * ROWS + tl.arange(0, ROWS)
        inside = (rows[:, None] < N) & (columns[None, :] < D)
        at = rows.to(tl.int64)[:, None] * D + columns[None, :]
        x = tl.load(out_ptr + at, mask=inside, other=0.0).to(tl.float32)
        d_normed = tl.load(d_normed_ptr + at, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(means_ptr + rows, mask=rows < N, other=0.0)[:, None]
        rstd = tl.load(rstds_ptr + rows, mask=rows < N, other=0.0)[:, None]
        unit = (x - mean) * rstd  # past the end it only meets zeros
        d_weight += d_normed * unit
        d_unit = d_normed * weight
        along = tl.sum(d_unit * unit, 1)[:, None] * share
        level = tl.sum(d_unit, 1)[:, None] * share
        d_x = (d_unit - level - unit * along) * rstd
        if HAS_D_OUT:
            d_x += tl.load(d_out_ptr + at, mask=inside, other=0.0).to(tl.float32)
        if HAS_X:
            tl.store(d_x_ptr + at, d_x.to(d_x_ptr.dtype.element_ty), mask=inside)
        if DROPOUT:
            row_keys = keys_in(stream, rows)[:, None]
            d_x = tl.where(is_kept(row_keys, column_keys, threshold), d_x * scale, 0.0)
        tl.store(d_branch_ptr + at, d_x.to(d_branch_ptr.dtype.element_ty), mask=inside)
    tl.store(d_weight_ptr + tl.program_id(0) * D + columns, tl.sum(d_weight, 0), mask=columns < D)


@triton.jit
def _sum_rows(x_ptr, out_ptr, N, D, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    columns = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(0, N, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < N) & (columns[None, :] < D)
        total += tl.load(x_ptr + rows[:, None] * D + columns[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + columns, tl.sum(total, 0), mask=columns < D)


_EPS = 1e-5
_PROGRAMS = 1584
"""Of the backward pass: twelve for each of an H200's 132 multiprocessors."""


def _tile(D: int, elements: int, per_warp: int) -> dict[str, int]:
    """So many whole rows at once, and so many warps, that what a thread holds stays in its registers."""
    width = triton.next_power_of_2(D)
    rows = max(1, elements // width)
    return {"ROWS": rows, "WIDTH": width, "num_warps": min(16, max(1, rows * width // per_warp))}


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor | None,
        branch_ND: Tensor,
        weight_D: Tensor,
        drop: Drop,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        N, D = branch_ND.shape
        x_ND, branch_ND = x_ND.contiguous() if x_ND is not None else None, branch_ND.contiguous()
        out_ND = torch.empty((N, D), dtype=dtype, device=branch_ND.device)
        normed_ND = torch.empty_like(out_ND)
        means_N, rstds_N = torch.empty((2, N), dtype=torch.float32, device=branch_ND.device)
        ctx.numbers = (N, D, *drop.numbers)
        ctx.has_x, ctx.branch_dtype, ctx.has_dropout = x_ND is not None, branch_ND.dtype, drop.rate > 0
        tile = _tile(D, 2048, 512)
        launch(
            _add_norm_forward, triton.cdiv(N, tile["ROWS"]),
            out_ND if x_ND is None else x_ND, branch_ND, weight_D, drop.seed, drop.column_keys,
            out_ND, normed_ND, means_N, rstds_N, *ctx.numbers, _EPS, HAS_X=ctx.has_x, DROPOUT=ctx.has_dropout, **tile,
        )  # fmt: skip
        ctx.save_for_backward(out_ND, means_N, rstds_N, weight_D, drop.seed, drop.column_keys)
        ctx.set_materialize_grads(False)
        return out_ND, normed_ND

    @staticmethod
    def backward(ctx: Any, d_out_ND: Tensor | None, d_normed_ND: Tensor | None) -> tuple[Tensor | None, ...]:
        out_ND, means_N, rstds_N, weight_D, seed, column_keys = ctx.saved_tensors
        if d_normed_ND is None:
            d_normed_ND = torch.zeros_like(out_ND)
        N, D = out_ND.shape
        d_branch_ND = torch.empty((N, D), dtype=ctx.branch_dtype, device=out_ND.device)
        d_x_ND = torch.empty_like(out_ND) if ctx.has_x else None
        tile = _tile(D, 512, 512)
        programs = min(_PROGRAMS, triton.cdiv(N, tile["ROWS"]))
        d_weights_PD = torch.empty((programs, D), dtype=torch.float32, device=out_ND.device)
        launch(
            _add_norm_backward, programs, out_ND, means_N, rstds_N, weight_D, seed, column_keys,
            out_ND if d_out_ND is None else d_out_ND.contiguous(), d_normed_ND.contiguous(),
            out_ND if d_x_ND is None else d_x_ND, d_branch_ND, d_weights_PD, *ctx.numbers,
            HAS_D_OUT=d_out_ND is not None, HAS_X=ctx.has_x, DROPOUT=ctx.has_dropout, **tile,
        )  # fmt: skip
        d_weight_D = torch.empty_like(weight_D)
        launch(_sum_rows, triton.cdiv(D, 8), d_weights_PD, d_weight_D, programs, D, ROWS=256, WIDTH=8, num_warps=8)
        return d_x_ND, d_branch_ND, d_weight_D, None, None


def add_norm(
    x_ND: Tensor | None, branch_ND: Tensor, weight_D: Tensor, drop: Drop, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """x + dropout(branch) and LayerNorm of that, in `dtype`, as x is. Without x: dropout(branch)."""
    out: tuple[Tensor, Tensor] = _AddNorm.apply(x_ND, branch_ND, weight_D, drop, dtype)
    return out
