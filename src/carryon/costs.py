"""What a run takes, by those that were measured."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from .config import DataConfig, FiltersConfig, ModelConfig, RoundsConfig, TrainConfig
from .pretrained import CATALOGUE

_ALIKE = 50
"""Times as many parameters: what a tiny model costs is not its parameters."""

_ONE_LINE = ("plain", "plain_padded", "reverse", "reverse_padded", "reverse_all", "reverse_all_padded", "index_hints")


@dataclass(frozen=True)
class Work:
    """What a run has to do."""

    kind: str
    """Runs of one kind whose steps are of one size cost the same for each unit."""
    amount: float
    """Tokens it reads; 1 where there is no model."""
    step: float = 1.0
    """Tokens of one step: in small steps each costs more."""
    parameters: float = 0.0
    """About how many the model has; 0: not known."""


@dataclass
class Costs:
    """Seconds per unit of work, as measured, by kind of run: one run of each kind tells about its likes."""

    rates: dict[str, dict[float, dict[str, float]]] = field(default_factory=dict)
    """By kind, size of a step and run."""
    sizes: dict[str, float] = field(default_factory=dict)
    """Parameters, by kind."""

    def add(self, run: str, work: Work, seconds: float) -> None:
        if work.amount > 0:
            self.rates.setdefault(work.kind, {}).setdefault(work.step, {})[run] = seconds / work.amount
            self.sizes[work.kind] = work.parameters

    def estimate(self, work: Work) -> float | None:
        return self._rate(work.kind, work.step) * work.amount if work.kind in self.rates else None

    def guess(self, work: Work) -> float | None:
        """By models of another size, if not of quite another: what they cost for each token and parameter."""
        rates = [
            self._rate(kind, work.step) / size
            for kind, size in self.sizes.items()
            if size and 1 / _ALIKE < work.parameters / size < _ALIKE
        ]
        return median(rates) * work.parameters * work.amount if rates else None

    def _rate(self, kind: str, step: float) -> float:
        """Of runs whose steps are most like these."""
        nearest = min(self.rates[kind], key=lambda other: abs(math.log(other / step)))
        return median(self.rates[kind][nearest].values())


class Forecast:
    """How long tasks will still take: as estimated, corrected by what those that are done took.

    Estimates stand on runs of another machine, perhaps, but tell short ones from long ones on this one, too.
    """

    def __init__(self, estimates: Mapping[str, float], workers: int | None = None) -> None:
        """`workers`: how many tasks have seconds of their own at a time; as many as it turns out if left out."""
        self.to_do = dict(estimates)
        """Seconds of those that are not done."""
        self.done: list[tuple[float, float]] = []
        """Of those that are, or the last of them: what was estimated, and what they took."""
        self._typical = sum(estimates.values()) / max(1, len(estimates))
        self._workers = None if workers is None else max(1, min(workers, len(estimates)))
        self._spent = 0.0

    def finished(self, task: str, seconds: float, elapsed: float) -> None:
        """`seconds`: what it took in all; some of them may lie before the first of these tasks was begun."""
        self.done.append((self.to_do.pop(task, 0.0), seconds))
        self._spent += min(seconds, elapsed)

    def gave_up(self, task: str, seconds: float, elapsed: float) -> None:
        self.to_do.pop(task, None)
        self._spent += min(seconds, elapsed)

    @property
    def slower(self) -> float:
        """How many times as long as estimated tasks take here.

        One typical task that took what it should keeps the first few that are done from deciding alone.
        """
        expected, taken = (sum(each) + self._typical for each in zip(*self.done, strict=True)) if self.done else (1, 1)
        return taken / max(expected, 1e-9)

    def left(self, elapsed: float = 0.0) -> float:
        """Seconds until all are done, so many after the first was begun."""
        if not self.to_do:
            return 0.0
        workers = self._workers or max(1.0, self._spent / max(elapsed, 1e-9))
        begun = max(0.0, workers * elapsed - self._spent)
        to_do = self.slower * sum(self.to_do.values())
        return max(to_do - begun, to_do / len(self.to_do) / 2) / min(workers, len(self.to_do))


def work_of(config: Mapping[str, Any]) -> Work:
    """Of a run's config as it is written down."""
    if config.get("kind") == "self-improvement":
        return _work_of_rounds(config)
    if "kind" in config:  # no model: the same kind of table, of about that size
        kind = f"{config['kind']} {config.get('method', '')}"
        n, trials = config.get("n"), 1 if config.get("data") else config.get("trials", 100)
        if isinstance(n, int) and isinstance(trials, int) and n > 0 and trials > 0:
            return Work(kind, float(trials), float(n))
        return Work(kind, 1.0)
    model = {**ModelConfig().model_dump(), **config.get("model", {})}
    train = {**TrainConfig().model_dump(), **config.get("train", {})}
    window = train.get("window") or model["context"]
    if train["packing"] == "rows":
        window = min(window, _row({**DataConfig().model_dump(), **config.get("data", {})}) or window)
    if "pretrained" in model:
        kind = "{pretrained}x{context}".format(**model) + " LoRA" * bool(model.get("lora"))
        if train["packing"] == "rows":  # as wide as their examples, whatever the context
            kind += f" {config.get('data', {}).get('format', {}).get('name')}"
        source = CATALOGUE.get(str(model["pretrained"]))
        parameters = source.parameters if source else 0
    else:
        kind = f"{model['layers'] * model['loops']}x{model['width']}x{window}"
        if model["reach"] is not None or model["position"] in ("alibi", "t5", "fire"):
            kind += " biased"  # no kernel of ours
        parameters = 12 * model["layers"] * model["width"] ** 2
    step = float(train["batch_size"] * window)
    return Work(kind, train["steps"] * step, step, float(parameters))


def _row(data: Mapping[str, Any]) -> int | None:
    """About how many tokens a row has, as wide as its longest example, whatever the context; None: not known."""
    name, digits, operands = data["format"]["name"], data["digits"], data.get("operands", 2)
    if name in _ONE_LINE:
        return int((operands + 1) * digits * (1 + (name == "index_hints")) + 4)
    if name == "running_sums":
        return int((2 * operands + 1) * (digits + 2))
    if name == "partial_products":
        return int(digits * (3 * digits + 6))
    return None


def _work_of_rounds(config: Mapping[str, Any]) -> Work:
    """Tokens that are trained on, and those of problems that are labelled, by every model."""
    base = work_of(config.get("base", {}))
    rounds = {**RoundsConfig().model_dump(), **config.get("rounds", {})}
    filters = {**FiltersConfig().model_dump(), **config.get("filters", {})}
    digits = {**DataConfig().model_dump(), **config["base"].get("data", {})}["digits"]
    # Rows grow round by round: on average, they are half-way between the first and the last.
    wider = 1 + rounds["count"] * rounds["digits"] / digits / 2
    of_a_round = wider * (rounds["steps"] * base.step + rounds["problems"] * 3 * digits)
    amount = filters["votes"] * (base.amount + rounds["count"] * of_a_round)
    return Work(f"{base.kind} self-improvement", amount, base.step, base.parameters)
