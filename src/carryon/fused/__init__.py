"""The model's loss through kernels of our own, for GPUs. Importing `fused.loss` needs Triton: ask `available` first."""

from importlib.util import find_spec

import torch


def available(device: torch.device) -> bool:
    return device.type == "cuda" and find_spec("triton") is not None
