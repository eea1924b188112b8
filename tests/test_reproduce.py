"""Reproducing as people do it: from the command line, killed, restarted, with bad input."""

import contextlib
import json
import math
import multiprocessing
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import typer

from carryon.cli.many_runs import ManyRuns
from carryon.cli.reproduce import reproduce
from carryon.config import CompletionConfig, EvaluationConfig, RunConfig
from carryon.costs import Costs, Forecast, work_of
from carryon.errors import BadConfig, OutOfMemory, UnknownName, Unsupported
from carryon.execution import Outcome, Task, order_tasks, perform
from carryon.execution.local import run_local
from carryon.experiments import EXPERIMENTS, experiment
from carryon.experiments.base import Case
from carryon.experiments.measured import Measured
from carryon.files import hold
from carryon.planning import make_plan, probe_plan, spread
from carryon.results import Line, Store
from carryon.runs import Run, part_done

LINE = Line("r", "e", {"a": 1}, {"format": "plain"}, 0, {"accuracy": 0.5}, 1.0, "cpu", "abc")
ENVIRONMENT = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_WAIT_POLICY": "PASSIVE", "COLUMNS": "200"}


def start(folder, *arguments):
    command = [sys.executable, "-m", "carryon", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True)


def run(folder, *arguments):
    process = start(folder, *arguments)
    process.stdout_text, process.stderr_text = process.communicate()
    return process


def fails(folder, *arguments, says):
    done = run(folder, *arguments)
    assert done.returncode == 2, (done.stdout_text, done.stderr_text)
    assert done.stderr_text.splitlines()[-1].startswith("carryon: ")
    assert "Traceback" not in done.stderr_text
    assert says in done.stderr_text


def measured(folder):
    """Everything but the time it took."""

    def without_times(value):
        if isinstance(value, dict):
            return {key: without_times(inner) for key, inner in value.items() if key != "seconds"}
        return [without_times(inner) for inner in value] if isinstance(value, list) else value

    lines = [(name, line) for _, name, line in Store(Path(folder) / "results").everything()]
    return {(name, *line.key, line.seed): without_times(dict(line.metrics)) for name, line in lines}


# --- all of it, small ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """Every experiment, end to end, once for all processes that test."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "smoke"
    folder.mkdir(exist_ok=True)
    while not (folder / "done").exists():
        try:
            with hold(folder / "lock"):
                if not (folder / "done").exists():
                    done = run(folder, "reproduce", "all", "--tier", "smoke", "--jobs", "2")
                    assert done.returncode == 0, done.stderr_text
                    (folder / "done").touch()
        except BlockingIOError:
            time.sleep(0.5)
    return folder


@pytest.mark.timeout(240)
def test_every_experiment_runs_end_to_end(smoke):
    store = Store(smoke / "results")
    for name, one in EXPERIMENTS.items():
        plan = make_plan([one], "smoke", store)
        assert not plan.tasks, name
        assert plan.done == len(plan.wanted) == len(one.cases("smoke"))
        for line in store.read("smoke", name):
            assert line.device
            assert line.seconds >= 0
            assert line.config
    assert not store.broken


@pytest.mark.timeout(240)
def test_a_second_time_there_is_nothing_to_do(smoke):
    before = measured(smoke)
    done = run(smoke, "reproduce", "all", "--tier", "smoke")
    assert done.returncode == 0
    assert "[1/" not in done.stderr_text
    assert measured(smoke) == before


@pytest.mark.timeout(240)
def test_the_report_shows_what_was_run(smoke):
    done = run(smoke, "report", "--tier", "smoke")
    count = len(EXPERIMENTS)
    assert f"{count} of {count} experiments have results" in done.stdout_text, done.stderr_text
    page = (smoke / "report.html").read_text()
    assert page.count("<svg") > 30
    assert "http" not in page.replace("http://www.w3.org/", "")  # the names of SVG's own vocabulary
    assert "<script" not in page
    for name, one in EXPERIMENTS.items():
        assert f'<h2 id="{name}">' in page
        for claim in one.claims:
            assert claim.name
    done = run(smoke, "report", "token_cost", "--tier", "smoke", "--format", "md", "--out", "pages")
    assert done.returncode == 0
    text = (smoke / "pages" / "token_cost.md").read_text()
    assert "seed 0; " in text
    assert "commit" in text
    assert (smoke / "pages" / "figures" / "token_cost-smoke-1.svg").read_text().startswith("<svg")


def test_the_same_figure_is_the_same_file(smoke):
    texts = []
    for out in ("one", "two"):
        run(smoke, "report", "token_cost", "--tier", "smoke", "--format", "md", "--out", out)
        texts.append((smoke / out / "figures" / "token_cost-smoke-1.svg").read_bytes())
    assert texts[0] == texts[1]


def test_experiments_are_listed_with_what_is_missing(smoke):
    listed = json.loads(run(smoke, "experiments", "--json").stdout_text)
    rows = listed["experiments"]
    assert [row["name"] for row in rows] == list(EXPERIMENTS)
    for row in rows:
        assert row["smoke"]["done"] == row["smoke"]["of"]
        if row["name"] == "plain_vs_reverse":  # an enumeration, say, is the same in every tier
            assert row["fast"]["done"] == 0
            assert row["fast"]["missing_seconds"] > row["fast"]["claims_wait_for_seconds"] > 0
    assert 0 < listed["all"]["fast"]["claims_wait_for_seconds"] < listed["all"]["fast"]["missing_seconds"]
    # Runs that several want are counted once.
    assert listed["all"]["fast"]["missing_seconds"] < sum(row["fast"]["missing_seconds"] for row in rows)
    table = run(smoke, "experiments").stdout_text
    assert all(name in table for name in EXPERIMENTS)  # whole, to be copied


