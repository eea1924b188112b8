"""Everything that is known about an experiment, ready to be shown."""

import inspect
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from .config import ImprovementConfig, TrainedConfig
from .experiments import Case, Experiment, Measured
from .paper import figure
from .planning import Known, Plan, Wanted, make_plan
from .reports import Chapter, Figure, Sentence, TierPart
from .reports.wording import counted, duration
from .results import Line, Store, key_of


def make_chapter(experiment: Experiment, store: Store, tiers: Sequence[str] = ("fast", "paper")) -> Chapter:
    """What the results say, tier by tier; a tier without results is left out."""
    parts = []
    shown: set[tuple[str, str]] = set()
    for tier in tiers:
        known = Known.read(store, tier)
        own = _current(experiment, tier, store.read(tier, experiment.name))
        lines = [*own, *_borrowed(experiment, tier, known, own)]
        answers = {(line.run, line.evaluation) for line in lines}
        if own or answers - shown:  # what two tiers have in common is not told twice
            parts.append(_part(experiment, store, tier, lines, known))
        shown |= answers
    doc = inspect.cleandoc(sys.modules[type(experiment).__module__].__doc__ or "")
    return Chapter(
        experiment.name,
        experiment.title,
        "\n\n".join(" ".join(paragraph.split()) for paragraph in doc.split("\n\n")),
        experiment.paper,
        [label for label in experiment.paper if label.startswith("fig:") and not _has_numbers(label)],
        parts,
        "" if parts else _missing(make_plan([experiment], tiers[0], store, copy=False)),  # type: ignore[arg-type]
        [Sentence(claim.name, claim.sentence, claim.rule, claim.ours) for claim in experiment.claims],
    )


def _current(experiment: Experiment, tier: str, lines: list[Line]) -> list[Line]:
    """Without lines of a protocol or question that was changed since, which may stand under the same settings."""
    cases = experiment.cases(tier)  # type: ignore[arg-type]
    seeds = {line.seed for line in lines}
    wanted = [Wanted(experiment.name, case.with_seed(seed)) for case in cases for seed in seeds]
    keys = {key_of(want.key, evaluation, settings) for want in wanted for evaluation, settings in want.lines}
    return [line for line in lines if line.key in keys]


def _borrowed(experiment: Experiment, tier: str, known: Known, own: list[Line]) -> list[Line]:
    """What other experiments measured of its runs, in whatever tier."""
    keys = {line.key for line in own}
    wanted = [
        Wanted(experiment.name, case)
        for one in experiment.cases(tier)  # type: ignore[arg-type]
        for case in one.with_seeds(experiment.seeds[tier])
    ]
    return [line for want in wanted for line in known.find(want) or () if line.key not in keys]


def _part(experiment: Experiment, store: Store, tier: str, lines: list[Line], known: Known) -> TierPart:
    measured = Measured(lines, tier, experiment.seeds[tier], experiment.planned(tier))  # type: ignore[arg-type]
    plan = make_plan([experiment], tier, store, None, known, copy=False)  # type: ignore[arg-type]
    says = {"fast": _training(experiment), "smoke": "Tier smoke shows that everything runs, and nothing else."}
    about = " ".join(filter(None, (_provenance(lines), says.get(tier, ""))))
    items = list(experiment.report(measured))
    if tier == "fast" and experiment.finding:
        place, figure = [(at, item) for at, item in enumerate(items) if isinstance(item, Figure)][
            experiment.finding_under
        ]
        items[place] = replace(figure, note=" ".join(filter(None, (figure.note, experiment.finding))))
    return TierPart(tier, experiment.verdicts(measured), items, about, _missing(plan))


def _missing(plan: Plan) -> str:
    left = plan.total - plan.done
    if not left:
        return ""
    cost = duration(sum(map(plan.estimate, plan.tasks)))
    return f"Not run yet: {left} of {plan.total} runs, about {cost} ({plan.basis})."


def _provenance(lines: list[Line]) -> str:
    runs = {line.run: line for line in lines}
    seeds = sorted({line.seed for line in lines})
    devices = ", ".join(name for name, _ in Counter(line.device for line in runs.values()).most_common())
    versions = {line.version or "unknown" for line in lines}
    commits = ", ".join(sorted({version.rstrip("+")[:7] for version in versions}))
    is_dirty = any(version.endswith("+") for version in versions)
    changed = ", in part with files that were not committed" if is_dirty else ""
    seconds = sum(line.seconds for line in runs.values())
    return (
        f"{counted(len(runs), 'run')}, seed{'s' if len(seeds) > 1 else ''} "
        f"{', '.join(map(str, seeds))}; {duration(seconds)} in all on {devices}; "
        f"code at commit {commits}{changed}."
    )


def _training(experiment: Experiment) -> str:
    """How much of the paper's training a run of tier fast has: the first reason for other numbers."""
    in_full = {_settings(case): _tokens(case) for case in experiment.cases("paper")}
    pairs = [(_tokens(case), in_full.get(_settings(case), 0)) for case in experiment.cases("fast")]
    shares = [100 * fast / paper for fast, paper in pairs if fast and paper]
    least, most = min(shares, default=100), max(shares, default=100)
    if least >= 100:
        return ""
    amount = f"{most:.3g} %" if least == most else f"{least:.3g} to {most:.3g} %"
    return f"A run of tier fast trains on {amount} of the tokens it has in tier paper, or stops earlier."


def _settings(case: Case) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(case.settings.items()))


def _tokens(case: Case) -> int:
    if not isinstance(case.run, TrainedConfig):
        return 0
    run = case.run.outcome if isinstance(case.run, ImprovementConfig) else case.run
    return run.train.steps * run.train.batch_size * run.window


def _has_numbers(label: str) -> bool:
    try:
        return bool(figure(label)["series"])
    except KeyError:
        return False
