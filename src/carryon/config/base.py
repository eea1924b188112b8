"""What all configs are: frozen values with a hash."""

import hashlib
import json

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


SCHEMA = 1
"""Part of every hash: goes up when the same config comes to mean something else."""


def config_hash(config: Config, leave_out: set[str] | None = None) -> str:
    """Ten hex digits over the fields that differ from their defaults, so that new fields leave old hashes alone."""
    values = config.model_dump(mode="json", exclude_defaults=True, exclude=leave_out)
    canonical = json.dumps({"schema": SCHEMA, **values}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]