@pytest.mark.parametrize("columns", [60, 80, 100, 140])
def test_no_number_is_cut_off_on_a_terminal(smoke, columns):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "carryon", "experiments"]
    with subprocess.Popen(command, stdout=theirs, cwd=smoke, env=environment | {"TERM": "xterm"}) as process:
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # how Linux says that nobody writes any more
            while more := os.read(ours, 65_536):
                written += more
        os.close(ours)
    assert process.returncode == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", written.decode()).splitlines()
    assert max(map(len, lines)) <= columns
    assert not any("…" in line for line in lines)
    if columns >= 80:
        assert all(any(line.startswith(f"{name} ") for line in lines) for name in EXPERIMENTS)
    headings = next(line for line in lines if line.startswith("name ")).split()
    assert headings[-4:] == ["fast", "missing", "paper", "missing"]
    assert not any(re.search(r"(^|  )(s|min|h)( |$)", line) for line in lines)  # a unit parted from its number
    assert any("claims" in line.split() and "fast" in line.split() for line in lines) == (columns >= 90)
    assert any("question" in line.split() for line in lines) == (columns >= 120)


# --- killed and started again -------------------------------------------------------------------------------------

SOME = ("plain_vs_reverse", "noisy_prefix", "forgetting", "lemmas")


@pytest.mark.timeout(300)
def test_ten_kills_change_nothing(smoke, tmp_path):
    """kill -9 at random moments: the results are those of an undisturbed run."""
    moments = random.Random(7)
    for _ in range(10):
        process = start(tmp_path, "reproduce", *SOME, "--tier", "smoke", "--jobs", "2")
        time.sleep(moments.uniform(1.0, 5.0))
        process.kill()
        process.communicate()
        time.sleep(0.3)  # workers notice that their parent is gone
    done = run(tmp_path, "reproduce", *SOME, "--tier", "smoke", "--jobs", "2")
    assert done.returncode == 0, done.stderr_text
    undisturbed = {key: value for key, value in measured(smoke).items() if key[0] in SOME}
    assert measured(tmp_path) == undisturbed


@pytest.mark.timeout(120)
def test_what_is_told_of_a_run_comes_from_one_training(smoke, tmp_path):
    """Trained again for a new question, a run is asked the old ones again, too, whoever wants to know."""
    true = {key: value for key, value in measured(smoke).items() if key[0] in ("noisy_prefix", "unseen_digits")}
    results = tmp_path / "results"
    shutil.copytree(smoke / "results" / "smoke", results / "smoke")
    for path in results.glob("smoke/*.jsonl"):
        if path.stem != "noisy_prefix":
            path.unlink()
    path = results / "smoke" / "noisy_prefix.jsonl"
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    for row in rows:
        row["metrics"]["exact"] = 0.875  # of weights that nobody has any more
    path.write_text("not a line\n" + "".join(f"{json.dumps(row)}\n" for row in rows))
    done = run(tmp_path, "reproduce", "unseen_digits", "--tier", "smoke", "--jobs", "2")
    assert done.returncode == 0, done.stderr_text
    assert measured(tmp_path) == true
    assert path.read_text().startswith("not a line\n")


@pytest.mark.timeout(240)
def test_a_dry_run_writes_nothing(smoke, tmp_path):
    folder = tmp_path / "results" / "smoke"
    folder.mkdir(parents=True)
    shutil.copy(smoke / "results" / "smoke" / "sample_efficiency.jsonl", folder)
    done = run(tmp_path, "reproduce", "token_cost", "--tier", "smoke", "--dry-run")  # the same runs, all there
    assert "none to do" in done.stdout_text, done.stderr_text
    assert [path.name for path in folder.iterdir()] == ["sample_efficiency.jsonl"]


def test_a_run_that_starts_again_forgets_what_it_answered(tmp_path):
    one = Run.start(tmp_path, RunConfig())
    one.write_evaluation("0123456789", {"accuracy": 1.0})
    one.start_again()
    assert one.read_evaluation("0123456789") is None


@pytest.mark.timeout(120)
def test_a_budget_is_kept_and_the_rest_done_later(smoke, tmp_path):
    began = time.monotonic()
    # So many seeds that no machine is done in time.
    done = run(tmp_path, "reproduce", *SOME, "--tier", "smoke", "--jobs", "1", "--budget", "5s", "--seeds", "100")
    assert time.monotonic() - began < 25
    assert done.returncode == 0
    assert "did not fit the budget" in done.stdout_text
    done = run(tmp_path, "reproduce", *SOME, "--tier", "smoke")
    assert done.returncode == 0
    assert measured(tmp_path).keys() >= {key for key in measured(smoke) if key[0] in SOME}


def trials(revealed, n=500, trials=400):
    return Task(
        CompletionConfig(kind="matrix completion", method="as_published", n=n, revealed=revealed, trials=trials)
    )


def test_what_would_be_too_late_beside_another_waits_until_that_is_done(tmp_path):
    quick, long, hopeless = (trials(number, n=20, trials=2) for number in (50, 60, 70))
    seconds = {quick.key: 30.0, long.key: 40.0, hopeless.key: 100.0}
    outcomes = {}
    left = run_local(
        [quick, long, hopeless],
        tmp_path,
        lambda task, outcome: outcomes.update({task.key: outcome}),
        jobs=2,
        sharing=True,
        device="cpu",
        deadline=time.time() + 60,
        estimate=lambda task: seconds[task.key],
    )
    assert left == [hopeless]
    assert list(outcomes) == [quick.key, long.key]
    assert not any(outcome.error for outcome in outcomes.values())


def test_a_run_that_would_make_those_beside_it_late_waits(tmp_path):
    one, other, small = (trials(number, n=20, trials=2) for number in (50, 60, 70))
    seconds = {one.key: 400.0, other.key: 400.0, small.key: 300.0}
    events = []
    left = run_local(
        [one, other, small],
        tmp_path,
        lambda task, outcome: events.append("told"),
        jobs=3,
        sharing=True,
        device="cpu",
        deadline=time.time() + 1_000,
        estimate=lambda task: seconds[task.key],
        started=lambda task: events.append(task.key),
    )
    assert events[:3] == [one.key, other.key, "told"]
    assert small.key in events[3:]
    assert not left


def test_a_worker_that_dies_takes_only_its_own_task_with_it(tmp_path):
    slow, quick = trials(40_000), [trials(number, n=20, trials=2) for number in (50, 60, 70)]
    outcomes = {}

    def tell(task, outcome):
        outcomes[task.key] = outcome
        if len(outcomes) == 3:  # the quick ones are done: kill whoever works on the slow one
            for child in multiprocessing_children():
                os.kill(child, signal.SIGKILL)

    def multiprocessing_children():
        return [child.pid for child in multiprocessing.active_children()]

    left = run_local([slow, *quick], tmp_path, tell, jobs=2, device="cpu")
    assert not left
    assert outcomes[slow.key].error == "the worker was killed by signal 9 (out of memory? fewer --jobs leave each more)"
    assert all(outcomes[task.key].error is None for task in quick)
    assert [outcomes[task.key].answers["trials"]["trials"] for task in quick] == [2, 2, 2]


