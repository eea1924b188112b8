"""Exports opened by the tools they are for, on CPU and without network."""

import ast
import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import pytest
import safetensors.numpy
import tokenizers
import torch
import transformers
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from carryon.cli import app
from carryon.config import DataConfig, EvaluationConfig, FormatConfig, ModelConfig, RunConfig, TrainConfig, load
from carryon.data import make_dataset, write_dataset
from carryon.errors import BadConfig, BadInput, BadRun, CarryonError, MissingExtra, PathExists, UnknownName, Unsupported
from carryon.evaluation import percent, wilson
from carryon.formats import FORMATS
from carryon.generation import Completer
from carryon.interop import architectures
from carryon.interop.harness import export_lm_eval
from carryon.interop.huggingface import export_huggingface
from carryon.interop.importing import import_huggingface
from carryon.operations import OPERATIONS
from carryon.pretrained import add_pretrained, get_pretrained
from carryon.runs import Run
from carryon.tokenizers import Characters
from carryon.training import load_model, train

torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()
TOLERANCE = 1e-4

# As wide as the longer operand: prompts of several lengths, and learnt in seconds, more or less.
SUMS = {"format": {"name": "reverse_padded", "width": 0}, "num_examples": 4_000}
CASES = {
    "learned": {},
    "good": {"data": SUMS, "steps": 200},
    "sinusoidal": {"data": SUMS, "steps": 100, "position": "sinusoidal"},
    "none": {"data": SUMS, "steps": 100, "position": "none"},
    "rotary": {"data": SUMS, "steps": 150, "position": "rotary"},
    "ascii": {"format": "plain", "tokenizer": "ascii"},
    "byte pairs": {"format": "plain", "tokenizer": "gpt2", "steps": 2, "num_test": 100},
    "scratchpad": {"format": "simplified_scratchpad", "context": 96, "steps": 30, "num_test": 100},
    "all in use": {
        "format": "plain",
        "context": 96,
        "steps": 2,
        "num_test": 20,
        "mix": ({"format": "simplified_scratchpad", "digits": 2, "num_examples": 100, "num_test": 20},),
    },
    "mixed": {"mix": ({"operation": "subtract", "digits": 2, "num_examples": 1_000, "num_test": 200},)},
}


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """made("rotary"): a tiny trained run and its export, once."""
    root = tmp_path_factory.mktemp("runs")

    @cache
    def make(name):
        with torch.enable_grad():
            run = train(config(name), root, device="cpu")
        return run, export_huggingface(run, root / "exports" / name.replace(" ", "-"))

    return make


def config(name):
    case = CASES[name]
    data = {"digits": 2, "num_examples": 2_000, "num_validation": 20, "format": case.get("format", "reverse")}
    data |= case.get("data", {})
    return RunConfig(
        name=name.replace(" ", "-"),
        data=load(DataConfig, data | {"num_test": case.get("num_test", 1_000)}),
        mix=tuple(load(DataConfig, part) for part in case.get("mix", ())),
        tokenizer=case.get("tokenizer", "characters"),
        model=ModelConfig(
            layers=2,
            heads=4,
            width=32,
            context=case.get("context", 32),
            position=case.get("position", "learned"),
            dropout=0.0,
        ),
        train=TrainConfig(
            steps=case.get("steps", 50),
            batch_size=128,
            packing="rows",
            loss="answer",
            lr=1e-2,
            final_lr=0.0,
            warmup_steps=10,
            weight_decay=0.0,
            eval_every=1_000,
        ),
    )


def opened(folder):
    return AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def texts(run, count=50):
    for data in run.config.parts:
        yield from list(make_dataset(data, run.config.seed).examples("test"))[:count]


# --- transformers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_logits_and_ids_are_ours(made, name):
    run, folder = made(name)
    ours, tokenizer = load_model(run, "cpu")
    theirs, reader = opened(folder)
    assert theirs.dtype == torch.float32
    assert type(theirs).__name__ == ("GPTNeoXForCausalLM" if name == "rotary" else "GPT2LMHeadModel")
    torch.manual_seed(0)
    rows = [torch.randint(0, tokenizer.vocab_size, (4, ours.config.context))]
    for example in texts(run):
        ids = reader(example.text).input_ids
        assert ids == tokenizer.encode(example.text).tolist()
        assert reader.decode(ids) == example.text
        rows.append(torch.tensor([ids[: ours.config.context]]))
    for row in rows:
        ours_BTV, theirs_BTV = ours(row), theirs(row).logits
        assert theirs_BTV.shape == ours_BTV.shape
        torch.testing.assert_close(theirs_BTV, ours_BTV, atol=TOLERANCE, rtol=0)
    assert ours_BTV.std() > 0.1  # it is not that there is nothing to compare


@pytest.mark.parametrize("name", ["learned", "sinusoidal", "none", "rotary", "good", "scratchpad", "mixed"])
def test_a_thousand_greedy_completions_are_ours(made, name):
    run, folder = made(name)
    written = set(same_completions(run, folder))
    assert len(written) > {"good": 50, "scratchpad": 1}.get(name, 3)


@torch.no_grad()
def same_completions(run, folder):
    """Prompts of every length in one batch, padded on the left; what both write."""
    model, tokenizer = load_model(run, "cpu")
    theirs, reader = opened(folder)
    every = []
    for data in run.config.parts:
        dataset = make_dataset(data, run.config.seed)
        format = dataset.format
        prompts = [example.prompt for example in dataset.examples("test")]
        new = run.config.model.context - max(len(reader(prompt).input_ids) for prompt in prompts)
        ours = Completer(model, tokenizer, format.finished, new)(prompts)
        batch = reader(prompts, return_tensors="pt", padding=True)
        assert set(batch) == {"input_ids", "attention_mask"}  # token types would be added to the embedding
        assert (batch.attention_mask[:, -1] == 1).all()
        assert (batch.attention_mask == 0).any() == (len({len(prompt) for prompt in prompts}) > 1)
        written = theirs.generate(**batch, max_new_tokens=new)[:, batch.input_ids.shape[1] :]
        assert [cut(text, format) for text in reader.batch_decode(written)] == ours
        assert len(prompts) == data.num_test
        every += ours
    return every


