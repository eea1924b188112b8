"""Where tensors live and how numbers are kept there."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from .errors import BadConfig

Precision = torch.dtype
Item = TypeVar("Item")


def pick_device(name: str = "auto") -> torch.device:
    """The device a user asked for, or the fastest that is there. Of several GPUs it becomes the current one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
        if device.type == "cuda" and device.index is not None:
            # CUDA graphs and Triton use the current GPU, whatever the tensors say.
            torch.cuda.set_device(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        there = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        there += ["mps"] if torch.backends.mps.is_available() else []
        # Of other devices torch tells what it was built with, at length.
        reason = f" ({str(error).splitlines()[0][:100]})" if name.startswith("cuda") else ""
        raise BadConfig(f"device {name!r} is not there{reason}; choose from auto, {', '.join(there)}") from None
    return device


def pick_precision(name: str, device: torch.device) -> torch.dtype:
    """bfloat16 on GPUs that have it in hardware, float16 on older ones (T4, 2080), float32 elsewhere."""
    if name != "auto":
        if name == "float16" and device.type == "cpu":
            raise BadConfig("precision float16 is for GPUs; on the CPU choose float32 or bfloat16")
        dtype: torch.dtype = getattr(torch, name)
        return dtype
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16


def describe_device(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads" if device.type == "cpu" else "Apple GPU"


def finish_work(device: torch.device) -> None:
    """Wait until a device has done all it was given: its queue makes timings lie."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def do_all(work: Callable[[Item], object], items: Sequence[Item], threads: int) -> None:
    """Call `work` with each item; on the CPU in several threads, of which each computes by itself.

    Threads that share one small product wait for each other longer than they compute.
    """
    if threads == 1 or len(items) < 2:
        for item in items:
            work(item)
        return
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(min(threads, len(items)), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(work, items):
                pass
    finally:
        torch.set_num_threads(before)  # those that are begun from now on would compute alone, too


def free_bytes(device: torch.device) -> int:
    """Memory that is still to be had on a GPU; what torch holds without using it counts as free."""
    free, total = torch.cuda.mem_get_info(device)
    used = torch.cuda.memory_allocated(device)
    ours = total * torch.cuda.get_per_process_memory_fraction(_number(device))
    return int(min(free + torch.cuda.memory_reserved(device), ours) - used)


def keep_to_part(device: torch.device, part: float) -> None:
    """Leave the rest of a GPU's memory to the processes it is shared with: what is free now, they may take next."""
    if device.type == "cuda":
        # A twentieth is for what each process holds beside torch's tensors.
        torch.cuda.set_per_process_memory_fraction(0.95 * part, _number(device))


def _number(device: torch.device) -> int:
    """Some functions of torch do not know that "cuda" alone is the current GPU."""
    return torch.cuda.current_device() if device.index is None else device.index


def is_out_of_memory(error: BaseException) -> bool:
    """Memory ran out: on a GPU torch has an error of its own for that, on the CPU only a text."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "allocate memory" in str(error)
    )
