# mypy: disable-error-code="no-untyped-call"
"""Where kernels are launched; or all compiled at once, by going through a step without them.

Compiling takes a kernel up to two seconds, and a step meets a dozen of them one after the other.
"""

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

_Call = tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]

_ahead: defaultdict[Any, set[_Call]] | None = None
"""Calls by kernel, while they are only noted; the backward pass has a thread of its own, so this is no thread's."""


def launch(kernel: Any, programs: int, *arguments: Any, **settings: Any) -> None:
    """So many programs, along one axis: the others of a grid end at 65,535."""
    settings["enable_fp_fusion"] = True  # a * b + c as one instruction: Triton 3.10 will no longer do so unasked
    if _ahead is None:
        kernel[(programs,)](*arguments, **settings)
    else:
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # a launch opens the GPU for its thread; unopened, the next product would warn
        kinds = tuple(given.dtype if isinstance(given, Tensor) else given for given in arguments)
        _ahead[kernel].add((kinds, tuple(settings.items())))


@contextmanager
def compile_ahead() -> Iterator[None]:
    """Inside, kernels are only noted, and what they would write holds anything; at the end all are compiled."""
    global _ahead
    _ahead = defaultdict(set)
    try:
        yield
        noted = _ahead
    finally:
        _ahead = None
    device = torch.cuda.current_device() if torch.cuda.is_available() else None  # each thread has one of its own
    with ThreadPoolExecutor() as pool:
        list(pool.map(_compile, noted.items(), repeat(device)))


def _compile(noted: tuple[Any, set[_Call]], device: int | None) -> None:
    kernel, calls = noted
    if device is not None:
        torch.cuda.set_device(device)
    for kinds, settings in calls:
        compiled = kernel.warmup(*kinds, grid=(1,), **dict(settings))
        if device is not None:
            _ = compiled.run  # asked for, it is made: some Tritons build a C module here to launch the kernel with
