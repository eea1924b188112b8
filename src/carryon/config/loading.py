"""Configs from what somebody wrote: settings put in, and all that is wrong said at once."""

import copy
import tomllib
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from ..errors import BadConfig, did_you_mean
from .base import Config


def override(values: dict[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """`values` with settings such as "train.steps=100" put in; values are TOML, and text where that fails.

    Without a value, as in "model.reach=", a setting goes back to its default.
    """
    result = copy.deepcopy(values)
    for setting in settings:
        path, equals, text = setting.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise BadConfig(f"setting {setting!r} is not of the form a.b=c, such as train.steps=100")
        inner = result
        for key in keys[:-1]:
            if inner.get(key) is None:  # not there, or an option that is off, such as model.lora
                inner[key] = {}
            inner = inner[key]
            if not isinstance(inner, dict):
                raise BadConfig(f"setting {setting!r} goes into {key!r}, which is not a table")
        if not text.strip():
            inner.pop(keys[-1], None)
            continue
        try:
            inner[keys[-1]] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            inner[keys[-1]] = text.strip()
    return result


C = TypeVar("C", bound=Config)


def load(kind: type[C], values: Mapping[str, Any], *, as_options: bool = False) -> C:
    """`values` as a config of this kind; all that is wrong with them at once, as one BadConfig.

    `as_options`: they were given as options of the same names, which is how a message should call them.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise BadConfig(
            "; ".join(_explain(kind, dict(e), as_options) for e in error.errors(include_url=False))
        ) from None


def _explain(kind: type[Config], error: dict[str, Any], as_options: bool) -> str:
    keys, table = _follow(kind, error["loc"])
    path = ".".join(keys)
    given = error.get("input")
    match error["type"]:
        case "literal_error":
            names = [name.strip(" '") for name in error["ctx"]["expected"].replace(" or ", ",").split(",")]
            return f"unknown {path} {given!r}{did_you_mean(given, names)}; choose from {', '.join(sorted(names))}"
        case "extra_forbidden":
            known = list(table.model_fields)
            return f"unknown key {path}{did_you_mean(error['loc'][-1], known)}; choose from {', '.join(sorted(known))}"
        case "model_type" if inner := _configs_in(_annotation(table, keys)):
            return f"{path} is a table, not {given!r}: set {path}.{next(iter(inner[0].model_fields))}, say"
        case "value_error":
            return str(error["ctx"]["error"])
        case _:
            path = f"--{path.replace('_', '-')}" if as_options else path
            return f"{path}: {error['msg'][0].lower()}{error['msg'][1:]}, not {given!r}"


def _follow(kind: type[Config], path: tuple[int | str, ...]) -> tuple[list[str], type[Config]]:
    """A path as somebody wrote it, and the innermost table on it.

    Where a key may hold several kinds of table, pydantic puts the one it took into the path.
    """
    keys: list[str] = []
    table = kind
    kinds: dict[str, type[Config]] = {}
    for part in map(str, path):
        if part in kinds:
            table = kinds[part]
            continue
        keys.append(part)
        if (field := table.model_fields.get(part)) is not None:
            kinds = {found.__name__: found for found in _configs_in(field.annotation)}
            table = next(iter(kinds.values()), table)
    return keys, table


def _annotation(table: type[Config], keys: list[str]) -> Any:
    field = table.model_fields.get(keys[-1])
    return table if field is None else field.annotation


def _configs_in(annotation: Any) -> list[type[Config]]:
    """The kinds of config an annotation allows: one, one or None, one of several."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return [annotation]
    return [found for inner in typing.get_args(annotation) for found in _configs_in(inner)]
