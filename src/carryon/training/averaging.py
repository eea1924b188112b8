"""A running mean of the weights: accuracy at lengths that training does not show wanders from step to step, the mean's
hardly does.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """Follows a model's trained weights. With step n the mean keeps a part `decay` of itself, or (n + 1) / (n + 10)
    while that is less, so that it does not remember where training began.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self._weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.means: dict[str, Tensor] = {name: weight.detach().clone() for name, weight in self._weights.items()}
        # On the device, so that a recorded step can be replayed with another one.
        self._part = torch.zeros((), device=next(iter(self._weights.values())).device)

    def begin(self, step: int) -> None:
        self._part.fill_(1 - min(self._decay, (step + 1) / (step + 10)))

    @torch.no_grad()
    def follow(self) -> None:
        means = list(self.means.values())
        ahead = torch._foreach_sub(list(self._weights.values()), means)
        torch._foreach_mul_(ahead, self._part)
        torch._foreach_add_(means, ahead)

    @torch.no_grad()
    def keep(self) -> None:
        """The model has the mean's weights from now on."""
        torch._foreach_copy_(list(self._weights.values()), list(self.means.values()))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the mean's weights in here."""
        before = [weight.detach().clone() for weight in self._weights.values()]
        self.keep()
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(list(self._weights.values()), before)

    def load(self, means: Mapping[str, Tensor]) -> None:
        for name, mean in self.means.items():
            mean.copy_(means[name])
