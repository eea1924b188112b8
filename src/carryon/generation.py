"""Prompts to completions: batched, cached, and the same whatever the batch.

Prompts of different lengths share a batch: rows are padded on the right, and every row writes at its own
place of the cache. Rows that have met their end leave the batch. What is sampled depends on (seed, prompt,
position), so neither batch size nor order changes a completion. (In 16 bits they may change the last bit of a score,
and where two tokens are that close, the token.)

Shapes: B rows, S tokens of a row, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from warnings import warn

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from .data import make_rows
from .devices import free_bytes, is_out_of_memory
from .errors import BadConfig
from .formats import Texts
from .model import LanguageModel
from .rng import Stream
from .tokenizers import Tokenizer

Finished = Callable[[str], bool]
Draft = tuple[Any, Tensor, Tensor, int, int]
"""Numbers of some rows, their tokens, which of these the model is to write, the place of the last token before all of
those, and how many tokens the rows have in common."""

_LOOK_EVERY = 16
"""Steps between looks at which rows are done: a look waits for the device, a step does not."""
_STEPS_WORTH_RECORDING = 4
_PLACES_AT_ONCE = 64
"""A recorded step reads rows up to a multiple of this: the same serves for several looks."""
_ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""All but cuDNN's, which is planned anew for every shape: two seconds for those of all three-digit sums."""
_CACHE_BYTES = {"mps": 2**30, "cpu": 2**28}
_ROWS_AT_ONCE = {"mps": 4_096, "cpu": 1_024}


