"""What can be set: where a server is, what is asked of it, what it is to train, and how far one may go."""

import re
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from ...config import Config, DataConfig
from ...data import read_manifest
from ...errors import Unsupported

OPENAI = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
_OURS = ("model", "messages", "prompt", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed")


class EndpointConfig(Config):
    """A server that speaks OpenAI's protocol."""

    base_url: str = Field(default=OPENAI, max_length=2_000)
    """Usually ends in /v1."""
    key_variable: str | None = None
    """The environment variable that holds the key; None: OPENAI_API_KEY; "none": no key is sent."""
    timeout: float = Field(default=60, gt=0, le=3_600)
    """Seconds for one whole answer."""

    @field_validator("key_variable")
    @classmethod
    def _is_a_name_and_no_key(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):  # not repeated: it may be a key
            raise ValueError(
                "--key-variable takes the NAME of an environment variable, such as OPENAI_API_KEY, and never the key"
            )
        return value

    @field_validator("base_url")
    @classmethod
    def _is_an_address_and_no_secret(cls, value: str) -> str:
        parts = urlsplit(value)
        if "@" in parts.netloc or parts.query or parts.fragment:  # not repeated here: it may hold a password
            raise ValueError("--base-url holds more than an address: keys come from the environment, never from here")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"--base-url {value!r} is not an address such as http://127.0.0.1:8000/v1")
        return value.rstrip("/")

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc

    @property
    def is_private(self) -> bool:
        """Whether nobody on the way can read what is sent."""
        parts = urlsplit(self.base_url)
        host = parts.hostname or ""
        return (
            parts.scheme == "https" or host in ("localhost", "::1") or re.fullmatch(r"127(\.\d+){3}", host) is not None
        )


class RequestConfig(Config):
    """What every request says beside its prompt."""

    model: str = Field(min_length=1, max_length=1_000)
    kind: Literal["chat", "completion"] = "chat"
    """chat: the prompt is a user's message; completion: the model goes on writing the prompt."""
    instruction: str = Field(default="", max_length=100_000)
    """chat: the system's message; completion: text in front of everything."""
    temperature: float | None = Field(default=0.0, ge=0, le=100)
    """0: greedy; None: not sent, the server decides (some models take no other)."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    """None: what the longest right answer could need, and a quarter more."""
    send_stop: bool = True
    """Name the format's end mark as a stop sequence, where it cannot occur before the end."""
    answer_after: str | None = Field(default=None, min_length=1, max_length=200)
    """Read only what follows the last of these, such as </think>; sends no stop sequence."""
    body: dict[str, Any] = Field(default_factory=dict)
    """More fields for the request's body, as the server knows them."""

    @field_validator("body")
    @classmethod
    def _has_its_own_fields(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted(set(value) & {*_OURS, "n", "stream"}):
            raise ValueError(f"--body cannot set {', '.join(taken)}: there are options for what is sent")
        return value


class LimitsConfig(Config):
    """How fast, how often and for how much."""

    concurrency: int = Field(default=8, ge=1, le=256)
    """Requests at the same time."""
    retries: int = Field(default=6, ge=0, le=100)
    """Times a request is sent again when the server fails."""
    backoff: float = Field(default=0.5, ge=0, le=60)
    """Seconds before the first retry, doubled for each one after it, up to half a minute."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    """Prompts and the most their answers may have."""
    price_input: float | None = Field(default=None, ge=0)
    """Dollars for a million tokens of prompts …"""
    price_output: float | None = Field(default=None, ge=0)
    """… and of answers."""
    max_cost: float | None = Field(default=None, gt=0)
    """Dollars, all sessions of an evaluation together."""
    max_requests: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _a_cap_needs_prices(self) -> Self:
        if (self.price_input is None) != (self.price_output is None):
            raise ValueError("--price-input and --price-output go together: give both or neither")
        if self.max_cost is not None and self.price_input is None:
            raise ValueError("--max-cost needs --price-input and --price-output, in dollars for a million tokens")
        return self

    def cost(self, input_tokens: int, output_tokens: int) -> float | None:
        if self.price_input is None or self.price_output is None:
            return None
        return (input_tokens * self.price_input + output_tokens * self.price_output) / 1_000_000


class TuningConfig(Config):
    """A fine-tuning job."""

    base_url: str
    model: str = Field(min_length=1, max_length=1_000)
    """The model to start from."""
    data: DataConfig
    seed: int = 0
    form: Literal["openai", "openai_prompt"] = "openai"
    """openai: for chat models; openai_prompt: for those that complete."""
    data_folder: str | None = None
    """A data set that is there already; None: it is made in the job's folder."""
    validation: bool = True
    """Upload the validation set, too."""
    suffix: str | None = Field(default=None, max_length=64)
    """Part of the tuned model's name."""
    epochs: int | None = Field(default=None, ge=1, le=50)
    """None, here and below: the server decides."""
    batch_size: int | None = Field(default=None, ge=1)
    learning_rate_multiplier: float | None = Field(default=None, gt=0)

    @property
    def splits(self) -> tuple[str, ...]:
        return ("train", "validation") if self.validation else ("train",)


def config_of_dataset(folder: Path) -> tuple[DataConfig, int, str]:
    """What a data set for fine-tuning is: its config, its seed and its form."""
    manifest = read_manifest(folder)
    if manifest.form not in ("openai", "openai_prompt"):
        raise Unsupported(
            f"{folder} is kept as {manifest.form}, and fine-tuning wants openai or openai_prompt: "
            "make it with 'carryon data make --as openai'"
        )
    return manifest.config, manifest.seed, manifest.form