def test_a_worker_that_dies_idle_takes_nothing_with_it(tmp_path):
    outcomes = []

    def tell(task, outcome):
        outcomes.append(outcome)
        for child in multiprocessing.active_children():
            child.kill()
            child.join()

    run_local([trials(number, n=20, trials=2) for number in (50, 60)], tmp_path, tell, jobs=1, device="cpu")
    assert [outcome.error for outcome in outcomes] == [None, None]


def test_runs_that_share_a_device_cost_no_more_than_the_time_there_was(tmp_path):
    case = experiment("plain_vs_reverse").cases("smoke")[0]
    tasks = [Task(case.with_seed(seed).run) for seed in range(4)]
    outcomes = []
    began = time.monotonic()
    run_local(tasks, tmp_path, lambda t, o: outcomes.append(o), jobs=2, sharing=True, device="cpu")
    elapsed = time.monotonic() - began
    assert all(outcome.seconds > 0 for outcome in outcomes)
    assert sum(outcome.seconds for outcome in outcomes) <= elapsed


def test_what_fails_is_said_at_the_end_and_the_others_go_on(tmp_path):
    case = experiment("plain_vs_reverse").cases("smoke")[0]
    good = Task(case.run, (EvaluationConfig(limit=5),))
    bad = Task(case.run.model_copy(update={"parent": "0123456789"}))
    outcomes = {}
    run_local([bad, good], tmp_path, lambda task, outcome: outcomes.update({task.key: outcome}), device="cpu")
    assert "there is no run '0123456789'" in outcomes[bad.key].error
    assert outcomes[good.key].error is None
    assert outcomes[good.key].answers[EvaluationConfig(limit=5).hash]["count"] == 5


def test_a_reason_that_many_runs_share_is_said_once_and_leaves_no_folder(tmp_path):
    """The text is not here: nothing is trained."""
    environment = ENVIRONMENT | {"CARRYON_TEXT": str(tmp_path / "none")}
    command = [sys.executable, "-m", "carryon", "reproduce", "text_free_prompts", "--tier", "fast", "--jobs", "2"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    summary = done.stderr.partition("21 runs failed:\n")[2].splitlines()
    assert len(summary) == 1
    assert ", and 20 more: " in summary[0]
    assert "carryon text get" in summary[0]
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OutOfMemory("a batch does not fit"), "a batch does not fit"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried 9 GiB.\nof 140"),
            "memory ran out: CUDA out of memory. Tried 9",
        ),
    ],
)
def test_a_job_that_had_a_part_of_the_memory_says_so(monkeypatch, tmp_path, error, says):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("carryon.training.train", fail)
    task = Task(experiment("plain_vs_reverse").cases("smoke")[0].run)
    assert perform(task, tmp_path, "cpu").error.startswith(says)
    shared = perform(task, tmp_path, "cpu", part=0.25).error
    assert shared.startswith(says)
    assert shared.endswith("; each job has 25% of the GPU: fewer --jobs leave it more")


def test_children_of_a_failed_parent_are_not_tried(tmp_path):
    case = experiment("forgetting").cases("smoke")[0].with_seed(0)
    parent = Task(case.parents[0])
    child = Task(case.run, (), case.run.parent)
    outcomes = {}
    run_local([child, parent], tmp_path, lambda t, o: outcomes.update({t.key: o}), device="cuda:7")
    assert "is not there" in outcomes[parent.key].error
    assert outcomes[child.key].error == f"its parent {parent.key} is not there"


# --- plans --------------------------------------------------------------------------------------------------------


def test_a_run_that_two_experiments_need_is_run_once(tmp_path):
    store = Store(tmp_path)
    together = make_plan([experiment("plain_vs_reverse"), experiment("noisy_prefix")], "fast", store)
    alone = make_plan([experiment("plain_vs_reverse")], "fast", store)
    assert len(together.tasks) == len(alone.tasks)
    task = next(task for task in together.tasks if len(task.evaluations) > 3)
    assert {question.corrupt for question in task.evaluations} == {"none", "random", "precise"}


def test_results_of_another_experiment_are_used(tmp_path):
    store = Store(tmp_path)
    first, second = experiment("sample_efficiency"), experiment("token_cost")
    plan = make_plan([first], "smoke", store)
    for task in plan.tasks:
        answers = {question.hash: {"accuracy": 0.5} for question in task.evaluations}
        plan.keep(task, Outcome(task.key, answers, 1.0, "cpu", "abc"))
    assert not make_plan([second], "smoke", store).tasks
    assert len(store.read("smoke", "token_cost")) == len(store.read("smoke", "sample_efficiency"))


def test_what_decides_a_claim_is_run_first_and_then_one_seed_of_everything(tmp_path):
    one, store = experiment("plain_vs_reverse"), Store(tmp_path)
    plan = make_plan([one], "fast", store)
    first = [task for task in plan.tasks if task.key in plan.for_claims]
    assert plan.tasks[: len(first)] == first
    assert 0 < len(first) < len(plan.tasks)
    seeds = [task.run.seed for task in plan.tasks[len(first) :]]
    assert seeds == sorted(seeds)
    assert set(seeds) == {0, 1, 2}

    def undecided():
        return sum(verdict.decision == "not enough runs" for verdict in one.verdicts(results_of(one, store)))

    left = []
    for task in first:
        data = task.run.data
        accuracy = 0.85 if data.format.name == "plain" else float(data.num_examples > 2_500)
        answers = {question.hash: {"accuracy": accuracy} for question in task.evaluations}
        plan.keep(task, Outcome(task.key, answers, 1.0, "cpu", "abc"))
        left.append(undecided())
    assert left[-1] == 0
    assert left.index(3) < len(first) / 2  # the cheapest of the four claims is not decided last
    assert not make_plan([one], "fast", store).for_claims


