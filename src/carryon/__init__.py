"""A laboratory for teaching arithmetic to small transformers.

from carryon.config import DataConfig
from carryon.data import make_dataset

data = make_dataset(DataConfig(operation="add", format="reverse", num_examples=10_000), seed=0)
for example in data.examples("train"):
    print(example.prompt, example.completion)
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("carryon")
except PackageNotFoundError:  # run from its source, not installed
    __version__ = "source"
