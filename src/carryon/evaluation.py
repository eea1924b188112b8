"""Completions to numbers one can trust.

Any function from prompts to completions can be scored: one of our models, a Hugging Face model, a hosted one.
An answer counts when the format reads it as the right number; one that cannot be read is wrong, never left out.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import sqrt
from typing import Any, Protocol

import numpy as np

from .config import EvaluationConfig
from .data import Dataset
from .errors import BadInput, CarryonError, Unsupported
from .formats import Example, Format
from .operations import DecimalFunction, IntegerOperation, Problem, operation, parse_question
from .operations.decimals import parse_decimal
from .rng import Stream

Counts = dict[str, list[int]]
"""label -> [right, all]"""

TOLERANCES = {"0": 0, "5e-4": 5, "5e-3": 50}
"""For sine and square root, in ten-thousandths."""
_CHUNK = 131_072


class Complete(Protocol):
    def __call__(self, prompts: Sequence[str], /) -> list[str]: ...


@dataclass
class Report:
    """What an evaluation found. `as_dict` is what is stored."""

    right: int = 0
    count: int = 0
    unreadable: int = 0
    by: dict[str, Counts] = field(default_factory=lambda: defaultdict(lambda: defaultdict(lambda: [0, 0])))
    first_wrong_lines: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    max_failures: int = 10_000

    @property
    def accuracy(self) -> float:
        return self.right / self.count if self.count else float("nan")

    def add(self, kind: str, labels: Sequence[Any], right: Sequence[bool]) -> None:
        """Count one more chunk by these labels."""
        good = Counter(label for label, ok in zip(labels, right, strict=True) if ok)
        for label, count in Counter(labels).items():
            cell = self.by[kind][str(label)]
            cell[0] += good[label]
            cell[1] += count

    def as_dict(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy if self.count else None,
            "interval": wilson(self.right, self.count),
            "right": self.right,
            "count": self.count,
            "unreadable": self.unreadable,
            "by": {kind: dict(sorted(counts.items(), key=_label_order)) for kind, counts in self.by.items()},
            "first_wrong_lines": dict(self.first_wrong_lines.most_common()),
        }


def wilson(right: int, count: int, z: float = 1.96) -> list[float] | None:
    """The 95 % interval of a proportion: unlike the usual one it stays inside [0, 1] and works for 10,000 of 10,000."""
    if not count:
        return None
    share = right / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return [max(0.0, middle - half), min(1.0, middle + half)]


Slices = Mapping[str, Callable[[Problem], bool]]


def evaluate(
    problems: Iterable[Problem],
    format: Format,
    complete: Complete,
    *,
    prefix: str = "",
    slices: Slices | None = None,
    tick: Callable[[int], None] | None = None,
) -> Report:
    """Ask every problem and score what comes back."""
    report = Report()
    problems = iter(problems)
    while chunk := list(islice(problems, _CHUNK)):
        examples = [format.write(problem) for problem in chunk]
        prompts = [prefix + example.prompt for example in examples]
        if getattr(complete, "accepts_drafts", False):
            completions = complete(prompts, [example.completion for example in examples])  # type: ignore[call-arg]
        else:
            completions = complete(prompts)
        if len(completions) != len(prompts):
            raise BadInput(f"{len(prompts)} prompts were given {len(completions)} completions: one for each is needed")
        _score(report, chunk, examples, completions, format, slices or {})
        if tick:
            tick(report.count)
    return report


def _score(
    report: Report,
    problems: list[Problem],
    examples: list[Example],
    completions: list[str],
    format: Format,
    slices: Slices,
) -> None:
    answers = [format.read(completion) for completion in completions]
    right = [answer == example.answer for answer, example in zip(answers, examples, strict=True)]
    report.right += sum(right)
    report.count += len(right)
    report.unreadable += answers.count(None)
    for kind, labels in _labels(problems):
        report.add(kind, labels, right)
    for name, belongs in slices.items():
        inside = [good for problem, good in zip(problems, right, strict=True) if belongs(problem)]
        report.add("slice", [name] * len(inside), inside)
    if isinstance(problems[0].operation, DecimalFunction):
        _add_tolerances(report, problems, answers)
    else:
        _add_places(report, [example.answer for example in examples], answers)
    if format.after:
        for example, completion in zip(examples, completions, strict=True):
            if completion != example.completion:
                report.first_wrong_lines[first_wrong_line(example.completion, completion)] += 1
    for index in (index for index, good in enumerate(right) if not good):
        if len(report.failures) < report.max_failures:
            report.failures.append(
                {
                    "question": problems[index].question,
                    "answer": examples[index].answer,
                    "read": answers[index],
                    "prompt": examples[index].prompt,
                    "completion": completions[index],
                }
            )


def _labels(problems: list[Problem]) -> Iterator[tuple[str, list[Any]]]:
    """Digits, carries and lengths, for problems of one integer operation."""
    kind = problems[0].operation
    if not isinstance(kind, IntegerOperation) or any(problem.operation != kind for problem in problems):
        return
    lengths = [tuple(map(len, problem.operands)) for problem in problems]
    yield "digits", [max(pair) for pair in lengths]
    yield "lengths", [f"{a}x{b}" for a, b in lengths]
    dtype = np.int64 if max(map(max, lengths)) <= 18 else object
    a, b = (np.array([int(problem.operands[i], kind.base) for problem in problems], dtype) for i in (0, 1))
    if kind.name == "multiply" and max(map(max, lengths)) > 9:
        a, b = a.astype(object), b.astype(object)
    yield "carries", kind.carries(a, b).tolist()


def _add_places(report: Report, expected: list[str], answers: list[str | None]) -> None:
    """Which digits of the answers are right, the lowest being place 1."""
    for (truth, answer), count in Counter(
        # All right answers of one length are alike here.
        ("0" * len(truth.lstrip("-")),) * 2 if truth == answer else (truth.lstrip("-"), (answer or "").lstrip("-"))
        for truth, answer in zip(expected, answers, strict=True)
    ).items():
        for place in range(1, len(truth) + 1):
            cell = report.by["place"][str(place)]
            cell[0] += count * (answer[-place : len(answer) - place + 1] == truth[-place : len(truth) - place + 1])
            cell[1] += count


def _add_tolerances(report: Report, problems: list[Problem], answers: list[str | None]) -> None:
    """Within a tolerance of the true value, which is not always the one a scratchpad ends on."""
    for problem, answer in zip(problems, answers, strict=True):
        truth, given = parse_decimal(problem.answer), _ten_thousandths(answer)
        assert truth is not None
        for name, tolerance in TOLERANCES.items():
            cell = report.by["tolerance"][name]
            cell[0] += given is not None and abs(given - truth) <= tolerance
            cell[1] += 1


def _ten_thousandths(answer: str | None) -> float | None:
    """A number as a model wrote it; more decimals than four are allowed here."""
    if answer is None or len(answer) > 30:
        return None
    return float(answer) * 10_000 if (exact := parse_decimal(answer)) is None else exact


# --- scratchpads --------------------------------------------------------------------------------------------------


def first_wrong_line(expected: str, written: str) -> str:
    """What kind of line a scratchpad first goes wrong in."""
    right, given = expected.split("\n"), written.split("\n")
    for number, line in enumerate(right):
        if number >= len(given):
            return "stopped early"
        if given[number] != line:
            return _kind_of_difference(line, given[number])
    return "went on"


def _kind_of_difference(line: str, given: str) -> str:
    if "has" in line and "digits." in line:
        return "digit count"
    if re.match(r"\d+(>=|<)\d+", line):
        return "comparison"
    if "A->" in line:
        if line.partition("A->")[0] != given.partition("A->")[0]:
            return "digit step"
        return "carry" if line.partition(" , C->")[0] == given.partition(" , C->")[0] else "digit step"
    if line.startswith("x_") or " * " in line:
        return "digit step"
    if line in ("<scratch>", "</scratch>"):
        return "layout"
    return "result"


# --- questions ------------------------------------------------------------------------------------------------------


def describe(question: EvaluationConfig) -> str:
    """A question in words."""
    parts = [{"exhaustive": "every problem there is"}.get(question.problems, f"the {question.problems} set")]
    if question.prefix:
        parts.append(f"after {question.prefix!r}")
    if question.examples:
        parts.append(f"after {question.examples} {'wrong ' * question.wrong_examples}examples")
    if question.corrupt != "none":
        parts.append(f"with {question.corrupt} wrong digits first")
    parts.append("greedy" if question.temperature == 0 else f"sampled at {question.temperature:g}")
    return ", ".join(parts)


def exemplars(dataset: Dataset, count: int, which: int = 0, wrong: bool = False) -> str:
    """`count` training examples to put in front of a prompt; wrong ones have each other's answers."""
    size = dataset.size("train")
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
            pairs.append(example.prompt + other.completion)
        return "".join(pairs)
    return "".join(example.text for example in examples[:count])