def test_what_a_curve_turned_out_not_to_need_comes_later(tmp_path):
    """Where a level is reached early, the rest of the curve decides nothing."""
    one = experiment("longer_digits")

    def runs_until_decided(name, again):
        store = Store(tmp_path / name)
        plan = make_plan([one], "fast", store)
        tasks, count = list(plan.tasks), 0
        while any(v.decision == "not enough runs" for v in one.verdicts(results_of(one, store))):
            task, count = tasks.pop(0), count + 1
            plan.keep(task, learnt(task))
            tasks = plan.reorder(tasks) if again else tasks
        return count

    assert runs_until_decided("again", True) < runs_until_decided("once", False)


def test_only_what_decides_the_claims_is_run(tmp_path):
    one, store = experiment("longer_digits"), Store(tmp_path)
    whole = make_plan([one], "fast", store)
    plan = whole.to_decide()
    chances = [plan.for_claims[task.key] for task in plan.tasks]
    assert [task for task in whole.tasks if task.key in plan.for_claims] == plan.tasks
    assert set(chances) == {1, 0.5, 0.25}
    assert plan.surest(plan.tasks) == [task for task in plan.tasks if plan.for_claims[task.key] == 1]
    assert sum(map(plan.expected, plan.tasks)) < 0.6 * sum(map(plan.estimate, plan.tasks))
    tasks, count = list(plan.tasks), 0
    while tasks:
        task, count = tasks.pop(0), count + 1
        plan.keep(task, learnt(task))
        tasks = plan.reorder(tasks)
    assert {verdict.decision for verdict in one.verdicts(results_of(one, store))} <= {"holds", "does not hold"}
    assert (
        sum(chances) / 2 < count < sum(chances) < len(chances) / 1.5
    )  # what one seed tells the others saves some, too
    assert not make_plan([one], "fast", store).to_decide().tasks


def test_workers_begin_with_one_seed_of_each_curve(tmp_path):
    """What one seed says of a curve tells where to look with the others: they would look in the wrong places."""
    plan = make_plan([experiment("longer_digits")], "fast", Store(tmp_path)).to_decide()
    begun = [(task.run.data.format.name, task.run.data.digits, task.run.seed) for task in plan.tasks[:4]]
    assert begun == [("plain", digits, seed) for seed in (0, 1) for digits in (10, 5)]


def learnt(task):
    """Every sum is right once there are enough examples."""
    accuracy = float(task.run.data.num_examples >= (50_000 if task.run.data.format.name == "plain" else 5_000))
    answers = {question.hash: {"accuracy": accuracy} for question in task.evaluations}
    return Outcome(task.key, answers, 1.0, "cpu", "abc")


def test_deciding_ends_where_no_claim_waits(tmp_path):
    arguments = ("reproduce", "matrix_completion_vs_model", "--tier", "smoke", "--decide")
    listed = run(tmp_path, *arguments, "--dry-run").stdout_text
    assert listed.startswith("0 of 12 runs are done, claims wait for 5 at most, about ")
    assert len(listed.splitlines()) == 6
    done = run(tmp_path, *arguments, "--jobs", "1")
    assert done.returncode == 0, done.stderr_text
    assert done.stderr_text.startswith("5 runs to do at most, 0 done; about 4 s")  # four of them, but for chance
    assert done.stdout_text.startswith("no claim waits for a run any more (4 of 4 stay open): 'carryon report")
    assert run(tmp_path, *arguments, "--dry-run").stdout_text.endswith("claim waits for one\n")
    assert 0 < len(Store(tmp_path / "results").read("smoke", "matrix_completion_vs_model")) < 12
    fails(tmp_path, *arguments, "--seeds", "1", says="'--seeds' says how many: give one")
    fails(tmp_path, *arguments, "--probe", "1", says="'--decide' runs what claims wait for: give one")


def test_a_run_that_fails_on_a_cluster_keeps_nobody_from_deciding_the_rest(tmp_path, monkeypatch, capsys):
    """No run is given twice, and those of other curves are all given."""
    given = []

    def run_on_ray(tasks, root, tell, **_):
        given.extend(task.key for task in tasks)
        for task in tasks:
            is_bad = (task.run.data.format.name, task.run.data.num_examples) == ("plain", 50_000)
            tell(task, Outcome(task.key, error="no room") if is_bad else learnt(task))
        return []

    monkeypatch.setattr("carryon.execution.on_ray.run_on_ray", run_on_ray)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(typer.Exit) as ended:
        reproduce(["longer_digits"], on="ray", decide=True)
    assert ended.value.exit_code == 1
    assert "runs failed:" in capsys.readouterr().err
    assert len(set(given)) == len(given)
    waiting = make_plan([experiment("longer_digits")], "fast", Store(tmp_path / "results")).to_decide().tasks
    assert {(task.run.data.format.name, task.run.data.num_examples) for task in waiting} == {("plain", 50_000)}


def results_of(one, store):
    return Measured(store.read("fast", one.name), "fast", 3, one.planned("fast"))


def test_the_order_is_asked_for_again_after_every_outcome(tmp_path):
    tasks = [trials(revealed, n=20, trials=2) for revealed in (50, 60, 70, 80)]
    ended = []
    run_local(tasks, tmp_path, lambda task, outcome: ended.append(task.run.revealed), reorder=lambda left: left[::-1])
    assert ended == [50, 80, 60, 70]


