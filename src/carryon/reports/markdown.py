"""Reports as Markdown, for the repository."""

from collections.abc import Callable, Sequence

from .captions import captions
from .content import Chapter, Figure, TierPart

MARKS = {
    "holds": "✔ holds",
    "holds with a correction": "◐ holds with a correction",
    "does not hold": "✘ does not hold",
    "not enough runs": "… not enough runs",
}


def write_chapter(chapter: Chapter, place_figure: Callable[[str, Figure], str]) -> str:
    """One experiment. `place_figure` puts a figure somewhere under a name and says where."""
    lines = [f"# {chapter.title}", "", f"`carryon reproduce {chapter.name}`", "", chapter.about, ""]
    if chapter.without_numbers:
        labels = ", ".join(chapter.without_numbers)
        lines += [f"The paper's numbers for {labels} were not published: ours stand alone.", ""]
    if not chapter.parts:
        lines += [chapter.missing, "", "## Claims to be decided", ""]
        lines += [f"- {says} *Rule:* {rule}." for _, says, rule in chapter.claims]
    for part in chapter.parts:
        lines += _part(chapter.name, part, place_figure)
    return "\n".join(lines).rstrip() + "\n"


def _part(name: str, part: TierPart, place_figure: Callable[[str, Figure], str]) -> list[str]:
    lines = [f"## Tier {part.tier}", "", part.provenance, ""]
    if part.missing:
        lines += [part.missing, ""]
    lines += _table(
        ("claim", "verdict", "because", "rule"),
        [[v.says, MARKS[v.decision], v.because, v.rule] for v in part.verdicts],
    )
    for number, item in enumerate(part.items, start=1):
        lines += [f"### {item.title}", ""]
        if isinstance(item, Figure):
            lines += [f"![{item.title}]({place_figure(f'{name}-{part.tier}-{number}', item)})", ""]
            if said := " ".join(captions(item)):
                lines += [said, ""]
        else:
            lines += _table(item.columns, item.rows)
        if item.note:
            lines += [item.note, ""]
    return lines


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return ["Nothing measured yet.", ""]
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return [*head, *(f"| {' | '.join(map(_escaped, row))} |" for row in rows), ""]


def _escaped(cell: str) -> str:
    """What a model wrote is text, whatever it looks like."""
    return cell.replace("&", "&amp;").replace("<", "&lt;").replace("|", r"\|")


def write_overview(chapters: Sequence[Chapter]) -> str:
    """All claims on one page."""
    lines = [
        "# What became of the paper's claims",
        "",
        "Made by `carryon report --format md` from `results/`. "
        "Each rule was committed before the runs it judges, or says why not. "
        "A claim that two tiers decide is counted as tier paper decides it.",
        "",
        count_verdicts(chapters),
        "",
    ]
    rows: list[list[str]] = []
    for chapter in chapters:
        first = len(rows)
        if not chapter.parts:
            rows += [["", says, "", MARKS["not enough runs"], ""] for _, says, _ in chapter.claims]
        for part in chapter.parts:
            rows += [["", v.says, part.tier, MARKS[v.decision], v.because] for v in part.verdicts]
        if len(rows) > first:
            rows[first][0] = f"[{chapter.name}]({chapter.name}.md)"
    lines += _table(("experiment", "claim", "tier", "verdict", "because"), rows)
    return "\n".join(lines).rstrip() + "\n"


def count_verdicts(chapters: Sequence[Chapter]) -> str:
    """How many claims hold, by the best tier that decides them, and how many of these verdicts hang on the seed."""
    counts, unsteady = dict.fromkeys(MARKS, 0), 0
    for chapter in chapters:
        for name, _, _ in chapter.claims:
            verdicts = [v for part in chapter.parts for v in part.verdicts if v.claim == name]
            decided = [v for v in verdicts if v.decision != "not enough runs"]
            counts[decided[-1].decision if decided else "not enough runs"] += 1
            unsteady += bool(decided) and decided[-1].hangs_on_seed
    total = sum(counts.values())
    said = (
        f"Of {total} claims: {counts['holds']} hold, {counts['holds with a correction']} with a correction; "
        f"{counts['does not hold']} not; {counts['not enough runs']} wait for runs."
    )
    return said + (f" For {unsteady} of them one of the seeds by itself would say otherwise." if unsteady else "")
