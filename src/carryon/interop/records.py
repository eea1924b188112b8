"""What an export tells of its run, checked before a run is made of it: anybody may have written it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from ..config import EvaluationConfig
from ..errors import BadInput

_Count = Annotated[int, Field(strict=True, ge=0, le=10**18)]
_Number = Annotated[float, Field(strict=True)]
T = TypeVar("T", bound=BaseModel)


class _Origin(BaseModel):
    commit: str | None = None
    versions: dict[str, str] = {}


class _Result(BaseModel):
    """What is said of every finished run."""

    steps: _Count
    stopped: str
    seconds: _Number
    training_seconds: _Number
    parameters: _Count
    trained_on: _Count
    device: str
    evaluations: dict[str, _Number | None]


class _Asked(BaseModel):
    config: EvaluationConfig
    seconds: _Number


class _Scored(_Asked):
    accuracy: _Number | None
    interval: tuple[_Number, _Number] | None
    right: _Count
    count: _Count
    unreadable: _Count
    by: dict[str, dict[str, tuple[_Count, _Count]]]
    first_wrong_lines: dict[str, _Count]

    @model_validator(mode="after")
    def _no_more_are_right_than_there_are(self) -> Self:
        cells = [cell for counts in self.by.values() for cell in counts.values()]
        if any(right > count for right, count in [(self.right, self.count), *cells]):
            raise ValueError("more are right than were asked")
        return self


class _Corrupted(_Asked):
    count: _Count
    exact: _Number
    relaxed: _Number


class _Read(_Asked):
    perplexity: _Number
    tokens: _Count
    samples: list[str]


class _Row(BaseModel):
    step: _Count
    validation: _Number | None = None


class _Evidence(BaseModel):
    origin: _Origin
    result: _Result
    evaluations: dict[str, dict[str, Any]]
    metrics: list[_Row]


def check_evidence(told: Mapping[str, Any], path: Path) -> None:
    """BadInput unless a run can be made of what `path` tells, with all that is read of it later."""
    _check(_Evidence, told, path)
    for name, found in told["evaluations"].items():
        kind = _Read if "perplexity" in found else _Scored if "accuracy" in found else _Corrupted
        asked = _check(kind, found, path, f"evaluations.{name}.")
        if asked.config.hash != name:  # which becomes a file's name
            raise BadInput(f"{path} is broken: {name[:40]!r} is not the hash of the evaluation it names")


def _check(kind: type[T], told: Any, path: Path, where: str = "") -> T:
    try:
        return kind.model_validate(told)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = where + ".".join(map(str, first["loc"]))
        raise BadInput(f"{path} is broken: {place[:80]}: {first['msg'][0].lower()}{first['msg'][1:100]}") from None