def test_only_some_runs_of_an_experiment(tmp_path):
    plan = make_plan([experiment("plain_vs_reverse"), experiment("noisy_prefix")], "fast", Store(tmp_path))
    few = plan.only(["reverse,2000", "plain,500"])
    chosen = {(task.run.data.format.name, task.run.data.num_examples) for task in few.tasks}
    assert chosen == {("reverse", 2_000), ("plain", 500)}
    assert (len(few.tasks), few.total, few.done) == (6, 6, 0)
    assert [task for task in plan.tasks if task in few.tasks] == few.tasks
    task = few.tasks[0]
    answers = {question.hash: {"accuracy": 0.5} for question in task.evaluations}
    few.keep(task, Outcome(task.key, answers, 1.0, "cpu", "abc"))
    assert few.only(["reverse,2000", "plain,500"]).done == 1
    assert few.only(["reverse, 2,000", "plain,500"]).total == 6
    plan = make_plan([experiment("format_switch")], "fast", Store(tmp_path))
    few = plan.only(["reverse,reverse"])
    chosen = [want for want in few.wanted if set(want.case.settings.values()) == {"reverse"}]
    assert {task.key for task in few.tasks} == {key for want in chosen for key, _ in want.chain}
    assert few.total == len(chosen) == 3
    for task in [task for task in few.tasks if task.parent]:
        answers = {question.hash: {"accuracy": 0.5} for question in task.evaluations}
        few.keep(task, Outcome(task.key, answers | {"history": {"history": []}}, 1.0, "cpu", "abc"))
    again = make_plan([experiment("format_switch")], "fast", Store(tmp_path))
    assert {task.key for task in few.tasks if not task.parent} <= {task.key for task in again.tasks}  # others need them
    assert not again.only(["reverse,reverse"]).tasks
    plan = make_plan([experiment("plain_vs_reverse")], "fast", Store(tmp_path))
    lengths = make_plan([experiment("length_generalization")], "fast", Store(tmp_path))
    assert lengths.only(["3 digits, detailed"]).total == 3
    # As it is printed, and where a value alone could be two things.
    assert again.only(["start reverse, target reverse"]).total == again.only(["reverse,target reverse"]).total == 3
    assert (again.only(["target reverse"]).total, again.only(["start reverse"]).total) == (15, 12)
    for choice in ("start reverse, start plain", ", ".join(["reverse"] * 3_000)):
        with pytest.raises(Unsupported, match=f"no run has all of {choice}: "):
            again.only([choice])
    for word in ("target revers", "start"):
        name, _, value = word.partition(" ")
        with pytest.raises(
            UnknownName, match=f"^unknown setting {name} '{value}'.*; choose from detailed_scratchpad, "
        ):
            again.only([word])
    for one in (lengths, make_plan([experiment("one_more_digit")], "fast", Store(tmp_path))):
        for task in one.tasks:
            if task.key in one.by_key:
                printed = one.name_of(task).removeprefix(f"{one.experiments[0].name} ")
                assert task in one.only([printed]).tasks, printed
    with pytest.raises(UnknownName, match="unknown setting 'revers' \\(did you mean 'reverse'\\?\\); choose from 1000"):
        plan.only(["revers,2000"])
    for empty in ("", " ", ",", "reverse,,2000"):
        with pytest.raises(BadConfig, match="leaves out a setting: name some, with commas between"):
            plan.only([empty])
    everything = make_plan(EXPERIMENTS.values(), "fast", Store(tmp_path))
    with pytest.raises(BadConfig, match=r"^unknown setting 'revers' \(did you mean 'reverse'\?\): '--dry-run' without"):
        everything.only(["revers"])
    with pytest.raises(Unsupported, match="no run has all of reverse, plain: '--dry-run' without '--only' lists"):
        plan.only(["reverse, plain"])
    arguments = ("reproduce", "plain_vs_reverse", "--tier", "paper", "--only", "plain,2000")
    folder = tmp_path / "folder"
    folder.mkdir()
    assert run(folder, *arguments, "--dry-run").stdout_text.startswith("0 of 2 runs are done, 2 to do")
    assert not list(folder.iterdir())
    fails(tmp_path, *arguments, "--probe", "1", says="'--only' chooses runs: give one")


def test_seeds_that_no_claim_asks_for_come_last(tmp_path):
    plan = make_plan([experiment("plain_vs_reverse")], "fast", Store(tmp_path), seeds=5)
    usual = make_plan([experiment("plain_vs_reverse")], "fast", Store(tmp_path))
    assert plan.for_claims == usual.for_claims
    assert [task.key for task in plan.tasks[: len(plan.for_claims)]] == [
        task.key for task in usual.tasks[: len(plan.for_claims)]
    ]


def test_claims_that_cannot_be_decided_with_so_few_seeds_change_no_order(tmp_path):
    plan = make_plan([experiment("plain_vs_reverse"), experiment("wrapping")], "fast", Store(tmp_path), seeds=2)
    assert not plan.for_claims
    seeds = [task.run.seed for task in plan.tasks]
    assert seeds == sorted(seeds)
    assert set(seeds) == {0, 1}


def test_what_is_begun_goes_by_how_fast_runs_have_been(tmp_path):
    """A budget would begin runs that cannot be done in time: those measured may not have shared their machine."""
    store = Store(tmp_path)
    plan = make_plan([experiment("plain_vs_reverse")], "fast", store)
    for task in plan.tasks[:9]:
        plan.keep(task, replace(learnt(task), seconds=10.0))
    screen, tasks = ManyRuns(plan, 1), plan.tasks[9:]

    def take(task):
        outcome = replace(learnt(task), seconds=30.0)
        plan.keep(task, outcome)
        screen.finished(task, outcome)
        screen.plan_again(tasks[tasks.index(task) + 1 :])

    for nth, expected in enumerate((10, 20, 23, 25)):
        assert screen.estimate(tasks[-1]) == pytest.approx(expected, abs=1)
        take(tasks[nth])
    for task in tasks[4:20]:
        take(task)
    assert screen.estimate(tasks[-1]) == pytest.approx(30, abs=1)  # not three times that: estimates have learnt it, too


def test_a_run_that_was_begun_takes_what_is_left_of_it(tmp_path):
    def told():
        asked = ("plain_vs_reverse", "--only", "reverse,10000", "--seeds", "2", "--dry-run")
        return run(tmp_path, "reproduce", *asked).stdout_text.splitlines()[0]

    plan = make_plan([experiment("plain_vs_reverse")], "fast", Store(tmp_path / "results"), 2).only(["reverse,10000"])
    config = next(task.run for task in plan.tasks if task.run.seed == 1)
    assert "about 50 s" in told()
    begun = Run.start(tmp_path / "runs", config)
    assert part_done(config, tmp_path / "runs") == 0
    for step in (600, 1_500):
        begun.write_state(step, {}, {})
    assert part_done(config, tmp_path / "runs") == 1_500 / config.train.steps == 0.5
    assert "about 38 s" in told()
    (begun.path / "state" / "notes.json").write_text("not a checkpoint")
    assert part_done(config, tmp_path / "runs") == 0.5
    begun.write_model({}, None)
    assert part_done(config, tmp_path / "runs") == 1
    assert "about 26 s" in told()  # it has to be evaluated

    task = next(task for task in plan.tasks if task.run.seed == 1)
    whole = plan.estimate(task)
    plan.begun = {task.key: 0.5}
    assert plan.estimate(task) == whole / 2
    screen = ManyRuns(plan, 1)
    screen.finished(task, replace(learnt(task), seconds=100 * whole))  # of all sittings
    assert plan.estimate(task) == whole
    assert screen.estimate(task) == whole  # nothing learnt of how fast runs are here


