"""Completions to numbers one can trust.

Any function from prompts to completions can be scored: one of our models, a Hugging Face model, a hosted one.
An answer counts when the format reads it as the right number; one that cannot be read is wrong, never left out.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import sqrt
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .config import DataConfig, EvaluationConfig, ExcludeConfig
from .data import Dataset
from .errors import BadInput, CarryonError, Unsupported
from .formats import Example, Format, Texts
from .operations import (
    Codes,
    DecimalFunction,
    Domain,
    IntegerOperation,
    Pairs,
    Problem,
    Problems,
    operation,
    parse_question,
)
from .operations.decimals import parse_decimal
from .operations.digits import num_digits
from .rng import Stream

Counts = dict[str, list[int]]
"""label -> [right, all]"""

TOLERANCES = {"0": 0, "5e-4": 5, "5e-3": 50}
"""For sine and square root, in ten-thousandths."""
_BIN = 200
"""Their true outputs are counted in bins this wide, in ten-thousandths, named by their middle."""
_CHUNK = 262_144


class Complete(Protocol):
    def __call__(self, prompts: Sequence[str], /) -> list[str]: ...


@runtime_checkable
class Confirm(Protocol):
    """What a `complete` may offer beside: to say, much faster than by writing, where it would write just this."""

    def confirm(self, texts: Texts, prefix: str, /) -> NDArray[np.bool_]: ...


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

    def add(self, kind: str, labels: NDArray[Any], right: NDArray[np.bool_]) -> None:
        """Count one more chunk by these labels."""
        names, places = np.unique(labels, return_inverse=True)
        every, good = np.bincount(places, minlength=len(names)), np.bincount(places[right], minlength=len(names))
        for label, count, num_right in zip(names.tolist(), every.tolist(), good.tolist(), strict=True):
            text = f"{label // _LENGTH_KEY}x{label % _LENGTH_KEY}" if kind == "lengths" else str(label)
            self.add_counts(kind, text, num_right, count)

    def add_counts(self, kind: str, label: str, right: int, count: int) -> None:
        if count:
            cell = self.by[kind][label]
            cell[0] += right
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


def percent(right: int, count: int) -> str:
    """Three decimals, rounded down: 999,999 of 1,000,000 is 99.999%, not 100.000%."""
    thousandths = right * 100_000 // count if count else 0
    return f"{thousandths // 1000}.{thousandths % 1000:03d}%"


def wilson(right: int, count: int, z: float = 1.96) -> list[float] | None:
    """The 95 % interval of a proportion: unlike the usual one it stays inside [0, 1] and works for 10,000 of 10,000."""
    if not count:
        return None
    share = right / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return [max(0.0, middle - half), min(1.0, middle + half)]


class Sheet:
    """Problems written in a format, ready to be asked as often as one likes."""

    def __init__(self, problems: Sequence[Problem], format: Format) -> None:
        self.problems, self.format = problems, format

    def __len__(self) -> int:
        return len(self.problems)

    @cached_property
    def texts(self) -> Texts:
        """Prompts and right completions, these up to their end mark."""
        end, problems = self.format.end, self.problems
        if isinstance(problems, Problems):
            return self.format.write_all(problems.operation, problems.domain, problems.codes, end)
        cut = len(self.format.closing)
        return Texts.of([(prompt, completion[:-cut] + end) for prompt, completion, _ in self.examples])

    @cached_property
    def examples(self) -> list[Example]:
        return [self.format.write(problem) for problem in self.problems]

    @cached_property
    def numbers(self) -> tuple[IntegerOperation, Any, Any] | None:
        """The operands as two arrays, if all problems are of one integer operation."""
        problems = self.problems
        if isinstance(problems, Problems):
            kind, domain = problems.operation, problems.domain
            return (kind, *domain.split(problems.codes)) if isinstance(kind, IntegerOperation) else None  # type: ignore[attr-defined]
        kind = problems[0].operation
        if not isinstance(kind, IntegerOperation) or any(problem.operation != kind for problem in problems):
            return None
        longest = max(max(len(a), len(b)) for _, (a, b) in problems)
        dtype = np.int64 if longest <= (9 if kind.name == "multiply" else 18) else object
        a, b = (np.array([int(p.operands[i], kind.base) for p in problems], dtype) for i in (0, 1))
        return kind, a, b

    def labels(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Digits, lengths and carries, for problems of one integer operation."""
        if self.numbers is None:
            return
        kind, a, b = self.numbers
        a_length, b_length = (num_digits(n, kind.base).astype(np.int64) for n in (a, b))
        yield "digits", np.maximum(a_length, b_length)
        yield "carries", kind.carries(a, b).astype(np.int64)
        yield "lengths", a_length * _LENGTH_KEY + b_length

    def answer_lengths(self) -> NDArray[np.int64]:
        """Digits of the answers."""
        if self.numbers is not None:
            kind, a, b = self.numbers
            lengths: NDArray[np.int64] = num_digits(abs(kind.compute(a, b)), kind.base).astype(np.int64)
            return lengths
        return np.array([len(example.answer.lstrip("-")) for example in self.examples], np.int64)


