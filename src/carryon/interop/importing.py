"""Folders of transformers as runs.

Import reads JSON and safetensors, never a pickle, and runs no code of the folder.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors

from ..config import DataConfig, ModelConfig, PretrainedConfig, RunConfig, load
from ..errors import BadInput, PathExists, Unsupported
from ..files import file_hash, read_json
from ..runs import Arrays, Run
from ..tokenizers import Characters, Tokenizer
from .architectures import ARCHITECTURES, plain_arrays
from .huggingface import RECORD, WEIGHTS
from .records import check_evidence
from .vocabularies import is_text, named_characters, read_vocabulary


def import_huggingface(
    folder: Path,
    root: Path,
    data: DataConfig | None = None,
    vocabulary: str | None = None,
    name: str | None = None,
) -> Run:
    """A folder of transformers as a finished run, to be evaluated and asked like any other.

    What was exported here is the same run again, with its hash, its weights to the bit, and its results. Any other
    folder is a new run of a model trained elsewhere, which needs `data`: what it was trained on (plain sums, if left
    out). So is an export whose weights were changed since; its data it knows.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder of Hugging Face's: there is no such folder")
    record = _read_record(folder)
    settings = _read_json(folder / "config.json")
    if settings is None:
        raise BadInput(
            f"{folder} is not a folder of Hugging Face's: it has no config.json. Name one that 'carryon export' or "
            "save_pretrained made"
        )
    kind = settings.get("model_type")
    if kind is None and "train" in settings:
        raise BadInput(f"{folder} is a run already: 'carryon evaluate {folder}' asks it, 'carryon export' exports it")
    exported = _exported_config(folder, record)
    way_out = f"'carryon pretrained add NAME {folder}' registers it, for runs that train it on or only ask it"
    if exported is not None and isinstance(exported.model, PretrainedConfig):
        raise Unsupported(f"{folder} was made of {exported.model.label}, a model of transformers: {way_out}")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise Unsupported(
            f"{folder} has the architecture {kind!r}; those that fit ours are {', '.join(ARCHITECTURES)}: {way_out}"
        )
    ours = exported.model if exported is not None else None
    position = ours.position if isinstance(ours, ModelConfig) else None
    sizes, arrays = ARCHITECTURES[kind].read(_read_weights(folder), settings, str(folder), position)
    digest = file_hash(folder / WEIGHTS)
    if exported is not None and digest == record["weights"] and data is None and vocabulary is None:
        config = exported if name is None else load(RunConfig, record["run"]["config"] | {"name": name})
        if sizes != exported.model:
            raise BadInput(f"{folder} contradicts itself: config.json and carryon.json tell of different models")
        return _restore(folder, root, config, record, arrays)
    tokenizer, arrays = _with_vocabulary(folder, arrays, vocabulary)
    known = exported or RunConfig(data=DataConfig(format={"name": "plain"}))  # type: ignore[arg-type]
    told = {
        "name": name or "huggingface",
        "data": data or known.data,
        "mix": () if data else known.mix,
        "text": None if data else known.text,
        "tokenizer": "characters" if isinstance(tokenizer, Characters) else "gpt2",
        "model": sizes,
        "seed": known.seed,
        "parent": f"weights {digest[:12]}",
    }
    return write_imported(root, told, arrays, tokenizer, folder.resolve().name)


def write_imported(
    root: Path, told: Mapping[str, Any], arrays: Arrays, tokenizer: Tokenizer, source: str, steps: int = 0
) -> Run:
    """A model trained elsewhere as a finished run; `told` is what its config says of it."""
    config = load(RunConfig, {**told, "train": {"steps": 0}, "evaluations": ()})
    with _new_run(root, config) as run:
        run.write_model(arrays, tokenizer.vocabulary if isinstance(tokenizer, Characters) else None)
        run.write_result(
            {
                "steps": steps,
                "stopped": f"imported from {source}",
                "seconds": 0.0,
                "training_seconds": 0.0,
                "parameters": sum(a.size for name, a in arrays.items() if not name.startswith("position.")),
                "trained_on": sum(part.num_examples for part in config.parts),
                "device": "elsewhere",
                "evaluations": {},
            }
        )
    return run


