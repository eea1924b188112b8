"""carryon gallery: every operation in every format."""

from typing import Annotated, Any

import typer

from .options import number

DEFAULTS = {
    "add": ("128", "367"),
    "subtract": ("128", "367"),
    "multiply": ("12", "36"),
    "sine": ("1.0313",),
    "sqrt": ("7.1042",),
}


def gallery(
    operands: Annotated[list[str] | None, typer.Argument(help="Operands to show, with --operation.")] = None,
    operation: Annotated[str | None, typer.Option(help="Only this operation.")] = None,
    format: Annotated[str | None, typer.Option(help="Only this format.")] = None,
    base: Annotated[int, number("2 to 10, for the integer operations.")] = 10,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every operation in every format.

    Example: carryon gallery 7 58 --operation add
    """
    from .output import print_json

    entries = make_entries(operands or None, operation, format, base)
    if as_json:
        print_json(entries)
    elif markdown:
        print(to_markdown(entries), end="")
    else:
        _print(entries)


def make_entries(
    operands: list[str] | None, only_operation: str | None, only_format: str | None, base: int
) -> list[dict[str, Any]]:
    from ..errors import BadInput, UnknownName, Unsupported
    from ..formats import FORMATS, make_format
    from ..operations import OPERATIONS
    from ..operations import operation as make_operation
    from ..operations.digits import to_text

    if operands and not only_operation:
        raise BadInput(f"operands {' '.join(operands)} need an operation: add --operation add, say")
    if only_operation:
        make_operation(only_operation)
    if only_format and only_format not in FORMATS:
        raise UnknownName("format", only_format, FORMATS)
    entries = []
    for name in [only_operation] if only_operation else OPERATIONS:
        if base != 10 and name in ("sine", "sqrt") and not only_operation:
            continue
        asked = make_operation(name, base)
        default = DEFAULTS[name] if base == 10 else tuple(to_text(int(number), base) for number in DEFAULTS[name])
        problem = asked.problem(*(operands or default))
        for format_name, kind in FORMATS.items():
            if (only_format and format_name != only_format) or name not in kind.operations:
                continue
            if len(problem.operands) > 2 and not kind.many:
                continue
            options: dict[str, Any] = {}
            if format_name.endswith("_padded"):
                options["width"] = max(3, *map(len, problem.operands))
            example = make_format(_format_config(format_name, options)).write(problem)
            entries.append(
                {"operation": name, "format": format_name, "operands": list(problem.operands), "base": base}
                | example._asdict()
            )
    if not entries:
        many = f" of {len(operands)} operands" if operands and len(operands) > 2 else ""
        raise Unsupported(f"format {only_format} does not exist for {only_operation}{many}")
    return entries


def _format_config(name: str, options: dict[str, Any]) -> Any:
    from ..config import FormatConfig, load

    return load(FormatConfig, {"name": name, **options})


def _print(entries: list[dict[str, Any]]) -> None:
    from rich.text import Text

    from .output import console, visible

    out = console()
    last = None
    for entry in entries:
        if entry["operation"] != last:
            last = entry["operation"]
            out.print(Text(f"\n{last}", style="bold underline"))
        out.print(Text(f"\n  {entry['format']}", style="bold"), Text(f"  reads back as {entry['answer']}", style="dim"))
        text = Text()
        text.append(visible(entry["prompt"]), style="cyan")
        text.append(visible(entry["completion"]), style="green")
        for line in text.split("\n"):
            out.print(Text("    ") + line, soft_wrap=True)
    out.print()
    out.print(Text("prompt ", style="cyan"), Text("completion", style="green"), Text("  ⏎ is a newline", style="dim"))


def to_markdown(entries: list[dict[str, Any]]) -> str:
    """The page docs/gallery.md."""
    parts = [
        "# Gallery\n",
        "Every operation in every format. The prompt is what a model is given, the completion what it should write; "
        "`⏎` is a newline. Made by `carryon gallery --markdown`.\n",
    ]
    last = None
    for entry in entries:
        if entry["operation"] != last:
            last = entry["operation"]
            parts.append(f"## {last}\n")
        prompt, completion = (entry[key].replace("\n", "⏎\n").rstrip("\n") for key in ("prompt", "completion"))
        gap = "" if entry["prompt"].endswith("\n") else " "
        body = f"{prompt}\n{completion}" if not gap else f"{prompt}{gap}{completion}"
        parts.append(f"### {entry['format']}\n\n```text\n{body}\n```\n\nReads back as `{entry['answer']}`.\n")
    return "\n".join(parts)
