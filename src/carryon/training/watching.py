"""What is asked while training goes on."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..config import EvaluationConfig, RunConfig
from ..data import Dataset
from ..model import LanguageModel
from ..tokenizers import Tokenizer
from .asking import Exam, make_exam
from .progress import Progress
from .reading import Reading
from .stepper import Stepper, lr_at


class Watch:
    """Evaluates while training goes on."""

    def __init__(
        self,
        config: RunConfig,
        parts: Sequence[Dataset],
        tokenizer: Tokenizer,
        model: LanguageModel,
        precision: torch.dtype,
    ) -> None:
        self._config = config

        def exam(question: EvaluationConfig) -> Exam | Reading:
            return make_exam(question, parts, model, tokenizer, precision, run=config, again=True)

        self._validation = [
            exam(EvaluationConfig(problems="validation", part=number))
            for number, part in enumerate(parts)
            if part.size("validation")
        ]
        self._exams = {question.column: exam(question) for question in config.watch}

    @property
    def shortest(self) -> int:
        """Tokens of the shortest problem with its answer, of the data set where that is longest."""
        return max((exam.shortest for exam in self._validation if isinstance(exam, Exam)), default=0)

    def look(self, progress: Progress, stepper: Stepper) -> dict[str, Any]:
        row: dict[str, Any] = {"step": progress.step, "seconds": 0.0}
        row["lr"] = lr_at(progress.step, self._config.train)
        row["loss"] = stepper.mean_loss()
        with stepper.as_asked():
            if self._validation:  # of several data sets: the mean over them
                accuracies = [main_number(exam.ask_briefly()) or 0.0 for exam in self._validation]
                row["validation"] = sum(accuracies) / len(accuracies)
            for name, exam in self._exams.items():
                row[name] = main_number(exam.ask_briefly())
        row["seconds"] = round(progress.seconds, 3)  # when all that is known
        return row


def main_number(result: Mapping[str, Any]) -> float | None:
    """What an answer comes down to: accuracy, or perplexity of text; None where there was nothing to ask."""
    found: float | None = next(result[name] for name in ("accuracy", "exact", "perplexity") if name in result)
    return found
