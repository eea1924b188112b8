"""Other people's models as folders: got, widened, registered and found again. Needs no torch.

A prepared folder is an ordinary Hugging Face one (config.json, tokenizer.json, *.safetensors), and a card says what it
is, where it comes from and what its files hash to.
"""

from .catalogue import CATALOGUE, Source
from .folders import Prepared, add_pretrained, find_pretrained, full_name, list_pretrained, models_folder
from .getting import get_pretrained

__all__ = [
    "CATALOGUE",
    "Prepared",
    "Source",
    "add_pretrained",
    "find_pretrained",
    "full_name",
    "get_pretrained",
    "list_pretrained",
    "models_folder",
]
