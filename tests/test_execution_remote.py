"""Runs on a Ray cluster and in a job queue: real ones, on this machine, that lose workers and nodes on the way."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from carryon.config import EnumerationConfig, EvaluationConfig, RunConfig, load
from carryon.errors import MissingExtra, Unsupported
from carryon.execution import Task, perform
from carryon.execution.on_ray import run_on_ray
from carryon.execution.on_slurm import run_on_slurm
from carryon.execution.work import perform_in_time
from carryon.runs import Run

torch.set_num_threads(1)  # as on the nodes

QUESTION = EvaluationConfig(limit=20)


def tiny(name, steps=30, **values):
    config = {
        "name": name,
        "data": {"format": "reverse", "num_examples": 300, "num_test": 50, "num_validation": 40},
        "model": {"layers": 1, "heads": 2, "width": 16, "context": 32},
        "train": {"steps": steps, "batch_size": 8, "eval_every": max(steps // 4, 1), "warmup_steps": 5},
        "evaluations": [],
    }
    return load(RunConfig, config | values)


def child_of(task, name):
    return Task(tiny(name, parent=task.key), (QUESTION,), parent=task.key)


class Told(list):
    """What was told, and what is known about the run folders meanwhile."""

    def __init__(self, root):
        super().__init__()
        self.root = root
        self.results = set()
        """Every result.json that was ever there: writing one anew makes another file."""

    def __call__(self, task, outcome):
        self.append((task, outcome))
        self.look()

    def look(self):
        for path in self.root.glob("*/result.json"):
            self.results.add((path.parent.name, path.stat().st_ino, path.stat().st_mtime_ns))

    def outcome(self, task):
        (outcome,) = (outcome for other, outcome in self if other == task)
        return outcome

    @property
    def errors(self):
        """By the run's name; each must have been told once."""
        names = Counter(task.run.name for task, _ in self)
        assert set(names.values()) == {1}, names
        return {task.run.name: outcome.error for task, outcome in self}

    @property
    def finished(self):
        """Names of run folders, as often as they were finished."""
        return Counter(folder for folder, *_ in self.results)


