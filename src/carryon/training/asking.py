"""Questions put to a model, along the way and at the end."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch

from ..config import EvaluationConfig, RunConfig
from ..data import Dataset
from ..errors import Unsupported
from ..evaluation import Report, evaluate, evaluate_corrupted, exemplars, slices_of
from ..generation import Completer
from ..model import Decoder
from ..operations import Problem
from ..tokenizers import Tokenizer
from .progress import Progress
from .stepper import Stepper, lr_at

EXHAUSTIVE_LIMIT = 5_000_000


class Watch:
    """Evaluates while training goes on."""

    def __init__(
        self, config: RunConfig, dataset: Dataset, tokenizer: Tokenizer, model: Decoder, precision: torch.dtype
    ) -> None:
        self._config, self._dataset = config, dataset
        self._tokenizer, self._model, self._precision = tokenizer, model, precision
        self._validation = EvaluationConfig(problems="validation")

    def look(self, progress: Progress, stepper: Stepper) -> dict[str, Any]:
        row: dict[str, Any] = {"step": progress.step, "seconds": round(progress.seconds, 3)}
        row["lr"] = lr_at(progress.step, self._config.train)
        row["loss"] = stepper.mean_loss()
        if self._dataset.size("validation"):
            row["validation"] = self._accuracy(self._validation)
        for question in self._config.watch:
            row[_watch_name(question)] = self._accuracy(question)
        return row

    def _accuracy(self, question: EvaluationConfig) -> float:
        result, _ = ask_all(question, self._dataset, self._model, self._tokenizer, self._precision, slices=False)
        return float(result["exact"] if question.corrupt != "none" else result["accuracy"])


def _watch_name(question: EvaluationConfig) -> str:
    return question.problems if question == EvaluationConfig(problems=question.problems) else question.hash


def ask_all(
    question: EvaluationConfig,
    dataset: Dataset,
    model: Decoder,
    tokenizer: Tokenizer,
    precision: torch.dtype = torch.float32,
    *,
    problems: list[Problem] | None = None,
    slices: bool = True,
    tick: Callable[[int], None] | None = None,
) -> tuple[dict[str, Any], Report | None]:
    """Put a question to a model: what is stored of the answer, and the full report."""
    asked: Any = problems if problems is not None else problems_of(question, dataset)
    prefix = question.prefix + exemplars(dataset, question.examples, question.example_set, question.wrong_examples)
    longest = max((len(tokenizer.encode(e.completion)) for e in islice(dataset.examples("test"), 500)), default=8)
    if problems is not None:
        longest = max([longest, *(len(tokenizer.encode(dataset.format.write(p).completion)) for p in problems[:500])])
    complete = Completer(
        model,
        tokenizer,
        dataset.format.finished if question.corrupt == "none" else bool,
        # Room for answers that go astray; what is longer is unfinished, and wrong.
        longest + longest // 4 + 8 if question.corrupt == "none" else 1,
        temperature=question.temperature,
        top_k=question.top_k,
        seed=question.seed,
        precision=precision,
        crop=bool(prefix),
    )
    if question.corrupt != "none":
        return evaluate_corrupted(asked, dataset.format, complete, question.corrupt, question.seed), None
    parts = slices_of(dataset) if slices else None
    report = evaluate(asked, dataset.format, complete, prefix=prefix, slices=parts, tick=tick)
    return report.as_dict(), report


def problems_of(question: EvaluationConfig, dataset: Dataset) -> Iterator[Problem]:
    """The problems a question is about."""
    if question.problems != "exhaustive":
        return islice(dataset.problems(question.problems), question.limit)
    splits = dataset.splits
    if splits.domain.size > EXHAUSTIVE_LIMIT:
        raise Unsupported(
            f"an exhaustive evaluation of {splits.domain.size:,} problems would take too long: "
            f"at most {EXHAUSTIVE_LIMIT:,}; choose the test set"
        )
    chunks = (np.arange(at, min(at + 8192, splits.domain.size)) for at in range(0, splits.domain.size, 8192))
    every = (Problem(splits.operation, operands) for codes in chunks for operands in splits.domain.operands(codes))
    return islice(every, question.limit)
