"""The paper's own numbers (Lee et al., Teaching Arithmetic to Small Transformers, 2023), by its labels."""

import json
from importlib.resources import files
from typing import Any


def table(label: str) -> dict[str, Any]:
    """table("table:num_examples")["rows"]"""
    tables: dict[str, dict[str, Any]] = json.loads((files(__package__) / "tables.json").read_text(encoding="utf-8"))
    return tables[label]
