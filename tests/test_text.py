"""Text among arithmetic: corpora that are what their names say, mixtures that lose nothing, prompts of text."""

import hashlib
import http.server
import json
import threading
from collections import Counter
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from carryon import corpora
from carryon.cli import app
from carryon.config import DataConfig, EvaluationConfig, RunConfig, TextConfig, TextPromptName, choices
from carryon.corpora import SAMPLE, get_corpus, keep_corpus, kept_corpora, passages, read_corpus
from carryon.data import characters_of, make_dataset, mix_with_text, questions_in, split_text
from carryon.errors import BadConfig, BadInput, MissingExtra, UnknownName
from carryon.evaluation import TEXT_PROMPTS, describe, text_prompt
from carryon.formats import Example
from carryon.generation import perplexity
from carryon.recipes import load_recipe
from carryon.runs import find_run
from carryon.training import Silent, load_model, make_exam, train

SHAKESPEARE = "tinyshakespeare"


@pytest.fixture(autouse=True)
def text_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CARRYON_TEXT", str(tmp_path / "text"))
    return tmp_path / "text"


@pytest.fixture
def shakespeare(monkeypatch):
    """The real one, where this machine has it: scripts/setup gets it for those who run the tests."""
    monkeypatch.delenv("CARRYON_TEXT")
    if SHAKESPEARE not in kept_corpora():
        pytest.skip("tiny Shakespeare is not on this machine: carryon text get tinyshakespeare")
    return read_corpus(SHAKESPEARE)


# --- corpora ------------------------------------------------------------------------------------------------------


def test_the_sample_has_the_characters_of_tiny_shakespeare():
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    assert set(read_corpus(SAMPLE)) == set(letters + "\n !&',-.3:;?")


def test_a_file_is_kept_under_a_name_that_stands_for_its_bytes(tmp_path, text_folder):
    file = tmp_path / "my letters (1).txt"
    file.write_text("Dear aunt,\n\nthe jars held.\n")
    name = keep_corpus(file)
    assert name == f"my-letters-1@{hashlib.sha256(file.read_bytes()).hexdigest()[:10]}"
    assert read_corpus(name) == file.read_text()
    assert kept_corpora() == [SAMPLE, name]
    (text_folder / f"{name}.txt").write_text("Dear uncle,\n")
    with pytest.raises(BadInput, match="is not the corpus my-letters-1@"):
        read_corpus(name)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no text"),
        (b" \n\n", "holds no text"),
        (b"a\0b", "zero bytes"),
        (b"caf\xe9", "not UTF-8: .* at byte 3"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path, content, says):
    (tmp_path / "file.txt").write_bytes(content)
    with pytest.raises(BadInput, match=says):
        keep_corpus(tmp_path / "file.txt")


def test_a_corpus_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "MOST_BYTES", 10)
    (tmp_path / "file.txt").write_text("eleven char")
    with pytest.raises(BadInput, match="larger than 10 bytes"):
        keep_corpus(tmp_path / "file.txt")


def test_a_corpus_that_is_not_here_says_how_to_get_it():
    with pytest.raises(MissingExtra, match="'carryon text get tinyshakespeare' downloads it"):
        read_corpus(SHAKESPEARE)
    with pytest.raises(UnknownName, match="did you mean 'tinyshakespeare'"):
        read_corpus("tinyshakespear")
    with pytest.raises(MissingExtra, match="'carryon text add FILE' puts it there again"):
        read_corpus("letters@0123456789")
    with pytest.raises(BadInput, match=r"there is no file letters\.txt"):
        read_corpus("letters.txt")


def test_windows_files_and_files_of_another_name_are_the_same_text(tmp_path, text_folder):
    (tmp_path / "windows.txt").write_bytes(b"\xef\xbb\xbfOne.\r\n\r\nTwo.\r\n")
    name = keep_corpus(tmp_path / "windows.txt")
    assert read_corpus(name) == "One.\n\nTwo.\n"
    (text_folder / f"{name}.txt").rename(text_folder / f"renamed@{name.rpartition('@')[2]}.txt")
    assert read_corpus(name) == "One.\n\nTwo.\n"


