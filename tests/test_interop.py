import math

import pytest
import torch
from torch.nn import functional

from carryon.config import DataConfig, load
from carryon.errors import BadInput, Unsupported
from carryon.generation import Completer
from carryon.interop.nanogpt import import_nanogpt
from carryon.training import load_model

torch.set_num_threads(1)
CHARACTERS = "\n+=0123456789"
DATA = load(DataConfig, {"format": "plain"})


def checkpoint(layers=2, heads=2, width=16, context=24, vocab=13, **extra):
    """A checkpoint as nanoGPT writes it, biases off, weights tied."""
    torch.manual_seed(1)
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
    return {"model": state, "model_args": {"n_head": heads, "n_layer": layers}, "iter_num": 7} | extra


def nanogpt(state, tokens, layers=2, heads=2):
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
        hidden = functional.gelu(norm(x, w["ln_2.weight"]) @ w["mlp.c_fc.weight"].T, approximate="tanh")
        x = x + hidden @ w["mlp.c_proj.weight"].T
    return norm(x, state["transformer.ln_f.weight"]) @ state["lm_head.weight"].T


@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
def test_an_imported_model_computes_what_nanogpt_computes(tmp_path, prefix):
    saved = checkpoint()
    named = saved | {"model": {prefix + name: tensor for name, tensor in saved["model"].items()}}
    torch.save(named, tmp_path / "ckpt.pt")
    run = import_nanogpt(tmp_path / "ckpt.pt", tmp_path, DATA, CHARACTERS)
    model, tokenizer = load_model(run, "cpu")
    tokens = torch.randint(0, 13, (3, 20))
    torch.testing.assert_close(model(tokens), nanogpt(saved["model"], tokens), atol=1e-4, rtol=1e-4)
    assert tokenizer.vocabulary == "".join(sorted(CHARACTERS))
    assert len(Completer(model, tokenizer, lambda text: "\n" in text, 5)(["1+2="])) == 1
    assert run.is_done


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('a pickle was executed')",))


def test_a_pickle_is_never_executed(tmp_path):
    torch.save({"model": Bomb()}, tmp_path / "bomb.pt")
    with pytest.raises(BadInput, match="cannot be read safely"):
        import_nanogpt(tmp_path / "bomb.pt", tmp_path, DATA)


def test_files_that_are_something_else_are_refused(tmp_path):
    path = tmp_path / "x.pt"
    for content in (b"", b"hello", b"PK\x03\x04", b"root:x:0:0:root:/root:/bin/bash\n"):
        path.write_bytes(content)
        with pytest.raises(BadInput):
            import_nanogpt(path, tmp_path, DATA)
    for saved in (
        [1, 2],
        {"model": 3},
        {"model": {}},
        {"model": {"a": 1}},
        checkpoint(model_args={}),
        checkpoint(model_args=3),
    ):
        torch.save(saved, path)
        with pytest.raises(BadInput):
            import_nanogpt(path, tmp_path, DATA)
    torch.save(checkpoint(), path)
    with pytest.raises(Unsupported, match="13 characters, but 96 were given"):
        import_nanogpt(path, tmp_path, DATA)
    biased = checkpoint()
    biased["model"]["transformer.h.0.ln_1.bias"] = torch.ones(16)
    torch.save(biased, path)
    with pytest.raises(Unsupported, match="has biases"):
        import_nanogpt(path, tmp_path, DATA, CHARACTERS)
    assert not list(tmp_path.glob("nanogpt-*"))
