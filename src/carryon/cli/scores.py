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
