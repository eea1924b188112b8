"""Training as a function of its config: killed, resumed, damaged, shared between processes, it ends the same."""

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import carryon
from carryon.config import EvaluationConfig, ModelConfig, RunConfig, TrainConfig, load
from carryon.data import Windows, make_dataset
from carryon.errors import BadConfig, BadRun, RunMismatch, Unsupported
from carryon.model import Block, Decoder, run_block
from carryon.recipes import RECIPES, load_recipe
from carryon.runs import Run, find_run
from carryon.tokenizers import make_tokenizer
from carryon.training import Exam, Interrupted, load_model, train
from carryon.training.feeds import StreamFeed, make_feed
from carryon.training.optimizer import AdamW
from carryon.training.progress import Progress
from carryon.training.stepper import Stepper, block_in, lr_at
from carryon.training.team import Team

torch.set_num_threads(1)

TINY = {
    "name": "tiny",
    "data": {"format": "reverse", "num_examples": 300, "num_test": 50, "num_validation": 40},
    "model": {"layers": 1, "heads": 2, "width": 16, "context": 32, "dropout": 0.1},
    "train": {"steps": 30, "batch_size": 8, "eval_every": 10, "warmup_steps": 5},
}


def tiny(**values):
    merged = json.loads(json.dumps(TINY))
    for path, value in values.items():
        inner = merged
        *parents, last = path.split("__")
        for key in parents:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return load(RunConfig, merged)


def weights(run):
    return load_file(run.path / "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return train(tiny(), tmp_path_factory.mktemp("runs"), device="cpu")


def test_a_run_is_a_function_of_its_config(finished, tmp_path):
    again = train(tiny(), tmp_path, device="cpu")
    assert same(weights(finished), weights(again))
    losses = [row["loss"] for row in finished.metrics()]
    assert losses == [row["loss"] for row in again.metrics()]
    assert not same(weights(finished), weights(train(tiny(seed=1), tmp_path, device="cpu")))


def test_the_losses_of_a_tiny_run_are_stored(finished):
    """A change that moves these changed training; a refactoring must not."""
    losses = [row["loss"] for row in finished.metrics()[1:]]
    assert losses == pytest.approx([2.62298, 2.57386, 2.54655], abs=1e-4)
    assert losses[0] > losses[1] > losses[2]


def test_the_folder_holds_what_it_should(finished):
    names = {path.name for path in finished.path.iterdir()}
    assert {"config.json", "origin.json", "metrics.jsonl", "model.safetensors", "evaluations", "result.json"} <= names
    assert "state" not in names
    result = finished.read_result()
    assert result["steps"] == 30
    assert next(iter(result["evaluations"].values())) is not None
    assert finished.read_origin()["torch"] == torch.__version__
    assert finished.path.name == finished.config.folder
    before = (finished.path / "result.json").stat().st_mtime_ns
    train(tiny(), finished.path.parent, device="cpu")  # done already: nothing happens
    assert (finished.path / "result.json").stat().st_mtime_ns == before


def test_the_hash_covers_what_changes_the_outcome():
    base = tiny().hash
    assert tiny(name="other").hash == base
    assert tiny(evaluations=[]).hash == base
    assert tiny(train__steps=5_000).hash != base
    for values in ({"seed": 1}, {"train__lr": 0.1}, {"model__width": 18}, {"data__split_seed": 1}, {"parent": "x"}):
        assert tiny(**values).hash != base
    # A field that stands at its default does not count, so that new fields leave old hashes alone.
    assert RunConfig().hash == load(RunConfig, {"train": {"steps": 5_000}, "seed": 0}).hash == "67d6291b30"


# --- killed and resumed -------------------------------------------------------------------------------------------

KILLABLE = [
    sys.executable,
    "-c",
    "import sys, time, torch; torch.set_num_threads(1)\n"
    "import carryon.training.progress as progress; progress.CHECKPOINT_SECONDS = 0.0\n"
    "from pathlib import Path\n"
    "from carryon.training import train\n"
    "from carryon.config import RunConfig\n"
    "class Slow:\n"
    "    def say(self, text): ...\n"
    "    def step(self, step, *rest): print(step, flush=True); time.sleep(0.03)\n"
    "    def evaluated(self, row): ...\n"
    "train(RunConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]), device='cpu', display=Slow())",
]


@pytest.mark.parametrize("kill_at", [[3], [1, 12, 13, 27]])
def test_a_killed_run_ends_with_the_same_weights(finished, tmp_path, kill_at):
    """kill -9, again and again, with a checkpoint at every step: also in the middle of writing one."""
    command = [*KILLABLE, tiny().model_dump_json(), str(tmp_path)]
    for moment in kill_at:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if int(line) >= moment:
                break
        time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert not list(tmp_path.glob("*/result.json"))
        if moment > 1:  # the first step is shown before its checkpoint is written
            assert Run.open(next(tmp_path.iterdir())).read_state() is not None
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[0]) > kill_at[-1] - 1  # it went on, and did not start again
    resumed = Run.open(next(tmp_path.iterdir()))
    assert same(weights(finished), weights(resumed))
    assert [row["step"] for row in resumed.metrics()] == [0, 10, 20, 30]
    strip = lambda run: [{k: v for k, v in row.items() if k not in ("seconds", "loss")} for row in run.metrics()]  # noqa: E731
    assert strip(resumed) == strip(finished)