# --- the corrupted-output test ------------------------------------------------------------------------------------


def evaluate_corrupted(
    problems: Iterable[Problem], format: Format, complete: Complete, kind: str, seed: int = 0
) -> dict[str, Any]:
    """Is the third digit right after two wrong ones? Exactly, and within one (modulo ten).

    `random`: the first two digits written become two others; `precise`: the second is off by one. Problems are sums
    of two three-digit numbers, as in the paper.
    """
    if format.name not in ("plain", "plain_wrapped", "reverse", "reverse_unwrapped"):
        raise Unsupported(f"the corrupted-output test needs an answer digit by digit, not {format.name}")
    stream = Stream("corrupt", seed, kind)
    prompts, truths = [], []
    for problem in problems:
        if problem.operation.name != "add" or set(map(len, problem.operands)) != {3}:
            continue
        example = format.write(problem)
        digits = example.completion[:3]
        if kind == "random":
            wrong = int(stream.below(99, 1)[0])
            written = f"{wrong + (wrong >= int(digits[:2])):02d}"
        else:
            written = digits[0] + str((int(digits[1]) + (1 if int(stream.below(2, 1)[0]) else -1)) % 10)
        prompts.append(example.prompt + written)
        truths.append(int(digits[2]))
    if not prompts:
        raise Unsupported("the corrupted-output test needs sums of two three-digit numbers")
    given = [completion[:1] for completion in complete(prompts)]
    exact = relaxed = 0
    for digit, truth in zip(given, truths, strict=True):
        if len(digit) == 1 and digit in "0123456789":
            exact += int(digit) == truth
            relaxed += (int(digit) - truth) % 10 in (0, 1, 9)
    count = len(prompts)
    return {
        "count": count,
        "exact": exact / count,
        "exact_interval": wilson(exact, count),
        "relaxed": relaxed / count,
        "relaxed_interval": wilson(relaxed, count),
    }