def test_the_time_left_is_known_before_a_run_is_done():
    """Four runs that begin together end together: the pace alone would call the first of them all there is."""
    forecast = Forecast({"a": 10, "b": 10, "c": 10, "d": 10}, workers=1)
    assert forecast.left(0) == 40
    forecast.finished("a", 10, 37)  # its part of 37 seconds that four shared
    assert forecast.left(37) == pytest.approx(5)  # half a run at least, however much was begun
    assert forecast.left(20) == pytest.approx(20)


@pytest.mark.parametrize("factor", [1, 100])
def test_the_time_left_learns_how_fast_this_machine_is(factor):
    estimates = {f"{number}": 1.0 + number % 3 for number in range(60)}
    forecast = Forecast(estimates, workers=2)
    for number in range(30):
        forecast.finished(f"{number}", factor * estimates[f"{number}"], 1e9)
    whole = factor * sum(estimates.values())
    assert forecast.left(whole / 2 / 2) == pytest.approx(whole / 2 / 2, rel=0.05)


def test_the_time_left_counts_workers_it_was_not_told_of():
    forecast = Forecast(dict.fromkeys("abcdefgh", 5.0))
    for task in "abcd":
        forecast.finished(task, 5.0, 5.0)
    assert forecast.left(5.0) == pytest.approx(5.0)
    for task in "efg":
        forecast.gave_up(task, 1.0, 10.0)
    forecast.finished("h", 5.0, 10.0)
    assert forecast.left(10.0) == 0


def test_the_time_left_counts_no_workers_that_have_nothing_to_do():
    assert Forecast(dict.fromkeys("abc", 600.0), 64).left() == 600
    assert Forecast(dict.fromkeys("abc", 600.0), 64).left(10) == 590
    forecast = Forecast({"short": 10.0, "long": 3600.0}, 2)
    forecast.finished("short", 10.0, 10.0)
    assert forecast.left(10.0) == 3590


@pytest.mark.parametrize(("workers", "expected"), [(None, 9 * 3600 - 2), (1, 9 * 3600)])
def test_the_time_left_knows_that_a_run_was_done_before(workers, expected):
    """One that is found on disk takes no time, and counts all its seconds."""
    forecast = Forecast({f"{number}": 3600.0 for number in range(10)}, workers)
    forecast.finished("0", 3600.0, 2.0)
    assert forecast.left(2.0) == pytest.approx(expected, abs=10)


def test_what_a_larger_model_costs_is_guessed_by_its_size(tmp_path):
    store = Store(tmp_path)
    assert make_plan([experiment("model_scale")], "fast", store).guessed == 6
    plan = make_plan([experiment("text_mixture")], "fast", store)
    task = plan.tasks[0]  # 6 layers of width 384, 10,000 steps
    plan.keep(task, Outcome(task.key, {q.hash: {"accuracy": 0.5} for q in task.evaluations}, 60.0, "cuda", "abc"))
    plan = make_plan([experiment("model_scale")], "fast", store)
    small, large = (
        next(task for task in plan.tasks if task.run.model.width == width) for width in (384, 768)
    )  # 6,000 steps of as many tokens; 12 layers
    assert plan.estimate(small) == pytest.approx(60 * 0.6)
    assert plan.estimate(large) == pytest.approx(60 * 0.6 * 8)
    assert plan.guessed == 3
    assert plan.basis.startswith("partly a guess")


def test_a_tiny_model_tells_nothing_of_a_large_one():
    costs = Costs()
    costs.add("tiny", work_of({"model": {"layers": 1, "width": 16, "context": 96}, "train": {"steps": 12}}), 1.0)
    assert costs.guess(work_of({"model": {"layers": 6, "width": 384, "context": 256}})) is None


def test_what_completing_a_table_costs_is_told_by_tables_of_its_size():
    costs = Costs()
    table = {"kind": "matrix completion", "method": "sums", "trials": 100}
    for n, seconds in ((20, 0.01), (500, 1.4)):
        costs.add(f"run{n}", work_of({**table, "n": n, "revealed": 10}), seconds)
    costs.add("lemma", work_of({"kind": "enumeration", "lemma": "first"}), 0.001)
    assert costs.estimate(work_of({**table, "n": 500, "revealed": 30_000})) == pytest.approx(1.4)
    assert costs.estimate(work_of({**table, "n": 25, "revealed": 30, "trials": 200})) == pytest.approx(0.02)
    assert costs.estimate(work_of({**table, "method": "nuclear_norm", "n": 20})) is None


def test_what_a_run_costs_is_told_by_those_whose_steps_are_most_like_its_own():
    costs = Costs()
    costs.add("one of 32 windows", work_of({"train": {"steps": 3_000, "batch_size": 32}}), 6.0)
    costs.add("one of 256 windows", work_of({"train": {"steps": 5_000, "batch_size": 256}}), 70.0)
    for rows, steps, expected in ((32, 1_000, 2.0), (256, 10_000, 140.0), (16, 6_000, 6.0), (128, 10_000, 70.0)):
        assert costs.estimate(work_of({"train": {"steps": steps, "batch_size": rows}})) == pytest.approx(expected)


def test_a_curve_is_begun_at_its_ends():
    cases = [Case({"examples": n}, None) for n in range(9)]
    order = [case.settings["examples"] for case in spread(cases)]
    assert order[:2] == [0, 8]
    assert sorted(order) == list(range(9))
    assert abs(order[2] - order[3]) > 1


def test_parents_come_first():
    case = experiment("forgetting").cases("fast")[0].with_seed(1)
    tasks = [Task(case.run, (), case.run.parent), Task(case.parents[0])]
    assert [task.key for task in order_tasks(tasks)] == [case.parents[0].hash, case.run.hash]


