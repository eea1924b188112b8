"""a + b, and a + b + c + …."""

from itertools import accumulate

from ..config import MAX_OPERANDS
from ..errors import Unsupported
from .base import DigitStep, IntegerOperation, columns
from .digits import Whole, carries_of_sum, to_text


class Addition(IntegerOperation):
    name = "add"
    symbol = "+"
    most = MAX_OPERANDS

    @staticmethod
    def compute(a: Whole, b: Whole) -> Whole:
        answer: Whole = a + b
        return answer

    def carries(self, a: Whole, b: Whole) -> Whole:
        return carries_of_sum(a, b, self.base)

    def answer(self, operands: tuple[str, ...]) -> str:
        if len(operands) == 2:
            return super().answer(operands)
        return to_text(sum(int(operand, self.base) for operand in operands), self.base)

    def running_sums(self, operands: tuple[str, ...]) -> list[int]:
        """12+7+305: 12, 19, 324."""
        return list(accumulate(int(operand, self.base) for operand in operands))

    def steps(self, operands: tuple[str, ...]) -> list[DigitStep]:
        """128+367: (8, 7, 0, 15, 5, 1), (2, 6, 1, 9, 9, 0), (1, 3, 0, 4, 4, 0)."""
        if len(operands) != 2:
            raise Unsupported(f"columns are worked for 2 operands, not for {len(operands)}")
        steps = []
        carry = 0
        for left, right in columns(*operands):
            total = left + right + carry
            carry_out, digit = divmod(total, self.base)
            steps.append(DigitStep(left, right, carry, total, digit, carry_out))
            carry = carry_out
        return steps
