"""The strings of the paper's last appendix, for fine-tuning hosted models: `###` stops every completion."""

import re

from ..operations import DecimalFunction, Problem
from ..operations.decimals import decimal_text
from ..operations.sine import Sine
from .base import Format
from .scratchpads import Scratchpad, detailed_work, read_spaced, simplified_work

_SPACED = re.compile(r" (?:- )?[0-9](?: [0-9])*")
_DECIMAL = re.compile(r" -?[0-9]+\.[0-9]+")
_REVERSED = re.compile(r" [0-9](?: [0-9])*(?: -)?")


class HostedPlain(Format):
    """Spaces between all characters, so that every digit is one token, and one space first.

    677+898=1575             is written   "6 7 7 + 8 9 8 ="   " 1 5 7 5###"
    204-501=-297             is written   "2 0 4 - 5 0 1 ="   " - 2 9 7###"
    sin(-0.8649)=-0.7611     is written   "sin(-0.8649)\\n"    " -0.7611###"
    """

    name = "hosted_plain"
    operations = ("add", "subtract", "sine", "sqrt")
    tail = "###"

    def ask(self, problem: Problem) -> str:
        if isinstance(problem.operation, DecimalFunction):
            return f"{problem.question}\n"
        return _spaced_question(problem)

    def asked(self, prompt: str) -> str | None:
        if prompt.endswith(")\n"):
            return prompt.removesuffix("\n")
        return _spaced_asked(prompt)

    def prompt_end(self, text: str, start: int) -> str:
        return "\n" if text.startswith("s", start) else "="

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        answer = problem.answer
        if isinstance(problem.operation, DecimalFunction):
            return f" {answer}", answer
        return f" {' '.join(answer)}", answer

    def number(self, text: str) -> str | None:
        return text.replace(" ", "") if _SPACED.fullmatch(text) or _DECIMAL.fullmatch(text) else None


class HostedReverse(Format):
    """The spaced answer, lowest digit first.

    749+785=1534   is written   "7 4 9 + 7 8 5 ="   " 4 3 5 1###"
    """

    name = "hosted_reverse"
    operations = ("add", "subtract")
    tail = "###"

    def ask(self, problem: Problem) -> str:
        return _spaced_question(problem)

    def asked(self, prompt: str) -> str | None:
        return _spaced_asked(prompt)

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        answer = problem.answer
        return f" {' '.join(reversed(answer))}", answer

    def number(self, text: str) -> str | None:
        return text.replace(" ", "")[::-1] if _REVERSED.fullmatch(text) else None


class HostedSimplifiedScratchpad(Scratchpad):
    """The simplified scratchpad, ending on `###`."""

    name = "hosted_simplified_scratchpad"
    operations = ("add", "subtract")
    after = ".\n"
    tail = "###"

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        return simplified_work(problem, "none", self.seed, draw)


class HostedDetailedScratchpad(Scratchpad):
    """The detailed scratchpad, ending on `###`.

    Sine is written in the appendix's older way, which spells the powers out and opens no <scratch>:

        x_0=-1.3516
        x_1: -1.3516 - 1/3! * (x*x*x) , x_1=-0.9401
        …
        </scratch>
        -0.9762###
    """

    name = "hosted_detailed_scratchpad"
    operations = ("add", "subtract", "sine", "sqrt")
    after = "</scratch>\n"
    tail = "###"

    def work(self, problem: Problem, draw: int) -> tuple[str, str]:
        if not isinstance(problem.operation, Sine):
            return detailed_work(problem)
        lines = [f"x_0={problem.operands[0]}"]
        for n, sign, power, before, value in problem.operation.steps(problem.operands):
            product = "*".join("x" * power)
            lines.append(f"x_{n}: {decimal_text(before)} {sign} 1/{power}! * ({product}) , x_{n}={decimal_text(value)}")
        answer = decimal_text(value)
        return "\n".join(lines) + f" , END\n</scratch>\n{answer}", answer

    def number(self, text: str) -> str | None:
        return read_spaced(text)


def _spaced_question(problem: Problem) -> str:
    return f"{' '.join(problem.question)} ="


def _spaced_asked(prompt: str) -> str | None:
    return prompt.removesuffix(" =").replace(" ", "") if prompt.endswith(" =") else None
