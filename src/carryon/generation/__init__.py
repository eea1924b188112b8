"""Prompts to completions, and what a model makes of a text that is given."""

from .completing import Completer, Finished
from .probabilities import perplexity, token_probabilities

__all__ = ["Completer", "Finished", "perplexity", "token_probabilities"]
