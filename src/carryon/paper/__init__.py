"""The paper's own numbers (Lee et al., Teaching Arithmetic to Small Transformers, 2023), by its labels.

A figure whose numbers were never published has no series. Labels that start with "extra:" are numbers the authors
published beside the paper.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any


def table(label: str) -> dict[str, Any]:
    """table("table:num_examples")["rows"]"""
    found: dict[str, Any] = _load("tables.json")[label]
    return found


def figure(label: str) -> dict[str, Any]:
    """figure("fig:plain_vs_reverse")["series"]["reverse"] is a list of points."""
    found: dict[str, Any] = _load("figures.json")[label]
    return found


@cache
def _load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((files(__package__) / name).read_text(encoding="utf-8"))
    return loaded
