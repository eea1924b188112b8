"""What experiments on length generalization have in common: how a model is trained, where it is asked, what is told.

Every model reads new problems for ever, one a row, all pairs of lengths alike, and numbers that grow from a few digits
to all during the first part of its training: without that, of eight methods not one had learnt thirty digits after
2,150 to 5,900 steps. What is asked is a running mean of its weights. Beyond the lengths of training, settings were
chosen on VALIDATION_LENGTHS, which no report shows, and on validation problems, which no test has.

paper   6 layers, width 512, 20,000 steps of 512 rows
fast    4 layers, width 256, 8,000 steps of 256 rows
smoke   a tiny model for a handful of steps, and a few digits
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ..config import DataConfig, EvaluationConfig, FormatConfig, ModelConfig, RunConfig, TrainConfig
from ..reports import Figure, HeatMap, Series, Table
from .base import Question, Tier
from .measured import Measured, Metric, share

VALIDATION_LENGTHS = (35, 40, 50, 80, 160, 280, 450)
SEEDS = {"smoke": 1, "fast": 5, "paper": 5}
"""More than elsewhere: published runs of one setting differ by much."""
SIZES = {"paper": {"layers": 6, "heads": 8, "width": 512}, "fast": {"layers": 4, "heads": 8, "width": 256}}
STEPS = {"paper": 20_000, "fast": 8_000}
ROWS = {"paper": 512, "fast": 256}
GROWING = 5 / 8
"""Part of the training in which numbers grow."""


@dataclass(frozen=True)
class Method:
    """A way to know where a digit stands, and the format it needs."""

    name: str
    model: Mapping[str, Any]
    format: Mapping[str, Any] = field(default_factory=lambda: {"name": "reverse_padded", "width": 0})


def adder(
    tier: Tier, method: Method, digits: int, longest: int, *, tokens: int = 3, size: Mapping[str, int] | None = None
) -> RunConfig:
    """A run of sums of up to so many digits, of a model that has room for `longest`: `tokens` for each, and a few."""
    if tier == "smoke":
        digits, longest = 3, 5
    model: dict[str, Any] = {"context": tokens * longest + 32, **method.model}
    if model.get("ids") in ("shifted", "scattered"):
        model["places"] = 2 * model["context"]
    if model.get("ids") in ("abacus", "coupling"):
        model["places"] = longest + 3
    data = DataConfig(digits=digits, format=FormatConfig(**method.format), sampler="balanced_lengths")
    return train_on(tier, method.name, data, model, size=size)


def train_on(
    tier: Tier, name: str, data: DataConfig, model: Mapping[str, Any], *, size: Mapping[str, int] | None = None
) -> RunConfig:
    """The training that all have in common, on these problems."""
    if tier == "smoke":
        size = {"layers": 1, "heads": 2, "width": 16}
        counts = {"num_examples": 200, "num_test": 20, "num_validation": 10}
        train: dict[str, Any] = {"steps": 12, "grow": 6, "batch_size": 4, "warmup_steps": 2, "eval_every": 6}
    else:
        counts = {"num_examples": 20_000, "num_test": 200, "num_validation": 200}
        steps = STEPS[tier]
        train = {"steps": steps, "grow": int(steps * GROWING), "batch_size": ROWS[tier], "eval_every": steps // 4}
    return RunConfig(
        name=name.lower().replace(", ", "-").replace(" ", "-"),
        data=data.model_copy(update=counts),
        model=ModelConfig(**{"dropout": 0.0, **model, **(size or SIZES[tier])}),
        train=TrainConfig(
            endless=True,
            packing="rows",
            loss="answer",
            lr=1e-3,
            final_lr=0.0,
            beta2=0.98,
            weight_decay=0.0,
            average=0.999,
            **train,
        ),
        evaluations=(),
    )


def ask_along(tier: Tier, lengths: Sequence[int], each: int = 100) -> Question:
    """Both operands with as many digits."""
    return _ask(tier, "diagonal", tuple(map(str, lengths)), each)


def ask_all_pairs(tier: Tier, lengths: Sequence[int], each: int = 20) -> Question:
    return _ask(tier, "pairs", tuple(f"{a}x{b}" for a in lengths for b in lengths), each)


def _ask(tier: Tier, on: str, lengths: tuple[str, ...], each: int) -> Question:
    if tier == "smoke":
        lengths, each = {"diagonal": ("3", "5"), "pairs": ("3x3", "3x5", "5x3", "5x5")}[on], 4
    return Question(EvaluationConfig(lengths=lengths, each=each), {"asked": on})


def at(first: int, second: int | None = None) -> Metric:
    """Accuracy in percent where operands have just so many digits."""
    return share("lengths", f"{first}x{first if second is None else second}")


def of_each_seed(measured: Measured, metric: Metric, **settings: Any) -> list[float]:
    """One number a seed, sorted; NotEnough where seeds are missing."""
    mean = measured.mean(metric, **settings)
    values = (value for line in measured.of(**settings) if (value := metric(line.metrics)) is not None)
    return sorted(values) or [mean]


def typical(measured: Measured, metric: Metric, **settings: Any) -> float:
    """The median over seeds."""
    return median(of_each_seed(measured, metric, **settings))


def worst(measured: Measured, metric: Metric, **settings: Any) -> float:
    return of_each_seed(measured, metric, **settings)[0]


def longest_above(metrics: Mapping[str, Any], level: float) -> int:
    """The longest length up to which every one that was asked is at least this many percent right; 0: none."""
    asked = sorted(int(label.split("x")[0]) for label in metrics.get("by", {}).get("lengths", {}))
    reached = 0
    for length in asked:
        if (at(length)(metrics) or 0.0) < level:
            break
        reached = length
    return reached


def along(
    title: str, measured: Measured, rows: Mapping[str, Mapping[str, Any]], lengths: Sequence[int], log_x: bool = False
) -> Figure:
    """Accuracy by digits, a line for each name: mean and range over seeds."""
    series = []
    for name, settings in rows.items():
        stats = [(length, measured.stat(at(length), asked="diagonal", **settings)) for length in lengths]
        series.append(Series(name, [stat.point(length) for length, stat in stats if stat is not None]))
    return Figure(title, "digits of both numbers", "accuracy (%)", series, log_x=log_x)


def tables(
    measured: Measured,
    heads: Sequence[str],
    rows: Mapping[tuple[str, ...], Mapping[str, Any]],
    told: Sequence[int],
    asked: Sequence[int],
) -> list[Table]:
    """Accuracy at some of the lengths that were asked, and how far each seed gets. Rows by what stands in front."""
    cells = [
        [*names, *(middle_cell(measured, at(length), asked="diagonal", **settings) for length in told)]
        for names, settings in rows.items()
    ]
    reached = [
        [*names, *(reached_cell(measured, level, **settings) for level in (99, 50))] for names, settings in rows.items()
    ]
    return [
        Table(
            "Accuracy (%) at 100 problems a length, median over seeds (worst to best)",
            (*heads, *(f"{length} digits" for length in told)),
            cells,
            f"Asked at {', '.join(map(str, asked))} digits.",
        ),
        Table("The longest numbers still added, seed by seed", (*heads, "99 % up to", "50 % up to"), reached),
    ]


def middle_cell(measured: Measured, metric: Metric, **settings: Any) -> str:
    """In a table: the median over seeds, and the worst and the best."""
    values = sorted(value for line in measured.of(**settings) if (value := metric(line.metrics)) is not None)
    if not values:
        return "–"
    seeds = "1 seed" if len(values) == 1 else f"{len(values)} seeds"
    spread = seeds if values[0] == values[-1] else f"{values[0]:g} to {values[-1]:g}, {seeds}"
    return f"{median(values):g} ({spread})"


def reached_cell(measured: Measured, level: float, **settings: Any) -> str:
    """In a table: of each seed, the longest length above a level."""
    lines = sorted(measured.of(asked="diagonal", **settings), key=lambda line: line.seed)
    return ", ".join(str(longest_above(line.metrics, level) or "none") for line in lines) or "–"


def heat_map(title: str, measured: Measured, lengths: Sequence[int], **settings: Any) -> HeatMap:
    """Accuracy by the lengths of both operands, the mean over seeds."""
    stats = [[measured.stat(at(a, b), asked="pairs", **settings) for b in lengths] for a in lengths]
    return HeatMap(
        title,
        "digits of the second number",
        "digits of the first number",
        [f"{b:,}" for b in lengths],
        [f"{a:,}" for a in lengths],
        [[None if stat is None else stat.mean for stat in row] for row in stats],
    )
