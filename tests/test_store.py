import json
import os
import signal
import subprocess
import sys
import time

import pytest

from carryon.config import DataConfig, FormName, choices, load
from carryon.data import SPLITS, check_dataset, make_dataset, read_manifest, write_dataset
from carryon.errors import BadDataset, PathExists
from carryon.files import file_hash
from carryon.formats import make_format

SMALL = {"num_examples": 300, "num_test": 200, "num_validation": 50}


def make(path, form="jsonl", seed=0, **values):
    dataset = make_dataset(load(DataConfig, SMALL | values), seed)
    return dataset, write_dataset(dataset, path, form)


def texts_on_disk(path, form):
    """Examples as a stranger would read them, without this package."""
    if form == "txt":
        return (path / "train.txt").read_text()
    if form in ("parquet", "hf"):
        import pyarrow.parquet

        folder = path / "data" if form == "hf" else path
        rows = pyarrow.parquet.read_table(folder / "train.parquet").to_pylist()
        return "".join(row["prompt"] + row["completion"] for row in rows)
    rows = [json.loads(line) for line in (path / "train.jsonl").read_text().splitlines()]
    if form == "openai":
        assert {tuple(m["role"] for m in row["messages"]) for row in rows} == {("user", "assistant")}
        return "".join(message["content"] for row in rows for message in row["messages"])
    return "".join(row["prompt"] + row["completion"] for row in rows)


@pytest.mark.parametrize("form", choices(FormName))
@pytest.mark.parametrize("format", ["plain", "reverse", "detailed_scratchpad", "hosted_plain"])
def test_every_form_holds_the_examples_and_checks_out(tmp_path, form, format):
    dataset, manifest = make(tmp_path / "set", form, format=format)
    assert texts_on_disk(tmp_path / "set", form) == "".join(e.text for e in dataset.examples("train"))
    assert check_dataset(tmp_path / "set") == (manifest, [])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["set"]


@pytest.mark.parametrize(
    "values",
    [
        {"operation": "subtract", "format": "detailed_scratchpad_v2"},
        {"operation": "multiply", "digits": 2, "format": "reverse_unwrapped"},
        {"operation": "sine", "format": "detailed_scratchpad"},
        {"operation": "sqrt", "format": "hosted_plain"},
        {"format": {"name": "plain_padded", "width": 4}},
        {"format": {"name": "simplified_scratchpad", "noise": "both", "spaces": True, "stop": "<end>"}},
        {"base": 2, "digits": 9, "format": "detailed_scratchpad"},
        {"digits": 40, "sampler": "balanced_lengths", "num_examples": 2_000},
        {"exclude": {"numbers": 50, "digit": 5, "position": 2}},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["txt", "jsonl"])
def test_every_kind_of_set_checks_out(tmp_path, values, form):
    _, manifest = make(tmp_path / "set", form, seed=7, **values)
    assert check_dataset(tmp_path / "set") == (manifest, [])


def test_the_content_is_the_same_in_every_form_and_the_bytes_the_same_every_time(tmp_path):
    contents = set()
    for form in choices(FormName):
        _, manifest = make(tmp_path / form, form)
        make(tmp_path / f"{form} again", form)
        contents.add(tuple(record.content for record in manifest.splits.values()))
        for path in (tmp_path / form).rglob("*"):
            twin = tmp_path / f"{form} again" / path.relative_to(tmp_path / form)
            assert path.is_dir() or path.read_bytes() == twin.read_bytes()
    assert len(contents) == 1


def test_hugging_face_opens_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    import datasets

    dataset, _ = make(tmp_path / "set", "hf")
    loaded = datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in loaded.items()} == {"train": 300, "validation": 50, "test": 200}
    expected = [example.text for example in dataset.examples("test")]
    assert [row["prompt"] + row["completion"] for row in loaded["test"]] == expected
    assert loaded["train"][0]["operands"] == list(dataset.problems("train")[0].operands)


def test_the_manifest_counts_what_is_there(tmp_path):
    dataset, manifest = make(tmp_path / "set", num_examples=20_000)
    train = manifest.splits["train"]
    assert train.digits == {"1": 100, "2": 1_800, "3": 18_100}
    assert train.carries == dict.fromkeys("0123", 5_000)
    assert manifest.overlap == {"train & validation": 0, "train & test": 0, "validation & test": 0}
    trained = {problem.operands for problem in dataset.problems("train")}
    swapped = [problem.operands[::-1] for problem in dataset.problems("test")]
    assert manifest.swapped["test"] == sum(pair in trained for pair in swapped if pair[0] != pair[1])
    assert manifest.missed == {}
    assert json.loads((tmp_path / "set/manifest.json").read_text())["config"]["num_examples"] == 20_000