def test_ctrl_c_saves_and_the_same_command_goes_on(finished, tmp_path):
    command = [*KILLABLE, tiny().model_dump_json(), str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stdout:
        if int(line) >= 7:
            process.send_signal(signal.SIGINT)
            break
    _, errors = process.communicate()
    assert "the same command goes on from there" in errors
    assert same(weights(finished), weights(train(tiny(), tmp_path, device="cpu")))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_obeyed_while_the_finished_model_is_asked(tmp_path, number):
    """Not after the last of a million answers; and what was trained is not trained again."""
    long = tiny(evaluations=[{"problems": "exhaustive"}], data__digits=3)
    script = KILLABLE[2].replace("def say(self, text): ...", "def say(self, text): print(text, flush=True)")
    process = subprocess.Popen(
        [*KILLABLE[:2], script, long.model_dump_json(), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if line.startswith("  "):  # so many asked
            process.send_signal(number)
            break
    _, errors = process.communicate(timeout=60)
    assert "stopped while it was evaluated; the same command goes on from there" in errors
    run = Run.open(next(tmp_path.iterdir()))
    assert not run.is_done
    _, state = run.read_state()
    assert state["step"] == long.train.steps
    assert state["progress"]["training_seconds"] > 0


def test_the_time_of_all_sittings_is_told(tmp_path):
    calls = iter(range(100))
    with pytest.raises(Interrupted):
        train(tiny(), tmp_path, device="cpu", stop=lambda: next(calls) == 25)
    path = next(tmp_path.iterdir())
    _, state = Run.open(path).read_state()
    before = state["progress"]["training_seconds"]
    assert train(tiny(), tmp_path, device="cpu").read_result()["training_seconds"] > before > 0


def interrupted(path):
    """A run folder with two checkpoints, stopped in the middle."""
    run = Run.start(path, tiny())
    saved = []
    original = Progress.save

    class Stop(Exception):
        pass

    def save(self, *arguments):
        original(self, *arguments)
        saved.append(self.step)
        if len(saved) == 4:
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "save", save)
        patch.setattr("carryon.training.progress.CHECKPOINT_SECONDS", -1.0)
        with pytest.raises(Stop):
            train(tiny(), path, device="cpu")
    return run


@pytest.mark.parametrize("damage", ["truncate", "flip", "delete", "garbage record", "empty record"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_used(finished, tmp_path, damage):
    run = interrupted(tmp_path)
    states = sorted((run.path / "state").glob("*.safetensors"))
    assert [path.stem for path in states] == ["000000003", "000000004"]
    newest = states[-1]
    content = newest.read_bytes()
    if damage == "truncate":
        newest.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        newest.write_bytes(content[:-10] + bytes([content[-10] ^ 4]) + content[-9:])
    elif damage == "delete":
        newest.unlink()
    else:
        newest.with_suffix(".json").write_text("{" if damage == "garbage record" else "")
    assert run.read_state()[1]["step"] == 3
    assert same(weights(finished), weights(train(tiny(), tmp_path, device="cpu")))


def test_when_all_checkpoints_are_lost_it_starts_again(finished, tmp_path):
    run = interrupted(tmp_path)
    for path in (run.path / "state").iterdir():
        path.write_bytes(b"")
    assert run.read_state() is None
    assert same(weights(finished), weights(train(tiny(), tmp_path, device="cpu")))


def test_a_torn_line_of_metrics_is_left_out(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / finished.path.name)
    with open(tmp_path / finished.path.name / "metrics.jsonl", "a") as file:
        file.write('{"step": 40, "lo')
    assert [row["step"] for row in Run.open(tmp_path / finished.path.name).metrics()] == [0, 10, 20, 30]


# --- several processes --------------------------------------------------------------------------------------------


def test_two_processes_train_what_one_does(tmp_path):
    """torchrun with two processes on the CPU: the same batches, shared out, give the same weights up to rounding."""
    config = tiny(model__dropout=0.0, train__steps=10)
    alone = train(config, tmp_path / "one", device="cpu")
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, torch; torch.set_num_threads(1)\nfrom pathlib import Path\nfrom carryon.training import train\n"
        "from carryon.config import RunConfig\n"
        "train(RunConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]), device='cpu')\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    arguments = [*command, config.model_dump_json(), str(tmp_path / "two")]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    # On a busy machine torch's gloo threads sometimes abort a process that has finished and is leaving
    # ("terminate called without an active exception"); what counts is what was written before.
    assert done.returncode == 0 or "terminate called without an active exception" in done.stderr, done.stderr
    together = Run.open(next((tmp_path / "two").iterdir()))
    assert together.is_done
    for name, array in weights(alone).items():
        np.testing.assert_allclose(weights(together)[name], array, atol=1e-5)


def test_pieces_of_a_batch_add_up_to_the_batch(tmp_path):
    whole = train(tiny(model__dropout=0.0), tmp_path / "a", device="cpu")
    pieces = train(tiny(model__dropout=0.0, train__accumulation=4), tmp_path / "b", device="cpu")
    for name, array in weights(whole).items():
        np.testing.assert_allclose(weights(pieces)[name], array, atol=1e-5)


# --- what it can learn --------------------------------------------------------------------------------------------

EIGHT = {"data__num_examples": 8, "train__packing": "rows", "train__batch_size": 8, "train__steps": 150}
EIGHT |= {"model__dropout": 0.0, "train__lr": 1e-2, "train__eval_every": 150, "model__width": 32}


@pytest.mark.parametrize("loss", ["all", "answer"])
@pytest.mark.parametrize("position", ["learned", "sinusoidal", "none", "rotary"])
def test_eight_examples_are_memorised(tmp_path, loss, position):
    config = tiny(**EIGHT, train__loss=loss, model__position=position, evaluations=[{"problems": "train"}])
    (accuracy,) = train(config, tmp_path, device="cpu").read_result()["evaluations"].values()
    assert accuracy == 1.0


def test_endless_training_runs_on_windows_and_rows(tmp_path):
    for packing in ("stream", "rows"):
        run = train(tiny(train__endless=True, train__packing=packing, train__steps=5), tmp_path, device="cpu")
        expected = {"rows": 5 * run.config.train.batch_size, "stream": run.config.data.num_examples}
        assert run.read_result()["trained_on"] == expected[packing]
        assert run.read_result()["steps"] == 5


def test_training_stops_early_when_validation_says_so(tmp_path):
    run = train(tiny(train__steps=1_000, train__stop={"plateau": 2}), tmp_path, device="cpu")
    assert run.read_result()["steps"] < 1_000
    assert run.read_result()["stopped"] == "no better validation accuracy in 2 evaluations"
    judge = Progress()
    rule = tiny(train__stop={"accuracy": 0.9, "hold": 2, "plateau": 3}).train
    verdicts = [judge.judge({"validation": accuracy}, rule) for accuracy in (0.5, 0.95, 0.5, 0.95, 0.95)]
    assert verdicts == [False, False, False, False, True]
    judge = Progress()
    verdicts = [judge.judge({"validation": accuracy}, rule) for accuracy in (0.5, 0.4, 0.5, 0.3)]
    assert verdicts == [False, False, False, True]


def test_fine_tuning_starts_from_the_parents_weights(finished, tmp_path):
    config = tiny(train__steps=0, parent=finished.config.hash)
    child = train(config, tmp_path, device="cpu", parent=finished)
    assert same(weights(finished), weights(child))
    with pytest.raises(Unsupported, match="do not fit this model"):
        train(tiny(model__width=20, parent="x"), tmp_path, device="cpu", parent=finished)
    with pytest.raises(Unsupported, match="tokenizer ascii"):
        train(tiny(data__format="plain", parent="x"), tmp_path, device="cpu", parent=finished)


def test_a_finished_model_can_be_loaded(finished):
    model, tokenizer = load_model(finished, "cpu")
    assert tokenizer.vocab_size == 14
    assert same({name: tensor.numpy() for name, tensor in model.state_dict().items()}, weights(finished))


HALF = {"train__packing": "rows", "train__loss": "answer", "train__batch_size": 64, "train__lr": 1e-2}


@pytest.mark.parametrize(
    "format", ["plain", {"name": "reverse_padded", "width": 2}, {"name": "reverse_padded", "width": 0}]
)
def test_what_is_asked_briefly_is_what_is_asked_at_length(tmp_path, format):
    """Of a model that adds some numbers: one pass over the right texts, or everything written out and read."""
    settings = {"data__format": format, "data__digits": 2, "train__steps": 250, "train__eval_every": 250, **HALF}
    run = train(tiny(**settings), tmp_path, device="cpu")
    model, tokenizer = load_model(run, "cpu")
    parts = [make_dataset(run.config.data)]
    for question in (EvaluationConfig(problems="train"), EvaluationConfig(prefix="1+1=2\n" * (format == "plain"))):
        exam = Exam(question, parts, model, tokenizer, again=True)
        accuracy = exam.ask_briefly()["accuracy"]
        assert accuracy == exam.ask()[0]["accuracy"]
        assert question.problems == "test" or 0.02 < accuracy < 0.98


LONGER = {"data": {"format": "reverse", "digits": 20, "num_examples": 10, "num_test": 5, "num_validation": 5}}


@pytest.mark.parametrize(
    "settings",
    [{"model__context": 8}, {"watch": [LONGER]}, {"data__format": "simplified_scratchpad", "model__context": 12}],
)
def test_prompts_that_do_not_fit_are_refused_before_the_first_step_and_leave_nothing(tmp_path, settings):
    with pytest.raises(BadConfig, match="does not fit the model's context"):
        train(tiny(**settings), tmp_path, device="cpu")
    assert not list(tmp_path.iterdir())


def test_waiting_for_the_device_is_part_of_the_steps():
    """A GPU is given steps in no time, and takes them later."""
    stepper = object.__new__(Stepper)
    stepper.seconds = 1.0

    class Slow:
        def __float__(self):
            time.sleep(0.05)
            return 2.0

    assert stepper._read(Slow()) == 2.0
    assert stepper.seconds >= 1.05


def test_the_optimizer_is_torchs_own():
    torch.manual_seed(0)
    ours = Decoder(ModelConfig(layers=1, heads=2, width=16, context=8, dropout=0.0), 14)
    theirs = copy.deepcopy(ours)
    settings = TrainConfig(weight_decay=0.3, beta1=0.8, beta2=0.95)
    optimizer = AdamW(ours, settings, torch.device("cpu"))
    groups = [
        {"params": [p for p in theirs.parameters() if p.dim() >= 2], "weight_decay": 0.3},
        {"params": [p for p in theirs.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    expected = torch.optim.AdamW(groups, betas=(0.8, 0.95), fused=True)
    tokens = torch.randint(0, 14, (4, 9))
    for lr in (0.1, 0.01, 0.003):
        for model in (ours, theirs):
            model.loss(tokens[:, :-1], tokens[:, 1:]).backward()
        optimizer.set_lr(lr)
        for group in expected.param_groups:
            group["lr"] = lr
        optimizer.step()
        expected.step()
        optimizer.zero_grad()
        expected.zero_grad()
        assert all(p.grad is None for p in ours.parameters())
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)
        for name, value in expected.state[other].items():
            assert torch.equal(optimizer.state[one][name], value)


TWO_STEPS = """
import sys
from pathlib import Path
from carryon.recipes import load_recipe
from carryon.training import train
recipe = load_recipe("quickstart", ["train.steps=2", "evaluations=[]", "data.num_examples=200"])
train(recipe, Path(sys.argv[1]), device="cpu")
print("torch._dynamo" in sys.modules)
"""


def test_training_does_not_load_torchs_compiler(tmp_path):
    """It would take longer than all the rest of starting."""
    done = subprocess.run([sys.executable, "-c", TWO_STEPS, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr


def test_the_learning_rate_rises_and_falls():
    config = tiny(train__steps=100, train__warmup_steps=10, train__lr=1.0, train__final_lr=0.1).train
    rates = [lr_at(step, config) for step in range(101)]
    assert rates[:10] == pytest.approx([(step + 1) / 11 for step in range(10)])
    assert rates[10] == 1.0
    assert rates[100] == pytest.approx(0.1)
    assert all(a > b for a, b in pairwise(rates[10:]))


def test_a_learning_rate_stays_and_then_falls():
    train = TrainConfig(steps=100, lr=1.0, warmup_steps=10, final_lr=0.1, schedule="constant_then_linear", falling=0.25)
    rates = [lr_at(step, train) for step in range(101)]
    assert rates[:10] == pytest.approx([(step + 1) / 11 for step in range(10)])
    assert rates[10:76] == [1.0] * 66
    assert rates[76] == pytest.approx(1 - 0.9 / 25)
    assert rates[100] == pytest.approx(0.1)
    with pytest.raises(BadConfig, match=r"falling goes with train\.schedule"):
        load(TrainConfig, {"falling": 0.5})
    # What existing runs are called does not change.
    assert RunConfig().hash == "67d6291b30"


# --- what is refused ----------------------------------------------------------------------------------------------


def test_a_folder_of_another_config_is_refused(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / finished.path.name)
    config = tmp_path / finished.path.name / "config.json"
    config.write_text(config.read_text().replace('"steps": 30', '"steps": 31'))
    with pytest.raises(RunMismatch, match=r"train\.steps is 31, not 30"):
        train(tiny(), tmp_path, device="cpu")


def test_a_folder_in_use_is_refused(tmp_path):
    run = Run.start(tmp_path, tiny())
    with run.locked(), pytest.raises(RunMismatch, match=f"process {os.getpid()}"):
        train(tiny(), tmp_path, device="cpu")


@pytest.mark.parametrize("damage", [b"", b"x" * 100, None])
def test_a_broken_model_is_one_clear_line(finished, tmp_path, damage):
    shutil.copytree(finished.path, tmp_path / "run")
    path = tmp_path / "run/model.safetensors"
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.raises(BadRun):
        load_model(Run.open(tmp_path / "run"), "cpu")


def test_runs_are_found_by_path_name_and_hash(finished):
    root = finished.path.parent
    for name in (str(finished.path), finished.path.name, "tiny", finished.config.hash, finished.config.hash[:4]):
        assert find_run(name, root).path == finished.path
    with pytest.raises(BadRun, match="there is no run 'nobody'"):
        find_run("nobody", root)


def test_bad_settings_are_refused_before_the_first_step(tmp_path):
    with pytest.raises(BadConfig, match="set it to"):
        train(tiny(train__packing="rows", model__context=8), tmp_path, device="cpu")
    with pytest.raises(BadConfig, match="'cuda:99' is not there"):
        train(tiny(), tmp_path, device="cuda:99")
    with pytest.raises(BadConfig, match="float16 is for GPUs"):
        train(tiny(train__precision="float16"), tmp_path, device="cpu")
    with pytest.raises(BadConfig, match=r"needs train\.packing rows"):
        tiny(train__loss="answer")
    with pytest.raises(BadConfig, match="cannot be shared by 5 heads"):
        tiny(model__heads=5)
    with pytest.raises(BadConfig, match="cannot name a folder"):
        tiny(name="../evil")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_sound(name):
    config = load_recipe(name)
    assert config.hash
    assert RunConfig.model_validate_json(config.model_dump_json()) == config


def test_recipes_come_from_toml_and_settings(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\n[data]\nformat = "plain"\n[train]\nsteps = 7\n')
    config = load_recipe(str(path), ["train.lr=0.5", "data.num_examples=99", "tokenizer=ascii"])
    assert (config.train.steps, config.train.lr, config.data.num_examples, config.tokenizer) == (7, 0.5, 99, "ascii")
    for settings, says in [
        (["train.stepz=3"], "did you mean 'steps'"),
        (["steps"], "a.b=c"),
        (["seed.x=1"], "not a table"),
    ]:
        with pytest.raises(BadConfig, match=says):
            load_recipe("quickstart", settings)
    path.write_text("steps = ")
    with pytest.raises(BadConfig, match="not TOML"):
        load_recipe(str(path))


def test_all_of_this_needs_no_pickle():
    sources = [path.read_text() for path in Path(carryon.__file__).parent.rglob("*.py")]
    loads = [line for text in sources for line in text.splitlines() if "torch.load(" in line]
    assert loads
    assert all("weights_only=True" in line for line in loads)
    assert not any("torch.save(" in text for text in sources)


def test_a_loss_that_is_no_number_ends_the_run(tmp_path):
    with pytest.raises(BadRun, match=r"the loss is (nan|inf) at step .*: lower train.lr"):
        train(tiny(train__lr=1e30, train__grad_clip=0.0, train__warmup_steps=0), tmp_path, device="cpu")


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_the_precision_is_part_of_what_is_compiled(precision):
    """Or code compiled under another one might be taken from the disk's cache."""
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph.code)
        return graph.forward

    torch.manual_seed(0)
    model = Decoder(tiny(model__dropout=0.0).model, 14).train()
    block, x_BTD = model.blocks[0], torch.randn(2, 8, 16)
    compiled = torch.compile(block_in("cpu", precision), backend=keep, dynamic=False)
    inputs = (Block.forward, block, x_BTD, torch.zeros(2, 8, dtype=torch.int64), None)
    given = compiled(*inputs)
    assert any(f"'cpu', {precision}" in code for code in graphs)
    with torch.autocast("cpu", dtype=precision):
        assert torch.equal(given, run_block(*inputs))


# --- the real thing, from the command line ------------------------------------------------------------------------


def command(*arguments, **environment):
    settings = [f"{key}={json.dumps(value)}" for key, value in {"num_examples": 300, "num_test": 50}.items()]
    sets = [part for setting in settings for part in ("--set", f"data.{setting}")]
    steps = ["--set", "train.steps=20", "--set", "train.eval_every=10", "--set", "evaluations=[{}]"]
    return subprocess.run(
        [sys.executable, "-m", "carryon", "train", *sets, *steps, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def test_the_same_command_gives_the_same_bytes(tmp_path):
    for folder in ("one", "two", "three"):
        assert command("--runs", str(tmp_path / folder)).returncode == 0
    files = {next(path.glob("*/model.safetensors")).read_bytes() for path in tmp_path.iterdir()}
    assert len(files) == 1


def test_metrics_reach_tensorboard_and_wandb(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    root = tmp_path / "runs"
    done = command("--runs", str(root), "--track", "tensorboard", "--track", "wandb", WANDB_MODE="offline")
    assert done.returncode == 0, done.stderr
    run = find_run("quickstart", root)
    events = EventAccumulator(str(run.path / "tensorboard")).Reload()
    logged = [(event.step, event.value) for event in events.Scalars("loss")]
    assert logged == [(row["step"], pytest.approx(row["loss"])) for row in run.metrics()[1:]]
    assert [event.step for event in events.Scalars("validation")] == [0, 10, 20]
    (offline,) = (root / "wandb").glob("offline-run-*/*.wandb")
    assert offline.stat().st_size > 0
    assert b"validation" in offline.read_bytes()


def test_training_goes_on_where_compiling_fails(tmp_path):
    """With the very weights of a run that never tried: dropout is seeded again."""
    dropout = ("--set", "model.dropout=0.2")
    broken = {"CXX": "/bin/false", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = command("--runs", str(tmp_path), "--compile", "on", *dropout, **broken)
    assert done.returncode == 0, done.stderr
    assert "torch.compile failed here" in done.stderr
    assert "going on without it" in done.stderr
    plain = command("--runs", str(tmp_path / "plain"), "--compile", "off", *dropout)
    assert plain.returncode == 0
    assert same(weights(find_run("quickstart", tmp_path)), weights(find_run("quickstart", tmp_path / "plain")))


@pytest.mark.skipif(sys.platform != "linux", reason="limits a process's memory with ulimit, which Linux honours")
@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("train.batch_size=100000", "raise train.accumulation (now 1) or lower train.batch_size"),
        ("model.width=19998", "lower model.width or model.layers"),
    ],
)
def test_running_out_of_memory_says_what_to_lower(tmp_path, setting, says):
    small = "--set model.layers=1 --set data.num_examples=500 --set data.num_test=5 --set data.num_validation=5"
    train = f"{sys.executable} -m carryon train paper-reverse --runs {tmp_path} {small} --set {setting}"
    line = f"ulimit -v 4500000; OMP_NUM_THREADS=1 exec {train}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("carryon: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


COUPLED = {
    "data__format": {"name": "reverse_padded", "width": 0},
    "model__ids": "coupling",
    "model__places": 20,
    "model__context": 60,
    "train__packing": "rows",
    "train__loss": "answer",
}


@pytest.mark.parametrize(
    ("lengths", "says"),
    [(["5", "30x7"], "30 by 7 digits take 94 tokens.*model.context is 60: set it to 94"), (["18"], "model.places=")],
)
def test_questions_that_cannot_fit_are_refused_before_training(lengths, says, tmp_path):
    config = tiny(**COUPLED, evaluations=[{"lengths": lengths, "each": 2}])
    with pytest.raises(BadConfig, match=says):
        train(config, tmp_path, device="cpu")
    assert not list(tmp_path.iterdir())
    run = train(tiny(**COUPLED, evaluations=[{"lengths": ["9", "1"], "each": 2}]), tmp_path, device="cpu")
    (found,) = run.evaluations().values()
    assert found["by"]["lengths"]["9x9"][1] == 2


def test_a_model_of_coupled_ids_is_asked_alone(tmp_path):
    run = train(tiny(**COUPLED, evaluations=[]), tmp_path, device="cpu")
    model, tokenizer = load_model(run, "cpu")
    parts = [make_dataset(run.config.data, run.config.seed)]
    other = {"format": {"name": "reverse_all"}, "digits": 2}
    for question in ({"examples": 1}, {"prefix": "7+8=51"}, {"shown": ["1+1"]}, {"data": other}):
        with pytest.raises(Unsupported, match="one problem written as reverse_padded"):
            Exam(load(EvaluationConfig, question), parts, model, tokenizer, run=run.config)


def test_hints_that_a_few_examples_do_not_have_are_in_the_vocabulary(tmp_path):
    hinted = {"data__format": {"name": "index_hints", "hints": 900}, "model__context": 40, "train__packing": "rows"}
    run = train(tiny(**hinted, train__endless=True, train__steps=8), tmp_path, device="cpu")
    assert run.is_done


def test_batches_made_ahead_are_those_that_are_asked_for():
    config = tiny(train__endless=True, train__packing="rows", data__digits=9)
    parts, reader, team = [make_dataset(config.data)], make_tokenizer("ascii"), Team(torch.device("cpu"))
    feed = make_feed(config, parts, reader, team)
    steps = (0, 1, 2, 7, 3, 3, 4)
    for step in steps:
        fresh = make_feed(config, parts, reader, team).batch(step)
        assert all(torch.equal(one, other) for one, other in zip(feed.batch(step), fresh, strict=True))


@pytest.mark.parametrize("endless", [False, True])
def test_windows_may_be_shorter_than_the_context(endless):
    config = tiny(train__window=24, train__endless=endless)
    feed = make_feed(config, [make_dataset(config.data)], make_tokenizer("ascii"), Team(torch.device("cpu")))
    inputs, targets, _ = feed.batch(0)
    assert inputs.shape == targets.shape == (8, 24)
    assert (inputs[:, 1:] == targets[:, :-1]).all()
    assert feed.tokens_per_step == 8 * 24
    assert tiny().window == 32
    with pytest.raises(BadConfig, match=r"window 33 is longer than model\.context 32"):
        tiny(train__window=33)
    with pytest.raises(BadConfig, match=r"window needs train\.packing stream"):
        tiny(train__window=24, train__packing="rows")


def test_large_ids_lie_on_the_device_as_a_kind_every_device_can_pick_from():
    """CUDA cannot index uint16, which byte pairs are encoded in; the CPU can, so the kind is looked at."""
    tokens = np.random.default_rng(0).integers(0, 50_000, 1_000).astype(np.uint16)
    windows = Windows(tokens, context=20, batch_size=4, seed=1)
    feed = StreamFeed(windows, 20, 4, Team(torch.device("cpu")))
    assert feed._tokens.dtype == torch.int32
    inputs, targets, _ = feed.batch(3)
    expected = windows.batch(3)
    assert (inputs.numpy() == expected[0]).all()
    assert (targets.numpy() == expected[1]).all()


# --- averaged weights ---------------------------------------------------------------------------------------------


def test_averaged_weights_are_the_running_mean_of_those_of_every_step(tmp_path):
    steady = {"train__final_lr": 1.0, "train__warmup_steps": 0, "train__eval_every": 100, "evaluations": []}
    by_step = [weights(train(tiny(train__steps=n, **steady), tmp_path, device="cpu")) for n in range(13)]
    mean = {name: array.astype(np.float64) for name, array in by_step[0].items()}
    for step in range(12):
        decay = min(0.5, (step + 1) / (step + 10))
        mean = {name: decay * mean[name] + (1 - decay) * by_step[step + 1][name] for name in mean}
    averaged = weights(train(tiny(train__steps=12, train__average=0.5, **steady), tmp_path, device="cpu"))
    for name, array in averaged.items():
        np.testing.assert_allclose(array, mean[name], atol=1e-6)
        assert not np.array_equal(array, by_step[12][name])


def test_the_mean_is_what_is_asked_and_training_goes_on_from_the_weights(finished, tmp_path, monkeypatch):
    """Losses are those of a run without it; what is asked along the way is not."""
    asked = []

    def remember(self, *_):
        asked.append(self._complete.model.blocks[0].up.weight.detach().clone())
        return {"accuracy": 0.0}

    monkeypatch.setattr(Exam, "ask_briefly", remember)
    run = train(tiny(train__average=0.9), tmp_path, device="cpu")
    assert [row["loss"] for row in run.metrics()] == [row["loss"] for row in finished.metrics()]
    kept = weights(run)["blocks.0.up.weight"]
    assert np.array_equal(asked[-1].numpy(), kept)
    assert not np.array_equal(kept, weights(finished)["blocks.0.up.weight"])


def test_a_resumed_run_goes_on_with_its_mean(tmp_path):
    config = tiny(train__average=0.9)
    whole = train(config, tmp_path / "whole", device="cpu")
    for moment in (7, 16):
        steps = iter(range(moment))
        with pytest.raises(Interrupted):
            train(config, tmp_path / "parts", device="cpu", stop=lambda steps=steps: next(steps, None) is None)
    assert same(weights(train(config, tmp_path / "parts", device="cpu")), weights(whole))
