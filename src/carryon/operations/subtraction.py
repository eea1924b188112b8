"""a - b, which may be negative."""

import numpy as np

from .base import DigitStep, IntegerOperation, columns
from .digits import Whole, carries_of_sum


class Subtraction(IntegerOperation):
    name = "subtract"
    symbol = "-"

    @staticmethod
    def compute(a: Whole, b: Whole) -> Whole:
        answer: Whole = a - b
        return answer

    def carries(self, a: Whole, b: Whole) -> Whole:
        """The borrows of larger minus smaller: taking b from a borrows where adding b to a-b carries."""
        small, large = (min(a, b), max(a, b)) if isinstance(a, int) else (np.minimum(a, b), np.maximum(a, b))
        return carries_of_sum(small, large - small, self.base)

    def steps(self, operands: tuple[str, ...]) -> list[DigitStep]:
        """128-367: (8, 7, 0, 1, 1, 0), (2, 6, 0, 6, 6, -1), (1, 3, -1, -3, -3, -1).

        A column that would go below zero borrows (2-6-0+10=6), except the highest: it keeps its sign, and
        the paper's "result processing" line sorts it out (-300+61=-239).
        """
        steps = []
        borrow = 0
        pairs = columns(*operands)
        for column, (left, right) in enumerate(pairs):
            digit = left - right + borrow
            borrow_out = -1 if digit < 0 else 0
            if borrow_out and column < len(pairs) - 1:
                digit += self.base
            steps.append(DigitStep(left, right, borrow, digit, digit, borrow_out))
            borrow = borrow_out
        return steps
