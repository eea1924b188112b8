# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Causal attention with dropout, from packed queries, keys and values to packed gradients, never holding all scores.

Scores are kept in base 2: `factor` is log2(e) / sqrt(K). What dropout multiplies is multiplied in at the end.
Shapes: B batch, T tokens, H heads, K width of one head, D = H K.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .dropout import Drop, is_kept, jit_for_all_sites, keys_in, read_keys, stream_of_rows
from .launching import launch

LOG2E = 1.4426950408889634


@triton.jit
def _unknown_zero(number):
    """Told a zero, the compiler chooses after rounding to 16 bits, which takes three instructions instead of one."""
    return number - number


@triton.jit
def _weights_forward(
    q, best, total, acc, k_base, v_base, stride, rows, row_keys, columns, column_keys_ptr, threshold, factor, T,
    K: tl.constexpr, DROPOUT: tl.constexpr, ON_DIAGONAL: tl.constexpr,
):  # fmt: skip
    """Some more keys and values of a block of queries, with a running maximum."""
    at = columns[:, None] * stride + tl.arange(0, K)[None, :]
    if ON_DIAGONAL:
        k = tl.load(k_base + at, mask=columns[:, None] < T, other=0.0)
        v = tl.load(v_base + at, mask=columns[:, None] < T, other=0.0)
    else:  # all of it is there
        k = tl.load(k_base + at)
        v = tl.load(v_base + at)
    s = tl.dot(q, tl.trans(k), input_precision="ieee")
    if ON_DIAGONAL:
        s = tl.where(rows[:, None] >= columns[None, :], s, float("-inf"))
    new_best = tl.maximum(best, tl.max(s, 1) * factor)
    p = tl.exp2(s * factor - new_best[:, None])
    shrink = tl.exp2(best - new_best)
    total = total * shrink + tl.sum(p, 1)
    if DROPOUT:
        column_keys = read_keys(column_keys_ptr, columns)
        p = tl.where(is_kept(row_keys[:, None], column_keys[None, :], threshold), p, _unknown_zero(factor))
    acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
    return new_best, total, acc


