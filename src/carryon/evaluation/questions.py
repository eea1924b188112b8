"""Questions in words, examples to put in front of them, and problems from outside."""

import json
from collections.abc import Iterable

from ..config import EvaluationConfig
from ..data import Dataset, make_dataset
from ..errors import BadInput, CarryonError, Unsupported
from ..operations import (
    Problem,
    operation,
    parse_question,
)
from ..rng import Stream


def describe(question: EvaluationConfig) -> str:
    """A question in words."""
    if question.problems == "text":
        return "the text held out"
    parts = [{"exhaustive": "every problem there is"}.get(question.problems, f"the {question.problems} set")]
    if question.lengths:
        some = ", ".join(question.lengths[:4]) + (", …" if len(question.lengths) > 4 else "")
        parts = [f"{question.each} {question.problems} problems each of {some} digits"]
    if question.prefix:
        parts.append(f"after {_short(question.prefix)}")
    if question.listed:
        parts = [", ".join(question.listed)]
    elif question.data is not None:
        other = question.data
        what = f"{other.digits}-digit {other.operation}" if other.is_integer else other.operation
        what += f" of up to {other.operands} operands" * (other.operands > 2)
        parts = [
            {"exhaustive": f"every {what} problem"}.get(question.problems, f"the {question.problems} set of {what}")
        ]
    if question.shown:
        parts.append(f"after {' and '.join(question.shown)} worked out")
    if question.given_lines:
        parts.append(f"with {question.given_lines} lines given")
    if question.text_prompts:
        parts.append(f"after text ({', '.join(question.text_prompts)})")
    if question.examples:
        sets = f" ({question.sets} sets)" if question.sets > 1 else ""
        parts.append(f"after {question.examples} {'wrong ' * question.wrong_examples}examples{sets}")
    if question.corrupt != "none":
        parts.append(f"with {question.corrupt} wrong digits first")
    parts.append("greedy" if question.temperature == 0 else f"sampled at {question.temperature:g}")
    return ", ".join(parts)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}…")


def exemplars(dataset: Dataset, count: int, which: int = 0, wrong: bool = False, among: int | None = None) -> str:
    """`count` training examples to put in front of a prompt; wrong ones have each other's answers.

    `among`: from the training set of so many, which lies inside the larger ones.
    """
    return "".join(prompt + completion for prompt, completion in exemplar_pairs(dataset, count, which, wrong, among))


def exemplar_pairs(
    dataset: Dataset, count: int, which: int = 0, wrong: bool = False, among: int | None = None
) -> list[tuple[str, str]]:
    """The same as prompts and completions."""
    size = dataset.size("train")
    if among is not None and among < size:
        smaller = dataset.splits.config.model_copy(update={"num_examples": among})
        return exemplar_pairs(make_dataset(smaller, dataset.splits.seed), count, which, wrong)
    if count + wrong > size:
        raise Unsupported(f"{count} examples in front need a training set of at least that many, not {size}")
    picks = Stream("exemplars", which).permutation(size)[: count + 1]
    codes = dataset.splits.train[picks]
    examples = [
        dataset.format.write(Problem(dataset.splits.operation, operands))
        for operands in dataset.splits.domain.operands(codes)
    ]
    if wrong:
        answers = [example.answer for example in examples]
        pairs = []
        for index, example in enumerate(examples[:count]):
            other = next((e for e in examples[index + 1 :] + examples[:index] if e.answer != answers[index]), None)
            if other is None:
                raise Unsupported("wrong examples need training examples with different answers")
            pairs.append((example.prompt, other.completion))
        return pairs
    return [(example.prompt, example.completion) for example in examples[:count]]


def read_problems(lines: Iterable[str], where: str, base: int = 10) -> list[Problem]:
    """Problems as JSON ({"operation", "operands"} a line) or as people write them: 128+367=495, sin(0.5)."""
    problems = []
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if not line:
            continue
        try:
            problems.append(_read_problem(line, base))
        except (CarryonError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadInput(
                f"{where} line {number}: {error if isinstance(error, CarryonError) else repr(error)}"
            ) from None
    return problems


def _read_problem(line: str, base: int) -> Problem:
    if line.startswith("{"):
        row = json.loads(line)
        return operation(str(row["operation"]), int(row.get("base", base))).problem(*row["operands"])
    question, equals, answer = line.replace(" ", "").partition("=")
    problem = parse_question(question, base)
    if problem is None:
        raise BadInput(f"{line!r} is not a problem such as 128+367=495 or sin(0.5)")
    if equals and answer and answer != problem.answer:
        raise BadInput(f"{line!r} is wrong: the answer is {problem.answer}")
    return problem
