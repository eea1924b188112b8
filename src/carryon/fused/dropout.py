# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Dropout that draws nothing: whether an element is kept is a hash of (seed, site, row, column).

So the backward pass computes it again instead of reading it back. The seed lies on the device, so that a recorded step
can be replayed with another one; a site is a place in the model where dropout acts.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launching import launch

MOST_PAST_THE_END = 128


def jit_for_all_sites(kernel: Any) -> Any:
    """Compiled once: left to itself, Triton compiles anew for a site that is 1 and for multiples of 16."""
    return triton.jit(kernel, do_not_specialize=["site"])


@triton.jit
def mix(x):
    """Every bit of the result depends on every bit of x."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def keys_of(seed_ptr, site, number):
    """A strong hash of a row or column, odd."""
    key = mix(tl.load(seed_ptr).to(tl.uint32) + site)
    return mix(mix(number.to(tl.uint32) + key) ^ key) | 1


@triton.jit
def is_kept(rows, columns, threshold):
    """Of a row's and a column's key: their product's high bits are as good as drawn (a test measures it)."""
    return rows * columns >= threshold


@jit_for_all_sites
def _write_keys(seed_ptr, keys_ptr, site, count, BLOCK: tl.constexpr):
    numbers = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(keys_ptr + numbers, keys_of(seed_ptr, site, numbers).to(tl.int32, bitcast=True), mask=numbers < count)


@triton.jit
def read_keys(keys_ptr, numbers):
    return tl.load(keys_ptr + numbers).to(tl.uint32, bitcast=True)


def write_keys(seed: Tensor, site: int, count: int) -> Tensor:
    """For kernels whose threads would each compute the same ones. A last block may reach past the end."""
    count += MOST_PAST_THE_END
    keys = torch.empty(count, dtype=torch.int32, device=seed.device)
    launch(_write_keys, triton.cdiv(count, 256), seed, keys, site, count, BLOCK=256)
    return keys


def threshold_of(dropout: float) -> int:
    return min(2**32 - 1, round(dropout * 2**32))
