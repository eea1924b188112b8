"""Formats that write the answer and nothing else, on one line."""

import re
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import BadOperand
from ..operations import Codes, Domain, IntegerOperation, Operation, Pairs, Problem
from ..operations.digits import num_digits
from .base import EVERY, INTEGER, Format, Texts, without_leading_zeros

_DIGITS = re.compile("[0-9]+")


class OneLine(Format):
    """A question and its answer. A million of them are written as arrays of digits, not one by one."""

    backwards: ClassVar[bool] = False
    """The answer's digits lowest first: a model that writes left to right meets each carry before it needs it."""
    turned: ClassVar[bool] = False
    """The operands' digits lowest first, too."""
    many: ClassVar[bool] = True
    padded: ClassVar[bool] = False
    """Operands filled with zeros to `width` digits and answers to one more, so that every digit has its place."""

    @property
    def one_is_right(self) -> bool:
        return not self.padded or self.config.width > 0  # otherwise zeros may be more or fewer

    def ask(self, problem: Problem) -> str:
        operands = problem.operands
        if self.padded:
            width = self.width_for(max(map(len, operands)))
            operands = tuple(operand.zfill(width) for operand in operands)
        if self.turned:
            operands = tuple(operand[::-1] for operand in operands)
        return f"{self.before}{problem.operation.question(operands)}{self.behind}"

    def asked(self, prompt: str) -> str | None:
        question = super().asked(prompt)
        if self.turned and question is not None:
            question = _DIGITS.sub(lambda number: number[0][::-1], question)
        return "+".join(map(without_leading_zeros, question.split("+"))) if self.padded and question else question

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        answer = problem.operation.answer(problem.operands)
        written = answer
        if self.padded:
            written = answer.zfill(self.width_for(max(map(len, problem.operands))) + 1)
        return written[::-1] if self.backwards else written, answer

    def number(self, text: str) -> str | None:
        if self.backwards:
            text = text[::-1]
        if not self.padded:
            return super().number(text)
        if self.config.width and len(text) != self.config.width + 1:
            return None  # of another width: not written in this format
        return without_leading_zeros(text) if text.isascii() and text.isdigit() else None

    def width_for(self, longest: int) -> int:
        width = self.config.width or longest
        if longest > width:
            raise BadOperand(f"numbers of {longest} digits do not fit {self.name} with width {width}: raise the width")
        return width

    def write_all(self, operation: Operation, domain: Domain, codes: Codes, closing: str | None = None) -> Texts:
        closing = self.closing if closing is None else closing
        if self.config.spaces or not self._as_arrays(operation, domain, closing):
            return super().write_all(operation, domain, codes, closing)
        assert isinstance(operation, IntegerOperation)
        assert isinstance(domain, Pairs)
        self.check(operation.name)
        numbers = domain.split(codes)
        answers = operation.compute(*numbers)
        fill: Any = np.zeros(len(codes), np.int64)
        if self.padded:
            longest = num_digits(np.maximum(*numbers), operation.base)
            fill += self.config.width or longest
            self.width_for(int(longest.max(initial=0)))
        a, b = (_digits(number, operation.base, fill)[:, :: -1 if self.turned else 1] for number in numbers)
        sign = np.where(answers[:, None] < 0, ord("-"), 0).astype(np.uint8)
        answer = np.hstack([sign, _digits(abs(answers), operation.base, fill + self.padded)])
        shown = answer[:, ::-1] if self.backwards else answer
        fields = (self.before, a, operation.symbol, b, self.behind, shown, closing)
        columns = np.hstack([_repeated(f, len(codes)) if isinstance(f, str) else f for f in fields])
        written = columns > 0
        lengths = written.sum(axis=1)
        behind = len(closing) + answer.shape[1]
        return Texts(columns[written].tobytes().decode("ascii"), written[:, :-behind].sum(axis=1), lengths)

    def _as_arrays(self, operation: Operation, domain: Domain, closing: str) -> bool:
        fits = domain.size < 2**63 and (self.config.width < 18 or not self.padded)
        return isinstance(operation, IntegerOperation) and isinstance(domain, Pairs) and fits and closing.isascii()


def _digits(numbers: NDArray[Any], base: int, fill: NDArray[Any]) -> NDArray[np.uint8]:
    """Each number's digits as characters, right-aligned in a row; 0 where it has none, "0" up to `fill` of them."""
    width = max(int(num_digits(numbers, base).max(initial=1)), int(fill.max(initial=0)))
    powers = base ** np.arange(width - 1, -1, -1, dtype=np.int64)
    present = (numbers[:, None] >= powers) | (np.arange(width, 0, -1) <= np.maximum(fill, 1)[:, None])
    return np.where(present, numbers[:, None] // powers % base + ord("0"), 0).astype(np.uint8)


def _repeated(text: str, count: int) -> NDArray[np.uint8]:
    return np.tile(np.frombuffer(text.encode(), np.uint8), (count, 1))


class Plain(OneLine):
    """The way people write it.

        128+367=495       is written   "128+367="       "495\\n"
        sin(0.5)=0.4794   is written   "sin(0.5)="      "0.4794\\n"

    The first digit written depends on every digit of both operands, which makes this format hard to learn.
    """

    name = "plain"
    operations = EVERY


class PlainWrapped(OneLine):
    """Plain between `$` marks, which show where an example starts and stops.

    128+367=495   is written   "$128+367="   "495$\\n"
    """

    name = "plain_wrapped"
    operations = INTEGER
    before = "$"
    tail = "$\n"


class Reverse(OneLine):
    """Lowest digit first, between `$` marks.

    128+367=495    is written   "$128+367="   "594$\\n"
    128-367=-239   is written   "$128-367="   "932-$\\n"
    """

    name = "reverse"
    operations = INTEGER
    before = "$"
    tail = "$\n"
    backwards = True


class ReverseUnwrapped(OneLine):
    """Lowest digit first, without the `$` marks.

    128+367=495   is written   "128+367="   "594\\n"
    """

    name = "reverse_unwrapped"
    operations = INTEGER
    backwards = True


class ReverseAll(OneLine):
    """All numbers lowest digit first, so that digits of one weight are equally far from where their numbers begin.

    128+367=495   is written   "821+763="   "594\\n"
    """

    name = "reverse_all"
    operations = INTEGER
    backwards = True
    turned = True


class PlainPadded(OneLine):
    """Operands padded with zeros to `width` digits, the answer to one more.

        112+29=141   is written   "112+029="   "0141\\n"

    Every digit then stands at a fixed place. `read` gives back the number itself, 141.
    """

    name = "plain_padded"
    operations = ("add",)
    many = False
    padded = True


class ReversePadded(OneLine):
    """The padded answer, lowest digit first.

    112+29=141   is written   "112+029="   "1410\\n"
    """

    name = "reverse_padded"
    operations = ("add",)
    many = False
    padded = True
    backwards = True


class ReverseAllPadded(OneLine):
    """All numbers padded, and lowest digit first: a digit's weight is how far it is from where its number begins.

    112+29=141   is written   "211+920="   "1410\n"
    """

    name = "reverse_all_padded"
    operations = ("add",)
    many = False
    backwards = True
    turned = True
    padded = True
