"""The run folder: what training writes and everything else reads. No other code knows its file names.

runs/<name>-<hash>/  config.json     the complete config
                     origin.json     code version, package versions, device, threads, command
                     metrics.jsonl   a line per evaluation
                     model.safetensors
                     state/          what resuming needs: the two newest checkpoints, each with its checksum
                     labels/         of a self-improvement, what it labelled: a file a round, each with its checksum
                     model-1/ …      of one whose models vote, the state and metrics of those after the first
                     evaluations/<hash>.json
                     result.json     written last: the run and its planned evaluations are done
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray
from pydantic import ValidationError

from .config import ImprovementConfig, RunConfig, TrainedConfig
from .errors import BadRun, RunMismatch
from .files import file_hash, hold, read_json, write_whole

Arrays = dict[str, NDArray[Any]]

_KEPT_STATES = 2


class Run:
    """One run folder."""

    def __init__(self, path: Path, asked: TrainedConfig) -> None:
        self.path = path
        self.asked = asked
        """What was asked for: a training run, or a self-improvement."""
        self.config = asked.outcome if isinstance(asked, ImprovementConfig) else asked
        """Of its model."""

    @classmethod
    def open(cls, path: Path) -> "Run":
        """An existing run."""
        return cls(path, _read_config(path))

    @classmethod
    def start(cls, root: Path, config: TrainedConfig) -> "Run":
        """The folder of this config under `root`, made if it is not there; refused if it holds another run."""
        path = root / config.folder
        if (path / "config.json").exists():
            there = _read_config(path)
            if there.hash != config.hash:
                raise RunMismatch(f"{path} holds another run: {difference(there, config)}; choose another name")
        else:
            path.mkdir(parents=True, exist_ok=True)
            write_whole(path / "config.json", config.model_dump_json(indent=2) + "\n")
        return cls(path, config)

    @property
    def command(self) -> str:
        """What goes on with it."""
        return "carryon improve" if isinstance(self.asked, ImprovementConfig) else "carryon train"

    @property
    def is_done(self) -> bool:
        return (self.path / "result.json").exists()

    def discard(self) -> None:
        """Remove the folder, with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def start_again(self) -> None:
        """Forget that it was done, how far it had come, and what its old weights answered."""
        (self.path / "result.json").unlink(missing_ok=True)
        shutil.rmtree(self.path / "evaluations", ignore_errors=True)
        self.drop_state()

    def of_voter(self, number: int, config: RunConfig) -> "Run":
        """The folder of another model inside of this one."""
        path = self.path / f"model-{number}"
        path.mkdir(exist_ok=True)
        return Run(path, config)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time may train in a folder."""

        def busy(holder: str) -> RunMismatch:
            return RunMismatch(f"{self.path} is being trained by process {holder}")

        with hold(self.path / "lock", busy):
            yield

    # --- what was done with what ----------------------------------------------------------------------------------

    def write_origin(self, origin: Mapping[str, Any]) -> None:
        write_whole(self.path / "origin.json", json.dumps(origin, indent=2) + "\n")

    def read_origin(self) -> dict[str, Any]:
        return _read_json(self.path / "origin.json") or {}

    # --- metrics ----------------------------------------------------------------------------------------------------

    def log(self, row: Mapping[str, Any]) -> None:
        with open(self.path / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """All rows that can be read: the last may have been cut off by a kill."""
        try:
            lines = (self.path / "metrics.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []
        rows = []
        for line in lines:
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
        return rows

    def forget_metrics_from(self, step: int) -> None:
        """Drop the rows of steps that will be done again."""
        rows = [row for row in self.metrics() if row["step"] < step]
        write_whole(self.path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    # --- weights ----------------------------------------------------------------------------------------------------

    def write_model(self, arrays: Arrays, vocabulary: str | None) -> None:
        """The finished weights; the vocabulary of a character tokenizer travels with them."""
        metadata = {"format": "pt"} | ({"vocabulary": vocabulary} if vocabulary is not None else {})
        write_whole(self.path / "model.safetensors", _in_order(safetensors.numpy.save(arrays, metadata)))

    def read_model(self) -> tuple[Arrays, str | None]:
        path = self.path / "model.safetensors"
        if not path.exists():
            raise BadRun(f"{self.path} has no finished model yet: '{self.command}' goes on where it stopped")
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                return {name: file.get_tensor(name) for name in file.keys()}, (file.metadata() or {}).get("vocabulary")  # noqa: SIM118
        except safetensors.SafetensorError as error:
            raise BadRun(f"{path} is broken ({error}): delete it and run '{self.command}' again") from None

    def write_state(self, step: int, arrays: Arrays, state: Mapping[str, Any]) -> None:
        """A checkpoint. The file of numbers is written first, then the one that vouches for it; then old ones go."""
        folder = self.path / "state"
        folder.mkdir(exist_ok=True)
        numbers = folder / f"{step:09d}.safetensors"
        write_whole(numbers, safetensors.numpy.save(arrays))
        record = {"step": step, "sha256": file_hash(numbers), **state}
        write_whole(folder / f"{step:09d}.json", json.dumps(record) + "\n")
        for old in sorted(folder.glob("*.json"))[:-_KEPT_STATES]:
            old.unlink()
            old.with_suffix(".safetensors").unlink(missing_ok=True)

    def read_state(self) -> tuple[Arrays, dict[str, Any]] | None:
        """The newest checkpoint that is whole; None: start from the beginning."""
        for path in sorted((self.path / "state").glob("*.json"), reverse=True):
            numbers = path.with_suffix(".safetensors")
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                if file_hash(numbers) == record["sha256"]:
                    return safetensors.numpy.load_file(numbers), record
            except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError):
                continue
        return None

    # --- labels -----------------------------------------------------------------------------------------------------

    def write_labels(self, number: int, pairs: Sequence[tuple[str, str]], record: Mapping[str, Any]) -> None:
        """The labels of a round, as prompts and completions. As with checkpoints, what vouches for them comes last."""
        folder = self.path / "labels"
        folder.mkdir(exist_ok=True)
        lines = folder / f"{number:04d}.jsonl"
        write_whole(lines, "".join(json.dumps(pair) + "\n" for pair in pairs))
        record = {"sha256": file_hash(lines), **record}
        write_whole(lines.with_suffix(".json"), json.dumps(record, indent=2) + "\n")

    def read_labels(self, number: int) -> tuple[list[tuple[str, str]], dict[str, Any]] | None:
        """The labels of a round and their record; None if they are not there, or not whole."""
        lines = self.path / "labels" / f"{number:04d}.jsonl"
        try:
            record = json.loads(lines.with_suffix(".json").read_text(encoding="utf-8"))
            if record.pop("sha256") != file_hash(lines):
                return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        pairs = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
        return [(prompt, completion) for prompt, completion in pairs], record

    @property
    def part_done(self) -> float:
        """Which part of its steps it has behind it, as far as a checkpoint can tell."""
        if (self.path / "model.safetensors").exists():
            return 1.0
        steps = [int(path.stem) for path in (self.path / "state").glob("*.json") if path.stem.isdecimal()]
        return min(1.0, max(steps, default=0) / max(1, self.config.train.steps))

    def drop_state(self) -> None:
        """A finished run needs no checkpoints."""
        shutil.rmtree(self.path / "state", ignore_errors=True)

    # --- results ----------------------------------------------------------------------------------------------------

    def write_evaluation(self, name: str, result: Mapping[str, Any]) -> None:
        (self.path / "evaluations").mkdir(exist_ok=True)
        write_whole(self.path / "evaluations" / f"{name}.json", json.dumps(result, indent=2) + "\n")

    def read_evaluation(self, name: str) -> dict[str, Any] | None:
        return _read_json(self.path / "evaluations" / f"{name}.json")

    def evaluations(self) -> dict[str, dict[str, Any]]:
        """All that was asked so far, by the question's hash."""
        names = sorted(path.stem for path in (self.path / "evaluations").glob("*.json"))
        return {name: found for name in names if (found := self.read_evaluation(name)) is not None}

    def write_result(self, result: Mapping[str, Any]) -> None:
        write_whole(self.path / "result.json", json.dumps(result, indent=2) + "\n")

    def read_result(self) -> dict[str, Any] | None:
        return _read_json(self.path / "result.json")


