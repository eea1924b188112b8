"""What all configs are: frozen values with a hash."""

import hashlib
import json
import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


class Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def _names_a_folder(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", name):
        raise ValueError(f"name {name!r} cannot name a folder: use letters, digits, '.', '_' and '-'")
    return name


FolderName = Annotated[str, AfterValidator(_names_a_folder)]

SCHEMA = 1
"""Part of every hash: goes up when the same config comes to mean something else."""


def config_hash(config: Config, leave_out: set[str] | None = None) -> str:
    """Ten hex digits over the fields that differ from their defaults, so that new fields leave old hashes alone."""
    values = config.model_dump(mode="json", exclude_defaults=True, exclude=leave_out)
    canonical = json.dumps({"schema": SCHEMA, **values}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]