@jit_for_all_sites
def _attend_forward(
    qkv_ptr, seed_ptr, column_keys_ptr, out_ptr, log_ptr, T, H, site, threshold, scale, factor,
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
    row_keys = keys_in(stream_of_rows(seed_ptr, site), head * T + rows)
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    acc = tl.zeros([BLOCK, K], tl.float32)
    for start in range(0, block * BLOCK, BLOCK):
        best, total, acc = _weights_forward(
            q, best, total, acc, base + D, base + 2 * D, stride, rows, row_keys, start + tl.arange(0, BLOCK),
            column_keys_ptr, threshold, factor, T, K, DROPOUT, False,
        )  # fmt: skip
    best, total, acc = _weights_forward(
        q, best, total, acc, base + D, base + 2 * D, stride, rows, row_keys, rows,
        column_keys_ptr, threshold, factor, T, K, DROPOUT, True,
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
def _load_queries(base, d_out_base, log_ptr, delta_ptr, stride, D, head, rows, T, K: tl.constexpr, EVEN: tl.constexpr):
    ks = tl.arange(0, K)[None, :]
    if EVEN:
        q = tl.load(base + rows[:, None] * stride + ks)
        d_out = tl.load(d_out_base + rows[:, None] * D + ks)
        logs = tl.load(log_ptr + head * T + rows)
        deltas = tl.load(delta_ptr + head * T + rows)
    else:
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
        kept = is_kept(row_keys[:, None], column_keys[None, :], threshold)
        used = tl.where(kept, p, _unknown_zero(factor))
        d_p = tl.where(kept, d_p, 0.0)
    d_s = p * (d_p - deltas[:, None])
    return used.to(q.dtype), d_s.to(q.dtype)


@jit_for_all_sites
def _attend_backward(
    qkv_ptr, seed_ptr, column_keys_ptr, d_out_ptr, log_ptr, delta_ptr, d_qkv_ptr,
    T, H, site, threshold, scale, factor, shrink,
    K: tl.constexpr, BLOCK: tl.constexpr, DROPOUT: tl.constexpr, EVEN: tl.constexpr,
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
    q, d_out, logs, deltas = _load_queries(base, d_out_base, log_ptr, delta_ptr, stride, D, head, here, T, K, EVEN)
    stream = stream_of_rows(seed_ptr, site)
    row_keys = keys_in(stream, head * T + here)
    column_keys = read_keys(column_keys_ptr, here)
    used, d_s = _weights_backward(
        q, k, v, d_out, logs, deltas, here, here, row_keys, column_keys, threshold, factor, DROPOUT, True
    )
    d_v = tl.dot(tl.trans(used), d_out, input_precision="ieee")
    d_k = tl.dot(tl.trans(d_s), q, input_precision="ieee")
    d_q = tl.dot(d_s, k, input_precision="ieee")
    for start in range((block + 1) * BLOCK, T, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        q2, d_out2, logs2, deltas2 = _load_queries(
            base, d_out_base, log_ptr, delta_ptr, stride, D, head, rows, T, K, EVEN
        )
        keys2 = keys_in(stream, head * T + rows)
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
        keys2 = read_keys(column_keys_ptr, columns)
        used, d_s = _weights_backward(
            q, k2, v2, d_out, logs, deltas, here, columns, row_keys, keys2, threshold, factor, DROPOUT, False
        )
        d_q += tl.dot(d_s, k2, input_precision="ieee")
    tl.store(d_base + at, (d_q * shrink).to(d_qkv_ptr.dtype.element_ty), mask=there)


# The best of what was timed on an H200 (docs/performance.md).
_FORWARD = {"BLOCK": 64, "num_warps": 4, "num_stages": 2}
_BACKWARD = {"BLOCK": 64, "num_warps": 4, "num_stages": 2}


def _forward_options(K: int) -> dict[str, int]:
    """With 128 registers a thread, more programs share a multiprocessor; those of wider heads need more."""
    return {**_FORWARD, "maxnreg": 128} if K <= 64 else _FORWARD


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, heads: int, drop: Drop) -> Tensor:
        B, T, width = qkv.shape
        qkv = qkv.contiguous()
        D = width // 3
        K = D // heads
        out_BTD = torch.empty((B, T, D), dtype=qkv.dtype, device=qkv.device)
        logs = torch.empty((B * heads, T), dtype=torch.float32, device=qkv.device)
        ctx.numbers = (T, heads, *drop.numbers, LOG2E * K**-0.5)
        ctx.switches = {"K": K, "DROPOUT": drop.rate > 0}
        programs = triton.cdiv(T, _FORWARD["BLOCK"]) * B * heads
        options = {**ctx.switches, **_forward_options(K)}
        launch(_attend_forward, programs, qkv, drop.seed, drop.column_keys, out_BTD, logs, *ctx.numbers, **options)
        ctx.save_for_backward(qkv, drop.seed, drop.column_keys, out_BTD, logs)
        return out_BTD

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        qkv, seed, keys, out_BTD, logs = ctx.saved_tensors
        T, heads, _, _, scale, _ = ctx.numbers
        K = ctx.switches["K"]
        d_out, d_qkv, deltas = d_out.contiguous(), torch.empty_like(qkv), torch.empty_like(logs)
        programs = triton.cdiv(T, 64) * len(logs)
        launch(_attend_deltas, programs, out_BTD, d_out, deltas, T, heads, scale, K=K, BLOCK=64)
        programs = triton.cdiv(T, _BACKWARD["BLOCK"]) * len(logs)
        launch(
            _attend_backward, programs, qkv, seed, keys, d_out, logs, deltas, d_qkv, *ctx.numbers, scale * K**-0.5,
            EVEN=T % _BACKWARD["BLOCK"] == 0, **ctx.switches, **_BACKWARD,
        )  # fmt: skip
        return d_qkv, None, None


def attend(qkv: Tensor, heads: int, drop: Drop) -> Tensor:
    """Causal attention. `qkv` holds queries, keys and values side by side: (B, T, 3 D); the result is (B, T, D)."""
    out: Tensor = _Attend.apply(qkv, heads, drop)
    return out
