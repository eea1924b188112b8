"""Results made readable: figures, tables, verdicts, as HTML and Markdown."""

from .content import Figure, Point, Series, Table, Verdict

__all__ = ["Figure", "Point", "Series", "Table", "Verdict"]