_LENGTH_KEY = 100_000
"""Two lengths as one number, 3x2 as 300002: much quicker to count than text."""

Slices = Callable[[Sequence[Problem]], dict[str, NDArray[np.bool_]]]
"""Which of these problems belong to each named part."""


def make_sheets(problems: Iterable[Problem], format: Format) -> Iterator[Sheet]:
    if isinstance(problems, Problems):
        return (Sheet(problems[at : at + _CHUNK], format) for at in range(0, len(problems), _CHUNK))
    return (Sheet(chunk, format) for chunk in _chunks(iter(problems)))


def _chunks(problems: Iterator[Problem]) -> Iterator[list[Problem]]:
    while chunk := list(islice(problems, _CHUNK)):
        yield chunk


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
    return score(make_sheets(problems, format), complete, prefix=prefix, slices=slices, tick=tick)


def score(
    sheets: Iterable[Sheet],
    complete: Complete,
    *,
    prefix: str = "",
    given_lines: int = 0,
    slices: Slices | None = None,
    tick: Callable[[int], None] | None = None,
) -> Report:
    """Ask what is on the sheets and score what comes back.

    `given_lines` of each right completion are put behind the prompt; negative: all but so many.
    """
    report = Report()
    for sheet in sheets:
        _score(report, sheet, complete, prefix, given_lines, slices)
        if tick:
            tick(report.count)
    return report


def _score(
    report: Report, sheet: Sheet, complete: Complete, prefix: str, given_lines: int, slices: Slices | None
) -> None:
    # A completion that is the example's own reads as its answer: that is the law of every format.
    right = np.zeros(len(sheet), bool)
    if isinstance(complete, Confirm) and not given_lines:
        right |= complete.confirm(sheet.texts, prefix)
    written = _write_rest(sheet, np.flatnonzero(~right).tolist(), complete, prefix, given_lines)
    for index, (example, _, answer) in written.items():
        right[index] = answer == example.answer
    report.right += int(right.sum())
    report.count += len(right)
    report.unreadable += sum(answer is None for _, _, answer in written.values())
    for kind, labels in sheet.labels():
        report.add(kind, labels, right)
    for name, inside in (slices(sheet.problems) if slices else {}).items():
        report.add_counts("slice", name, int((right & inside).sum()), int(inside.sum()))
    if isinstance(sheet.problems[0].operation, DecimalFunction):
        _add_tolerances(report, sheet, written)
    else:
        _add_places(report, sheet, written, right)
    for index, (example, completion, answer) in written.items():
        if sheet.format.after and completion != example.completion:
            report.first_wrong_lines[first_wrong_line(example.completion, completion)] += 1
        if not right[index] and len(report.failures) < report.max_failures:
            report.failures.append(
                {
                    "question": sheet.problems[index].question,
                    "answer": example.answer,
                    "read": answer,
                    "prompt": example.prompt,
                    "completion": completion,
                }
            )


Written = dict[int, tuple[Example, str, str | None]]
"""By its place on the sheet: the example, what was written, and the answer read from it."""


def _write_rest(sheet: Sheet, rest: list[int], complete: Complete, prefix: str, given_lines: int) -> Written:
    """Have the completions written that were not confirmed."""
    examples = sheet.examples if len(rest) == len(sheet) else [sheet.format.write(sheet.problems[i]) for i in rest]
    given = ["".join(example.completion.splitlines(keepends=True)[:given_lines]) for example in examples]
    prompts = [prefix + example.prompt + start for example, start in zip(examples, given, strict=True)]
    completions = complete(prompts) if prompts else []
    if len(completions) != len(prompts):
        raise BadInput(f"{len(prompts)} prompts were given {len(completions)} completions: one for each is needed")
    completions = [start + completion for start, completion in zip(given, completions, strict=True)]
    return {
        index: (example, completion, sheet.format.read(completion))
        for index, example, completion in zip(rest, examples, completions, strict=True)
    }


