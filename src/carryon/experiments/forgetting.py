"""Does a model that learns four digits forget three?

The paper (fig ft_3to4digit): models of three digits fine-tuned on four-digit sums alone; accuracy at 1 to 4 digits
along the way. Learning rates were lowered as long as four digits are still learnt, by the plotted test accuracy, 100
problems a length; the axis of one curve is halved. Ours: the paper's rates and larger ones; the smallest that learns
four digits, by the validation set, is shown; every curve on its own axis.
"""

from collections.abc import Mapping
from typing import Any

from ..config import DataConfig, EvaluationConfig
from ..reports import Figure, Series, Table
from ..results import Line
from .base import Case, Experiment, Question, Tier
from .claims import Claim
from .families import child_run, parent
from .histories import curve
from .measured import Measured, Stat
from .protocols import FORMATS, ask, few
from .showing import cell, paper_series

RATES = {
    "plain": (1e-4, 3e-4),
    "reverse": (5e-6, 5e-5),
    "simplified_scratchpad": (1e-5, 1e-4),
    "detailed_scratchpad": (1e-6, 1e-5),
}
LENGTHS = (1, 2, 3, 4)
LEARNT = 0.9
PAPER = {
    "plain": "plain (lr=1e-4)",
    "reverse": "reverse (lr=5e-6)",
    "simplified_scratchpad": "simple (lr=1e-5)",
    "detailed_scratchpad": "detailed (lr=1e-6)",
}


def of_length(format: str, length: int) -> EvaluationConfig:
    """A hundred sums whose longer operand has so many digits; all one-digit sums, which every model has seen.

    What the model was fine-tuned on is left out; of the two-digit sums, up to one in ten was learnt before.
    """
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
        sampler="balanced_full_length",
        num_examples=5_000 if format == "simplified_scratchpad" else 10_000,
        num_test=1_000,
        num_validation=200,
    )


def at(measured: Measured, format: str, length: int, row: int) -> float:
    """Accuracy in percent at this length, at the rate that validation chose. Row 0: before; -1: at the end."""
    for lr in RATES[format]:
        measured.mean(_last_validation, format=format, lr=lr)  # enough seeds of each, to choose?
    found: list[float] = []
    for line in chosen(measured, format):
        history = line.metrics["history"]
        if not history or f"{length} digits" not in history[row]:
            return measured.lacking(f"{format} at {length} digits")
        found.append(100.0 * history[row][f"{length} digits"])
    if len(found) < measured.min_seeds:
        return measured.lacking(f"format {format}")
    return sum(found) / len(found)


def at_end(measured: Measured, format: str, length: int) -> float:
    return at(measured, format, length, -1)


def chosen(measured: Measured, format: str) -> list[Line]:
    """Each seed's line at the smallest learning rate that learns four digits, or else at the best."""
    by_seed: dict[int, list[tuple[float, Line]]] = {}
    for line in sorted(measured.of(format=format), key=lambda line: float(line.settings["lr"])):
        if history := line.metrics.get("history"):
            by_seed.setdefault(line.seed, []).append((history[-1].get("validation", -1.0), line))
    return [
        next((line for score, line in runs if score >= LEARNT), max(runs, key=lambda run: run[0])[1])
        for runs in by_seed.values()
    ]


class Forgetting(Experiment):
    name = "forgetting"
    title = "Fine-tuned on four digits, what becomes of three"
    paper = ("fig:ft_3to4digit",)
    finding = (
        "Tier fast fine-tunes reverse on an eighth of tier paper's tokens and detailed on a quarter. In that time the "
        "paper's rates teach reverse 7, 61 and 16 %, and detailed 4, 5 and 10 %, of four-digit sums (seeds 0 to 2), "
        "so their curves are of ten times the rate, at which they come sooner, and reverse forgets more. Why plain "
        "ends at 65 to 80 % in two seeds and at 27 % in the third, whatever its rate, is not known."
    )
    finding_under = LENGTHS.index(4)
    claims = (
        Claim(
            "plain forgets",
            "Plain forgets shorter sums while it learns longer ones.",
            lambda m: at(m, "plain", 3, 0) - at_end(m, "plain", 3),
            "plain, three-digit sums, accuracy lost by fine-tuning",
            (50, 100),
            (10, 50),
            "in part",
            " points",
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
            "short sums are not forgotten completely",
            "Reverse and scratchpads do not completely forget sums of one and two digits.",
            lambda m: min(at_end(m, format, length) for format in FORMATS[1:] for length in (1, 2)),
            "worst of reverse and scratchpads, one or two digits after fine-tuning",
            (10, 100),
            (1, 10),
            "nearly so, one of them",
            " %",
            after_the_runs="added later: the paper says so, and it was missing",
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
                run = child_run(
                    tier,
                    four_digits_only(format),
                    20_000 if "detailed" in format else 10_000,
                    lr,
                    watch=lengths,
                    stop=False,
                    eval_every=500,
                    fast_steps=5_000,
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
        note = "The learning rate is the smallest that gets 90 % of the validation set in the end, or else the best."
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
