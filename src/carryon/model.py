"""The transformer: a decoder with pre-LayerNorm, GELU, no biases, and the embedding tied to the output.

What training and generation ask of any model, ours or another's, is `LanguageModel`.

Shapes: B batch, T tokens, S tokens attended to, D width, H heads, K width of one head, V vocabulary.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import ModelConfig
from .positions import POSITIONS, Position

Trace = dict[str, Tensor]
Before = tuple[Tensor, Tensor]
"""Keys and values of tokens that all rows of a batch begin with, read once."""


def cross_entropy(logits_NV: Tensor, targets_N: Tensor) -> Tensor:
    """Summed over the rows; those whose target is -100 do not count."""
    return F.cross_entropy(logits_NV.float(), targets_N, reduction="sum", ignore_index=-100)


def run_block(forward: Callable[..., Any], block: nn.Module, *inputs: Any, **more: Any) -> Any:
    return forward(block, *inputs, **more)


class LanguageModel(nn.Module, ABC):
    """Tokens in, scores of the next token out."""

    context: int
    """Most tokens it can look at."""
    vocab_size: int
    """Tokens it gives scores to; its tokenizer may know fewer."""
    numbers_per_token: int
    """What a cache keeps of a token …"""
    bytes_per_number: int | None = None
    """… and in how many bytes each; None: in those of the precision it computes in."""
    working_numbers_per_token: int
    """What a layer needs beside while it reads a token, about."""
    can_be_recorded = False
    """Whether a CUDA graph can hold `next_scores`: nothing in it waits for the device or goes by what was computed."""
    reads_only: str | None = None
    """The format of the only texts it can read, a problem at a time; None: whatever one likes."""
    can_be_shared = False
    """Whether several threads may ask it at once: nothing is kept in it between two calls."""
    cross_entropy: Callable[[Tensor, Tensor], Tensor] = staticmethod(cross_entropy)
    """Training may put a kernel here …"""
    run_block: Callable[..., Any] = staticmethod(run_block)
    """… and a compiled function here. One block is compiled, not the model: all blocks share the code."""

    @property
    @abstractmethod
    def num_parameters(self) -> int: ...

    @property
    def num_trained(self) -> int:
        """Parameters that training changes."""
        return self.num_parameters

    def weights(self) -> dict[str, Tensor]:
        """What has to be kept of it: all that training changes."""
        return self.state_dict()

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        self.load_state_dict(weights)

    def loss(self, inputs_BT: Tensor, targets_BT: Tensor, mask_BT: Tensor | None = None) -> Tensor:
        """The summed cross-entropy of the targets that count."""
        place = 0
        if mask_BT is not None:
            targets_BT = targets_BT.masked_fill(~mask_BT, -100)
            if mask_BT.device.type == "cpu":  # another device would have to be waited for
                place = int(mask_BT.any(dim=0).byte().argmax())
        scores_BTV = self.scores_from(place, inputs_BT)
        return self.cross_entropy(scores_BTV.flatten(0, 1), targets_BT[:, place:].reshape(-1))

    def scores_from(self, place: int, tokens_BT: Tensor, alike: int = 0) -> Tensor:
        """The scores behind every token from this place on. In their first `alike` tokens the rows are the same."""
        scores_BTV: Tensor = self(tokens_BT)[:, place:]
        return scores_BTV

    def check(self, tokens_BT: Tensor, more: int = 0) -> None:
        """Refuse rows whose tokens, or so many behind a row's, it cannot tell the places of."""

    @abstractmethod
    def new_cache(self, batch: int, length: int, device: torch.device, dtype: torch.dtype) -> Any:
        """An empty cache for rows of up to `length` tokens; its `keep(rows)` drops all rows but these."""

    @abstractmethod
    def first_scores(self, tokens_BT: Tensor, lengths_B: Tensor, cache: Any) -> Tensor:
        """Read the rows' first tokens into an empty cache; the scores of what follows each row.

        Rows are padded on the right.
        """

    @abstractmethod
    def next_scores(self, tokens_BS: Tensor, at_B: Tensor, cache: Any) -> Tensor:
        """Read the token at place `at_B` of each row, everything before which is in the cache; the scores of the next.

        `tokens_BS` are the rows from their first token on.
        """


