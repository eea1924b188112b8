"""Our model in the words of architectures that other tools know, and back. Numbers are moved, never changed.

    learned, sinusoidal, none   GPT-2: what ours adds to the embedding is its position table, of zeros for none
    rotary                      GPT-NeoX: attention first, then the MLP, and the whole of every head turned

Both have biases, which are zeros here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..config import ModelConfig, load
from ..errors import BadConfig, BadInput, Unsupported
from ..model import Decoder
from ..positions import Sinusoidal
from ..runs import Arrays

_EPSILON = 1e-5
"""Of nn.LayerNorm, which ours are."""
_TANH_GELU = ("gelu_new", "gelu_pytorch_tanh")
_FLOATS = ("float32", "bfloat16", "float16", "float64")


class Architecture(ABC):
    """One of transformers' models, to be filled with our weights."""

    name: ClassVar[str]
    """Its model_type in config.json."""
    model_class: ClassVar[str]
    positions: ClassVar[tuple[str, ...]]
    """The kinds of ours it can stand for; the first is the one it is read as when nothing is known."""
    prefix: ClassVar[str]
    """In front of every weight's name; some files leave it out."""
    blocks: ClassVar[str]
    whole: ClassVar[Mapping[str, str]]
    """Weights that exist once: our name and its name."""
    parts: ClassVar[Mapping[str, str]]
    """Weights of every block."""
    output_axis: ClassVar[int]
    """Of its matrices; biases are as long as this axis."""
    sizes: ClassVar[Mapping[str, str]]
    """What config.json calls the sizes of ours."""
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]]
    """What config.json must say for a model like ours: every value that will do, first what it means to say nothing."""
    settings_name: ClassVar[str] = "config.json"

    @abstractmethod
    def settings(self, sizes: ModelConfig, vocab_size: int) -> dict[str, Any]:
        """All that config.json needs to say."""

    @abstractmethod
    def turn(self, part: str, array: Any, heads: int) -> Any:
        """A matrix of a block, as this architecture keeps it."""

    @abstractmethod
    def turn_back(self, part: str, array: Any, heads: int) -> Any: ...

    def position_weights(self, arrays: Arrays, sizes: ModelConfig) -> Arrays:
        return {}

    def read_positions(self, theirs: Arrays, sizes: ModelConfig) -> tuple[ModelConfig, Arrays]:
        """The kind of positions these weights are, and ours for them. Takes what it has read out of `theirs`."""
        return sizes, {}

    def names(self, layers: int) -> dict[str, str]:
        """Ours to theirs, for all weights but those of positions."""
        named = {ours: self.prefix + theirs for ours, theirs in self.whole.items()}
        for layer in range(layers):
            for ours, theirs in self.parts.items():
                named[f"blocks.{layer}.{ours}"] = f"{self.prefix}{self.blocks}.{layer}.{theirs}"
        return named

    def write(self, arrays: Arrays, sizes: ModelConfig) -> Arrays:
        """All weights by its names, biases of zeros among them; the output is tied to the embedding and left out."""
        theirs = self.position_weights(arrays, sizes)
        for ours, name in self.names(sizes.layers).items():
            array = np.ascontiguousarray(self.turn(_part(ours), arrays[ours], sizes.heads))
            theirs[name] = array
            if ours != "embedding.weight":
                bias = name.removesuffix("weight") + "bias"
                theirs[bias] = np.zeros(array.shape[self.output_axis if array.ndim > 1 else 0], array.dtype)
        return theirs

    def read(
        self, theirs: Arrays, settings: Mapping[str, Any], where: str, position: str | None = None
    ) -> tuple[ModelConfig, Arrays]:
        """Sizes and weights of one of its models as ours; Unsupported names what ours does not have."""
        sizes = self._read_sizes(settings, where, position)
        theirs = self._with_full_names(theirs, where)
        head = next((theirs.pop(name) for name in ("lm_head.weight", "embed_out.weight") if name in theirs), None)
        sizes, arrays = self.read_positions(theirs, sizes)
        ours = {name: mine for mine, name in self.names(sizes.layers).items()}
        for name, array in theirs.items():
            if name in ours:
                mine = ours[name]
                arrays[mine] = np.ascontiguousarray(self.turn_back(_part(mine), array, sizes.heads))
            elif name.endswith((".masked_bias", ".inv_freq")) or (name.endswith(".bias") and _is_causal_mask(array)):
                continue  # masks and angles that old versions stored: computed, not learned
            elif name.endswith(".bias") and not array.any():
                continue
            elif name.endswith(".bias"):
                raise Unsupported(f"{where} has biases ({name}): this model has none")
            else:
                raise Unsupported(f"{where} has a weight {name} for which this model has no place")
        if missing := [name for name, mine in ours.items() if mine not in arrays]:
            raise BadInput(f"{where} is incomplete: it has no {missing[0]}")
        if head is not None and not np.array_equal(head, arrays["embedding.weight"]):
            raise Unsupported(f"{where} has an output matrix of its own: here it is tied to the embedding")
        _check_shapes(arrays, sizes, where)
        return sizes, arrays

    def _with_full_names(self, theirs: Arrays, where: str) -> Arrays:
        full: Arrays = {}
        for name, array in theirs.items():
            name = name.removeprefix("_orig_mod.")  # what torch.compile puts in front
            if not name.startswith((self.prefix, "lm_head.", "embed_out.")):
                name = self.prefix + name
            if name in full:
                raise Unsupported(f"{where} has the weight {name} twice")
            full[name] = array
        return full

    def _read_sizes(self, settings: Mapping[str, Any], where: str, position: str | None) -> ModelConfig:
        for key, allowed in self.fixed.items():
            given = settings.get(key, allowed[0])
            if given not in allowed[1:]:
                raise Unsupported(f"{where} has {key} {given!r}: this model has {allowed[1]!r}")
        values = {ours: settings.get(theirs) for ours, theirs in self.sizes.items()}
        if missing := [self.sizes[ours] for ours, value in values.items() if value is None and ours != "dropout"]:
            raise BadInput(f"{where} is incomplete: its {self.settings_name} has no {missing[0]}")
        values["dropout"] = values["dropout"] or 0.0
        kind = position if position in self.positions else self.positions[0]
        try:
            return load(ModelConfig, values | {"position": kind})
        except BadConfig as error:
            raise BadInput(f"the {self.settings_name} of {where} does not fit ours: {error}") from None


