"""Prompts to completions: batched, cached, and the same whatever the batch.

Prompts of different lengths share a batch. Rows that have met their end leave the batch. What is sampled depends on
(seed, prompt, position), so neither batch size nor order changes a completion. (In 16 bits they may change the last
bit of a score, and where two tokens are that close, the token.)

Shapes: B rows, S tokens of a row.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..data import make_rows
from ..devices import do_all, free_bytes, is_out_of_memory
from ..errors import BadConfig
from ..formats import Texts
from ..model import LanguageModel
from ..tokenizers import Tokenizer
from .choosing import Choice
from .drafts import Draft, make_drafts
from .recording import recorder_on
from .writing import Page

Finished = Callable[[str], bool]

_LOOK_EVERY = 16
"""Steps between looks at which rows are done: a look waits for the device, a step does not."""
_ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""All but cuDNN's, which is planned anew for every shape: two seconds for those of all three-digit sums."""
_CACHE_BYTES = {"mps": 2**30, "cpu": 2**28}
_ROWS_AT_ONCE = {"mps": 4_096, "cpu": 512}
_MOST_THREADS = 16
"""More would wait for Python more than they compute."""
_FEWEST_ROWS = 8
"""For a thread, if there are so many."""


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
        self._choice = Choice(temperature, top_k, seed)
        self.precision = precision
        self.device = next(model.parameters()).device
        if self.device.type == "cuda":
            self._cache_bytes = min(24 * 2**30, free_bytes(self.device) // 3)
            rows = max(256, self._cache_bytes // (768 * 1024))  # 32,768 rows with 24 GiB
        else:
            self._cache_bytes, rows = _CACHE_BYTES[self.device.type], _ROWS_AT_ONCE[self.device.type]
        self.batch_size = batch_size or rows
        alone = self.device.type != "cpu" or not model.can_be_shared
        self._threads = 1 if alone else min(_MOST_THREADS, torch.get_num_threads())
        self.crop = crop
        """Cut prompts that leave no room for an answer from the left, as the paper's authors did, instead of refusing
        those that do not fit at all."""
        self.cropped = 0
        """How many were cut so far."""
        self.remember = remember
        """Keep the texts to confirm on the device: asking the same again, as training does, costs the pass alone."""
        self._remembered: dict[tuple[int, str], tuple[Texts, list[Draft]]] = {}

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
        if self._choice.temperature:
            return holds
        _, drafts = self._remembered.get((id(texts), prefix)) or (texts, self._prepare(texts, prefix))
        if self.remember:
            self._remembered[id(texts), prefix] = texts, drafts

        def check(draft: Draft) -> None:
            rows, tokens_BS, counts_BS, place, alike = draft
            tokens_BS = tokens_BS.long()
            self.model.check(tokens_BS)
            with torch.no_grad(), self._in_precision():  # which each thread has to say for itself
                written_BS = self.model.scores_from(place, tokens_BS[:, :-1], alike).argmax(dim=-1)
            wrong_BS = (written_BS != tokens_BS[:, place + 1 :]) & counts_BS[:, place:]
            holds[rows] = (~wrong_BS.any(dim=1)).cpu().numpy()

        with self.evaluating():
            do_all(check, drafts, self._threads)
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
        # Every token is given scores at once, of large vocabularies more than all else takes.
        token_bytes = 8 * self.model.vocab_size + self.model.working_numbers_per_token * self._bytes_per_number
        at_once = min(16 * self.batch_size, self._cache_bytes // (token_bytes * self._threads))
        each = max(_FEWEST_ROWS, -(-len(order) // self._threads))  # none is idle where texts are few
        return make_drafts(rows, order, lengths, min(self.batch_size, each), at_once, self.device)

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
        if recorder := recorder_on(self.device):
            recorder.forget()
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
        new = min(self.max_new_tokens, self.model.context - min(map(len, prompts)))
        chances_BS = self._choice.chances(texts, new, self.device)
        page = Page(self.model, prompts, new, self._choice, chances_BS, self.precision)
        rows = np.arange(len(prompts))
        done: list[str] = [""] * len(prompts)
        while True:
            page.write(min(new, (page.written // _LOOK_EVERY + 1) * _LOOK_EVERY) - page.written)
            last = page.written == new
            texts_now = [self.tokenizer.decode(ids) for ids in page.read()]
            open_now = [not last and not self.finished(text) for text in texts_now]
            for row, text, is_open in zip(rows, texts_now, open_now, strict=True):
                if not is_open:
                    done[row] = text
            if not any(open_now):
                return [self._cut(text) for text in done]
            if sum(open_now) < 0.75 * len(open_now):
                rows = rows[open_now]
                page.keep(np.flatnonzero(open_now))

    def _cut(self, text: str) -> str:
        """Up to and with the first character that finishes it: what came after was written before anybody looked."""
        if not self.finished(text):
            return text
        low, high = 0, len(text)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.finished(text[:middle]) else (middle, high)
        return text[:high]

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """The model without dropout and in this precision, and as it was when that is over."""
        was_training = self.model.training
        self.model.eval()
        try:
            with sdpa_kernel(_ATTENTION), self._in_precision():
                yield
        finally:
            self.model.train(was_training)

    def _in_precision(self) -> AbstractContextManager[Any]:
        low = self.precision != torch.float32
        return torch.autocast(self.device.type, self.precision) if low else nullcontext()