def test_a_manifest_says_how_far_a_set_is_from_its_rule(tmp_path):
    _, manifest = make(tmp_path / "set", num_examples=150)
    assert manifest.missed["carries"]["0"] > 0  # 55 of 150 are one-digit problems without a carry
    _, manifest = make(tmp_path / "two", digits=2, num_examples=3_000, num_test=None, num_validation=None)
    assert manifest.missed["carries"]["2"] < 0
    assert manifest.notes
    _, manifest = make(tmp_path / "five", num_examples=10_000, exclude={"digit": 5, "position": 1})
    assert manifest.missed["digits"] == {"1": -19, "3": 19}


# --- what check finds ---------------------------------------------------------------------------------------------


def edit(path, change, fix_manifest=True):
    """Change a JSONL file's rows; with `fix_manifest`, as a forger would, who mends the file's size and hash too."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows = change(rows) or rows
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if fix_manifest:
        manifest_path = path.parent / "manifest.json"
        manifest = json.loads(manifest_path.read_text())
        manifest["splits"][path.stem] |= {"bytes": path.stat().st_size, "sha256": file_hash(path)}
        manifest_path.write_text(json.dumps(manifest))


def rewrite(row, completion):
    row["completion"] = completion


FORGERIES = {
    "a wrong answer": (lambda rows: rewrite(rows[5], "1$\n"), "example 6 has a wrong completion"),
    "an example twice": (lambda rows: [*rows[:-1], rows[0]], "1 problems occur again"),
    "an example too few": (lambda rows: rows[:-1], "examples: the manifest says 300, counted 299"),
    "another order": (lambda rows: rows[::-1], "content: the manifest says"),
    "another format": (lambda rows: rows[3].update(prompt="1+1="), "does not ask for add in the format reverse"),
    "a stranger": (
        lambda rows: rows[3].update(prompt="$1000+1=", completion="1001$\n"),
        "outside the data set's domain",
    ),
    "leading zeros": (lambda rows: rows[3].update(prompt="$01+1=", completion="2$\n"), "leading zeros"),
    "no completion": (lambda rows: rows[3].pop("completion") and None, "line 4 is broken"),
    "a number for text": (lambda rows: rows[3].update(completion=5), "line 4 is broken"),
}


@pytest.mark.parametrize(("change", "says"), FORGERIES.values(), ids=FORGERIES)
def test_a_forged_set_is_found_out(tmp_path, change, says):
    make(tmp_path / "set")
    edit(tmp_path / "set/train.jsonl", change)
    _, faults = check_dataset(tmp_path / "set")
    assert any(says in fault and fault.startswith("train: ") for fault in faults), faults


def test_a_test_problem_in_training_is_found_out(tmp_path):
    make(tmp_path / "set")
    leaked = json.loads((tmp_path / "set/test.jsonl").read_text().splitlines()[0])
    edit(tmp_path / "set/train.jsonl", lambda rows: [leaked, *rows[1:]])
    _, faults = check_dataset(tmp_path / "set")
    assert "train & test share 1 problems" in faults


def test_a_hidden_number_in_training_is_found_out(tmp_path):
    _, manifest = make(tmp_path / "set", exclude={"numbers": 5})
    hidden = str(manifest.excluded_numbers[0])
    example = make_format("reverse").write(make_dataset(manifest.config).splits.operation.problem(hidden, "1"))
    row = {"prompt": example.prompt, "completion": example.completion}
    edit(tmp_path / "set/train.jsonl", lambda rows: [row, *rows[1:]])
    _, faults = check_dataset(tmp_path / "set")
    assert any("1 problems contain what the config excludes" in fault for fault in faults)


@pytest.mark.parametrize("form", choices(FormName))
def test_a_flipped_byte_or_a_cut_file_is_found_out(tmp_path, form):
    make(tmp_path / "set", form)
    file = tmp_path / "set" / read_manifest(tmp_path / "set").splits["test"].file
    whole = file.read_bytes()
    middle = len(whole) // 2
    for damaged in (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], whole[:-20], b"", whole + b"x"):
        file.write_bytes(damaged)
        _, faults = check_dataset(tmp_path / "set")
        assert any(fault.startswith("test: ") for fault in faults)
    file.unlink()
    assert any("missing" in fault for fault in check_dataset(tmp_path / "set")[1])


def test_a_broken_line_is_named(tmp_path):
    make(tmp_path / "set")
    lines = (tmp_path / "set/train.jsonl").read_text().splitlines()
    lines[41] = lines[41][:-5]
    (tmp_path / "set/train.jsonl").write_text("\n".join(lines) + "\n")
    _, faults = check_dataset(tmp_path / "set")
    assert any("train.jsonl line 42 is broken" in fault for fault in faults)


MANIFESTS = {
    "no JSON": lambda text: text[:-10],
    "no UTF-8": lambda text: "\udcff",
    "an unknown operation": lambda text: text.replace('"operation": "add"', '"operation": "divide"'),
    "an unknown key": lambda text: text.replace('"seed": 0', '"seed": 0, "sead": 1'),
    "another schema": lambda text: text.replace('"schema_number": 1', '"schema_number": 2'),
    "a list": lambda text: "[]",
    "nothing": lambda text: "",
}


@pytest.mark.parametrize("change", MANIFESTS.values(), ids=MANIFESTS)
def test_a_broken_manifest_is_one_clear_line(tmp_path, change):
    make(tmp_path / "set")
    manifest = tmp_path / "set/manifest.json"
    manifest.write_bytes(change(manifest.read_text()).encode("utf-8", "surrogateescape"))
    with pytest.raises(BadDataset) as error:
        check_dataset(tmp_path / "set")
    assert "set" in str(error.value)
    assert "\n" not in str(error.value)


def test_counts_that_were_changed_in_the_manifest_are_found_out(tmp_path):
    make(tmp_path / "set")
    manifest = tmp_path / "set/manifest.json"
    manifest.write_text(
        manifest.read_text().replace('"train & test": 0', '"train & test": 3').replace('"1": 100', '"1": 99')
    )
    _, faults = check_dataset(tmp_path / "set")
    assert any("they share 3 problems, counted 0" in fault for fault in faults)
    assert any(fault.startswith("train: digits:") for fault in faults)


def test_a_manifest_cannot_point_elsewhere(tmp_path):
    make(tmp_path / "set")
    manifest = tmp_path / "set/manifest.json"
    manifest.write_text(manifest.read_text().replace('"file": "train.jsonl"', '"file": "../../../etc/passwd"'))
    _, faults = check_dataset(tmp_path / "set")
    assert faults == ["train: the manifest says the file is '../../../etc/passwd', it is train.jsonl"]


# --- nothing lost -------------------------------------------------------------------------------------------------


def test_what_is_there_is_never_overwritten(tmp_path):
    make(tmp_path / "set")
    with pytest.raises(PathExists, match="--force"):
        make(tmp_path / "set")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "set")
    for path in (mine, tmp_path / "file", tmp_path / "link"):
        with pytest.raises(PathExists):
            write_dataset(make_dataset(load(DataConfig, SMALL)), path, force=True)
    assert (mine / "thesis.tex").read_text() == "years of work"


def test_force_replaces_a_data_set_and_an_empty_folder(tmp_path):
    make(tmp_path / "set", form="txt")
    (tmp_path / "empty").mkdir()
    dataset = make_dataset(load(DataConfig, SMALL | {"format": "plain"}))
    for path in (tmp_path / "set", tmp_path / "empty"):
        write_dataset(dataset, path, force=True)
        assert check_dataset(path)[1] == []
        assert not (path / "train.txt").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "set"]


def test_a_failure_in_the_middle_leaves_nothing(tmp_path):
    dataset = make_dataset(load(DataConfig, SMALL))

    def fail(split, done):
        raise KeyboardInterrupt

    big = make_dataset(load(DataConfig, {"num_examples": 20_000}))
    with pytest.raises(KeyboardInterrupt):
        write_dataset(big, tmp_path / "set", tick=fail)
    assert list(tmp_path.iterdir()) == []
    write_dataset(dataset, tmp_path / "set")
    before = {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()}
    with pytest.raises(KeyboardInterrupt):
        write_dataset(big, tmp_path / "set", force=True, tick=fail)
    assert {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()} == before


def test_a_killed_process_leaves_no_half_set(tmp_path):
    out = tmp_path / "set"
    command = [sys.executable, "-m", "carryon", "data", "make", str(out), "--size", "300000", "--digits", "6"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".set.partial-*/train.jsonl")) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists()
    # The same command then works.
    small = [*command[:-4], "--size", "500"]
    subprocess.run(small, check=True, stdout=subprocess.DEVNULL)
    assert check_dataset(out)[1] == []


def test_all_splits_are_in_every_set(tmp_path):
    _, manifest = make(tmp_path / "set")
    assert tuple(manifest.splits) == SPLITS


def test_force_spares_folders_that_only_look_like_data_sets(tmp_path):
    dataset = make_dataset(load(DataConfig, SMALL))
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj/manifest.json").write_text('{"name": "extension"}')
    write_dataset(dataset, tmp_path / "set")
    (tmp_path / "set/notes.txt").write_text("mine")
    for name in ("proj", "set"):
        with pytest.raises(PathExists, match="more than a data set"):
            write_dataset(dataset, tmp_path / name, force=True)
    assert (tmp_path / "set/notes.txt").exists()


def test_a_set_that_appears_meanwhile_is_not_overwritten(tmp_path):
    dataset = make_dataset(load(DataConfig, {"num_examples": 6_000}))
    other = make_dataset(load(DataConfig, SMALL))

    def interfere(split, done):
        if not (tmp_path / "set").exists():
            write_dataset(other, tmp_path / "another")
            (tmp_path / "another").rename(tmp_path / "set")

    with pytest.raises(PathExists, match="appeared"):
        write_dataset(dataset, tmp_path / "set", tick=interfere)
    assert read_manifest(tmp_path / "set").config.num_examples == 300


MANIFEST_FORGERIES = {
    "an extra split": (lambda m: m["splits"].update(bogus=m["splits"]["train"]), "'bogus' is in the manifest"),
    "another size": (lambda m: m["config"].update(num_examples=299), "not the problems that the config"),
    "another seed": (lambda m: m.update(seed=5), "train: not the problems that the config"),
    "another split seed": (lambda m: m["config"].update(split_seed=5), "test: not the problems"),
    "another sampler": (lambda m: m["config"].update(sampler="uniform"), "train: not the problems"),
    "invented goals": (lambda m: m.update(goals={"digits": {"1": 7}}), "goals: the manifest says"),
    "invented notes": (lambda m: m.update(notes=["all is well"]), "notes: the manifest says"),
    "invented overlap": (lambda m: m["overlap"].update({"a & b": 0}), "overlap: the manifest speaks of a & b"),
}


@pytest.mark.parametrize(("change", "says"), MANIFEST_FORGERIES.values(), ids=MANIFEST_FORGERIES)
def test_a_forged_manifest_is_found_out(tmp_path, change, says):
    make(tmp_path / "set")
    path = tmp_path / "set/manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    _, faults = check_dataset(tmp_path / "set")
    assert any(says in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("column", "value"), [("answer", "1"), ("operation", "subtract"), ("operands", ["1", "2"]), ("prompt", "\ud800")]
)
def test_every_column_is_checked(tmp_path, column, value):
    make(tmp_path / "set")
    edit(tmp_path / "set/train.jsonl", lambda rows: rows[7].update({column: value}))
    _, faults = check_dataset(tmp_path / "set")
    assert any("example 8 " in fault for fault in faults)


@pytest.mark.parametrize("values", [[None] * 3, [1, 2, 3], [b"x"] * 3, [["x"]] * 3])
def test_parquet_that_holds_no_text_is_broken(tmp_path, values):
    import pyarrow
    import pyarrow.parquet

    make(tmp_path / "set", "parquet")
    table = pyarrow.table({"prompt": values, "completion": ["x"] * 3})
    pyarrow.parquet.write_table(table, tmp_path / "set/train.parquet")
    assert any("cannot be read to its end" in fault for fault in check_dataset(tmp_path / "set")[1])
    pyarrow.parquet.write_table(table.drop_columns(["prompt"]), tmp_path / "set/train.parquet")
    assert any("cannot be read to its end" in fault for fault in check_dataset(tmp_path / "set")[1])


def test_a_failed_set_leaves_no_new_folders(tmp_path):
    def fail(split, done):
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        write_dataset(make_dataset(load(DataConfig, {"num_examples": 6_000})), tmp_path / "a/b/set", tick=fail)
    assert list(tmp_path.iterdir()) == []