def _add_places(report: Report, sheet: Sheet, written: Written, right: NDArray[np.bool_]) -> None:
    """Which digits of the answers are right, the lowest being place 1."""
    for length, count in zip(*np.unique(sheet.answer_lengths()[right], return_counts=True), strict=True):
        for place in range(1, int(length) + 1):
            report.add_counts("place", str(place), int(count), int(count))
    for index in np.flatnonzero(~right).tolist():
        example, _, answer = written[index]
        truth, given = example.answer.lstrip("-"), (answer or "").lstrip("-")
        for place in range(1, len(truth) + 1):
            good = place <= len(given) and given[-place] == truth[-place]
            report.add_counts("place", str(place), int(good), 1)


def _add_tolerances(report: Report, sheet: Sheet, written: Written) -> None:
    """Within a tolerance of the true value, which is not always the one a scratchpad ends on."""
    for index, (problem, example) in enumerate(zip(sheet.problems, sheet.examples, strict=True)):
        answer = written[index][2] if index in written else example.answer
        truth, given = parse_decimal(problem.answer), _ten_thousandths(answer)
        assert truth is not None
        middle = f"{(truth // _BIN + 0.5) * _BIN / 10_000:.2f}"
        for name, tolerance in TOLERANCES.items():
            good = int(given is not None and abs(given - truth) <= tolerance)
            report.add_counts("tolerance", name, good, 1)
            report.add_counts(f"output within {name}", middle, good, 1)


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
    if question.listed:
        parts = [", ".join(question.listed)]
    elif question.data is not None:
        other = question.data
        what = f"{other.digits}-digit {other.operation}" if other.is_integer else other.operation
        parts = [
            {"exhaustive": f"every {what} problem"}.get(question.problems, f"the {question.problems} set of {what}")
        ]
    if question.shown:
        parts.append(f"after {' and '.join(question.shown)} worked out")
    if question.given_lines:
        parts.append(f"with {question.given_lines} lines given")
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


def slices_of(dataset: Dataset) -> Slices:
    """The parts that a training set tells apart: seen, seen with operands swapped, with something hidden in it."""
    splits = dataset.splits
    domain, exclude = splits.domain, splits.config.exclude
    train = np.sort(splits.train)

    def is_in_training(codes: Codes) -> NDArray[np.bool_]:
        places = np.minimum(np.searchsorted(train, codes), len(train) - 1)
        return np.asarray(train[places] == codes, bool) if len(train) else np.zeros(len(codes), bool)

    def parts(problems: Sequence[Problem]) -> dict[str, NDArray[np.bool_]]:
        codes = _codes(problems, domain)
        seen = is_in_training(codes)
        names = {"seen in training": seen, "not seen": ~seen}
        if isinstance(domain, Pairs):
            names["not seen, but swapped"] = ~seen & (codes >= 0) & is_in_training(domain.swapped(codes))
            for name, is_hidden in _hidden(exclude, splits.excluded_numbers, splits.config).items():
                names[name] = np.array([any(map(is_hidden, operands)) for _, operands in problems], bool)
        return names

    return parts


def _codes(problems: Sequence[Problem], domain: Domain) -> Codes:
    """The problems' codes in a domain; -1 for those outside."""
    if isinstance(problems, Problems) and problems.domain == domain:
        return problems.codes
    codes = (domain.code(operands) for _, operands in problems)
    return domain.codes(-1 if code is None else code for code in codes)


def _hidden(exclude: ExcludeConfig, numbers: Iterable[int], config: DataConfig) -> dict[str, Callable[[str], bool]]:
    """What training was not shown, by name, as tests of an operand."""
    tests: dict[str, Callable[[str], bool]] = {}
    if hidden := set(numbers):
        tests["with a hidden number"] = lambda operand: int(operand, config.base) in hidden
    if lengths := set(exclude.lengths):
        tests["with a hidden length"] = lambda operand: len(operand) in lengths
    if exclude.digit is not None:
        digit = str(exclude.digit)
        for place in range(1, config.longest + 1):
            tests[f"{digit} at place {place}"] = (
                lambda operand, place=place: len(operand) >= place and operand[-place] == digit  # type: ignore[misc]
            )
    return tests


def _label_order(item: tuple[str, Any]) -> tuple[int, Any]:
    label = item[0]
    return (0, float(label)) if re.fullmatch(r"[0-9.e-]+", label) and label[0].isdigit() else (1, label)
