"""Where prepared models lie, and how one is found again unchanged.

$CARRYON_MODELS/<name>/  carryon.json   the card: what it is, where from, what its files hash to
                         config.json, tokenizer.json, model.safetensors, …

A folder that a user registers stays where it is: then there is only a card here, which points to it.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import BadConfig, BadInput, MissingExtra, PathExists, Unsupported
from ..files import cache_folder, file_hash, read_json, write_whole
from .catalogue import CATALOGUE

CARD = "carryon.json"
_DIGEST = 10


@dataclass(frozen=True)
class Prepared:
    """A model that is here, its files as they were when its card was written."""

    name: str
    """As configs write it: stories15m, or gpt2@0123abcd45 for what a user registered."""
    folder: Path
    card: dict[str, Any]
    problem: str | None = None
    """Why it cannot be used, where that shows without reading it all."""


def models_folder() -> Path:
    if named := os.environ.get("CARRYON_MODELS"):
        return Path(named).expanduser()
    return cache_folder("models")


def find_pretrained(name: str) -> Prepared:
    """The model of this name, checked to be the one that the name stands for."""
    base, _, digest = name.partition("@")
    card = _read_card(models_folder() / base)
    if card is None and base in CATALOGUE and CATALOGUE[base].client == "none":
        from .getting import get_pretrained

        return get_pretrained(base)
    if card is None:
        raise MissingExtra(f"the pretrained model {base} is not here: {_way_to(base)}")
    found = _prepared(base, card)
    if base not in CATALOGUE and not digest:
        raise BadConfig(f"model.pretrained {base} is a name of this machine only: write {found.name}")
    if digest and digest != card["digest"]:
        raise BadInput(f"the pretrained model {base} is here with other content: {found.name}, not {name}")
    if base in CATALOGUE and card.get("source_sha256") != CATALOGUE[base].sha256:
        raise BadInput(f"{models_folder() / base} was made of another file: 'carryon pretrained get {base} --force'")
    if found.problem is not None:
        raise BadInput(f"the pretrained model {found.name} cannot be used: {found.problem}: {_way_back(base)}")
    if digest_of(_hashes(found.folder)) != card["digest"]:
        raise BadInput(f"the files of {found.folder} are not those that were prepared as {base}: {_way_to(base, True)}")
    return found


def full_name(name: str) -> str:
    """A model's name as it belongs into a config: with its digest, if a user registered it."""
    if "@" in name or name in CATALOGUE:
        return name
    card = _read_card(models_folder() / name)
    return name if card is None else _prepared(name, card).name


def list_pretrained() -> list[Prepared]:
    """All that are here, by name; those with a problem say so, but what their files hold is not checked."""
    root = models_folder()
    found = []
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        try:
            card = _read_card(path)
        except BadInput as error:
            found.append(Prepared(path.name, path, {}, str(error)))
            continue
        if card is not None:
            found.append(_prepared(path.name, card))
    return found


