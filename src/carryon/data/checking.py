"""Is a data set on disk what its manifest says? Every example is read back, worked again and compared."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import BadDataset, BadOperand, CarryonError
from ..files import file_hash
from ..formats import Format, make_format
from ..operations import Codes, Domain, Operation, Problem
from ..sampling import Barred
from .dataset import ContentHash
from .forms import FORMS
from .manifest import Manifest, SplitRecord, count_duplicates, count_overlap, count_strata, count_swapped, missed_goals
from .splits import SPLITS, domain_of, make_splits
from .store import Tick, read_manifest

_SHOWN = 3
_TICK_EVERY = 5_000


def check_dataset(path: Path, tick: Tick | None = None) -> tuple[Manifest, list[str]]:
    """The manifest, and all in which the files contradict it or themselves, a line each."""
    manifest = read_manifest(path)
    checker = _Checker(manifest, path, tick)
    faults = []
    codes: dict[str, Codes] = {}
    for split in SPLITS:
        record = manifest.splits.get(split)
        if record is None:
            faults.append(f"{split}: not in the manifest")
            continue
        found = list(checker.check(split, record))
        faults += [f"{split}: {fault}" for fault in found]
        codes[split] = checker.codes
    faults += [f"{name!r} is in the manifest, but is no split" for name in manifest.splits if name not in SPLITS]
    if (path / "README.md").exists() != (manifest.form == "hf"):
        faults.append("README.md, which belongs to an hf folder and to no other, is missing or too many")
    if len(codes) == len(SPLITS):
        faults += _check_across(manifest, checker.domain, codes)
        faults += _check_again(manifest, codes)
    return manifest, faults


def _check_again(manifest: Manifest, codes: dict[str, Codes]) -> Iterator[str]:
    """Draw the problems once more, from the config and the seed alone."""
    try:
        splits = make_splits(manifest.config, manifest.seed)
    except CarryonError as error:
        yield f"the config cannot be drawn: {error}"
        return
    made_by = "" if manifest.carryon == __version__ else f" (made by version {manifest.carryon}, this is {__version__})"
    for split, found in codes.items():
        if found.tolist() != splits.codes(split).tolist():
            yield f"{split}: not the problems that the config and the seed give{made_by}"
    expected: dict[str, object] = {
        "excluded_numbers": splits.excluded_numbers,
        "goals": splits.goals,
        "missed": missed_goals(splits),
        "notes": splits.notes,
    }
    for name, value in expected.items():
        if (said := getattr(manifest, name)) != value:
            yield f"{name}: the manifest says {_short(str(said))}, it is {_short(str(value))}"


def _check_across(manifest: Manifest, domain: Domain, codes: dict[str, Codes]) -> Iterator[str]:
    hidden = Barred(domain, domain.codes([]), manifest.config.exclude, manifest.excluded_numbers)
    if shown := int((~hidden.allows(codes["train"])).sum()):
        yield f"train: {shown:,} problems contain what the config excludes"
    for pair, count in count_overlap(codes).items():
        if count:
            yield f"{pair} share {count:,} problems"
        if (said := manifest.overlap.get(pair)) != count:
            yield f"{pair}: the manifest says they share {said} problems, counted {count:,}"
    if (swapped := count_swapped(domain, codes)) != manifest.swapped:
        yield f"swapped: the manifest says {manifest.swapped}, counted {swapped}"
    if unknown := set(manifest.overlap) - set(count_overlap(codes)):
        yield f"overlap: the manifest speaks of {', '.join(sorted(unknown))}"


class _Checker:
    def __init__(self, manifest: Manifest, path: Path, tick: Tick | None) -> None:
        self.path, self.tick = path, tick
        self.form = FORMS[manifest.form]
        self.format: Format = make_format(manifest.config.format, manifest.seed)
        self.operation: Operation
        self.operation, self.domain = domain_of(manifest.config)
        self.codes = self.domain.codes([])

    def check(self, split: str, record: SplitRecord) -> Iterator[str]:
        """Faults of one split; its problems are left in `codes`."""
        self.codes = self.domain.codes([])
        # The path comes from the form, never from the manifest, which may be anybody's.
        path = self.path / self.form.file(split)
        if record.file != self.form.file(split):
            yield f"the manifest says the file is {_short(record.file)}, it is {self.form.file(split)}"
        if not path.is_file():
            yield f"{self.form.file(split)} is missing"
            return
        if (size := path.stat().st_size) != record.bytes:
            yield f"the manifest says {record.bytes:,} bytes, the file has {size:,}"
        elif (sha256 := file_hash(path)) != record.sha256:
            yield f"the manifest says the file's hash is {record.sha256[:12]}…, it is {sha256[:12]}…"
        try:
            yield from self._check_examples(path, split, record)
        except (BadDataset, UnicodeDecodeError) as error:
            yield f"cannot be read to its end: {error}"

    def _check_examples(self, path: Path, split: str, record: SplitRecord) -> Iterator[str]:
        content = ContentHash()
        values: list[int] = []
        number = characters = wrong = 0
        for number, row in enumerate(self.form.read(path, self.format), start=1):
            prompt, completion = row["prompt"], row["completion"]
            content.add(prompt, completion)
            characters += len(prompt) + len(completion)
            code, fault = self._check_example(row)
            if code is not None:
                values.append(code)
            if fault:
                wrong += 1
                if wrong <= _SHOWN:
                    yield f"example {number:,} {fault}: {_short(prompt + completion)}"
            if self.tick and number % _TICK_EVERY == 0:
                self.tick(split, number)
        if wrong > _SHOWN:
            yield f"{wrong:,} examples are wrong in all"
        self.codes = self.domain.codes(values)
        counted: dict[str, object] = {
            "examples": number,
            "characters": characters,
            "content": content.hexdigest(),
            "duplicates": count_duplicates(self.codes),
            **count_strata(self.operation, self.domain, self.codes),
        }
        for name, value in counted.items():
            if (said := getattr(record, name)) != value:
                yield f"{name}: the manifest says {said}, counted {value}"
        if counted["duplicates"]:
            yield f"{counted['duplicates']} problems occur again"

    def _check_example(self, row: dict[str, Any]) -> tuple[int | None, str | None]:
        """The problem's code, and what is wrong with the example."""
        prompt, completion = row["prompt"], row["completion"]
        question = self.format.asked(prompt)
        operands = self.operation.parse(question) if question is not None else None
        if operands is None:
            return None, f"does not ask for {self.operation.name} in the format {self.format.name}"
        try:
            code = self.domain.code(self.operation.check(operands))
        except BadOperand as error:
            return None, str(error)
        if code is None:
            return None, "lies outside the data set's domain"
        example = self.format.write(Problem(self.operation, operands))
        if example.prompt != prompt:
            return code, "has a prompt that is not written in its format"
        if example.completion != completion:
            return code, f"has a wrong completion (the answer is {example.answer})"
        expected = {"answer": example.answer, "operation": self.operation.name, "operands": list(operands)}
        for name, value in expected.items():
            if name in row and row[name] != value:
                return code, f"says its {name} is {_short(str(row[name]))}, not {value}"
        return code, None


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 80 else f"{shown[:60]}…{shown[-19:]}"
