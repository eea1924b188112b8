"""The corrupted-output test of the paper's noise section."""

from collections.abc import Iterable
from typing import Any

from ..errors import Unsupported
from ..formats import Format
from ..operations import (
    Problem,
)
from ..rng import Stream
from .report import wilson
from .scoring import Complete


def evaluate_corrupted(
    problems: Iterable[Problem], format: Format, complete: Complete, kind: str, seed: int = 0
) -> dict[str, Any]:
    """Is the third digit right after two wrong ones? Exactly, and within one (modulo ten).

    `random`: the first two digits written become two others, which start a number where the highest digit comes
    first: no zero there; `precise`: the second is off by one. Problems are sums of two three-digit numbers, as in the
    paper.
    """
    if format.name not in ("plain", "plain_wrapped", "reverse", "reverse_unwrapped"):
        raise Unsupported(f"the corrupted-output test needs an answer digit by digit, not {format.name}")
    stream = Stream("corrupt", seed, kind)
    lowest = 10 if format.name.startswith("plain") else 0
    prompts, truths = [], []
    for problem in problems:
        if problem.operation.name != "add" or [*map(len, problem.operands)] != [3, 3]:
            continue
        example = format.write(problem)
        digits = example.completion[:3]
        if kind == "random":
            wrong = lowest + int(stream.below(99 - lowest, 1)[0])
            written = f"{wrong + (wrong >= int(digits[:2])):02d}"
        else:
            written = digits[0] + str((int(digits[1]) + (1 if int(stream.below(2, 1)[0]) else -1)) % 10)
        prompts.append(example.prompt + written)
        truths.append(int(digits[2]))
    if not prompts:
        raise Unsupported("the corrupted-output test needs sums of two three-digit numbers")
    given = [completion[:1] for completion in complete(prompts)]
    exact = relaxed = 0
    for digit, truth in zip(given, truths, strict=True):
        if len(digit) == 1 and digit in "0123456789":
            exact += int(digit) == truth
            relaxed += (int(digit) - truth) % 10 in (0, 1, 9)
    count = len(prompts)
    return {
        "count": count,
        "exact": exact / count,
        "exact_interval": wilson(exact, count),
        "relaxed": relaxed / count,
        "relaxed_interval": wilson(relaxed, count),
    }
