"""Questions after examples and after text, and what is made of their answers."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ..config import EvaluationConfig, TextPromptName, choices
from .base import Question, Tier
from .measured import SAMPLED_AT_08, Measured, Metric
from .protocols import ask, few

SHOTS = (1, 2, 3)
SETS = 5
"""Sets of examples for each number of shots; few-shot is the mean over all."""
AMONG = 500
"""They come from the smallest training set, which lies inside the others: every size is asked after the same. Another
seed has others."""
TEXT_KINDS: tuple[TextPromptName, ...] = choices(TextPromptName)  # type: ignore[assignment]
ZERO_SHOT, SAME, TEXT, NOISY = "zero-shot", "zero-shot, same problems", "text", "noisy"
"""SAME: the problems that are asked after prompts, asked bare. Two accuracies differ by their problems, too."""


def shot(count: int) -> str:
    return f"{count}-shot"


def prompted(
    tier: Tier, part: int, zero: int | None, limit: int, *, noisy: bool = False, **settings: Any
) -> list[Question]:
    """One data set asked bare, after 1, 2 and 3 examples, after text, and with `noisy` after three wrong examples.

    `zero` and `limit`: how many problems are asked bare, and after each prompt.
    """
    asked = {ZERO_SHOT: EvaluationConfig(part=part, limit=zero), SAME: EvaluationConfig(part=part, limit=limit)}
    sets = EvaluationConfig(part=part, limit=limit, examples=1, sets=SETS, examples_among=AMONG)
    for count in few(tier, SHOTS, 2):
        asked[shot(count)] = sets.model_copy(update={"examples": count})
    if noisy:
        asked[NOISY] = sets.model_copy(update={"examples": 3, "wrong_examples": True})
    asked[TEXT] = EvaluationConfig(part=part, limit=limit, text_prompts=few(tier, TEXT_KINDS, 2))
    questions = [Question(ask(tier, config), {**settings, "prompt": prompt}) for prompt, config in asked.items()]
    if tier == "paper":  # as the authors asked after prompts
        for prompt in (shot(1), TEXT):
            sampled = asked[prompt].model_copy(update={"temperature": 0.8})
            questions.append(Question(sampled, {**settings, "prompt": prompt, "decoding": SAMPLED_AT_08}))
    return questions


def cut_prompts(measured: Measured, prompts: Iterable[str], name: str = "prompt", /, **settings: object) -> str:
    """A sentence for the note of a table, if prompts had to be cut to leave room for an answer.

    `name`: of the setting that tells prompts apart.
    """
    shares = {prompt: measured.stat(_cut, **settings, **{name: prompt}) for prompt in prompts}
    told = [f"{prompt} {stat.mean:.0f} %" for prompt, stat in shares.items() if stat and stat.mean]
    return f" Prompts cut from the left to leave room for an answer: {', '.join(told)}." if told else ""


def _cut(metrics: Mapping[str, Any]) -> float | None:
    count = metrics.get("count")
    return 100 * metrics.get("cropped", 0) / count if count else None


def few_shot(measured: Measured, **settings: object) -> float:
    """The mean over 1, 2 and 3 examples."""
    return sum(measured.mean(**settings, prompt=shot(count)) for count in SHOTS) / len(SHOTS)


def after(kind: str) -> Metric:
    """Accuracy in percent after the texts of one kind."""

    def metric(metrics: Mapping[str, Any]) -> float | None:
        found = [counts for name, counts in _prompts(metrics).items() if name.startswith(f"{kind} ")]
        count = sum(n for _, n in found)
        return 100 * sum(right for right, _ in found) / count if count else None

    return metric


def deviation(metrics: Mapping[str, Any]) -> float | None:
    """Standard deviation of the accuracy, in points, over the prompts of one question."""
    shares = [100 * right / count for right, count in _prompts(metrics).values() if count]
    if len(shares) < 2:
        return None
    mean = sum(shares) / len(shares)
    return math.sqrt(sum((share - mean) ** 2 for share in shares) / len(shares))


def _prompts(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = metrics.get("by", {}).get("prompt", {})
    return found
