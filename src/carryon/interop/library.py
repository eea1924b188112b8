"""transformers, imported when it is needed: it takes two seconds, and is not typed throughout."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ..errors import MissingExtra


def library() -> Any:
    try:
        return import_module("transformers")
    except ImportError:
        raise MissingExtra("models of Hugging Face need transformers: pip install 'carryon[hf]'") from None


@contextmanager
def quiet() -> Iterator[None]:
    """The library without its progress bars and remarks, and as it was afterwards."""
    logging = library().utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
