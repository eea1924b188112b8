"""What an evaluation found: counts by every label, with intervals."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = dict[str, list[int]]
"""label -> [right, all]"""


LENGTH_KEY = 100_000
"""Two lengths as one number, 3x2 as 300002: much quicker to count than text."""


@dataclass
class Report:
    """What an evaluation found. `as_dict` is what is stored."""

    right: int = 0
    count: int = 0
    unreadable: int = 0
    by: dict[str, Counts] = field(default_factory=lambda: defaultdict(lambda: defaultdict(lambda: [0, 0])))
    first_wrong_lines: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    max_failures: int = 10_000

    @property
    def accuracy(self) -> float:
        return self.right / self.count if self.count else float("nan")

    def add(self, kind: str, labels: NDArray[Any], right: NDArray[np.bool_]) -> None:
        """Count one more chunk by these labels."""
        names, places = np.unique(labels, return_inverse=True)
        every, good = np.bincount(places, minlength=len(names)), np.bincount(places[right], minlength=len(names))
        for label, count, num_right in zip(names.tolist(), every.tolist(), good.tolist(), strict=True):
            text = f"{label // LENGTH_KEY}x{label % LENGTH_KEY}" if kind == "lengths" else str(label)
            self.add_counts(kind, text, num_right, count)

    def add_counts(self, kind: str, label: str, right: int, count: int) -> None:
        if count:
            cell = self.by[kind][label]
            cell[0] += right
            cell[1] += count

    def as_dict(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy if self.count else None,
            "interval": wilson(self.right, self.count),
            "right": self.right,
            "count": self.count,
            "unreadable": self.unreadable,
            "by": {kind: dict(sorted(counts.items(), key=_label_order)) for kind, counts in self.by.items()},
            "first_wrong_lines": dict(self.first_wrong_lines.most_common()),
        }


def percent(right: int, count: int) -> str:
    """Three decimals, rounded down: 999,999 of 1,000,000 is 99.999%, not 100.000%."""
    thousandths = right * 100_000 // count if count else 0
    return f"{thousandths // 1000}.{thousandths % 1000:03d}%"


def wilson(right: int, count: int, z: float = 1.96) -> list[float] | None:
    """The 95 % interval of a proportion: unlike the usual one it stays inside [0, 1] and works for 10,000 of 10,000."""
    if not count:
        return None
    share = right / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return [max(0.0, middle - half), min(1.0, middle + half)]


def _label_order(item: tuple[str, Any]) -> tuple[int, Any]:
    label = item[0]
    if re.fullmatch(r"[0-9]+x[0-9]+", label):
        return (0, tuple(map(int, label.split("x"))))
    return (0, float(label)) if re.fullmatch(r"[0-9.e-]+", label) and label[0].isdigit() else (1, label)
