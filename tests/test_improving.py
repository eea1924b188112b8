"""Self-improvement: what is kept of labels, what is trained on, and the same end whatever happens on the way."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from carryon.config import FiltersConfig, ImprovementConfig, config_hash, load
from carryon.costs import work_of
from carryon.data import Shares, make_dataset, make_rows, stack_rows
from carryon.errors import BadConfig, BadRun, OutOfProblems, RunMismatch, UnknownName
from carryon.execution import Task, perform
from carryon.experiments import Case
from carryon.formats import Example
from carryon.planning.known import Wanted
from carryon.planning.probing import _cut_rounds
from carryon.recipes import IMPROVEMENTS, load_improvement
from carryon.runs import Run, find_run, part_done
from carryon.tokenizers import make_tokenizer
from carryon.training import Interrupted, improve, labelling, load_model, train
from carryon.training.improving import Improvement, reached, shares_of
from carryon.training.labelling import by_vote, label, long_enough
from carryon.training.loop import Stretch

torch.set_num_threads(1)

TINY = {
    "kind": "self-improvement",
    "name": "tiny",
    "base": {
        "data": {
            "format": {"name": "reverse_all_padded", "width": 0},
            "digits": 2,
            "sampler": "equal_lengths",
            "test_sampler": "equal_lengths",
            "num_examples": 200,
            "num_test": 60,
            "num_validation": 40,
        },
        "model": {"layers": 1, "heads": 2, "width": 16, "context": 24, "dropout": 0.1, "position": "none"},
        "train": {
            "steps": 20,
            "lr": 2e-2,
            "batch_size": 8,
            "packing": "rows",
            "loss": "answer",
            "endless": True,
            "eval_every": 10,
            "warmup_steps": 5,
        },
    },
    "rounds": {"count": 2, "problems": 70, "steps": 9},
    "diagonal": [1, 2, 3, 5],
    "num_test": 30,
    "num_validation": 20,
}


def tiny(**values):
    merged = json.loads(json.dumps(TINY))
    for path, value in values.items():
        inner = merged
        *parents, last = path.split("__")
        for key in parents:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return load(ImprovementConfig, merged)


def weights(run):
    return load_file(run.path / "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def without_times(run):
    dropped = ("seconds", "loss", "labelling_seconds")
    return [{key: value for key, value in row.items() if key not in dropped} for row in run.metrics()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return improve(tiny(), tmp_path_factory.mktemp("runs"), device="cpu")


# --- which labels are kept ----------------------------------------------------------------------------------------


def test_labels_much_shorter_than_the_longest_of_their_batch_are_dropped():
    assert long_enough(["5940\n", "594\n", "59\n", None]) == ["5940\n", "594\n", None, None]
    assert long_enough(["5\n", "67\n"]) == ["5\n", "67\n"]
    assert long_enough([None, None]) == [None, None]
    assert long_enough([]) == []


def test_labels_that_enough_models_wrote_are_kept():
    one, other, third = ["56", "7", "1", None], ["56", "8", "2", None], ["65", "7", "3", "4"]
    assert by_vote([one, other, third], agree=0.6) == ["56", "7", None, None]
    assert by_vote([one, other, third], agree=0.7) == [None, None, None, None]
    assert by_vote([one, one, other], agree=1.0) == ["56", None, None, None]
    assert by_vote([one], agree=0.7) == one
    # Exactly the part that is asked for is enough, whatever binary fractions make of it.
    assert by_vote([["5"]] * 7 + [["6"]] * 3, agree=0.7) == ["5"]


class Script:
    """Writes what it is told to, problem by problem."""

    batch_size = 2

    def __init__(self, texts):
        self._texts = iter(texts)

    def __call__(self, prompts):
        return list(islice(self._texts, len(prompts)))


def labelled(monkeypatch, filters, *texts):
    """What is kept of the texts that models write about the first problems of a data set."""
    scripts = [Script(each) for each in texts]
    monkeypatch.setattr(labelling, "Completer", lambda *_, **__: scripts.pop(0))
    dataset = make_dataset(tiny(rounds__problems=len(texts[0])).data_of(3))
    told = []
    models = [None] * len(texts)
    kept = label(dataset, models, make_tokenizer("ascii"), FiltersConfig(**filters), torch.float32, told.append)
    return [example.completion for example in dataset.examples("train")], kept, told


def truth(count):
    return [example.completion for example in make_dataset(tiny(rounds__problems=count).data_of(3)).examples("train")]


def test_unfinished_labels_are_dropped_and_false_ones_kept_and_counted(monkeypatch):
    right = truth(5)
    wrong = ["0000\n" if text != "0000\n" else "1000\n" for text in right]
    _, kept, told = labelled(monkeypatch, {}, [right[0], wrong[1], "12345", right[3], wrong[4]])
    assert [text for _, text in kept.pairs] == [right[0], wrong[1], right[3], wrong[4]]
    assert kept.counts == {"labelled": 5, "finished": 4, "agreed": 4, "long_enough": 4}
    assert kept.true == 2
    assert told[-1] == 5


def test_each_filter_tells_what_it_left(monkeypatch):
    right = truth(6)
    short = [text[2:] for text in right]
    ours = [right[0], right[1], short[2], right[3], short[4], "123"]
    theirs = [right[0], "1\n", short[2], right[3], short[4], "123"]
    filters = {"length": True, "batch": 4, "votes": 2, "agree": 1.0}
    _, kept, _ = labelled(monkeypatch, filters, ours, theirs)
    # The third is too short beside its batch; the fifth is the longest of its own.
    assert [text for _, text in kept.pairs] == [right[0], right[3], short[4]]
    assert kept.counts == {"labelled": 6, "finished": 5, "agreed": 4, "long_enough": 3}
    assert kept.true == 2


def test_which_labels_are_compared_does_not_depend_on_what_is_written_at_once(monkeypatch):
    right = truth(8)
    texts = [right[0][3:], right[1][2:], *right[2:]]
    found = []
    for size in (1, 3, 8, 100):
        monkeypatch.setattr(Script, "batch_size", size)
        found.append(labelled(monkeypatch, {"length": True, "batch": 2}, texts)[1])
    assert all(one == found[0] for one in found)
    assert len(found[0].pairs) == 8  # the first two are as short as each other


# --- what is trained on -------------------------------------------------------------------------------------------


def test_what_the_newest_leave_is_shared_by_lengths():
    assert shares_of(1, base_lengths=4, newest=0.5) == pytest.approx([0.5, 0.5])
    assert shares_of(3, base_lengths=4, newest=0.5) == pytest.approx([1 / 12, 1 / 12, 1 / 2, 1 / 3])
    assert shares_of(5, base_lengths=16, newest=0.5) == pytest.approx([*[0.025] * 4, 0.5, 0.4])
    assert sum(shares_of(7, base_lengths=3, newest=0.3)) == pytest.approx(1)


def test_shares_are_kept_and_begin_anywhere():
    shares = Shares([(100, 0.5), (10, 0.1), (1_000, 0.4)], "test", 0)
    numbers = list(islice(shares.indices(), 20_000))
    counts = Counter(0 if n < 100 else 1 if n < 110 else 2 for n in numbers)
    assert [counts[which] / 20_000 for which in range(3)] == pytest.approx([0.5, 0.1, 0.4], abs=0.015)
    assert set(numbers) > set(range(110))
    assert max(numbers) < 1_110
    for start in (1, 4_095, 4_096, 9_999):
        assert list(islice(shares.indices(start), 100)) == numbers[start : start + 100]
    assert list(islice(Shares([(100, 0.5), (10, 0.1), (1_000, 0.4)], "test", 1).indices(), 50)) != numbers[:50]
    with pytest.raises(BadConfig, match="not empty"):
        Shares([(0, 1.0)])


def test_rows_of_several_sets_are_padded_to_the_longest():
    tokenizer = make_tokenizer("ascii")
    short, long = Example("1+2=", "3\n", "3"), Example("12+34=", "46\n", "46")
    both = stack_rows([make_rows([short], tokenizer), make_rows([long], tokenizer)])
    expected = make_rows([short, long], tokenizer)
    assert np.array_equal(both.tokens_BT, expected.tokens_BT)
    assert np.array_equal(both.mask_BT, expected.mask_BT)


def test_a_round_begins_with_its_learning_rate_and_is_asked_at_its_end():
    config = tiny(rounds__lr=0.5, rounds__falling=0.5, rounds__final_lr=0.0, rounds__steps=10)
    stretch = Stretch(config.round_train, dict, start=config.steps_before(2))
    assert stretch.start == 30
    assert [stretch.lr_at(step) for step in (30, 35, 40)] == [0.5, 0.5, 0.0]
    assert [step for step in range(30, 41) if stretch.asks_at(step)] == [40]
    base = Stretch(config.base.train, dict)
    assert [step for step in range(21) if base.asks_at(step)] == [0, 10, 20]


# --- a whole one --------------------------------------------------------------------------------------------------


def test_every_round_tells_what_was_labelled_and_what_came_of_it(finished):
    config, result = tiny(), finished.read_result()
    assert [row["step"] for row in finished.metrics()] == [0, 10, 20, 29, 38]
    assert [(row["round"], row["digits"], row["labelled"]) for row in result["rounds"]] == [(1, 3, 70), (2, 4, 70)]
    for row in result["rounds"]:
        assert row["finished"] > 0
        assert 70 >= row["finished"] == row["agreed"] == row["long_enough"]
        assert 0 <= row["validation"] <= 1
        assert 0 <= row["labels_true"] <= 1
    assert list(result["diagonal"]) == ["1", "2", "3", "5"]
    assert result["diagonal"]["1"] is None  # all of them are trained on
    assert (result["steps"], result["stopped"]) == (38, "all rounds done")
    assert finished.path.name == config.folder
    assert not (finished.path / "state").exists()
    before = (finished.path / "result.json").stat().st_mtime_ns
    improve(config, finished.path.parent, device="cpu")  # done already: nothing happens
    assert (finished.path / "result.json").stat().st_mtime_ns == before


def test_it_is_a_function_of_its_config(finished, tmp_path):
    again = improve(tiny(), tmp_path, device="cpu")
    assert same(weights(finished), weights(again))
    assert without_times(again) == without_times(finished)
    assert not same(weights(finished), weights(improve(tiny(seed=1), tmp_path, device="cpu")))
    longer = improve(tiny(rounds__count=3), tmp_path, device="cpu")
    assert longer.read_labels(2)[0] == finished.read_labels(2)[0]


def test_the_base_is_what_training_makes_of_it(finished, tmp_path):
    """Steps of a base go through the same loop, and end with the same weights."""
    base = train(tiny().learner(), tmp_path, device="cpu")
    rows = [row["loss"] for row in base.metrics()]
    assert [row["loss"] for row in finished.metrics()][: len(rows)] == rows


def test_what_is_labelled_validated_and_tested_is_never_the_same(finished):
    config = tiny()
    for number, digits in enumerate(config.lengths, start=1):
        dataset = make_dataset(config.data_of(digits), config.seed)
        pairs, _ = finished.read_labels(number)
        asked = {dataset.format.asked(prompt) for prompt, _ in pairs}
        assert asked
        for split in ("validation", "test"):
            assert not asked & {problem.question for problem in dataset.problems(split)}
        for split in ("train", "validation", "test"):
            assert {len(operand) for problem in dataset.problems(split) for operand in problem.operands} == {digits}


def test_labels_are_what_the_model_writes_whether_true_or_not(finished, monkeypatch):
    """The truth decides nothing: with another truth, the same weights."""
    monkeypatch.setattr("carryon.formats.plain.OneLine.read", lambda self, text: None)
    root = finished.path.parent / "blind"
    assert same(weights(improve(tiny(), root, device="cpu")), weights(finished))


def test_the_final_model_is_asked_as_that_of_any_run(finished):
    run = find_run("tiny", finished.path.parent)
    assert isinstance(run.asked, ImprovementConfig)
    assert run.config.data.digits == 4
    model, tokenizer = load_model(run, "cpu")
    assert same({name: tensor.numpy() for name, tensor in model.state_dict().items()}, weights(finished))
    assert tokenizer.vocab_size == 13


def test_models_that_vote_learn_side_by_side(tmp_path):
    run = improve(tiny(filters={"votes": 2, "agree": 0.5, "length": True}), tmp_path, device="cpu")
    voter = Run(run.path / "model-1", run.config)
    assert [row["step"] for row in voter.metrics()] == [0, 10, 20, 29, 38]
    assert [row["loss"] for row in voter.metrics()] != [row["loss"] for row in run.metrics()]
    assert not list(run.path.rglob("state"))
    assert run.read_labels(1)[1]["agreed"] <= run.read_labels(1)[1]["finished"] + 70


def test_seeds_have_no_model_in_common():
    voting = {"filters": {"votes": 3}}
    seeds = [tiny(seed=seed, **voting).learner(number).seed for seed in range(4) for number in range(3)]
    assert len(set(seeds)) == 12


def test_without_a_label_the_rounds_end(tmp_path, monkeypatch):
    monkeypatch.setattr("carryon.formats.base.Format.finished", lambda self, text: False)
    run = improve(tiny(), tmp_path, device="cpu")
    assert run.read_result()["stopped"] == "no label of 3-digit problems was kept"
    assert run.read_result()["rounds"] == []
    assert run.is_done


def test_what_it_ends_with_is_asked_problems_that_no_model_was_taught():
    config = tiny()
    tests = make_dataset(config.outcome.data, config.outcome.seed).problems("test")
    assert {len(operand) for problem in tests for operand in problem.operands} == {config.longest}
    labelled = make_dataset(config.data_of(config.longest), config.seed).problems("train")
    assert not {problem.question for problem in tests} & {problem.question for problem in labelled}


def test_the_longest_lengths_that_are_reached():
    diagonal = {"1": None, "2": 1.0, "3": 0.99, "4": 0.6, "5": 0.98, "6": 0.5, "7": 0.1}
    assert (reached(diagonal, 0.99), reached(diagonal, 0.5), reached({"2": 0.3}, 0.5)) == (3, 6, None)
    assert reached({"5": 0.2, "20": 0.995}, 0.99) is None  # what lies between has to be there


# --- killed and resumed -------------------------------------------------------------------------------------------

KILLABLE = [
    sys.executable,
    "-c",
    "import sys, time, torch; torch.set_num_threads(1)\n"
    "import carryon.training.progress as progress; progress.CHECKPOINT_SECONDS = 0.0\n"
    "import carryon.training.improving as improving\n"
    "from pathlib import Path\n"
    "from carryon.config import ImprovementConfig\n"
    "def label(*arguments, label=improving.label):\n"
    "    print('labelling', flush=True)\n"
    "    time.sleep(0.1)\n"
    "    return label(*arguments)\n"
    "improving.label = label\n"
    "class Slow:\n"
    "    def say(self, text): ...\n"
    "    def step(self, step, *rest): print(step, flush=True); time.sleep(0.03)\n"
    "    def evaluated(self, row): ...\n"
    "improving.improve(ImprovementConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]), device='cpu', "
    "display=Slow())",
]


def kill_at(config, root, moment):
    """kill -9 once it has come so far, with a checkpoint at every step."""
    command = [*KILLABLE, config.model_dump_json(), str(root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.strip() == str(moment):
            break
    else:
        raise AssertionError(f"it never came to {moment}")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not list(root.glob("*/result.json"))


@pytest.mark.parametrize("moments", [[5, 20, 23], ["labelling", 29, 31], [20, "labelling", "labelling", 37]])
def test_a_killed_improvement_ends_with_the_same_weights(finished, tmp_path, moments):
    """In the base, in labelling, in a round, between rounds: also in the middle of writing a checkpoint."""
    for moment in moments:
        kill_at(tiny(), tmp_path, moment)
    resumed = improve(tiny(), tmp_path, device="cpu")
    assert same(weights(finished), weights(resumed))
    assert without_times(resumed) == without_times(finished)
    for number in (1, 2):
        assert resumed.read_labels(number)[0] == finished.read_labels(number)[0]


def test_voters_that_are_killed_end_with_the_same_weights(tmp_path):
    config = tiny(filters={"votes": 2, "agree": 0.5})
    whole = improve(config, tmp_path / "whole", device="cpu")
    (tmp_path / "parts").mkdir()
    for moment in (20, 23, 30):
        kill_at(config, tmp_path / "parts", moment)
    assert same(weights(improve(config, tmp_path / "parts", device="cpu")), weights(whole))


def test_it_can_be_stopped_anywhere(finished, tmp_path):
    """Between two steps, and in the labelling of both rounds."""
    for calls in (3, 16, 5, 4):
        left = iter(range(calls))
        with pytest.raises(Interrupted, match="the same command"):
            improve(tiny(), tmp_path, device="cpu", stop=lambda left=left: next(left, None) is None)
    assert part_done(tiny(), tmp_path) == 29 / 38
    assert same(weights(improve(tiny(), tmp_path, device="cpu")), weights(finished))


@pytest.mark.parametrize("damage", ["lost", "torn", "changed"])
def test_labels_that_were_learnt_from_and_are_damaged_are_not_made_up_again(tmp_path, damage):
    left = iter(range(20 + 1 + 5))
    with pytest.raises(Interrupted):
        improve(tiny(), tmp_path, device="cpu", stop=lambda: next(left, None) is None)
    path = tmp_path / tiny().folder / "labels" / "0001.jsonl"
    lines = path.read_text()
    if damage == "lost":
        path.with_suffix(".json").unlink()
    else:
        path.write_text(lines[:-5] if damage == "torn" else lines.replace("1", "2", 1))
    with pytest.raises(BadRun, match=r"labels of round 1 .* are lost or damaged"):
        improve(tiny(), tmp_path, device="cpu")


def test_labels_that_nobody_learnt_from_yet_are_made_again(finished, tmp_path):
    kill_at(tiny(), tmp_path, 29)
    folder = tmp_path / tiny().folder / "labels"
    folder.mkdir(exist_ok=True)
    (folder / "0002.jsonl").write_text("torn")
    assert same(weights(improve(tiny(), tmp_path, device="cpu")), weights(finished))


# --- as a kind of run ---------------------------------------------------------------------------------------------


def test_workers_carry_it_out(finished, tmp_path):
    outcome = perform(Task(tiny()), tmp_path, device="cpu")
    assert outcome.error is None
    assert outcome.answers["trials"]["diagonal"] == finished.read_result()["diagonal"]
    assert outcome.seconds > 0
    assert perform(Task(tiny()), tmp_path, device="cpu").answers == outcome.answers  # found done
    case = Case({}, tiny()).with_seed(3)
    assert case.run == tiny(seed=3)
    assert Wanted("any", case).lines == [("trials", {})]
    stopped = perform(Task(tiny(seed=2)), tmp_path, device="cpu", stop=lambda: True)
    assert stopped.interrupted


def test_what_it_costs_grows_with_all_that_it_does():
    def amount(**values):
        return work_of(tiny(**values).model_dump(mode="json", exclude_defaults=True)).amount

    assert work_of(tiny().model_dump(mode="json")).amount == amount()
    base = tiny().base.train.steps * 8 * 10  # rows of two digits take ten tokens
    assert amount() == base + 2 * 1.5 * (9 * 8 * 10 + 70 * 6)  # and half as many again on average over two rounds
    assert amount(filters={"votes": 3}) == 3 * amount()
    cut = _cut_rounds(tiny(), 1)
    assert (cut.longest, cut.steps) == (tiny().longest, 2)
    assert load(ImprovementConfig, cut.model_dump()) == cut


def test_the_hash_covers_what_changes_the_outcome():
    base = tiny().hash
    assert tiny(name="other").hash == base == config_hash(tiny(), leave_out={"name"})
    for values in ({"seed": 1}, {"rounds__steps": 8}, {"filters": {"length": True}}, {"base__train__lr": 0.1}):
        assert tiny(**values).hash != base


def test_a_folder_of_another_improvement_is_refused(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / finished.path.name)
    config = tmp_path / finished.path.name / "config.json"
    config.write_text(config.read_text().replace('"problems": 70', '"problems": 71'))
    with pytest.raises(RunMismatch, match=r"rounds\.problems is 71, not 70"):
        improve(tiny(), tmp_path, device="cpu")


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"base__train__packing": "stream"}, "stream"),
        ({"base__train__endless": False}, r"set base\.train\.packing=rows, .* base\.train\.endless=true"),
        ({"base__data__sampler": "balanced"}, r"base\.data\.sampler=equal_lengths"),
        ({"base__data__test_sampler": "uniform"}, r"base\.data\.test_sampler=equal_lengths"),
        ({"base__data__exclude": {"numbers": 3}}, r"base\.data\.exclude"),
        ({"base__seed": 1}, r"base\.seed is not of a base: set seed instead"),
        ({"base__name": "x"}, r"base\.name is not of a base: set name instead"),
        ({"base__evaluations": []}, r"set diagonal instead"),
        ({"base__parent": "x"}, r"base\.parent is not of a base: leave it out"),
        ({"base__train__stop": {"accuracy": 1.0}}, r"leave base\.train\.stop out"),
        ({"base__model": {"pretrained": "stories15m"}}, r"leave base\.model\.pretrained out"),
        ({"base__data__format__width": 3}, "width 3 is too narrow for 5 digits"),
        ({"rounds__count": 2_000}, r"rounds\.count"),
        ({"rounds__count": 999, "rounds__digits": 3}, r"the last round has 2,999 digits"),
        ({"rounds__newest": 1.0}, r"rounds\.newest"),
        ({"rounds__stepz": 1}, r"unknown key rounds\.stepz \(did you mean 'steps'\?\)"),
        ({"filters": {"agree": 0.5}}, r"set filters\.votes"),
        ({"filters": {"batch": 5}}, r"goes with filters\.length"),
        ({"diagonal": [0]}, "diagonal 0 is no length"),
        ({"name": "../evil"}, "cannot name a folder"),
    ],
)
def test_bad_configs_are_refused_in_one_line(values, says):
    with pytest.raises(BadConfig, match=says) as error:
        tiny(**values)
    assert "\n" not in str(error.value)


ABACUS = {"layers": 1, "heads": 2, "width": 16, "context": 24, "ids": "abacus", "places": 6}


@pytest.mark.parametrize(
    ("values", "error", "says"),
    [
        (
            {"base__model__context": 15},
            BadConfig,
            r"5 digits take 19 tokens .* base\.model\.context is 15: set it to 19",
        ),
        (
            {"base__model__position": "learned", "base__model__ids": "abacus", "base__model__places": 6},
            BadConfig,
            "ids",
        ),
        ({"rounds__problems": 820_000}, OutOfProblems, "820,000 distinct problems"),
    ],
)
def test_what_cannot_begin_leaves_nothing_behind(tmp_path, values, error, says):
    with pytest.raises(error, match=says):
        improve(tiny(**values), tmp_path, device="cpu")
    assert not list(tmp_path.iterdir())


def test_one_process_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(Improvement, "__init__", lambda *_: pytest.fail("it began"))
    run = Run.start(tmp_path, tiny())
    with run.locked(), pytest.raises(RunMismatch, match=f"process {os.getpid()}"):
        improve(tiny(), tmp_path, device="cpu")


# --- from the command line ----------------------------------------------------------------------------------------

TOML = """
name = "tiny"
num_test = 30
num_validation = 20
[base.data]
digits = 2
format = {name = "reverse_all_padded", width = 0}
sampler = "equal_lengths"
test_sampler = "equal_lengths"
num_examples = 200
num_test = 60
num_validation = 40
[base.model]
layers = 1
heads = 2
width = 16
context = 24
position = "none"
[base.train]
steps = 20
lr = 2e-2
batch_size = 8
packing = "rows"
loss = "answer"
endless = true
schedule = "constant_then_linear"
[rounds]
count = 2
problems = 70
steps = 9
"""


def command(*arguments):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "carryon", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, env=environment)


def test_the_command_line_improves_shows_and_asks(tmp_path):
    path, runs = tmp_path / "mine.toml", tmp_path / "runs"
    path.write_text(TOML)
    done = command("improve", path, "--runs", runs, "--device", "cpu", "--set", "rounds.count=1")
    assert done.returncode == 0, done.stderr
    assert "right by length: 2 " in done.stdout
    assert "round 1: labelling 70 problems of 3 digits" in done.stderr
    listed = command("runs", "--runs", runs)
    assert "2 digits and 1 by itself" in listed.stdout
    asked = command("ask", "tiny", "12+34", "--runs", runs)
    assert "it was given '21+43='" in asked.stdout, asked.stderr
    evaluated = command("evaluate", "tiny", "--limit", "20", "--runs", runs, "--device", "cpu")
    assert evaluated.returncode == 0, evaluated.stderr
    bad = command("improve", path, "--runs", runs, "--set", "rounds.count=0")
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)
    assert "rounds.count" in bad.stderr
    missing = command("improve", tmp_path / "none.toml")
    assert missing.stderr.startswith("carryon: there is no recipe")


def test_toml_and_settings_make_a_config(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    config = load_improvement(str(path), ["filters.votes=3", "seed=2", "diagonal=[2, 4]"])
    assert (config.filters.votes, config.seed, config.asked, config.longest) == (3, 2, (2, 4), 4)
    assert ImprovementConfig.model_validate_json(config.model_dump_json()) == config
    assert load_improvement(str(path)).asked == (2, 3, 4)


@pytest.mark.parametrize("name", IMPROVEMENTS)
def test_every_named_improvement_is_sound(name):
    config = load_improvement(name, ["seed=1"])
    assert ImprovementConfig.model_validate_json(config.model_dump_json()) == config
    with pytest.raises(UnknownName, match="did you mean"):
        load_improvement(f"{name}x")
