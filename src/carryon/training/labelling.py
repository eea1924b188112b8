"""Problems labelled by the models that will learn from them, and which of the labels are kept.

Nothing here that chooses a label knows the answer: how many are true is counted apart, and told.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from ..config import FiltersConfig
from ..data import Dataset
from ..generation import Completer
from ..model import LanguageModel
from ..tokenizers import Tokenizer

Labels = list[str | None]
"""What was written for each problem; None: dropped."""


class Labelled(NamedTuple):
    """The labels of a round, and what became of those that are not among them."""

    pairs: list[tuple[str, str]]
    """Prompts, and what was written behind them."""
    counts: dict[str, int]
    """How many were labelled, and how many each filter left."""
    true: int
    """How many of those that are left are true."""


def label(
    dataset: Dataset,
    models: Sequence[LanguageModel],
    tokenizer: Tokenizer,
    filters: FiltersConfig,
    precision: torch.dtype,
    tick: Callable[[int], None],
) -> Labelled:
    """Label the training problems of a data set, greedily. `tick` is told how many are done."""
    format, problems = dataset.format, list(dataset.problems("train"))
    examples = [format.write(problem) for problem in problems]
    longest = max(len(tokenizer.encode(example.completion)) for example in examples)
    complete = [
        # Room for answers that go astray, as where they are asked: what is longer is unfinished.
        Completer(model, tokenizer, format.finished, longest + longest // 4 + 8, precision=precision)
        for model in models
    ]
    # Whole batches at a time, so that which problems are compared by length depends on the config alone.
    at_once = -(-complete[0].batch_size // filters.batch) * filters.batch
    counts = dict.fromkeys(("labelled", "finished", "agreed", "long_enough"), 0)
    true = 0
    pairs: list[tuple[str, str]] = []
    for start in range(0, len(problems), at_once):
        some = examples[start : start + at_once]
        written = [write([example.prompt for example in some]) for write in complete]
        for first in range(0, len(some), filters.batch):
            batch = slice(first, first + filters.batch)
            finished: list[Labels] = [[text if format.finished(text) else None for text in w[batch]] for w in written]
            agreed = by_vote(finished, filters.agree)
            kept = long_enough(agreed) if filters.length else agreed
            counts["labelled"] += len(kept)
            counts["finished"] += sum(any(text is not None for text in votes) for votes in zip(*finished, strict=True))
            counts["agreed"] += sum(text is not None for text in agreed)
            counts["long_enough"] += sum(text is not None for text in kept)
            for example, text in zip(some[batch], kept, strict=True):
                if text is not None:
                    pairs.append((example.prompt, text))
                    true += format.read(text) == example.answer
        tick(start + len(some))
    return Labelled(pairs, counts, true)


def by_vote(labels: Sequence[Labels], agree: float) -> Labels:
    """What enough of the models wrote, and nothing else; what a single model wrote.

    With three models and agree = 0.6:  "56" "56" "65"  gives "56",  "56" "65" None  nothing.
    """
    kept: Labels = []
    for votes in zip(*labels, strict=True):
        text, count = Counter(votes).most_common(1)[0]
        kept.append(text if count >= agree * len(labels) - 1e-9 else None)
    return kept


def long_enough(labels: Labels) -> Labels:
    """Without those that are shorter, by two characters or more, than the longest of them.

    Of "5940\\n", "594\\n" and "59\\n" the last is dropped: problems of one length have answers that differ by a digit.
    """
    longest = max((len(text) for text in labels if text is not None), default=0)
    return [text if text is not None and len(text) > longest - 2 else None for text in labels]