@pytest.fixture
def published(monkeypatch):
    """A corpus of ours, published on a server of this machine; `files` is what it serves."""
    files = {"/input.txt": b"To be,\n\nor not.\n"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path in files else 404)
            self.end_headers()
            self.wfile.write(files.get(self.path, b""))

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    content = files["/input.txt"]
    address = f"http://127.0.0.1:{server.server_port}/input.txt"
    known = corpora.Known(len(content), hashlib.sha256(content).hexdigest(), address, "no-such-package==0", "input.txt")
    monkeypatch.setattr(corpora, "KNOWN", {SHAKESPEARE: known})
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # the second way is shut
    yield files
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_corpus_is_downloaded_and_checked(published, text_folder):
    path = get_corpus(SHAKESPEARE)
    assert path.read_bytes() == published["/input.txt"]
    assert read_corpus(SHAKESPEARE) == "To be,\n\nor not.\n"
    published["/input.txt"] = b"To be,\n\nor what?\n"
    assert get_corpus(SHAKESPEARE) == path  # it is there: nothing is downloaded
    path.unlink()
    with pytest.raises(MissingExtra, match=r"cannot be had here \(what came is not the corpus .* --from FILE"):
        get_corpus(SHAKESPEARE)
    del published["/input.txt"]
    with pytest.raises(MissingExtra, match="404"):
        get_corpus(SHAKESPEARE)
    assert not list(text_folder.glob("*"))


def test_the_command_line_gets_adds_and_lists(published, tmp_path):
    def run(*arguments):
        result = CliRunner().invoke(app, ["text", *arguments], catch_exceptions=False)
        assert result.exit_code == 0
        return result.output

    assert "tinyshakespeare: not here" in run("list")
    (tmp_path / "copy.txt").write_bytes(published["/input.txt"])
    assert "16 bytes, as published" in run("get", "--from", str(tmp_path / "copy.txt"))
    (tmp_path / "mine.txt").write_text("One.\n\nTwo.\n")
    assert "kept as mine@" in run("add", str(tmp_path / "mine.txt"))
    listed = run("list")
    assert "tinyshakespeare: 16 characters, 11 different, 2 passages" in listed
    assert "mine@" in listed
    assert f"{SAMPLE}: 1,2" in listed


def test_tiny_shakespeare_and_sums_have_the_80_characters_of_the_paper(shakespeare):
    assert len(shakespeare) == 1_115_394
    assert len(set(shakespeare)) == 65
    assert len(passages(shakespeare)) == 7_222
    assert set(shakespeare) - set(read_corpus(SAMPLE)) == {"$"}
    text = set(characters_of(TextConfig()))
    assert len(text) == 64
    sums = (make_dataset(DataConfig(format=format, num_examples=500)) for format in ("plain", "detailed_scratchpad"))
    assert len(text.union(*(example.text for part in sums for example in part.examples("train")))) == 80


def test_speeches_called_inside_are_trained_on_and_the_others_are_nowhere(shakespeare):
    train_text = split_text(TextConfig()).train
    for kind, texts in TEXT_PROMPTS.items():
        for number, text in enumerate(texts):
            inside = text_prompt(kind, number) in train_text
            assert inside == kind.endswith("inside"), text
            assert inside or text not in shakespeare


# --- mixtures -----------------------------------------------------------------------------------------------------

PLAIN = [Example(f"{a}+1=", f"{a + 1}\n", str(a + 1)) for a in range(1_000)]
DETAILED = [Example(f"Input:\n{a}\n", f"<{a}>\n</>\n", str(a)) for a in range(300)]
SPEECHES = "\n\n".join(f"SPEAKER {n}:\nThis is speech number {n}." for n in range(250))


