"""Batches on the device. What travels to it is small: the data lies there already.

Shapes: B rows, T tokens, N examples.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ..config import ModelConfig, PretrainedConfig, RunConfig
from ..data import (
    Dataset,
    Fresh,
    FreshWindows,
    Repeated,
    RowBatches,
    Rows,
    Windows,
    make_rows,
    mix_with_text,
    pack,
    split_text,
)
from ..errors import BadConfig
from ..formats import Example
from ..rng import Stream
from ..tokenizers import Ids, Tokenizer
from .team import Team

_Made = tuple[Tensor, Tensor, Tensor | None]


class Feed(Protocol):
    tokens_per_step: int

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """This process's inputs, targets and mask of a step, on the device."""
        ...


class Order(Protocol):
    def indices(self, start: int = 0) -> Iterator[int]:
        """Which example comes as number `start`, and which ones follow."""
        ...


class StreamFeed:
    """Windows of a stream that lies on the device; only their starts travel, many steps' at a time."""

    _STEPS_AT_ONCE = 256

    def __init__(self, windows: Windows, context: int, batch_size: int, team: Team) -> None:
        self._windows, self._team = windows, team
        self._tokens = _lay(np.array(windows.tokens), team)
        self._offsets_1T = torch.arange(context + 1, device=team.device).unsqueeze(0)
        self._rows = _share(batch_size, team)
        self._block = -1
        self.tokens_per_step = batch_size * context

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor | None]:
        block, offset = divmod(step, self._STEPS_AT_ONCE)
        if block != self._block:
            first = block * self._STEPS_AT_ONCE
            starts = np.stack([self._windows.starts(first + i)[self._rows] for i in range(self._STEPS_AT_ONCE)])
            self._starts = torch.from_numpy(starts).to(self._team.device)
            self._block = block
        windows_BT = self._tokens[self._starts[offset].unsqueeze(1) + self._offsets_1T].long()
        return windows_BT[:, :-1], windows_BT[:, 1:], None


class RowFeed:
    """Rows of finite sets that lie on the device; only their numbers travel."""

    _STEPS_AT_ONCE = 256

    def __init__(self, rows: Rows, order: Order, config: RunConfig, team: Team, first_step: int = 0) -> None:
        """`order` says which row comes when, the first of them in `first_step`."""
        _check_context(rows.tokens_BT.shape[1] - 1, config.model)
        self._tokens_NT = _lay(rows.tokens_BT, team)
        self._mask_NT = torch.from_numpy(rows.mask_BT).to(team.device)
        self._order, self._first_step = order, first_step
        self._batch_size, self._team = config.train.batch_size, team
        self._rows = _share(self._batch_size, team)
        self._block = -1
        self.tokens_per_step = self._batch_size * (rows.tokens_BT.shape[1] - 1)

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor | None]:
        block, offset = divmod(step - self._first_step, self._STEPS_AT_ONCE)
        if block != self._block:
            count = self._STEPS_AT_ONCE * self._batch_size
            numbers = np.fromiter(islice(self._order.indices(block * count), count), np.int64, count)
            numbers = numbers.reshape(self._STEPS_AT_ONCE, self._batch_size)[:, self._rows]
            self._numbers = torch.from_numpy(np.ascontiguousarray(numbers)).to(self._team.device)
            self._block = block
        numbers_B = self._numbers[offset]
        tokens_BT = self._tokens_NT[numbers_B].long()
        return tokens_BT[:, :-1], tokens_BT[:, 1:], self._mask_NT[numbers_B][:, 1:]


