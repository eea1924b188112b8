"""Results made readable: figures, tables, verdicts, as HTML and Markdown."""

from .content import Chapter, Decision, Figure, HeatMap, Item, Point, Sentence, Series, Table, TierPart, Verdict

__all__ = [
    "Chapter",
    "Decision",
    "Figure",
    "HeatMap",
    "Item",
    "Point",
    "Sentence",
    "Series",
    "Table",
    "TierPart",
    "Verdict",
]