@pytest.mark.parametrize("mixing", ["dialogue", "blocks"])
def test_a_mixture_has_every_speech_in_order_and_every_example_once(mixing):
    pieces = list(mix_with_text(SPEECHES, [PLAIN, DETAILED], mixing, seed=1))
    assert [piece for piece in pieces if piece.startswith("SPEAKER")] == passages(SPEECHES)
    examples = Counter(piece for piece in pieces if piece != "\n" and not piece.startswith("SPEAKER"))
    assert examples == Counter(example.text for example in (*PLAIN, *DETAILED))
    for before, after in pairwise(pieces):  # a blank line wherever arithmetic ends and text begins
        if after.startswith("SPEAKER"):
            assert before.endswith("\n\n") or before == "\n"


def test_a_dialogue_has_random_numbers_of_examples_between_speeches():
    pieces = list(mix_with_text(SPEECHES, [PLAIN, DETAILED], "dialogue", seed=1))
    counts, kinds = Counter(), set()
    for piece in pieces:
        if piece.startswith("SPEAKER"):
            speech = piece
        elif piece != "\n":
            counts[speech] += 1
            kinds.add((speech, piece.startswith("Input")))
    assert len(set(counts.values())) > 5
    assert sum(counts.values()) == 1_300
    assert len(kinds) > len(counts)  # both kinds between the same two speeches
    again = list(mix_with_text(SPEECHES, [PLAIN, DETAILED], "dialogue", seed=1))
    other = list(mix_with_text(SPEECHES, [PLAIN, DETAILED], "dialogue", seed=2))
    assert pieces == again != other


def test_blocks_are_as_the_authors_have_them():
    """Of 250 speeches, 1,000 and 300 examples: two, ten and three, a hundred times; what is left follows."""
    text = "".join(mix_with_text(SPEECHES, [PLAIN, DETAILED], "blocks", seed=1))
    speech = "SPEAKER {0}:\nThis is speech number {0}.\n\n".format
    first = speech(0) + speech(1) + "".join(e.text for e in PLAIN[:10]) + "\n" + "".join(e.text for e in DETAILED[:3])
    assert text.startswith(first + "\n" + speech(2))
    assert text.endswith(
        speech(198)
        + speech(199)
        + "".join(e.text for e in PLAIN[990:])
        + "\n"
        + "".join(e.text for e in DETAILED[297:])
        + "\n"
        + "".join(map(speech, range(200, 250)))
    )


def test_the_end_of_a_text_is_held_out_between_two_passages(tmp_path):
    (tmp_path / "speeches.txt").write_text(SPEECHES)
    config = TextConfig(corpus=keep_corpus(tmp_path / "speeches.txt"), leave_out="$S")
    train_text, held_out = split_text(config)
    assert train_text + held_out == SPEECHES.replace("S", "") + "\n\n"
    assert held_out.startswith("PEAKER ")
    assert len(held_out) / len(train_text + held_out) == pytest.approx(0.1, abs=0.01)
    (tmp_path / "two.txt").write_text("one\n\n$$")
    with pytest.raises(BadConfig, match="has no blank lines"):
        split_text(TextConfig(corpus=keep_corpus(tmp_path / "two.txt"), leave_out="$"))


def test_a_text_without_blank_lines_is_not_kept(tmp_path, text_folder):
    (tmp_path / "one.txt").write_text("no blank line\nanywhere")
    with pytest.raises(BadInput, match="has no blank lines"):
        keep_corpus(tmp_path / "one.txt")
    assert not text_folder.exists() or not list(text_folder.iterdir())


def test_blank_lines_may_hold_spaces_and_lines_may_end_as_on_old_machines(tmp_path):
    (tmp_path / "odd.txt").write_bytes(b"One.\rTwo.\r \t\rThree.\r\r\r  \rFour.\r")
    assert passages(read_corpus(keep_corpus(tmp_path / "odd.txt"))) == ["One.\nTwo.\n\n", "Three.\n\n", "Four.\n\n"]


def test_problems_are_found_in_a_text_however_they_are_spaced():
    text = "What is 12+7, or 128 + 367 = 495? 1x2 or 3 x  4, sin(0.5); not 5 + x, nor page 12."
    assert questions_in(text) == {"12+7", "128+367", "1x2", "3x4", "sin(0.5)"}


