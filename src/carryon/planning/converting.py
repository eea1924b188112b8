"""From cases to tasks, and from outcomes back to lines."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..config import AnyRun, EvaluationConfig, RunConfig
from ..execution import Outcome, Task
from ..experiments import Case
from ..results import Line
from .known import Known, Wanted


def make_tasks(wanted: Iterable[Wanted], known: Known) -> list[Task]:
    """What has to be run for them, in their order."""
    runs: dict[str, AnyRun] = {}
    evaluations: dict[str, dict[str, Any]] = {}
    for want in wanted:
        case = want.case
        for parent in case.parents:
            runs.setdefault(parent.hash, parent)
            evaluations.setdefault(parent.hash, {})
        key, run = want.key, case.run
        if isinstance(run, RunConfig):
            before = runs.get(key)
            watch = dict.fromkeys((*(before.watch if isinstance(before, RunConfig) else ()), *run.watch))
            run = run.model_copy(update={"watch": tuple(watch)})
            evaluations.setdefault(key, {}).update(
                {question.config.hash: question.config for question in case.questions}
            )
        runs[key] = run
    for key in evaluations:
        for _, _, line in known.of_run.get(key, ()):  # once it is trained again, all of that is asked again
            question = line.config.get("evaluation")
            if line.evaluation not in evaluations[key] and isinstance(question, dict):
                evaluations[key] |= _question(question, line.evaluation)
    return [
        Task(run, tuple(evaluations.get(key, {}).values()), run.parent if isinstance(run, RunConfig) else None)
        for key, run in runs.items()
    ]


def _question(stored: Mapping[str, Any], name: str) -> dict[str, EvaluationConfig]:
    """A question as a line repeats it, by its hash; nothing if it has another meaning by now."""
    try:
        question = EvaluationConfig.model_validate(stored)
    except ValueError:
        return {}
    return {name: question} if question.hash == name else {}


def measured_again(line: Line, answer: Mapping[str, Any], outcome: Outcome) -> Line:
    metrics = {key: value for key, value in answer.items() if key != "config"}
    return replace(line, metrics=metrics, seconds=outcome.seconds, device=outcome.device, version=outcome.version)


def make_lines(want: Wanted, outcome: Outcome) -> list[Line]:
    case, lines = want.case, []
    config = case.run.model_dump(mode="json", exclude_defaults=True, exclude={"name", "evaluations", "watch"})
    if case.parents:
        config["parents"] = [
            p.model_dump(mode="json", exclude_defaults=True, exclude={"name", "evaluations", "watch"})
            for p in case.parents
        ]
    for evaluation, settings in want.lines:
        answer = outcome.answers.get(evaluation)
        if answer is None:
            continue
        metrics = dict(answer)
        question = metrics.pop("config", None)
        if evaluation == "history":
            metrics["history"] = _by_name(metrics["history"], case)
        complete = {**config, "evaluation": question} if question else config
        lines.append(
            Line(
                want.key,
                evaluation,
                complete,
                settings,
                case.run.seed,
                metrics,
                outcome.seconds,
                outcome.device,
                outcome.version,
            )
        )
    return lines


def _by_name(history: Iterable[dict[str, Any]], case: Case) -> list[dict[str, Any]]:
    """Columns by what the experiment calls them, instead of by hash."""
    names: dict[str, str] = {}
    for question in case.questions:
        names.setdefault(question.config.column, "-".join(str(value) for value in question.settings.values()))
    return [{names.get(key, key): value for key, value in row.items()} for row in history]
