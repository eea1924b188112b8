"""Configs from what somebody wrote: settings put in, and all that is wrong said at once."""

import copy
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from ..errors import BadConfig, did_you_mean
from .base import Config


def override(values: dict[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """`values` with settings such as "train.steps=100" put in; values are TOML, and text where that fails."""
    result = copy.deepcopy(values)
    for setting in settings:
        path, equals, text = setting.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise BadConfig(f"setting {setting!r} is not of the form a.b=c, such as train.steps=100")
        inner = result
        for key in keys[:-1]:
            if inner.get(key) is None:  # an optional table that is not there yet
                inner[key] = {}
            inner = inner[key]
            if not isinstance(inner, dict):
                raise BadConfig(f"setting {setting!r} goes into {key!r}, which is not a table")
        try:
            inner[keys[-1]] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            inner[keys[-1]] = text.strip()
    return result


C = TypeVar("C", bound=Config)


def load(kind: type[C], values: Mapping[str, Any]) -> C:
    """`values` as a config of this kind; all that is wrong with them at once, as one BadConfig."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise BadConfig("; ".join(_explain(kind, dict(e)) for e in error.errors(include_url=False))) from None


def _explain(kind: type[Config], error: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in error["loc"])
    given = error.get("input")
    match error["type"]:
        case "literal_error":
            names = [name.strip(" '") for name in error["ctx"]["expected"].replace(" or ", ",").split(",")]
            return f"unknown {path} {given!r}{did_you_mean(given, names)}; choose from {', '.join(sorted(names))}"
        case "extra_forbidden":
            known = _fields_at(kind, error["loc"][:-1])
            return f"unknown key {path}{did_you_mean(error['loc'][-1], known)}; choose from {', '.join(sorted(known))}"
        case "value_error":
            return str(error["ctx"]["error"])
        case _:
            return f"{path}: {error['msg'][0].lower()}{error['msg'][1:]}, not {given!r}"


def _fields_at(kind: type[Config], path: tuple[int | str, ...]) -> list[str]:
    for part in path:
        field = kind.model_fields.get(str(part))
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, Config)):
            return []
        kind = inner
    return list(kind.model_fields)
