"""Texts a model may have written, to be confirmed in one pass each.

Shapes: N texts, B rows, S and T tokens of a row.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data import Rows


class Draft(NamedTuple):
    """Texts of about one length."""

    rows: Any
    """Their numbers."""
    tokens_BS: Tensor
    counts_BS: Tensor
    """Which tokens, but for the first, the model is to write."""
    place: int
    """Of the last token before all of those."""
    alike: int
    """How many tokens the rows have in common."""


def make_drafts(
    rows: Rows, order: Any, lengths: Any, most_rows: int, most_tokens: int, device: torch.device
) -> list[Draft]:
    """Those of the texts that are in `order`, from the shortest to the longest."""
    alike = _alike(rows.tokens_BT[order])
    drafts = []
    start = 0
    while start < len(order):
        longest = int(lengths[order[min(start + most_rows, len(order)) - 1]])
        most = max(1, min(most_rows, most_tokens // longest))
        chunk = order[start : start + _rows_alike(alike[start : start + most + 1])]
        width = int(lengths[chunk].max())
        tokens_BS, mask_BS = rows.tokens_BT[chunk, :width], rows.mask_BT[chunk, 1:width]
        shared = int(alike[start + 1 : start + len(chunk)].min(initial=width))
        start += len(chunk)
        tokens, mask = (torch.from_numpy(array).to(device) for array in (tokens_BS, mask_BS))
        drafts.append(Draft(chunk, tokens, mask, int(mask_BS.any(axis=0).argmax()) if width > 1 else 0, shared))
    return drafts


def _alike(tokens_NT: Any) -> Any:
    """How many tokens each row begins with that the row before it begins with, too.

    None where there is no row before it; the last number is of the row behind all, which is not there either.
    """
    N, T = tokens_NT.shape
    same_NT = np.zeros((N + 1, T + 1), bool)
    same_NT[1:N, :T] = tokens_NT[1:] == tokens_NT[:-1]
    return same_NT.argmin(axis=1)


def _rows_alike(alike: Any) -> int:
    """How many of some rows to take, at least half: up to where they have the least in common with what follows.

    The last row is the first that cannot be taken.
    """
    half = max(1, len(alike) // 2)
    return len(alike) - 1 - int(alike[half:][::-1].argmin())