class Gpt2Architecture(Architecture):
    name = "gpt2"
    model_class = "GPT2LMHeadModel"
    positions = ("learned", "sinusoidal", "none")
    prefix = "transformer."
    blocks = "h"
    whole: ClassVar = {"embedding.weight": "wte.weight", "norm.weight": "ln_f.weight"}
    parts: ClassVar = {
        "attention_norm.weight": "ln_1.weight",
        "attention.query_key_value.weight": "attn.c_attn.weight",
        "attention.out.weight": "attn.c_proj.weight",
        "mlp_norm.weight": "ln_2.weight",
        "up.weight": "mlp.c_fc.weight",
        "down.weight": "mlp.c_proj.weight",
    }
    output_axis = 1
    sizes: ClassVar = {
        "layers": "n_layer",
        "heads": "n_head",
        "width": "n_embd",
        "context": "n_positions",
        "dropout": "resid_pdrop",
    }
    fixed: ClassVar = {
        "activation_function": ("gelu_new", *_TANH_GELU),
        "layer_norm_epsilon": (_EPSILON, _EPSILON),
        "scale_attn_weights": (True, True),
        "scale_attn_by_inverse_layer_idx": (False, False),
        "tie_word_embeddings": (True, True),
        "add_cross_attention": (False, False),
    }

    def settings(self, sizes: ModelConfig, vocab_size: int) -> dict[str, Any]:
        return {
            "vocab_size": vocab_size,
            "n_positions": sizes.context,
            "n_embd": sizes.width,
            "n_layer": sizes.layers,
            "n_head": sizes.heads,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": _EPSILON,
            "resid_pdrop": sizes.dropout,
            "embd_pdrop": sizes.dropout,
            "attn_pdrop": sizes.dropout,
            "tie_word_embeddings": True,
        }

    def turn(self, part: str, array: Any, heads: int) -> Any:
        return array.T if part in self.parts and array.ndim == 2 else array  # its matrices are written inputs first

    turn_back = turn

    def position_weights(self, arrays: Arrays, sizes: ModelConfig) -> Arrays:
        return {"transformer.wpe.weight": arrays.get("position.table.weight", _fixed_table(sizes))}

    def read_positions(self, theirs: Arrays, sizes: ModelConfig) -> tuple[ModelConfig, Arrays]:
        table = theirs.pop("transformer.wpe.weight", None)
        if table is None:
            return sizes, {}  # what is missing is named with all else that is
        if sizes.position != "learned":
            # Shapes first: what a config promises need not fit the memory.
            fits = table.shape == (sizes.context, sizes.width)
            if fits and np.allclose(table, _fixed_table(sizes), rtol=0, atol=1e-6):
                return sizes, {}
            sizes = sizes.model_copy(update={"position": "learned"})  # trained on elsewhere
        return sizes, {"position.table.weight": np.ascontiguousarray(table)}


