"""How a model knows where a token stands.

Every token is given an id, and a method uses the ids of two places in any of three ways:

    embed    added to the token embedding
    rotate   applied to queries and keys
    bias     added to the attention scores

Which id a token has is a choice of its own: its place in the row, or the place of a digit in its number, so that digits
that are added have the same. Any of IDS goes with any of POSITIONS:

    position coupling               learned vectors, `coupling` ids
    Abacus                          learned vectors, `abacus` ids
    position coupling of levels     learned vectors, `coupling_sums` or `coupling_products` ids: two or three a token

and with `reach`, tokens only see those whose ids are near. A new way is a class here, its line in a table below and its
name in config.
Shapes: B batch, T tokens, S tokens attended to, H heads, K width of one head, D width, N ids of a token. Where a token
has several, ids_BT is BTN, and each of the N is a stream of its own.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from .config import ModelConfig
from .errors import BadConfig, Unsupported

# --- which id a token has -------------------------------------------------------------------------------------------


class Ids(nn.Module):
    """Its place in the row, from 0 on."""

    def __init__(self, config: ModelConfig, tokens: Sequence[str]) -> None:
        """`tokens`: the text of each token there is."""
        super().__init__()
        self.room = config.room

    def of(self, tokens_BT: Tensor) -> Tensor:
        return torch.arange(tokens_BT.shape[1], device=tokens_BT.device).expand(tokens_BT.shape)

    def drawn(self, ids_BT: Tensor) -> Tensor:
        """What training makes of them."""
        return ids_BT

    def forward(self, tokens_BT: Tensor) -> Tensor:
        ids_BT = self.of(tokens_BT)
        return self.drawn(ids_BT) if self.training else ids_BT

    def check(self, tokens_BT: Tensor, more: int) -> None:
        """Refuse tokens, or so many digits behind them, that there are no ids for."""


class Shifted(Ids):
    """Its place in the row; in training each row begins anywhere, so that all ids are met.

    of 256 ids, 9 tokens may be   0 1 2 3 4 5 6 7 8   or   147 148 149 150 151 152 153 154 155
    """

    def drawn(self, ids_BT: Tensor) -> Tensor:
        B, T = ids_BT.shape
        return ids_BT + _below(torch.full((B, 1), self.room - T + 1, device=ids_BT.device))


class Scattered(Ids):
    """Ids that grow by more than one from token to token, drawn anew for every batch (Ruoss et al., 2023).

    of 2,048 ids, 5 tokens may be   31 402 877 1203 1990
    """

    fixed_T: Tensor

    def __init__(self, config: ModelConfig, tokens: Sequence[str]) -> None:
        super().__init__(config, tokens)
        # Those of evaluation: some, the same every time, so that a token's id does not depend on what follows.
        order = torch.randperm(self.room, generator=torch.Generator().manual_seed(0))
        self.register_buffer("fixed_T", order[: config.context].sort().values, persistent=False)

    def of(self, tokens_BT: Tensor) -> Tensor:
        return self.fixed_T[: tokens_BT.shape[1]].expand(tokens_BT.shape)

    def drawn(self, ids_BT: Tensor) -> Tensor:
        order = torch.rand(self.room, device=ids_BT.device).argsort()
        return order[: ids_BT.shape[1]].sort().values.expand(ids_BT.shape)


class OfDigits(Ids):
    """What ids of digits have in common: 0 for what stands in no number."""

    is_digit_V: Tensor
    grows: ClassVar[tuple[int, ...]] = (1,)
    """How much the ids, stream by stream, may grow with every digit that is counted behind a prompt."""

    def __init__(self, config: ModelConfig, tokens: Sequence[str]) -> None:
        super().__init__(config, tokens)
        if not len(tokens):
            raise Unsupported(f"{config.ids} ids go by what tokens say: give their texts")
        self._mark("is_digit_V", tokens, "0123456789")

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """A number that is longer than all that was asked for, because a model does not end it, shares the last id."""
        return super().forward(tokens_BT).clamp(max=self.room - 1)

    def check(self, tokens_BT: Tensor, more: int) -> None:
        ids_BT = self.of(tokens_BT)
        most = int((ids_BT + more * torch.tensor(self.grows, device=ids_BT.device)).max())
        if most >= self.room:
            raise BadConfig(
                f"numbers this long need {most + 1} ids, and the model has {self.room}: ask something shorter, or "
                f"train with model.places={most + 1}"
            )

    def _since(self, tokens_BT: Tensor) -> Tensor:
        """How far back the last token is that is no digit; 0: this one."""
        places_BT = super().of(tokens_BT)
        return places_BT - torch.where(self.is_digit_V[tokens_BT], -1, places_BT).cummax(dim=1).values

    def _until(self, tokens_BT: Tensor) -> Tensor:
        """How far ahead the next one is."""
        places_BT = super().of(tokens_BT)
        ends_BT = torch.where(self.is_digit_V[tokens_BT], tokens_BT.shape[1], places_BT)
        return ends_BT.flip(1).cummin(dim=1).values.flip(1) - places_BT

    def _mark(self, name: str, tokens: Sequence[str], texts: Sequence[str]) -> None:
        self.register_buffer(name, torch.tensor([text != "" and text in texts for text in tokens]), persistent=False)


class Abacus(OfDigits):
    """Which digit of its number it is, counted from where the number begins (McLeish et al., 2024).

        3 2 1 + 4 5 = 7 7 1
        1 2 3 0 1 2 0 1 2 3

    Numbers have to be written lowest digit first. In training all of a batch begin anywhere.
    """

    def of(self, tokens_BT: Tensor) -> Tensor:
        return self._since(tokens_BT)

    def drawn(self, ids_BT: Tensor) -> Tensor:
        return torch.where(ids_BT > 0, ids_BT + _below(self.room - ids_BT.max()), 0)


class Coupling(OfDigits):
    """Digits of one weight have one id, in both operands and in the answer (Cho et al., 2024).

        4 9 1 + 6 0 0 = 1 9 0 1
        4 3 2 1 4 3 2 1 2 3 4 5

    Operands highest digit first and padded to one length, the answer lowest first. In training each row begins
    anywhere. An operand's ids depend on what follows, up to its end: a model must not be asked to write operands.
    """

    is_sign_V: Tensor
    is_equals_V: Tensor
    is_plus_V: Tensor
    is_times_V: Tensor
    is_arrow_V: Tensor
    signs: ClassVar[str] = "+-="

    def __init__(self, config: ModelConfig, tokens: Sequence[str]) -> None:
        super().__init__(config, tokens)
        self._mark("is_sign_V", tokens, self.signs)
        for name, sign in (("equals", "="), ("plus", "+"), ("times", "*"), ("arrow", ">")):
            self._mark(f"is_{name}_V", tokens, sign)

    def of(self, tokens_BT: Tensor) -> Tensor:
        answered_BT = _so_far(self.is_equals_V, tokens_BT) > 0
        weights_BT = torch.where(answered_BT, self._since(tokens_BT), self._until(tokens_BT))
        return torch.where(self.is_digit_V[tokens_BT], 1 + weights_BT, self.is_sign_V[tokens_BT].long())

    def drawn(self, ids_BT: Tensor) -> Tensor:
        start_B1 = _below(self.room - ids_BT.max(dim=1, keepdim=True).values)
        return torch.where(ids_BT > 0, ids_BT + start_B1, 0)


class CouplingSums(Coupling):
    """Two ids a token, for running_sums: the digit's weight, and which number it is in (Cho et al., 2025).

        0 1 2 + 0 0 7 + 0 3 5 = 0 0 0 > 2 1 0 > 9 1 0 > 4 5 0
        4 3 2 1 4 3 2 1 4 3 2 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4
        1 1 1 2 2 2 2 3 3 3 3 1 1 1 1 2 2 2 2 3 3 3 3 4 4 4 4

    A sign has the id of the number it begins. Where sum n is written, operand n-1 and sum n-1 have the id before.
    """

    grows = (0, 1)
    signs = "+=>"

    def of(self, tokens_BT: Tensor) -> Tensor:
        weights_BT = super().of(tokens_BT)
        answered_BT = _so_far(self.is_equals_V, tokens_BT) > 0
        added_BT, summed_BT = (_so_far(sign_V, tokens_BT) for sign_V in (self.is_plus_V, self.is_arrow_V))
        numbers_BT = 1 + torch.where(answered_BT, summed_BT, added_BT)
        return torch.stack([weights_BT, torch.where(weights_BT > 0, numbers_BT, 0)], dim=2)


class CouplingProducts(Coupling):
    """Three ids a token, for partial_products (Cho et al., 2025).

    The first: the weight of a digit of the first number, and of a product's. The second: the weight of a digit of the
    second number, for the product that it makes and the sum that this goes into. The third: the weight that a product's
    digit has in the sum, and a sum's digit.

        1 2 * 3 6 = 2 7 0 + 6 3 0 = 2 7 0 0 > 2 3 4 0
        3 2 0 0 0 1 2 3 4 1 2 3 4 0 0 0 0 0 0 0 0 0 0
        0 0 0 2 1 1 1 1 1 2 2 2 2 1 1 1 1 1 2 2 2 2 2
        0 0 6 0 0 1 2 3 4 2 3 4 5 1 2 3 4 5 1 2 3 4 5

    A sign has the ids of the number it begins, one below those of its first digit. The `*` has the weight behind the
    sums' last, so that their end, too, is found by a like id.
    """

    grows = (1, 0, 0)
    signs = "*+=>"

    def of(self, tokens_BT: Tensor) -> Tensor:
        digit_BT, since_BT, until_BT = self.is_digit_V[tokens_BT], self._since(tokens_BT), self._until(tokens_BT)
        equals_BT, times_BT, added_BT, summed_BT = (
            _so_far(sign_V, tokens_BT)
            for sign_V in (self.is_equals_V, self.is_times_V, self.is_plus_V, self.is_arrow_V)
        )
        asked_BT, written_BT = equals_BT == 0, digit_BT | self.is_sign_V[tokens_BT]
        first_BT, second_BT = asked_BT & digit_BT & (times_BT == 0), asked_BT & digit_BT & (times_BT > 0)
        product_BT, sum_BT = written_BT & (equals_BT == 1), written_BT & (equals_BT > 1)
        lengths_B1 = (first_BT | second_BT).sum(dim=1, keepdim=True)
        streams = (
            first_BT * (1 + until_BT) + product_BT * (1 + since_BT),
            second_BT * until_BT + product_BT * (1 + added_BT) + sum_BT * (1 + summed_BT),
            (asked_BT & self.is_times_V[tokens_BT]) * (2 + lengths_B1)
            + product_BT * (1 + since_BT + added_BT)
            + sum_BT * (1 + since_BT),
        )
        return torch.stack(streams, dim=2)


def _so_far(mark_V: Tensor, tokens_BT: Tensor) -> Tensor:
    """How many tokens up to this one have the mark."""
    return mark_V[tokens_BT].cumsum(dim=1)


def _below(ends: Tensor) -> Tensor:
    """A whole number from 0 on below each; 0 where there is none, as for a number too long for its ids."""
    return (torch.rand(ends.shape, device=ends.device) * ends.clamp(min=0)).long()


IDS: dict[str, type[Ids]] = {
    "places": Ids,
    "shifted": Shifted,
    "scattered": Scattered,
    "abacus": Abacus,
    "coupling": Coupling,
    "coupling_sums": CouplingSums,
    "coupling_products": CouplingProducts,
}


# --- what is made of ids --------------------------------------------------------------------------------------------


class Position(nn.Module):
    """Gives tokens their ids, and does nothing else."""

    def __init__(self, config: ModelConfig, tokens: Sequence[str] = ()) -> None:
        super().__init__()
        self.config = config
        self.ids = IDS[config.ids](config, tokens)

    def embed(self, ids_BT: Tensor) -> Tensor | None:
        return None

    def rotate(self, x_BHTK: Tensor, ids_BT: Tensor) -> Tensor:
        return x_BHTK

    def compare(self, ids_BT1: Tensor, ids_B1S: Tensor) -> Tensor | None:
        """What is added to a score for the ids of the two it is about."""
        return None

    @property
    def acts_on_scores(self) -> bool:
        return type(self).compare is not Position.compare or self.config.reach is not None

    def bias(self, ids_BT: Tensor, ids_BS: Tensor) -> Tensor | None:
        if ids_BT.stride(0) == ids_BS.stride(0) == 0:  # all rows have the same: once is enough
            ids_BT, ids_BS = ids_BT[:1], ids_BS[:1]
        bias = None if self.config.streams > 1 else self.compare(ids_BT[:, :, None], ids_BS[:, None])
        if (reach := self.config.reach) is None:
            return bias
        streams = [(ids_BT, ids_BS)]
        if self.config.streams > 1:
            streams = list(zip(ids_BT.unbind(dim=2), ids_BS.unbind(dim=2), strict=True))
        far_BTS = _far(*streams[0], reach)
        for own, others in streams[1:]:
            far_BTS = far_BTS | _far(own, others, reach)
        hidden = torch.zeros(far_BTS.shape, device=ids_BT.device).masked_fill(far_BTS, float("-inf"))[:, None]
        return hidden if bias is None else bias + hidden


def _far(ids_BT: Tensor, ids_BS: Tensor, reach: int) -> Tensor:
    """What is out of reach. What has no id, such as a mark that begins a row, sees all and is seen by all."""
    ids_BT1, ids_B1S = ids_BT[:, :, None], ids_BS[:, None]
    return ((ids_BT1 - ids_B1S).abs() > reach) & (ids_BT1 > 0) & (ids_B1S > 0)


class NoPosition(Position):
    """The causal mask alone tells where a token stands."""


class Learned(Position):
    """A vector for each id, learned: the paper's and GPT-2's way. Of several ids, each has vectors of its own, and a
    token the sum of its.
    """

    starts_N: Tensor

    def __init__(self, config: ModelConfig, tokens: Sequence[str] = ()) -> None:
        super().__init__(config, tokens)
        self.table = nn.Embedding(config.streams * config.room, config.width)
        self.register_buffer("starts_N", torch.arange(config.streams) * config.room, persistent=False)

    def embed(self, ids_BT: Tensor) -> Tensor:
        if self.config.streams > 1:
            summed: Tensor = self.table(ids_BT + self.starts_N).sum(dim=2)
            return summed
        embedded: Tensor = self.table(ids_BT)
        return embedded


class Sinusoidal(Position):
    """Sines and cosines of each id, as in the first transformer."""

    table_TD: Tensor

    def __init__(self, config: ModelConfig, tokens: Sequence[str] = ()) -> None:
        super().__init__(config, tokens)
        places_T1 = torch.arange(config.room).unsqueeze(1)
        rates = torch.exp(torch.arange(0, config.width, 2) * (-math.log(10_000.0) / config.width))
        table_TD = torch.zeros(config.room, config.width)
        table_TD[:, 0::2] = torch.sin(places_T1 * rates)
        table_TD[:, 1::2] = torch.cos(places_T1 * rates)[:, : config.width // 2]
        # Token embeddings start at a standard deviation of 0.02; sines fifty times as large would drown them.
        self.register_buffer("table_TD", table_TD * 0.02, persistent=False)

    def embed(self, ids_BT: Tensor) -> Tensor:
        return self.table_TD[ids_BT]


class Rotary(Position):
    """Queries and keys turned by an angle that grows with their id, so that scores see distances."""

    cos_TK: Tensor
    sin_TK: Tensor

    def __init__(self, config: ModelConfig, tokens: Sequence[str] = ()) -> None:
        super().__init__(config, tokens)
        half = config.width // config.heads // 2
        rates = 10_000.0 ** (-torch.arange(half) / half)
        angles_TK = torch.arange(config.room).unsqueeze(1) * torch.cat([rates, rates])
        self.register_buffer("cos_TK", angles_TK.cos(), persistent=False)
        self.register_buffer("sin_TK", angles_TK.sin(), persistent=False)

    def rotate(self, x_BHTK: Tensor, ids_BT: Tensor) -> Tensor:
        first, second = x_BHTK.chunk(2, dim=-1)
        turned_BHTK = torch.cat([-second, first], dim=-1)
        cos, sin = (table[ids_BT].unsqueeze(1).to(x_BHTK.dtype) for table in (self.cos_TK, self.sin_TK))
        return x_BHTK * cos + turned_BHTK * sin


class Alibi(Position):
    """Scores fall with the distance, in each head at a rate of its own (Press et al., 2021).

    of 8 heads, at distances 0 1 2 3 …   the first   0 -1/2 -1 -3/2 …   the last   0 -1/256 -1/128 -3/256 …
    """

    rates_H11: Tensor

    def __init__(self, config: ModelConfig, tokens: Sequence[str] = ()) -> None:
        super().__init__(config, tokens)
        nth_H = torch.arange(1, config.heads + 1)
        self.register_buffer("rates_H11", (2.0 ** (-8 * nth_H / config.heads))[:, None, None], persistent=False)

    def compare(self, ids_BT1: Tensor, ids_B1S: Tensor) -> Tensor:
        return -self.rates_H11 * (ids_BT1 - ids_B1S).abs()[:, None]


class T5(Position):
    """A number for each head and distance, learned; beyond 16 distances share one, ever more of them, and from 128 on
    all do (Raffel et al., 2019).

        distance   0 1 2 … 15 16 17 18 19 20 21 22 23 24 … 127 128 129 …
        its row    0 1 2 … 15 16 16 16 17 17 18 18 18 19 …  31  31  31 …

    Ids may also lie ahead, as coupled ones do: those have 32 rows of their own.
    """

    _ROWS = 32
    _FARTHEST = 128

    def __init__(self, config: ModelConfig, tokens: Sequence[str] = ()) -> None:
        super().__init__(config, tokens)
        self.table = nn.Embedding(2 * self._ROWS, config.heads)

    def rows(self, distances: Tensor) -> Tensor:
        """How far back; below zero: ahead."""
        exact, far = self._ROWS // 2, distances.abs()
        logs = (far.clamp(min=1) / exact).log() / math.log(self._FARTHEST / exact) * (self._ROWS - exact)
        rows = torch.where(far < exact, far, (exact + logs.long()).clamp(max=self._ROWS - 1))
        return torch.where(distances < 0, rows + self._ROWS, rows)

    def compare(self, ids_BT1: Tensor, ids_B1S: Tensor) -> Tensor:
        numbers_BTSH: Tensor = self.table(self.rows(ids_BT1 - ids_B1S))
        return numbers_BTSH.permute(0, 3, 1, 2)


class Fire(Position):
    """A small network of the distance as a part of how far the query stands, on a logarithmic scale (Li et al., 2023).

    distance d of a query at i:   log(c d + 1) / log(c max(i, L) + 1), with c and L learned
    """

    def __init__(self, config: ModelConfig, tokens: Sequence[str] = ()) -> None:
        super().__init__(config, tokens)
        self.network = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, config.heads))
        self.scale = nn.Parameter(torch.tensor(0.1))
        self.part = nn.Parameter(torch.tensor(1.0))
        self.least = 512.0

    def parts(self, ids_BT1: Tensor, ids_B1S: Tensor) -> Tensor:
        scale = self.scale.abs()
        length_BT1 = torch.maximum(ids_BT1.float(), (self.part * self.least).abs())
        distances_BTS = (ids_BT1 - ids_B1S).abs().float()
        return (scale * distances_BTS + 1).log() / (scale * length_BT1 + 1).log()

    def compare(self, ids_BT1: Tensor, ids_B1S: Tensor) -> Tensor:
        numbers_BTSH: Tensor = self.network(self.parts(ids_BT1, ids_B1S)[..., None])
        return numbers_BTSH.permute(0, 3, 1, 2)


POSITIONS: dict[str, type[Position]] = {
    "learned": Learned,
    "sinusoidal": Sinusoidal,
    "none": NoPosition,
    "rotary": Rotary,
    "alibi": Alibi,
    "t5": T5,
    "fire": Fire,
}
