"""Questions put to a model."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from ..config import DataConfig, EvaluationConfig, RunConfig, TextConfig
from ..data import Dataset, domain_of, draw_held_out, questions_in, split_text
from ..errors import BadConfig, Unsupported
from ..evaluation import (
    TEXT_PROMPTS,
    Report,
    evaluate_corrupted,
    exemplars,
    make_sheets,
    read_problems,
    score,
    slices_of,
    text_prompt,
)
from ..formats import Format, make_format
from ..generation import Completer
from ..model import LanguageModel
from ..operations import Domain, IntegerOperation, Operation, Problem, Problems
from ..rng import Stream
from ..sampling import Lengths
from ..tokenizers import Characters, Tokenizer
from .reading import Reading

EXHAUSTIVE_LIMIT = 5_000_000


class Exam:
    """A question made ready for a model.

    `run`: what the model learnt from. It tells seen problems from unseen ones, unless no step was taken: of a model
    from elsewhere nobody knows. `again`: it will be asked many times, so everything is kept at hand.
    """

    def __init__(
        self,
        question: EvaluationConfig,
        parts: Sequence[Dataset],
        model: LanguageModel,
        tokenizer: Tokenizer,
        precision: torch.dtype = torch.float32,
        *,
        problems: Sequence[Problem] | None = None,
        run: RunConfig | None = None,
        again: bool = False,
    ) -> None:
        self.question, self._part, self._run = question, parts[question.part], run
        self._format = self._part.format if question.data is None else make_format(question.data.format)
        endless = run is not None and run.train.endless
        self.problems = problems_of(question, self._part, endless) if problems is None else problems
        self._prefix = _prefixes(question, parts, self._format)
        if (format := model.reads_only) is not None and (any(self._prefix.values()) or self._format.name != format):
            raise Unsupported(
                f"the model's ids go by the places of digits in one problem written as {format}: ask it so, with "
                "nothing in front"
            )
        sheets = make_sheets(self.problems, self._format)
        self._sheets = list(sheets) if again else sheets
        samples = [self._format.write(problem) for problem in islice(self.problems, 500)]
        self.shortest = min((len(tokenizer.encode(example.text)) for example in samples), default=0)
        """Tokens of the shortest question with its answer."""
        self.too_long = self.shortest if self.shortest > model.context else None
        """The same, where not even that fits the model's context."""
        if question.lengths:  # those of the longest may not be among the first
            longest = max(self.problems, key=lambda problem: sum(map(len, problem.operands)), default=None)
            samples += [] if longest is None else [self._format.write(longest)]
        elif question.data is None and not question.listed:
            samples += [self._format.write(problem) for problem in self._part.problems("test")[:500]]
        answer = max((len(tokenizer.encode(example.completion)) for example in samples), default=8)
        whole = question.corrupt == "none"
        self._complete = Completer(
            model,
            tokenizer,
            self._format.finished if whole else bool,
            # Room for answers that go astray; what is longer is unfinished, and wrong.
            answer + answer // 4 + 8 if whole else 1,
            temperature=question.temperature,
            top_k=question.top_k,
            seed=question.seed,
            precision=precision,
            crop=any(self._prefix.values()),
            remember=again,
        )
        self._confirms = (
            self._format.one_is_right
            and isinstance(tokenizer, Characters)  # others can write one text in several ways
            and whole
            and not (question.temperature or question.given_lines or any(self._prefix.values()))
        )

    def ask_briefly(self) -> dict[str, Any]:
        """The accuracy, if not more. Where no other text is right than the example's own, nothing is written out.

        In 16 bits a few in ten thousand may be told wrong that are right when they are written.
        """
        if not self._confirms:
            return self._ask(slices=False)[0]
        confirmed = [self._complete.confirm(sheet.texts) for sheet in self._sheets]
        count = sum(map(len, confirmed))
        return {"accuracy": sum(int(right.sum()) for right in confirmed) / count if count else None}

    def ask(self, *, tick: Callable[[int], None] | None = None) -> tuple[dict[str, Any], Report | None]:
        """What is stored of the answer, and the full report."""
        return self._ask(tick)

    def _ask(
        self, tick: Callable[[int], None] | None = None, slices: bool = True
    ) -> tuple[dict[str, Any], Report | None]:
        question = self.question
        if question.corrupt != "none":
            found = evaluate_corrupted(self.problems, self._format, self._complete, question.corrupt, question.seed)
            return found, None
        parts, run = None, self._run
        if slices and (run is None or run.train.steps):
            parts = slices_of(self._part, question.digit_apart, read_questions(run.text if run is not None else None))
        self._complete.cropped = 0
        report = score(
            self._sheets,
            self._complete,
            prefix=self._prefix if len(self._prefix) > 1 else next(iter(self._prefix.values())),
            given_lines=question.given_lines,
            slices=parts,
            tick=tick,
        )
        found = report.as_dict()
        if question.lengths:  # hundreds of places, digits and carries would say the same once more
            found["by"] = {"lengths": found["by"].get("lengths", {})}
        if self._complete.cropped:
            found["cropped"] = self._complete.cropped
        if self.too_long:
            found["too_long"] = self.too_long
        return found, report


