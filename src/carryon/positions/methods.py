"""What is made of ids: added to embeddings, turning queries and keys, or added to scores.

Shapes: B rows, T tokens, S tokens attended to, H heads, K width of one head, D width.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..config import ModelConfig
from .ids import IDS


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
