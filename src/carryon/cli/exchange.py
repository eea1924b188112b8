"""carryon import and carryon export: models from other tools, and for them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import RUNS, RunsFolder, place

if TYPE_CHECKING:
    from ..runs import Run

EXPORTS = Path("exports")
DESTINATIONS = ("hf", "lm-eval")


def import_(
    path: Annotated[
        Path,
        typer.Argument(help="A .pt file of nanoGPT or of the paper's authors, or a folder of Hugging Face's."),
    ],
    format: Annotated[str | None, typer.Option(help="The format it was trained on; plain if left out.")] = None,
    operation: Annotated[str | None, typer.Option(help="The operation it was trained on; add if left out.")] = None,
    vocabulary: Annotated[
        str | None,
        typer.Option(help="Its characters, \\n for a newline; if left out, a folder's own, or all printable ASCII."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Names the run's folder.")] = None,
    runs: RunsFolder = RUNS,
) -> None:
    """Make a run of another tool's model, to be evaluated and asked like any other. Nothing in it is executed.

    A folder that carryon exported becomes the run it was, with all its results.

    Example: carryon import ckpt.pt --format plain --vocabulary '0123456789+=\\n'
    """
    from ..config import DataConfig, load
    from ..errors import BadInput
    from ..interop.importing import import_huggingface
    from ..interop.nanogpt import GELU_NOTE, import_nanogpt

    if not path.exists():
        raise BadInput(
            f"{path} is not there: name a .pt file of nanoGPT, or a folder of 'carryon export' or save_pretrained"
        )
    told = {"operation": operation, "format": format}
    data = load(DataConfig, {"format": "plain"} | {key: value for key, value in told.items() if value is not None})
    characters = vocabulary.replace("\\n", "\n") if vocabulary is not None else None
    is_folder = path.is_dir()
    if is_folder:
        run = import_huggingface(path, runs, data if any(told.values()) else None, characters, name)
    else:
        run = import_nanogpt(path, runs, data, characters, name or "nanogpt")
    here = run.path.name if runs == RUNS else run.path
    print(f"{run.path}: now 'carryon evaluate {here}' or 'carryon ask {here} 128+367'")
    if not is_folder:
        print(GELU_NOTE)


def export(
    source: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's folder, name or hash; for lm-eval, a data set.")
    ],
    to: Annotated[str, typer.Option(help="hf: a folder for transformers; lm-eval: its test set as tasks.")] = "hf",
    out: Annotated[Path | None, place("The folder to make; under exports if left out.")] = None,
    runs: RunsFolder = RUNS,
    force: Annotated[bool, typer.Option("--force", help="Replace an export that is already there.")] = False,
) -> None:
    """Write a run for the tools people already use.

    hf: what AutoModelForCausalLM and AutoTokenizer open, with ids and logits equal to ours, a model card with the
    run's evidence, and all that 'carryon import' needs to make the same run of it. A pretrained model that was trained
    on is not imported: 'carryon pretrained add NAME FOLDER' registers its folder.

    lm-eval: the run's test set (or that of a folder made by 'carryon data make') as tasks for lm-evaluation-harness.

    Example: carryon export quickstart --to hf --out quickstart-hf
    """
    from ..config import PretrainedConfig
    from ..errors import UnknownName
    from ..runs import find_run

    if to not in DESTINATIONS:
        raise UnknownName("destination", to, DESTINATIONS)
    if to == "lm-eval" and (Path(source) / "manifest.json").is_file():
        _export_data(Path(source), out or EXPORTS / f"{Path(source).resolve().name}-lm-eval", force)
        return
    run = find_run(source, runs)
    folder = out or EXPORTS / f"{run.path.name}-{to}"
    if to == "hf" and isinstance(run.config.model, PretrainedConfig):
        _export_pretrained(run, folder, force)
    elif to == "hf":
        from ..interop.huggingface import export_huggingface

        export_huggingface(run, folder, force=force)
        print(f"{folder}: AutoModelForCausalLM.from_pretrained({str(folder)!r}) opens it; README.md says how to ask it")
    else:
        _export_tasks(run, folder, force)


def _export_pretrained(run: "Run", folder: Path, force: bool) -> None:
    """A model of transformers goes back to where it came from, a LoRA run's changes merged into its weights."""
    from ..data.folders import refuse_existing_folder
    from ..interop.causal import CausalModel
    from ..interop.huggingface import holds_an_export
    from ..interop.tuned import save_tuned
    from ..training import load_model

    refuse_existing_folder(folder, force, "an exported model", holds_an_export)  # before a large model is opened
    model, _ = load_model(run, "cpu")
    assert isinstance(model, CausalModel)
    save_tuned(model, run, folder, force=force)
    print(f"{folder}: AutoModelForCausalLM.from_pretrained({str(folder)!r}) opens it; README.md says how to ask it")


def _export_tasks(run: "Run", folder: Path, force: bool) -> None:
    from ..data import make_dataset
    from ..interop.cards import NO_END_TOKEN
    from ..interop.harness import export_lm_eval
    from ..interop.vocabularies import find_marks
    from ..tokenizers import Characters
    from ..training.loading import tokenizer_of

    config = run.config
    _, vocabulary = run.read_model()
    tokenizer = Characters(vocabulary) if vocabulary is not None else tokenizer_of(config)
    parts = [make_dataset(data, config.seed) for data in config.parts]
    _say(export_lm_eval(parts, folder, tokenizer=tokenizer, context=config.model.context, force=force), folder)
    if isinstance(tokenizer, Characters) and find_marks(parts, tokenizer).padding is None:
        print(f"note: every character of {run.path.name} is in use, and {NO_END_TOKEN}")


def _export_data(source: Path, folder: Path, force: bool) -> None:
    from ..data import make_dataset, read_manifest
    from ..interop.harness import export_lm_eval

    manifest = read_manifest(source)
    _say(export_lm_eval([make_dataset(manifest.config, manifest.seed)], folder, force=force), folder)


def _say(names: list[str], folder: Path) -> None:
    print(
        f"{folder}: lm_eval run --model hf --model_args pretrained=MODEL --include_path {folder} "
        f"--tasks {','.join(names)}"
    )
