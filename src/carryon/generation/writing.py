"""Rows of tokens, written one token at a time.

Shapes: B rows, S tokens of a row, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..model import LanguageModel
from .choosing import Choice
from .recording import recorder_on

_STEPS_WORTH_RECORDING = 4
_PLACES_AT_ONCE = 64
"""A recorded step reads rows up to a multiple of this, so that it serves for a while."""


class Page:
    """Prompts, and what a model writes behind them.

    Rows are padded on the right, and every row writes at its own place of the cache. All that a step needs lies on the
    device: on CUDA it is recorded and repeated.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompts: Sequence[Any],
        new: int,
        choice: Choice,
        chances_BS: Tensor | None,
        precision: torch.dtype,
    ) -> None:
        """Reads the prompts, and writes the first of up to `new` tokens behind each."""
        self._model, self._choice, self._chances_BS = model, choice, chances_BS
        self._device = next(model.parameters()).device
        self._starts = np.array([len(prompt) for prompt in prompts])
        self._longest = int(self._starts.max())
        self._total = min(model.context, self._longest + new)
        # One place more than there are: what rows write that have reached the context's end before others goes there.
        self._tokens_BS = torch.zeros(len(prompts), self._total + 1, dtype=torch.int64, device=self._device)
        self._tokens_BS[:, : self._longest] = torch.from_numpy(_padded(prompts)).to(self._device)
        model.check(self._tokens_BS[:, : self._longest], more=1)
        self._lengths_B = torch.from_numpy(self._starts).to(self._device)
        self._cache = model.new_cache(len(prompts), self._total, self._device, precision)
        self._step = torch.zeros((), dtype=torch.int64, device=self._device)
        self._recorder = recorder_on(self._device) if model.can_be_recorded else None
        self._graph: torch.cuda.CUDAGraph | None = None
        """A recorded step, that reads …"""
        self._recorded = 0
        """… so many tokens of each row."""
        self._append(model.first_scores(self._tokens_BS[:, : self._longest], self._lengths_B, self._cache))
        self.written = 1
        """How many tokens every row was given."""

    def write(self, count: int) -> None:
        """So many tokens more for every row."""
        for left in reversed(range(count)):
            seen = self._longest + self.written
            if self._graph is not None and seen <= self._recorded:
                self._graph.replay()
            else:
                self._go_on(seen)
                if self._recorder is not None and left >= _STEPS_WORTH_RECORDING:
                    self._record(seen + left)
            self.written += 1

    def read(self) -> list[Any]:
        """What was written, row by row."""
        ids = self._tokens_BS[:, : self._total].cpu().numpy()
        return [row[start : start + self.written] for row, start in zip(ids, self._starts, strict=True)]

    def keep(self, rows: Any) -> None:
        """Drop all rows but these."""
        self._starts = self._starts[rows]
        kept = torch.from_numpy(rows).to(self._device)
        self._tokens_BS, self._lengths_B = self._tokens_BS[kept], self._lengths_B[kept]
        self._chances_BS = self._chances_BS[kept] if self._chances_BS is not None else None
        self._cache.keep(kept)
        self._graph = None

    def _record(self, seen: int) -> None:
        """The step just taken, to be repeated until rows have so many tokens, at least."""
        assert self._recorder is not None
        self._recorded = -(-seen // _PLACES_AT_ONCE) * _PLACES_AT_ONCE
        self._graph = self._recorder.record(lambda: self._go_on(self._recorded))
        if self._graph is None:
            self._recorder = None

    def _go_on(self, seen: int) -> None:
        """Read each row's last token, and write the next. Of the rows no more than `seen` tokens are there."""
        at_B = (self._lengths_B + self._step - 1).clamp(max=self._total - 1)
        self._append(self._model.next_scores(self._tokens_BS[:, : min(self._total, seen)], at_B, self._cache))

    def _append(self, scores_BV: Tensor) -> None:
        chances_BS, at_B = self._chances_BS, (self._lengths_B + self._step).clamp(max=self._total)
        chances_B1 = chances_BS.index_select(1, self._step.view(1)) if chances_BS is not None else None
        self._tokens_BS.scatter_(1, at_B.unsqueeze(1), self._choice(scores_BV, chances_B1).unsqueeze(1))
        self._step.add_(1)


def _padded(rows: Sequence[Any]) -> Any:
    """Rows of ids as one array, padded on the right with 0."""
    lengths = np.array([len(row) for row in rows])
    padded = np.zeros((len(rows), int(lengths.max())), np.int64)
    padded[np.arange(padded.shape[1])[None] < lengths[:, None]] = np.concatenate(rows)
    return padded
