"""Does a model that learns four digits forget three?

The paper (fig ft_3to4digit): models of three digits fine-tuned on four-digit sums alone; accuracy at 1 to 4 digits
along the way. Learning rates were picked by a sweep on the plotted test accuracy, 100 problems a length, and the axis
of one curve is halved. Ours: the same rates around the paper's, the one with the best validation accuracy is shown;
every curve on its own axis.
"""

from collections.abc import Mapping
from typing import Any

from ..config import DataConfig, EvaluationConfig, ExcludeConfig
from ..reports import Figure, Series, Table
from ..results import Line
from .base import Case, Claim, Experiment, Measured, NotEnough, Question, Stat, Tier, cell, paper_series
from .families import child_run, parent
from .histories import curve
from .protocols import FORMATS, ask, few

RATES = {
    "plain": (1e-4, 3e-4),
    "reverse": (5e-6, 5e-5),
    "simplified_scratchpad": (1e-5, 1e-4),
    "detailed_scratchpad": (1e-6, 1e-5),
}
LENGTHS = (1, 2, 3, 4)
PAPER = {
    "plain": "plain (lr=1e-4)",
    "reverse": "reverse (lr=5e-6)",
    "simplified_scratchpad": "simple (lr=1e-5)",
    "detailed_scratchpad": "detailed (lr=1e-6)",
}


def of_length(format: str, length: int) -> EvaluationConfig:
    """A hundred sums whose longer operand has so many digits; all one-digit sums, which every model has seen."""
    if length == 1:
        data = DataConfig(digits=1, format=format)  # type: ignore[arg-type]
        return EvaluationConfig(data=data, problems="exhaustive", seen=True)
    data = DataConfig(
        digits=length,
        format=format,  # type: ignore[arg-type]
        test_sampler="full_length",
        num_test=100,
        num_validation=0,
    )
    return EvaluationConfig(data=data)


def four_digits_only(format: str) -> DataConfig:
    return DataConfig(
        digits=4,
        format=format,  # type: ignore[arg-type]
        sampler="balanced_lengths",
        exclude=ExcludeConfig(lengths=(1, 2, 3)),
        num_examples=5_000 if "scratchpad" in format else 10_000,
        num_test=1_000,
        num_validation=200,
    )


def at_end(measured: Measured, format: str, length: int) -> float:
    """Accuracy in percent at this length when fine-tuning is over, at the rate that validation chose."""
    for lr in RATES[format]:
        measured.mean(_last_validation, format=format, lr=lr)  # enough seeds of each, to choose?
    finals: list[float] = []
    for line in chosen(measured, format):
        history = line.metrics["history"]
        if not history or f"{length} digits" not in history[-1]:
            raise NotEnough(f"{format} at {length} digits")
        finals.append(100.0 * history[-1][f"{length} digits"])
    if len(finals) < measured.min_seeds:
        raise NotEnough(f"format {format}")
    return sum(finals) / len(finals)


def chosen(measured: Measured, format: str) -> list[Line]:
    """Each seed's line at the learning rate with the best validation accuracy at its end."""
    best: dict[int, tuple[float, Line]] = {}
    for line in measured.of(format=format):
        if not (history := line.metrics.get("history")):
            continue
        score = history[-1].get("validation", -1.0)
        if line.seed not in best or score > best[line.seed][0]:
            best[line.seed] = (score, line)
    return [line for _, line in best.values()]


class Forgetting(Experiment):
    name = "forgetting"
    title = "Fine-tuned on four digits, what becomes of three"
    paper = ("fig:ft_3to4digit",)
    claims = (
        Claim(
            "plain forgets",
            "Plain forgets shorter sums while it learns longer ones.",
            lambda m: at_end(m, "plain", 2),
            "plain, two-digit sums after fine-tuning",
            (0, 30),
            (30, 70),
            "in part",
            " %",
        ),
        Claim(
            "detailed does not",
            "With a detailed scratchpad nothing is forgotten.",
            lambda m: min(at_end(m, "detailed_scratchpad", length) for length in (1, 2, 3)),
            "detailed scratchpad, worst of 1 to 3 digits after fine-tuning",
            (90, 100),
            (60, 90),
            "little",
            " %",
        ),
        Claim(
            "all learn four digits",
            "All formats learn four-digit sums that way.",
            lambda m: min(at_end(m, format, 4) for format in FORMATS),
            "worst format at four digits after fine-tuning",
            (80, 100),
            (50, 80),
            "not all of them well",
            " %",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        cases = []
        for format in few(tier, FORMATS, 2):
            lengths = [ask(tier, of_length(format, length)) for length in LENGTHS]
            for lr in few(tier, RATES[format]):
                steps = 10_000 if tier == "paper" else 2_000
                run = child_run(
                    tier,
                    four_digits_only(format),
                    steps,
                    lr,
                    watch=lengths,
                    stop=False,
                    eval_every=500 if tier == "paper" else 250,
                )
                asked = [Question(config, {"on": f"{n} digits"}) for n, config in zip(LENGTHS, lengths, strict=True)]
                cases.append(Case({"format": format, "lr": lr}, run, asked, [parent(tier, format)], history=True))
        return cases

    def report(self, measured: Measured) -> list[Figure | Table]:
        items: list[Figure | Table] = []
        for length in LENGTHS:
            series = [Series(format, curve(chosen(measured, format), f"{length} digits")) for format in FORMATS]
            names = {f"{length}-digit test, {PAPER[f]}": f"{f} (paper)" for f in FORMATS}
            series += paper_series(self.paper[0], names)
            items.append(Figure(f"{length}-digit sums while fine-tuning", "steps", "accuracy (%)", series))
        rows = [
            [format, ", ".join(sorted({f"{line.settings['lr']:g}" for line in chosen(measured, format)})) or "–"]
            + [_last(chosen(measured, format), length) for length in LENGTHS]
            for format in FORMATS
        ]
        columns = ("format", "learning rate", *(f"{n} digits" for n in LENGTHS))
        note = "The learning rate is the one with the best validation accuracy at the end, for each seed."
        return [*items, Table("Accuracy (%) after fine-tuning", columns, rows, note)]


def _last_validation(metrics: Mapping[str, Any]) -> float | None:
    history = metrics.get("history")
    return history[-1].get("validation") if history else None


def _last(lines: list[Line], length: int) -> str:
    points = curve(lines, f"{length} digits")
    if not points:
        return "–"
    last = points[-1]
    return cell(Stat(last.y, last.low or 0.0, last.high or 0.0, last.seeds or 1))
