"""carryon data: make, check and show data sets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import number

if TYPE_CHECKING:
    from ..data import Manifest

app = typer.Typer(
    help="Make data sets, check them, show what is in them.", no_args_is_help=True, rich_markup_mode="rich"
)


@app.command()
def make(
    out: Annotated[Path, typer.Argument(help="Folder to make.")],
    operation: Annotated[str, typer.Option(help="add, subtract, multiply, sine or sqrt.")] = "add",
    format: Annotated[str, typer.Option(help="How problems are written; 'carryon gallery' shows all.")] = "reverse",
    size: Annotated[int, number("Training examples.")] = 10_000,
    sampler: Annotated[
        str | None,
        typer.Option(
            help="uniform, full_length, both_full_length, balanced_full_length, balanced_digits, balanced_carries, "
            "balanced, balanced_lengths, equal_lengths, equal_operands "
            "or revealed; balanced if left out (more than two operands: equal_operands; sine, sqrt: uniform)."
        ),
    ] = None,
    digits: Annotated[int, number("Longest operand of the integer operations.")] = 3,
    operands: Annotated[int, number("add: the most numbers of a sum.")] = 2,
    base: Annotated[int, number("2 to 10, for the integer operations.")] = 10,
    seed: Annotated[int, number("Which training sample.")] = 0,
    split_seed: Annotated[int, number("Which test and validation sets.")] = 0,
    test: Annotated[int | None, number("Test examples; 10,000 or what a small domain allows.")] = None,
    validation: Annotated[int | None, number("Validation examples; 1,000 or what a small domain allows.")] = None,
    test_sampler: Annotated[
        str,
        typer.Option(
            help="uniform, equal_lengths or equal_operands to test all alike, full_length or both_full_length."
        ),
    ] = "uniform",
    form: Annotated[str, typer.Option("--as", help="txt, jsonl, parquet, hf, openai or openai_prompt.")] = "jsonl",
    spaces: Annotated[bool, typer.Option("--spaces", help="A space between neighbouring digits.")] = False,
    stop: Annotated[str | None, typer.Option(help="Text that ends a completion, in place of its newline.")] = None,
    noise: Annotated[str, typer.Option(help="simplified_scratchpad: random A, C or both.")] = "none",
    width: Annotated[int | None, number("The padded formats: digits to pad to; --digits if left out.")] = None,
    hints: Annotated[int | None, number("index_hints: how many there are; 102 if left out.")] = None,
    table: Annotated[int | None, number("revealed: operands are 0 to this minus 1.")] = None,
    exclude_numbers: Annotated[int, number("Hide this many numbers from training.")] = 0,
    exclude_choice: Annotated[str, typer.Option(help="Which numbers: random or rarest.")] = "random",
    exclude_digit: Annotated[int | None, number("Hide this digit at --exclude-position.")] = None,
    exclude_position: Annotated[int | None, number("1 is the lowest digit.")] = None,
    exclude_length: Annotated[list[int] | None, number("Hide operands of this length (repeatable).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a data set that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Make a data set: train, validation and test files and a manifest that proves they share nothing.

    Example: carryon data make data/reverse --format reverse --size 10000 --as txt
    """
    from ..config import DataConfig, FormName, choices, load
    from ..data import SPLITS, make_dataset, refuse_existing, write_dataset
    from ..errors import UnknownName
    from ..operations.digits import to_text
    from .output import print_json
    from .progress import progress, waiting

    if form not in choices(FormName):
        raise UnknownName("kind of file", form, choices(FormName))
    format_options: dict[str, Any] = {"name": format, "spaces": spaces, "stop": stop, "noise": noise}
    if width is not None or format.endswith("_padded"):
        longest = digits if table is None else len(to_text(max(table, 1) - 1, base if 2 <= base <= 10 else 10))
        format_options["width"] = longest if width is None else width
    if hints is not None:
        format_options["hints"] = hints
    config = load(
        DataConfig,
        {
            "operation": operation,
            "base": base,
            "digits": digits,
            "operands": operands,
            "table": table,
            "format": format_options,
            "sampler": sampler,
            "num_examples": size,
            "num_test": test,
            "num_validation": validation,
            "test_sampler": test_sampler,
            "split_seed": split_seed,
            "exclude": {
                "numbers": exclude_numbers,
                "choice": exclude_choice,
                "digit": exclude_digit,
                "position": exclude_position,
                "lengths": exclude_length or (),
            },
        },
    )
    refuse_existing(out, force)
    with waiting(f"drawing {size:,} problems"):
        dataset = make_dataset(config, seed)
    total = sum(dataset.size(split) for split in SPLITS)
    done_before = {"train": 0, "validation": size, "test": size + dataset.size("validation")}
    with progress(total, "examples written") as advance:
        manifest = write_dataset(
            dataset,
            out,
            form,  # type: ignore[arg-type]
            force=force,
            tick=lambda split, done: advance(done_before[split] + done, split),
        )
    if as_json:
        print_json(manifest.model_dump(mode="json"))
    else:
        _print_manifest(manifest, out)


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="Folder of a data set.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Work every example again, count and hash everything, and compare with the manifest. Exits with 1 on a fault.

    Example: carryon data check data/reverse
    """
    from ..data import check_dataset, read_manifest
    from .output import print_json
    from .progress import progress

    total = sum(record.examples for record in read_manifest(path).splits.values())
    with progress(total, "examples checked") as advance:
        manifest, faults = check_dataset(path, lambda split, done: advance(done, split))
    if as_json:
        print_json({"path": str(path), "ok": not faults, "faults": faults})
    elif faults:
        print(f"{path} is not what its manifest says:")
        for fault in faults:
            print(f"  {fault}")
    else:
        records = manifest.splits
        counts = ", ".join(f"{record.examples:,} {split}" for split, record in records.items())
        print(f"{path} is sound: {counts}; every example worked again, hashes and counts agree, no problem is shared.")
    if faults:
        raise typer.Exit(1)


@app.command()
def show(
    path: Annotated[Path | None, typer.Argument(help="Folder of a data set; the paper's table if left out.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a data set holds; with no path, the paper's table of example counts beside ours.

    Example: carryon data show data/reverse
    """
    from ..data import read_manifest
    from .output import print_json

    if path is None:
        _show_paper_table(as_json)
        return
    manifest = read_manifest(path)
    if as_json:
        print_json(manifest.model_dump(mode="json"))
        return
    _print_manifest(manifest, path)
    _print_examples(manifest, path)


