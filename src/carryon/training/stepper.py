"""One optimizer step, as fast as the device allows."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from .. import fused
from ..config import RunConfig, TrainConfig
from ..devices import describe_device, is_out_of_memory, pick_precision
from ..errors import OutOfMemory, Unsupported
from ..model import Decoder, LanguageModel, cross_entropy, run_block
from ..rng import Label, Stream
from .averaging import Average
from .display import Display
from .feeds import Feed
from .loading import seed_torch
from .optimizer import AdamW
from .team import Team

if TYPE_CHECKING:
    from ..fused.loss import FusedLoss


_KERNELS = "the Triton kernels"
_STEPS_WORTH_COMPILING = 1_000
"""Of models of other kinds: compiling a layer takes 5 to 8 s on an H200, and saves 3 to 15 ms a step."""


class Stepper:
    """Takes optimizer steps, as fast as the device allows.

    On CUDA the loss goes through our kernels or, where they do not fit the model, compiled blocks (those of another
    library's model if the run is long); and after a few ordinary steps the whole step becomes a CUDA graph. Where any
    of it fails it says so and goes on without.
    """

    _ORDINARY_STEPS = 4
    """Before the graph is recorded: they compile, and make the optimizer allocate its state."""

    def __init__(
        self, config: RunConfig, model: LanguageModel, feed: Feed, team: Team, compile: str, display: Display
    ) -> None:
        self._config, self._model, self._feed, self._team, self._display = config, model, feed, team, display
        self.precision = pick_precision(config.train.precision, team.device)
        on_gpu = team.device.type == "cuda"
        self.optimizer = AdamW(model, config.train, team.device)
        self._average = Average(model, config.train.average) if config.train.average else None
        self._scaler = torch.amp.GradScaler("cuda", enabled=self.precision == torch.float16 and on_gpu)
        fast = on_gpu if compile == "auto" else compile == "on"
        self._ways = self._find_ways(fast)
        self._way = self._ways.pop(0)
        self._wants_graph = fast and on_gpu and team.size == 1 and not self._scaler.is_enabled()
        self._turned_at = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._static: tuple[Tensor, Tensor, Tensor | None] | None = None
        self._loss = torch.zeros((), device=team.device)
        self._loss_sum = torch.zeros((), device=team.device)
        self._losses = 0
        self.steps_taken, self.tokens_read, self.seconds = 0, 0, 0.0

    @property
    def tokens_per_second(self) -> float:
        return self.tokens_read / max(self.seconds, 1e-9)

    def turn_to(self, feed: Feed) -> None:
        """Batches come from there from now on. They may have another shape: a recorded step is of no more use."""
        self._feed = feed
        self._wants_graph = self._wants_graph or self._graph is not None
        self._graph = self._static = None
        self._turned_at = self.steps_taken

    def take(self, step: int, lr: float) -> None:
        started = time.perf_counter()
        self.optimizer.set_lr(lr)
        try:
            self._take(step, self._feed.batch(step))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            train = self._config.train
            raise OutOfMemory(
                f"a batch of {train.batch_size} rows, {self._feed.tokens_per_step:,} tokens, does not fit the device "
                f"({describe_device(self._team.device)}): raise train.accumulation (now {train.accumulation}) "
                "or lower train.batch_size"
            ) from None
        self._loss_sum += self._loss
        self._losses += 1
        self.steps_taken += 1
        self.tokens_read += self._feed.tokens_per_step
        self.seconds += time.perf_counter() - started

    def loss(self) -> float:
        """The newest loss."""
        return self._read(self._loss)

    def mean_loss(self) -> float | None:
        """Since it was last asked for."""
        mean = self._read(self._loss_sum) / self._losses if self._losses else None
        self._loss_sum.zero_()
        self._losses = 0
        return mean

    def _read(self, number: Tensor) -> float:
        """Asking waits until the device has taken the steps it was given, which is part of what they took."""
        started = time.perf_counter()
        value = float(number)
        self.seconds += time.perf_counter() - started
        return value

    def _take(self, step: int, batch: tuple[Tensor, Tensor, Tensor | None]) -> None:
        if self._config.model.draws:
            self._way.reseed("dropout", self._config.seed, step, self._team.rank)
        if self._average is not None:
            self._average.begin(step)
        if self._graph is not None and self._static is not None:
            for buffer, value in zip(self._static, batch, strict=True):
                if buffer is not None and value is not None:
                    buffer.copy_(value)
            self._graph.replay()
            return
        if self._wants_graph and self.steps_taken - self._turned_at == self._ORDINARY_STEPS:
            self._record(batch)
            self._take(step, batch)
            return
        try:
            self._ordinary(batch)
        except Exception as error:
            if not self._ways or is_out_of_memory(error):
                raise
            if self._team.size > 1:  # going another way alone would leave the others waiting
                raise Unsupported(
                    f"{self._way.name} failed in one of {self._team.size} processes ({_first_line(error)}): "
                    "'--compile off' goes without it"
                ) from error
            self._display.say(f"{self._way.name} failed here ({_first_line(error)}): going on without it")
            self._way = self._ways.pop(0)
            self.optimizer.zero_grad()
            self._take(step, batch)

    def _ordinary(self, batch: tuple[Tensor, Tensor, Tensor | None]) -> None:
        """Forward, backward, clip, update."""
        self._model.train()
        inputs_BT, targets_BT, mask_BT = batch
        # The mean over the whole batch, whatever pieces and processes it is cut into.
        if mask_BT is None:
            count: float | Tensor = targets_BT.numel() * self._team.size
        else:
            count = mask_BT.sum()
            if self._team.size > 1:
                dist.all_reduce(count)
        total = torch.zeros((), device=self._team.device)
        pieces = self._config.train.accumulation
        masks = mask_BT.chunk(pieces) if mask_BT is not None else (None,) * pieces
        for inputs, targets, mask in zip(inputs_BT.chunk(pieces), targets_BT.chunk(pieces), masks, strict=True):
            loss = self._way.loss(inputs, targets, mask) / count
            self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        if self._team.size > 1:
            dist.all_reduce(total)
        self._team.average_gradients(self._model)
        if self._config.train.grad_clip:
            self._scaler.unscale_(self.optimizer)  # type: ignore[arg-type]
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._config.train.grad_clip)
        self._scaler.step(self.optimizer)  # type: ignore[arg-type]
        self._scaler.update()
        if self._average is not None:
            self._average.follow()
        self.optimizer.zero_grad()
        self._loss.copy_(total)

    def _record(self, batch: tuple[Tensor, Tensor, Tensor | None]) -> None:
        """The step as a CUDA graph: one launch instead of hundreds."""
        self._wants_graph = False
        self._static = tuple(value.clone() if value is not None else None for value in batch)  # type: ignore[assignment]
        assert self._static is not None
        graph = torch.cuda.CUDAGraph()
        try:
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                self._ordinary(self._static)
            self._graph = graph
        except Exception as error:
            if is_out_of_memory(error):
                raise
            self._display.say(f"a CUDA graph could not be recorded ({_first_line(error)}): going on without it")
            self.optimizer.zero_grad()

    def _find_ways(self, fast: bool) -> list["_Plain | _Fused"]:
        """How the loss can be had, the best first."""
        place = (self._model, self._team.device, self.precision)
        plain = _Plain(*place)
        if not fast:
            return [plain]
        ways: list[_Plain | _Fused] = [_Compiled(*place), plain]
        if fused.available(self._team.device):
            try:
                from ..fused.cross_entropy import cross_entropy
                from ..fused.loss import FusedLoss

                if not isinstance(self._model, Decoder):
                    ways = [_Compiled(*place, cross_entropy), _FusedEnd(*place, cross_entropy), plain]
                elif FusedLoss.fits(self._model, self.precision):
                    ways.insert(0, _Fused(FusedLoss(self._model, self.precision)))
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                self._display.say(f"{_KERNELS} cannot be had here ({_first_line(error)}): going on without them")
        if self._config.train.steps < _STEPS_WORTH_COMPILING and not isinstance(self._model, Decoder):
            ways = [way for way in ways if not isinstance(way, _Compiled)]
        return ways

    def as_asked(self) -> AbstractContextManager[None]:
        """The model as it is asked: with the mean of its weights, if one is kept."""
        return self._average.in_place() if self._average is not None else nullcontext()

    def finish(self) -> None:
        """The model stays as it is asked."""
        if self._average is not None:
            self._average.keep()

    # --- what resuming needs ----------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {}
        for name, parameter in self._model.named_parameters():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
        if self._average is not None:
            tensors |= {f"average.{name}": mean for name, mean in self._average.means.items()}
        return tensors, {"scaler": self._scaler.state_dict()}

    def load_state(self, arrays: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        for name, parameter in self._model.named_parameters():
            for key in ("step", "exp_avg", "exp_avg_sq"):
                if (value := arrays.get(f"optimizer.{name}.{key}")) is not None:
                    tensor = torch.from_numpy(np.array(value))
                    where = "cpu" if key == "step" and self._team.device.type == "cpu" else self._team.device
                    self.optimizer.state[parameter][key] = tensor.to(where)
        if self._average is not None:
            self._average.load(
                {name: torch.from_numpy(np.array(arrays[f"average.{name}"])) for name in self._average.means}
            )
        if state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])


class _Plain:
    """The loss as the model computes it."""

    name = "the model itself"

    def __init__(
        self,
        model: LanguageModel,
        device: torch.device,
        precision: torch.dtype,
        cross_entropy: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
    ) -> None:
        self._model, self._device, self._precision, self._cross_entropy = model, device, precision, cross_entropy

    def reseed(self, *labels: Label) -> None:
        seed_torch(*labels)

    def loss(self, inputs_BT: Tensor, targets_BT: Tensor, mask_BT: Tensor | None) -> Tensor:
        self._model.cross_entropy, self._model.run_block = self._cross_entropy, self._run_block()
        if self._precision == torch.float32:
            return self._model.loss(inputs_BT, targets_BT, mask_BT)
        with torch.autocast(self._device.type, dtype=self._precision):
            return self._model.loss(inputs_BT, targets_BT, mask_BT)

    def _run_block(self) -> Callable[..., Any]:
        return run_block


class _Compiled(_Plain):
    """The same, its blocks compiled."""

    name = "torch.compile"

    def _run_block(self) -> Callable[..., Any]:
        return _compiled_block(self._device.type, self._precision)


class _FusedEnd(_Plain):
    """A model of another kind, with our kernel where its scores are compared with the targets."""

    name = _KERNELS


class _Fused:
    """The loss through our kernels."""

    name = _KERNELS

    def __init__(self, loss: "FusedLoss") -> None:
        self._loss, self._is_compiled = loss, False

    def reseed(self, *labels: Label) -> None:
        seed_torch(*labels)  # by which ids are drawn
        self._loss.reseed(int(Stream(*labels).words(1)[0]))

    def loss(self, inputs_BT: Tensor, targets_BT: Tensor, mask_BT: Tensor | None) -> Tensor:
        if not self._is_compiled:
            self._is_compiled = True
            try:
                self._loss.compile(inputs_BT, targets_BT, mask_BT)
            except Exception as error:  # launched, they are compiled as well, and say what is wrong with them
                if is_out_of_memory(error):
                    raise
        return self._loss(inputs_BT, targets_BT, mask_BT)


@cache
def _compiled_block(device: str, precision: torch.dtype) -> Callable[..., Any]:
    """One for all runs of a process: a second model of the same shape finds its code compiled."""
    # A process may train models of many shapes; after eight of them torch would give up compiling.
    dynamo: Any = torch._dynamo.config
    dynamo.recompile_limit = max(dynamo.recompile_limit, 64)
    return torch.compile(block_in(device, precision), dynamic=False)


def block_in(device: str, precision: torch.dtype) -> Callable[..., Any]:
    """`run_block` that enters its precision itself, so that the precision is part of what is compiled.

    torch 2.11 keeps compiled code on disk by its graph, and takes code made under float16 for the same graph under
    bfloat16: without loss scaling, such a run learns nothing.
    """
    if precision == torch.float32:
        return run_block

    def run(forward: Callable[..., Any], block: torch.nn.Module, *inputs: Any, **more: Any) -> Any:
        with torch.autocast(device, dtype=precision):
            return run_block(forward, block, *inputs, **more)

    return run


def lr_at(step: int, train: TrainConfig) -> float:
    """Up from zero over the warm-up, then down to final_lr * lr, along a cosine or over the last steps alone."""
    if step < train.warmup_steps:
        return train.lr * (step + 1) / (train.warmup_steps + 1)
    if train.schedule == "cosine":
        done = (step - train.warmup_steps) / max(1, train.steps - train.warmup_steps)
        height = 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    else:
        height = min(1.0, max(0, train.steps - step) / max(1, round(train.falling * train.steps)))
    return train.lr * (train.final_lr + (1 - train.final_lr) * height)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120] if str(error).strip() else ''}"
