"""Does the heaviest run of each experiment work at full size?"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from ..config import DataConfig, ImprovementConfig, RunConfig, StopConfig, TrainedConfig
from ..data import make_dataset
from ..experiments import Case, Experiment, Tier
from ..experiments.protocols import small
from ..results import Store
from .converting import make_tasks
from .known import Known, Wanted
from .plans import Plan


def probe_plan(experiments: Iterable[Experiment], tier: Tier, steps: int, store: Store) -> Plan:
    """The heaviest run of each experiment, cut to a few steps, with all its questions: does it work at full size?"""
    wanted = []
    for experiment in experiments:
        cases = experiment.cases(tier)
        most = max(map(_tokens, cases))
        case = max((case for case in cases if _tokens(case) == most), key=_size)
        if isinstance(case.run, RunConfig):
            parents = tuple(_cut(parent, steps) for parent in case.parents)
            case = replace(case, run=_cut(case.run, steps), parents=parents)
        elif isinstance(case.run, ImprovementConfig):
            case = replace(case, run=_cut_rounds(case.run, steps))
        wanted.append(Wanted(experiment.name, case.with_seed(0)))
    return Plan(tier, store, wanted, make_tasks(wanted, Known()), len(wanted), 0)


def _tokens(case: Case) -> float:
    """What a case costs, roughly: tokens of all its steps."""
    run = case.run
    if not isinstance(run, TrainedConfig):
        return 0.0
    run = run.outcome if isinstance(run, ImprovementConfig) else run
    # A long context weighs more than its tokens: attention, and generation when it is asked.
    return float(run.train.steps * run.train.batch_size * run.window**1.5)


def _size(case: Case) -> tuple[int, int]:
    """Of two runs of as many tokens, the one with longer examples, or more of them, costs more to ask and to make."""
    if not isinstance(case.run, RunConfig):
        return 0, 0
    return _longest(small(case.run.data)), case.run.data.num_examples


@cache
def _longest(data: DataConfig) -> int:
    return max(len(example.text) for example in make_dataset(data, 0).examples("test"))


def _cut(run: RunConfig, steps: int) -> RunConfig:
    train = run.train.model_copy(update={"steps": steps, "eval_every": steps, "stop": StopConfig()})
    return run.model_copy(update={"train": train, "name": f"probe-{run.name}"})


def _cut_rounds(run: ImprovementConfig, steps: int) -> ImprovementConfig:
    """One round, with problems as long as those of the last."""
    rounds = run.rounds.model_copy(update={"count": 1, "digits": run.rounds.digits * run.rounds.count, "steps": steps})
    base = _cut(run.base, steps).model_copy(update={"name": run.base.name})
    return run.model_copy(update={"base": base, "rounds": rounds, "name": f"probe-{run.name}"})
