"""Formats that write the answer and nothing else."""

from ..errors import BadOperand
from ..operations import Problem
from .base import EVERY, INTEGER, Format, without_leading_zeros


class Plain(Format):
    """The way people write it.

        128+367=495       is written   "128+367="       "495\\n"
        sin(0.5)=0.4794   is written   "sin(0.5)="      "0.4794\\n"

    The first digit written depends on every digit of both operands, which makes this format hard to learn.
    """

    name = "plain"
    operations = EVERY

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        answer = problem.operation.answer(problem.operands)
        return answer, answer


class PlainWrapped(Format):
    """Plain between `$` marks, which show where an example starts and stops.

    128+367=495   is written   "$128+367="   "495$\\n"
    """

    name = "plain_wrapped"
    operations = INTEGER
    before = "$"
    tail = "$\n"

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        answer = problem.operation.answer(problem.operands)
        return answer, answer


class Reversed(Format):
    """The answer's digits lowest first: a model that writes left to right meets each carry before it needs it."""

    operations = INTEGER

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        answer = problem.operation.answer(problem.operands)
        return answer[::-1], answer

    def number(self, text: str) -> str | None:
        return super().number(text[::-1])


class Reverse(Reversed):
    """Lowest digit first, between `$` marks.

    128+367=495    is written   "$128+367="   "594$\\n"
    128-367=-239   is written   "$128-367="   "932-$\\n"
    """

    name = "reverse"
    before = "$"
    tail = "$\n"


class ReverseUnwrapped(Reversed):
    """Lowest digit first, without the `$` marks.

    128+367=495   is written   "128+367="   "594\\n"
    """

    name = "reverse_unwrapped"


class Padded(Format):
    """Operands padded with zeros to a common width, so that digits of equal weight line up."""

    operations = ("add",)

    def ask(self, problem: Problem) -> str:
        a, b = (operand.zfill(self.width_for(problem)) for operand in problem.operands)
        return f"{a}+{b}{self.behind}"

    def asked(self, prompt: str) -> str | None:
        question = super().asked(prompt)
        return question and "+".join(map(without_leading_zeros, question.split("+")))

    def unpadded(self, text: str) -> str | None:
        """The number behind its zeros; one of another width was not written in this format."""
        if self.config.width and len(text) != self.config.width + 1:
            return None
        return without_leading_zeros(text) if text.isascii() and text.isdigit() else None

    def width_for(self, problem: Problem) -> int:
        longest = max(map(len, problem.operands))
        width = self.config.width or longest
        if longest > width:
            raise BadOperand(f"{problem.question} does not fit {self.name} with width {width}: raise the width")
        return width


class PlainPadded(Padded):
    """Operands padded with zeros to `width` digits, the answer to one more.

        112+29=141   is written   "112+029="   "0141\\n"

    Every digit then stands at a fixed place. `read` gives back the number itself, 141.
    """

    name = "plain_padded"

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        answer = problem.answer
        return answer.zfill(self.width_for(problem) + 1), answer

    def number(self, text: str) -> str | None:
        return self.unpadded(text)


class ReversePadded(Padded):
    """The padded answer, lowest digit first.

    112+29=141   is written   "112+029="   "1410\\n"
    """

    name = "reverse_padded"

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        answer = problem.answer
        return answer.zfill(self.width_for(problem) + 1)[::-1], answer

    def number(self, text: str) -> str | None:
        return self.unpadded(text[::-1])
