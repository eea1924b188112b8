"""Formats that write the work before the answer."""

import re
from collections.abc import Callable
from typing import Any

from ..config import Noise
from ..operations import IntegerOperation, Problem
from ..operations.addition import Addition
from ..operations.decimals import ONE, decimal_text
from ..operations.digits import to_text
from ..operations.multiplication import Multiplication
from ..operations.sine import Sine
from ..operations.square_root import SquareRoot
from ..operations.subtraction import Subtraction
from ..rng import Stream
from .base import EVERY, Format, without_leading_zeros

_SPACED_NUMBER = re.compile(r"-?[0-9](?: [0-9])*|-?[0-9]+\.[0-9]+")


class Scratchpad(Format):
    """All scratchpads are asked for in the same way."""

    before = "Input:\n"
    behind = "\nTarget:\n"


class SimplifiedScratchpad(Scratchpad):
    """Digit sum (A) and carry (C) of every column, lowest first, then the answer.

        Input:              the prompt
        128+367
        Target:
        A->5 , C->1         the completion
        A->9 , C->0
        A->4 , C->0.
        495

    With noise, A, C or both are random in every line and the rest stays right.
    """

    name = "simplified_scratchpad"
    operations = ("add", "subtract")
    after = ".\n"

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        return simplified_work(problem, self.config.noise, self.seed, draw)


class DetailedScratchpad(Scratchpad):
    """Every column spelled out, then the answer's digits with spaces.

        Input:              the prompt
        128+367
        Target:
        <scratch>           the completion
        [1,2,8] has 3 digits.
        [3,6,7] has 3 digits.
        [1,2,8] + [3,6,7] , A=[] , C=0 , 8+7+0=15 , A->5 , C->1
        [1,2] + [3,6] , A=[5] , C=1 , 2+6+1=9 , A->9 , C->0
        [1] + [3] , A=[9,5] , C=0 , 1+3+0=4 , A->4 , C->0
        [] + [] , A=[4,9,5] C=0 , END
        </scratch>
        4 9 5

    Sine and square root show a Taylor series and Newton's method instead, floored to four decimals at every
    step, and the answer is the number these end on.
    """

    name = "detailed_scratchpad"
    operations = EVERY
    after = "</scratch>\n"

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        return detailed_work(problem)

    def number(self, text: str) -> str | None:
        # Where the spaces option has taken the spaces out, the number stands there as it is.
        return super().number(text) if self.config.spaces else read_spaced(text)


class DetailedScratchpadV2(Scratchpad):
    """Subtraction that compares first and always takes the smaller from the larger.

        128-367   has the line   128<367 : 128-367=-(367-128)   and goes on with 367-128
        367-128   has the line   367>=128

    The answer keeps the columns' leading zeros: 100-99 ends on "0 0 1", which reads as 1.
    """

    name = "detailed_scratchpad_v2"
    operations = ("subtract",)
    after = "</scratch>\n"

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        operation = problem.operation
        assert isinstance(operation, Subtraction)
        a, b = problem.operands
        x, y = operation.numbers(problem.operands)
        head = f"{_digit_count(a)}\n{_digit_count(b)}"
        if x >= y:
            columns, digits = _columns(operation, (a, b))
            head += f"\n{a}>={b}"
        else:
            columns, digits = _columns(operation, (b, a))
            head += f"\n{a}<{b} : {a}-{b}=-({b}-{a})"
        lines = f"<scratch>\n{head}\n{columns}\n[] - [] , A=[{digits}] , END\n</scratch>\n"
        return lines + "-" * (x < y) + digits.replace(",", " "), operation.answer(problem.operands)

    def number(self, text: str) -> str | None:
        number = super().number(text) if self.config.spaces else read_spaced(text)
        return number and without_leading_zeros(number)


def simplified_work(problem: Problem, noise: Noise, seed: int, draw: int) -> tuple[str, str]:
    operation = problem.operation
    steps = operation.steps(problem.operands)
    digits = [to_text(step.digit, operation.base) for step in steps]
    carries = [step.carry_out for step in steps]
    if noise != "none":
        stream = Stream("noise", seed, operation.name, operation.base, problem.operands, draw)
        random_digits = stream.below(operation.base, len(steps)).tolist()
        random_carries = stream.below(2, len(steps)).tolist()
        if noise in ("A", "both"):
            digits = list(map(str, random_digits))
        if noise in ("C", "both"):
            carries = [-c for c in random_carries] if isinstance(operation, Subtraction) else random_carries
    lines = [f"A->{digit} , C->{carry}" for digit, carry in zip(digits, carries, strict=True)]
    if isinstance(operation, Subtraction):
        lines.append(_result_processing(operation, problem.operands))
    answer = problem.answer
    return "\n".join(lines) + f".\n{answer}", answer


def detailed_work(problem: Problem) -> tuple[str, str]:
    lines, result = _WORK[problem.operation.name](problem.operation, problem.operands)
    answer = result if isinstance(problem.operation, Sine | SquareRoot) else _spaced(result)
    return f"<scratch>\n{lines}\n</scratch>\n{answer}", result


