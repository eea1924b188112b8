"""How a problem is written and how an answer is read back: the interface of all formats."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..config import FormatConfig
from ..errors import Unsupported
from ..operations import Codes, Domain, Operation, Problem

INTEGER = ("add", "subtract", "multiply")
EVERY = (*INTEGER, "sine", "sqrt")

# [0-9] throughout, never \d: a unicode digit is not an answer.
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])(?=[0-9])")
_LEADING_ZEROS = re.compile(r"^(-?)0+(?=[0-9])")
_SPACE_BETWEEN_DIGITS = re.compile(r"(?<=[0-9]) (?=[0-9])")


class Example(NamedTuple):
    """What the model is given, what it should write, and the number that text ends on."""

    prompt: str
    completion: str
    answer: str

    @property
    def text(self) -> str:
        return self.prompt + self.completion


class Texts(NamedTuple):
    """Many examples, one after the other in one text."""

    text: str
    prompt_lengths: NDArray[Any]
    lengths: NDArray[Any]
    """In characters: of the prompts, and of prompt and completion together."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]]) -> "Texts":
        prompts = np.fromiter((len(prompt) for prompt, _ in pairs), np.int64, len(pairs))
        completions = np.fromiter((len(completion) for _, completion in pairs), np.int64, len(pairs))
        return cls("".join(prompt + completion for prompt, completion in pairs), prompts, prompts + completions)

    def pairs(self) -> Iterator[tuple[str, str]]:
        end = 0
        for prompt_length, length in zip(self.prompt_lengths.tolist(), self.lengths.tolist(), strict=True):
            start, end = end, end + length
            yield self.text[start : start + prompt_length], self.text[start + prompt_length : end]


@dataclass(frozen=True)
class Format(ABC):
    """A configured way to write problems.

    A subclass says what surrounds the question (`before`, `behind`), where the answer starts (`after`),
    how a completion closes (`tail`), and how work and answer are written and read (`work`, `number`).
    Spaces and stop marks are added here, for all of them.
    """

    config: FormatConfig
    seed: int = 0
    """Names the noise's stream, together with the problem and the draw."""

    name: ClassVar[str]
    operations: ClassVar[tuple[str, ...]]
    many: ClassVar[bool] = False
    """Whether sums of more than two numbers can be written, too."""
    before: ClassVar[str] = ""
    behind: ClassVar[str] = "="
    after: ClassVar[str] = ""
    """Text after which the end mark counts: newlines occur inside scratchpads."""
    tail: ClassVar[str] = "\n"

    @cached_property
    def end(self) -> str:
        """The mark that ends a completion."""
        mark = self.tail.removesuffix("\n")
        return mark + (self.config.stop or ("" if mark else "\n"))

    @cached_property
    def closing(self) -> str:
        """All that a completion closes with: the end mark, and a newline if one follows it."""
        return self.tail if self.config.stop is None else self.end

    @property
    def alphabet(self) -> str:
        """Characters that it may use and a few examples may not have."""
        return ""

    @property
    def one_is_right(self) -> bool:
        """Whether a completion reads as the right answer only if it is, up to the end mark, the example's own."""
        return False

    def check(self, operation: str, operands: int = 2) -> None:
        if operation not in self.operations:
            raise Unsupported(
                f"format {self.name} does not exist for {operation}; it exists for {', '.join(self.operations)}"
            )
        if operands > 2 and not self.many:
            raise Unsupported(
                f"format {self.name} does not exist for {operands} operands: use running_sums, plain or reverse"
            )

    def write(self, problem: Problem, draw: int = 0) -> Example:
        """The problem as an example. `draw` numbers repeated writings: noise differs between them, nothing else."""
        if problem.operation.name not in self.operations or len(problem.operands) > 2:
            self.check(problem.operation.name, len(problem.operands))
        prompt = self.ask(problem)
        work, answer = self.work(problem, draw)
        if self.config.spaces:
            prompt, work = _space(prompt), _space(work)
        return Example(prompt, work + self.closing, answer)

    def write_all(self, operation: Operation, domain: Domain, codes: Codes, closing: str | None = None) -> Texts:
        """Many problems of a domain at once, each closed by `closing` if that is given."""
        cut = len(self.closing)
        closing = self.closing if closing is None else closing
        examples = (self.write(Problem(operation, operands)) for operands in domain.operands(codes))
        return Texts.of([(prompt, completion[:-cut] + closing) for prompt, completion, _ in examples])

    def read(self, completion: str) -> str | None:
        """The answer as text; None when the end mark never came or no number stands before it. Never raises."""
        if self.after:
            _, found, completion = completion.partition(self.after)
            if not found:
                return None
        text, ended, _ = completion.partition(self.end)
        if not ended:
            return None
        if self.config.spaces:
            text, spaced = _SPACE_BETWEEN_DIGITS.sub("", text), text
            if _space(text) != spaced:
                return None
        return self.number(text)

    def finished(self, completion: str) -> bool:
        """Whether the end mark has come: generation stops there."""
        _, found, rest = completion.partition(self.after) if self.after else ("", True, completion)
        return bool(found) and self.end in rest

    def ask(self, problem: Problem) -> str:
        """The prompt, before spaces are added."""
        return f"{self.before}{problem.operation.question(problem.operands)}{self.behind}"

    def asked(self, prompt: str) -> str | None:
        """The question behind a prompt, None if this format does not ask that way."""
        if self.config.spaces:
            prompt = _SPACE_BETWEEN_DIGITS.sub("", prompt)
        if not (prompt.startswith(self.before) and prompt.endswith(self.behind)):
            return None
        return prompt[len(self.before) : len(prompt) - len(self.behind)]

    def split(self, text: str) -> Iterator[tuple[str, str]]:
        """Prompts and completions of examples written one after the other; the last may be incomplete."""
        start = 0
        while start < len(text):
            prompt_end = _end_of(text, self.prompt_end(text, start), start)
            answer_start = _end_of(text, self.after, prompt_end)
            end = _end_of(text, self.closing, answer_start)
            yield text[start:prompt_end], text[prompt_end:end]
            start = end

    def prompt_end(self, text: str, start: int) -> str:
        """What closes the prompt that starts here."""
        return self.behind

    @abstractmethod
    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        """What the model writes, without the closing, and the answer it ends on."""

    def number(self, text: str) -> str | None:
        """The number that the answer's text stands for."""
        return text if _NUMBER.fullmatch(text) else None


def without_leading_zeros(number: str) -> str:
    """-006 is -6 and 000 is 0."""
    return _LEADING_ZEROS.sub(r"\1", number)


def _space(text: str) -> str:
    return _BETWEEN_DIGITS.sub(" ", text)


def _end_of(text: str, mark: str, start: int) -> int:
    """Where the next `mark` ends, or the text does."""
    found = text.find(mark, start)
    return len(text) if found < 0 else found + len(mark)
