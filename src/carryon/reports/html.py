"""Reports as one HTML file: nothing loaded from elsewhere, opens from disk."""

import re
from collections.abc import Sequence
from html import escape

from .captions import captions
from .content import Chapter, Figure, HeatMap, Table, TierPart
from .drawing import draw
from .markdown import COUNTED, MARKS, count_verdicts, to_list

_CLASSES = {
    "holds": "good",
    "holds with a correction": "fair",
    "does not hold": "bad",
    "not enough runs": "open",
}

STYLE = """
:root { --ink: #1c2024; --soft: #5b6570; --line: #d9dee3; --page: #fbfbfa; --band: #f1f2f3; --link: #0a58a6;
  --good: #0b6e4f; --fair: #8a5a00; --bad: #a4262c; --open: #5b6570 }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --soft: #a3acb5; --line: #363c42; --page: #17191b; --band: #202326; --link: #7db7f0;
    --good: #4cc38a; --fair: #e0a63a; --bad: #ff8f8f; --open: #a3acb5 }
  figure { filter: invert(.91) hue-rotate(180deg) } }
* { box-sizing: border-box }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--page) }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 4rem } p { max-width: 60rem }
h1 { font-size: 1.8rem; line-height: 1.2 }
h2 { font-size: 1.4rem; margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1.2rem }
h3 { font-size: 1.15rem; margin: 2.2rem 0 .4rem } h4 { font-size: 1rem; margin: 1.8rem 0 .4rem }
h2, h3, h4 { break-after: avoid }
a { color: var(--link) } .soft { color: var(--soft); font-size: .92rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: .9rem }
th, td { text-align: left; vertical-align: top; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line) }
th { font-weight: 600; color: var(--soft) } code { font-size: .92em }
.numbers td { white-space: nowrap; font-variant-numeric: tabular-nums }
.numbers td:first-child { position: sticky; left: 0; background: var(--page) }
.numbers td.long { white-space: normal; min-width: 24rem }
.numbers small { display: block; color: var(--soft); line-height: 1.25 }
.claims td:first-child { min-width: 17rem }
.claims .group td { padding-top: 1.1rem; font-weight: 600 }
figure { margin: .6rem 0; background: #fff; border: 1px solid #d9dee3; border-radius: 6px; padding: .4rem;
  overflow-x: auto }
figure svg { width: 100%; height: auto; display: block }
td .soft { font-size: inherit } summary { cursor: pointer; color: var(--link) }
.verdict { white-space: nowrap; font-weight: 600 } .good { color: var(--good) } .fair { color: var(--fair) }
.bad { color: var(--bad) } .open { color: var(--open) }
@media (max-width: 44rem) {
  figure svg { min-width: 40rem }
  .claims thead { display: none } .claims td { display: block; border: 0; padding: .1rem 0 }
  .claims td[data-is]::before { content: attr(data-is) ": "; color: var(--soft) }
  .claims tr { display: block; border-bottom: 1px solid var(--line); padding: .6rem 0 } }
@media print { body { background: #fff; font-size: 11px } h2 { break-before: page } figure, tr { break-inside: avoid } }
"""

_LONG = 30
"""Rows of a table that is folded."""


def write_page(chapters: Sequence[Chapter]) -> str:
    """All chapters on one page, the claims first."""
    body = [
        '<h1 id="top">Teaching arithmetic to small transformers: what became of the claims</h1>',
        f"<p>{escape(count_verdicts(chapters))}</p>",
        "<p class=soft>Each rule was committed before the runs it judges, or says why not. "
        f"{COUNTED} Numbers: mean over seeds (range, seeds).</p>",
        _claims(chapters),
    ]
    for chapter in chapters:
        body.append(_chapter(chapter))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>carryon report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _claims(chapters: Sequence[Chapter]) -> str:
    """Of every experiment, under its title."""
    rows: list[list[str]] = []
    for chapter in chapters:
        rows.append([f'<a href="#{chapter.name}">{escape(chapter.title)}</a>'])
        rows += [[_text(v.says), tier, _verdict(v.decision), _text(v.because)] for tier, v in to_list(chapter)]
    return _table(("claim", "tier", "verdict", "because"), rows, "claims")


