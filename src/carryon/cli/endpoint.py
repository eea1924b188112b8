"""What the commands for hosted models share: the options for a server and for problems, and how these are read."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import amount, number

if TYPE_CHECKING:
    from ..config import DataConfig
    from ..interop.hosted import EndpointConfig

BaseUrl = Annotated[
    str | None, typer.Option(help="The server, such as http://127.0.0.1:8000/v1; OPENAI_BASE_URL if left out.")
]
KeyVariable = Annotated[
    str | None, typer.Option(help="The environment variable with the key, or none; OPENAI_API_KEY if left out.")
]
Timeout = Annotated[float, amount("Seconds for one whole answer.", 0.001)]
# None: not given, so that it can be told from the default that it stands for.
Operation = Annotated[str | None, typer.Option(help="add (if left out), subtract, multiply, sine or sqrt.")]
Digits = Annotated[int | None, number("Longest operand of the integer operations; 3 if left out.")]
Base = Annotated[int | None, number("2 to 10, for the integer operations; 10 if left out.")]
Format = Annotated[
    str | None, typer.Option(help="How problems are written; 'carryon gallery' shows all; hosted_plain if left out.")
]
Spaces = Annotated[bool, typer.Option("--spaces", help="A space between neighbouring digits.")]
Stop = Annotated[str | None, typer.Option(help="Text that ends a completion, in place of its newline.")]
SplitSeed = Annotated[int | None, number("Which test and validation sets; 0 if left out.")]
NumTest = Annotated[int | None, number("Test problems; 10,000 or what a small domain allows.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def data_config(given: dict[str, Any]) -> "DataConfig":
    """Of the options for problems."""
    from ..config import DataConfig, load

    values = {name: value for name, value in given.items() if value is not None}
    format = {name: values.pop(name, None) for name in ("format", "spaces", "stop")}
    name = format["format"] or "hosted_plain"
    options = {"name": name, "spaces": bool(format["spaces"]), "stop": format["stop"]}
    width = {"width": values.get("digits", 3)} if name.endswith("_padded") else {}
    return load(DataConfig, values | {"format": options | width})


def refuse_beside(why: str, given: dict[str, Any]) -> None:
    """Options that say again what is said already are not passed over in silence."""
    from ..errors import BadConfig

    if named := [
        f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None and value is not False
    ]:
        raise BadConfig(f"{why}: leave {', '.join(named)} out")


def endpoint_config(base_url: str | None, key_variable: str | None, timeout: float) -> "EndpointConfig":
    from ..config import load
    from ..interop.hosted import OPENAI, EndpointConfig

    url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
    values = {"base_url": url, "key_variable": key_variable, "timeout": timeout}
    return load(EndpointConfig, values, as_options=True)


def tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
