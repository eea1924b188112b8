"""The model's loss through Triton kernels of our own, for GPUs.

Each kernel is an autograd function with hand-written derivatives, and has its plain twin in `model.py`. Importing
`fused.loss` needs Triton: ask `available` first.
"""

from importlib.util import find_spec

import torch


def available(device: torch.device) -> bool:
    """Older GPUs than Ampere have no matrix units that Triton uses, and too little shared memory."""
    return (
        device.type == "cuda"
        and find_spec("triton") is not None
        and torch.version.hip is None
        and torch.cuda.get_device_capability(device) >= (8, 0)
    )