def cut(text, format):
    return next((text[:end] for end in range(len(text)) if format.finished(text[:end])), text)


def test_no_character_vanishes(made):
    _, folder = made("learned")
    reader = AutoTokenizer.from_pretrained(folder)
    for text in ("$1+2=3$\n", "\n\n$$==", "9" * 40):
        assert reader.decode(reader(text).input_ids) == text
        assert len(reader(text).input_ids) == len(text)
    with pytest.raises(Exception, match=r"Missing \[UNK\]"):
        reader("1-2=")
    assert len(reader) == 14  # nothing was added
    _, folder = made("byte pairs")
    reader = AutoTokenizer.from_pretrained(folder)
    for text in ("  déjà vu\n\n", "a \t b"):
        assert reader.decode(reader(text).input_ids) == text


@pytest.mark.parametrize(
    ("name", "stop", "padding"),
    [
        ("learned", ["$"], "\n"),
        ("ascii", ["\n"], "\n"),
        ("byte pairs", ["\n"], "<|endoftext|>"),
        ("scratchpad", ["I"], "I"),  # newlines occur inside; the next example starts with an I, which no work holds
        ("mixed", ["$"], "\n"),
    ],
)
def test_generation_stops_where_an_answer_does(made, name, stop, padding):
    run, folder = made(name)
    model, reader = opened(folder)
    ids = model.generation_config.eos_token_id
    assert [reader.decode([i]) for i in (ids if isinstance(ids, list) else [ids])] == stop
    assert reader.eos_token == reader.pad_token == padding
    assert model.generation_config.pad_token_id == reader.pad_token_id
    assert model.generation_config.max_length == run.config.model.context
    assert model.config.bos_token_id is None
    long = torch.randint(1, 5, (1, run.config.model.context - 2))
    assert model.generate(long, attention_mask=torch.ones_like(long)).shape[1] <= run.config.model.context


def test_nothing_has_to_be_trusted_and_opening_is_silent(made):
    """As a stranger would, in a process that has no carryon, with all the library has to say."""
    _, folder = made("learned")
    code = (
        "import sys; sys.modules['carryon'] = None\n"
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        "model, t = AutoModelForCausalLM.from_pretrained(sys.argv[1]), AutoTokenizer.from_pretrained(sys.argv[1])\n"
        "p = t(['$1+2=', '$10+20='], return_tensors='pt', padding=True)\n"
        "print(t.batch_decode(model.generate(**p)[:, p.input_ids.shape[1]:]))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "$" in done.stdout
    said = [line for line in re.split(r"[\r\n]", done.stderr) if line.strip() and "Loading weights" not in line]
    assert said == []


def test_an_export_that_computes_something_else_is_not_written(made, tmp_path, monkeypatch):
    run, _ = made("rotary")
    monkeypatch.setattr(architectures.GptNeoxArchitecture, "turn", lambda self, part, array, heads: array)
    with pytest.raises(Unsupported, match="its logits differ from ours by"):
        export_huggingface(run, tmp_path / "wrong")
    assert list(tmp_path.iterdir()) == []


def test_every_position_method_is_exported_or_refused_by_name(made, monkeypatch, tmp_path):
    run, _ = made("learned")
    other = run.config.model_copy(update={"model": run.config.model.model_copy(update={"position": "abacus"})})
    with pytest.raises(Unsupported, match="abacus positions cannot be exported"):
        export_huggingface(Run(run.path, other), tmp_path / "x")
    assert not (tmp_path / "x").exists()


# --- there and back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_what_was_exported_comes_back_as_the_same_run(made, name, tmp_path):
    run, folder = made(name)
    back = import_huggingface(folder, tmp_path)
    assert (back.config, back.config.hash, back.path.name) == (run.config, run.config.hash, run.path.name)
    for file in ("config.json", "model.safetensors", "result.json", "metrics.jsonl"):
        assert (back.path / file).read_bytes() == (run.path / file).read_bytes(), file
    assert back.evaluations() == run.evaluations()
    assert len(back.evaluations()) == len(run.config.evaluations) > 0
    assert back.read_origin() == {k: v for k, v in run.read_origin().items() if k != "command"}
    with pytest.raises(PathExists, match="already there"):
        import_huggingface(folder, tmp_path)


def changed(folder, target, change):
    """A copy whose weights somebody changed."""
    shutil.copytree(folder, target)
    weights = safetensors.numpy.load_file(target / "model.safetensors")
    change(weights)
    safetensors.numpy.save_file(weights, target / "model.safetensors", {"format": "pt"})
    return target


def test_weights_that_were_changed_since_make_another_run(made, tmp_path):
    """Fine-tuned elsewhere and saved into the same folder: the old results are not its results."""
    run, folder = made("sinusoidal")

    def train_on(weights):
        weights["transformer.wpe.weight"] += 0.1
        weights["transformer.h.0.mlp.c_fc.weight"] += 0.01

    new = import_huggingface(changed(folder, tmp_path / "tuned", train_on), tmp_path / "runs")
    assert new.config.hash != run.config.hash
    assert new.config.data == run.config.data
    assert new.config.model.position == "learned"  # the sinusoids were trained away
    assert new.evaluations() == {}
    assert new.read_result()["stopped"] == "imported from tuned"
    tokens = torch.randint(0, 13, (2, 20))
    with torch.no_grad():
        ours, theirs = load_model(new, "cpu")[0](tokens), opened(tmp_path / "tuned")[0](tokens).logits
    torch.testing.assert_close(ours, theirs, atol=TOLERANCE, rtol=0)


def test_an_export_that_was_trained_on_still_knows_its_text_and_seed(tmp_path):
    settings = {
        "data": {"digits": 2, "num_examples": 300, "num_test": 20, "num_validation": 10},
        "text": {"corpus": "sample"},
        "model": {"layers": 1, "heads": 1, "width": 16, "context": 64},
        "train": {"steps": 1, "batch_size": 4},
        "seed": 3,
    }
    with torch.enable_grad():
        run = train(load(RunConfig, settings), tmp_path / "runs", device="cpu")

    def train_on(weights):
        weights["transformer.ln_f.weight"] += 0.1

    tuned = changed(export_huggingface(run, tmp_path / "out"), tmp_path / "tuned", train_on)
    new = import_huggingface(tuned, tmp_path / "runs")
    assert (new.config.text, new.config.seed) == (run.config.text, 3)  # its training set is the run's own
    told = import_huggingface(tuned, tmp_path / "runs", load(DataConfig, {"format": "plain"}))
    assert told.config.text is None


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("{nope", r"tokenizer_config\.json is broken: Expecting"),
        ("[1]", r"tokenizer_config\.json is broken: it is not a JSON object"),
        ('{"eos_token": 5, "bos_token": {"content": 7}, "pad_token": ["x"], "unk_token": "<nope>"}', None),
    ],
)
def test_a_base_models_tokenizer_settings_may_be_anything(tmp_path, monkeypatch, settings, says):
    monkeypatch.setenv("CARRYON_MODELS", str(tmp_path / "models"))
    base = Path(shutil.copytree(get_pretrained("tiny").folder, tmp_path / "base"))
    (base / "tokenizer_config.json").write_text(settings)
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"eos_token_id": 9}))
    tiny = {
        "data": {"format": "hosted_plain", "digits": 2, "num_examples": 30, "num_test": 5, "num_validation": 5},
        "model": {"pretrained": add_pretrained("it", base).name, "context": 48},
        "train": {"packing": "rows", "loss": "answer", "batch_size": 8, "steps": 1},
    }
    with torch.enable_grad():
        run = train(load(RunConfig, tiny), tmp_path / "runs", device="cpu")
    if says is not None:
        with pytest.raises(BadInput, match=says):
            command("export", run.path, "--out", tmp_path / "out")
        assert not (tmp_path / "out").exists()
        return
    command("export", run.path, "--out", tmp_path / "out")
    _, reader = opened(tmp_path / "out")
    assert reader.eos_token_id == reader.pad_token_id == 9  # what these settings do not tell, the model's own do