def make_exam(
    question: EvaluationConfig,
    parts: Sequence[Dataset],
    model: LanguageModel,
    tokenizer: Tokenizer,
    precision: torch.dtype = torch.float32,
    *,
    run: RunConfig,
    again: bool = False,
) -> "Exam | Reading":
    """What a question of a run asks for."""
    if question.problems != "text":
        return Exam(question, parts, model, tokenizer, precision, run=run, again=again)
    if run.text is None:
        raise Unsupported("the model was trained without text: there is none to read")
    return Reading(question, run, model, tokenizer, precision)


def read_questions(text: TextConfig | None) -> set[str]:
    """What the text that is trained on has of questions."""
    return set() if text is None or text.mixing == "none" else questions_in(split_text(text).train)


def _prefixes(question: EvaluationConfig, parts: Sequence[Dataset], format: Format) -> dict[str, str]:
    """All that stands in front of the prompts, by what its answers are counted as."""
    part = question.part if question.examples_part is None else question.examples_part
    shown = "".join(format.write(problem).text for problem in read_problems(question.shown, "shown"))
    texts = {
        f"{kind} {number}": text_prompt(kind, number)
        for kind in question.text_prompts
        for number in range(len(TEXT_PROMPTS[kind]))
    } or {"": ""}
    sets = {f"set {which}": which for which in range(question.example_set, question.example_set + question.sets)}
    return {
        f"{text_name} {set_name if question.sets > 1 else ''}".strip(): text
        + question.prefix
        + exemplars(parts[part], question.examples, which, question.wrong_examples, question.examples_among)
        + shown
        for text_name, text in texts.items()
        for set_name, which in sets.items()
    }


def problems_of(question: EvaluationConfig, part: Dataset, endless: bool = False) -> Sequence[Problem]:
    """The problems a question is about; `endless`: there is no training set to leave out."""
    if question.listed:
        return read_problems(question.listed, "listed", part.splits.operation.base)
    splits = part.splits
    if question.lengths:
        return problems_of_lengths(question, part, endless)[: question.limit]
    if question.data is not None:
        return other_problems(question, question.data, part)[: question.limit]
    if question.problems != "exhaustive":
        return part.problems(question.problems)[: question.limit]
    return every_problem(splits.operation, splits.domain)[: question.limit]


def other_problems(question: EvaluationConfig, data: DataConfig, part: Dataset) -> Problems:
    """Problems of another data set, without those that training saw unless they are wanted."""
    operation, domain = domain_of(data)
    if question.problems == "exhaustive":
        problems = every_problem(operation, domain)
    elif question.problems == "train":
        raise Unsupported("another data set has no training problems here: ask its test or validation set")
    else:
        held_out = draw_held_out(data)
        problems = Problems(operation, domain, getattr(held_out, question.problems))
    if question.seen or operation != part.splits.operation:
        return problems
    seen = slices_of(part)(problems)["seen in training"]
    return Problems(operation, domain, problems.codes[~seen])


def check_lengths(run: RunConfig, parts: Sequence[Dataset], model: LanguageModel, tokenizer: Tokenizer) -> None:
    """Refuse now, and not after training, to ask for numbers that do not fit the model."""
    for question in (*run.evaluations, *run.watch):
        for first, second in question.cells:
            part = parts[question.part]
            operation = part.splits.operation
            highest = str(operation.base - 1)
            example = part.format.write(operation.problem(highest * first, highest * second))
            tokens = tokenizer.encode(example.text)
            if len(tokens) > model.context:
                raise BadConfig(
                    f"problems of {first} by {second} digits take {len(tokens):,} tokens with their answers, "
                    f"model.context is {model.context:,}: set it to {len(tokens)}, or ask shorter ones"
                )
            tokens_1T = torch.from_numpy(tokens.astype(np.int64)).unsqueeze(0)
            model.check(tokens_1T.to(next(model.parameters()).device))


def problems_of_lengths(question: EvaluationConfig, part: Dataset, endless: bool) -> Problems:
    """Different problems with just so many digits, uniformly; where there are too few, as many as there are.

    Those of a training set are left out; what endless training has met is not known. Test and validation problems are
    every other one of the same draw.
    """
    operation = part.splits.operation
    if not isinstance(operation, IntegerOperation):
        raise Unsupported(f"lengths are asked of whole numbers: {operation.name} has none")
    domain = operation.domain(max(part.splits.config.longest, *map(max, question.cells)))
    first = ("test", "validation").index(question.problems)
    drawn = [
        Lengths.in_order(domain, a, b, Stream("lengths", domain.base, a, b), 2 * question.each)[first::2]
        for a, b in question.cells
    ]
    problems = Problems(operation, domain, np.concatenate(drawn))
    if question.seen or endless:
        return problems
    return Problems(operation, domain, problems.codes[~slices_of(part)(problems)["seen in training"]])


def every_problem(operation: Operation, domain: Domain) -> Problems:
    if domain.size > EXHAUSTIVE_LIMIT:
        raise Unsupported(
            f"an exhaustive evaluation of {domain.size:,} problems would take too long: "
            f"at most {EXHAUSTIVE_LIMIT:,}; choose the test set"
        )
    return Problems(operation, domain, np.arange(domain.size))
