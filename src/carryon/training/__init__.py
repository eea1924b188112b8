"""Training: config in, run folder out."""

from .asking import Exam, make_exam
from .display import Display, Silent
from .improving import improve
from .loading import load_model
from .loop import Interrupted, train
from .reading import Reading

__all__ = ["Display", "Exam", "Interrupted", "Reading", "Silent", "improve", "load_model", "make_exam", "train"]