def find_run(name: str, root: Path) -> Run:
    """The run at a path, or under `root` by its folder's name, its hash or the beginning of either."""
    if (Path(name) / "config.json").is_file():
        return Run.open(Path(name))
    folders = run_folders(root)
    exact = [f for f in folders if name in (f.name, *f.name.rpartition("-")[::2])]
    found = exact or [f for f in folders if f.name.startswith(name) or f.name.rpartition("-")[2].startswith(name)]
    if len(found) == 1:
        return Run.open(found[0])
    if found:
        raise BadRun(f"{name!r} could be any of {', '.join(f.name for f in found[:5])}: write more of it")
    known = ", ".join(f.name for f in folders[:8]) or "none: 'carryon train' makes one"
    known += f" and {len(folders) - 8:,} more ('carryon runs')" if len(folders) > 8 else ""
    raise BadRun(f"there is no run {name!r} in {root}; there are: {known}")


def run_folders(root: Path) -> list[Path]:
    """All run folders under `root`, oldest first."""
    if not root.is_dir():
        return []
    configs = [path for path in root.glob("*/config.json") if path.is_file()]
    return [path.parent for path in sorted(configs, key=lambda path: (path.stat().st_mtime, path.parent.name))]


def part_done(config: TrainedConfig, root: Path) -> float:
    """The same of a run that may not have been begun."""
    return Run(root / config.folder, config).part_done


