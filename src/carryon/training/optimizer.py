"""torch's AdamW without the class around it: that class imports torch's compiler, which takes a second and a half."""

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from ..config import TrainConfig


class AdamW:
    """AdamW; decay on matrices only, since norms have nothing to gain from shrinking."""

    def __init__(self, model: nn.Module, train: TrainConfig, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        trained = [p for p in model.parameters() if p.requires_grad]
        matrices = [p for p in trained if p.dim() >= 2]
        others = [p for p in trained if p.dim() < 2]
        self.param_groups: list[dict[str, Any]] = [
            {"params": matrices, "weight_decay": train.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        """As the class has them: torch's scaler of gradients looks for its parameters here."""
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        """By parameter: step, exp_avg and exp_avg_sq, from its first step on."""
        # On the device, so that a recorded step can be replayed with another one.
        self._lr: float | Tensor = torch.tensor(train.lr, device=device) if on_gpu else train.lr
        self._options: dict[str, Any] = {
            "fused": device.type in ("cuda", "cpu"),
            "capturable": on_gpu,
            "amsgrad": False,
            "beta1": train.beta1,
            "beta2": train.beta2,
            "eps": 1e-8,
            "maximize": False,
        }

    def set_lr(self, lr: float) -> None:
        if isinstance(self._lr, Tensor):
            self._lr.fill_(lr)
        else:
            self._lr = lr

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            states = [self._state_of(p) for p in params]
            adamw(
                params,
                [p.grad for p in params],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                lr=self._lr,
                weight_decay=group["weight_decay"],
                **self._options,
            )

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        state = self.state[parameter]
        if not state:
            counted_on = parameter.device if self._options["fused"] else "cpu"
            state["step"] = torch.zeros((), dtype=torch.float32, device=counted_on)
            state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(parameter) for _ in range(2))
        return state