# --- problems from outside ----------------------------------------------------------------------------------------


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


def slices_of(dataset: Dataset) -> dict[str, Callable[[Problem], bool]]:
    """The parts of a problem set that a training set tells apart: seen, seen with operands swapped, hidden numbers."""
    domain, train = dataset.splits.domain, set(dataset.splits.train.tolist())
    slices: dict[str, Callable[[Problem], bool]] = {
        "seen in training": lambda problem: domain.code(problem.operands) in train,
        "not seen": lambda problem: domain.code(problem.operands) not in train,
    }
    if isinstance(dataset.splits.operation, IntegerOperation):
        slices["not seen, but swapped"] = lambda problem: (
            domain.code(problem.operands) not in train and domain.code(problem.operands[::-1]) in train
        )
        exclude, base = dataset.splits.config.exclude, dataset.splits.config.base
        if hidden := set(dataset.splits.excluded_numbers):
            slices["with a hidden number"] = lambda problem: any(int(o, base) in hidden for o in problem.operands)
        if exclude.digit is not None and exclude.position is not None:
            for place in range(1, dataset.splits.config.digits + 1):
                slices[f"{exclude.digit} at place {place}"] = _digit_at(exclude.digit, place)
        if exclude.lengths:
            lengths = set(exclude.lengths)
            slices["with a hidden length"] = lambda problem: any(len(o) in lengths for o in problem.operands)
    return slices


def _digit_at(digit: int, place: int) -> Callable[[Problem], bool]:
    return lambda problem: any(len(o) >= place and o[-place] == str(digit) for o in problem.operands)


def _label_order(item: tuple[str, Any]) -> tuple[int, Any]:
    label = item[0]
    return (0, float(label)) if re.fullmatch(r"[0-9.e-]+", label) and label[0].isdigit() else (1, label)