def add_pretrained(name: str, folder: Path, *, force: bool = False) -> Prepared:
    """Register a local Hugging Face folder of a causal model under a name. It stays where it is."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,60}", name):
        raise BadInput(f"{name!r} cannot name a model: use small letters, digits, '.', '_' and '-'")
    if name in CATALOGUE:
        raise BadInput(f"{name} stands for a model of the catalogue: choose another name")
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder")
    config = _check_folder(folder)
    there = models_folder() / name
    hashes = _hashes(folder)
    known = _read_card(there)
    if known is not None and not force and known["digest"] != digest_of(hashes):
        raise PathExists(f"{name} names another model already ({known['digest']}): choose another name, or --force")
    card = {
        "what": f"{config.get('model_type', 'a model')} from a folder",
        "licence": "see its folder",
        "folder": str(folder.resolve()),
        "files": hashes,
        "digest": digest_of(hashes),
    }
    there.mkdir(parents=True, exist_ok=True)
    write_whole(there / CARD, json.dumps(card, indent=2) + "\n")
    return _prepared(name, card)


def make_card(folder: Path, **facts: Any) -> None:
    """Vouch for a folder that has just been made."""
    hashes = _hashes(folder)
    card = {**facts, "files": hashes, "digest": digest_of(hashes)}
    write_whole(folder / CARD, json.dumps(card, indent=2) + "\n")


def digest_of(hashes: dict[str, str]) -> str:
    """Ten hex digits over all that decides what a model computes, and not where it lies."""
    lines = "".join(f"{name} {sha256}\n" for name, sha256 in sorted(hashes.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:_DIGEST]


def _hashes(folder: Path) -> dict[str, str]:
    paths = [folder / "config.json", folder / "tokenizer.json", *folder.glob("*.safetensors")]
    if (index := folder / "model.safetensors.index.json").is_file():
        paths.append(index)
    try:
        return {path.name: _hash(path, (found := path.stat()).st_size, found.st_mtime_ns) for path in sorted(paths)}
    except FileNotFoundError as error:
        raise BadInput(f"{error.filename} is missing") from None


@cache
def _hash(path: Path, size: int, modified_ns: int) -> str:
    """Once per process: a plan trains many runs from one model."""
    return file_hash(path)


def _check_folder(folder: Path) -> dict[str, Any]:
    for name, remedy in {
        "config.json": "it is not a Hugging Face model",
        "tokenizer.json": "AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes one",
    }.items():
        if not (folder / name).is_file():
            raise BadInput(f"{folder} has no {name}: {remedy}")
    if not any((folder / name).is_file() for name in ("model.safetensors", "model.safetensors.index.json")):
        raise BadInput(
            f"{folder} has no model.safetensors: weights in other files, pickles above all, are not read; "
            "model.save_pretrained(folder) of transformers writes it"
        )
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert isinstance(config, dict)
    except (ValueError, AssertionError, RecursionError):
        raise BadInput(f"{folder / 'config.json'} is not a JSON object") from None
    _check_kind(folder, config)
    _check_tokenizer(folder / "tokenizer.json")
    for path in _weight_files(folder):
        _check_weights(path)
    return config


def _check_kind(folder: Path, config: dict[str, Any]) -> None:
    if "auto_map" in config:
        raise Unsupported(f"{folder} needs code of its own (auto_map in its config.json), and no model's code is run")
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise BadInput(f"{folder / 'config.json'} names no model_type: it is not a Hugging Face model")
    try:
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as KNOWN
    except ImportError:
        return  # training will say what to install
    if kind not in KNOWN:
        raise Unsupported(f"{folder} is a {kind}, which the installed transformers does not know as a causal model")


def _check_tokenizer(path: Path) -> None:
    try:
        import tokenizers
    except ImportError:
        return
    try:
        tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library has no exception of its own
        raise BadInput(f"{path} is not a tokenizer that can be read ({str(error)[:120]})") from None


def _weight_files(folder: Path) -> list[Path]:
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    index = folder / "model.safetensors.index.json"
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        assert names
        assert all(Path(name).name == name for name in names)
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError):
        raise BadInput(f"{index} does not say which files hold the weights") from None
    return [folder / name for name in sorted(names)]


def _check_weights(path: Path) -> None:
    """Whether its header can be read and tells of as many bytes as there are; what they say is not looked at."""
    import safetensors

    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            empty = not list(file.keys())
    except FileNotFoundError:
        raise BadInput(f"{path} is missing") from None
    except safetensors.SafetensorError as error:
        raise BadInput(f"{path} is broken or not whole ({error})") from None
    if empty:
        raise BadInput(f"{path} holds no weights")


def _prepared(name: str, card: dict[str, Any]) -> Prepared:
    folder = Path(card["folder"]) if "folder" in card else models_folder() / name
    there = [folder / file for file in ("config.json", "tokenizer.json", *card.get("files", ()))]
    missing = next((path for path in (folder, *there) if not path.exists()), None)
    problem = None if missing is None else f"{missing} is missing"
    return Prepared(name if name in CATALOGUE else f"{name}@{card['digest']}", folder, card, problem)


def _read_card(folder: Path) -> dict[str, Any] | None:
    path = folder / CARD

    def broken(reason: str) -> BadInput:
        return BadInput(f"{path} is broken ({reason}): delete its folder and get or add the model again")

    card = read_json(path, broken)
    if card is not None and not isinstance(card.get("digest"), str):
        raise broken("it has no digest")
    return card


def _way_back(name: str) -> str:
    if name in CATALOGUE:
        return f"'carryon pretrained get {name} --force' makes it again"
    return f"put it back, or 'carryon pretrained add {name} FOLDER' with a copy of the same files"


def _way_to(name: str, again: bool = False) -> str:
    if name in CATALOGUE:
        return f"'carryon pretrained get {name}{' --force' * again}' fetches it"
    if again:
        return f"put them back, or 'carryon pretrained add {name} FOLDER --force' and write its new digest"
    known = ", ".join(sorted({*CATALOGUE, *(found.name for found in list_pretrained())}))
    return f"'carryon pretrained add {name} FOLDER' registers a Hugging Face folder; there are: {known}"