def _with_vocabulary(folder: Path, arrays: Arrays, vocabulary: str | None) -> tuple[Tokenizer, Arrays]:
    """The tokenizer, and the weights with their rows in its order."""
    rows = len(arrays["embedding.weight"])
    if vocabulary is None:
        tokenizer, order = read_vocabulary(folder, rows)
        return tokenizer, arrays | {"embedding.weight": arrays["embedding.weight"][order]}
    return named_characters(vocabulary, rows, str(folder)), arrays


def _restore(folder: Path, root: Path, config: RunConfig, record: Mapping[str, Any], arrays: Arrays) -> Run:
    """The run that was exported, as it was."""
    told = record["run"]
    vocabulary = record.get("vocabulary")
    if config.tokenizer != "gpt2":
        rows = len(arrays["embedding.weight"])
        fits = isinstance(vocabulary, str) and is_text(vocabulary) and Characters(vocabulary).vocab_size == rows
        if not fits:
            raise BadInput(f"{folder / RECORD} is broken: its vocabulary does not fit the model")
    elif vocabulary is not None:
        raise BadInput(f"{folder / RECORD} is broken: byte pairs have no vocabulary of characters")
    check_evidence(told, folder / RECORD)
    with _new_run(root, config) as run:
        run.write_origin(told["origin"])
        for row in told["metrics"]:
            run.log(row)
        run.write_model(arrays, vocabulary)
        for name, found in told["evaluations"].items():
            run.write_evaluation(name, found)
        run.write_result(told["result"])
    return run


@contextmanager
def _new_run(root: Path, config: RunConfig) -> Iterator[Run]:
    """The folder of a run that must not be there yet, and is gone again if the block fails."""
    if (root / config.folder).exists():
        raise PathExists(f"{root / config.folder} is already there: give another --name or --runs")
    run = Run(root / config.folder, config)
    try:
        yield Run.start(root, config)
    except BaseException:
        run.discard()
        raise


def _exported_config(folder: Path, record: Mapping[str, Any]) -> RunConfig | None:
    if not record:
        return None
    told = record.get("run")
    if told is None and "digest" in record:
        raise BadInput(
            f"{folder} is a pretrained model: 'carryon train finetune --set model.pretrained=…' starts from it"
        )
    if not isinstance(told, dict) or not isinstance(told.get("config"), dict) or "weights" not in record:
        raise BadInput(f"{folder / RECORD} is broken: it does not tell of a run")
    return load(RunConfig, told["config"])


def _read_record(folder: Path) -> dict[str, Any]:
    return _read_json(folder / RECORD) or {}


def _read_json(path: Path) -> dict[str, Any] | None:
    return read_json(path, lambda reason: BadInput(f"{path} is broken: {reason}"))


def _read_weights(folder: Path) -> Arrays:
    """All weights in float32."""
    path = folder / WEIGHTS
    if not path.is_file():
        if (folder / f"{WEIGHTS}.index.json").exists():
            raise Unsupported(f"{folder} keeps its weights in several files: save it again as one {WEIGHTS}")
        pickled = sorted(file.name for file in folder.iterdir() if file.suffix in (".bin", ".pt", ".pth", ".ckpt"))
        if pickled:
            raise Unsupported(
                f"{folder} keeps its weights as a pickle ({pickled[0]}), which can run code: save it as {WEIGHTS}"
            )
        raise BadInput(f"{folder} has no {WEIGHTS}")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return plain_arrays(((name, file.get_tensor(name)) for name in file.keys()), str(path))  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise BadInput(f"{path} is broken ({error})") from None
