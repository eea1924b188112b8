"""Digits that say which place they have."""

import re
import string

from ..config import MAX_HINTS
from ..errors import BadOperand
from ..operations import Problem
from ..rng import Stream
from .base import Example, Format

LETTERS = string.ascii_letters + "".join(filter(str.isalpha, map(chr, range(0xC0, 0xA00))))[: MAX_HINTS - 52]
"""Each one character in any vocabulary of characters."""

_HINTED = re.compile(r"(?:[^\W\d_][0-9])+")


class IndexHints(Format):
    """A letter in front of every digit, the same in front of digits of one weight; the answer lowest digit first.

        54+37=91     is written   "a5b4+a3b7="         "b1a9\\n"      or   "k5l4+k3l7="         "l1k9\\n"
        128+67=195   is written   "c1d2e8+d6e7="       "e5d9c1\\n"

    Letters follow each other in one order, from any of `hints` on, so that all are met in numbers of any length: a
    model that learns what to do with each has learnt it for longer numbers, too (Zhou et al., 2023).
    """

    name = "index_hints"
    operations = ("add",)
    many = True

    @property
    def alphabet(self) -> str:
        return LETTERS[: self.config.hints]

    def write(self, problem: Problem, draw: int = 0) -> Example:
        if problem.operation.name not in self.operations:
            self.check(problem.operation.name)
        answer = problem.operation.answer(problem.operands)
        longest = max(map(len, (*problem.operands, answer)))
        if longest > self.config.hints:
            raise BadOperand(
                f"numbers of {longest} digits need as many hints, not {self.config.hints}: raise data.format.hints"
            )
        stream = Stream("hints", self.seed, problem.operation.name, problem.operation.base, problem.operands, draw)
        start = int(stream.below(self.config.hints - longest + 1, 1)[0])
        letters = LETTERS[start : start + longest]
        operands = tuple(_hinted(operand, letters) for operand in problem.operands)
        written = _hinted(answer, letters)
        backwards = "".join(written[at : at + 2] for at in range(len(written) - 2, -1, -2))
        prompt = f"{self.before}{problem.operation.question(operands)}{self.behind}"
        return Example(prompt, backwards + self.closing, answer)

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        _, completion, answer = self.write(problem, draw)
        return completion.removesuffix(self.closing), answer

    def asked(self, prompt: str) -> str | None:
        question = super().asked(prompt)
        if question is None:
            return None
        numbers = question.split("+")
        return None if None in (bare := [_bare(number) for number in numbers]) else "+".join(map(str, bare))

    def number(self, text: str) -> str | None:
        return _bare("".join(text[at : at + 2] for at in range(len(text) - 2, -1, -2))) if len(text) % 2 == 0 else None


def _hinted(number: str, letters: str) -> str:
    return "".join(letter + digit for letter, digit in zip(letters[-len(number) :], number, strict=True))


def _bare(hinted: str) -> str | None:
    """Its digits, if each has the letter that follows the one before."""
    if not _HINTED.fullmatch(hinted) or hinted[::2] not in LETTERS:
        return None
    return hinted[1::2]