def read_spaced(text: str) -> str | None:
    """The number behind "4 9 5" or "0.4794"."""
    return text.replace(" ", "") if _SPACED_NUMBER.fullmatch(text) else None


def _spaced(number: str) -> str:
    """-239 as "-2 3 9"."""
    return f"-{' '.join(number[1:])}" if number.startswith("-") else " ".join(number)


def _digit_count(number: str) -> str:
    return f"[{','.join(number)}] has {len(number)} digits."


def _columns(operation: IntegerOperation, operands: tuple[str, ...]) -> tuple[str, str]:
    """The lines of a sum's or difference's columns, and the digits they make, highest first: "4,9,5"."""
    a, b = operands
    symbol, base = operation.symbol, operation.base
    lines = []
    digits = ""
    num_columns = max(len(a), len(b))
    for column, step in enumerate(operation.steps(operands), start=1):
        left, right, carry, total, digit, carry_out = step
        # 2-6-0+10=6: a borrowed ten is written, and the carry without its sign.
        ten = "+10" if symbol == "-" and carry_out and column < num_columns else ""
        digit_text = str(digit) if base == 10 else to_text(digit, base)
        lines.append(
            f"[{','.join(a)}] {symbol} [{','.join(b)}] , A=[{digits}] , C={carry} , "
            f"{left}{symbol}{right}{symbol}{abs(carry)}{ten}={total if base == 10 else to_text(total, base)} , "
            f"A->{digit_text} , C->{carry_out}"
        )
        digits = f"{digit_text},{digits}" if digits else digit_text
        a, b = a[:-1], b[:-1]
    return "\n".join(lines), digits


def _result_processing(operation: Subtraction, operands: tuple[str, ...]) -> str:
    """-300+61=-239: the highest column, which may be negative, plus what the others make."""
    *lower, highest = operation.steps(operands)
    power = operation.base ** len(lower)
    x, y = operation.numbers(operands)
    top = highest.digit * power
    parts = (to_text(number, operation.base) for number in (top, x - y - top, x - y))
    return "{}+{}={}".format(*parts)


def _add_work(operation: Addition, operands: tuple[str, ...]) -> tuple[str, str]:
    a, b = operands
    columns, digits = _columns(operation, operands)
    answer = operation.answer(operands)
    carry = int(len(answer) > max(len(a), len(b)))
    return f"{_digit_count(a)}\n{_digit_count(b)}\n{columns}\n[] + [] , A=[{digits}] C={carry} , END", answer


def _subtract_work(operation: Subtraction, operands: tuple[str, ...]) -> tuple[str, str]:
    a, b = operands
    columns, digits = _columns(operation, operands)
    result = _result_processing(operation, operands)
    lines = f"{_digit_count(a)}\n{_digit_count(b)}\n{columns}\n[] - [] , A=[{digits}]\n{result} , END"
    return lines, operation.answer(operands)


def _multiply_work(operation: Multiplication, operands: tuple[str, ...]) -> tuple[str, str]:
    """[1,2] * 6 , A=[7,2] , k=1 , B=[7,2] , C=0+72=72"""
    a, b = operands
    lines = [_digit_count(a), _digit_count(b)]
    for step in operation.steps(operands):
        shifted = step.product * step.power
        product, power, part, before, total = (
            to_text(number, operation.base)
            for number in (step.product, step.power, shifted, step.sum_before, step.sum_before + shifted)
        )
        lines.append(
            f"[{','.join(a)}] * {step.digit} , A=[{','.join(product)}] , k={power} , B=[{','.join(part)}] , "
            f"C={before}+{part}={total}"
        )
    return "\n".join(lines) + " , END", operation.answer(operands)


def _sine_work(operation: Sine, operands: tuple[str, ...]) -> tuple[str, str]:
    """x_1: x_0 - 1/3! * (x^3) , x_1=0.8484"""
    steps = operation.steps(operands)
    lines = [f"x_0={operands[0]}"]
    for n, sign, power, _, value in steps:
        lines.append(f"x_{n}: x_{n - 1} {sign} 1/{power}! * (x^{power}) , x_{n}={decimal_text(value)}")
    return "\n".join(lines) + " , END", decimal_text(steps[-1].value)


def _sqrt_work(operation: SquareRoot, operands: tuple[str, ...]) -> tuple[str, str]:
    """x_1: 1/2*(2+7.1042/2)=2.776, x_1=2.776"""
    (x,) = operands
    steps = operation.steps(operands)
    before = str(steps[0].before // ONE)  # the first guess is written as a whole number
    lines = [f"x_0={before}"]
    for n, _, value in steps:
        after = decimal_text(value)
        lines.append(f"x_{n}: 1/2*({before}+{x}/{before})={after}, x_{n}={after}")
        before = after
    return "\n".join(lines) + " , END", before


_WORK: dict[str, Callable[[Any, tuple[str, ...]], tuple[str, str]]] = {
    "add": _add_work,
    "subtract": _subtract_work,
    "multiply": _multiply_work,
    "sine": _sine_work,
    "sqrt": _sqrt_work,
}
