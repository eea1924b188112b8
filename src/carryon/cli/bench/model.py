"""Rows about training, generation and evaluation."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...config import RunConfig

Found = dict[str, Any]
"""What was measured, as text, and whatever numbers are worth keeping."""


class Row(NamedTuple):
    what: str
    run: Callable[[str], Found]
    reach: str | None = None
    needs_gpu: bool = True


def _step(config: "RunConfig", device: str, steps: int = 200) -> Found:
    """Milliseconds a step, after the steps that compile and record."""
    from ...data import make_dataset
    from ...devices import finish_work
    from ...tokenizers import make_tokenizer
    from ...training import Silent
    from ...training.feeds import make_feed
    from ...training.loading import build_model
    from ...training.stepper import Stepper
    from ...training.team import processes

    with processes(device) as team:
        dataset = make_dataset(config.data)
        tokenizer = make_tokenizer("characters", (example.text for example in dataset.examples("train")))
        model = build_model(config, tokenizer, team.device)
        stepper = Stepper(config, model, make_feed(config, [dataset], tokenizer, team), team, "auto", Silent())
        started = time.perf_counter()
        for step in range(10):
            stepper.take(step, 1e-3)
        finish_work(team.device)
        first = time.perf_counter() - started
        started = time.perf_counter()
        for step in range(10, 10 + steps):
            stepper.take(step, 1e-3)
        finish_work(team.device)
        each = (time.perf_counter() - started) / steps
    return {"measured": f"{1000 * each:.2f} ms (the first ten steps: {first:.1f} s)", "ms": 1000 * each, "first": first}


def _short_step(device: str) -> Found:
    from ...recipes import paper

    return _step(paper("reverse"), device)


def _long_step(device: str) -> Found:
    from ...recipes import paper

    return _step(paper("detailed_scratchpad", 1_000), device)


def _gpt2_step(device: str) -> Found:
    """Useful work: six operations a weight and token, and attention to what came before; nothing done twice."""
    from ...config import ModelConfig
    from ...recipes import paper

    recipe = paper("detailed_scratchpad", 3_000)
    model = ModelConfig(layers=12, heads=12, width=768, context=1024)
    train = recipe.train.model_copy(update={"batch_size": 64})
    found = _step(recipe.model_copy(update={"model": model, "train": train}), device, steps=60)
    weights, attention = 12 * model.layers * model.width**2, 6 * model.layers * model.width * model.context
    found["tflops"] = (6 * weights + attention) * 64 * model.context / found["ms"] / 1e9
    found["measured"] += f", {found['tflops']:.0f} TFLOP/s"
    return found


def _fresh_step(device: str) -> Found:
    """New problems for ever, and the same step from a set that lies on the device: whether it waits for problems."""
    from ...experiments import EXPERIMENTS

    (case,) = (
        case
        for case in EXPERIMENTS["position_methods"].cases("fast")
        if case.settings == {"method": "coupling, reach 1", "trained": 30}
    )
    fresh = case.run
    listed = fresh.model_copy(update={"train": fresh.train.model_copy(update={"endless": False, "grow": 0})})  # type: ignore[union-attr]
    found, set_aside = (_step(config, device) for config in (fresh, listed))  # type: ignore[arg-type]
    found["listed_ms"] = set_aside["ms"]
    found["measured"] += f"; {set_aside['ms']:.2f} ms from a set on the device"
    return found


WATCHED = 'watch=[{problems="test"},{problems="train"}]'


def _whole_run(device: str) -> Found:
    """The command as a person would type it, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, result = _train(
            ["paper-reverse", "--set", "train.eval_every=250", "--set", WATCHED, "--runs", folder, "--device", device]
        )
    right = next(iter(result["evaluations"].values()))
    text = f"{seconds:.1f} s (steps and compiling {result['training_seconds']:.1f} s), {right:.2%} right"
    return {"measured": text, "seconds": seconds, "result": result}