def trainer_of(root, task):
    """The process that trains it, once it has begun; None before that and after its end."""
    folder = root / task.run.folder
    try:
        if not (folder / "metrics.jsonl").read_text() or (folder / "result.json").exists():
            return None
        pid = int((folder / "lock").read_text())
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return None
    return None if state == "Z" else pid


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_until(found, seconds=120.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if result := found():
            return result
        time.sleep(0.05)
    return None


class Meanwhile(threading.Thread):
    """Something that happens while the runs are carried out; what goes wrong with it fails the test."""

    def __init__(self, happen):
        super().__init__(daemon=True)
        self.happen, self.error = happen, None

    def run(self):
        try:
            self.happen()
        except BaseException as error:
            self.error = error

    def __enter__(self):
        self.start()

    def __exit__(self, *_):
        self.join(30)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


# --- Ray --------------------------------------------------------------------------------------------------------------


def processes_of(folder):
    """Processes other than this one that were started with the folder's name or have files in it open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            names = [(process / "cmdline").read_text().replace("\0", " ")]
            names += [os.readlink(link) for link in (process / "fd").iterdir()]
        except OSError:
            continue
        if int(process.name) != os.getpid() and any(str(folder) in name for name in names):
            found.append(names[0])
    return found


@pytest.fixture(scope="module")
def ray_folder():
    """Where Ray keeps its files; nothing may be left running when it goes."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # its sockets have no room for pytest's long names
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", str(folder))
        patch.setenv("RAY_AUTH_MODE", "disabled")  # or it puts a token into the home folder
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # or workers stand still while other tests use the cores
        yield folder
    left = processes_of(folder) if wait_until(lambda: not processes_of(folder), 20) is None else []
    shutil.rmtree(folder, ignore_errors=True)
    assert not left


@pytest.fixture(scope="module")
def cluster(ray_folder):
    """A head that takes no runs, and two nodes that take one each."""
    from ray.cluster_utils import Cluster

    soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": soon}  # a dead node is noticed soon
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    yield cluster
    cluster.shutdown()


@pytest.mark.timeout(240)
def test_a_node_that_dies_takes_no_run_with_it(cluster, tmp_path):
    tasks = [Task(tiny(f"run{seed}", steps=600, seed=seed), (QUESTION,)) for seed in range(3)]
    struck = tasks[1]
    tasks.append(child_of(struck, "child"))
    told = Told(tmp_path)
    killed = []

    def kill_its_node():
        killed.append(wait_until(lambda: trainer_of(tmp_path, struck)))
        (node,) = (
            node for node in cluster.worker_nodes if node.all_processes["raylet"][0].process.pid == parent_of(killed[0])
        )
        cluster.remove_node(node, allow_graceful=False)
        while len(told) < len(tasks):
            told.look()
            time.sleep(0.01)

    with Meanwhile(kill_its_node):
        assert run_on_ray(tasks, tmp_path, told, address=cluster.address, device="cpu") == []
    assert told.errors == {task.run.name: None for task in tasks}
    assert told.finished == {task.run.folder: 1 for task in tasks}
    assert int((tmp_path / struck.run.folder / "lock").read_text()) != killed[0]

    here = perform(struck, tmp_path / "here", "cpu")
    there = told.outcome(struck)
    losses, losses_here = (
        [(row["step"], row["loss"]) for row in outcome.answers["history"]["history"]] for outcome in (there, here)
    )
    assert losses == losses_here
    assert there.device == here.device == "cpu, 1 threads"
    assert there.answers[QUESTION.hash]["accuracy"] == here.answers[QUESTION.hash]["accuracy"]
    weights, weights_here = (
        load_file(root / struck.run.folder / "model.safetensors") for root in (tmp_path, tmp_path / "here")
    )
    assert weights.keys() == weights_here.keys()
    assert all(np.array_equal(weights[name], weights_here[name]) for name in weights)


@pytest.mark.timeout(240)
def test_nothing_begins_after_the_deadline_and_what_runs_is_saved(cluster, tmp_path):
    import ray

    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    try:
        # A worker takes long to start: here one is made ready before the deadline is set.
        lemma = Task(EnumerationConfig(kind="enumeration", lemma="first digit needs every digit", digits=2))
        told = Told(tmp_path)
        assert run_on_ray([lemma], tmp_path, told) == []
        assert told.outcome(lemma).answers["trials"]["share"] == 1

        tasks = [Task(tiny(f"long{seed}", steps=200_000, seed=seed)) for seed in range(3)]
        tasks.append(child_of(tasks[0], "child"))
        told = Told(tmp_path)
        began = time.time()
        left = run_on_ray(tasks, tmp_path, told, deadline=began + 3, device="cpu")
        assert time.time() - began < 30
        assert ray.is_initialized()
    finally:
        ray.shutdown()
    assert {tasks[2].key, tasks[3].key} <= {task.key for task in left}
    assert not any((tmp_path / task.run.folder).exists() for task in left)
    assert told
    for task, outcome in told:
        assert outcome.error is None
        assert outcome.interrupted
        assert list((tmp_path / task.run.folder / "state").glob("*.json"))
    assert {task.key for task, _ in told} | {task.key for task in left} == {task.key for task in tasks}
    assert len(told) + len(left) == len(tasks)


@pytest.mark.timeout(240)
def test_a_cluster_that_has_no_time_for_us_is_not_waited_for(cluster, monkeypatch, tmp_path):
    import ray

    monkeypatch.setattr("carryon.execution.on_ray.PATIENCE_SECONDS", 0.5)
    tasks = [Task(tiny("first")), Task(tiny("second", seed=1))]
    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    try:
        others = ray.remote(num_cpus=1)(lambda: time.sleep(60))
        busy = [others.remote() for _ in range(int(ray.cluster_resources()["CPU"]))]
        assert wait_until(lambda: not ray.available_resources().get("CPU"))
        assert run_on_ray(tasks, tmp_path, print, deadline=time.time() + 0.5) == tasks
        assert ray.wait(busy, timeout=0)[1] == busy
    finally:
        ray.shutdown()
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(240)
def test_a_worker_that_is_killed_is_replaced_until_it_is_enough(ray_folder, monkeypatch, tmp_path):
    monkeypatch.setattr("carryon.execution.on_ray.RETRIES", 1)
    doomed = Task(tiny("doomed", steps=200_000))
    unlucky = Task(tiny("unlucky", steps=600, seed=1))
    others = [Task(tiny(f"other{seed}", seed=seed)) for seed in range(2, 4)]
    orphan = child_of(doomed, "orphan")
    tasks = [doomed, unlucky, *others, orphan]
    told = Told(tmp_path)
    killed = {doomed: [], unlucky: []}

    def kill_them():
        while len(told) < len(tasks):
            for task, most in ((doomed, 2), (unlucky, 1)):
                pid = trainer_of(tmp_path, task)
                if pid is not None and pid not in killed[task] and len(killed[task]) < most:
                    killed[task].append(pid)
                    os.kill(pid, signal.SIGKILL)
            told.look()
            time.sleep(0.02)

    with Meanwhile(kill_them):
        assert run_on_ray(tasks, tmp_path, told, device="cpu") == []
    assert told.errors == {
        "doomed": "WorkerCrashedError: The worker died unexpectedly while executing this task. "
        "Check python-core-worker-*.log files for more information.",
        "unlucky": None,
        "other2": None,
        "other3": None,
        "orphan": f"its parent {doomed.key} is not there",
    }
    assert len(killed[doomed]) == 2
    assert len(killed[unlucky]) == 1
    assert told.finished == {task.run.folder: 1 for task in (unlucky, *others)}


@pytest.mark.timeout(240)
def test_a_cluster_that_cannot_take_a_run_is_refused(cluster, tmp_path):
    task = Task(tiny("run"))
    for gpus, why in ((64, "no node of the Ray cluster has a CPU and 64 GPUs"), (1.5, "a run cannot have 1.5 GPUs")):
        with pytest.raises(Unsupported, match=why):
            run_on_ray([task], tmp_path, print, gpus=gpus, address=cluster.address)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(Unsupported, match=f"^no Ray cluster answers at {address}$"):
            run_on_ray([task], tmp_path, print, address=address)
    assert not list(tmp_path.iterdir())


def test_a_run_that_a_lost_worker_still_holds_is_waited_for(tmp_path):
    task = Task(tiny("held"))
    run = Run.start(tmp_path, task.run)
    held = threading.Event()

    def hold():
        with run.locked():
            held.set()
            time.sleep(1)

    with Meanwhile(hold):
        assert held.wait(10)
        assert "is being trained by process" in perform(task, tmp_path, "cpu").error
        assert perform_in_time(task, tmp_path, "cpu", "auto", None).error is None
    assert run.is_done


def test_time_that_is_up_between_two_questions_stops_there_and_loses_no_answer(tmp_path):
    second = QUESTION.model_copy(update={"limit": 3})
    task = Task(tiny("asked"), (QUESTION, second))
    run = Run.start(tmp_path, task.run)
    answered_once = lambda: run.read_evaluation(QUESTION.hash) is not None  # noqa: E731
    stopped = perform(task, tmp_path, "cpu", stop=answered_once)
    assert stopped.interrupted
    assert run.is_done
    assert run.read_evaluation(second.hash) is None
    done = perform(task, tmp_path, "cpu")
    assert done.answers[QUESTION.hash] == run.read_evaluation(QUESTION.hash)
    assert done.answers[second.hash]["count"] == 3


@pytest.mark.timeout(120)
def test_a_cluster_is_given_what_claims_surely_need_and_then_what_that_asks_for(tmp_path):
    arguments = ("reproduce", "matrix_completion_vs_model", "--tier", "smoke", "--decide", "--on", "ray")
    command = [sys.executable, "-m", "carryon", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no claim waits for a run any more")
    first, *others = done.stderr.splitlines()
    assert first.startswith("5 runs to do at most, 0 done; about ")
    assert len(others) == 4  # of two ends of a curve one, once its middle is known
    assert others[-1].startswith("[4/4] ")


def test_without_ray_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"^running on ray needs it: pip install 'carryon\[ray\]'$"):
        run_on_ray([Task(tiny("run"))], tmp_path, print)


# --- Slurm ------------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(240)
def test_jobs_are_queued_with_parents_first(monkeypatch, tmp_path):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    first = Task(tiny("first"), (QUESTION,))
    child = child_of(first, "child")
    bad = Task(tiny("bad", parent="nowhere"))
    orphan = child_of(bad, "orphan")
    told = Told(tmp_path)
    assert run_on_slurm([child, first, bad, orphan], tmp_path, told, device="cpu", cluster="local") == []
    errors = told.errors
    assert errors.pop("bad").startswith("there is no run 'nowhere' in ")
    assert errors == {"first": None, "child": None, "orphan": f"its parent {bad.key} is not there"}
    assert list(errors).index("first") < list(errors).index("child")
    assert told.finished == {first.run.folder: 1, child.run.folder: 1}
    assert told.outcome(child).answers[QUESTION.hash]["accuracy"] is not None


@pytest.mark.timeout(240)
def test_a_job_that_is_killed_is_told_and_a_late_one_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr("carryon.execution.on_slurm.ASK_SECONDS", 0.5)
    doomed, late = Task(tiny("doomed", steps=200_000)), Task(tiny("late"))
    told = Told(tmp_path)
    with Meanwhile(lambda: os.kill(wait_until(lambda: trainer_of(tmp_path, doomed)), signal.SIGKILL)):
        assert run_on_slurm([doomed], tmp_path, told, device="cpu", cluster="local") == []
    assert "ended without an answer" in told.outcome(doomed).error
    children = [late, child_of(late, "child")]
    assert run_on_slurm(children, tmp_path, told, device="cpu", cluster="local", deadline=time.time() - 1) == children


@pytest.mark.skipif(shutil.which("srun") is not None, reason="there is a Slurm here")
def test_without_slurm_it_says_so(tmp_path):
    with pytest.raises(Unsupported, match=r"^there is no Slurm here: its command srun is not found$"):
        run_on_slurm([Task(tiny("run"))], tmp_path, print)


def test_without_submitit_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingExtra, match=r"^running on slurm needs submitit: pip install 'carryon\[slurm\]'$"):
        run_on_slurm([Task(tiny("run"))], tmp_path, print, cluster="local")