class Cache:
    """Keys and values of what a batch of rows has read so far, one pair of tensors per layer that is gone through."""

    def __init__(self, config: ModelConfig, batch: int, length: int, device: torch.device, dtype: torch.dtype) -> None:
        shape = (config.passes, batch, config.heads, length, config.width // config.heads)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        self.keys, self.values = self.keys[:, rows], self.values[:, rows]


class Attention(nn.Module):
    def __init__(self, config: ModelConfig, position: Position) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.position = (position,)  # in a tuple, so that it is registered once, with the model
        self.query_key_value = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def split(self, x_BTD: Tensor, ids_BT: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys, which know their places, and values."""
        B, T, D = x_BTD.shape
        q_BTD, k_BTD, v_BTD = self.query_key_value(x_BTD).chunk(3, dim=-1)
        q_BHTK, k_BHTK, v_BHTK = (
            part.view(B, T, self.heads, D // self.heads).transpose(1, 2) for part in (q_BTD, k_BTD, v_BTD)
        )
        (position,) = self.position
        return position.rotate(q_BHTK, ids_BT), position.rotate(k_BHTK, ids_BT), v_BHTK

    def merge(self, x_BHTK: Tensor) -> Tensor:
        B, H, T, K = x_BHTK.shape
        merged: Tensor = self.out(x_BHTK.transpose(1, 2).reshape(B, T, H * K))
        return merged

    def forward(self, x_BTD: Tensor, ids_BT: Tensor, bias: Tensor | None) -> Tensor:
        q_BHTK, k_BHTK, v_BHTK = self.split(x_BTD, ids_BT)
        dropout = self.dropout if self.training else 0.0
        if bias is None:
            y_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, dropout_p=dropout, is_causal=True)
        else:
            y_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, attn_mask=bias, dropout_p=dropout)
        return self.merge(y_BHTK)

    def after(self, before: Before | None, x_BTD: Tensor, ids_BT: Tensor, bias: Tensor, skip: int) -> Tensor:
        """What all tokens but the first `skip` find in those up to them, and in what every row begins with."""
        q_BHTK, k_BHSK, v_BHSK = self.split(x_BTD, ids_BT)
        if before is not None:
            k_BHSK, v_BHSK = (
                torch.cat((shared.expand(len(x_BTD), -1, -1, -1), new), dim=2)
                for shared, new in zip(before, (k_BHSK, v_BHSK), strict=True)
            )
        dropout = self.dropout if self.training else 0.0
        found_BHTK = F.scaled_dot_product_attention(q_BHTK[:, :, skip:], k_BHSK, v_BHSK, bias[..., skip:, :], dropout)
        return self.merge(found_BHTK)

    def cached(
        self, x_BTD: Tensor, ids_BT: Tensor, keys: Tensor, values: Tensor, at_BT: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Attention over a cache, into which these tokens' keys and values are written first, at their places.

        Without a mask the tokens are the rows' first, and look at themselves alone.
        """
        q_BHTK, k_BHTK, v_BHTK = self.split(x_BTD, ids_BT)
        rows_B1 = torch.arange(len(x_BTD), device=x_BTD.device).unsqueeze(1)
        keys[rows_B1, :, at_BT] = k_BHTK.transpose(1, 2).to(keys.dtype)
        values[rows_B1, :, at_BT] = v_BHTK.transpose(1, 2).to(values.dtype)
        if mask is None:
            return self.merge(F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, is_causal=True))
        length = mask.shape[-1]
        if q_BHTK.shape[2] > 1:
            keys, values = keys[:, :, :length], values[:, :, :length]
            return self.merge(F.scaled_dot_product_attention(q_BHTK.to(keys.dtype), keys, values, mask.to(keys.dtype)))
        # One query a row: plain products read the cache once, which is all there is to do.
        scores_BHTS = q_BHTK.to(keys.dtype) @ keys[:, :, :length].mT / math.sqrt(q_BHTK.shape[-1])
        weights_BHTS = (scores_BHTS.float() + mask).softmax(dim=-1).to(values.dtype)
        return self.merge(weights_BHTS @ values[:, :, :length])

    def traced(self, x_BTD: Tensor, ids_BT: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """The same as `forward`, with the weights it hides."""
        q_BHTK, k_BHSK, v_BHSK = self.split(x_BTD, ids_BT)
        scores_BHTS = q_BHTK @ k_BHSK.mT / math.sqrt(q_BHTK.shape[-1])
        scores_BHTS = scores_BHTS + (bias if bias is not None else causal_bias(scores_BHTS))
        weights_BHTS = scores_BHTS.softmax(dim=-1)
        return self.merge(weights_BHTS @ v_BHSK), weights_BHTS


class Block(nn.Module):
    def __init__(self, config: ModelConfig, position: Position) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width, bias=False)
        self.attention = Attention(config, position)
        self.mlp_norm = nn.LayerNorm(config.width, bias=False)
        self.up = nn.Linear(config.width, 4 * config.width, bias=False)
        self.down = nn.Linear(4 * config.width, config.width, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def mlp(self, x_BTD: Tensor) -> Tensor:
        out: Tensor = self.dropout(self.down(F.gelu(self.up(self.mlp_norm(x_BTD)), approximate="tanh")))
        return out

    def forward(self, x_BTD: Tensor, ids_BT: Tensor, bias: Tensor | None) -> Tensor:
        x_BTD = x_BTD + self.dropout(self.attention(self.attention_norm(x_BTD), ids_BT, bias))
        return x_BTD + self.mlp(x_BTD)

    def after(self, before: Before | None, x_BTD: Tensor, ids_BT: Tensor, bias: Tensor, skip: int) -> Tensor:
        found_BTD = self.attention.after(before, self.attention_norm(x_BTD), ids_BT, bias, skip)
        x_BTD = x_BTD[:, skip:] + self.dropout(found_BTD)
        return x_BTD + self.mlp(x_BTD)

    def cached(
        self, x_BTD: Tensor, ids_BT: Tensor, keys: Tensor, values: Tensor, at_BT: Tensor, mask: Tensor | None
    ) -> Tensor:
        x_BTD = x_BTD + self.attention.cached(self.attention_norm(x_BTD), ids_BT, keys, values, at_BT, mask)
        return x_BTD + self.mlp(x_BTD)


class Decoder(LanguageModel):
    can_be_recorded = can_be_shared = True

    def __init__(self, config: ModelConfig, vocab_size: int, tokens: Sequence[str] = ()) -> None:
        """`tokens`: their texts, which some ids go by."""
        super().__init__()
        self.config, self.vocab_size, self.reads_only = config, vocab_size, config.reads_only
        self.context, self.numbers_per_token = config.context, 2 * config.passes * config.width
        # Four widths inside the block before and after its bend, three to attend, the rest in float32.
        self.working_numbers_per_token = 16 * config.width
        self.embedding = nn.Embedding(vocab_size, config.width)
        self.position = POSITIONS[config.position](config, tokens)
        if self.position.acts_on_scores and config.ids != "places":
            # Of every row, a bias for every pair of tokens: made, masked and read.
            self.working_numbers_per_token += 3 * config.heads * config.context
        self.dropout = nn.Dropout(config.dropout)
        blocks = [Block(config, self.position) for _ in range(config.layers)]
        self.blocks = nn.ModuleList(blocks)
        self.passes = tuple(blocks) * config.loops
        """The blocks in the order in which a token goes through them; in a tuple, so that each is registered once."""
        self.norm = nn.LayerNorm(config.width, bias=False)
        self.apply(_initialize)
        for name, weight in self.named_parameters():
            if name.endswith(("attention.out.weight", "down.weight")):
                # Each block adds to the stream twice: this keeps its variance at the start.
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * config.passes))

    @property
    def num_parameters(self) -> int:
        """Without the position table, as nanoGPT counts."""
        return sum(p.numel() for name, p in self.named_parameters() if not name.startswith("position."))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """The scores of every next token."""
        ids_BT, first_BTD, bias = self._enter(tokens_BT)
        run, x_BTD = self.run_block if self.training else run_block, first_BTD
        for nth, block in enumerate(self.passes):
            x_BTD = run(Block.forward, block, self._injected(nth, x_BTD, first_BTD), ids_BT, bias)
        return self.scores(x_BTD)

    def scores_from(self, place: int, tokens_BT: Tensor, alike: int = 0) -> Tensor:
        kind, T = tokens_BT.device.type, tokens_BT.shape[1]
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else self.embedding.weight.dtype
        once = min(place, alike)
        before: Sequence[Before | None]
        if read := self._read_once(once, tokens_BT, dtype):
            shared, first_BTD, ids_BT, bias = read
            before = list(zip(shared.keys, shared.values, strict=True))
        elif kind == "cpu" and _is_much(place, tokens_BT) and self.run_block is run_block:  # compiled, all is one code
            once, before = 0, [None] * len(self.passes)
            ids_BT, first_BTD, own_bias = self._enter(tokens_BT)
            bias = causal_bias(first_BTD.new_empty(T, T)) if own_bias is None else own_bias
        else:
            return super().scores_from(place, tokens_BT)
        x_BTD = first_BTD
        for nth, block in enumerate(self.passes):
            # Of the last block nothing is wanted but what will be given scores.
            skip = place - once if nth == len(self.passes) - 1 else 0
            x_BTD = block.after(before[nth], self._injected(nth, x_BTD, first_BTD), ids_BT, bias, skip)
        return self.scores(x_BTD)

    def check(self, tokens_BT: Tensor, more: int = 0) -> None:
        self.position.ids.check(tokens_BT, more)

    def new_cache(self, batch: int, length: int, device: torch.device, dtype: torch.dtype) -> Cache:
        return Cache(self.config, batch, length, device, dtype)

    def first_scores(self, tokens_BT: Tensor, lengths_B: Tensor, cache: Cache) -> Tensor:
        place = _places_alike(tokens_BT, lengths_B)
        read = self._read_once(place, tokens_BT, cache.keys.dtype)
        if read is None:
            place, x_BTD = 0, self.begin(tokens_BT, cache)
        else:
            shared, first_BTD, ids_BT, mask = read
            cache.keys[:, :, :, :place], cache.values[:, :, :, :place] = shared.keys, shared.values
            at_BT = torch.arange(place, tokens_BT.shape[1], device=tokens_BT.device).expand(first_BTD.shape[:2])
            x_BTD = self._through(first_BTD, ids_BT, cache, at_BT, mask)
        return self.scores(x_BTD[torch.arange(len(x_BTD), device=x_BTD.device), lengths_B - 1 - place])

    def next_scores(self, tokens_BS: Tensor, at_B: Tensor, cache: Cache) -> Tensor:
        return self.scores(self.go_on(tokens_BS, at_B, cache))

    def begin(self, tokens_BT: Tensor, cache: Cache, ids_BT: Tensor | None = None) -> Tensor:
        """Read the rows' first tokens into an empty cache; their outputs, unscored.

        Rows may be padded on the right: nothing looks ahead, and what is written behind a row's end is overwritten.
        `ids_BT`: their ids, where those depend on more than these tokens.
        """
        ids_BT, first_BTD, bias = self._enter(tokens_BT, ids_BT)
        at_BT = torch.arange(tokens_BT.shape[1], device=tokens_BT.device).expand(tokens_BT.shape)
        return self._through(first_BTD, ids_BT, cache, at_BT, bias)

    def go_on(self, tokens_BS: Tensor, at_B: Tensor, cache: Cache) -> Tensor:
        """Read the token at place `at_B` of each row, everything before which is in the cache; its output, unscored.

        `tokens_BS` are the rows from their first token on, because ids may depend on all of it.
        """
        ids_BS = self.position.ids(tokens_BS)
        at_B1 = at_B.unsqueeze(1)
        ids_B1 = ids_BS[torch.arange(len(ids_BS), device=ids_BS.device).unsqueeze(1), at_B1]
        x_B1D = self._embed(tokens_BS.gather(1, at_B1), ids_B1)
        places_S = torch.arange(tokens_BS.shape[1], device=tokens_BS.device)
        mask = torch.zeros(tokens_BS.shape, device=tokens_BS.device).masked_fill(places_S > at_B1, float("-inf"))
        mask = mask[:, None, None]
        if (bias := self.position.bias(ids_B1, ids_BS)) is not None:
            mask = mask + bias
        return self._through(x_B1D, ids_B1, cache, at_B1, mask)[:, 0]

    def _through(self, first_BTD: Tensor, ids_BT: Tensor, cache: Cache, at_BT: Tensor, mask: Tensor | None) -> Tensor:
        """All blocks over a cache, into which these tokens are written at their places."""
        x_BTD = first_BTD
        for nth, block in enumerate(self.passes):
            x_BTD = self._injected(nth, x_BTD, first_BTD)
            x_BTD = block.cached(x_BTD, ids_BT, cache.keys[nth], cache.values[nth], at_BT, mask)
        return x_BTD

    def _injected(self, nth: int, x_BTD: Tensor, first_BTD: Tensor) -> Tensor:
        """What a block reads: where another loop begins, the embedding once more."""
        begins_again = nth > 0 and nth % self.config.layers == 0
        return x_BTD + first_BTD if self.config.inject and begins_again else x_BTD

    def _read_once(
        self, place: int, tokens_BT: Tensor, dtype: torch.dtype
    ) -> tuple[Cache, Tensor, Tensor, Tensor] | None:
        """Read what all rows begin with in one of them: its cache, and the embedding, ids and bias of what follows.

        None where little would be gained, since attention is faster without a mask, or where the rows' later tokens
        change the ids of their first.
        """
        if len(tokens_BT) == 1 or not _is_much(place, tokens_BT):
            return None
        ids_BT = self.position.ids(tokens_BT)
        if (ids_BT[:, :place] != ids_BT[:1, :place]).any():
            return None
        cache = self.new_cache(1, place, tokens_BT.device, dtype)
        self.begin(tokens_BT[:1, :place], cache, ids_BT[:1, :place])
        x_BTD = self._embed(tokens_BT[:, place:], ids_BT[:, place:])
        bias = causal_bias(x_BTD.new_empty(x_BTD.shape[1], tokens_BT.shape[1]))
        if (more := self.position.bias(ids_BT[:, place:], ids_BT)) is not None:
            bias = bias + more
        return cache, x_BTD, ids_BT[:, place:], bias

    def scores(self, x_BTD: Tensor) -> Tensor:
        return F.linear(self.norm(x_BTD), self.embedding.weight)

    @torch.no_grad()
    def trace(self, tokens_BT: Tensor) -> tuple[Tensor, Trace]:
        """The scores, and every activation by name: "embedding", "block0.attention.weights", … "logits"."""
        ids_BT, first_BTD, bias = self._enter(tokens_BT)
        x_BTD, trace = first_BTD, {"embedding": first_BTD}
        for layer, block in enumerate(self.passes):
            x_BTD = self._injected(layer, x_BTD, first_BTD)
            out, weights = block.attention.traced(block.attention_norm(x_BTD), ids_BT, bias)
            x_BTD = x_BTD + out
            mlp = block.mlp(x_BTD)
            trace |= {
                f"block{layer}.attention.weights": weights,
                f"block{layer}.attention.out": out,
                f"block{layer}.mlp.out": mlp,
            }
            x_BTD = x_BTD + mlp
            trace[f"block{layer}.out"] = x_BTD
        trace["logits"] = self.scores(x_BTD)
        return trace["logits"], trace

    def _enter(self, tokens_BT: Tensor, ids_BT: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        ids_BT = self.position.ids(tokens_BT) if ids_BT is None else ids_BT
        bias = self.position.bias(ids_BT, ids_BT)
        if bias is not None:
            bias = bias + causal_bias(bias)
        return ids_BT, self._embed(tokens_BT, ids_BT), bias

    def _embed(self, tokens_BT: Tensor, ids_BT: Tensor) -> Tensor:
        x_BTD = self.embedding(tokens_BT)
        if (embedded_BTD := self.position.embed(ids_BT)) is not None:
            x_BTD = x_BTD + embedded_BTD
        out: Tensor = self.dropout(x_BTD)
        return out


def _places_alike(tokens_BT: Tensor, lengths_B: Tensor) -> int:
    """How many tokens all rows begin with, and none of them ends in."""
    same_T = (tokens_BT == tokens_BT[:1]).all(dim=0).long().cumprod(dim=0)
    return int(torch.minimum(same_T.sum(), lengths_B.min() - 1))


def _is_much(place: int, tokens_BT: Tensor) -> bool:
    """Whether doing less for the tokens before this place is worth a mask, without which attention is faster."""
    return 0 < tokens_BT.shape[1] <= 4 * place


def causal_bias(scores_BHTS: Tensor) -> Tensor:
    """Minus infinity where a token would look ahead."""
    T, S = scores_BHTS.shape[-2:]
    ahead_TS = torch.ones(T, S, dtype=torch.bool, device=scores_BHTS.device).triu(1 + S - T)
    return torch.zeros(T, S, dtype=scores_BHTS.dtype, device=scores_BHTS.device).masked_fill(ahead_TS, float("-inf"))


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