def test_a_probe_tries_the_heaviest_run_and_keeps_nothing(tmp_path):
    done = run(tmp_path, "reproduce", "forgetting", "plain_vs_reverse", "--tier", "smoke", "--probe", "2")
    assert done.returncode == 0, done.stderr_text
    assert "the heaviest smoke run of 2 experiments works for 2 steps" in done.stdout_text
    assert "[3/3]" in done.stderr_text  # the run to start from, too
    assert not list(tmp_path.iterdir())


def test_a_probe_takes_the_longest_run_at_full_size(tmp_path):
    plan = probe_plan([experiment("longer_digits")], "paper", 200, Store(tmp_path))
    (task,) = plan.tasks
    assert task.run.data.format.name == "detailed_scratchpad"
    assert task.run.train.steps == 200
    assert task.run.train.batch_size == 80
    assert task.run.model.context == 2048


def test_of_runs_with_as_many_tokens_a_probe_takes_the_longest_examples(tmp_path):
    plan = probe_plan([experiment("longer_digits")], "fast", 200, Store(tmp_path))
    (task,) = plan.tasks
    data = task.run.data
    assert (data.format.name, data.digits, data.num_examples) == ("detailed_scratchpad", 10, 10_000)


# --- results and bad input ----------------------------------------------------------------------------------------


def test_a_line_that_is_measured_again_takes_its_old_place(tmp_path):
    store, other = Store(tmp_path), replace(LINE, run="s")
    store.add("fast", "wrapping", [LINE, other])
    again, new = replace(LINE, metrics={"accuracy": 0.75}), replace(LINE, run="t")
    store.put("fast", "wrapping", [new, again])
    assert store.read("fast", "wrapping") == [again, other, new]
    store.add("fast", "wrapping", [LINE])
    assert store.read("fast", "wrapping") == [again, other, new]


def test_a_broken_line_is_named_and_the_others_are_read(tmp_path):
    store = Store(tmp_path)
    store.add("fast", "lemmas", [LINE])
    path = store.path("fast", "lemmas")
    path.write_text(path.read_text() + '{"run": "half a li\n[1]\n\n')
    store.add("fast", "lemmas", [Line("s", *LINE.key[1:2], {}, {}, 1, {}, 1.0, "cpu", None)])
    again = Store(tmp_path)
    assert [line.run for line in again.read("fast", "lemmas")] == ["r", "s"]
    assert [note.split(" was skipped")[0] for note in again.broken] == [f"{path} line 2", f"{path} line 3"]
    done = run(tmp_path.parent, "reproduce", "lemmas", "--tier", "smoke", "--results", str(tmp_path))
    assert f"carryon: {path} line 2 was skipped" in done.stderr_text


@pytest.mark.parametrize(
    "odd",
    [
        {"config": None},
        {"config": {"train": 5}},
        {"config": {"model": {"context": 0, "gone": 1}, "train": {"steps": 0}}},
        {"seconds": None},
        {"metrics": []},
    ],
)
def test_an_odd_line_stops_nobody(tmp_path, odd):
    store = Store(tmp_path)
    path = store.path("fast", "plain_vs_reverse")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(asdict(LINE) | odd) + "\n")
    done = run(tmp_path.parent, "reproduce", "plain_vs_reverse", "--dry-run", "--results", str(tmp_path))
    assert done.returncode == 0, done.stderr_text
    assert "Traceback" not in done.stderr_text


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        ({"metrics": {"accuracy": "lots"}}, "metrics.accuracy is 'lots', not a number"),
        ({"metrics": {"accuracy": math.nan}}, "metrics.accuracy is nan, not a number"),
        ({"metrics": {"accuracy": 7.0}}, "metrics.accuracy is 7.0, not a share from 0 to 1"),
        ({"metrics": {"exact": -3}}, "metrics.exact is -3, not a share from 0 to 1"),
        (
            {"metrics": {"accuracy": 0.1, "right": 8_648, "count": 10_000}},
            "metrics.accuracy is 0.1, but 8,648 of 10,000 are right",
        ),
        ({"seed": "0"}, "seed is '0', not a whole number"),
        (
            {"config": {"train": {"steps": "many"}}},
            "config.train.steps is 'many', not a whole number from 0 to 1,000,000,000",
        ),
        (
            {"config": {"train": {"batch_size": -16}}},
            "config.train.batch_size is -16, not a whole number from 0 to 1,000,000,000",
        ),
        ({"seconds": math.nan}, "seconds is nan, not a number from 0 to 1,000,000,000"),
    ],
)
def test_a_line_whose_numbers_are_none_is_named_and_left_out(tmp_path, odd, says):
    store = Store(tmp_path)
    path = store.path("fast", "lemmas")
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(json.dumps(asdict(LINE) | more) for more in (odd, {"run": "s"})))
    assert [line.run for line in store.read("fast", "lemmas")] == ["s"]
    way_out = "delete it, and its run will be run again, or take it from git"
    assert store.broken == [f"{path} line 1 was skipped: {says}; {way_out}"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("<<<<<<< HEAD", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[1]", "a result has other keys than it (all of them)"),
        ('{"run": "r"}', "a result has other keys than it (config, device, evaluation, metrics, seconds, seed, "),
        (json.dumps(asdict(replace(LINE, metrics={"accuracy": 0.6}))), "another line before it answers the same"),
    ],
)
def test_a_line_that_is_no_result_is_named_in_words(tmp_path, row, says):
    store = Store(tmp_path)
    store.add("fast", "lemmas", [LINE])
    path = store.path("fast", "lemmas")
    path.write_text(path.read_text() * 2 + row + "\n")  # the same line twice is no contradiction
    assert store.read("fast", "lemmas") == [LINE]
    (note,) = store.broken
    assert note.startswith(f"{path} line 3 was skipped: {says}")
    assert note.endswith("; delete it, and its run will be run again, or take it from git")


def test_half_a_line_at_the_end_spoils_nothing(tmp_path):
    store = Store(tmp_path)
    store.add("fast", "lemmas", [LINE])
    path = store.path("fast", "lemmas")
    path.write_bytes(path.read_bytes() + b'{"run": "cut o')
    store.add("fast", "lemmas", [Line("s", "e", {}, {}, 1, {}, 1.0, "cpu", None)])
    assert [line.run for line in Store(tmp_path).read("fast", "lemmas")] == ["r", "s"]


