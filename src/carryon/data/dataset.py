"""A data set: splits written in a format."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from ..config import DataConfig
from ..formats import Example, Format, make_format
from ..operations import Problems
from .splits import Splits, domain_of, make_splits


@dataclass(frozen=True)
class Dataset:
    splits: Splits
    format: Format

    def problems(self, split: str) -> Problems:
        return Problems(self.splits.operation, self.splits.domain, self.splits.codes(split))

    def examples(self, split: str) -> Iterator[Example]:
        return map(self.format.write, self.problems(split))

    def size(self, split: str) -> int:
        return len(self.splits.codes(split))


def make_dataset(config: DataConfig, seed: int = 0) -> Dataset:
    """The data set of a config and a training seed; refuses what does not go together before drawing anything."""
    format = make_format(config.format, seed)
    format.check(config.operation, config.operands)
    domain_of(config)
    return Dataset(make_splits(config, seed), format)


class ContentHash:
    """A hash of examples in their order, whatever file they are in."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, prompt: str, completion: str) -> None:
        self._hash.update(f"{prompt}\0{completion}\0".encode("utf-8", "surrogatepass"))

    def hexdigest(self) -> str:
        return self._hash.hexdigest()
