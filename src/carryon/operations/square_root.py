"""The square root of x for 1 <= x < 10."""

from math import isqrt
from typing import NamedTuple

from .base import DecimalFunction
from .decimals import ONE
from .domains import Line


class NewtonStep(NamedTuple):
    """x_n = (x_(n-1) + x / x_(n-1)) / 2, in ten-thousandths, floored."""

    n: int
    before: int
    value: int


class SquareRoot(DecimalFunction):
    name = "sqrt"
    symbol = "sqrt"
    domain = Line(10_000, 99_999)

    @staticmethod
    def compute(value: int) -> int:
        return isqrt(value * ONE)

    def steps(self, operands: tuple[str, ...]) -> list[NewtonStep]:
        """The paper's four Newton steps from the floor of the root, a whole number."""
        x = self.value(operands)
        guess = isqrt(x // ONE) * ONE
        steps = []
        for n in range(1, 5):
            before = guess
            guess = (guess * guess + x * ONE) // (2 * guess)
            steps.append(NewtonStep(n, before, guess))
        return steps