class Completer:
    """A model as a function from prompts to completions."""

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer,
        finished: Finished,
        max_new_tokens: int,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        seed: int = 0,
        precision: torch.dtype = torch.float32,
        batch_size: int | None = None,
        crop: bool = False,
        remember: bool = False,
    ) -> None:
        self.model, self.tokenizer, self.finished = model, tokenizer, finished
        self.max_new_tokens = max_new_tokens
        self.temperature, self.top_k, self.seed = temperature, top_k, seed
        self.precision = precision
        self.device = next(model.parameters()).device
        if self.device.type == "cuda":
            self._cache_bytes = min(24 * 2**30, free_bytes(self.device) // 3)
            rows = max(256, self._cache_bytes // (768 * 1024))  # 32,768 rows with 24 GiB
        else:
            self._cache_bytes, rows = _CACHE_BYTES[self.device.type], _ROWS_AT_ONCE[self.device.type]
        self.batch_size = batch_size or rows
        self.crop = crop
        """Cut prompts that leave no room for an answer from the left, as the paper's authors did, instead of refusing
        those that do not fit at all."""
        self.cropped = 0
        """How many were cut so far."""
        self.remember = remember
        """Keep the texts to confirm on the device: asking the same again, as training does, costs the pass alone."""
        self._remembered: dict[tuple[int, str], tuple[Texts, list[Draft]]] = {}
        self._records = self.device.type == "cuda" and model.can_be_recorded

    @torch.no_grad()
    def __call__(self, prompts: Sequence[str]) -> list[str]:
        with self.evaluating():
            return self._complete(prompts)

    @torch.no_grad()
    def confirm(self, texts: Texts, prefix: str = "") -> Any:
        """Where the model, given prefix and prompt, would write just this completion, which ends where it is finished.

        One pass over the whole text tells, where writing takes a pass for each token.
        """
        holds = np.zeros(len(texts.lengths), bool)
        if self.temperature:
            return holds
        _, drafts = self._remembered.get((id(texts), prefix)) or (texts, self._prepare(texts, prefix))
        if self.remember:
            self._remembered[id(texts), prefix] = texts, drafts
        with self.evaluating():
            for rows, tokens_BS, counts_BS, place, alike in drafts:
                tokens_BS = tokens_BS.long()
                written_BS = self.model.scores_from(place, tokens_BS[:, :-1], alike).argmax(dim=-1)
                wrong_BS = (written_BS != tokens_BS[:, place + 1 :]) & counts_BS[:, place:]
                holds[rows] = (~wrong_BS.any(dim=1)).cpu().numpy()
        return holds

    def _prepare(self, texts: Texts, prefix: str) -> list[Draft]:
        """Texts as rows on the device, those of one length together; what does not fit the context is left out."""
        if prefix:
            texts = Texts.of([(prefix + prompt, completion) for prompt, completion in texts.pairs()])
        rows = make_rows(texts, self.tokenizer)
        new = rows.mask_BT.sum(axis=1)
        # With byte pairs, rows are as long as their last token that counts.
        lengths = rows.mask_BT.shape[1] - rows.mask_BT[:, ::-1].argmax(axis=1)
        fits = (lengths <= self.model.context) & (new <= self.max_new_tokens)
        if self.crop:
            fits &= lengths - new <= self._longest_prompt()
        elif (lengths - new).max(initial=0) >= self.model.context:
            longest = int((lengths - new).argmax())
            prompt = rows.tokens_BT[longest, : lengths[longest] - new[longest]]
            self._fit(prompt, self.tokenizer.decode(prompt))  # refused now, not once it has to be written
        order = np.flatnonzero(fits)[np.argsort(lengths[fits], kind="stable")]
        alike = _alike(rows.tokens_BT[order])
        drafts = []
        start = 0
        # Every token is given scores at once, of large vocabularies more than all else takes.
        token_bytes = 8 * self.model.vocab_size + self.model.working_numbers_per_token * self._bytes_per_number
        at_once = min(16 * self.batch_size, self._cache_bytes // token_bytes)
        while start < len(order):
            longest = int(lengths[order[min(start + self.batch_size, len(order)) - 1]])
            most = max(1, min(self.batch_size, at_once // longest))
            chunk = order[start : start + _rows_alike(alike[start : start + most + 1])]
            width = int(lengths[chunk].max())
            tokens_BS, mask_BS = rows.tokens_BT[chunk, :width], rows.mask_BT[chunk, 1:width]
            shared = int(alike[start + 1 : start + len(chunk)].min(initial=width))
            start += len(chunk)
            tokens, mask = (torch.from_numpy(array).to(self.device) for array in (tokens_BS, mask_BS))
            drafts.append((chunk, tokens, mask, int(mask_BS.any(axis=0).argmax()) if width > 1 else 0, shared))
        return drafts

    def _complete(self, prompts: Sequence[str]) -> list[str]:
        completions = [""] * len(prompts)
        encoded = [
            self._fit(ids, prompt) for ids, prompt in zip(self.tokenizer.encode_each(prompts), prompts, strict=True)
        ]
        order = sorted(range(len(prompts)), key=lambda index: len(encoded[index]))  # one length: no padding
        start = 0
        while start < len(order):
            rows = order[start : start + self._rows_that_fit(len(encoded[order[-1]]))]
            texts = self._try_to_generate([encoded[i] for i in rows], [prompts[i] for i in rows])
            if texts is None:
                self.batch_size = len(rows) // 2
                continue
            for index, text in zip(rows, texts, strict=True):
                completions[index] = text
            start += len(rows)
        return completions

    def _try_to_generate(self, prompts: list[Any], texts: list[str]) -> list[str] | None:
        """None: there is no memory for so many rows at once. Others may have taken what was free a moment ago."""
        try:
            return self._generate(prompts, texts)
        except Exception as error:
            if len(prompts) == 1 or not is_out_of_memory(error):
                raise
        if self.device.type == "cuda":
            _recorder(self.device).forget()
        return None

    def _fit(self, ids: Any, prompt: str) -> Any:
        """A prompt with room behind it for at least one token; where prompts are cut, for a whole answer."""
        room = self.model.context - 1
        if not len(ids):
            raise BadConfig("a prompt needs at least one character")
        if self.crop and len(ids) > (longest := self._longest_prompt()):
            self.cropped += 1
            return ids[-longest:]
        if len(ids) <= room:
            return ids
        shown = prompt if len(prompt) <= 40 else f"{prompt[:37]}…"
        raise BadConfig(
            f"a prompt of {len(ids)} tokens does not fit the model's context of {room + 1}: {shown!r}; "
            "ask something shorter, or train with a larger model.context"
        )

    def _longest_prompt(self) -> int:
        """What is left of a prompt that is cut. Where answers take nearly all of the context, still a quarter of it."""
        return max(1, self.model.context - self.max_new_tokens, self.model.context // 4)

    @property
    def _bytes_per_number(self) -> int:
        return self.model.bytes_per_number or (2 if self.precision != torch.float32 else 4)

    def _rows_that_fit(self, prompt_length: int) -> int:
        length = min(self.model.context, prompt_length + self.max_new_tokens)
        each = self._bytes_per_number
        row_bytes = self.model.numbers_per_token * length * each
        # A prompt is read at once, all of its tokens in one layer, and then only its last is given scores.
        row_bytes += self.model.working_numbers_per_token * prompt_length * each
        row_bytes += 8 * self.model.vocab_size
        return max(1, min(self.batch_size, self._cache_bytes // row_bytes))

    def _generate(self, prompts: list[Any], texts: list[str]) -> list[str]:
        """Completions of one batch, token by token."""
        B, longest = len(prompts), max(map(len, prompts))
        new = min(self.max_new_tokens, self.model.context - min(map(len, prompts)))
        total = min(self.model.context, longest + new)
        # One place more than there are: what rows write that have reached the context's end before others goes there.
        tokens_BS = torch.zeros(B, total + 1, dtype=torch.int64, device=self.device)
        tokens_BS[:, :longest] = torch.from_numpy(_padded(prompts)).to(self.device)
        lengths_B = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        chances_BS = self._chances(texts, new)
        cache = self.model.new_cache(B, total, self.device, self.precision)
        rows = np.arange(B)
        first = [len(prompt) for prompt in prompts]
        done: list[str] = [""] * B

        page = _Page(tokens_BS, lengths_B, chances_BS, cache)
        self._append(page, self.model.first_scores(tokens_BS[:, :longest], lengths_B, cache))
        written = 1
        while True:
            steps = min(new, (written // _LOOK_EVERY + 1) * _LOOK_EVERY) - written
            self._go_on(page, steps, longest + written)
            written += steps
            last = written == new
            texts_now = self._written(page.tokens_BS[:, :total], [first[row] for row in rows], written)
            open_now = [not last and not self.finished(text) for text in texts_now]
            for row, text, is_open in zip(rows, texts_now, open_now, strict=True):
                if not is_open:
                    done[row] = text
            if not any(open_now):
                return [self._cut(text) for text in done]
            if sum(open_now) < 0.75 * len(open_now):
                rows = rows[open_now]
                page.keep(torch.tensor(np.flatnonzero(open_now), device=self.device))

    def _go_on(self, page: "_Page", steps: int, seen: int) -> None:
        """So many tokens more for every row, the longest of which has `seen` of them.

        On CUDA a step is recorded and repeated: a hundred small kernels take longer to launch than to run.
        """
        for step in range(steps):
            if page.graph is None or page.recorded < seen + step:
                self._step(page, seen + step)  # before a recording, too: it loads what cannot be loaded meanwhile
                if self._records and steps - step > _STEPS_WORTH_RECORDING:
                    page.recorded = -(-(seen + steps) // _PLACES_AT_ONCE) * _PLACES_AT_ONCE
                    page.graph = self._record(page)
            else:
                page.graph.replay()

    def _step(self, page: "_Page", seen: int) -> None:
        """Read each row's last token, and write the next."""
        total = page.tokens_BS.shape[1] - 1
        at_B = (page.lengths_B + page.written - 1).clamp(max=total - 1)
        self._append(page, self.model.next_scores(page.tokens_BS[:, : min(total, seen)], at_B, page.cache))

    def _append(self, page: "_Page", scores_BV: Tensor) -> None:
        at_B = (page.lengths_B + page.written).clamp(max=page.tokens_BS.shape[1] - 1)
        next_B = self._choose(scores_BV, page.chances())
        page.tokens_BS.scatter_(1, at_B.unsqueeze(1), next_B.unsqueeze(1))
        page.written.add_(1)

    def _record(self, page: "_Page") -> torch.cuda.CUDAGraph | None:
        """A step that reads `page.recorded` tokens of each row, whatever it finds there; None: go on without."""
        try:
            return _recorder(self.device).record(lambda: self._step(page, page.recorded))
        except RuntimeError as error:
            self._records, out_of_memory = False, is_out_of_memory(error)
            if not out_of_memory:
                warn(f"a step of writing could not be recorded ({error}): going on without", stacklevel=2)
        if out_of_memory:
            _recorder(self.device).forget()
        return None

    def _written(self, tokens_BS: Tensor, first: list[int], count: int) -> list[str]:
        ids = tokens_BS.cpu().numpy()
        return [self.tokenizer.decode(row[start : start + count]) for row, start in zip(ids, first, strict=True)]

    def _cut(self, text: str) -> str:
        """Up to and with the first character that finishes it: what came after was written before anybody looked."""
        if not self.finished(text):
            return text
        low, high = 0, len(text)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.finished(text[:middle]) else (middle, high)
        return text[:high]

    def _choose(self, scores_BV: Tensor, chances_B1: Tensor | None) -> Tensor:
        if chances_B1 is None:
            return scores_BV.argmax(dim=-1)
        scores_BV = scores_BV.float() / self.temperature
        if self.top_k is not None and self.top_k < scores_BV.shape[-1]:
            least_B1 = scores_BV.topk(self.top_k, dim=-1).values[:, -1:]
            scores_BV = scores_BV.masked_fill(scores_BV < least_B1, float("-inf"))
        edges_BV = scores_BV.softmax(dim=-1).cumsum(dim=-1)
        drawn_B1 = chances_B1 * edges_BV[:, -1:]
        return torch.searchsorted(edges_BV, drawn_B1, right=True).squeeze(1).clamp(max=scores_BV.shape[-1] - 1)

    def _chances(self, texts: list[str], count: int) -> Tensor | None:
        """A number on [0, 1) for each row and step, named by the prompt: the row's place in a batch does not matter."""
        if self.temperature == 0:
            return None
        chances = np.stack([Stream("sample", self.seed, text).unit(count) for text in texts])
        return torch.from_numpy(chances.astype(np.float32)).to(self.device)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """The model without dropout and in this precision, and as it was when that is over."""
        was_training = self.model.training
        self.model.eval()
        low = self.precision != torch.float32
        try:
            with sdpa_kernel(_ATTENTION), torch.autocast(self.device.type, self.precision) if low else nullcontext():
                yield
        finally:
            self.model.train(was_training)


@dataclass
class _Page:
    """Rows while they are being written: all on the device, so that a step can be recorded."""

    tokens_BS: Tensor
    lengths_B: Tensor
    """Of the prompts."""
    chances_BS: Tensor | None
    cache: Any
    written: Tensor = field(init=False)
    """How many tokens every row was given."""
    graph: torch.cuda.CUDAGraph | None = None
    """A recorded step, that reads …"""
    recorded: int = 0
    """… so many tokens of each row."""

    def __post_init__(self) -> None:
        self.written = torch.zeros((), dtype=torch.int64, device=self.tokens_BS.device)

    def chances(self) -> Tensor | None:
        """Those of the next token."""
        return None if self.chances_BS is None else self.chances_BS.index_select(1, self.written.view(1))

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        self.tokens_BS, self.lengths_B = self.tokens_BS[rows], self.lengths_B[rows]
        self.chances_BS = self.chances_BS[rows] if self.chances_BS is not None else None
        self.cache.keep(rows)
        self.graph = None


class _Recorder:
    """Records CUDA graphs, one at a time, all in the same memory.

    torch's own context manager would give all memory that is free back to the device first, every time.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._newest: torch.cuda.CUDAGraph | None = None

    def record(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        here = torch.cuda.current_stream(self._stream.device)
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

    def forget(self) -> None:
        """Give all memory back."""
        self._newest, self._pool = None, torch.cuda.graph_pool_handle()
        torch.cuda.empty_cache()


@cache
def _recorder(device: torch.device) -> _Recorder:
    """One for all who write there: memory is kept by stream, and so are the libraries' workspaces."""
    return _Recorder(device)


@torch.no_grad()
def token_probabilities(
    model: LanguageModel, tokenizer: Tokenizer, prompt: str, completion: str, top: int = 5
) -> list[Any]:
    """For every token of a completion: the token, its probability, and the likeliest alternatives."""
    ids = np.concatenate([tokenizer.encode(prompt), tokenizer.encode(completion)]).astype(np.int64)
    first = len(tokenizer.encode(prompt))
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    probabilities_TV = model(torch.from_numpy(ids[None, :-1]).to(device))[0].float().softmax(dim=-1).cpu()
    model.train(was_training)
    rows = []
    for place in range(first, len(ids)):
        chances_V = probabilities_TV[place - 1]
        best = chances_V.topk(min(top, len(chances_V)))
        rows.append(
            {
                "token": tokenizer.decode(ids[place : place + 1]),
                "probability": float(chances_V[ids[place]]),
                "likeliest": [
                    (tokenizer.decode(np.array([index])), float(chance))
                    for index, chance in zip(best.indices.tolist(), best.values.tolist(), strict=True)
                ],
            }
        )
    return rows


@torch.no_grad()
def perplexity(model: LanguageModel, tokens: Any, window: int | None = None, batch_size: int = 16) -> float:
    """exp of the mean loss over a stream, read in windows, none overlapping, as long as the model's context."""
    context = min(window or model.context, len(tokens) - 1)
    if context < 1:
        raise BadConfig("perplexity needs at least two tokens")
    device = next(model.parameters()).device
    ids = np.asarray(tokens).astype(np.int64)
    starts = range(0, len(ids) - context, context)
    was_training = model.training
    model.eval()
    total = count = 0.0
    for at in range(0, len(starts), batch_size):
        windows = np.stack([ids[start : start + context + 1] for start in starts[at : at + batch_size]])
        windows_BT = torch.from_numpy(windows).to(device)
        total += float(model.loss(windows_BT[:, :-1], windows_BT[:, 1:]))
        count += windows_BT[:, 1:].numel()
    model.train(was_training)
    return float(np.exp(total / count))


def _alike(tokens_NT: Any) -> Any:
    """How many tokens each row begins with that the row before it begins with, too.

    None where there is no row before it; the last number is of the row behind all, which is not there either.
    """
    N, T = tokens_NT.shape
    same_NT = np.zeros((N + 1, T + 1), bool)
    same_NT[1:N, :T] = tokens_NT[1:] == tokens_NT[:-1]
    return same_NT.argmin(axis=1)


def _rows_alike(alike: Any) -> int:
    """How many of some rows to take, at least half: up to where they have the least in common with what follows.

    The last row is the first that cannot be taken.
    """
    half = max(1, len(alike) // 2)
    return len(alike) - 1 - int(alike[half:][::-1].argmin())


def _padded(rows: list[Any]) -> Any:
    """Rows of ids as one array, padded on the right with 0."""
    lengths = np.array([len(row) for row in rows])
    padded = np.zeros((len(rows), int(lengths.max())), np.int64)
    padded[np.arange(padded.shape[1])[None] < lengths[:, None]] = np.concatenate(rows)
    return padded
