"""The processes that train together, and how they are asked to stop."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from ..devices import pick_device
from ..model import LanguageModel


class Team:
    """The processes that train together; usually one."""

    def __init__(self, device: torch.device, rank: int = 0, size: int = 1) -> None:
        self.device, self.rank, self.size = device, rank, size

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def agree(self, yes: bool) -> bool:
        """What the first process says."""
        if self.size == 1:
            return yes
        flag = torch.tensor([int(yes)], device=self.device)
        dist.broadcast(flag, src=0)
        return bool(flag.item())

    def average_gradients(self, model: LanguageModel) -> None:
        if self.size > 1:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    dist.all_reduce(parameter.grad)

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()


@contextmanager
def processes(device: str) -> Iterator[Team]:
    """One process, or as many as torchrun started."""
    size, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    if size == 1:
        yield Team(pick_device(device))
        return
    on_gpu = device != "cpu" and torch.cuda.is_available()
    picked = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank))) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(picked)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Team(picked, rank, size)
    finally:
        dist.destroy_process_group()


class Stopping:
    """Ctrl-C and a polite kill are noted, and obeyed between two steps; a second one is obeyed at once."""

    def __init__(self) -> None:
        self._asked = self._at_once = False

    def __call__(self) -> bool:
        return self._asked

    def from_now_on_at_once(self) -> None:
        """There are no more steps to stop between."""
        self._at_once = True
        if self._asked:
            raise KeyboardInterrupt

    def note(self, number: int, frame: Any) -> None:
        if self._asked or self._at_once:
            raise KeyboardInterrupt
        self._asked = True


@contextmanager
def clean_stop() -> Iterator[Stopping]:
    """What ends a process is told to `Stopping` instead."""
    stopping, before = Stopping(), {}
    try:
        for name in (signal.SIGINT, signal.SIGTERM):
            before[name] = signal.signal(name, stopping.note)
    except ValueError:  # not the main thread: whoever runs us deals with signals
        pass
    try:
        yield stopping
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
