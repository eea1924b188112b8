"""Doors to other tools' models."""

from .nanogpt import import_nanogpt

__all__ = ["import_nanogpt"]
