import errno
import math
import pickle
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from carryon.cli import app
from carryon.config import DataConfig, ModelConfig, load
from carryon.errors import BadConfig, BadInput, PathExists, Unsupported
from carryon.generation import Completer
from carryon.interop.nanogpt import import_nanogpt
from carryon.runs import Run, run_folders
from carryon.training import load_model

torch.set_num_threads(1)
CHARACTERS = "\n+=0123456789"
DATA = load(DataConfig, {"format": "plain"})
SIZES = {"n_layer": 2, "n_head": 2, "n_embd": 16, "block_size": 24, "vocab_size": 13, "bias": False, "dropout": 0.1}


def checkpoint(**extra):
    """A checkpoint as nanoGPT writes it, biases off, weights tied."""
    torch.manual_seed(1)
    layers, width, context, vocab = (SIZES[name] for name in ("n_layer", "n_embd", "block_size", "vocab_size"))
    state = {"transformer.wte.weight": torch.randn(vocab, width), "transformer.wpe.weight": torch.randn(context, width)}
    for layer in range(layers):
        for name, shape in {
            "ln_1.weight": (width,),
            "attn.c_attn.weight": (3 * width, width),
            "attn.c_proj.weight": (width, width),
            "ln_2.weight": (width,),
            "mlp.c_fc.weight": (4 * width, width),
            "mlp.c_proj.weight": (width, 4 * width),
        }.items():
            state[f"transformer.h.{layer}.{name}"] = torch.randn(shape) * 0.3
    state["transformer.ln_f.weight"] = torch.randn(width)
    state["lm_head.weight"] = state["transformer.wte.weight"]
    return {"model": state, "model_args": SIZES, "iter_num": 7} | extra


