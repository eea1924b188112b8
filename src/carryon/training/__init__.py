"""Training: config in, run folder out."""

from .asking import ask_all, problems_of
from .display import Display, Silent
from .loading import load_model
from .loop import Interrupted, train

__all__ = ["Display", "Interrupted", "Silent", "ask_all", "load_model", "problems_of", "train"]
