# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Dropout that draws nothing: whether an element is kept is a hash of (seed, site, row, column).

So the backward pass computes it again instead of reading it back. The seed lies on the device, so that a recorded step
can be replayed with another one; a site is a place in the model where dropout acts. Rows and columns have a key each.
Kernels compute those of their rows; those of columns, which all programs need, are written once a step.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launching import launch

MOST_PAST_THE_END = 128
"""A last block of columns may reach so far."""


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
def stream_of_rows(seed_ptr, site):
    """What a site's rows have in common; to be had before a loop, since stores may change what pointers point to."""
    return mix(tl.load(seed_ptr).to(tl.uint32) + 2 * site)


@triton.jit
def keys_in(stream, numbers):
    """A strong hash of a row or column, odd."""
    return mix(mix(numbers.to(tl.uint32) + stream) ^ stream) | 1


@triton.jit
def is_kept(rows, columns, threshold):
    """Of a row's and a column's key: their product's high bits are as good as drawn (a test measures it)."""
    return rows * columns >= threshold


@triton.jit
def read_keys(keys_ptr, numbers):
    return tl.load(keys_ptr + numbers).to(tl.uint32, bitcast=True)


@triton.jit
def _write_column_keys(seed_ptr, keys_ptr, room, BLOCK: tl.constexpr):
    site = tl.program_id(0) // tl.cdiv(room, BLOCK)
    numbers = tl.program_id(0) % tl.cdiv(room, BLOCK) * BLOCK + tl.arange(0, BLOCK)
    stream = mix(tl.load(seed_ptr).to(tl.uint32) + (2 * site + 1))
    keys = keys_in(stream, numbers).to(tl.int32, bitcast=True)
    tl.store(keys_ptr + site * room + numbers, keys, mask=numbers < room)


@dataclass(frozen=True)
class Drop:
    """Dropout at one site."""

    seed: Tensor
    site: int
    rate: float
    column_keys: Tensor

    @property
    def numbers(self) -> tuple[int, int, float]:
        """For kernels: the site, below which product of keys nothing is kept, and what multiplies the rest."""
        return self.site, min(2**32 - 1, round(self.rate * 2**32)), 1 / (1 - self.rate)


def drop_everywhere(seed: Tensor, sites: int, columns: int, rate: float) -> list[Drop]:
    """Dropout at each site of a step, with no more than so many columns at any."""
    room = triton.next_power_of_2(columns) + MOST_PAST_THE_END
    keys = torch.empty((sites, room), dtype=torch.int32, device=seed.device)
    launch(_write_column_keys, sites * triton.cdiv(room, 256), seed, keys, room, BLOCK=256)
    return [Drop(seed, site, rate, of_site) for site, of_site in enumerate(keys)]
