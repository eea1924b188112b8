# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Dropout that draws nothing: whether an element is kept is a hash of (seed, site, row, column).

So the backward pass computes it again instead of reading it back. The seed lies on the device, so that a recorded step
can be replayed with another one; a site is a place in the model where dropout acts.
"""

import triton
import triton.language as tl


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


def threshold_of(dropout: float) -> int:
    return min(2**32 - 1, round(dropout * 2**32))
