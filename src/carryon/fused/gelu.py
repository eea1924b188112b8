# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""GELU, in its tanh approximation."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launching import launch


@triton.jit
def _gate(x):
    """(1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which is a logistic function; its exponent is to base 2."""
    return 1.0 / (1.0 + tl.exp2(x * (-2.302208198144325 - 0.1029432395800235 * x * x)))


@triton.jit
def _gelu_forward(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, (x * _gate(x)).to(out_ptr.dtype.element_ty), mask=at < count)


@triton.jit
def _gelu_backward(x_ptr, d_out_ptr, d_x_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0).to(tl.float32)
    d_out = tl.load(d_out_ptr + at, mask=at < count, other=0.0).to(tl.float32)
    gate = _gate(x)
    slope = gate * (1.0 + x * (1.0 - gate) * (1.5957691216057308 + 0.21406444881780076 * x * x))
    tl.store(d_x_ptr + at, (d_out * slope).to(d_x_ptr.dtype.element_ty), mask=at < count)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        launch(_gelu_forward, triton.cdiv(x.numel(), 2048), x, out, x.numel(), BLOCK=2048, num_warps=8)
        ctx.save_for_backward(x)
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        d_x = torch.empty_like(x)
        d_out = d_out.contiguous()
        launch(_gelu_backward, triton.cdiv(x.numel(), 2048), x, d_out, d_x, x.numel(), BLOCK=2048, num_warps=8)
        return d_x


def gelu(x: Tensor) -> Tensor:
    out: Tensor = _Gelu.apply(x)
    return out
