"""Whole run configs by name. A recipe is a function that returns one; a TOML file does as well."""

import difflib
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .config import (
    DataConfig,
    EvaluationConfig,
    FiltersConfig,
    FormatConfig,
    FormatName,
    ImprovementConfig,
    ModelConfig,
    PretrainedConfig,
    RoundsConfig,
    RunConfig,
    StopConfig,
    TrainConfig,
    load,
    override,
)
from .corpora import keep_corpus, name_corpus
from .errors import BadConfig, UnknownName
from .pretrained import full_name

SAMPLED = EvaluationConfig(temperature=0.8)
NEWLINE = EvaluationConfig(prefix="\n")


def quickstart() -> RunConfig:
    """An adder of numbers of up to three digits, trained on two CPU cores in a few seconds."""
    return RunConfig(
        name="quickstart",
        data=DataConfig(format=FormatConfig(name="reverse_padded"), num_examples=20_000),
        model=ModelConfig(layers=1, heads=4, width=64, context=16, dropout=0.0),
        train=TrainConfig(
            packing="rows",
            loss="answer",
            batch_size=128,
            steps=800,
            lr=6e-3,
            final_lr=0.0,
            warmup_steps=100,
            weight_decay=0.0,
            eval_every=50,
            stop=StopConfig(accuracy=1.0, hold=3),
        ),
        evaluations=(EvaluationConfig(problems="exhaustive"),),
    )


def longer() -> RunConfig:
    """Learns sums of up to five digits, and adds a hundred: two CPU cores, less than a minute.

    Digits of one weight have one id, and digits see only those that weigh the same or are next to them.
    """
    return RunConfig(
        name="longer",
        data=DataConfig(
            digits=5,
            format=FormatConfig(name="reverse_padded", width=0),
            sampler="balanced_lengths",
            num_test=1_000,
            num_validation=500,
        ),
        model=ModelConfig(layers=1, heads=4, width=64, context=320, dropout=0.0, ids="coupling", places=103, reach=1),
        train=TrainConfig(
            endless=True,
            packing="rows",
            loss="answer",
            steps=2_000,
            lr=5e-3,
            final_lr=0.0,
            beta2=0.98,
            weight_decay=0.0,
            average=0.99,
        ),
        evaluations=(EvaluationConfig(lengths=("5", "15", "50", "100"), each=1_000),),
    )


def paper(format: FormatName = "reverse", num_examples: int = 10_000, seed: int = 0) -> RunConfig:
    """The paper's protocol for three-digit addition."""
    data = DataConfig(format=FormatConfig(name=format), num_examples=num_examples)
    evaluations: tuple[EvaluationConfig, ...] = (EvaluationConfig(), SAMPLED)
    if format == "plain":
        evaluations = (*evaluations, NEWLINE)
    if "scratchpad" in format:
        model = ModelConfig(context=1024)
        train = TrainConfig(batch_size=16, steps=50_000 if "detailed" in format else 20_000, warmup_steps=0)
    else:
        model, train = ModelConfig(), TrainConfig()
    name = f"paper-{format}-{num_examples}"
    return RunConfig(name=name, data=data, model=model, train=train, seed=seed, evaluations=evaluations)


def finetune() -> RunConfig:
    """A pretrained model taught sums in the strings that fine-tuning wants; loss on the answer alone."""
    return RunConfig(
        name="finetune",
        data=DataConfig(
            format=FormatConfig(name="hosted_plain"), num_examples=2_000, num_validation=200, num_test=1_000
        ),
        model=PretrainedConfig(pretrained="stories15m", context=64),
        tokenizer="own",
        train=TrainConfig(
            packing="rows",
            loss="answer",
            batch_size=32,
            steps=500,
            lr=5e-4,
            final_lr=0.0,
            warmup_steps=50,
            beta2=0.999,
            weight_decay=0.01,
            eval_every=100,
        ),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "quickstart": quickstart,
    "longer": longer,
    "paper-plain": lambda: paper("plain"),
    "paper-reverse": paper,
    "paper-simplified": lambda: paper("simplified_scratchpad", 2_000),
    "paper-detailed": lambda: paper("detailed_scratchpad", 1_000),
    "finetune": finetune,
}