def _print_manifest(manifest: "Manifest", path: Path) -> None:
    from rich.markup import escape
    from rich.table import Table

    from .output import console

    config = manifest.config
    out = console()
    domain = f", up to {config.digits} digits" if config.is_integer and not config.table else ""
    domain += f", up to {config.operands} operands" if config.operands > 2 else ""
    domain += f", base {config.base}" if config.base != 10 else ""
    out.print(
        f"[bold]{escape(str(path))}[/]: {config.operation} in the format {config.format.name}{domain}, sampler "
        f"{config.sampler_name}, seed {manifest.seed}, kept as {manifest.form}",
        soft_wrap=True,
    )
    table = Table()
    table.add_column("split")
    table.add_column("examples", justify="right")
    carries = "borrows" if config.operation == "subtract" else "carries"
    kinds = {"digits": "digits", "carries": carries, "operands": "operands"}
    labels = {kind: sorted({k for r in manifest.splits.values() for k in getattr(r, kind)}, key=int) for kind in kinds}
    for kind, word in kinds.items():
        if labels[kind]:
            table.add_column(f"{word} {' / '.join(labels[kind])}")
    table.add_column("content hash")
    for split, record in manifest.splits.items():
        counts = [
            " / ".join(f"{getattr(record, kind).get(label, 0):,}" for label in labels[kind])
            for kind in kinds
            if labels[kind]
        ]
        table.add_row(escape(split), f"{record.examples:,}", *counts, record.content[:12])
    out.print(table)
    shared = sum(manifest.overlap.values())
    repeated = sum(record.duplicates for record in manifest.splits.values())
    out.print(f"problems shared by two splits: {shared}; problems that occur twice: {repeated}")
    if manifest.swapped:
        out.print(
            f"test problems that occur in training with their operands swapped: {manifest.swapped.get('test', 0):,}"
        )
    if manifest.excluded_numbers:
        some = ", ".join(map(str, manifest.excluded_numbers[:8]))
        out.print(f"numbers hidden from training: {len(manifest.excluded_numbers):,} ({some}, …)")
    for kind, missed in manifest.missed.items():
        by = ", ".join(f"{label}: {difference:+,}" for label, difference in missed.items())
        out.print(f"[yellow]not quite balanced by {escape(kind)}[/] (given - asked): {by}", soft_wrap=True)
    for note in manifest.notes:
        out.print(f"[yellow]note[/] {escape(note)}", soft_wrap=True)


def _print_examples(manifest: "Manifest", path: Path) -> None:
    from itertools import islice

    from rich.text import Text

    from ..data import FORMS
    from ..formats import make_format
    from .output import console, visible

    out = console()
    form, format = FORMS[manifest.form], make_format(manifest.config.format, manifest.seed)
    out.print("\nthe first training examples:")
    for row in islice(form.read(path / form.file("train"), format), 3):
        example = Text(visible(row["prompt"]), style="cyan") + Text(visible(row["completion"]), style="green")
        out.print(example, end="" if row["completion"].endswith("\n") else "\n", soft_wrap=True)


def _show_paper_table(as_json: bool) -> None:
    from rich.table import Table

    from ..config import DataConfig
    from ..data import count_strata, make_splits
    from ..paper import table as paper_table
    from .output import console, print_json
    from .progress import progress

    theirs = paper_table("table:num_examples")
    ours = []
    with progress(len(theirs["rows"]), "sets drawn") as advance:
        for done, row in enumerate(theirs["rows"]):
            advance(done, f"{row[0]:,} examples")
            splits = make_splits(DataConfig(num_examples=row[0]))
            strata = count_strata(splits.operation, splits.domain, splits.train)
            ours.append([row[0], *strata["digits"].values(), *strata["carries"].values()])
    if as_json:
        print_json({"columns": theirs["columns"], "ours": ours, "paper": theirs["rows"]})
        return
    table = Table(title="Training sets for 3-digit addition: ours (sampler balanced) / the paper's table:num_examples")
    for column in theirs["columns"]:
        table.add_column(column, justify="right")
    for mine, paper in zip(ours, theirs["rows"], strict=True):
        cells = [f"{a:,} / {b:,}" if a != b else f"{a:,}" for a, b in zip(mine[1:], paper[1:], strict=True)]
        table.add_row(f"{mine[0]:,}", *cells)
    out = console()
    out.print(table)
    out.print("One number: both agree. Ours are counted from the sets; each set is part of every larger one.")
    out.print(f"The paper's: {theirs['note'][0].lower()}{theirs['note'][1:]}")