class FreshFeed:
    """Batches of new problems, made on the host: the next while the device takes its step."""

    def __init__(self, batches: FreshWindows | RowBatches, batch_size: int, width: int, team: Team) -> None:
        self._batches, self._team = batches, team
        self._rows = _share(batch_size, team)
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._next: tuple[int, Future[_Made]] | None = None
        self.tokens_per_step = batch_size * width

    def batch(self, step: int) -> _Made:
        ahead = self._next if self._next is not None and self._next[0] == step else None
        # Whatever is made, one thread makes it: two would disturb each other in a source that keeps its newest block.
        inputs, targets, mask = (ahead or (step, self._maker.submit(self._make, step)))[1].result()
        self._next = step + 1, self._maker.submit(self._make, step + 1)
        return self._send(inputs), self._send(targets), None if mask is None else self._send(mask)

    def _make(self, step: int) -> _Made:
        inputs_BT, targets_BT, mask_BT = self._batches.batch(step)
        inputs, targets = (torch.from_numpy(ids[self._rows].astype(np.int64)) for ids in (inputs_BT, targets_BT))
        return inputs, targets, None if mask_BT is None else torch.from_numpy(mask_BT[self._rows])

    def _send(self, values: Tensor) -> Tensor:
        """A copy from pinned memory waits for no step that the device still takes."""
        on_gpu = self._team.device.type == "cuda"
        return (values.pin_memory() if on_gpu else values).to(self._team.device, non_blocking=on_gpu)


def training_examples(parts: Sequence[Dataset], seed: int) -> list[Example]:
    """All training examples; those of several data sets are shuffled together."""
    examples = [example for part in parts for example in part.examples("train")]
    if len(parts) == 1:
        return examples
    return [examples[index] for index in Stream("mix", seed).permutation(len(examples)).tolist()]


def make_feed(config: RunConfig, parts: Sequence[Dataset], tokenizer: Tokenizer, team: Team) -> Feed:
    train, context = config.train, config.window
    if train.batch_size % (team.size * train.accumulation):
        raise BadConfig(
            f"train.batch_size {train.batch_size} cannot be shared by {team.size} processes "
            f"in {train.accumulation} pieces: make it a multiple of {team.size * train.accumulation}"
        )
    if train.endless:
        source = Fresh(config.data, config.seed, train.grow * train.batch_size)
        if train.packing == "rows":
            longest = max(len(tokenizer.encode(e.text)) for e in parts[0].examples("train"))
            _check_context(longest - 1, config.model)
            rows = RowBatches(source, tokenizer, longest, train.batch_size, train.loss)
            return FreshFeed(rows, train.batch_size, longest - 1, team)
        fresh = FreshWindows(source, tokenizer, context, train.batch_size, config.seed)
        return FreshFeed(fresh, train.batch_size, context, team)
    if train.packing == "rows":
        examples = training_examples(parts, config.seed)
        return RowFeed(make_rows(examples, tokenizer, loss=train.loss), Repeated(examples, config.seed), config, team)
    tokens = _stream(config, parts, tokenizer)
    return StreamFeed(Windows(tokens, context, train.batch_size, config.seed), context, train.batch_size, team)


def _stream(config: RunConfig, parts: Sequence[Dataset], tokenizer: Tokenizer) -> Ids:
    """All there is to train on, one after the other."""
    if config.text is None or config.text.mixing == "none":
        return pack(training_examples(parts, config.seed), tokenizer)
    examples = [list(part.examples("train")) for part in parts]
    mixed = mix_with_text(split_text(config.text).train, examples, config.text.mixing, config.seed)
    return tokenizer.encode("".join(mixed))


def _check_context(longest: int, model: ModelConfig | PretrainedConfig) -> None:
    if longest > model.context:
        raise BadConfig(f"examples of {longest} tokens do not fit model.context {model.context}: set it to {longest}")


def _lay(ids: Ids, team: Team) -> Tensor:
    """Ids on the device, ready to be picked from: CUDA picks from no kind without a sign but bytes."""
    return torch.from_numpy(ids if ids.dtype == np.uint8 else ids.astype(np.int32)).to(team.device)


def _share(batch_size: int, team: Team) -> slice:
    rows = batch_size // team.size
    return slice(team.rank * rows, (team.rank + 1) * rows)
