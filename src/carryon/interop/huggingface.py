"""Runs as folders that `AutoModelForCausalLM` and `AutoTokenizer` open.

FOLDER/  config.json  generation_config.json  model.safetensors  tokenizer.json  tokenizer_config.json
         README.md      the model card
         carryon.json   the run: config, origin, result, evaluations; what import makes the same run of

An exported model is opened by transformers and its logits set beside ours before the folder gets its name.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .. import __version__
from ..config import ModelConfig
from ..data import Dataset, files_in, make_dataset, whole_folder
from ..errors import BadRun, Unsupported
from ..files import file_hash, write_whole
from ..formats import Format
from ..model import Decoder, LanguageModel
from ..runs import Arrays, Run
from ..tokenizers import Characters, Tokenizer, make_tokenizer
from .architectures import architecture_for
from .cards import Compared, Shown, model_card
from .library import library, quiet
from .vocabularies import find_marks, vocabulary_files

TOLERANCE = 1e-4
"""Most that two logits in float32 may differ by, or that part of the largest: the same sums in another order."""

WEIGHTS = "model.safetensors"
RECORD = "carryon.json"
_FILES = {
    "config.json",
    "generation_config.json",
    WEIGHTS,
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
        raise BadRun(f"{run.path} is not finished: '{run.command}' goes on where it stopped")
    sizes = config.model
    if not isinstance(sizes, ModelConfig):
        raise Unsupported(f"{run.path.name} is {sizes.label}, a model of transformers already: save_tuned writes it")
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
            WEIGHTS: weights,
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


def holds_an_export(path: Path) -> bool:
    """Whether a folder is an export and nothing else."""
    others = files_in(path) - _FILES
    return (path / RECORD).is_file() and all(map(_SHARD.fullmatch, others))
