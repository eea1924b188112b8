"""What an evaluation found, as a table."""

from typing import Any


def print_scores(result: dict[str, Any], title: str) -> None:
    """A table of what was right, by digits, carries, lengths and places."""
    from rich.markup import escape
    from rich.table import Table

    from ..evaluation import percent, wilson
    from .output import console

    out = console()
    if "perplexity" in result:
        out.print(
            f"{escape(title)}\nperplexity {result['perplexity']:.3f} over {result['tokens']:,} tokens; it writes:",
            soft_wrap=True,
        )
        for sample in result["samples"]:
            out.print(f"---\n{sample.strip()}", markup=False, highlight=False, soft_wrap=True)
        return
    if "accuracy" not in result:
        out.print(
            f"{escape(title)}\nthird digit exact {result['exact']:.2%}, within one {result['relaxed']:.2%} "
            f"(of {result['count']:,})",
            soft_wrap=True,
        )
        return
    if (asked := result.get("config", {}).get("lengths")) and _print_grid(asked, result["by"]["lengths"], title):
        return
    table = Table(title=escape(title))
    for column in ("", "right", "of", "accuracy", "95 % interval"):
        table.add_column(column, justify="left" if not column else "right")

    def row(label: str, right: int, count: int) -> None:
        low, high = wilson(right, count) or (0, 0)
        table.add_row(label, f"{right:,}", f"{count:,}", percent(right, count), f"{low:.3%} … {high:.3%}")

    row("all", result["right"], result["count"])
    for kind, counts in result["by"].items():
        if kind == "lengths" and len(counts) > 16:
            continue
        table.add_section()
        for label, (right, count) in counts.items():
            row(f"{kind} {label}", right, count)
    out.print(table)
    if result.get("cropped"):
        out.print(f"{result['cropped']:,} prompts were cut from the left, to leave room for an answer")
    if result.get("too_long"):
        out.print(
            f"no answer can be right: with its problem it takes {result['too_long']:,} tokens, more than the context"
        )
    if result["unreadable"]:
        many = (
            "answer could not be read and counts"
            if result["unreadable"] == 1
            else "answers could not be read and count"
        )
        out.print(f"{result['unreadable']:,} {many} as wrong")
    if result["first_wrong_lines"]:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in result["first_wrong_lines"].items())
        out.print(f"where scratchpads first go wrong: {kinds}", soft_wrap=True)


def _print_grid(asked: list[str], counts: dict[str, list[int]], title: str) -> bool:
    """Accuracy by the lengths of both operands, if every pair of some lengths was asked."""
    from rich.markup import escape
    from rich.table import Table

    from .output import console

    firsts, seconds = (sorted({int(length.split("x")[place]) for length in asked}) for place in (0, -1))
    if len(seconds) < 2 or len(asked) < len(firsts) * len(seconds):
        return False
    table = Table()
    table.add_column("", justify="right")
    for second in seconds:
        table.add_column(f"{second:,}", justify="right")
    for first in firsts:
        table.add_row(f"{first:,}", *(_shaded(*counts.get(f"{first}x{second}", (0, 0))) for second in seconds))
    out = console()
    out.print(escape(title), soft_wrap=True)
    out.print("accuracy in percent: digits of the first number by those of the second")
    out.print(table)
    return True


def _shaded(right: int, count: int) -> str:
    """The better, the brighter; 99.96 % is not 100. None is left where training saw them all."""
    if not count:
        return "–"
    text = "100" if right == count else f"{1000 * right // count / 10:.1f}"
    return f"[{'bold' if right > 0.99 * count else 'default' if right > 0.5 * count else 'dim'}]{text}[/]"
