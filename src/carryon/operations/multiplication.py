"""a * b."""

from typing import NamedTuple

import numpy as np

from .base import IntegerOperation
from .digits import Whole


class PartialProduct(NamedTuple):
    """The first operand times one digit of the second: 12*36 has (6, 72, 1, 0) and (3, 36, 10, 72)."""

    digit: int
    product: int
    power: int
    sum_before: int


class Multiplication(IntegerOperation):
    name = "multiply"
    symbol = "*"

    @staticmethod
    def compute(a: Whole, b: Whole) -> Whole:
        answer: Whole = a * b
        return answer

    def carries(self, a: Whole, b: Whole) -> Whole:
        """How many columns of the long multiplication pass a carry on to the next."""
        a_digits, b_digits = self._digits(a), self._digits(b)
        count = carry = a * 0
        for column in range(len(a_digits) + len(b_digits) - 1):
            total = carry
            for i in range(max(0, column - len(b_digits) + 1), min(column + 1, len(a_digits))):
                total = total + a_digits[i] * b_digits[column - i]
            carry = total // self.base
            count = count + (carry > 0)
        return count

    def _digits(self, number: Whole) -> list[Whole]:
        digits = [number % self.base]
        while np.any(number := number // self.base):
            digits.append(number % self.base)
        return digits

    def steps(self, operands: tuple[str, ...]) -> list[PartialProduct]:
        a, _ = self.numbers(operands)
        steps = []
        power, total = 1, 0
        for text in reversed(operands[1]):
            digit = int(text)
            steps.append(PartialProduct(digit, a * digit, power, total))
            total += a * digit * power
            power *= self.base
        return steps
