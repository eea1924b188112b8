"""What is trained: a decoder of ours, or another's model."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from .base import Config
from .names import IdsName, PositionName

_COUPLED = {"coupling": "reverse_padded", "coupling_sums": "running_sums", "coupling_products": "partial_products"}


class ModelConfig(Config):
    """The paper's NanoGPT; GPT-2 is layers=12, heads=12, width=768."""

    layers: int = Field(default=6, ge=1, le=200)
    heads: int = Field(default=6, ge=1, le=200)
    width: int = Field(default=384, ge=1, le=20_000)
    context: int = Field(default=256, ge=2, le=100_000)
    """Most tokens the model can look at."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    loops: int = Field(default=1, ge=1, le=200)
    """How many times all layers are gone through."""
    inject: bool = False
    """Every time after the first, the embedding is added to what they read."""
    position: PositionName = "learned"
    ids: IdsName = "places"
    """Which number of a token `position` goes by: its place in the row, or that of a digit in its number."""
    places: int | None = Field(default=None, ge=2, le=100_000)
    """How many ids there are, where a token's is not its place in the row; None: as many as model.context. Of several
    ids of a token, each has so many."""
    reach: int | None = Field(default=None, ge=0)
    """Tokens see only those whose ids are no further away than this; of several ids, none may be."""

    @property
    def room(self) -> int:
        """How many ids there are."""
        return self.places or self.context

    @property
    def reads_only(self) -> str | None:
        """The one format that its ids are made for: they find digits where that writes them."""
        return _COUPLED.get(self.ids)

    @property
    def streams(self) -> int:
        """How many ids a token has."""
        return {"coupling_sums": 2, "coupling_products": 3}.get(self.ids, 1)

    @model_validator(mode="after")
    def _ids_have_room(self) -> Self:
        problems = []
        if self.ids == "places" and self.places is not None:
            problems.append("model.places goes with other ids than places: set model.context")
        if self.ids in ("shifted", "scattered") and self.room <= self.context:
            problems.append(
                f"{self.ids} ids need more of them than a row has tokens: set model.places above model.context, "
                f"{self.context}"
            )
        if self.streams > 1 and self.position not in ("learned", "none"):
            problems.append(
                f"{self.ids} gives a token {self.streams} ids, and {self.position} positions go by one: "
                "set model.position=learned"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} cannot be shared by {self.heads} heads: make it a multiple")
        if self.position in ("sinusoidal", "rotary") and self.width // self.heads % 2:
            raise ValueError(f"{self.position} positions need an even width per head, not {self.width // self.heads}")
        return self

    @model_validator(mode="after")
    def _injection_needs_loops(self) -> Self:
        if self.inject and self.loops == 1:
            raise ValueError(
                "model.inject adds the embedding from the second loop on: set model.loops, or leave it out"
            )
        return self

    @property
    def passes(self) -> int:
        """How many layers a token goes through."""
        return self.layers * self.loops

    @property
    def label(self) -> str:
        return f"{self.layers} x {self.width}" + (f", {self.loops} loops" if self.loops > 1 else "")

    @property
    def draws(self) -> bool:
        """Whether training draws anything: dropout, or where ids begin."""
        return self.dropout > 0 or self.ids != "places"


class LoraConfig(Config):
    """Low-rank changes to a pretrained model's matrices, all that is trained then."""

    rank: int = Field(default=8, ge=1, le=4_096)
    alpha: float = Field(default=16.0, gt=0)
    """The change is scaled by alpha / rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[str, ...] = ()
    """Names of the layers that are changed, such as q_proj; empty: every linear layer but the output's."""


class PretrainedConfig(Config):
    """Another's model, with its own tokenizer, trained on."""

    pretrained: str
    """A name of the catalogue, which stands for fixed weights, or one a user gave, with a digest: gpt2@0123abcd45."""
    context: int = Field(default=256, ge=2, le=100_000)
    """Most tokens it looks at here; its own limit may be higher."""
    weights: Literal["pretrained", "random"] = "pretrained"
    """random: the same architecture and tokenizer, drawn anew by the run's seed."""
    lora: LoraConfig | None = None
    """None: all weights are trained."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Of every dropout its architecture has."""

    @field_validator("pretrained")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,60}(@[0-9a-f]{10})?", name):
            raise ValueError(
                f"model.pretrained {name!r} is not a name such as stories15m or gpt2@0123abcd45: "
                "'carryon pretrained list' shows those that are here"
            )
        return name

    @model_validator(mode="after")
    def _an_adapter_needs_something_to_adapt(self) -> Self:
        if self.lora is not None and self.weights == "random":
            raise ValueError("model.lora changes pretrained weights: leave it out, or model.weights random")
        return self

    @property
    def label(self) -> str:
        parts = [self.pretrained]
        if self.weights == "random":
            parts.append("from scratch")
        if self.lora is not None:
            parts.append(f"LoRA {self.lora.rank}")
        return ", ".join(parts)

    @property
    def draws(self) -> bool:
        return self.dropout > 0 or (self.lora is not None and self.lora.dropout > 0)


def kind_of_model(value: Any) -> str:
    """Which of the two a table describes: its keys tell."""
    if isinstance(value, dict):
        return "PretrainedConfig" if "pretrained" in value else "ModelConfig"
    return type(value).__name__ if isinstance(value, PretrainedConfig) else "ModelConfig"


AnyModel = Annotated[
    Annotated[ModelConfig, Tag("ModelConfig")] | Annotated[PretrainedConfig, Tag("PretrainedConfig")],
    Discriminator(kind_of_model),
]
