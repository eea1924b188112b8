"""Doors to other tools' models. What needs torch is loaded when it is asked for: the hosted ones do not."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .nanogpt import import_nanogpt

__all__ = ["import_nanogpt"]


def __getattr__(name: str) -> Any:
    if name == "import_nanogpt":
        from .nanogpt import import_nanogpt

        return import_nanogpt
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
