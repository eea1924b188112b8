"""sin(x) for -1.5707 <= x <= 1.5707, in radians."""

from math import factorial
from typing import NamedTuple

from .base import DecimalFunction
from .decimals import ONE
from .domains import Line


class TaylorStep(NamedTuple):
    """x_n = x_(n-1) -+ x^power / power!, in ten-thousandths, floored."""

    n: int
    sign: str
    power: int
    before: int
    value: int


class Sine(DecimalFunction):
    name = "sine"
    symbol = "sin"
    domain = Line(-15_707, 15_707)

    @staticmethod
    def compute(value: int) -> int:
        # The Taylor series in units of 1e-30, until its terms vanish. The integer divisions lose less than 20
        # units in all; the sine of a non-zero rational is irrational, so a floor that close to a whole
        # ten-thousandth would mean too few digits, and the assertion would say so.
        unit = 10**30
        x = value * (unit // ONE)
        total, term, power = 0, x, 1
        while abs(term) > 1:  # floors of ever smaller negative terms stop at -1, not 0
            total += term
            power += 2
            term = -(term * x // unit * x // unit) // ((power - 1) * power)
        low, high = ((total + error) // (unit // ONE) for error in (-100, 100))
        assert low == high or value == 0, f"sin({value}e-4) needs more digits"
        return high

    def steps(self, operands: tuple[str, ...]) -> list[TaylorStep]:
        """The paper's four terms. Every partial sum is floored, so the last lies up to 4e-4 below the true sine."""
        x = total = self.value(operands)
        steps = []
        for n, power in enumerate((3, 5, 7, 9), start=1):
            sign = -1 if n % 2 else 1
            before = total
            total += sign * x**power * ONE // (ONE**power * factorial(power))
            steps.append(TaylorStep(n, "-" if sign < 0 else "+", power, before, total))
        return steps
