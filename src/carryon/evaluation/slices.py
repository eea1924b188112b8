"""The parts of a test that a training set tells apart."""

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..config import DataConfig, ExcludeConfig
from ..data import Dataset
from ..operations import (
    Codes,
    Domain,
    Pairs,
    Problem,
    Problems,
)
from .scoring import Slices


def slices_of(dataset: Dataset, digit_apart: int | None = None, in_text: Collection[str] = ()) -> Slices:
    """The parts that a training set tells apart: seen, seen with operands swapped, with something hidden in it.

    `digit_apart`: a digit to tell apart by its place, hidden or not. `in_text`: questions of a text that was read, too.
    """
    splits = dataset.splits
    domain, exclude = splits.domain, splits.config.exclude
    train = np.sort(splits.train)

    def is_in_training(codes: Codes) -> NDArray[np.bool_]:
        places = np.minimum(np.searchsorted(train, codes), len(train) - 1)
        return np.asarray(train[places] == codes, bool) if len(train) else np.zeros(len(codes), bool)

    def parts(problems: Sequence[Problem]) -> dict[str, NDArray[np.bool_]]:
        codes = _codes(problems, domain)
        seen = is_in_training(codes)
        if in_text:
            seen = seen | np.array([problem.question in in_text for problem in problems], bool)
        names = {"seen in training": seen, "not seen": ~seen}
        if isinstance(domain, Pairs):
            names["not seen, but swapped"] = ~seen & (codes >= 0) & is_in_training(domain.swapped(codes))
            digit = exclude.digit if digit_apart is None else digit_apart
            for name, is_hidden in _hidden(exclude, splits.excluded_numbers, splits.config, digit).items():
                names[name] = np.array([any(map(is_hidden, operands)) for _, operands in problems], bool)
        return names

    return parts


def _codes(problems: Sequence[Problem], domain: Domain) -> Codes:
    """The problems' codes in a domain; -1 for those outside."""
    if isinstance(problems, Problems) and problems.domain == domain:
        return problems.codes
    codes = (domain.code(operands) for _, operands in problems)
    return domain.codes(-1 if code is None else code for code in codes)


def _hidden(
    exclude: ExcludeConfig, numbers: Iterable[int], config: DataConfig, digit: int | None
) -> dict[str, Callable[[str], bool]]:
    """What training was not shown, by name, as tests of an operand."""
    tests: dict[str, Callable[[str], bool]] = {}
    if hidden := set(numbers):
        tests["with a hidden number"] = lambda operand: int(operand, config.base) in hidden
    if lengths := set(exclude.lengths):
        tests["with a hidden length"] = lambda operand: len(operand) in lengths
    if digit is not None:
        for place in range(1, config.longest + 1):
            tests[f"{digit} at place {place}"] = (
                lambda operand, place=place: len(operand) >= place and operand[-place] == str(digit)  # type: ignore[misc]
            )
    return tests