# --- runs ---------------------------------------------------------------------------------------------------------


def config(**more):
    few = {"num_test": 30, "num_validation": 10}
    return RunConfig(
        data=DataConfig(format="plain", num_examples=200, **few),
        mix=(DataConfig(format="detailed_scratchpad", num_examples=30, **few),),
        text=TextConfig(corpus=SAMPLE),
        model={"layers": 1, "heads": 2, "width": 16, "context": 64, "dropout": 0.0},
        train={"steps": 60, "batch_size": 16, "eval_every": 30, "warmup_steps": 5, "lr": 1e-2},
        **{"evaluations": (EvaluationConfig(problems="text"),), **more},
    )


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    watch = (EvaluationConfig(problems="text"), EvaluationConfig(part=1, limit=5))
    return train(config(watch=watch), tmp_path_factory.mktemp("runs"), device="cpu")


def test_a_mixture_is_trained_on_and_its_text_is_read(mixed):
    rows = mixed.metrics()
    assert [row["step"] for row in rows] == [0, 30, 60]
    assert rows[0]["perplexity"] == pytest.approx(80, rel=0.1)  # it knows nothing: one of 80 characters
    assert rows[-1]["perplexity"] < 0.7 * rows[0]["perplexity"]
    model, tokenizer = load_model(mixed, "cpu")
    assert tokenizer.vocab_size == 80
    answer = mixed.read_evaluation(EvaluationConfig(problems="text").hash)
    held_out = split_text(TextConfig(corpus=SAMPLE)).held_out
    assert answer["tokens"] == len(held_out)
    assert answer["perplexity"] == pytest.approx(perplexity(model, tokenizer.encode(held_out)), rel=1e-5)
    assert answer["perplexity"] == pytest.approx(rows[-1]["perplexity"], rel=1e-5)
    assert len(set(answer["samples"])) == 3
    assert all(len(sample) >= 60 for sample in answer["samples"])
    assert mixed.read_result()["evaluations"] == {EvaluationConfig(problems="text").hash: answer["perplexity"]}


def test_a_model_without_text_can_still_read_some(tmp_path):
    text = TextConfig(corpus=SAMPLE, mixing="none", characters="+/<=>[]")
    alone = config(evaluations=()).model_copy(update={"mix": (), "text": text})
    run = train(alone, tmp_path, device="cpu")
    assert load_model(run, "cpu")[1].vocab_size == 80
    assert ask(run, problems="text")["perplexity"] > 80  # it has never seen a letter
    assert ask(run, limit=3, text_prompts=("long outside",))["count"] == 15


def ask(run, **question):
    model, tokenizer = load_model(run, "cpu")
    parts = [make_dataset(data, run.config.seed) for data in run.config.parts]
    return make_exam(EvaluationConfig(**question), parts, model, tokenizer, run=run.config).ask()[0]


def test_several_prompts_at_once_count_as_each_of_them_alone(mixed):
    together = ask(mixed, limit=7, examples=2, sets=3, example_set=1)
    alone = {f"set {s}": ask(mixed, limit=7, examples=2, example_set=s) for s in (1, 2, 3)}
    assert together["count"] == 21
    assert together["by"]["prompt"] == {name: [one["right"], 7] for name, one in alone.items()}
    assert together["unreadable"] == sum(one["unreadable"] for one in alone.values())
    assert together["by"]["digits"] == {
        label: [sum(one["by"]["digits"][label][i] for one in alone.values()) for i in (0, 1)]
        for label in together["by"]["digits"]
    }


def test_text_prompts_are_all_asked_and_counted_apart(mixed):
    found = ask(mixed, limit=2, part=1, text_prompts=choices(TextPromptName))
    assert found["count"] == 2 * 25
    assert len(found["by"]["prompt"]) == 25
    assert all(count == 2 for _, count in found["by"]["prompt"].values())