def foreign(folder, characters="=0987654321+\n$", model_type="gpt2", biases=0.0, tokenizer=True, **settings):
    """A model that transformers made, with characters in an order of its own."""
    torch.manual_seed(3)
    sizes = {"vocab_size": len(characters), "eos_token_id": None, "bos_token_id": None, "pad_token_id": None}
    if model_type == "gpt2":
        sizes |= {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 24, "resid_pdrop": 0.1}
    else:
        sizes |= {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
        sizes |= {"max_position_embeddings": 24}
    model = AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(model_type, **(sizes | settings)))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(".bias"):
                weight.fill_(biases)
            else:
                weight.normal_(std=0.2)
    model.save_pretrained(folder)
    if tokenizer:
        made = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(characters)}, []))
        made.save(str(folder / "tokenizer.json"))
    return model.eval()


@torch.no_grad()
def test_a_gpt2_of_somebody_else_is_imported_with_its_characters(tmp_path):
    characters = "=0987654321+\n$"
    theirs = foreign(tmp_path / "theirs", characters)
    run = import_huggingface(tmp_path / "theirs", tmp_path / "runs", load(DataConfig, {"format": "plain_wrapped"}))
    ours, tokenizer = load_model(run, "cpu")
    assert tokenizer.vocabulary == "".join(sorted(characters))
    assert run.config.data.format.name == "plain_wrapped"
    text = "$123+45=168$\n"
    theirs_TV = theirs(torch.tensor([[characters.index(c) for c in text]])).logits[0]
    ours_TV = ours(torch.from_numpy(tokenizer.encode(text).astype(np.int64))[None])[0]
    order = [characters.index(c) for c in tokenizer.vocabulary]
    torch.testing.assert_close(ours_TV, theirs_TV[:, order], atol=TOLERANCE, rtol=0)
    # And it can be exported like any other, under its own flag.
    again, reader = opened(export_huggingface(run, tmp_path / "again"))
    torch.testing.assert_close(again(**reader(text, return_tensors="pt")).logits[0], ours_TV, atol=TOLERANCE, rtol=0)
    assert "trained elsewhere" in (tmp_path / "again" / "README.md").read_text()
    # What it was trained on is not known: nothing is called seen or unseen.
    found = json.loads(command("evaluate", run.path, "--limit", "5", "--device", "cpu", "--json"))
    assert found["count"] == 5
    assert "slice" not in found["by"]


