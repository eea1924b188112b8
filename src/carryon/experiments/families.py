"""Models that others are fine-tuned from: one vocabulary, one context length, so that weights fit every child.

Plain and reverse read 256 windows of 256 tokens a step, as the authors' do, scratchpads 16 of 1,024 (the authors'
detailed ones five times as many); in tier fast all read 16,384 tokens, plain and reverse from five digits on 32,768.
The authors' plain and reverse models that change to other formats read 16 of 1,024, too, so do tier paper's.
"""

from ..config import DataConfig, RunConfig
from .base import Tier
from .protocols import FAST_LONG_NUMBERS_BATCH, LONGER_STEPS, is_scratchpad, make_run

CONTEXT = 1024
ALL_PLACES_STEPS = {"plain": 20_000, "reverse": 10_000}
"""What the authors gave plain and reverse models that read windows of the whole context."""
PARENT_EXAMPLES = {"plain": 10_000, "reverse": 10_000, "simplified_scratchpad": 5_000, "detailed_scratchpad": 2_000}
PLAIN_EXAMPLES = {5: 100_000, 7: 200_000}
"""What plain needs for so many digits, as the authors gave it."""


def parent(tier: Tier, format: str, digits: int = 3, all_places: bool = False) -> RunConfig:
    """A model that adds numbers of up to so many digits in a format; `all_places`: plain and reverse use all of the
    context, too.
    """
    count = PARENT_EXAMPLES[format] * (1 if digits <= 3 else 2)
    if format == "plain":
        count = PLAIN_EXAMPLES.get(digits, count)
    data = up_to(format, digits, count)
    if digits == 3:  # the usual models, made of the usual sums
        data = data.model_copy(update={"sampler": "balanced"})
    steps = 20_000 if is_scratchpad(data) else LONGER_STEPS[format].get(digits, 5_000)
    if all_places:
        steps = ALL_PLACES_STEPS.get(format, steps)
    fast_steps = 10_000 if digits >= 5 and not is_scratchpad(data) else 6_000
    return child_run(tier, data, steps, all_places=all_places, fast_steps=fast_steps)


def up_to(format: str, digits: int, num_examples: int) -> DataConfig:
    """Addition of up to so many digits; all pairs of short numbers are few, so two digits give what they have."""
    scratchpad = "scratchpad" in format
    return DataConfig(
        digits=digits,
        format=format,  # type: ignore[arg-type]
        sampler="balanced_lengths",
        num_examples=min(num_examples, 5_000) if digits == 2 else num_examples,
        num_test=1_000 if scratchpad or digits == 2 else None,
        num_validation=200 if scratchpad else None,
    )


def child_run(
    tier: Tier, data: DataConfig, steps: int, lr: float = 1e-3, *, all_places: bool = False, **more: object
) -> RunConfig:
    """A run of the family, over printable ASCII.

    Answers are asked for at a row's beginning, which a window begins with once in a dozen times: plain and reverse,
    whose every digit is hard to get, need many windows.
    """
    short = not (all_places or is_scratchpad(data))
    fast_short = FAST_LONG_NUMBERS_BATCH if data.digits >= 5 else 64
    return make_run(
        tier,
        data,
        steps=steps,
        lr=lr,
        batch_size=256 if short else 16,
        fast_batch=fast_short if short else 16,
        context=CONTEXT,
        window=256 if short else None,
        warmup_steps=0,
        tokenizer="ascii",
        **more,  # type: ignore[arg-type]
    )
