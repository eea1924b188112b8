"""Training: config in, run folder out."""

from .asking import Exam
from .display import Display, Silent
from .loading import load_model
from .loop import Interrupted, train

__all__ = ["Display", "Exam", "Interrupted", "Silent", "load_model", "train"]
