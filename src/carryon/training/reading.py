"""Text put to a model: how well it reads, and what it writes by itself."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..config import EvaluationConfig, RunConfig
from ..data import split_text
from ..evaluation import Report
from ..generation import Completer, perplexity
from ..model import LanguageModel
from ..operations import Problem
from ..tokenizers import Tokenizer


class Reading:
    """How well a model reads the text that was held out, and what it writes by itself."""

    problems: Sequence[Problem] = ()
    _SAMPLES, _LENGTH = 3, 400

    def __init__(
        self,
        question: EvaluationConfig,
        run: RunConfig,
        model: LanguageModel,
        tokenizer: Tokenizer,
        precision: torch.dtype = torch.float32,
    ) -> None:
        assert run.text is not None
        self._model, self._tokens, self._window = model, tokenizer.encode(split_text(run.text).held_out), run.window
        self._write = Completer(
            model,
            tokenizer,
            lambda written: False,
            min(self._LENGTH, run.window - 1),
            temperature=question.temperature or 0.8,
            top_k=question.top_k,
            seed=question.seed,
            precision=precision,
        )

    def ask_briefly(self) -> dict[str, Any]:
        """Perplexity a token."""
        with self._write.evaluating():
            return {"perplexity": perplexity(self._model, self._tokens, self._window), "tokens": len(self._tokens)}

    def ask(self, *, tick: Callable[[int], None] | None = None) -> tuple[dict[str, Any], Report | None]:
        """Perplexity, and some of its own writing."""
        # A newline opens every passage; more of them, so that the samples differ.
        samples = self._write(["\n" * count for count in range(1, self._SAMPLES + 1)])
        return {**self.ask_briefly(), "samples": samples}, None
