"""Which token comes next.

Shapes: B rows, S tokens of a row, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..rng import Stream


@dataclass(frozen=True)
class Choice:
    """The likeliest, or one drawn from the likeliest `top_k`, or from all."""

    temperature: float = 0.0
    top_k: int | None = None
    seed: int = 0

    def __call__(self, scores_BV: Tensor, chances_B1: Tensor | None) -> Tensor:
        if chances_B1 is None:
            return scores_BV.argmax(dim=-1)
        scores_BV = scores_BV.float() / self.temperature
        if self.top_k is not None and self.top_k < scores_BV.shape[-1]:
            least_B1 = scores_BV.topk(self.top_k, dim=-1).values[:, -1:]
            scores_BV = scores_BV.masked_fill(scores_BV < least_B1, float("-inf"))
        edges_BV = scores_BV.softmax(dim=-1).cumsum(dim=-1)
        drawn_B1 = chances_B1 * edges_BV[:, -1:]
        return torch.searchsorted(edges_BV, drawn_B1, right=True).squeeze(1).clamp(max=scores_BV.shape[-1] - 1)

    def chances(self, prompts: Sequence[str], count: int, device: torch.device) -> Tensor | None:
        """A number on [0, 1) for each row and step, named by the prompt: the row's place in a batch does not matter."""
        if self.temperature == 0:
            return None
        chances = np.stack([Stream("sample", self.seed, prompt).unit(count) for prompt in prompts])
        return torch.from_numpy(chances.astype(np.float32)).to(device)
