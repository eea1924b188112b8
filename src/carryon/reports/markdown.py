"""Reports as Markdown, for the repository."""

from collections.abc import Callable, Mapping, Sequence

from .captions import captions
from .content import Chapter, Figure, HeatMap, Table, TierPart, Verdict
from .wording import counted

MARKS = {
    "holds": "✔ holds",
    "holds with a correction": "◐ holds with a correction",
    "does not hold": "✘ does not hold",
    "not enough runs": "… not enough runs",
}

COUNTED = "A claim that two tiers decide is counted as tier paper decides it."


def write_chapter(chapter: Chapter, place_figure: Callable[[str, Figure | HeatMap], str]) -> str:
    """One experiment. `place_figure` puts a figure somewhere under a name and says where."""
    lines = [f"# {chapter.title}", "", f"`carryon reproduce {chapter.name}`", "", chapter.about, ""]
    if chapter.without_numbers:
        labels = ", ".join(chapter.without_numbers)
        lines += [f"The paper's numbers for {labels} were not published: ours stand alone.", ""]
    if not chapter.parts:
        lines += [chapter.missing, "", "## Claims to be decided", ""]
        lines += [f"- {claim.says} *Rule:* {claim.rule}." for claim in chapter.claims]
    for part in chapter.parts:
        lines += _part(chapter.name, part, place_figure)
    return "\n".join(lines).rstrip() + "\n"


def _part(name: str, part: TierPart, place_figure: Callable[[str, Figure | HeatMap], str]) -> list[str]:
    lines = [f"## Tier {part.tier}", "", part.provenance, ""]
    if part.missing:
        lines += [part.missing, ""]
    lines += _table(
        ("claim", "verdict", "because", "rule"),
        [[v.says, MARKS[v.decision], v.because, v.rule] for v in part.verdicts],
    )
    for number, item in enumerate(part.items, start=1):
        lines += [f"### {item.title}", ""]
        if not isinstance(item, Table):
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
        f"Each rule was committed before the runs it judges, or says why not. {COUNTED}",
        "",
        count_verdicts(chapters),
        "",
    ]
    rows: list[list[str]] = []
    for chapter in chapters:
        for place, (tier, verdict) in enumerate(to_list(chapter)):
            name = "" if place else f"[{chapter.name}]({chapter.name}.md)"
            rows.append([name, verdict.says, tier, MARKS[verdict.decision], verdict.because])
    lines += _table(("experiment", "claim", "tier", "verdict", "because"), rows)
    return "\n".join(lines).rstrip() + "\n"


def to_list(chapter: Chapter) -> list[tuple[str, Verdict]]:
    """Each claim's verdicts with their tiers; those that wait for runs only where no tier has decided."""
    if not chapter.parts:
        return [("", Verdict(c.name, c.says, c.rule, "not enough runs", "")) for c in chapter.claims]
    verdicts = [(part.tier, verdict) for part in chapter.parts for verdict in part.verdicts]
    decided = {verdict.claim for _, verdict in verdicts if verdict.decision != "not enough runs"}
    return [
        (tier, verdict)
        for tier, verdict in verdicts
        if verdict.decision != "not enough runs" or (verdict.claim not in decided and tier == chapter.parts[0].tier)
    ]


def count_verdicts(chapters: Sequence[Chapter]) -> str:
    """How many claims hold, by the best tier that decides them, and how many of these verdicts hang on the seed."""
    counts = {ours: dict.fromkeys(MARKS, 0) for ours in (False, True)}
    unsteady = 0
    for chapter in chapters:
        for claim in chapter.claims:
            verdicts = [v for part in chapter.parts for v in part.verdicts if v.claim == claim.name]
            decided = [v for v in verdicts if v.decision != "not enough runs"]
            counts[claim.ours][decided[-1].decision if decided else "not enough runs"] += 1
            unsteady += bool(decided) and decided[-1].hangs_on_seed
    of_each = [
        f"of {whose} {counted(number, 'claim')} {_counted(counts[ours])}"
        for ours, whose in ((False, "the paper's"), (True, "our own"))
        if (number := sum(counts[ours].values()))
    ]
    told = "; ".join(of_each)
    said = [f"{told[0].upper()}{told[1:]}."] if told else []
    if unsteady:
        said.append(f"For {unsteady} of them a single seed would have said otherwise.")
    return " ".join(said)


def _counted(counts: Mapping[str, int]) -> str:
    several = ("hold", "hold with a correction", "do not hold", "wait for runs")
    one = ("holds", "holds with a correction", "does not hold", "waits for runs")
    told = [f"{n} {one[i] if n == 1 else several[i]}" for i, n in enumerate(counts.values()) if n]
    return " and ".join(filter(None, (", ".join(told[:-1]), told[-1])))
