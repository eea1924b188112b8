"""Runs as folders that `AutoModelForCausalLM` and `AutoTokenizer` open, and such folders as runs.

FOLDER/  config.json  generation_config.json  model.safetensors  tokenizer.json  tokenizer_config.json
         README.md      the model card
         carryon.json   the run: config, origin, result, evaluations; what import makes the same run of

An exported model is opened by transformers and its logits set beside ours before the folder gets its name.
Import reads JSON and safetensors, never a pickle, and runs no code of the folder.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .. import __version__
from ..config import DataConfig, ModelConfig, PretrainedConfig, RunConfig, load
from ..data import Dataset, files_in, make_dataset, whole_folder
from ..errors import BadInput, BadRun, PathExists, Unsupported
from ..files import file_hash, read_json, write_whole
from ..formats import Format
from ..model import Decoder, LanguageModel
from ..runs import Arrays, Run
from ..tokenizers import Characters, Tokenizer, make_tokenizer
from .architectures import ARCHITECTURES, architecture_for, plain_arrays
from .cards import Compared, Shown, model_card
from .library import library, quiet
from .records import check_evidence
from .vocabularies import find_marks, is_text, named_characters, read_vocabulary, vocabulary_files

TOLERANCE = 1e-4
"""Most that two logits in float32 may differ by, or that part of the largest: the same sums in another order."""

_WEIGHTS = "model.safetensors"
RECORD = "carryon.json"
_FILES = {
    "config.json",
    "generation_config.json",
    _WEIGHTS,
    "tokenizer.json",
    "tokenizer_config.json",
    "README.md",
    RECORD,
}
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors|model\.safetensors\.index\.json")
"""What a large model's weights are kept in."""
_COMPARED_TEXTS = 64


def export_huggingface(run: Run, folder: Path, *, force: bool = False) -> Path:
    """A finished run as a folder for transformers. Nothing appears at `folder` before it was opened and compared."""
    transformers = library()
    config, result = run.config, run.read_result()
    arrays, vocabulary = run.read_model()
    if result is None:
        raise BadRun(f"{run.path} is not finished: 'carryon train' goes on where it stopped")
    sizes = config.model
    if not isinstance(sizes, ModelConfig):
        raise Unsupported(f"{run.path.name} is {sizes.label}, a model of transformers already: save_causal writes it")
    architecture = architecture_for(sizes)
    tokenizer = Characters(vocabulary) if vocabulary is not None else make_tokenizer(config.tokenizer)
    parts = [make_dataset(data, config.seed) for data in config.parts]
    marks = find_marks(parts, tokenizer)
    padding_id = None if marks.padding is None else _padding_id(tokenizer, marks.padding)
    stop = marks.stop[0] if len(marks.stop) == 1 else marks.stop or None
    settings = transformers.AutoConfig.for_model(
        architecture.name,
        **architecture.settings(sizes, tokenizer.vocab_size),
        architectures=[architecture.model_class],
        dtype="float32",
        bos_token_id=None,
        eos_token_id=stop,
        pad_token_id=padding_id,
    )
    generation = transformers.GenerationConfig(
        do_sample=False, max_length=config.model.context, eos_token_id=stop, pad_token_id=padding_id
    )
    evidence = evidence_of(run)
    with whole_folder(folder, force, "an exported model", holds_an_export) as partial:
        weights = safetensors.numpy.save(architecture.write(arrays, sizes), {"format": "pt"})
        files: dict[str, str | bytes] = {
            "config.json": settings.to_json_string(),
            "generation_config.json": generation.to_json_string(),
            _WEIGHTS: weights,
            **vocabulary_files(tokenizer, marks.padding, config.model.context),
        }
        for name, content in files.items():
            write_whole(partial / name, content)
        with quiet(), torch.no_grad():
            theirs = transformers.AutoModelForCausalLM.from_pretrained(partial, local_files_only=True).eval()
            reader = transformers.AutoTokenizer.from_pretrained(partial, local_files_only=True)
            ours = _decoder(sizes, arrays)
            batches = compared_batches(reader, tokenizer, parts, ours.vocab_size, sizes.context)
            compared = compare_logits(scores(ours, batches), [theirs(batch).logits for batch in batches])
            shown = ask_one(theirs, reader, parts[0])
        stops = [tokenizer.decode(np.array([token])) for token in marks.stop]
        card = model_card(run.path.name, config, evidence, architecture, stops, marks.padding, shown, compared)
        write_whole(partial / "README.md", card)
        write_record(partial, evidence, vocabulary)
    return folder


def write_record(folder: Path, evidence: Mapping[str, Any], vocabulary: str | None) -> None:
    """carryon.json: the run, and what its weights hash to here."""
    hashes = [file_hash(path) for path in sorted(folder.glob("*.safetensors"))]
    # Only a large model is in several files.
    digest = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    record = {"carryon": __version__, "weights": digest, "vocabulary": vocabulary, "run": evidence}
    write_whole(folder / RECORD, json.dumps(record, indent=2) + "\n")


