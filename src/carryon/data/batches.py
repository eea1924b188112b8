"""Examples as arrays of token ids: packed streams cut into windows, or padded rows.

    windows   …5$⏎$12+7=91$⏎$55+6…      the paper's way: a random place in one long stream, loss on every token
    rows      $12+7=91$⏎□□□□            one example a row, loss on all of it or on the answer alone

Batch number `step` depends on (seed, step) and nothing before it. Shapes: B rows, T tokens.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import BadConfig
from ..formats import Example, Texts
from ..rng import Stream
from ..tokenizers import Characters, Ids, Tokenizer
from .sources import Source


class Batch(NamedTuple):
    inputs_BT: Ids
    targets_BT: Ids
    mask_BT: NDArray[np.bool_] | None
    """Which targets count; None: all of them."""


class Rows(NamedTuple):
    tokens_BT: Ids
    mask_BT: NDArray[np.bool_]
    """Which tokens the model is asked to write."""

    def batch(self) -> Batch:
        return Batch(self.tokens_BT[:, :-1], self.tokens_BT[:, 1:], self.mask_BT[:, 1:])


def pack(examples: Iterable[Example], tokenizer: Tokenizer) -> Ids:
    """All examples in one stream of tokens."""
    return tokenizer.encode("".join(example.text for example in examples))


class Windows:
    """Random windows of a stream. A stream shorter than a window is repeated until it is long enough."""

    def __init__(self, tokens: Ids, context: int, batch_size: int, seed: int = 0) -> None:
        if not len(tokens):
            raise BadConfig("there is nothing to train on: the stream has no tokens")
        self.tokens = np.tile(tokens, -(-(context + 1) // len(tokens))) if len(tokens) <= context else tokens
        self._context, self._batch_size, self._seed = context, batch_size, seed

    def starts(self, step: int) -> NDArray[np.int64]:
        """Where the windows of a step begin."""
        return Stream("batch", self._seed, step).below(len(self.tokens) - self._context, self._batch_size)

    def batch(self, step: int) -> Batch:
        windows = self.tokens[self.starts(step)[:, None] + np.arange(self._context + 1)]
        return Batch(windows[:, :-1], windows[:, 1:], None)


class FreshWindows:
    """Windows of a stream that is renewed as fast as it is used: block k serves the same number of steps as any."""

    def __init__(
        self,
        source: Source,
        tokenizer: Tokenizer,
        context: int,
        batch_size: int,
        seed: int = 0,
        block_examples: int = 10_000,
    ) -> None:
        self._source, self._tokenizer = source, tokenizer
        self._context, self._batch_size, self._seed = context, batch_size, seed
        self._block_examples = block_examples
        self._block = -1
        self._windows = self._windows_of(0)
        # As many steps as it takes to read a block once. Fixed by the first block, so that a step finds its block.
        self.steps_per_block = max(1, self._num_tokens // (batch_size * context))

    def batch(self, step: int) -> Batch:
        return self._windows_of(step // self.steps_per_block).batch(step)

    def _windows_of(self, block: int) -> Windows:
        if block != self._block:
            examples = self._source.take(self._block_examples, start=block * self._block_examples)
            tokens = pack(examples, self._tokenizer)
            self._num_tokens = len(tokens)
            self._windows = Windows(tokens, self._context, self._batch_size, self._seed)
            self._block = block
        return self._windows


class RowBatches:
    """Rows of a source, in its order."""

    def __init__(
        self,
        source: Source,
        tokenizer: Tokenizer,
        width: int,
        batch_size: int,
        loss: Literal["all", "answer"] = "answer",
    ) -> None:
        self._source, self._tokenizer = source, tokenizer
        self._width, self._batch_size, self._loss = width, batch_size, loss

    def batch(self, step: int) -> Batch:
        examples = self._source.take(self._batch_size, start=step * self._batch_size)
        return make_rows(examples, self._tokenizer, self._width, self._loss).batch()


def make_rows(
    examples: Sequence[Example] | Texts,
    tokenizer: Tokenizer,
    width: int | None = None,
    loss: Literal["all", "answer"] = "answer",
) -> Rows:
    """One example a row, padded on the right with id 0 to `width` tokens (None: to the longest).

    The mask marks the tokens that count: the completion's with loss "answer", the prompt's too with "all".
    """
    texts = examples if isinstance(examples, Texts) else Texts.of([(e.prompt, e.completion) for e in examples])
    tokens, prompt_lengths, lengths = _encode_each(texts, tokenizer)
    longest = int(lengths.max(initial=0))
    width = longest if width is None else width
    if longest > width:
        prompt, completion = list(texts.pairs())[int(lengths.argmax())]
        raise BadConfig(f"an example of {longest} tokens does not fit rows of {width}: {_short(prompt + completion)}")
    places_1T, lengths_B1 = np.arange(width)[None], lengths[:, None]
    filled_BT = places_1T < lengths_B1
    tokens_BT = np.zeros((len(lengths), width), tokens.dtype)
    tokens_BT[filled_BT] = tokens
    mask_BT = filled_BT & (places_1T >= prompt_lengths[:, None]) if loss == "answer" else filled_BT
    return Rows(tokens_BT, mask_BT)


def stack_rows(sets: Sequence[Rows]) -> Rows:
    """Rows of several sets, one set after the other, padded to the longest of all."""
    width = max(rows.tokens_BT.shape[1] for rows in sets)

    def widened(part: NDArray[Any]) -> NDArray[Any]:
        return np.pad(part, ((0, 0), (0, width - part.shape[1])))

    return Rows(
        np.concatenate([widened(rows.tokens_BT) for rows in sets]),
        np.concatenate([widened(rows.mask_BT) for rows in sets]),
    )


def _encode_each(texts: Texts, tokenizer: Tokenizer) -> tuple[Ids, NDArray[Any], NDArray[Any]]:
    """All tokens in one array, with the lengths of each prompt and each example."""
    if isinstance(tokenizer, Characters):
        return tokenizer.encode(texts.text), texts.prompt_lengths, texts.lengths
    # Byte pairs may join across the border: each side is encoded alone, as it is when a prompt is completed.
    flat = tokenizer.encode_each([text for pair in texts.pairs() for text in pair])
    prompts = np.array([len(ids) for ids in flat[::2]], np.int64)
    completions = np.array([len(ids) for ids in flat[1::2]], np.int64)
    return np.concatenate(flat) if flat else np.zeros(0, np.uint16), prompts, prompts + completions


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}…")