class GptNeoxArchitecture(Architecture):
    name = "gpt_neox"
    model_class = "GPTNeoXForCausalLM"
    positions = ("rotary",)
    prefix = "gpt_neox."
    blocks = "layers"
    whole: ClassVar = {"embedding.weight": "embed_in.weight", "norm.weight": "final_layer_norm.weight"}
    parts: ClassVar = {
        "attention_norm.weight": "input_layernorm.weight",
        "attention.query_key_value.weight": "attention.query_key_value.weight",
        "attention.out.weight": "attention.dense.weight",
        "mlp_norm.weight": "post_attention_layernorm.weight",
        "up.weight": "mlp.dense_h_to_4h.weight",
        "down.weight": "mlp.dense_4h_to_h.weight",
    }
    output_axis = 0
    sizes: ClassVar = {
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "width": "hidden_size",
        "context": "max_position_embeddings",
        "dropout": "hidden_dropout",
    }
    fixed: ClassVar = {
        "hidden_act": ("gelu", *_TANH_GELU),
        "layer_norm_eps": (_EPSILON, _EPSILON),
        "use_parallel_residual": (True, False),
        "tie_word_embeddings": (False, True),
    }

    def settings(self, sizes: ModelConfig, vocab_size: int) -> dict[str, Any]:
        return {
            "vocab_size": vocab_size,
            "max_position_embeddings": sizes.context,
            "hidden_size": sizes.width,
            "intermediate_size": 4 * sizes.width,
            "num_hidden_layers": sizes.layers,
            "num_attention_heads": sizes.heads,
            "hidden_act": "gelu_new",
            "layer_norm_eps": _EPSILON,
            "attention_dropout": sizes.dropout,
            "hidden_dropout": sizes.dropout,
            "use_parallel_residual": False,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0},
            "tie_word_embeddings": True,
        }

    def turn(self, part: str, array: Any, heads: int) -> Any:
        if part != "attention.query_key_value.weight":
            return array
        outputs, width = (
            array.shape
        )  # ours: all queries, all keys, all values; theirs: one head's of each after the other
        return array.reshape(3, heads, -1, width).swapaxes(0, 1).reshape(outputs, width)

    def turn_back(self, part: str, array: Any, heads: int) -> Any:
        if part != "attention.query_key_value.weight" or array.ndim != 2 or array.shape[0] % (3 * heads):
            return array
        outputs, width = array.shape
        return array.reshape(heads, 3, -1, width).swapaxes(0, 1).reshape(outputs, width)

    def _read_sizes(self, settings: Mapping[str, Any], where: str, position: str | None) -> ModelConfig:
        rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}  # the older name of the two
        rope = rope if isinstance(rope, Mapping) else {}
        kind = rope.get("rope_type", rope.get("type", "default"))
        turned = rope.get("partial_rotary_factor", settings.get("rotary_pct", 0.25))
        base = rope.get("rope_theta", settings.get("rotary_emb_base", 10_000))
        if turned != 1 or base != 10_000 or kind != "default":
            raise Unsupported(
                f"{where} turns {turned} of every head with base {base} and scaling {kind}: "
                "this model turns all of it with base 10000 and scaling default"
            )
        return super()._read_sizes(settings, where, position)