def test_a_vocabulary_can_be_named(tmp_path):
    foreign(tmp_path / "theirs", tokenizer=False)
    with pytest.raises(BadInput, match=r"no tokenizer.json: name the model's characters with --vocabulary"):
        import_huggingface(tmp_path / "theirs", tmp_path / "runs")
    with pytest.raises(Unsupported, match="14 tokens, but 3 characters"):
        import_huggingface(tmp_path / "theirs", tmp_path / "runs", vocabulary="012")
    run = import_huggingface(tmp_path / "theirs", tmp_path / "runs", vocabulary="0123456789+=\n$")
    assert run.read_model()[1] == "\n$+0123456789="


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"biases": 0.1}, "has biases (transformer.h.0."),
        ({"activation_function": "relu"}, "activation_function 'relu': this model has 'gelu_new'"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon 1e-06"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx True"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings False"),
        ({"n_inner": 64}, "blocks.0.down.weight is (32, 64), in a model of its sizes it is (32, 128)"),
        ({"model_type": "gpt_neox"}, "turns 0.25 of every head"),
        (
            {"model_type": "gpt_neox", "rope_parameters": {"partial_rotary_factor": 1.0, "rope_theta": 10_000.0}},
            "hidden_act 'gelu': this model has 'gelu_new'",
        ),
        (
            {"model_type": "opt"},
            "has the architecture 'opt'; those that fit ours are gpt2, gpt_neox: 'carryon pretrained add NAME",
        ),
    ],
)
def test_models_that_ours_cannot_be_are_refused_by_name(tmp_path, settings, says):
    foreign(tmp_path / "theirs", **settings) if settings.get("model_type") != "opt" else made_up(tmp_path / "theirs")
    with pytest.raises((Unsupported, BadInput)) as error:
        import_huggingface(tmp_path / "theirs", tmp_path / "runs")
    assert says in str(error.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["rope_scaling", "rope_parameters"])