def _text(text: str) -> str:
    """Escaped, with what stands between backticks as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _verdict(decision: str) -> str:
    return f'<span class="verdict {_CLASSES[decision]}">{escape(MARKS[decision])}</span>'


def _chapter(chapter: Chapter) -> str:
    parts = [
        f'<h2 id="{chapter.name}">{escape(chapter.title)}</h2>',
        f'<p class=soft><code>carryon reproduce {chapter.name}</code> · <a href="#top">all claims</a></p>',
        *(f"<p>{_text(paragraph)}</p>" for paragraph in chapter.about.split("\n\n")),
    ]
    if chapter.without_numbers:
        labels = escape(", ".join(chapter.without_numbers))
        parts.append(f"<p>The paper's numbers for {labels} were not published: ours stand alone.</p>")
    if not chapter.parts:
        parts.append(f"<p>{escape(chapter.missing)} The claims, and what will decide them:</p>")
        parts.append(
            _table(("claim", "rule"), [[_text(claim.says), _text(claim.rule)] for claim in chapter.claims], "claims")
        )
    return "\n".join([*parts, *(_part(chapter.name, part) for part in chapter.parts)])


def _part(name: str, part: TierPart) -> str:
    html = [f'<h3 id="{name}-{part.tier}">Tier {part.tier}</h3>', f"<p class=soft>{escape(part.provenance)}</p>"]
    if part.missing:
        html.append(f"<p class=soft>{escape(part.missing)}</p>")
    rows = [
        [_text(v.says), _verdict(v.decision), _text(v.because), f"<span class=soft>{_text(v.rule)}</span>"]
        for v in part.verdicts
    ]
    html.append(_table(("claim", "verdict", "because", "rule"), rows, "claims"))
    for item in part.items:
        html.append(f"<h4>{escape(item.title)}</h4>")
        html.append(_plain_table(item) if isinstance(item, Table) else _figure(item))
        if item.note:
            html.append(f"<p class=soft>{_text(item.note)}</p>")
    return "\n".join(html)


def _figure(figure: Figure | HeatMap) -> str:
    said = " ".join(captions(figure))
    caption = f"<p class=soft>{_text(said)}</p>" if said else ""
    return f'<figure role="img" aria-label="{escape(figure.title)}">{draw(figure)}</figure>{caption}'


def _plain_table(table: Table) -> str:
    shown = _table(table.columns, [[_cell(cell) for cell in row] for row in table.rows])
    if len(table.rows) <= _LONG:
        return shown
    return f"<details><summary>{len(table.rows):,} rows</summary>{shown}</details>"


def _cell(text: str) -> str:
    """A number with its range and seeds below it; what a model wrote may take several lines."""
    parts = [re.fullmatch(r"(.*[0-9].*) \((.* seeds?)\)", part) for part in text.split("; ")]
    return "".join(f"{escape(p[1])}<small>{escape(p[2])}</small>" for p in parts if p) if all(parts) else escape(text)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "numbers") -> str:
    """A row of one cell is the heading of those below it."""
    if not rows:
        return "<p class=soft>Nothing measured yet.</p>"
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "\n".join(_row(columns, row, kind) for row in rows)
    return (
        f"<div class=scroll><table class={kind}><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _row(columns: Sequence[str], row: Sequence[str], kind: str) -> str:
    if len(row) == 1:
        return f"<tr class=group><td colspan={len(columns)}>{row[0]}</td></tr>"
    cells = []
    for place, (column, cell) in enumerate(zip(columns, row, strict=True)):
        # On a phone the heading is gone: what is not plain from the words is named.
        named = f' data-is="{escape(column)}"' if kind == "claims" and place and cell and column != "verdict" else ""
        long = " class=long" if kind == "numbers" and len(cell) > 80 and "<small>" not in cell else ""
        cells.append(f"<td{named}{long}>{cell}</td>")
    return f"<tr>{''.join(cells)}</tr>"