def load_recipe(name: str, settings: Iterable[str] = (), *, keep: bool = True) -> RunConfig:
    """A recipe by name or from a TOML file, with settings such as "train.steps=100" put in.

    `keep`: a file it names as a corpus is put into the cache, where the run will look for it.
    """
    if name in RECIPES:
        values: dict[str, Any] = RECIPES[name]().model_dump()
    elif name.endswith(".toml") or Path(name).is_file():
        values = _read_toml(Path(name))
    else:
        hint = "" if difflib.get_close_matches(name, RECIPES) else " (or the path of a TOML file)"
        raise UnknownName(f"recipe{hint}", name, RECIPES)
    settings = list(settings)
    model = values.get("model")
    if any(setting.startswith("model.pretrained=") for setting in settings) and "pretrained" not in (model or {}):
        # The recipe's model and tokenizer are ours: another's takes their place whole.
        values = {key: value for key, value in values.items() if key not in ("model", "tokenizer")}
    return _pinned(load(RunConfig, override(values, settings)), keep)


def longer_sums() -> ImprovementConfig:
    """The setting of Lee et al., 2025, for reversed addition: 16 digits by truth, and then a digit a round by itself.

    Wants a GPU: with 84 rounds it comes to 100 digits in that paper, and the context has room for that many.
    """
    return ImprovementConfig(
        kind="self-improvement",
        name="longer-sums",
        base=RunConfig(
            data=DataConfig(
                digits=16,
                format=FormatConfig(name="reverse_all_padded", width=0),
                sampler="equal_lengths",
                test_sampler="equal_lengths",
                num_examples=50_000,
            ),
            model=ModelConfig(position="none", context=304, dropout=0.0),
            train=TrainConfig(
                packing="rows",
                loss="answer",
                endless=True,
                batch_size=1_024,
                steps=10_000,
                lr=5e-4,
                final_lr=0.01,
                schedule="constant_then_linear",
                warmup_steps=1_000,
                beta2=0.98,
                weight_decay=0.01,
                eval_every=1_000,
            ),
        ),
        rounds=RoundsConfig(count=84, problems=50_000),
        num_validation=2_048,
    )


def six_to_ten() -> ImprovementConfig:
    """From 6 digits to 10 on a CPU in a few minutes: three models vote. One alone forgets how (`filters.votes=1`)."""
    return ImprovementConfig(
        kind="self-improvement",
        name="six-to-ten",
        base=RunConfig(
            data=DataConfig(
                digits=6,
                format=FormatConfig(name="reverse_padded", width=0),
                sampler="equal_lengths",
                test_sampler="equal_lengths",
                num_examples=5_000,
                num_test=300,
                num_validation=200,
            ),
            model=ModelConfig(layers=1, heads=4, width=64, context=48, dropout=0.0, ids="coupling", places=16),
            train=TrainConfig(
                packing="rows",
                loss="answer",
                endless=True,
                batch_size=64,
                steps=2_500,
                lr=5e-3,
                final_lr=0.01,
                schedule="constant_then_linear",
                falling=0.3,
                beta2=0.98,
                weight_decay=0.01,
                eval_every=500,
            ),
        ),
        rounds=RoundsConfig(count=4, problems=3_000, steps=250, lr=1e-3),
        filters=FiltersConfig(votes=3),
        diagonal=(2, 4, 6, 7, 8, 9, 10),
        num_test=200,
        num_validation=200,
    )


IMPROVEMENTS: dict[str, Callable[[], ImprovementConfig]] = {"longer-sums": longer_sums, "six-to-ten": six_to_ten}


def load_improvement(name: str, settings: Iterable[str] = ()) -> ImprovementConfig:
    """A self-improvement by name or from a TOML file, with settings such as "rounds.count=3" put in."""
    if name in IMPROVEMENTS:
        values: dict[str, Any] = IMPROVEMENTS[name]().model_dump()
    elif name.endswith(".toml") or Path(name).is_file():
        values = {"kind": "self-improvement", **_read_toml(Path(name))}
    else:
        hint = "" if difflib.get_close_matches(name, IMPROVEMENTS) else " (or the path of a TOML file)"
        raise UnknownName(f"self-improvement{hint}", name, IMPROVEMENTS)
    return load(ImprovementConfig, override(values, settings))


def _pinned(config: RunConfig, keep: bool) -> RunConfig:
    """With names that say what they stand for: a run's hash covers the weights it starts from and the text it reads."""
    if isinstance(config.model, PretrainedConfig):
        model = config.model.model_copy(update={"pretrained": full_name(config.model.pretrained)})
        config = config.model_copy(update={"model": model})
    if config.text is not None and (path := Path(config.text.corpus)).is_file():
        text = config.text.model_copy(update={"corpus": keep_corpus(path) if keep else name_corpus(path)})
        config = config.model_copy(update={"text": text})
    return config


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadConfig(f"there is no recipe {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} is not TOML: {error}") from None