def test_stretched_positions_are_refused_by_their_old_name_too(made, tmp_path, name):
    _, folder = made("rotary")
    path = Path(shutil.copytree(folder, tmp_path / "it")) / "config.json"
    settings = json.loads(path.read_text()) | {"rotary_pct": 1.0}
    del settings["rope_parameters"]
    for rope in ({"type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 2.0}):
        path.write_text(json.dumps(settings | {name: rope}))
        with pytest.raises(Unsupported, match=r"turns 1\.0 of every head with base 10000 and scaling (linear|dynamic)"):
            import_huggingface(tmp_path / "it", tmp_path / "runs")
    path.write_text(json.dumps(settings))
    assert import_huggingface(tmp_path / "it", tmp_path / "runs").config == made("rotary")[0].config


def made_up(folder):
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "opt", "auto_map": {"AutoConfig": "evil.Evil"}}')
    (folder / "evil.py").write_text("raise SystemExit('remote code was executed')")


def spoil(folder, how):
    weights, record = folder / "model.safetensors", folder / "carryon.json"
    content = json.loads(record.read_text())
    match how:
        case "no config":
            (folder / "config.json").unlink()
        case "config is a list":
            (folder / "config.json").write_text("[]")
        case "a model_type that is a list":
            settings = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps(settings | {"model_type": ["gpt2"]}))
        case "config is cut":
            (folder / "config.json").write_text('{"model_type": "gp')
        case "weights are cut":
            weights.write_bytes(weights.read_bytes()[:1000])
        case "weights are text":
            weights.write_text("hello")
        case "no weights":
            weights.unlink()
        case "a pickle":
            weights.unlink()
            (folder / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n")
        case "shards":
            weights.rename(folder / "model-00001-of-00002.safetensors")
            (folder / "model.safetensors.index.json").write_text("{}")
        case "a layer too few":
            arrays = safetensors.numpy.load_file(weights)
            safetensors.numpy.save_file({k: v for k, v in arrays.items() if ".h.1.mlp.c_fc" not in k}, weights)
        case "a layer too many":
            arrays = safetensors.numpy.load_file(weights)
            safetensors.numpy.save_file(
                arrays | {"transformer.h.7.ln_1.weight": arrays["transformer.ln_f.weight"]}, weights
            )
        case "a layer twice":
            arrays = safetensors.numpy.load_file(weights)
            safetensors.numpy.save_file(arrays | {"wte.weight": arrays["transformer.wte.weight"] * 2}, weights)
        case "an embedding that is one number":
            arrays = safetensors.numpy.load_file(weights)
            safetensors.numpy.save_file(arrays | {"transformer.wte.weight": np.array(1, np.float32)}, weights)
        case "numbers that are none":
            arrays = safetensors.numpy.load_file(weights)
            arrays["transformer.ln_f.weight"][3] = np.nan
            safetensors.numpy.save_file(arrays, weights)
        case "whole numbers":
            arrays = safetensors.numpy.load_file(weights)
            arrays["transformer.ln_f.weight"] = arrays["transformer.ln_f.weight"].astype(np.int32)
            safetensors.numpy.save_file(arrays, weights)
        case "a mask that is not ours":
            arrays = safetensors.numpy.load_file(weights)
            safetensors.numpy.save_file(arrays | {"transformer.h.0.attn.bias": np.ones((1, 1, 32, 32), bool)}, weights)
        case "an output of its own":
            arrays = safetensors.numpy.load_file(weights)
            safetensors.numpy.save_file(arrays | {"lm_head.weight": arrays["transformer.wte.weight"] * 2}, weights)
        case "a name that leads elsewhere":
            content["run"]["evaluations"] = {"../../elsewhere": next(iter(content["run"]["evaluations"].values()))}
            record.write_text(json.dumps(content))
        case "a config that is none":
            content["run"]["config"]["model"]["layers"] = "many"
            record.write_text(json.dumps(content))
        case "no run":
            record.write_text('{"weights": ""}')
        case "another vocabulary":
            content["vocabulary"] = "01"
            record.write_text(json.dumps(content))
        case "half a character":
            content["vocabulary"] = content["vocabulary"][:-1] + "\ud800"
            record.write_text(json.dumps(content))
        case "a record of other sizes":
            content["run"]["config"]["model"]["dropout"] = 0.5
            record.write_text(json.dumps(content))
        case "no tokenizer":
            (folder / "tokenizer.json").unlink()
            record.unlink()
        case "a tokenizer of words":
            record.unlink()
            words = tokenizers.models.WordLevel({"one": 0, "two": 1}, unk_token="one")
            tokenizers.Tokenizer(words).save(str(folder / "tokenizer.json"))
        case "a tokenizer that joins":
            record.unlink()
            characters = "\n$+0123456789="
            joined = tokenizers.Tokenizer(
                tokenizers.models.WordLevel({c: i for i, c in enumerate(characters)}, unk_token="$")
            )
            joined.save(str(folder / "tokenizer.json"))
        case "a broken tokenizer":
            record.unlink()
            (folder / "tokenizer.json").write_text("{}")


@pytest.mark.parametrize(
    ("how", "says"),
    {
        "no config": "is not a folder of Hugging Face's: it has no config.json",
        "config is a list": "is broken: it is not a JSON object",
        "config is cut": "config.json is broken",
        "a model_type that is a list": "has the architecture ['gpt2']; those that fit ours are gpt2, gpt_neox",
        "weights are cut": "model.safetensors is broken",
        "weights are text": "model.safetensors is broken",
        "no weights": "has no model.safetensors",
        "a pickle": "keeps its weights as a pickle (pytorch_model.bin), which can run code",
        "shards": "keeps its weights in several files",
        "a layer too few": "is incomplete: it has no transformer.h.1.mlp.c_fc.weight",
        "a layer too many": "has a weight transformer.h.7.ln_1.weight for which this model has no place",
        "a layer twice": "has the weight transformer.wte.weight twice",
        "an embedding that is one number": "embedding.weight is (1,), in a model of its sizes it is (1, 32)",
        "numbers that are none": "transformer.ln_f.weight with numbers that are not finite (NaN or infinity)",
        "whole numbers": "transformer.ln_f.weight in int32: weights are read in float32, bfloat16, float16, float64",
        "a mask that is not ours": "has biases (transformer.h.0.attn.bias)",
        "an output of its own": "has an output matrix of its own",
        "a name that leads elsewhere": "'../../elsewhere' is not the hash of the evaluation it names",
        "a config that is none": "model.layers",
        "no run": "carryon.json is broken: it does not tell of a run",
        "another vocabulary": "its vocabulary does not fit the model",
        "half a character": "its vocabulary does not fit the model",
        "a record of other sizes": "config.json and carryon.json tell of different models",
        "no tokenizer": "has no tokenizer.json",
        "a tokenizer of words": "is a tokenizer of another kind",
        "a tokenizer that joins": "is a tokenizer of another kind",
        "a broken tokenizer": "is not a tokenizer",
    }.items(),
)
def test_broken_folders_are_refused_in_one_line(made, tmp_path, how, says):
    _, folder = made("learned")
    shutil.copytree(folder, tmp_path / "it")
    spoil(tmp_path / "it", how)
    with pytest.raises(CarryonError) as error:
        command("import", tmp_path / "it", "--runs", tmp_path / "runs")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("result", None, "result: input should be a valid dictionary"),
        ("result device", None, "result.device: input should be a valid string"),
        ("result steps", "abc", "result.steps: input should be a valid integer"),
        ("result steps", 10**30, "result.steps: input should be less than"),
        ("result evaluations", {"0123456789": "most"}, "result.evaluations.0123456789: input should be a valid number"),
        ("origin versions", [1], "origin.versions: input should be a valid dictionary"),
        ("metrics", {"step": 1}, "metrics: input should be a valid list"),
        ("metrics", [{"step": "x"}], "metrics.0.step: input should be a valid integer"),
        ("evaluations", [1], "evaluations: input should be a valid dictionary"),
        ("evaluations *", {"config": 5}, ".config: input should be a valid dictionary"),
        ("evaluations *", {"perplexity": 2.0, "tokens": 5}, ".config: field required"),
        ("evaluations * config", {"limit": 3}, "is not the hash of the evaluation it names"),
        ("evaluations * right", 10**6, "more are right than were asked"),
        ("evaluations * by", {"slice": {"all": [3, 2]}}, "more are right than were asked"),
        ("evaluations * by", {"slice": {"all": 3}}, ".by.slice.all: input should be a valid tuple"),
    ],
)
def test_records_that_break_later_are_refused_first(made, tmp_path, place, value, says):
    """What an import takes, `carryon runs`, `evaluate` and `export` read."""
    _, folder = made("learned")
    record = Path(shutil.copytree(folder, tmp_path / "it")) / "carryon.json"
    content = json.loads(record.read_text())
    *keys, last = place.split()
    inner = content["run"]
    for key in keys:
        inner = inner[key if key != "*" else next(iter(inner))]
    inner[last if last != "*" else next(iter(inner))] = value
    record.write_text(json.dumps(content))
    with pytest.raises(BadInput) as error:
        import_huggingface(tmp_path / "it", tmp_path / "runs")
    assert str(error.value).startswith(f"{record} is broken: ")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


