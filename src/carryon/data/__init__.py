"""Operations, formats and samplers made into data sets: splits, files, batches."""

from .batches import Batch, FreshWindows, RowBatches, Rows, Windows, make_rows, pack, stack_rows
from .checking import check_dataset
from .dataset import Dataset, make_dataset
from .folders import files_in, whole_folder
from .forms import FORMS
from .manifest import Manifest, count_strata
from .sources import Fresh, Mixture, Passages, Repeated, Shares, Source
from .splits import SPLITS, Endless, Splits, domain_of, draw_held_out, make_splits
from .store import read_manifest, refuse_existing, write_dataset
from .text import SplitText, characters_of, mix_with_text, questions_in, split_text

__all__ = [
    "FORMS",
    "SPLITS",
    "Batch",
    "Dataset",
    "Endless",
    "Fresh",
    "FreshWindows",
    "Manifest",
    "Mixture",
    "Passages",
    "Repeated",
    "RowBatches",
    "Rows",
    "Shares",
    "Source",
    "SplitText",
    "Splits",
    "Windows",
    "characters_of",
    "check_dataset",
    "count_strata",
    "domain_of",
    "draw_held_out",
    "files_in",
    "make_dataset",
    "make_rows",
    "make_splits",
    "mix_with_text",
    "pack",
    "questions_in",
    "read_manifest",
    "refuse_existing",
    "split_text",
    "stack_rows",
    "whole_folder",
    "write_dataset",
]
