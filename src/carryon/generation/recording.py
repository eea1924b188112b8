"""CUDA graphs of what is done many times over: small kernels take longer to launch than to run."""

from collections.abc import Callable
from functools import cache
from warnings import warn

import torch

from ..devices import is_out_of_memory


class Recorder:
    """Records one thing at a time, all in the same memory.

    torch's own context manager would give all memory that is free back to the device first, every time.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._newest: torch.cuda.CUDAGraph | None = None
        self._works = True

    def record(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """What the step does to tensors that are there already; None where it cannot be had.

        It has to have been done before: while it is recorded, nothing can be loaded.
        """
        if not self._works:
            return None
        try:
            return self._record(step)
        except RuntimeError as error:
            self._works = out_of_memory = is_out_of_memory(error)
            if not out_of_memory:
                warn(f"a CUDA graph could not be recorded ({error}): writing goes on without", stacklevel=2)
        if out_of_memory:
            self.forget()
        return None

    def forget(self) -> None:
        """Give all memory back."""
        self._newest, self._pool = None, torch.cuda.graph_pool_handle()
        torch.cuda.empty_cache()

    def _record(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        here = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                step()
            finally:
                graph.capture_end()
        here.wait_stream(self._stream)
        self._newest = graph  # the memory is the next one's, as long as there always is one
        return graph


@cache
def recorder_on(device: torch.device) -> Recorder | None:
    """One for all who write there: memory is kept by stream, and so are the libraries' workspaces."""
    return Recorder(device) if device.type == "cuda" else None
