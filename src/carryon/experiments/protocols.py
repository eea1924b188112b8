"""How much compute a run gets: the paper's protocol, and what the other tiers make of it.

paper   6 layers, width 384; plain and reverse 256 x 256 tokens a step, 5,000 steps; scratchpads 16 x 1,024
fast    the same model and data, and a stop once validation is right; plain and reverse 32 x 256 tokens a step, 3,000
        steps, scratchpads 16 x 1,024, 5,000; more where that was seen to be too little
smoke   a tiny model for a handful of steps: does every run run?
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..config import (
    DataConfig,
    EvaluationConfig,
    FormatConfig,
    ModelConfig,
    RunConfig,
    StopConfig,
    TextConfig,
    TrainConfig,
)
from ..corpora import SAMPLE
from .base import Question, Tier
from .measured import SAMPLED_AT_08

FORMATS = ("plain", "reverse", "simplified_scratchpad", "detailed_scratchpad")

NANOGPT = {"layers": 6, "heads": 6, "width": 384}
GPT2 = {"layers": 12, "heads": 12, "width": 768}
"""Their sizes; GPT-2's is the smallest of that name."""

LONGER_STEPS = {
    "plain": {5: 10_000, 7: 20_000, 10: 25_000},
    "reverse": {5: 10_000, 7: 5_000, 10: 5_000},
    "simplified_scratchpad": {5: 25_000, 7: 30_000, 10: 35_000},
    "detailed_scratchpad": {5: 30_000, 7: 50_000, 10: 40_000},
}
"""What the authors gave more digits than three."""

FAST_BATCH, FAST_STEPS = 32, 3_000
FAST_LONG_BATCH, FAST_SCRATCHPAD_STEPS = 16, 5_000
FAST_LONG_NUMBERS_BATCH = 128
"""For plain and reverse from five digits on: with 32 windows a step, two seeds of three never learnt seven digits."""
FAST_STOP = StopConfig(accuracy=0.999, hold=2)


def make_run(
    tier: Tier,
    data: DataConfig,
    *,
    steps: int | None = None,
    batch_size: int | None = None,
    context: int | None = None,
    window: int | None = None,
    lr: float = 1e-3,
    warmup_steps: int | None = None,
    tokenizer: str = "characters",
    accumulation: int = 1,
    beta2: float = 0.99,
    mix: Sequence[DataConfig] = (),
    text: TextConfig | None = None,
    size: Mapping[str, int] = NANOGPT,
    watch: Sequence[EvaluationConfig] = (),
    stop: bool = True,
    eval_every: int | None = None,
    fast_steps: int | None = None,
    fast_batch: int | None = None,
) -> RunConfig:
    """A training run. What is left out is the paper's: see the module's docstring.

    `fast_steps`, `fast_batch`: what tier fast gives it, where its usual training is too little to learn the task.
    """
    scratchpad = is_scratchpad(data)
    model: dict[str, Any] = {**size, "context": context or (1024 if scratchpad else 256)}
    train: dict[str, Any] = {
        "steps": steps or (20_000 if scratchpad else 5_000),
        "batch_size": batch_size or (16 if scratchpad else 256),
        "window": window,
        "warmup_steps": (0 if scratchpad else 100) if warmup_steps is None else warmup_steps,
        "lr": lr,
        "beta2": beta2,
        "accumulation": accumulation,
        "eval_every": eval_every or (1_000 if scratchpad else 250),
    }
    if tier == "fast":
        most = fast_batch or (FAST_BATCH if (window or model["context"]) <= 256 else FAST_LONG_BATCH)
        train["batch_size"] = min(train["batch_size"], most)
        train["accumulation"] = 1
        train["steps"] = min(train["steps"], fast_steps or (FAST_SCRATCHPAD_STEPS if scratchpad else FAST_STEPS))
        train["eval_every"] = eval_every or 500
        train["stop"] = FAST_STOP if stop else StopConfig()
    if tier == "smoke":
        model = {"layers": 1, "heads": 2, "width": 16, "context": 96, "dropout": 0.0}
        train |= {"steps": 12, "batch_size": 4, "window": None, "warmup_steps": 2, "eval_every": 6, "accumulation": 1}
        data, mix = small(data), [small(part) for part in mix]
        watch = [ask(tier, question) for question in watch]
        text = text.model_copy(update={"corpus": SAMPLE}) if text is not None else None
    return RunConfig(
        name=name_of(data) if not mix else f"{name_of(data)}-and-{len(mix)}-more",
        data=data,
        mix=tuple(mix),
        text=text,
        tokenizer=tokenizer,  # type: ignore[arg-type]
        model=ModelConfig(**model),
        train=TrainConfig(**train),
        evaluations=(),
        watch=tuple(watch),
    )


def is_scratchpad(data: DataConfig) -> bool:
    return "scratchpad" in data.format.name


def small(data: DataConfig) -> DataConfig:
    """The same data, few of it: tier smoke."""
    return data.model_copy(update={"num_examples": min(data.num_examples, 120), "num_test": 20, "num_validation": 10})


def ask(tier: Tier, question: EvaluationConfig) -> EvaluationConfig:
    """A question at this tier's size."""
    if tier != "smoke" or question.problems == "text":
        return question
    update: dict[str, Any] = {"limit": min(question.limit or 20, 20)}
    if question.data is not None:
        update["data"] = small(question.data)
    return question.model_copy(update=update)


def greedy_and_sampled(tier: Tier, question: EvaluationConfig, **settings: str) -> list[Question]:
    """Greedy; in tier paper also as most of the published numbers were made, sampled at temperature 0.8."""
    questions = [Question(ask(tier, question), settings)]
    if tier == "paper":
        sampled = question.model_copy(update={"temperature": 0.8})
        questions.append(Question(sampled, {**settings, "decoding": SAMPLED_AT_08}))
    return questions


def name_of(data: DataConfig) -> str:
    """A folder name a person can read."""
    what = f"{data.digits}digit-" if data.is_integer and data.table is None else ""
    return f"{data.operation}-{what}{data.format.name}-{data.num_examples}".replace("_scratchpad", "")


def sizes(tier: Tier, full: Sequence[int]) -> tuple[int, ...]:
    """Training sizes of a curve; smoke tries two."""
    return tuple(full) if tier != "smoke" else (80, 120)


def few(tier: Tier, full: Sequence[Any], count: int = 1) -> tuple[Any, ...]:
    """A grid, of which smoke tries the first few."""
    return tuple(full) if tier != "smoke" else tuple(full[:count])


def addition(format: str | FormatConfig, num_examples: int = 10_000, **more: Any) -> DataConfig:
    """Three-digit addition, balanced, unless more is said."""
    return DataConfig(format=format, num_examples=num_examples, **more)  # type: ignore[arg-type]


def detailed_steps(format: str) -> int | None:
    """What the authors trained scratchpads for: 20,000 steps, 50,000 the detailed one."""
    return 50_000 if "detailed" in format else None


BARE = EvaluationConfig()
NEWLINE = EvaluationConfig(prefix="\n")
SAMPLED = EvaluationConfig(temperature=0.8)