def _learnt(device: str) -> Found:
    """Three seeds, each with kernels to compile, and the first one again with those compiled."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {seed: f"{folder}/{seed}" for seed in range(3)}
        runs = [_learn(device, seed, cache) for seed, cache in caches.items()]
        again = _learn(device, 0, caches[0])
    start = _opening(device)
    texts = [run["measured"] for run in runs]
    texts.append(f"once more with kernels compiled before: {again['measured']}")
    texts.append(f"to import torch and put a number on the device takes {start:.1f} s of each")
    return {"measured": "; ".join(texts), "runs": runs, "again": again, "start": start}


def _learn(device: str, seed: int, cache: str) -> Found:
    """As tier fast trains, but looked at more often. `cache`: where compiled kernels are kept."""
    from ...experiments.protocols import FAST_BATCH, FAST_STEPS, FAST_STOP

    settings = (
        f"seed={seed}",
        f"train.batch_size={FAST_BATCH}",
        f"train.steps={FAST_STEPS}",
        f"train.stop.accuracy={FAST_STOP.accuracy}",
        f"train.stop.hold={FAST_STOP.hold}",
        "train.eval_every=100",
    )
    chosen = [argument for setting in settings for argument in ("--set", setting)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["paper-reverse", *chosen, "--runs", folder, "--device", device]
        began = time.time()
        ended, result = _train(arguments, TRITON_CACHE_DIR=cache)
        (path,) = Path(folder).glob("*/result.json")
        seconds = path.stat().st_mtime - began  # the process has yet to end
        rows = [json.loads(line) for line in (path.parent / "metrics.jsonl").read_text().splitlines()]
    good = [row for row in rows if row["validation"] >= FAST_STOP.accuracy]
    reached = seconds - (result["seconds"] - good[0]["seconds"]) if good else None
    best = max(row["validation"] for row in rows)
    to = f"{FAST_STOP.accuracy:.1%} of the validation set"
    held = "" if result["stopped"] != "all steps done" else " (which did not hold)"
    way = f"never {to} ({best:.2%} at best)" if reached is None else f"{reached:.1f} s to {to}{held}"
    right = next(iter(result["evaluations"].values()))
    text = (
        f"seed {seed}: {way}, {seconds:.1f} s to the result ({result['seconds']:.1f} s in the run, "
        f"{result['training_seconds']:.1f} of them {result['steps']:,} steps and compiling), "
        f"{ended:.1f} s until the process had ended, {right:.2%} right"
    )
    return {"measured": text, "reached": reached, "seconds": seconds, "ended": ended, "result": result}


def _opening(device: str) -> float:
    """Seconds that any program takes here before it computes something with torch on this device."""
    from ...devices import pick_device

    started = time.perf_counter()
    code = f"import torch; torch.ones(1, device={str(pick_device(device))!r}).item()"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - started


def _together(device: str) -> Found:
    """Eight seeds of the quick start's model, without its exhaustive evaluation."""
    from ...devices import pick_device
    from ...execution import Outcome, Task
    from ...execution.local import run_local
    from ...recipes import quickstart

    def tell(task: Task, outcome: Outcome) -> None:
        if outcome.error:
            raise RuntimeError(outcome.error)

    recipe = quickstart().model_copy(update={"evaluations": ()})
    tasks = [Task(recipe.model_copy(update={"seed": seed})) for seed in range(8)]
    sharing = pick_device(device).type != "cpu"
    seconds = {}
    for jobs in (1, 8):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            run_local(tasks, Path(folder), tell, jobs=jobs, sharing=sharing, device=device)
            seconds[jobs] = time.perf_counter() - started
    times = f"{seconds[1]:.1f} s one after the other, {seconds[8]:.1f} s in eight processes"
    return {"measured": f"{times}: {seconds[1] / seconds[8]:.1f} x", "seconds": seconds}


