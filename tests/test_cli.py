"""The commands as people run them: real processes, real pipes."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from carryon.cli.gallery import make_entries, to_markdown
from carryon.cli.train import Screen
from carryon.formats import FORMATS
from carryon.operations import OPERATIONS

VECTORS = Path(__file__).parent / "vectors/formats.jsonl"
DOCS = Path(__file__).parents[1] / "docs"


def run(*arguments, stdin="", **options):
    command = [sys.executable, "-m", "carryon", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=100, **options)


def fails(*arguments, says, stdin="", **options):
    """One clear line on stderr, nothing on stdout, a non-zero exit, no traceback."""
    done = run(*arguments, stdin=stdin, **options)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("carryon: ")
    assert done.stderr.count("\n") == 1
    for part in [says] if isinstance(says, str) else says:
        assert part in done.stderr
    return done


# --- help ---------------------------------------------------------------------------------------------------------

COMMANDS = [
    ["gallery"],
    ["render"],
    ["data", "make"],
    ["data", "check"],
    ["data", "show"],
    ["bench", "data"],
    ["bench", "model"],
]
COMMANDS += [["train"], ["improve"], ["evaluate"], ["ask"], ["runs"], ["doctor"], ["import"], ["export"]]
COMMANDS += [["bench", "data"], ["bench", "model"]]
COMMANDS += [["hosted", "evaluate"], ["hosted", "finetune"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(command):
    done = run(*command, "--help")
    assert done.returncode == 0
    assert "Example: " in done.stdout
    assert f"carryon {' '.join(command)}" in done.stdout


def test_help_and_version_load_nothing_heavy():
    code = (
        "import sys; sys.argv = ['carryon', '--help']\n"
        "try:\n    import carryon.cli; carryon.cli.main()\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'numpy', 'pydantic', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    assert run("--version").stdout.strip() == "0.1.0"


def test_no_command_loads_torch(tmp_path):
    code = (
        "import sys; sys.argv = ['carryon', 'data', 'make', sys.argv[1], '--size', '200', '--test', '100']\n"
        "try:\n    import carryon.cli; carryon.cli.main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "set")], check=True, stdout=subprocess.DEVNULL)


# --- render -------------------------------------------------------------------------------------------------------


def test_render_gives_all_vectors_to_the_byte():
    rows = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    asked = [{key: row[key] for key in ("operation", "format", "operands")} for row in rows]
    done = run("render", stdin="".join(json.dumps(row) + "\n" for row in asked))
    assert done.returncode == 0
    assert [json.loads(line) for line in done.stdout.splitlines()] == rows


def test_render_takes_a_file_a_base_options_and_keeps_other_keys(tmp_path):
    rows = [
        {"operation": "add", "format": "plain", "operands": ["101", "1"], "base": 2, "id": 7},
        {"operation": "add", "format": "plain", "operands": [128, 367], "options": {"spaces": True, "stop": "###"}},
        {
            "operation": "add",
            "format": "simplified_scratchpad",
            "operands": ["1", "2"],
            "options": {"noise": "A", "seed": 3, "draw": 1},
        },
    ]
    (tmp_path / "in.jsonl").write_text("\n\n".join(map(json.dumps, rows)))
    done = run("render", tmp_path / "in.jsonl")
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert first == {**rows[0], "prompt": "101+1=", "completion": "110\n", "answer": "110"}
    assert second["prompt"] + second["completion"] == "1 2 8+3 6 7=4 9 5###"
    assert third["completion"].endswith(".\n3\n")


GOOD = '{"operation":"add","format":"plain","operands":["1","2"]}\n'
BAD_LINES = {
    "unknown operation": ('{"operation":"ad","format":"plain","operands":["1","2"]}', "did you mean 'add'"),
    "unknown format": ('{"operation":"add","format":"planar","operands":["1","2"]}', "did you mean 'plain'"),
    "no such combination": (
        '{"operation":"sine","format":"simplified_scratchpad","operands":["0.5"]}',
        "simplified_scratchpad does not exist for sine",
    ),
    "letters": ('{"operation":"add","format":"plain","operands":["1","two"]}', "'two'"),
    "out of range": ('{"operation":"sine","format":"plain","operands":["2.0"]}', "-1.5707 to 1.5707"),
    "a float": ('{"operation":"sine","format":"plain","operands":[0.5]}', "as text"),
    "too few operands": ('{"operation":"add","format":"plain","operands":["1"]}', "takes 2 to 100 operands"),
    "no operands": ('{"operation":"add","format":"plain"}', "has no operands"),
    "no list": ('{"operation":"add","format":"plain","operands":"12"}', "must be a list"),
    "no object": ("[1, 2]", "not a JSON object"),
    "no JSON": ('{"operation":"add",', "not JSON"),
    "deep JSON": ("[" * 100_000, "not JSON"),
    "unknown option": (
        '{"operation":"add","format":"plain","operands":["1","2"],"options":{"space":true}}',
        "did you mean 'spaces'",
    ),
    "bad base": ('{"operation":"add","format":"plain","operands":["1","2"],"base":16}', "2 to 10"),
    "base as text": ('{"operation":"add","format":"plain","operands":["1","2"],"base":"ten"}', "whole number"),
    "too wide": ('{"operation":"add","format":"plain_padded","operands":["1","2000"]}', "width 3"),
    "huge number": ('{"operation":"add","format":"plain","operands":["' + "9" * 3_000 + '","1"]}', "at most 2,000"),
    "an option named name": (
        '{"operation":"add","format":"plain","operands":["1","2"],"options":{"name":"reverse"}}',
        "goes into",
    ),
    "not a number": ('{"operation":"add","format":"plain","operands":["1","2"],"x":NaN}', "NaN"),
    "infinite": ('{"operation":"add","format":"plain","operands":["1","2"],"x":1e999}', "1e999"),
    "endless decimal": ('{"operation":"sine","format":"plain","operands":["' + "1" * 5_000 + '.5"]}', "not a decimal"),
    "huge integer": ('{"operation":"add","format":"plain","operands":[' + "9" * 5_000 + ',"1"]}', "line 2"),
}


@pytest.mark.parametrize(("line", "says"), BAD_LINES.values(), ids=BAD_LINES)
def test_render_names_the_bad_line_and_prints_nothing(line, says):
    fails("render", stdin=GOOD + line + "\n" + GOOD, says=["standard input line 2", says])


def test_render_of_bytes_that_are_no_text(tmp_path):
    (tmp_path / "in.jsonl").write_bytes(GOOD.encode() + b"\xff\xfe\n")
    fails("render", tmp_path / "in.jsonl", says="not UTF-8")
    fails("render", tmp_path / "missing.jsonl", says=["No such file", "missing.jsonl"])
    fails("render", tmp_path, says="directory")


def test_a_reader_that_goes_away_is_no_error():
    rows = VECTORS.read_text()
    command = f"{sys.executable} -m carryon render | head -n 1"
    done = subprocess.run(command, shell=True, input=rows, capture_output=True, text=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_full_disk_is_one_clear_line():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "carryon", "render"]
        done = subprocess.run(command, input=GOOD, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "no room to write" in done.stderr
    assert done.stderr.count("\n") == 1


# --- data ---------------------------------------------------------------------------------------------------------


def test_a_long_path_leaves_its_line_whole(tmp_path):
    path = tmp_path / ("a" * 100)
    shown = run("data", "make", path, "--size", "200", "--test", "100").stdout
    assert f"{path}: add in the format reverse, up to 3 digits, sampler balanced, seed 0, kept as jsonl\n" in shown


def test_make_check_and_show(tmp_path):
    out = tmp_path / "set"
    made = run("data", "make", out, "--size", "600", "--format", "detailed_scratchpad", "--as", "txt", "--json")
    assert made.returncode == 0
    manifest = json.loads(made.stdout)
    assert manifest["splits"]["train"]["digits"] == {"1": 100, "2": 54, "3": 446}
    checked = run("data", "check", out)
    assert checked.returncode == 0
    assert "is sound: 600 train, 1,000 validation, 10,000 test" in checked.stdout
    assert json.loads(run("data", "check", out, "--json").stdout) == {"path": str(out), "ok": True, "faults": []}
    shown = run("data", "show", out)
    assert "100 / 54 / 446" in shown.stdout
    assert "</scratch>⏎" in shown.stdout
    assert json.loads(run("data", "show", out, "--json").stdout) == manifest
    with open(out / "test.txt", "a") as file:
        file.write("Input:\n1+1\nTarget:\n3\n")
    broken = run("data", "check", out)
    assert broken.returncode == 1
    assert "test: the manifest says" in broken.stdout
    verdict = run("data", "check", out, "--json")
    assert verdict.returncode == 1
    assert not json.loads(verdict.stdout)["ok"]


def test_data_of_many_operands_are_made_checked_and_shown(tmp_path):
    out, options = tmp_path / "set", ["--operands", "4", "--digits", "3", "--format", "running_sums"]
    made = run(
        "data", "make", out, *options, "--size", "300", "--test", "90", "--test-sampler", "equal_operands", "--json"
    )
    manifest = json.loads(made.stdout)
    assert sum(manifest["splits"]["train"]["operands"].values()) == 300
    assert manifest["splits"]["train"]["carries"] == {}
    assert "is sound" in run("data", "check", out).stdout
    assert "operands 2 / 3 / 4" in run("data", "show", out).stdout
    (out / "manifest.json").write_text(
        json.dumps(
            manifest | {"splits": manifest["splits"] | {"test": manifest["splits"]["test"] | {"operands": {"2": 90}}}}
        )
    )
    assert "test: operands: the manifest says" in run("data", "check", out).stdout
    fails("data", "make", tmp_path / "no", "--operands", "3", "--format", "reverse_padded", says="for 3 operands")
    shown = json.loads(run("gallery", "12", "7", "305", "--operation", "add", "--json").stdout)
    assert {entry["format"] for entry in shown} >= {"plain", "reverse", "running_sums"}
    assert "reverse_padded" not in {entry["format"] for entry in shown}


def test_options_reach_the_data(tmp_path):
    done = run(
        *(
            "data",
            "make",
            tmp_path / "a",
            "--operation",
            "add",
            "--format",
            "plain_padded",
            "--digits",
            "4",
            "--size",
            "700",
        ),
        *("--test", "100", "--validation", "10", "--sampler", "uniform", "--spaces", "--stop", "<end>", "--seed", "3"),
        *(
            "--exclude-numbers",
            "20",
            "--exclude-digit",
            "5",
            "--exclude-position",
            "2",
            "--exclude-length",
            "1",
            "--json",
        ),
    )
    manifest = json.loads(done.stdout)
    assert manifest["config"]["format"] == {
        "name": "plain_padded",
        "spaces": True,
        "stop": "<end>",
        "noise": "none",
        "width": 4,
        "hints": 102,
    }
    assert manifest["seed"] == 3
    assert len(manifest["excluded_numbers"]) == 20
    row = json.loads((tmp_path / "a/train.jsonl").read_text().splitlines()[0])
    assert row["completion"].endswith("<end>")
    assert run("data", "check", tmp_path / "a").returncode == 0


def test_show_prints_the_papers_table_beside_ours():
    table = json.loads(run("data", "show", "--json").stdout)
    ours, paper = ({row[0]: row[1:] for row in table[who]} for who in ("ours", "paper"))
    assert list(ours) == [500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000, 20_000, 40_000]
    assert ours[10_000] == paper[10_000] == [100, 900, 9_000, 2_500, 2_500, 2_500, 2_500]
    assert ours[20_000] == [100, 1_800, 18_100, 5_000, 5_000, 5_000, 5_000]
    for size in ours:
        if size <= 10_000:
            assert ours[size][:3] == paper[size][:3]
    assert "125 / 163" in run("data", "show").stdout


BAD_MAKES = {
    "unknown operation": (["--operation", "dad"], "did you mean 'add'"),
    "unknown format": (["--format", "revers"], "did you mean 'reverse'"),
    "unknown sampler": (["--sampler", "balancd"], "did you mean 'balanced'"),
    "unknown form": (["--as", "jsonl2"], "did you mean 'jsonl'"),
    "letters": (["--size", "many"], "'many'"),
    "negative": (["--size", "-5"], "-5"),
    "zero": (["--size", "0"], "num_examples"),
    "empty": (["--size", ""], "''"),
    "negative seed": (["--split-seed", "-1"], "split_seed"),
    "too many": (["--size", "1000000"], ["1,000,000", "989,000"]),
    "too many to hold": (["--size", "1000000000000"], "num_examples"),
    "no such format for it": (["--operation", "sine", "--format", "reverse"], "does not exist for sine"),
    "no such sampler for it": (["--operation", "sine", "--format", "plain", "--sampler", "balanced"], "uniform"),
    "digit without position": (["--exclude-digit", "5"], "go together"),
    "unknown option": (["--sise", "5"], "--sise"),
    "base": (["--base", "11"], "base"),
    "several at once": (["--operation", "ad", "--format", "revers"], ["'add'", "'reverse'"]),
}


@pytest.mark.parametrize(("arguments", "says"), BAD_MAKES.values(), ids=BAD_MAKES)
def test_make_refuses_bad_input_and_leaves_nothing(tmp_path, arguments, says):
    fails("data", "make", tmp_path / "set", *arguments, says=says)
    assert list(tmp_path.iterdir()) == []


def test_make_refuses_a_path_that_is_taken(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set/precious").write_text("x")
    fails("data", "make", tmp_path / "set", "--size", "10", says="--force")
    fails("data", "make", tmp_path / "set", "--size", "10", "--force", says="more than a data set")
    fails("data", "make", tmp_path / "set/precious/below", "--size", "10", says="Not a directory")
    assert (tmp_path / "set/precious").read_text() == "x"


def test_make_on_a_full_disk_leaves_nothing(tmp_path):
    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    fails("data", "make", tmp_path / "set", says="no room to write", preexec_fn=little_room)
    assert list(tmp_path.iterdir()) == []


def test_check_and_show_of_nothing(tmp_path):
    for command in ("check", "show"):
        fails("data", command, tmp_path / "nothing", says="there is nothing")
        fails("data", command, tmp_path, says="no manifest.json")
        fails("data", command, VECTORS, says="not a data set")


def test_wrong_commands_are_one_line():
    fails("dta", says="dta")
    fails("data", "mak", says="mak")
    fails("data", "make", says="'out'")


# --- gallery and bench --------------------------------------------------------------------------------------------


def test_the_gallery_shows_every_operation_in_every_format():
    shown = json.loads(run("gallery", "--json").stdout)
    expected = {(op, name) for op in OPERATIONS for name, kind in FORMATS.items() if op in kind.operations}
    assert {(entry["operation"], entry["format"]) for entry in shown} == expected
    text = run("gallery").stdout
    assert "$128+367=594$⏎" in text
    assert "[1,2] * 6 , A=[7,2] , k=1 , B=[7,2] , C=0+72=72⏎" in text


def test_the_gallery_takes_operands():
    shown = json.loads(run("gallery", "7", "58", "--operation", "add", "--format", "reverse", "--json").stdout)
    assert [entry["completion"] for entry in shown] == ["56$\n"]
    assert "101" in run("gallery", "--base", "2", "--operation", "add").stdout
    fails("gallery", "7", "58", says="--operation")
    fails("gallery", "7", "x", "--operation", "add", says="'x'")
    fails("gallery", "--format", "revers", says="did you mean 'reverse'")
    fails("gallery", "--format", "reverse", "--operation", "sine", says="does not exist for sine")
    fails("gallery", "--operation", "tan", says="choose from")
    fails("gallery", "--base", "1", says="2 to 10")
    fails("gallery", "--base", "0", says="2 to 10")
    fails("gallery", "--operation", "sine", "--base", "2", says="10 only")


def test_the_gallery_page_is_up_to_date():
    made = to_markdown(make_entries(None, None, None, 10))
    assert (DOCS / "gallery.md").read_text() == made, "run: carryon gallery --markdown > docs/gallery.md"


def test_bench_measures_a_row():
    found = json.loads(run("bench", "data", "--only", "help", "--json").stdout)
    (row,) = found["rows"]
    assert row["name"] == "help"
    assert row["seconds"] > 0
    assert row["peak_mib"] > 5
    assert "commit" in found["where"]
    fails("bench", "data", "--only", "helm", says="did you mean 'help'")


def test_bench_says_which_rows_need_a_gpu():
    assert "quickstart" in run("bench", "model", "--list").stdout
    listed = json.loads(run("bench", "model", "--list", "--json").stdout)
    assert {
        "name": "sums",
        "what": "all 1,000,000 three-digit sums, reverse, 10.6 M parameters",
        "reach": "4 s",
    } in listed
    done = run("bench", "model", "--only", "step", "--device", "cpu", "--markdown")
    assert "| one training step, 256 x 256 tokens, 10.6 M parameters, dropout 0.2 | needs a GPU |" in done.stdout


def test_a_row_that_fails_says_why():
    rows = import_module("carryon.cli.bench.model")
    with pytest.raises(RuntimeError, match="did you mean 'paper-reverse'"):
        rows._train(["paper-revers"])
    killed = subprocess.run(
        [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], capture_output=True, text=True
    )
    assert rows._reason(killed) == "exit status -9"


# --- streams and signals ------------------------------------------------------------------------------------------


def shell(command, **options):
    command = command.replace("carryon", f"{sys.executable} -m carryon")
    return subprocess.run(command, shell=True, capture_output=True, text=True, timeout=100, **options)


def test_closed_streams_are_no_traceback():
    done = shell("carryon gallery --operation add --format plain >&-")
    assert (done.returncode, done.stderr) == (0, "")
    done = shell("carryon render <&-")
    assert done.returncode == 2
    assert "standard input is closed" in done.stderr


def test_a_terminal_without_unicode_gets_question_marks():
    done = shell("PYTHONIOENCODING=latin-1 carryon gallery --operation add --format plain")
    assert done.returncode == 0
    assert "128+367=495?" in done.stdout


def test_bytes_that_are_no_text_are_refused_in_any_locale():
    done = shell("printf '\\377\\n' | LC_ALL=C carryon render")
    assert done.returncode == 2
    assert "not UTF-8" in done.stderr


@pytest.mark.parametrize(("name", "status"), [("INT", 130), ("TERM", 143)])
def test_an_interrupted_make_leaves_nothing(tmp_path, name, status):
    command = [
        sys.executable,
        "-m",
        "carryon",
        "data",
        "make",
        str(tmp_path / "set"),
        "--size",
        "300000",
        "--digits",
        "6",
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that were started in the background hand down a deaf ear to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".set.partial-*/train.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(getattr(signal, f"SIG{name}"))
    _, errors = process.communicate()
    assert process.returncode == status
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_nothing_typed_shows_the_help():
    done = run()
    assert done.returncode == 0
    assert "gallery" in done.stdout


def test_the_current_folder_is_not_a_data_set_to_make(tmp_path):
    fails("data", "make", ".", "--force", says="where you are", cwd=tmp_path)


def test_the_root_is_not_a_data_set_to_make():
    fails("data", "make", "/", "--force", says="is a root")


# --- models -------------------------------------------------------------------------------------------------------

TINY = ["--set", "train.steps=20", "--set", "train.eval_every=10", "--set", "data.num_examples=200"]
TINY += ["--set", "data.num_test=60", "--set", 'evaluations=[{problems="test"}]', "--device", "cpu"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    done = run("train", "quickstart", *TINY, "--runs", folder)
    assert done.returncode == 0, done.stderr
    assert "step 10" in done.stderr
    assert "the test set, greedy" in done.stdout
    return folder


def test_a_trained_model_is_listed_asked_and_evaluated(runs):
    (row,) = json.loads(run("runs", "--runs", runs, "--json").stdout)
    assert row["state"].startswith("done, 20 steps")
    assert row["run"] in run("runs", "--runs", runs).stdout
    asked = json.loads(run("ask", "quickstart", "7+58", "--runs", runs, "--json").stdout)
    assert (asked["question"], asked["answer"]) == ("7+58", "65")
    assert "".join(token["token"] for token in asked["tokens"]) == asked["written"]
    assert "7+58 = " in run("ask", "quickstart", "7 + 58 =", "--runs", runs, "--tokens").stdout
    options = ("--runs", runs, "--device", "cpu")
    evaluated = json.loads(run("evaluate", "quickstart", *options, "--limit", "50", "--json").stdout)
    assert evaluated["count"] == 50
    assert "carries 0" in run("evaluate", "quickstart", *options, "--temperature", "0.8").stdout


def test_a_model_is_asked_by_lengths(runs, tmp_path):
    options = ("--runs", runs, "--device", "cpu")
    asked = json.loads(run("evaluate", "quickstart", *options, "--lengths", "2, 3x1", "--limit", "7", "--json").stdout)
    assert {label: count for label, (_, count) in asked["by"]["lengths"].items()} == {"2x2": 7, "3x1": 7}
    shown = run("evaluate", "quickstart", *options, "--lengths", "1,2,3", "--grid", "--limit", "5").stdout
    assert "digits of the first number by those of the second" in shown
    assert len(re.findall(r"^│ +[123] ", shown, re.MULTILINE)) == 3
    fails("evaluate", "quickstart", *options, "--lengths", "2,x", says="'x' is not a number of digits")
    fails("evaluate", "quickstart", *options, "--lengths", "5", says="raise the width")
    fails("evaluate", "quickstart", *options, "--grid", says="say which with --lengths")
    fails("evaluate", "quickstart", *options, "--lengths", "2", "--exhaustive", says="leave out --exhaustive")


def test_a_model_of_coupled_ids_says_how_long_numbers_may_be(tmp_path):
    """Before anything is written: its table has no more."""
    short = ["--set", "train.steps=3", "--set", "model.width=16", "--set", 'evaluations=[{lengths=["7"], each=5}]']
    done = run("train", "longer", *short, "--set", "model.places=30", "--runs", tmp_path)
    assert "5 test problems each of 7 digits" in done.stdout, done.stderr
    says = ["numbers this long need 43 ids, and the model has 30", "model.places=43"]
    fails("evaluate", "longer", "--lengths", "40", "--runs", tmp_path, says=says)
    fails("ask", "longer", f"{'7' * 40}+1", "--runs", tmp_path, says=says)


def test_problems_and_failures_go_through_files(runs, tmp_path):
    (tmp_path / "mine.txt").write_text("1+1=2\n128+367\n")
    arguments = ["evaluate", "quickstart", "--runs", runs, "--device", "cpu", "--problems", tmp_path / "mine.txt"]
    done = run(*arguments, "--failures", tmp_path / "wrong.jsonl", "--json")
    assert json.loads(done.stdout)["count"] == 2
    wrong = [json.loads(line) for line in (tmp_path / "wrong.jsonl").read_text().splitlines()]
    assert len(wrong) == 2 - json.loads(done.stdout)["right"]
    fails(*arguments, "--failures", tmp_path / "wrong.jsonl", says="already there")
    fails(*arguments, "--failures", tmp_path / "none" / "wrong.jsonl", says="make the folder")
    (tmp_path / "mine.txt").write_text("1+1=3\n")
    fails(*arguments, says=["mine.txt line 1", "the answer is 2"])


def test_the_same_command_does_not_train_twice(runs):
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*.safetensors")}
    assert run("train", "quickstart", *TINY, "--runs", runs).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*.safetensors")} == before


def test_a_config_can_be_shown_without_training(tmp_path):
    shown = json.loads(run("train", "paper-detailed", "--show", "--seed", "3", "--runs", tmp_path).stdout)
    assert (shown["seed"], shown["train"]["batch_size"], shown["model"]["context"]) == (3, 16, 1024)
    assert list(tmp_path.iterdir()) == []


def test_bad_training_input_is_one_line(runs, tmp_path):
    for arguments, says in [
        (["train", "quikstart"], "did you mean 'quickstart'"),
        (["train", "missing.toml"], "there is no recipe"),
        (["train", "--set", "train.step=3", "--set", "model.widht=3"], ["'steps'", "'width'"]),
        (["train", "--set", "steps"], "a.b=c"),
        (["train", "--device", "cuda:77"], "is not there"),
        (["train", "--compile", "maybe"], "auto, off, on"),
        (["train", "--track", "tensorbord"], "did you mean 'tensorboard'"),
        (["ask", "nobody", "1+1"], "there is no run"),
        (["evaluate", "nobody"], "there is no run"),
    ]:
        fails(*arguments, "--runs", tmp_path, says=says)
    for arguments, says in [
        (["ask", "quickstart", "1+x"], "not a problem"),
        (["ask", "quickstart", "12345+1"], "width 3"),
        (["evaluate", "quickstart", "--split", "tes"], "did you mean 'test'"),
        (["evaluate", "quickstart", "--corrupt", "random"], "digit by digit"),
        (["evaluate", "quickstart", "--prefix", "Hello "], "'H'"),
    ]:
        fails(*arguments, "--runs", runs, "--device", "cpu", says=says)
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_has_a_look():
    report = json.loads(run("doctor", "--device", "cpu", "--json").stdout)
    assert report["ok"]
    assert report["packages"]["torch"]
    assert "computes what the CPU computes" in run("doctor", "--device", "cpu").stdout
    fails("doctor", "--device", "cuda:77", says="is not there")


def test_how_long_training_will_take_is_told_once_it_is_known(capsys, monkeypatch):
    clock = iter((0.0, 100.0, 110.0))
    monkeypatch.setattr("carryon.cli.train.time.monotonic", lambda: next(clock))
    screen = Screen([])
    screen.step(1, 91, 1e-3, 5e4, lambda: 2.0)
    screen.step(11, 91, 1e-3, 5e4, lambda: 1.0)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "step 1/91  loss 2.0000  lr 1.0e-03  50k tokens/s"
    assert second == "step 11/91  loss 1.0000  lr 1.0e-03  50k tokens/s  80 s left"


@pytest.mark.skipif(sys.platform != "linux", reason="another library's threads elsewhere")
@pytest.mark.parametrize(
    ("given", "policy", "spins"),
    [
        ({}, "PASSIVE", 1_000),
        ({"GOMP_SPINCOUNT": "7"}, "PASSIVE", 7),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "PASSIVE", 0),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE", 30_000_000_000),
    ],
)
def test_threads_that_wait_go_to_sleep_soon_unless_told_otherwise(given, policy, spins):
    """As the library itself says that torch was loaded with."""
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    done = run("doctor", "--device", "cpu", "--json", env={**environment, "OMP_DISPLAY_ENV": "VERBOSE", **given})
    assert f"OMP_WAIT_POLICY = '{policy}'" in done.stderr
    assert f"GOMP_SPINCOUNT = '{spins}'" in done.stderr
