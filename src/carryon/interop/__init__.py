"""Doors to other tools' models."""

from .harness import export_lm_eval
from .huggingface import export_huggingface, import_huggingface
from .nanogpt import import_nanogpt

__all__ = ["export_huggingface", "export_lm_eval", "import_huggingface", "import_nanogpt"]
