"""Problems written in a format, ready to be asked."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..formats import Example, Format, Texts
from ..operations import (
    IntegerOperation,
    Pairs,
    Problem,
    Problems,
)
from ..operations.digits import num_digits
from .report import LENGTH_KEY


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
        """The operands as two arrays, if all problems are of one integer operation and have two."""
        problems = self.problems
        if isinstance(problems, Problems):
            kind, domain = problems.operation, problems.domain
            if not (isinstance(kind, IntegerOperation) and isinstance(domain, Pairs)):
                return None
            return kind, *domain.split(problems.codes)
        kind = problems[0].operation
        if not isinstance(kind, IntegerOperation) or any(problem.operation != kind for problem in problems):
            return None
        if any(len(operands) > 2 for _, operands in problems):
            return None
        longest = max(max(len(a), len(b)) for _, (a, b) in problems)
        dtype = np.int64 if longest <= (9 if kind.name == "multiply" else 18) else object
        a, b = (np.array([int(p.operands[i], kind.base) for p in problems], dtype) for i in (0, 1))
        return kind, a, b

    def labels(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Digits, lengths and carries, for problems of one integer operation; digits and operands where these are more
        than two.
        """
        if self.numbers is None:
            if len({operation for operation, _ in self.problems}) == 1 and self.problems[0].operation.name == "add":
                counts = [(max(map(len, operands)), len(operands)) for _, operands in self.problems]
                yield from zip(("digits", "operands"), np.array(counts, np.int64).T, strict=True)
            return
        kind, a, b = self.numbers
        a_length, b_length = (num_digits(n, kind.base).astype(np.int64) for n in (a, b))
        yield "digits", np.maximum(a_length, b_length)
        yield "carries", kind.carries(a, b).astype(np.int64)
        yield "lengths", a_length * LENGTH_KEY + b_length

    def answer_lengths(self) -> NDArray[np.int64]:
        """Digits of the answers."""
        if self.numbers is not None:
            kind, a, b = self.numbers
            lengths: NDArray[np.int64] = num_digits(abs(kind.compute(a, b)), kind.base).astype(np.int64)
            return lengths
        return np.array([len(example.answer.lstrip("-")) for example in self.examples], np.int64)
