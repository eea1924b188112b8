"""carryon text: corpora to train on together with arithmetic."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Get text to mix arithmetic with.", no_args_is_help=True, rich_markup_mode="rich")


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="tinyshakespeare.")] = "tinyshakespeare",
    file: Annotated[Path | None, typer.Option("--from", help="A copy you have, instead of a download.")] = None,
) -> None:
    """Download a corpus once; it is checked by its hash and kept in a cache folder.

    Example: carryon text get tinyshakespeare
    """
    from ..corpora import KNOWN, get_corpus, keep_corpus, text_folder
    from ..errors import UnknownName

    if name not in KNOWN:
        raise UnknownName("corpus", name, KNOWN)
    path = get_corpus(name) if file is None else text_folder() / f"{keep_corpus(file, name)}.txt"
    print(f"{path}: {KNOWN[name].size:,} bytes, as published")


@app.command()
def add(file: Annotated[Path, typer.Argument(help="Any UTF-8 file, with blank lines between its passages.")]) -> None:
    """Keep a file of your own for training.

    Example: carryon text add letters.txt
    """
    from ..corpora import keep_corpus, passages, read_corpus

    name = keep_corpus(file)
    count = len(passages(read_corpus(name)))
    print(f"kept as {name}, {count:,} passages: carryon train paper-plain --set text.corpus={name}")


@app.command("list")
def list_() -> None:
    """What can be read here.

    Example: carryon text list
    """
    from ..corpora import KNOWN, kept_corpora, passages, read_corpus
    from ..errors import CarryonError

    kept = kept_corpora()
    for name in kept:
        try:
            text = read_corpus(name)
        except CarryonError as error:
            print(f"{name}: {error}")
            continue
        print(f"{name}: {len(text):,} characters, {len(set(text))} different, {len(passages(text)):,} passages")
    for name in KNOWN:
        if name not in kept:
            print(f"{name}: not here; 'carryon text get {name}' downloads it")