def difference(one: TrainedConfig, other: TrainedConfig) -> str:
    """What two configs disagree on: "train.steps is 100, not 200"."""
    a, b = (_flat(config.model_dump(mode="json")) for config in (one, other))
    keys = [key for key in a | b if a.get(key) != b.get(key) and not key.startswith(("name", "evaluations", "watch"))]
    return ", ".join(f"{key} is {a.get(key)!r}, not {b.get(key)!r}" for key in keys[:5])


def _flat(values: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(values, dict):
        return {path: values}
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{path}.{key}" if path else key)
    return flat


def _read_config(path: Path) -> TrainedConfig:
    try:
        text = (path / "config.json").read_text(encoding="utf-8")
        return _kind_of(text).model_validate_json(text)
    except FileNotFoundError:
        raise BadRun(f"{path} is not a run: it has no config.json") from None
    except (ValidationError, UnicodeDecodeError) as error:
        if (path / "carryon.json").is_file():
            raise BadRun(f"{path} is an exported model, not a run: 'carryon import {path}' makes a run of it") from None
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise BadRun(f"{path / 'config.json'} is broken: {first}") from None


def _kind_of(text: str) -> type[RunConfig] | type[ImprovementConfig]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return RunConfig  # which says what is wrong with it
    return ImprovementConfig if isinstance(values, dict) and "kind" in values else RunConfig


def _read_json(path: Path) -> dict[str, Any] | None:
    return read_json(path, lambda _: BadRun(f"{path} is broken: delete it, and what it holds is worked out again"))


def as_arrays(tensors: Mapping[str, Any]) -> Arrays:
    """Tensors, wherever they are, as numpy arrays."""
    return {name: np.asarray(tensor.detach().cpu().numpy()) for name, tensor in tensors.items()}


def _in_order(content: bytes) -> bytes:
    """The same file with its metadata sorted: safetensors writes them in another order in every process."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # the numbers behind it are aligned
    return len(text).to_bytes(8, "little") + text + content[8 + length :]