def test_a_line_is_added_once(tmp_path):
    store = Store(tmp_path)
    store.add("fast", "lemmas", [LINE, LINE])
    store.add("fast", "lemmas", [LINE])
    assert len(store.read("fast", "lemmas")) == 1
    assert Measured(store.read("fast", "lemmas")).mean(format="plain") == 50


def test_bad_input_is_one_line(tmp_path):
    fails(tmp_path, "reproduce", "plain_vs_revers", says="did you mean 'plain_vs_reverse'?")
    fails(tmp_path, "reproduce", "lemmas", "--tier", "fasst", says="did you mean 'fast'?")
    fails(tmp_path, "reproduce", "lemmas", "--budget", "soon", says="is not a time such as 90s, 25m or 2h")
    fails(tmp_path, "reproduce", "plain_vs_reverse", "--budget", "3s", says="the shortest takes about 25 s")
    fails(tmp_path, "reproduce", "lemmas", "--on", "moon", says="choose from local, ray, slurm")
    fails(tmp_path, "reproduce", "lemmas", "--seeds", "0", says="0 is too small: at least 1")
    fails(tmp_path, "reproduce", "lemmas", "--seeds", "99999999999", says="99999999999 is too large: at most 1000")
    fails(tmp_path, "reproduce", "lemmas", "--jobs", "-2", says="-2 is too small: at least 1")
    fails(tmp_path, "reproduce", "lemmas", "--probe", "0", says="0 is too small: at least 1")
    fails(tmp_path, "reproduce", "lemmas", "--only", "moon", says="unknown setting 'moon'")
    fails(tmp_path, "reproduce", "lemmas", "--device", "moon", says="device 'moon' is not there; choose from auto, cpu")
    fails(tmp_path, "reproduce", "lemmas", "--compile", "maybe", says="choose from auto, off, on")
    fails(tmp_path, "reproduce", "lemmas", "--gpus", "1", says="'--gpus' is for ray and slurm")
    fails(tmp_path, "reproduce", "lemmas", "--on", "ray", "--gpus", "nan", says="'nan' is not a number")
    for command in (("reproduce", "lemmas", "--results="), ("train", "--runs="), ("report", "--out=")):
        fails(tmp_path, *command, says="an empty path: name one, such as . for this folder")
    fails(tmp_path, "reproduce", "lemmas", "--address", "here:1", says="give '--on ray'")
    fails(tmp_path, "reproduce", "lemmas", "--probe", "99999", says="99999 is too large: at most 10000")
    assert not any(tmp_path.iterdir())
    fails(tmp_path, "report", "lemmas", "--results", "nowhere", says="there are no results in nowhere")
    assert not (tmp_path / "report.html").exists()
    (tmp_path / "file").touch()
    for command in (("report",), ("experiments",), ("reproduce", "lemmas")):
        fails(tmp_path, *command, "--results", "file", says="file is not a folder; results are kept in one")
    fails(tmp_path, "reproduce", "lemmas", "--runs", "file/runs", says="file is not a folder; runs are kept in one")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "fast").touch()
    fails(tmp_path, "reproduce", "lemmas", says="results/fast is not a folder; results are kept in one")
    (tmp_path / "results" / "fast").unlink()
    fails(tmp_path, "report", "lemmas", "--format", "md", "--out", "file", says="file is a file")
    fails(tmp_path, "report", "lemma", says="did you mean 'lemmas'?")
    fails(tmp_path, "report", "--format", "pdf", says="choose from html, md")


def test_a_report_goes_into_a_folder_that_is_named(tmp_path):
    (tmp_path / "results").mkdir()
    done = run(tmp_path, "report", "lemmas", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr_text
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(("format", "name"), [("html", "thesis.txt"), ("md", "lemmas.md"), ("md", "README.md")])
def test_a_report_takes_the_place_of_a_report_and_of_nothing_else(tmp_path, format, name):
    (tmp_path / "results").mkdir()
    path = tmp_path / "pages" / name
    path.parent.mkdir()
    path.write_text("a thesis")
    out = path if format == "html" else path.parent
    names = () if name == "README.md" else ("lemmas",)
    arguments = ("report", *names, "--format", format, "--out", str(out))
    fails(tmp_path, *arguments, says=f"{path} is there and no report of carryon's: choose another path with --out, or")
    assert path.read_text() == "a thesis"
    assert [each.name for each in path.parent.iterdir()] == [name]
    assert run(tmp_path, *arguments, "--force").returncode == 0
    assert run(tmp_path, *arguments).returncode == 0  # now it is one
    assert path.read_text() != "a thesis"


def test_a_report_takes_the_place_of_no_device(tmp_path):
    (tmp_path / "results").mkdir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    fails(tmp_path, "report", "lemmas", "--out", "pipe", "--force", says="pipe is no ordinary file: choose another")
    assert pipe.is_fifo()


def test_pages_of_one_tier_do_not_replace_those_of_all(tmp_path):
    (tmp_path / "results").mkdir()
    fails(tmp_path, "report", "lemmas", "--format", "md", "--tier", "smoke", says="name another folder with --out")
    assert not (tmp_path / "docs").exists()


def test_a_folder_that_got_no_results_goes_again(tmp_path):
    store = Store(tmp_path / "results")
    with pytest.raises(RuntimeError, match="refused"), store.locked():
        raise RuntimeError("refused")
    assert not store.root.exists()
    with store.locked():
        store.add("fast", "lemmas", [LINE])
    store.path("fast", "lemmas").unlink()
    with store.locked():
        pass
    assert store.root.exists()  # it was there before


def test_two_at_once_are_refused_by_name(tmp_path):
    with Store(tmp_path / "results").locked():
        fails(tmp_path, "reproduce", "lemmas", says=f"is in use by process {os.getpid()}")


def test_a_dry_run_says_what_would_be_run(tmp_path):
    done = run(tmp_path, "reproduce", "plain_vs_reverse", "--dry-run")
    assert "0 of 54 runs are done, 54 to do" in done.stdout_text
    budget = run(tmp_path, "reproduce", "plain_vs_reverse", "--dry-run", "--budget", "2m").stdout_text.splitlines()
    assert budget[1] == "the first 4 fit into 2 min"  # 25 s each, as nothing was measured
    assert not (tmp_path / "runs").exists()