def test_what_does_not_go_together_is_said():
    with pytest.raises(ValueError, match=r"set text\.corpus"):
        RunConfig(evaluations=(EvaluationConfig(problems="text"),))
    with pytest.raises(ValueError, match="text goes into a stream"):
        RunConfig(text=TextConfig(), train={"packing": "rows"})
    assert RunConfig(text=TextConfig(mixing="none"), train={"packing": "rows"})
    assert choices(TextPromptName) == tuple(TEXT_PROMPTS)
    with pytest.raises(UnknownName, match="did you mean 'long outside'"):
        text_prompt("long outsid", 0)
    with pytest.raises(UnknownName, match="choose from 0, 1, 2, 3, 4"):
        text_prompt("long outside", 5)


def test_a_question_about_text_has_no_problems():
    assert EvaluationConfig(problems="text", temperature=1.0)
    with pytest.raises(ValueError, match="limit, examples cannot go with text"):
        EvaluationConfig(problems="text", limit=5, examples=2)
    with pytest.raises(ValueError, match="wrong_examples needs examples"):
        EvaluationConfig(wrong_examples=True)


def test_sums_that_stand_in_the_text_are_counted(tmp_path):
    held = make_dataset(DataConfig(format="plain", num_test=30, num_validation=10, num_examples=200))
    sums = [problem.question for problem in held.problems("test")][:7]
    speeches = [f"MASTER:\nWhat is {question}, I ask, in ${n}?" for n, question in enumerate(sums * 4)]
    (tmp_path / "exam.txt").write_text("\n\n".join(speeches))
    text = TextConfig(corpus=keep_corpus(tmp_path / "exam.txt"))
    run = train(config().model_copy(update={"text": text, "evaluations": ()}), tmp_path, device="cpu")
    assert run.read_result()["test_problems_in_text"] == 14  # seven, plain and detailed
    assert "$" in load_model(run, "cpu")[1].vocabulary  # only tiny Shakespeare has a $ too many


def test_what_cannot_begin_leaves_nothing_behind(tmp_path):
    for text in (TextConfig(), TextConfig(corpus="letters@0123456789")):
        with pytest.raises(MissingExtra):
            train(config(evaluations=()).model_copy(update={"text": text}), tmp_path / "runs", device="cpu")
    assert not list((tmp_path / "runs").iterdir())


def test_a_config_that_is_only_shown_keeps_nothing(tmp_path, text_folder):
    (tmp_path / "speeches.txt").write_text(SPEECHES)
    setting = [f"text.corpus={tmp_path / 'speeches.txt'}"]
    shown = load_recipe("paper-plain", setting, keep=False)
    assert not text_folder.exists() or not list(text_folder.iterdir())
    assert load_recipe("paper-plain", setting) == shown
    assert read_corpus(shown.text.corpus) == SPEECHES


def test_a_recipe_may_name_a_file(tmp_path):
    (tmp_path / "speeches.txt").write_text(SPEECHES)
    found = load_recipe("paper-plain", [f"text.corpus={tmp_path / 'speeches.txt'}"])
    assert found.text.corpus.startswith("speeches@")
    assert read_corpus(found.text.corpus) == SPEECHES
    (tmp_path / "speeches.txt").write_text(SPEECHES + "!")
    assert load_recipe("paper-plain", [f"text.corpus={tmp_path / 'speeches.txt'}"]).hash != found.hash


def test_the_command_line_asks_any_data_set_of_a_run(mixed):
    def run(command, *arguments, fails=False):
        result = CliRunner().invoke(app, [command, str(mixed.path), *arguments, "--device", "cpu"])
        assert bool(result.exception) is fails
        return str(result.exception) if fails else result.output

    assert "it was given '12+7='" in run("ask", "12+7")
    assert "it was given 'Input:\\n12+7\\nTarget:\\n'" in run("ask", "12+7", "--part", "1")
    # Scratchpads of some 280 characters, and a context of 64.
    assert "no answer can be right" in run("evaluate", "--part", "1", "--limit", "3")
    assert "no answer can be right" not in run("evaluate", "--limit", "3")
    assert "3 prompts were cut from the left" in run("evaluate", "--limit", "3", "--text-prompt", "long outside")
    assert '"examples_part": 1' in run("evaluate", "--limit", "3", "--examples", "1", "--examples-part", "1", "--json")
    for option in ("--part", "--examples-part"):
        assert "learnt from data sets 0 to 1" in run("evaluate", option, "2", fails=True)
    assert "learnt from data sets 0 to 1" in run("ask", "12+7", "--part", "2", fails=True)
    assert "goes with --examples" in run("evaluate", "--example-set", "3", fails=True)


