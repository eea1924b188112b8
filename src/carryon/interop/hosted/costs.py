"""What an evaluation or a fine-tuning will take, before it starts."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...data import FORMS, make_dataset
from ...errors import MissingExtra
from ...formats import make_format
from ...tokenizers import Gpt2
from .settings import LimitsConfig, TuningConfig

_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])(?=[0-9])")
PER_MESSAGE = 8
"""Tokens that a chat template puts around a message; few use more."""


class TokenCount:
    """How many tokens a text has, about; and how that was counted."""

    def __init__(self) -> None:
        self._count: Callable[[str], int]
        try:
            tokenizer = Gpt2.load()
        except MissingExtra:
            self._count, self.how = len, "one token a character, an upper bound (pip install 'carryon[bpe]' counts)"
        else:
            # Most models of today give every digit a token of its own, which GPT-2 does only between spaces.
            self._count = lambda text: len(tokenizer.encode(_BETWEEN_DIGITS.sub(" ", text)))
            self.how = "GPT-2's tokenizer, every digit a token"

    def __call__(self, text: str) -> int:
        return self._count(text)


def most_tokens(text: str) -> int:
    """No tokenizer makes more of it than its bytes."""
    return len(text.encode("utf-8", "replace"))


@dataclass(frozen=True)
class Estimate:
    problems: int
    answered: int
    """Of these, in the file already."""
    requests: int
    """Still to be made: a question that occurs twice is asked once."""
    input_tokens: int
    output_tokens: int
    """If all answers are as long as right ones."""
    most_output_tokens: int
    """If all are as long as they may be."""
    counted: str
    cost: float | None
    """Dollars, of what is still to be asked."""
    most_cost: float | None
    least_seconds: float
    """What the rate limits alone take."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def in_words(self) -> str:
        known = f" ({self.answered:,} of {self.problems:,} are answered already)" if self.answered else ""
        requests = f"{self.requests:,} request{'' if self.requests == 1 else 's'}{known}"
        if not self.requests:
            return requests
        words = (
            f"{requests}, about {self.input_tokens:,} tokens of prompts and "
            f"{self.output_tokens:,} to {self.most_output_tokens:,} of answers, counted with {self.counted}"
        )
        if self.cost is not None and self.most_cost is not None:
            words += f"; ${dollars(self.cost)} to ${dollars(self.most_cost)}"
        else:
            words += "; --price-input and --price-output (dollars for a million tokens) make a cost of that"
        if self.least_seconds >= 1:
            words += f"; at least {self.least_seconds:,.0f} s at the rates allowed"
        return words


def estimate(
    prompts: Sequence[str],
    completions: Sequence[str],
    bound: int,
    limits: LimitsConfig,
    known: tuple[int, int],
    shared: int,
) -> Estimate:
    """Of requests still to be made: what they hold, and what right answers would.

    `known`: how many problems there are, and how many are answered. `shared`: tokens that come with every prompt, such
    as instruction and examples.
    """
    count = TokenCount()
    given = sum(count(prompt) for prompt in prompts) + shared * len(prompts)
    right = sum(count(completion) for completion in completions)
    most = bound * len(prompts)
    least = 60 * max(
        len(prompts) / (limits.requests_per_minute or float("inf")),
        (given + most) / (limits.tokens_per_minute or float("inf")),
    )
    return Estimate(
        *known,
        len(prompts),
        given,
        min(right, most),
        most,
        count.how,
        limits.cost(given, min(right, most)),
        limits.cost(given, most),
        least,
    )


def dollars(amount: float) -> str:
    """Two decimals, or as many as a small amount needs."""
    return f"{amount:,.2f}" if amount >= 1 or amount == 0 else f"{amount:.4f}" if amount >= 0.001 else f"{amount:.6f}"


@dataclass(frozen=True)
class TuningEstimate:
    examples: int
    tokens: int
    """Of the training file, once."""
    counted: str
    epochs: int | None
    cost: float | None
    """Dollars, for all epochs, or for one where the server decides how many."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimate_tuning(config: TuningConfig, price: float | None = None) -> TuningEstimate:
    """What training takes, by the contents of its file. `price`: dollars for a million tokens."""
    count, examples, tokens = TokenCount(), 0, 0
    for text in _texts(config):
        examples, tokens = examples + 1, tokens + count(text) + (2 * PER_MESSAGE if config.form == "openai" else 0)
    cost = None if price is None else tokens * (config.epochs or 1) * price / 1_000_000
    return TuningEstimate(examples, tokens, count.how, config.epochs, cost)


def _texts(config: TuningConfig) -> Iterator[str]:
    if config.data_folder is None:
        yield from (example.text for example in make_dataset(config.data, config.seed).examples("train"))
        return
    folder = Path(config.data_folder)
    form, format = FORMS[config.form], make_format(config.data.format, config.seed)
    yield from (row["prompt"] + row["completion"] for row in form.read(folder / form.file("train"), format))