ARCHITECTURES: dict[str, Architecture] = {a.name: a for a in (Gpt2Architecture(), GptNeoxArchitecture())}


def architecture_for(sizes: ModelConfig) -> Architecture:
    """The architecture that computes exactly what a model of ours computes."""
    if sizes.ids != "places" or sizes.reach is not None or sizes.loops > 1:
        what = f"{sizes.ids} ids" if sizes.ids != "places" else "loops" if sizes.loops > 1 else "a limited reach"
        raise Unsupported(f"a model with {what} cannot be exported: no architecture of transformers computes them")
    for architecture in ARCHITECTURES.values():
        if sizes.position in architecture.positions:
            return architecture
    known = ", ".join(sorted(kind for a in ARCHITECTURES.values() for kind in a.positions))
    raise Unsupported(
        f"a model with {sizes.position} positions cannot be exported: no architecture of transformers computes them; "
        f"those with {known} positions can"
    )


def _part(ours: str) -> str:
    """blocks.3.up.weight is an up.weight."""
    return ours.split(".", 2)[2] if ours.startswith("blocks.") else ours


def _fixed_table(sizes: ModelConfig) -> Any:
    """What positions that are not learned add to the embedding."""
    if sizes.position == "sinusoidal":
        return Sinusoidal(sizes).table_TD.numpy()
    return np.zeros((sizes.context, sizes.width), np.float32)


def plain_arrays(tensors: Iterable[tuple[str, Tensor]], where: str) -> Arrays:
    """A file's tensors in float32; BadInput names one that is no full table of finite numbers."""
    arrays: Arrays = {}
    for name, tensor in tensors:
        kind = str(tensor.dtype).removeprefix("torch.")
        if kind not in _FLOATS and not (name.endswith(".bias") and kind in ("bool", "uint8")):  # as masks are kept
            raise BadInput(f"{where} has {name} in {kind}: weights are read in {', '.join(_FLOATS)}")
        # Something sparse, or a few numbers that claim to be very many.
        whole = tensor.layout == torch.strided and not tensor.is_meta and not tensor.is_nested
        if not whole or tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size():
            raise BadInput(f"{where} does not hold all numbers of {name}: save it as a plain tensor")
        arrays[name] = tensor.detach().resolve_neg().float().numpy()
        if not np.isfinite(arrays[name]).all():
            raise BadInput(f"{where} has {name} with numbers that are not finite (NaN or infinity)")
    return arrays


def _is_causal_mask(array: Any) -> bool:
    return array.ndim == 4 and np.array_equal(array, np.tril(np.ones_like(array)))


def _check_shapes(arrays: Arrays, sizes: ModelConfig, where: str) -> None:
    if not arrays["embedding.weight"].size:
        raise BadInput(f"{where} has an embedding of no tokens")
    with torch.device("meta"):  # shapes alone: what a config promises need not fit the memory
        expected = {n: tuple(t.shape) for n, t in Decoder(sizes, len(arrays["embedding.weight"])).state_dict().items()}
    for name in sorted(expected | arrays):
        given = tuple(arrays[name].shape) if name in arrays else None
        if given != expected.get(name):
            raise BadInput(
                f"{where} does not fit: {name} is {given}, in a model of its sizes it is {expected.get(name)}"
            )