def test_a_list_of_runs_tells_perplexity_from_accuracy(mixed):
    shown = CliRunner().invoke(app, ["runs", "--runs", str(mixed.path.parent), "--json"]).output
    (row,) = json.loads(shown)
    perplexity = mixed.read_evaluation(EvaluationConfig(problems="text").hash)["perplexity"]
    assert row["accuracy"] == f"perplexity {perplexity:.2f}"


def test_training_says_when_no_answer_fits_the_context(tmp_path):
    said = []
    display = Silent()
    display.say = said.append
    train(config(evaluations=()), tmp_path, device="cpu", display=display)
    assert [line for line in said if "no answer can be right" in line]


def test_text_is_read_in_windows_as_long_as_those_of_training(tmp_path):
    said = []
    display = Silent()
    display.say = said.append
    made = config()
    model, train_as = made.model.model_copy(update={"context": 400}), {"window": 40, "steps": 4}
    made = made.model_copy(update={"model": model, "train": made.train.model_copy(update=train_as)})
    run = train(made, tmp_path, device="cpu", display=display)
    assert [line for line in said if "train.window is 40: training never shows a whole one" in line]
    model, tokenizer = load_model(run, "cpu")
    answer = run.read_evaluation(EvaluationConfig(problems="text").hash)
    held_out = tokenizer.encode(split_text(TextConfig(corpus=SAMPLE)).held_out)
    assert answer["perplexity"] == pytest.approx(perplexity(model, held_out, 40), rel=1e-5)
    assert answer["perplexity"] != pytest.approx(perplexity(model, held_out), rel=1e-5)
    assert all(len(sample) == 39 for sample in answer["samples"])


def test_the_command_line_asks_after_text(mixed):
    def run(*arguments):
        result = CliRunner().invoke(
            app, ["evaluate", str(mixed.path), "--device", "cpu", *arguments], catch_exceptions=False
        )
        assert result.exit_code == 0
        return result.output

    assert "perplexity" in run("--split", "text")
    assert "JULIET:" in run("--text-prompt", "short inside", "--limit", "5")
    assert "MENENIUS:" in run("--text-prompt", "short inside", "--example-set", "3", "--limit", "5")


def test_a_question_with_prompts_reads_well():
    words = describe(EvaluationConfig(text_prompts=("short inside",)))
    assert words == "the test set, after text (short inside), greedy"
    assert describe(EvaluationConfig(examples=2, sets=5)) == "the test set, after 2 examples (5 sets), greedy"
    assert describe(EvaluationConfig(problems="text")) == "the text held out"
    assert len(describe(EvaluationConfig(prefix="x" * 500))) < 80


def test_a_problem_is_asked_as_its_own_data_set_writes_it(tmp_path):
    few = {"num_examples": 50, "num_test": 10, "num_validation": 5}
    both = config(evaluations=()).model_copy(
        update={
            "data": DataConfig(format="detailed_scratchpad", **few),
            "mix": (DataConfig(operation="subtract", format="plain", **few),),
            "text": None,
            "name": "both",
        }
    )
    train(both, tmp_path, device="cpu")
    train(both.model_copy(update={"name": "both-and-more"}), tmp_path, device="cpu")
    found = find_run("both", tmp_path)  # the whole name, though another begins with it
    assert found.config.name == "both"
    result = CliRunner().invoke(app, ["ask", "both", "5-2", "--runs", str(tmp_path)], catch_exceptions=False)
    assert "it was given '5-2='" in result.output
