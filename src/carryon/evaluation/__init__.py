"""Completions to numbers one can trust.

Any function from prompts to completions can be scored: one of our models, a Hugging Face model, a hosted one.
An answer counts when the format reads it as the right number; one that cannot be read is wrong, never left out.
"""

from .corrupted import evaluate_corrupted
from .questions import describe, exemplar_pairs, exemplars, read_problems
from .report import Report, percent, wilson
from .scoring import Complete, Confirm, Slices, evaluate, make_sheets, score
from .scratchpads import first_wrong_line
from .sheets import Sheet
from .slices import slices_of
from .text_prompts import TEXT_PROMPTS, text_prompt

__all__ = [
    "TEXT_PROMPTS",
    "Complete",
    "Confirm",
    "Report",
    "Sheet",
    "Slices",
    "describe",
    "evaluate",
    "evaluate_corrupted",
    "exemplar_pairs",
    "exemplars",
    "first_wrong_line",
    "make_sheets",
    "percent",
    "read_problems",
    "score",
    "slices_of",
    "text_prompt",
    "wilson",
]
