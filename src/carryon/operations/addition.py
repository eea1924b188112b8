"""a + b."""

from .base import DigitStep, IntegerOperation, columns
from .digits import Whole, carries_of_sum


class Addition(IntegerOperation):
    name = "add"
    symbol = "+"

    @staticmethod
    def compute(a: Whole, b: Whole) -> Whole:
        answer: Whole = a + b
        return answer

    def carries(self, a: Whole, b: Whole) -> Whole:
        return carries_of_sum(a, b, self.base)

    def steps(self, operands: tuple[str, ...]) -> list[DigitStep]:
        """128+367: (8, 7, 0, 15, 5, 1), (2, 6, 1, 9, 9, 0), (1, 3, 0, 4, 4, 0)."""
        steps = []
        carry = 0
        for left, right in columns(*operands):
            total = left + right + carry
            carry_out, digit = divmod(total, self.base)
            steps.append(DigitStep(left, right, carry, total, digit, carry_out))
            carry = carry_out
        return steps