def command(*arguments):
    """What a command prints, without the seconds that a process of its own takes."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        app(list(map(str, arguments)), standalone_mode=False)
    return out.getvalue()


# --- the folder ----------------------------------------------------------------------------------------------------


def test_the_command_line_exports_and_imports(made, tmp_path, monkeypatch):
    run, _ = made("learned")
    monkeypatch.chdir(tmp_path)
    folder = Path("exports") / f"{run.path.name}-hf"
    assert command("export", run.path, "--to", "hf").startswith(f"{folder}: ")
    with pytest.raises(PathExists, match="already there: choose another path, or pass --force"):
        command("export", run.path, "--to", "hf")
    before = (folder / "model.safetensors").stat().st_mtime_ns
    command("export", run.path, "--force")
    assert (folder / "model.safetensors").stat().st_mtime_ns != before
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(PathExists, match="holds more than an exported model"):
        command("export", run.path, "--force")
    Path("link").symlink_to("exports")
    Path("file").write_text("mine")
    for force in ([], ["--force"]):
        with pytest.raises(PathExists, match=r"^link is a link, and links are not replaced: choose another path$"):
            command("export", run.path, "--out", "link", *force)
        with pytest.raises(PathExists, match=r"^file is a file, not a folder: choose another path$"):
            command("export", run.path, "--out", "file", *force)
    Path("circle").symlink_to("circle")
    with pytest.raises(PathExists, match="circle is a link"):
        command("export", run.path, "--out", "circle")
    for inside in ("file/x", "file/x/y", "circle/x"):
        with pytest.raises(OSError, match=f"'{inside}'"):  # what was typed, not a name of ours
            command("export", run.path, "--out", inside)
    with pytest.raises(UnknownName, match="unknown destination 'onnx'; choose from hf, lm-eval"):
        command("export", run.path, "--to", "onnx")
    with pytest.raises(BadRun, match="there is no run 'nothing'"):
        command("export", "nothing")
    with pytest.raises(BadRun, match="is an exported model, not a run: 'carryon import"):
        command("export", folder)
    with pytest.raises(BadInput, match="is a run already: 'carryon evaluate"):
        command("import", run.path)
    assert command("import", folder, "--name", "again").startswith(f"runs/again-{run.config.hash}: ")
    with pytest.raises(BadConfig, match=r"name '\.\./x' cannot name a folder"):
        command("import", folder, "--name", "../x")
    with pytest.raises(BadConfig, match=r"name '\.\./x' cannot name a folder"):
        command("import", folder, "--name", "../x", "--format", "plain")
    assert not list(tmp_path.glob("x-*"))
    with pytest.raises(BadInput, match=r"nothing is not there: name a \.pt file of nanoGPT, or a folder of"):
        command("import", tmp_path / "nothing")
    other = command("import", folder, "--format", "plain")  # told what it is: not the run that it was
    assert Run.open(Path(other.partition(":")[0])).config.data.format.name == "plain"


def test_a_model_without_a_character_to_end_texts_with_says_so(made, tmp_path):
    """Sums end in a newline, which scratchpads are full of, and begin with digits, which answers are made of."""
    run, folder = made("all in use")
    _, tokenizer = opened(folder)
    assert tokenizer.eos_token is None
    assert "Every character of its vocabulary is in use: none is left" in (folder / "README.md").read_text()
    told = "which lm-evaluation-harness wants of a model"
    assert told in command("export", run.path, "--to", "lm-eval", "--out", tmp_path / "tasks")
    assert told not in command("export", made("mixed")[0].path, "--to", "lm-eval", "--out", tmp_path / "others")


def test_runs_that_are_not_finished_are_refused(made, tmp_path):
    run = Run.start(tmp_path, config("learned"))
    with pytest.raises(BadRun, match="no finished model yet"):
        export_huggingface(run, tmp_path / "x")
    shutil.copy(made("learned")[0].path / "model.safetensors", run.path)
    with pytest.raises(BadRun, match="is not finished"):
        export_huggingface(run, tmp_path / "x")


def test_a_missing_library_is_named_with_its_command(made, tmp_path, monkeypatch):
    run, _ = made("learned")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'carryon\[hf\]'"):
        export_huggingface(run, tmp_path / "x")


def test_importing_what_was_exported_needs_no_library(made, tmp_path, monkeypatch):
    run, folder = made("learned")
    for name in ("transformers", "tokenizers"):
        monkeypatch.setitem(sys.modules, name, None)
    assert import_huggingface(folder, tmp_path / "runs").config.hash == run.config.hash
    foreign = Path(shutil.copytree(folder, tmp_path / "foreign"))
    (foreign / "carryon.json").unlink()
    with pytest.raises(MissingExtra, match=r"pip install 'carryon\[hf\]'"):
        import_huggingface(foreign, tmp_path / "runs")


def test_the_card_tells_what_is_known(made):
    from huggingface_hub import ModelCard

    run, folder = made("good")
    text = (folder / "README.md").read_text()
    (result,) = run.evaluations().values()
    right, count = result["right"], result["count"]
    low, high = wilson(right, count)
    for part in (
        f"`{run.config.hash}`",
        "| seed | 0 |",
        f"commit {run.read_origin()['commit']}",
        run.read_result()["device"],
        "| steps | 200 in",
        f"{run.read_result()['parameters']:,} parameters",
        "4,000 examples of `add` of numbers of up to 2 digits",
        f"| the test set, greedy | {right:,} | {count:,} | {percent(right, count)} | {low:.3%} to {high:.3%} |",
    ):
        assert part in text
    card = ModelCard(text)
    assert card.data.library_name == "transformers"
    (scored,) = card.data.eval_results
    assert (scored.metric_type, scored.metric_value) == ("exact_match", right / count)
    assert not list(re.finditer(r"/(?:home|root|tmp|work|Users)/", text + (folder / "carryon.json").read_text()))


@pytest.mark.parametrize("name", ["good", "rotary", "scratchpad"])
def test_what_the_card_shows_is_what_happens(made, name):
    """Both of its pieces of code are run: transformers, then TransformerLens."""
    run, folder = made(name)
    text = (folder / "README.md").read_text()
    use, lens = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    out = io.StringIO()
    names = {}
    with contextlib.redirect_stdout(out):
        exec(use.replace("THIS_FOLDER", str(folder)), names)
    asked, shown = re.search(r'^Asked (\S+) this way it writes (".*?"), which', text, re.MULTILINE).groups()
    assert ast.literal_eval(out.getvalue().strip()).startswith(json.loads(shown))
    assert names["tokenizer"].decode(names["prompt"].input_ids[0]).count(asked.split("+")[0]) >= 1
    with torch.no_grad():
        exec(lens, names)
    ours_BTV, trace = load_model(run, "cpu")[0].trace(names["prompt"].input_ids)
    torch.testing.assert_close(names["logits"], ours_BTV, atol=TOLERANCE, rtol=0)
    for theirs, ours in {
        "blocks.0.attn.hook_pattern": "block0.attention.weights",
        "blocks.1.hook_mlp_out": "block1.mlp.out",
        "blocks.1.hook_resid_post": "block1.out",
    }.items():
        torch.testing.assert_close(names["cache"][theirs], trace[ours], atol=TOLERANCE, rtol=0)


# --- lm-evaluation-harness -----------------------------------------------------------------------------------------


def harness(folder, model, tasks, **options):
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    lm = HFLM(pretrained=str(model), device="cpu", batch_size=250)
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    return lm_eval.simple_evaluate(
        model=lm, tasks=tasks, task_manager=manager, bootstrap_iters=0, verbosity="ERROR", **options
    )


@pytest.mark.parametrize("name", ["good", "scratchpad", "mixed"])
def test_the_harness_counts_what_we_count(made, tmp_path, name):
    run, model = made(name)
    parts = [make_dataset(data, run.config.seed) for data in run.config.parts]
    _, tokenizer = load_model(run, "cpu")
    tasks = export_lm_eval(parts, tmp_path / "tasks", tokenizer=tokenizer, context=run.config.model.context)
    found = harness(tmp_path / "tasks", model, tasks, log_samples=True)
    ours, _ = load_model(run, "cpu")
    for task, part in zip(tasks, parts, strict=True):
        right = ask(ours, tokenizer, part)
        samples = sorted(found["samples"][task], key=lambda sample: sample["doc_id"])
        assert [bool(sample["exact_match"]) for sample in samples] == right
        assert found["results"][task]["exact_match,none"] == pytest.approx(sum(right) / len(right))
    if name == "good":
        (result,) = run.evaluations().values()
        assert found["results"][tasks[0]]["exact_match,none"] == pytest.approx(result["accuracy"])
        assert 0.1 < result["accuracy"] < 0.95  # right and wrong ones, and many of both


def ask(model, tokenizer, part):
    examples = list(part.examples("test"))
    longest = max(len(example.completion) for example in examples)
    complete = Completer(model, tokenizer, part.format.finished, longest + longest // 4 + 8)
    completions = complete([example.prompt for example in examples])
    return [part.format.read(c) == e.answer for c, e in zip(completions, examples, strict=True)]


def test_examples_in_front_stand_as_in_a_stream(made, tmp_path):
    run, model = made("learned")
    part = make_dataset(run.config.data, run.config.seed)
    (task,) = export_lm_eval([part], tmp_path / "tasks", tokenizer=Characters("\n$+=0123456789"))
    found = harness(tmp_path / "tasks", model, [task], limit=5, num_fewshot=1, log_samples=True)
    train_texts = {example.text for example in part.examples("train")}
    for sample in found["samples"][task]:
        prompt = sample["arguments"][0][0]
        assert prompt.endswith(sample["doc"]["prompt"])
        assert prompt.removesuffix(sample["doc"]["prompt"]) in train_texts


@pytest.mark.parametrize(
    ("name", "stop"),
    [(name, None) for name in FORMATS] + [(name, "###") for name in FORMATS if not name.startswith("hosted")],
)
def test_a_task_reads_answers_as_its_format_does(tmp_path, name, stop):
    """Right, wrong, unfinished and garbled ones, cut as the harness cuts them."""
    from lm_eval.models.utils import postprocess_generated_text

    operation = next(o for o in OPERATIONS if o in FORMATS[name].operations)
    format = FormatConfig(name=name, stop=stop)
    data = DataConfig(operation=operation, format=format, num_examples=20, num_test=30, num_validation=5)
    part = make_dataset(data, 0)
    (task,) = export_lm_eval([part], tmp_path / "tasks")
    folder = tmp_path / "tasks" / task
    settings = yaml.safe_load((folder / "task.yaml").read_text().replace("!function", ""))["generation_kwargs"]
    spec = importlib.util.spec_from_file_location("scoring", folder / "scoring.py")
    scoring = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scoring)
    examples = list(part.examples("test"))
    assert scoring.load()["test"].to_list() == [example._asdict() for example in examples]
    rights = 0
    for number, example in enumerate(examples):
        right, other = example.completion, examples[number - 1]
        closing = len(part.format.closing)
        for text in (
            right + example.prompt,  # a stream goes on
            right,
            other.completion + example.text,
            right[:-closing] + "0" * 2_000,  # never finished
            right[1:],
            right.replace("1", "7"),
            "\n" + right,
        ):
            text = text[: settings["max_gen_toks"]]  # one token a character
            given = postprocess_generated_text(text, list(settings["until"]), None)
            expected = part.format.read(cut(text, part.format)) == example.answer
            assert bool(scoring.score(example._asdict(), [given])["exact_match"]) == expected, (text, given)
            rights += expected
    assert rights >= 2 * len(examples)


def test_a_data_set_makes_a_task_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = DataConfig(num_examples=50, num_test=40, num_validation=5)
    write_dataset(make_dataset(data, 3), Path("sums"))
    assert command("export", "sums", "--to", "lm-eval").startswith("exports/sums-lm-eval: lm_eval run ")
    rows = Path("exports/sums-lm-eval/carryon_add_reverse_3/test.jsonl").read_text().splitlines()
    assert [json.loads(row) for row in rows] == [e._asdict() for e in make_dataset(data, 3).examples("test")]
    command("export", "sums", "--to", "lm-eval", "--force")
    Path("exports/sums-lm-eval/mine.txt").write_text("x")
    with pytest.raises(PathExists, match="holds more than tasks for lm-eval"):
        command("export", "sums", "--to", "lm-eval", "--force")
    with pytest.raises(Unsupported, match="no test problems"):
        export_lm_eval([make_dataset(data.model_copy(update={"num_test": 0}))], tmp_path / "none")
    tokenizer = Characters("\n$+=0123456789")
    with pytest.raises(Unsupported, match="does not fit the model's context"):
        export_lm_eval([make_dataset(data)], tmp_path / "none", tokenizer=tokenizer, context=4)
    assert not (tmp_path / "none").exists()


def test_questions_asked_later_are_in_the_next_export(made, tmp_path):
    run, _ = made("learned")
    copy = Run.open(Path(shutil.copytree(run.path, tmp_path / run.path.name)))
    question = EvaluationConfig(prefix="\n", limit=10)
    result = next(iter(run.evaluations().values()))
    copy.write_evaluation(question.hash, result | {"config": question.model_dump(mode="json"), "right": 3, "count": 10})
    text = (export_huggingface(copy, tmp_path / "out") / "README.md").read_text()
    assert "| the test set, after '\\n', greedy, first 10 problems | 3 | 10 | 30.000% |" in text
    assert text.count("exact_match") == 1  # the Hub is told of what was planned


def test_the_card_lists_planned_questions_first_and_tells_all_apart(made, tmp_path):
    run, _ = made("learned")
    planned = (EvaluationConfig(problems="train", limit=100), EvaluationConfig())
    config = run.config.model_copy(update={"evaluations": planned})
    copy = Run(Path(shutil.copytree(run.path, tmp_path / run.path.name)), config)
    result = next(iter(run.evaluations().values()))
    other = DataConfig(digits=2, format=FormatConfig(name="plain"))
    later = [
        EvaluationConfig(limit=1),
        EvaluationConfig(limit=1_500),
        EvaluationConfig(examples=2, example_set=3),
        EvaluationConfig(examples=2),
        EvaluationConfig(temperature=0.5, seed=4),
        EvaluationConfig(temperature=0.5),
        EvaluationConfig(temperature=0.5, top_k=2),
        EvaluationConfig(data=other),
        EvaluationConfig(data=other.model_copy(update={"split_seed": 1})),
        EvaluationConfig(data=other.model_copy(update={"format": FormatConfig(name="reverse")}), prefix="\n"),
    ]
    for question in (*later, *planned):
        copy.write_evaluation(question.hash, result | {"config": question.model_dump(mode="json")})
    text = (export_huggingface(copy, tmp_path / "out") / "README.md").read_text()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in text.partition("| asked |")[2].splitlines()[2:]]
    rows = [row for row in rows[: rows.index("")] if not row.startswith("– ")]
    assert rows[:2] == ["the train set, greedy, first 100 problems", "the test set, greedy"]
    assert rows[2:] == sorted(rows[2:])
    assert len(set(rows)) == len(rows) == 12
    same = EvaluationConfig(data=other)  # in words it is as the next one: then the hash tells them apart
    assert f"the test set of 2-digit add, greedy, format plain ({same.hash})" in rows
    assert "the test set, greedy, first 1 problem" in rows
    assert "the test set, greedy, first 1,500 problems" in rows
    assert "the test set, after 2 examples, greedy, example set 3" in rows
    assert "the test set, sampled at 0.5, seed 4" in rows
    header = yaml.safe_load(text.split("---\n")[1])
    names = [found["dataset"]["name"] for found in header["model-index"][0]["results"]]
    assert names == rows[:2]


@pytest.mark.parametrize(
    ("mixing", "says", "limit"),
    [
        ("dialogue", "trained on the text `sample` as well: a random number", "whatever it has learnt of the text"),
        ("blocks", "trained on the text `sample` as well: some passages", "whatever it has learnt of the text"),
        ("none", "not trained on text: the characters of the text `sample` only joined", "and nothing else"),
    ],
)
def test_the_card_tells_of_text_that_was_mixed_in(tmp_path, mixing, says, limit):
    settings = {
        "data": {"digits": 2, "num_examples": 300, "num_test": 20, "num_validation": 10},
        "text": {"corpus": "sample", "mixing": mixing, "held_out": 0.25},
        "model": {"layers": 1, "heads": 1, "width": 16, "context": 64},
        "train": {"steps": 2, "batch_size": 4, "window": 48},
    }
    with torch.enable_grad():
        run = train(load(RunConfig, settings), tmp_path / "runs", device="cpu")
    text = (export_huggingface(run, tmp_path / "out") / "README.md").read_text()
    assert says in text
    assert "at most 64 tokens, prompt and completion together, and was trained on 48 at a time." in text
    assert limit in text
    assert ("nothing else" in text) == (mixing == "none")
    assert ("The last 25% of the text was held out" in text) == (mixing != "none")
    assert "| model | 1 layer, 1 head, width 16," in text


def test_a_long_completion_that_is_wrong_is_clipped(tmp_path):
    settings = {
        "data": {"format": "detailed_scratchpad", "num_examples": 50, "num_test": 20, "num_validation": 10},
        "model": {"layers": 1, "heads": 1, "width": 16, "context": 600},
        "train": {"steps": 1, "batch_size": 4},
    }
    with torch.enable_grad():
        run = train(load(RunConfig, settings), tmp_path / "runs", device="cpu")
    text = (export_huggingface(run, tmp_path / "out") / "README.md").read_text()
    written, more = re.search(
        r'this way it writes (".*") and (\d+) characters more, which is not an answer', text
    ).groups()
    assert len(json.loads(written)) == 200
    assert int(more) > 100
