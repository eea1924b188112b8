"""Formats that add up number by number, every number of one width: digits of one weight are found by counting."""

from ..operations import Problem
from ..operations.addition import Addition
from ..operations.digits import to_text
from ..operations.multiplication import Multiplication
from .base import Format, without_leading_zeros


class RunningSums(Format):
    """Sums of two numbers or more, and on the way the sum so far, lowest digit first.

        12+7+305=324   is written   "0012+0007+0305="   "0000>2100>9100>4230\\n"
        7+58=65        is written   "007+058="          "000>700>560\\n"

    The sums begin with zero and the first operand, so that each is the one before it and the operand of its turn.
    Every number is as wide as so many operands could need if the longest had nothing but nines: 2997 for 3 of 3 digits.
    """

    name = "running_sums"
    operations = ("add",)
    many = True

    def ask(self, problem: Problem) -> str:
        width = self.width_of(problem)
        return f"{self.before}{'+'.join(operand.zfill(width) for operand in problem.operands)}{self.behind}"

    def asked(self, prompt: str) -> str | None:
        question = super().asked(prompt)
        return question and "+".join(map(without_leading_zeros, question.split("+")))

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        operation, width = problem.operation, self.width_of(problem)
        assert isinstance(operation, Addition)
        sums = [0, *operation.running_sums(problem.operands)]
        return ">".join(_backwards(number, operation.base, width) for number in sums), to_text(sums[-1], operation.base)

    def number(self, text: str) -> str | None:
        _, added, last = text.rpartition(">")
        return _forwards(last) if added else None

    @staticmethod
    def width_of(problem: Problem) -> int:
        base, longest = problem.operation.base, max(map(len, problem.operands))
        return len(to_text(len(problem.operands) * (base**longest - 1), base))


class PartialProducts(Format):
    """The first number times every digit of the second, lowest first; then these products added up, each one place
    further on than the last.

        12*36=432    is written   "12*36="    "270+630=2700>2340\\n"     12*6=072; 12*3=036; 0072; 0072+0360=0432
        305*7=2135   is written   "305*7="    "5312=5312\\n"
    """

    name = "partial_products"
    operations = ("multiply",)

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        operation = problem.operation
        assert isinstance(operation, Multiplication)
        base, (a, b) = operation.base, problem.operands
        steps = operation.steps(problem.operands)
        sums = [step.sum_before + step.product * step.power for step in steps]
        products = "+".join(_backwards(step.product, base, len(a) + 1) for step in steps)
        added = ">".join(_backwards(number, base, len(a) + len(b)) for number in sums)
        return f"{products}={added}", to_text(sums[-1], base)

    def number(self, text: str) -> str | None:
        _, multiplied, sums = text.rpartition("=")
        return _forwards(sums.rpartition(">")[2]) if multiplied else None


def _backwards(number: int, base: int, width: int) -> str:
    return to_text(number, base).zfill(width)[::-1]


def _forwards(written: str) -> str | None:
    """The number, whatever the work before it: that may go astray and end well."""
    return without_leading_zeros(written[::-1]) if written.isascii() and written.isdigit() else None
