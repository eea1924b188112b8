"""How a model knows where a token stands.

A method computes ids from the tokens and uses them in any of three places:

    embed    added to the token embedding
    rotate   applied to queries and keys
    bias     added to the attention scores

A new method is a class here, its line in POSITIONS and its name in config.
Shapes: B batch, T tokens, S tokens attended to, H heads, K width of one head, D width.
"""

import math

import torch
from torch import Tensor, nn

from .config import ModelConfig


class Position(nn.Module):
    """Counts tokens from 0, and does nothing else."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    def ids(self, tokens_BT: Tensor) -> Tensor:
        """The id of every token of a row, from its first token on."""
        return torch.arange(tokens_BT.shape[1], device=tokens_BT.device).expand(tokens_BT.shape)

    def embed(self, ids_BT: Tensor) -> Tensor | None:
        return None

    def rotate(self, x_BHTK: Tensor, ids_BT: Tensor) -> Tensor:
        return x_BHTK

    def bias(self, ids_BT: Tensor, ids_BS: Tensor) -> Tensor | None:
        return None


class NoPosition(Position):
    """The causal mask alone tells where a token stands."""


class Learned(Position):
    """A vector for each place, learned: the paper's and GPT-2's way."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.table = nn.Embedding(config.context, config.width)

    def embed(self, ids_BT: Tensor) -> Tensor:
        embedded: Tensor = self.table(ids_BT)
        return embedded


class Sinusoidal(Position):
    """Sines and cosines of each place, as in the first transformer."""

    table_TD: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        places_T1 = torch.arange(config.context).unsqueeze(1)
        rates = torch.exp(torch.arange(0, config.width, 2) * (-math.log(10_000.0) / config.width))
        table_TD = torch.zeros(config.context, config.width)
        table_TD[:, 0::2] = torch.sin(places_T1 * rates)
        table_TD[:, 1::2] = torch.cos(places_T1 * rates)[:, : config.width // 2]
        # Token embeddings start at a standard deviation of 0.02; sines fifty times as large would drown them.
        self.register_buffer("table_TD", table_TD * 0.02, persistent=False)

    def embed(self, ids_BT: Tensor) -> Tensor:
        return self.table_TD[ids_BT]


class Rotary(Position):
    """Queries and keys turned by an angle that grows with their place, so that scores see distances."""

    cos_TK: Tensor
    sin_TK: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        half = config.width // config.heads // 2
        rates = 10_000.0 ** (-torch.arange(half) / half)
        angles_TK = torch.arange(config.context).unsqueeze(1) * torch.cat([rates, rates])
        self.register_buffer("cos_TK", angles_TK.cos(), persistent=False)
        self.register_buffer("sin_TK", angles_TK.sin(), persistent=False)

    def rotate(self, x_BHTK: Tensor, ids_BT: Tensor) -> Tensor:
        first, second = x_BHTK.chunk(2, dim=-1)
        turned_BHTK = torch.cat([-second, first], dim=-1)
        cos, sin = (table[ids_BT].unsqueeze(1).to(x_BHTK.dtype) for table in (self.cos_TK, self.sin_TK))
        return x_BHTK * cos + turned_BHTK * sin


POSITIONS: dict[str, type[Position]] = {
    "learned": Learned,
    "sinusoidal": Sinusoidal,
    "none": NoPosition,
    "rotary": Rotary,
}
