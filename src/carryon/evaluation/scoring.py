"""Problems asked, and what comes back scored."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from ..formats import Example, Format, Texts
from ..operations import (
    DecimalFunction,
    Problem,
    Problems,
)
from ..operations.decimals import parse_decimal
from .report import Report
from .scratchpads import first_wrong_line
from .sheets import Sheet

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
    prefix: str | Mapping[str, str] = "",
    given_lines: int = 0,
    slices: Slices | None = None,
    tick: Callable[[int], None] | None = None,
) -> Report:
    """Ask what is on the sheets and score what comes back.

    `prefix`: what stands in front of the prompts; several, by name: everything is asked after each, and counted by
    their names, too. `given_lines` of each right completion are put behind the prompt; negative: all but so many.
    """
    report = Report()
    prefixes = {"": prefix} if isinstance(prefix, str) else prefix
    for sheet in sheets:
        for name, written in _ask(sheet, complete, prefixes, given_lines).items():
            _count(report, sheet, name, prefixes[name], written, slices)
        if tick:
            tick(report.count)
    return report


def _ask(
    sheet: Sheet, complete: Complete, prefixes: Mapping[str, str], given_lines: int
) -> "dict[str, tuple[NDArray[np.bool_], Written]]":
    """By the prefix's name: which answers are right, and those that were written out."""
    asked = {}
    for name, prefix in prefixes.items():
        # A completion that is the example's own reads as its answer: that is the law of every format.
        right = np.zeros(len(sheet), bool)
        if isinstance(complete, Confirm) and not given_lines:
            right |= complete.confirm(sheet.texts, prefix)
        asked[name] = right
    rest = [(name, index) for name, right in asked.items() for index in np.flatnonzero(~right).tolist()]
    answers: dict[str, Written] = {name: {} for name in prefixes}
    for (name, index), written in zip(rest, _write(sheet, rest, complete, prefixes, given_lines), strict=True):
        answers[name][index] = written
        asked[name][index] = written[2] == written[0].answer
    return {name: (right, answers[name]) for name, right in asked.items()}


def _count(
    report: Report,
    sheet: Sheet,
    name: str,
    prefix: str,
    answers: "tuple[NDArray[np.bool_], Written]",
    slices: Slices | None,
) -> None:
    right, written = answers
    if name:
        report.add_counts("prompt", name, int(right.sum()), len(right))
    report.right += int(right.sum())
    report.count += len(right)
    report.unreadable += sum(answer is None for _, _, answer in written.values())
    for kind, labels in sheet.labels():
        report.add(kind, labels, right)
    for part, inside in (slices(sheet.problems) if slices else {}).items():
        report.add_counts("slice", part, int((right & inside).sum()), int(inside.sum()))
    if isinstance(sheet.problems[0].operation, DecimalFunction):
        _add_tolerances(report, sheet, written)
    else:
        _add_places(report, sheet, written, right)
    for index, (example, completion, answer) in written.items():
        if right[index]:
            continue
        if sheet.format.after:
            report.first_wrong_lines[first_wrong_line(example.completion, completion)] += 1
        if len(report.failures) < report.max_failures:
            report.failures.append(
                {
                    "question": sheet.problems[index].question,
                    "answer": example.answer,
                    "read": answer,
                    **({"after": name} if name else {}),
                    "prompt": prefix + example.prompt,
                    "completion": completion,
                }
            )


Written = dict[int, tuple[Example, str, str | None]]
"""By its place on the sheet: the example, what was written, and the answer read from it."""


def _write(
    sheet: Sheet, rest: list[tuple[str, int]], complete: Complete, prefixes: Mapping[str, str], given_lines: int
) -> list[tuple[Example, str, str | None]]:
    """Have the completions written that were not confirmed, after whatever prefix, all at once."""
    if len(rest) >= len(sheet):
        examples = [sheet.examples[index] for _, index in rest]
    else:
        examples = [sheet.format.write(sheet.problems[index]) for _, index in rest]
    given = ["".join(example.completion.splitlines(keepends=True)[:given_lines]) for example in examples]
    prompts = [
        prefixes[name] + example.prompt + start for (name, _), example, start in zip(rest, examples, given, strict=True)
    ]
    completions = complete(prompts) if prompts else []
    if len(completions) != len(prompts):
        raise BadInput(f"{len(prompts)} prompts were given {len(completions)} completions: one for each is needed")
    completions = [start + completion for start, completion in zip(given, completions, strict=True)]
    return [
        (example, completion, sheet.format.read(completion))
        for example, completion in zip(examples, completions, strict=True)
    ]


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
    """Within a tolerance of the true value, and of the one the example ends on: a scratchpad's series stops early."""
    for index, (problem, example) in enumerate(zip(sheet.problems, sheet.examples, strict=True)):
        answer = written[index][2] if index in written else example.answer
        truth, ending, given = parse_decimal(problem.answer), parse_decimal(example.answer), _ten_thousandths(answer)
        assert truth is not None
        assert ending is not None
        middle = f"{(truth // _BIN + 0.5) * _BIN / 10_000:.2f}"
        for name, tolerance in TOLERANCES.items():
            good = int(given is not None and abs(given - ending) <= tolerance)
            report.add_counts("tolerance", name, int(given is not None and abs(given - truth) <= tolerance), 1)
            report.add_counts("tolerance of the ending", name, good, 1)
            report.add_counts(f"output within {name}", middle, good, 1)


def _ten_thousandths(answer: str | None) -> float | None:
    """A number as a model wrote it; more decimals than four are allowed here."""
    if answer is None or len(answer) > 30:
        return None
    return float(answer) * 10_000 if (exact := parse_decimal(answer)) is None else exact