def nanogpt(state, tokens, layers=2, heads=2, approximate="tanh"):
    """What nanoGPT computes, written out plainly."""
    norm = lambda x, weight: functional.layer_norm(x, x.shape[-1:], weight)  # noqa: E731
    x = state["transformer.wte.weight"][tokens] + state["transformer.wpe.weight"][: tokens.shape[1]]
    batch, length, width = x.shape
    for layer in range(layers):
        w = {k.removeprefix(f"transformer.h.{layer}."): v for k, v in state.items()}
        q, k, v = (norm(x, w["ln_1.weight"]) @ w["attn.c_attn.weight"].T).split(width, dim=2)
        q, k, v = (t.view(batch, length, heads, width // heads).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // heads)
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + y @ w["attn.c_proj.weight"].T
        hidden = functional.gelu(norm(x, w["ln_2.weight"]) @ w["mlp.c_fc.weight"].T, approximate=approximate)
        x = x + hidden @ w["mlp.c_proj.weight"].T
    return norm(x, state["transformer.ln_f.weight"]) @ state["lm_head.weight"].T


@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
def test_an_imported_model_computes_what_nanogpt_computes(tmp_path, prefix):
    weights = checkpoint()["model"]
    torch.save(checkpoint(model={prefix + name: tensor for name, tensor in weights.items()}), tmp_path / "ckpt.pt")
    run = import_nanogpt(tmp_path / "ckpt.pt", tmp_path, DATA, CHARACTERS)
    model, tokenizer = load_model(run, "cpu")
    tokens = torch.randint(0, 13, (3, 20))
    torch.testing.assert_close(model(tokens), nanogpt(weights, tokens), atol=1e-4, rtol=1e-4)
    assert tokenizer.vocabulary == "".join(sorted(CHARACTERS))
    assert len(Completer(model, tokenizer, lambda text: "\n" in text, 5)(["1+2="])) == 1
    assert run.is_done


def saved(folder, **changes):
    """A checkpoint's file, some of its weights replaced, or left out where the new one is None."""
    content = checkpoint()
    content["model"] = {name: t for name, t in (content["model"] | changes).items() if t is not None}
    folder.mkdir(exist_ok=True)
    torch.save(content, folder / "ckpt.pt")
    return folder / "ckpt.pt"


def test_another_file_is_another_run_and_the_same_is_refused(tmp_path):
    one = import_nanogpt(saved(tmp_path / "x"), tmp_path / "runs", DATA, CHARACTERS)
    one.write_evaluation("0123456789", {"right": 1})
    weights = one.read_model()[0]
    other = saved(tmp_path / "y", **{"transformer.ln_f.weight": torch.ones(16)})
    two = import_nanogpt(other, tmp_path / "runs", DATA, CHARACTERS)
    assert two.path != one.path
    assert two.evaluations() == {}
    with pytest.raises(PathExists, match="is already there: give another --name or --runs"):
        import_nanogpt(tmp_path / "x" / "ckpt.pt", tmp_path / "runs", DATA, CHARACTERS)
    assert one.evaluations() == {"0123456789": {"right": 1}}
    assert all((weights[name] == array).all() for name, array in one.read_model()[0].items())
    with pytest.raises(BadConfig, match=r"name '\.\./x' cannot name a folder"):
        import_nanogpt(tmp_path / "x" / "ckpt.pt", tmp_path / "runs", DATA, CHARACTERS, name="../x")


def test_what_a_checkpoint_tells_of_itself_is_kept(tmp_path):
    run = import_nanogpt(saved(tmp_path), tmp_path, DATA, CHARACTERS)
    assert run.config.model == ModelConfig(layers=2, heads=2, width=16, context=24, dropout=0.1)
    result = run.read_result()
    assert (result["steps"], result["stopped"]) == (7, "imported from ckpt.pt")
    assert result["parameters"] == load_model(run, "cpu")[0].num_parameters


def test_what_computes_nothing_of_its_own_may_be_there(tmp_path):
    """The mask that nanoGPT stores where torch has no fused attention, and biases of zeros."""
    mask = torch.ones(24, 24).tril().view(1, 1, 24, 24)
    more = {"transformer.h.0.attn.bias": mask, "transformer.h.1.ln_1.bias": torch.zeros(16), "lm_head.weight": None}
    run = import_nanogpt(saved(tmp_path, **more), tmp_path, DATA, CHARACTERS)
    plain = import_nanogpt(saved(tmp_path), tmp_path, DATA, CHARACTERS)
    assert all((run.read_model()[0][name] == array).all() for name, array in plain.read_model()[0].items())


@pytest.mark.parametrize(
    ("name", "weight", "says"),
    [
        ("lm_head.weight", torch.ones(13, 16), "has an output matrix of its own"),
        ("transformer.h.0.attn.q_norm.weight", torch.ones(16), "h.0.attn.q_norm.weight for which this model has no"),
        (
            "transformer.h.0.moe.w",
            torch.ones(3),
            "has a weight transformer.h.0.moe.w for which this model has no place",
        ),
        ("transformer.h.0.attn.bias", torch.eye(24).view(1, 1, 24, 24), "has biases"),  # a mask of another kind
        ("transformer.h.0.ln_1.bias", torch.ones(16), "has biases (transformer.h.0.ln_1.bias): this model has none"),
        ("_orig_mod.transformer.ln_f.weight", torch.ones(16), "has the weight transformer.ln_f.weight twice"),
        ("transformer.h.1.ln_2.weight", None, "is incomplete: it has no transformer.h.1.ln_2.weight"),
        ("transformer.wpe.weight", None, "position.table.weight is None, in a model of its sizes it is (24, 16)"),
        ("transformer.wpe.weight", torch.ones(24), "position.table.weight is (24,), in a model of its sizes"),
        ("transformer.wte.weight", torch.tensor(1.0), "has an output matrix of its own"),
        ("transformer.h.0.mlp.c_fc.weight", torch.ones(32, 16), "blocks.0.up.weight is (32, 16), in a model of"),
        ("transformer.ln_f.weight", torch.full((16,), float("nan")), "ln_f.weight with numbers that are not finite"),
        ("transformer.ln_f.weight", torch.full((16,), 1e300, dtype=torch.float64), "numbers that are not finite"),
        ("transformer.ln_f.weight", torch.ones(16).to_sparse(), "does not hold all numbers of transformer.ln_f.weight"),
        ("transformer.ln_f.weight", torch.ones(16, device="meta"), "does not hold all numbers of transformer.ln_f"),
        ("transformer.ln_f.weight", torch.ones(1).expand(10**15), "does not hold all numbers of transformer.ln_f"),
        ("transformer.ln_f.weight", torch.ones(16, dtype=torch.complex64), "transformer.ln_f.weight in complex64"),
        ("transformer.ln_f.weight", torch.ones(16, dtype=torch.int64), "transformer.ln_f.weight in int64: weights are"),
    ],
)
def test_weights_that_this_model_cannot_have_are_refused(tmp_path, name, weight, says):
    with pytest.raises((BadInput, Unsupported)) as error:
        import_nanogpt(saved(tmp_path, **{name: weight}), tmp_path / "runs", DATA, CHARACTERS)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"iter_num": None}, "its iter_num, 'None', is no number of steps"),
        ({"iter_num": "x"}, "its iter_num, 'x', is no number of steps"),
        ({"iter_num": -1}, "its iter_num, '-1', is no number of steps"),
        ({"model_args": None}, "it has no 'model_args' with the sizes of its model"),
        ({"model_args": {"n_layer": 2, "n_head": 2, "n_embd": 16}}, "is incomplete: its model_args has no block_size"),
        ({"model_args": SIZES | {"n_head": "two"}}, "does not fit ours: heads: input should be a valid integer"),
        ({"model_args": SIZES | {"n_head": 3}}, "does not fit ours: width 16 cannot be shared by 3 heads"),
        ({"model_args": SIZES | {"n_layer": 3}}, "is incomplete: it has no transformer.h.2."),
        ({"model_args": SIZES | {"block_size": 23}}, "position.table.weight is (24, 16), in a model of its sizes"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, changes, says):
    torch.save(checkpoint(**changes), tmp_path / "ckpt.pt")
    with pytest.raises(BadInput) as error:
        import_nanogpt(tmp_path / "ckpt.pt", tmp_path / "runs", DATA, CHARACTERS)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_half_a_run_does_not_stay(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Run, "write_result", full)
    with pytest.raises(OSError, match="No space left"):
        import_nanogpt(saved(tmp_path), tmp_path / "runs", DATA, CHARACTERS)
    assert list((tmp_path / "runs").iterdir()) == []