def evidence_of(run: Run) -> dict[str, Any]:
    """All that is known of a run, apart from its weights."""
    return {
        "config": run.config.model_dump(mode="json"),
        # What was typed names folders of the machine it was typed on.
        "origin": {key: value for key, value in run.read_origin().items() if key != "command"},
        "result": run.read_result(),
        "evaluations": run.evaluations(),
        "metrics": run.metrics(),
    }


def _padding_id(tokenizer: Tokenizer, padding: str) -> int:
    if isinstance(tokenizer, Characters):
        return int(tokenizer.encode(padding)[0])
    return tokenizer.vocab_size - 1  # GPT-2's last token, which encode never makes of a text


def _decoder(sizes: ModelConfig, arrays: Arrays) -> Decoder:
    model = Decoder(sizes, len(arrays["embedding.weight"]))
    model.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    return model.eval()


def compared_batches(
    reader: Any, tokenizer: Tokenizer, parts: list[Dataset], vocab_size: int, context: int
) -> list[Tensor]:
    """Ids to compare the logits of; an export whose tokenizer does not read the test problems as ours is refused."""
    rows = []
    for part in parts:
        problems = part.problems("test" if part.size("test") else "train")
        for example in map(part.format.write, problems[:_COMPARED_TEXTS]):
            # A prompt is read alone when a model is asked, and byte pairs may join across its end.
            for text in (example.prompt, example.completion, example.text):
                ids = tokenizer.encode(text).tolist()
                if reader(text).input_ids != ids or reader.decode(ids) != text:
                    raise Unsupported(
                        f"the export is not written: its tokenizer reads {text!r} in another way than ours"
                    )
            rows.append(torch.tensor(ids[:context]))
    # One row is whatever there is, as long as can be. Texts are padded with token 0, which is as good as any other.
    batches = [torch.randint(vocab_size, (1, context), generator=torch.Generator().manual_seed(0))]
    return batches + [pad_sequence(rows[at : at + 16], batch_first=True) for at in range(0, len(rows), 16)]


@torch.no_grad()
def scores(model: LanguageModel, batches: list[Tensor]) -> list[Tensor]:
    return [model(batch) for batch in batches]


def compare_logits(ours: list[Tensor], theirs: list[Tensor]) -> Compared:
    """Set the logits of an opened export beside ours."""
    difference = float(torch.stack([(a - b).abs().max() for a, b in zip(ours, theirs, strict=True)]).max())
    largest = float(torch.stack([a.abs().max() for a in ours]).max())
    if not difference <= TOLERANCE * max(1.0, largest):
        raise Unsupported(f"the export is not written: its logits differ from ours by {difference:.1e}")
    return Compared(sum(logits[..., 0].numel() for logits in ours), difference)


@torch.no_grad()
def ask_one(theirs: Any, reader: Any, part: Dataset) -> Shown | None:
    """One problem put to an opened export, as anybody would."""
    problems = part.problems("test") if part.size("test") else part.problems("train")
    if not len(problems):
        return None
    example = part.format.write(problems[0])
    prompt = reader(example.prompt, return_tensors="pt")
    length = prompt.input_ids.shape[1]
    most = min(theirs.generation_config.max_length, length + 2 * len(example.completion))
    if length >= most:
        return None
    written: Tensor = theirs.generate(**prompt, max_length=most)[0, length:]
    completion = _up_to_its_end(reader.decode(written), part.format)
    return Shown(problems[0].question, example.answer, example.prompt, completion, part.format.read(completion))


def _up_to_its_end(text: str, format: Format) -> str:
    return next((text[:end] for end in range(len(text)) if format.finished(text[:end])), text)


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
        raise BadInput(f"{folder} is not a folder of Hugging Face's: it has no config.json")
    kind = settings.get("model_type")
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
    digest = file_hash(folder / _WEIGHTS)
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
    if not isinstance(told, dict) or not isinstance(told.get("config"), dict) or "weights" not in record:
        raise BadInput(f"{folder / RECORD} is broken: it does not tell of a run")
    return load(RunConfig, told["config"])


def _read_record(folder: Path) -> dict[str, Any]:
    return _read_json(folder / RECORD) or {}


def _read_json(path: Path) -> dict[str, Any] | None:
    return read_json(path, lambda reason: BadInput(f"{path} is broken: {reason}"))


def _read_weights(folder: Path) -> Arrays:
    """All weights in float32."""
    path = folder / _WEIGHTS
    if not path.is_file():
        if (folder / f"{_WEIGHTS}.index.json").exists():
            raise Unsupported(f"{folder} keeps its weights in several files: save it again as one {_WEIGHTS}")
        pickled = sorted(file.name for file in folder.iterdir() if file.suffix in (".bin", ".pt", ".pth", ".ckpt"))
        if pickled:
            raise Unsupported(
                f"{folder} keeps its weights as a pickle ({pickled[0]}), which can run code: save it as {_WEIGHTS}"
            )
        raise BadInput(f"{folder} has no {_WEIGHTS}")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return plain_arrays(((name, file.get_tensor(name)) for name in file.keys()), str(path))  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise BadInput(f"{path} is broken ({error})") from None


def holds_an_export(path: Path) -> bool:
    """Whether a folder is an export and nothing else."""
    others = files_in(path) - _FILES
    return (path / RECORD).is_file() and all(map(_SHARD.fullmatch, others))
