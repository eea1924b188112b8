# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Triton kernels for a training step: what a compiler leaves on the table between the matrix products.

Each is an autograd function with hand-written derivatives, and each has its plain twin in `model.py`:

    add_norm    x + dropout(branch), and its LayerNorm, in one pass over memory each way
    attend      causal attention with dropout, from packed queries, keys and values to packed gradients
    gelu        the tanh approximation

Dropout draws nothing: whether an element is kept is a hash of (seed, site, row, column), which the backward pass
computes again. The seed lies on the device, so that a recorded step can be replayed with another one.

Shapes: N rows (batch times tokens), D width, B batch, T tokens, H heads, K width of one head.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

Context = Any
LOG2E = 1.4426950408889634


# --- dropout by hashing -----------------------------------------------------------------------------------------------


@triton.jit
def _mix(x):
    """Every bit of the result depends on every bit of x."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _keys(seed_ptr, site, number):
    """A strong hash of a row or column, odd."""
    key = _mix(tl.load(seed_ptr).to(tl.uint32) + site)
    return _mix(_mix(number.to(tl.uint32) + key) ^ key) | 1


@triton.jit
def _kept(rows, columns, threshold):
    """Of a row's and a column's key: their product's high bits are as good as drawn (a test measures it)."""
    return rows * columns >= threshold


def _threshold(dropout: float) -> int:
    return min(2**32 - 1, round(dropout * 2**32))


# --- residual, dropout, LayerNorm -------------------------------------------------------------------------------------


