"""Questions put to a model, along the way and at the end."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from ..config import EvaluationConfig, RunConfig
from ..data import Dataset
from ..errors import Unsupported
from ..evaluation import Report, evaluate_corrupted, exemplars, make_sheets, score, slices_of
from ..generation import Completer
from ..model import Decoder
from ..operations import Problem, Problems
from ..tokenizers import Tokenizer
from .progress import Progress
from .stepper import Stepper, lr_at

EXHAUSTIVE_LIMIT = 5_000_000


class Exam:
    """A question made ready for a model. `again`: it will be asked many times, so everything is kept at hand."""

    def __init__(
        self,
        question: EvaluationConfig,
        dataset: Dataset,
        model: Decoder,
        tokenizer: Tokenizer,
        precision: torch.dtype = torch.float32,
        *,
        problems: Sequence[Problem] | None = None,
        again: bool = False,
    ) -> None:
        self.question, self._dataset = question, dataset
        self.problems = problems_of(question, dataset) if problems is None else problems
        self._prefix = question.prefix + exemplars(
            dataset, question.examples, question.example_set, question.wrong_examples
        )
        sheets = make_sheets(self.problems, dataset.format)
        self._sheets = list(sheets) if again else sheets
        samples = [*dataset.problems("test")[:500], *islice(self.problems, 500)]
        longest = max((len(tokenizer.encode(dataset.format.write(p).completion)) for p in samples), default=8)
        plain = question.corrupt == "none"
        self._complete = Completer(
            model,
            tokenizer,
            dataset.format.finished if plain else bool,
            # Room for answers that go astray; what is longer is unfinished, and wrong.
            longest + longest // 4 + 8 if plain else 1,
            temperature=question.temperature,
            top_k=question.top_k,
            seed=question.seed,
            precision=precision,
            crop=bool(self._prefix),
            remember=again,
        )

    def ask(
        self, *, slices: bool = True, tick: Callable[[int], None] | None = None
    ) -> tuple[dict[str, Any], Report | None]:
        """What is stored of the answer, and the full report."""
        question, dataset = self.question, self._dataset
        if question.corrupt != "none":
            found = evaluate_corrupted(self.problems, dataset.format, self._complete, question.corrupt, question.seed)
            return found, None
        parts = slices_of(dataset) if slices else None
        report = score(self._sheets, self._complete, prefix=self._prefix, slices=parts, tick=tick)
        return report.as_dict(), report


class Watch:
    """Evaluates while training goes on."""

    def __init__(
        self, config: RunConfig, dataset: Dataset, tokenizer: Tokenizer, model: Decoder, precision: torch.dtype
    ) -> None:
        self._config = config
        questions = {_watch_name(question): question for question in config.watch}
        if dataset.size("validation"):
            questions = {"validation": EvaluationConfig(problems="validation")} | questions
        self._exams = {
            name: Exam(question, dataset, model, tokenizer, precision, again=True)
            for name, question in questions.items()
        }

    def look(self, progress: Progress, stepper: Stepper) -> dict[str, Any]:
        row: dict[str, Any] = {"step": progress.step, "seconds": round(progress.seconds, 3)}
        row["lr"] = lr_at(progress.step, self._config.train)
        row["loss"] = stepper.mean_loss()
        for name, exam in self._exams.items():
            result, _ = exam.ask(slices=False)
            row[name] = float(result["accuracy" if "accuracy" in result else "exact"])
        return row


def _watch_name(question: EvaluationConfig) -> str:
    return question.problems if question == EvaluationConfig(problems=question.problems) else question.hash


def problems_of(question: EvaluationConfig, dataset: Dataset) -> Problems:
    """The problems a question is about."""
    if question.problems != "exhaustive":
        return dataset.problems(question.problems)[: question.limit]
    splits = dataset.splits
    if splits.domain.size > EXHAUSTIVE_LIMIT:
        raise Unsupported(
            f"an exhaustive evaluation of {splits.domain.size:,} problems would take too long: "
            f"at most {EXHAUSTIVE_LIMIT:,}; choose the test set"
        )
    return Problems(splits.operation, splits.domain, np.arange(splits.domain.size)[: question.limit])
