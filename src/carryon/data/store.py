"""Data sets on disk, written whole or not at all.

DATASET/  train.jsonl  validation.jsonl  test.jsonl  manifest.json
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import ValidationError

from .. import __version__
from ..config import FormName
from ..errors import BadDataset
from ..files import file_hash, write_whole
from .dataset import ContentHash, Dataset
from .folders import files_in, refuse_existing_folder, whole_folder
from .forms import FORMS, Form, Row
from .manifest import Manifest, SplitRecord, count_duplicates, count_overlap, count_strata, count_swapped, missed_goals
from .splits import SPLITS

Tick = Callable[[str, int], None]
"""Told the split and how many examples of it are done."""

_TICK_EVERY = 5_000
_MANIFEST = "manifest.json"
_KIND = "a data set"


def write_dataset(
    dataset: Dataset, path: Path, form: FormName = "jsonl", *, force: bool = False, tick: Tick | None = None
) -> Manifest:
    """The data set and its manifest as a folder. Nothing appears at `path` before all of it is on disk."""
    with whole_folder(path, force, _KIND, _holds_nothing_else) as partial:
        return _write_into(partial, dataset, FORMS[form], tick)


def refuse_existing(path: Path, force: bool) -> None:
    """PathExists unless `path` is free, or `force` may replace the data set there; never anything else."""
    refuse_existing_folder(path, force, _KIND, _holds_nothing_else)


def _holds_nothing_else(path: Path) -> bool:
    """Whether a folder is a data set of ours and holds no other file."""
    try:
        form = FORMS[read_manifest(path).form]
    except BadDataset:
        return False
    return files_in(path) <= {_MANIFEST, "README.md", *(form.file(split) for split in SPLITS)}


def read_manifest(path: Path) -> Manifest:
    try:
        text = (path / _MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        what = "it has no manifest.json" if path.is_dir() else "there is nothing"
        raise BadDataset(f"{path} is not a data set ({what}): make one with 'carryon data make'") from None
    except (NotADirectoryError, IsADirectoryError, UnicodeDecodeError):
        raise BadDataset(f"{path} is not a data set: make one with 'carryon data make'") from None
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadDataset(f"{path / _MANIFEST} is broken{where and f' at {where}'}: {first['msg']}") from None


def _write_into(folder: Path, dataset: Dataset, form: Form, tick: Tick | None) -> Manifest:
    splits = dataset.splits
    records = {split: _write_split(folder, split, dataset, form, tick) for split in SPLITS}
    config = splits.config
    title = f"{config.operation} {config.format.name} {config.num_examples} seed {splits.seed}"
    form.finish(folder, {split: record.file for split, record in records.items()}, title)
    codes = {split: splits.codes(split) for split in SPLITS}
    manifest = Manifest(
        carryon=__version__,
        config=config,
        seed=splits.seed,
        form=form.name,
        splits=records,
        overlap=count_overlap(codes),
        swapped=count_swapped(splits.domain, codes),
        excluded_numbers=splits.excluded_numbers,
        goals=splits.goals,
        missed=missed_goals(splits),
        notes=splits.notes,
    )
    write_whole(folder / _MANIFEST, manifest.model_dump_json(indent=2) + "\n")
    return manifest


def _write_split(folder: Path, split: str, dataset: Dataset, form: Form, tick: Tick | None) -> SplitRecord:
    content = ContentHash()
    characters = 0

    def rows() -> Iterator[Row]:
        nonlocal characters
        for number, problem in enumerate(dataset.problems(split), start=1):
            example = dataset.format.write(problem)
            content.add(example.prompt, example.completion)
            characters += len(example.prompt) + len(example.completion)
            if tick and number % _TICK_EVERY == 0:
                tick(split, number)
            yield problem, example

    file = form.file(split)
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    form.write(path, rows())
    codes = dataset.splits.codes(split)
    return SplitRecord(
        file=file,
        bytes=path.stat().st_size,
        sha256=file_hash(path),
        content=content.hexdigest(),
        examples=len(codes),
        characters=characters,
        duplicates=count_duplicates(codes),
        **count_strata(dataset.splits.operation, dataset.splits.domain, codes),
    )