@triton.jit
def _add_norm_forward(
    x_ptr, branch_ptr, weight_ptr, seed_ptr, out_ptr, normed_ptr,
    N, D, site, threshold, scale, eps,
    HAS_X: tl.constexpr, DROPOUT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    inside = (rows[:, None] < N) & (columns[None, :] < D)
    at = rows.to(tl.int64)[:, None] * D + columns[None, :]
    x = tl.load(branch_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if DROPOUT:
        row_keys = _keys(seed_ptr, 2 * site, rows)[:, None]
        column_keys = _keys(seed_ptr, 2 * site + 1, columns)[None, :]
        x = tl.where(_kept(row_keys, column_keys, threshold), x * scale, 0.0)
    if HAS_X:
        x += tl.load(x_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + at, x, mask=inside)
    mean = tl.sum(x, 1) / D
    centred = tl.where(inside, x - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 1) / D + eps)
    weight = tl.load(weight_ptr + columns, mask=columns < D, other=0.0)
    normed = centred * rstd[:, None] * weight[None, :]
    tl.store(normed_ptr + at, normed.to(normed_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _add_norm_backward(
    out_ptr, weight_ptr, seed_ptr, d_out_ptr, d_normed_ptr, d_x_ptr, d_branch_ptr, d_weight_ptr,
    N, D, site, threshold, scale, eps,
    HAS_D_OUT: tl.constexpr, HAS_X: tl.constexpr, DROPOUT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Each program walks over many blocks of rows and keeps its own sum for the weight: no atomics, one order."""
    columns = tl.arange(0, WIDTH)
    weight = tl.load(weight_ptr + columns, mask=columns < D, other=0.0)[None, :]
    if DROPOUT:
        column_keys = _keys(seed_ptr, 2 * site + 1, columns)[None, :]
    d_weight = tl.zeros([ROWS, WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(N, ROWS), tl.num_programs(0)):
        rows = block * ROWS + tl.arange(0, ROWS)
        inside = (rows[:, None] < N) & (columns[None, :] < D)
        at = rows.to(tl.int64)[:, None] * D + columns[None, :]
        x = tl.load(out_ptr + at, mask=inside, other=0.0)
        d_normed = tl.load(d_normed_ptr + at, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(x, 1) / D
        centred = tl.where(inside, x - mean[:, None], 0.0)
        rstd = tl.rsqrt(tl.sum(centred * centred, 1) / D + eps)[:, None]
        unit = centred * rstd
        d_weight += d_normed * unit
        d_unit = d_normed * weight
        along = tl.sum(d_unit * unit, 1)[:, None] / D
        level = tl.sum(d_unit, 1)[:, None] / D
        d_x = (d_unit - level - unit * along) * rstd
        if HAS_D_OUT:
            d_x += tl.load(d_out_ptr + at, mask=inside, other=0.0)
        if HAS_X:
            tl.store(d_x_ptr + at, d_x, mask=inside)
        if DROPOUT:
            row_keys = _keys(seed_ptr, 2 * site, rows)[:, None]
            d_x = tl.where(_kept(row_keys, column_keys, threshold), d_x * scale, 0.0)
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
_PROGRAMS = 1056
"""Of the backward pass: eight for each of an H200's 132 multiprocessors."""


def _tile(D: int, elements: int) -> dict[str, int]:
    """So many whole rows at once, and so many warps, that what a thread holds stays in its registers."""
    width = triton.next_power_of_2(D)
    rows = max(1, elements // width)
    return {"ROWS": rows, "WIDTH": width, "num_warps": min(16, max(1, rows * width // 512))}


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context,
        x_ND: Tensor | None,
        branch_ND: Tensor,
        weight_D: Tensor,
        seed: Tensor,
        site: int,
        dropout: float,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        N, D = branch_ND.shape
        x_ND, branch_ND = x_ND.contiguous() if x_ND is not None else None, branch_ND.contiguous()
        out_ND = torch.empty((N, D), dtype=torch.float32, device=branch_ND.device)
        normed_ND = torch.empty((N, D), dtype=dtype, device=branch_ND.device)
        ctx.numbers = (N, D, site, _threshold(dropout), 1 / (1 - dropout), _EPS)
        ctx.has_x, ctx.branch_dtype, ctx.has_dropout = x_ND is not None, branch_ND.dtype, dropout > 0
        tile = _tile(D, 2048)
        _add_norm_forward[(triton.cdiv(N, tile["ROWS"]),)](
            out_ND if x_ND is None else x_ND, branch_ND, weight_D, seed, out_ND, normed_ND, *ctx.numbers,
            HAS_X=ctx.has_x, DROPOUT=ctx.has_dropout, **tile,
        )  # fmt: skip
        ctx.save_for_backward(out_ND, weight_D, seed)
        ctx.set_materialize_grads(False)
        return out_ND, normed_ND

    @staticmethod
    def backward(ctx: Context, d_out_ND: Tensor | None, d_normed_ND: Tensor | None) -> tuple[Tensor | None, ...]:
        out_ND, weight_D, seed = ctx.saved_tensors
        if d_normed_ND is None:
            d_normed_ND = torch.zeros_like(out_ND)
        N, D = out_ND.shape
        d_branch_ND = torch.empty((N, D), dtype=ctx.branch_dtype, device=out_ND.device)
        d_x_ND = torch.empty_like(out_ND) if ctx.has_x else None
        tile = _tile(D, 1024)
        programs = min(_PROGRAMS, triton.cdiv(N, tile["ROWS"]))
        d_weights_PD = torch.empty((programs, D), dtype=torch.float32, device=out_ND.device)
        _add_norm_backward[(programs,)](
            out_ND, weight_D, seed,
            out_ND if d_out_ND is None else d_out_ND.contiguous(), d_normed_ND.contiguous(),
            out_ND if d_x_ND is None else d_x_ND, d_branch_ND, d_weights_PD, *ctx.numbers,
            HAS_D_OUT=d_out_ND is not None, HAS_X=ctx.has_x, DROPOUT=ctx.has_dropout, **tile,
        )  # fmt: skip
        d_weight_D = torch.empty_like(weight_D)
        _sum_rows[(triton.cdiv(D, 16),)](d_weights_PD, d_weight_D, programs, D, ROWS=256, WIDTH=16, num_warps=8)
        return d_x_ND, d_branch_ND, d_weight_D, None, None, None, None


def add_norm(
    x_ND: Tensor | None,
    branch_ND: Tensor,
    weight_D: Tensor,
    seed: Tensor,
    *,
    site: int,
    dropout: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """x + dropout(branch) in float32, and LayerNorm of that in `dtype`. Without x: dropout(branch)."""
    out: tuple[Tensor, Tensor] = _AddNorm.apply(x_ND, branch_ND, weight_D, seed, site, dropout, dtype)
    return out


# --- attention --------------------------------------------------------------------------------------------------------
#
# Scores are kept in base 2. `factor` is log2(e) / sqrt(K). What dropout multiplies is multiplied in at the end.


@triton.jit
def _weights_forward(
    q, best, total, acc, k_base, v_base, stride, rows, row_keys, columns, seed_ptr, site, threshold, factor, T,
    K: tl.constexpr, DROPOUT: tl.constexpr, ON_DIAGONAL: tl.constexpr,
):  # fmt: skip
    """Some more keys and values of a block of queries, with a running maximum."""
    at = columns[:, None] * stride + tl.arange(0, K)[None, :]
    k = tl.load(k_base + at, mask=columns[:, None] < T, other=0.0)
    v = tl.load(v_base + at, mask=columns[:, None] < T, other=0.0)
    s = tl.dot(q, tl.trans(k), input_precision="ieee")
    if ON_DIAGONAL:
        s = tl.where(rows[:, None] >= columns[None, :], s, float("-inf"))
    new_best = tl.maximum(best, tl.max(s, 1) * factor)
    p = tl.exp2(s * factor - new_best[:, None])
    shrink = tl.exp2(best - new_best)
    total = total * shrink + tl.sum(p, 1)
    if DROPOUT:
        column_keys = _keys(seed_ptr, 2 * site + 1, columns)
        p = tl.where(_kept(row_keys[:, None], column_keys[None, :], threshold), p, 0.0)
    acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
    return new_best, total, acc


@triton.jit
def _attend_forward(
    qkv_ptr, seed_ptr, out_ptr, log_ptr, T, H, site, threshold, scale, factor,
    K: tl.constexpr, BLOCK: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """A block of queries of one head."""
    blocks = tl.cdiv(T, BLOCK)
    head = tl.program_id(0) // blocks
    block = blocks - 1 - tl.program_id(0) % blocks  # the longest first
    D = H * K
    stride = 3 * D
    base = qkv_ptr + (head // H).to(tl.int64) * T * stride + (head % H) * K
    rows = block * BLOCK + tl.arange(0, BLOCK)
    ks = tl.arange(0, K)
    q = tl.load(base + rows[:, None] * stride + ks[None, :], mask=rows[:, None] < T, other=0.0)
    row_keys = _keys(seed_ptr, 2 * site, head * T + rows)
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    acc = tl.zeros([BLOCK, K], tl.float32)
    for start in range(0, block * BLOCK, BLOCK):
        best, total, acc = _weights_forward(
            q, best, total, acc, base + D, base + 2 * D, stride, rows, row_keys, start + tl.arange(0, BLOCK), seed_ptr,
            site, threshold, factor, T, K, DROPOUT, False,
        )  # fmt: skip
    best, total, acc = _weights_forward(
        q, best, total, acc, base + D, base + 2 * D, stride, rows, row_keys, rows, seed_ptr,
        site, threshold, factor, T, K, DROPOUT, True,
    )  # fmt: skip
    out = acc * (scale / total)[:, None]
    out_base = out_ptr + (head // H).to(tl.int64) * T * D + (head % H) * K
    tl.store(out_base + rows[:, None] * D + ks[None, :], out.to(out_ptr.dtype.element_ty), mask=rows[:, None] < T)
    tl.store(log_ptr + head * T + rows, best + tl.log2(total), mask=rows < T)


@triton.jit
def _attend_deltas(out_ptr, d_out_ptr, delta_ptr, T, H, scale, K: tl.constexpr, BLOCK: tl.constexpr):
    """For each query of each head, the output times its gradient."""
    head = tl.program_id(0) // tl.cdiv(T, BLOCK)
    rows = tl.program_id(0) % tl.cdiv(T, BLOCK) * BLOCK + tl.arange(0, BLOCK)
    base = (head // H).to(tl.int64) * T * H * K + (head % H) * K
    at = base + rows[:, None] * (H * K) + tl.arange(0, K)[None, :]
    out = tl.load(out_ptr + at, mask=rows[:, None] < T, other=0.0).to(tl.float32)
    d_out = tl.load(d_out_ptr + at, mask=rows[:, None] < T, other=0.0).to(tl.float32)
    tl.store(delta_ptr + head * T + rows, tl.sum(out * d_out, 1) / scale, mask=rows < T)


@triton.jit
def _load_queries(base, d_out_base, log_ptr, delta_ptr, stride, D, head, rows, T, K: tl.constexpr):
    ks = tl.arange(0, K)[None, :]
    there = rows < T
    q = tl.load(base + rows[:, None] * stride + ks, mask=there[:, None], other=0.0)
    d_out = tl.load(d_out_base + rows[:, None] * D + ks, mask=there[:, None], other=0.0)
    # Rows past the end weigh nothing: two to the minus infinity.
    logs = tl.load(log_ptr + head * T + rows, mask=there, other=float("inf"))
    deltas = tl.load(delta_ptr + head * T + rows, mask=there, other=0.0)
    return q, d_out, logs, deltas


@triton.jit
def _weights_backward(
    q, k, v, d_out, logs, deltas, rows, columns, row_keys, column_keys, threshold, factor,
    DROPOUT: tl.constexpr, ON_DIAGONAL: tl.constexpr,
):  # fmt: skip
    """The weights as they were used, and the gradient of the scores, both before what dropout multiplies."""
    s = tl.dot(q, tl.trans(k), input_precision="ieee")
    p = tl.exp2(s * factor - logs[:, None])
    if ON_DIAGONAL:
        p = tl.where(rows[:, None] >= columns[None, :], p, 0.0)
    d_p = tl.dot(d_out, tl.trans(v), input_precision="ieee")
    used = p
    if DROPOUT:
        kept = _kept(row_keys[:, None], column_keys[None, :], threshold)
        used = tl.where(kept, p, 0.0)
        d_p = tl.where(kept, d_p, 0.0)
    d_s = p * (d_p - deltas[:, None])
    return used.to(q.dtype), d_s.to(q.dtype)


@triton.jit
def _attend_backward(
    qkv_ptr, seed_ptr, d_out_ptr, log_ptr, delta_ptr, d_qkv_ptr, T, H, site, threshold, scale, factor, shrink,
    K: tl.constexpr, BLOCK: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    """Of one block of one head: against itself; as keys and values, against later queries; as queries.

    Early blocks have long work as keys, late ones as queries: all programs take about as long.
    """
    head = tl.program_id(0) // tl.cdiv(T, BLOCK)
    block = tl.program_id(0) % tl.cdiv(T, BLOCK)
    D = H * K
    stride = 3 * D
    first = (head // H).to(tl.int64) * T
    base = qkv_ptr + first * stride + (head % H) * K
    d_base = d_qkv_ptr + first * stride + (head % H) * K
    d_out_base = d_out_ptr + first * D + (head % H) * K
    here = block * BLOCK + tl.arange(0, BLOCK)
    ks = tl.arange(0, K)[None, :]
    at = here[:, None] * stride + ks
    there = here[:, None] < T

    k = tl.load(base + D + at, mask=there, other=0.0)
    v = tl.load(base + 2 * D + at, mask=there, other=0.0)
    q, d_out, logs, deltas = _load_queries(base, d_out_base, log_ptr, delta_ptr, stride, D, head, here, T, K)
    row_keys = _keys(seed_ptr, 2 * site, head * T + here)
    column_keys = _keys(seed_ptr, 2 * site + 1, here)
    used, d_s = _weights_backward(
        q, k, v, d_out, logs, deltas, here, here, row_keys, column_keys, threshold, factor, DROPOUT, True
    )
    d_v = tl.dot(tl.trans(used), d_out, input_precision="ieee")
    d_k = tl.dot(tl.trans(d_s), q, input_precision="ieee")
    d_q = tl.dot(d_s, k, input_precision="ieee")
    for start in range((block + 1) * BLOCK, T, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        q2, d_out2, logs2, deltas2 = _load_queries(base, d_out_base, log_ptr, delta_ptr, stride, D, head, rows, T, K)
        keys2 = _keys(seed_ptr, 2 * site, head * T + rows)
        used, d_s = _weights_backward(
            q2, k, v, d_out2, logs2, deltas2, rows, here, keys2, column_keys, threshold, factor, DROPOUT, False
        )
        d_v += tl.dot(tl.trans(used), d_out2, input_precision="ieee")
        d_k += tl.dot(tl.trans(d_s), q2, input_precision="ieee")
    tl.store(d_base + 2 * D + at, (d_v * scale).to(d_qkv_ptr.dtype.element_ty), mask=there)
    tl.store(d_base + D + at, (d_k * shrink).to(d_qkv_ptr.dtype.element_ty), mask=there)

    for start in range(0, block * BLOCK, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        at2 = columns[:, None] * stride + ks
        k2 = tl.load(base + D + at2)
        v2 = tl.load(base + 2 * D + at2)
        keys2 = _keys(seed_ptr, 2 * site + 1, columns)
        used, d_s = _weights_backward(
            q, k2, v2, d_out, logs, deltas, here, columns, row_keys, keys2, threshold, factor, DROPOUT, False
        )
        d_q += tl.dot(d_s, k2, input_precision="ieee")
    tl.store(d_base + at, (d_q * shrink).to(d_qkv_ptr.dtype.element_ty), mask=there)


# The best of what was timed on an H200 (docs/performance.md).
_FORWARD = {"BLOCK": 64, "num_warps": 4, "num_stages": 3}
_BACKWARD = {"BLOCK": 64, "num_warps": 4, "num_stages": 2}


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, qkv: Tensor, heads: int, seed: Tensor, site: int, dropout: float) -> Tensor:
        B, T, width = qkv.shape
        qkv = qkv.contiguous()
        D = width // 3
        K = D // heads
        out_BTD = torch.empty((B, T, D), dtype=qkv.dtype, device=qkv.device)
        logs = torch.empty((B * heads, T), dtype=torch.float32, device=qkv.device)
        ctx.numbers = (T, heads, site, _threshold(dropout), 1 / (1 - dropout), LOG2E * K**-0.5)
        ctx.switches = {"K": K, "DROPOUT": dropout > 0}
        # One axis: the others of a grid end at 65,535.
        grid = (triton.cdiv(T, _FORWARD["BLOCK"]) * B * heads,)
        _attend_forward[grid](qkv, seed, out_BTD, logs, *ctx.numbers, **ctx.switches, **_FORWARD)
        ctx.save_for_backward(qkv, seed, out_BTD, logs)
        return out_BTD

    @staticmethod
    def backward(ctx: Context, d_out: Tensor) -> tuple[Tensor | None, ...]:
        qkv, seed, out_BTD, logs = ctx.saved_tensors
        T, heads, _, _, scale, _ = ctx.numbers
        K = ctx.switches["K"]
        d_out, d_qkv, deltas = d_out.contiguous(), torch.empty_like(qkv), torch.empty_like(logs)
        _attend_deltas[(triton.cdiv(T, 64) * len(logs),)](out_BTD, d_out, deltas, T, heads, scale, K=K, BLOCK=64)
        grid = (triton.cdiv(T, _BACKWARD["BLOCK"]) * len(logs),)
        _attend_backward[grid](
            qkv, seed, d_out, logs, deltas, d_qkv, *ctx.numbers, scale * K**-0.5, **ctx.switches, **_BACKWARD
        )
        return d_qkv, None, None, None, None


def attend(qkv: Tensor, heads: int, seed: Tensor, *, site: int, dropout: float) -> Tensor:
    """Causal attention. `qkv` holds queries, keys and values side by side: (B, T, 3 D); the result is (B, T, D)."""
    out: Tensor = _Attend.apply(qkv, heads, seed, site, dropout)
    return out


# --- GELU -------------------------------------------------------------------------------------------------------------


@triton.jit
def _tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


@triton.jit
def _gelu_forward(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0).to(tl.float32)
    out = 0.5 * x * (1.0 + _tanh(0.7978845608028654 * x * (1.0 + 0.044715 * x * x)))
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=at < count)


@triton.jit
def _gelu_backward(x_ptr, d_out_ptr, d_x_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0).to(tl.float32)
    d_out = tl.load(d_out_ptr + at, mask=at < count, other=0.0).to(tl.float32)
    t = _tanh(0.7978845608028654 * x * (1.0 + 0.044715 * x * x))
    slope = 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * 0.7978845608028654 * (1.0 + 0.134145 * x * x)
    tl.store(d_x_ptr + at, (d_out * slope).to(d_x_ptr.dtype.element_ty), mask=at < count)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        _gelu_forward[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048, num_warps=8)
        ctx.save_for_backward(x)
        return out

    @staticmethod
    def backward(ctx: Context, d_out: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        d_x = torch.empty_like(x)
        d_out = d_out.contiguous()
        _gelu_backward[(triton.cdiv(x.numel(), 2048),)](x, d_out, d_x, x.numel(), BLOCK=2048, num_warps=8)
        return d_x


def gelu(x: Tensor) -> Tensor:
    out: Tensor = _Gelu.apply(x)
    return out