def _train(arguments: list[str], **environment: str) -> tuple[float, Any]:
    started = time.perf_counter()
    command = [sys.executable, "-m", "carryon", "train", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError(_reason(done))
    return time.perf_counter() - started, json.loads(done.stdout)


def _generate(device: str) -> Found:
    """Weights do not matter to the speed, so the untrained model writes 258 tokens for each prompt."""
    from ...data import make_dataset
    from ...devices import pick_device, pick_precision
    from ...generation import Completer
    from ...recipes import paper
    from ...tokenizers import make_tokenizer
    from ...training.loading import build_model

    config = paper("detailed_scratchpad", 1_000)
    dataset, where = make_dataset(config.data), pick_device(device)
    tokenizer = make_tokenizer("ascii")
    model = build_model(config, tokenizer, where)
    prompts = [example.prompt for example in dataset.examples("test")]
    complete = Completer(model, tokenizer, lambda text: False, 258, precision=pick_precision("auto", where))
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        complete(prompts)
        seconds.append(time.perf_counter() - started)
    text = f"{min(seconds):.1f} to {max(seconds):.1f} s ({len(seconds)} times)"
    return {"measured": text, "seconds": seconds}


def _sums(device: str) -> Found:
    """A model that adds, trained first (not counted), is asked every sum: right answers are the fast ones."""
    from ...config import EvaluationConfig, StopConfig
    from ...data import make_dataset
    from ...devices import pick_device, pick_precision
    from ...recipes import paper
    from ...training import Exam, load_model, train

    recipe = paper("reverse")
    stop = StopConfig(accuracy=0.999, hold=2)
    config = recipe.model_copy(
        update={"train": recipe.train.model_copy(update={"stop": stop, "batch_size": 64}), "evaluations": ()}
    )
    where = pick_device(device)
    with tempfile.TemporaryDirectory() as folder:
        run = train(config, Path(folder), device=device)
        trained = run.metrics()[-1]
        model, tokenizer = load_model(run, where)
        dataset = make_dataset(config.data)
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            question = EvaluationConfig(problems="exhaustive")
            result, _ = Exam(question, [dataset], model, tokenizer, pick_precision("auto", where)).ask()
            seconds.append(time.perf_counter() - started)
    text = f"{min(seconds):.1f} to {max(seconds):.1f} s ({len(seconds)} times), {result['right']:,} right"
    return {"measured": text, "seconds": seconds, "right": result["right"], "trained": trained}


def _quickstart(device: str) -> Found:
    runs = []
    for seed in range(3):
        with tempfile.TemporaryDirectory() as folder:
            whole, result = _train(["--runs", folder, "--seed", str(seed), "--device", device])
            (path,) = Path(folder).glob("*/evaluations/*.json")
            found = json.loads(path.read_text())
            runs.append((whole, result["training_seconds"], found["seconds"], found["right"]))
    commands, trained, asked = (", ".join(f"{run[column]:.1f}" for run in runs) for column in range(3))
    right = ", ".join(f"{right:,}" for *_, right in runs)
    text = f"{commands} s (training {trained}, asking {asked}), right: {right} (seeds 0, 1, 2)"
    return {"measured": text, "runs": runs}


ROWS = {
    "quickstart": Row(
        "the quick start with all 1,000,000 sums, command to result", _quickstart, "30 s, 99.9 %", needs_gpu=False
    ),
    "step": Row("one training step, 256 x 256 tokens, 10.6 M parameters, dropout 0.2", _short_step, "12 ms"),
    "long-step": Row("one training step, 16 x 1,024 tokens", _long_step, "4 ms"),
    "gpt2-step": Row("one training step of GPT-2's size, 64 x 1,024 tokens, dropout 0.2", _gpt2_step, "350 TFLOP/s"),
    "fresh-step": Row(
        "one training step, 256 new sums of up to 30 digits, 4 layers of width 256, coupling within reach",
        _fresh_step,
        "as from a set",
    ),
    "generate": Row("10,000 prompts completed with 258 tokens each", _generate, "6 s"),
    "sums": Row("all 1,000,000 three-digit sums, reverse, 10.6 M parameters", _sums, "4 s"),
    "run": Row(
        "train paper-reverse, 5,000 steps with 21 evaluations on 10,000 + 10,000 problems, command to result",
        _whole_run,
        "75 s",
    ),
    "learnt": Row("train reverse, 10,000 examples, 32 x 256 tokens, command to 99.9 %", _learnt, "15 s"),
    "together": Row("eight seeds of the quick start's model, one after the other and at once", _together, "4 x"),
}


def measure(name: str, device: str) -> Found:
    """One row, in a process of its own."""
    command = [sys.executable, "-m", "carryon.cli.bench.model", name, device]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"on": "", "measured": f"failed: {_reason(done)}", "peak_mib": 0.0}
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def _reason(failed: subprocess.CompletedProcess[str]) -> str:
    return (failed.stderr.strip().splitlines() or [f"exit status {failed.returncode}"])[-1]


def _measure_here(name: str, device: str) -> None:
    from ...devices import describe_device, pick_device
    from .memory import peak_mib

    picked = pick_device(device)
    if ROWS[name].needs_gpu and picked.type != "cuda":
        found: Found = {"measured": "needs a GPU"}
    else:
        found = ROWS[name].run(device)
    on = f"{describe_device(picked)}, torch {version('torch')}"
    print(json.dumps({"on": on, **found, "peak_mib": peak_mib()}))


if __name__ == "__main__":
    _measure_here(sys.argv[1], sys.argv[2])