def test_the_command_says_what_the_file_does_not(tmp_path, capsys):
    vocabulary = CHARACTERS.replace("\n", "\\n")
    arguments = ["import", saved(tmp_path), "--vocabulary", vocabulary, "--runs", tmp_path / "runs"]
    app(list(map(str, arguments)), standalone_mode=False)
    made, note = capsys.readouterr().out.splitlines()
    assert made.startswith(str(tmp_path / "runs" / "nanogpt-"))
    assert "GELU" in note
    (run,) = map(Run.open, run_folders(tmp_path / "runs"))
    model, _ = load_model(run, "cpu")
    tokens = torch.randint(0, 13, (8, 24))
    newer = nanogpt(checkpoint()["model"], tokens, approximate="none")
    assert 1e-4 < (model(tokens) - newer).abs().max() < 0.02  # logits of about 10


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('a pickle was executed')",))


def test_a_pickle_is_never_executed(tmp_path):
    path = tmp_path / "bomb.pt"
    torch.save({"model": Bomb()}, path)
    with pytest.raises(BadInput) as error:
        import_nanogpt(path, tmp_path, DATA)
    assert str(error.value) == (
        f"{path} holds more than tensors and plain values (exec), so it cannot be read safely: nothing of it was run. "
        "Name a .pt file that nanoGPT wrote, or a folder of Hugging Face's"
    )
    path.write_bytes(pickle.dumps({"model": Bomb()}))  # torch would warn of its protocol, too
    with pytest.raises(BadInput, match="is not a checkpoint of torch's, so it cannot be read safely: nothing of it"):
        import_nanogpt(path, tmp_path, DATA)


def test_files_that_are_something_else_are_refused(tmp_path):
    path = tmp_path / "x.pt"
    for content in (b"", b"hello", b"PK\x03\x04", b"root:x:0:0:root:/root:/bin/bash\n"):
        path.write_bytes(content)
        with pytest.raises(BadInput, match="is not a checkpoint of torch's"):
            import_nanogpt(path, tmp_path, DATA)
    for content in ([1, 2], {"model": 3}, {"model": {}}, {"model": {"a": 1}}, checkpoint(model_args=3)):
        torch.save(content, path)
        with pytest.raises(BadInput, match="is not a nanoGPT checkpoint: it has no 'model"):
            import_nanogpt(path, tmp_path, DATA)
    with pytest.raises(BadInput, match="is one file of a Hugging Face folder: import the folder, there"):
        import_nanogpt(Path("there/model.safetensors"), tmp_path, DATA)
    torch.save(checkpoint(), path)
    with pytest.raises(Unsupported, match="has 13 tokens, but 96 characters were given: name them with --vocabulary"):
        import_nanogpt(path, tmp_path, DATA)
    with pytest.raises(BadInput, match="is not text: it holds half a character"):  # as a shell may pass it
        import_nanogpt(path, tmp_path, DATA, CHARACTERS[:-1] + "\udcff")
    nothing = {"transformer.wte.weight": torch.ones(0, 16), "lm_head.weight": None}
    with pytest.raises(BadInput, match="has an embedding of no tokens"):
        import_nanogpt(saved(tmp_path, **nothing), tmp_path, DATA, "")
    assert not list(tmp_path.glob("nanogpt-*"))
