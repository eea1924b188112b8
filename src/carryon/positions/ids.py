"""Which id a token has.

Shapes: B rows, T tokens, N ids of a token; V tokens there are.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..config import ModelConfig
from ..errors import BadConfig, Unsupported


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
    """Ids that grow by more than one from token to token: as many as a row has tokens, drawn from all there are, sorted
    (Ruoss et al., 2023). In training each row has others.

    of 2,048 ids, 5 tokens may be   31 402 877 1203 1990

    How many tokens a row will have is told by its prompt, up to the `=`: half as many again, since a sum takes half of
    what its numbers take. So prompts have to be whole, and what goes on for longer shares the last id.
    """

    is_equals_V: Tensor
    fixed_T: Tensor

    def __init__(self, config: ModelConfig, tokens: Sequence[str]) -> None:
        super().__init__(config, tokens)
        self.register_buffer("is_equals_V", torch.tensor([text == "=" for text in tokens]), persistent=False)
        # Those of evaluation are the same every time.
        gaps = torch.empty(config.context + 2).exponential_(generator=torch.Generator().manual_seed(0))
        self.register_buffer("fixed_T", gaps.cumsum(0), persistent=False)

    def of(self, tokens_BT: Tensor) -> Tensor:
        return self._spread(tokens_BT, self.fixed_T.expand(len(tokens_BT), -1))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        if not self.training:
            return self.of(tokens_BT)
        gaps = torch.empty(len(tokens_BT), len(self.fixed_T), device=tokens_BT.device).exponential_()
        return self._spread(tokens_BT, gaps.cumsum(dim=1))

    def _spread(self, tokens_BT: Tensor, sums_BS: Tensor) -> Tensor:
        """Sums of exponential gaps, as parts of the first N + 1 of them, are N numbers drawn from 0 to 1, sorted."""
        places_BT = super().of(tokens_BT)
        equals_BT = self.is_equals_V[tokens_BT] if len(self.is_equals_V) else torch.zeros_like(tokens_BT).bool()
        prompts_B1 = torch.where(equals_BT, places_BT + 1, self.room).amin(dim=1, keepdim=True)
        tokens_B1 = (prompts_B1 * 3 // 2 + 2).clamp(max=len(self.fixed_T) - 2)
        parts_BT = sums_BS[:, : tokens_BT.shape[1]] / sums_BS.gather(1, tokens_B1)
        return ((parts_BT * (self.room - tokens_B1)).long() + places_BT).clamp(max=self.room - 1)


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
