"""Data sets, models, runs and questions as frozen values, checked whole before anything is built.

The names a config may use are literals here, so that a recipe is checked without loading what it
names; a test compares them with the registries.
"""

from .base import SCHEMA, Config, config_hash
from .data import DataConfig, ExcludeConfig, FormatConfig, TextConfig
from .improving import FiltersConfig, ImprovementConfig, RoundsConfig
from .loading import load, override
from .models import AnyModel, LoraConfig, ModelConfig, PretrainedConfig
from .names import (
    MAX_DIGITS,
    MAX_EXAMPLES,
    MAX_HINTS,
    MAX_OPERANDS,
    FormatName,
    FormName,
    IdsName,
    Noise,
    OperationName,
    PositionName,
    SamplerName,
    TextPromptName,
    TokenizerName,
    choices,
)
from .runs import (
    CompletionConfig,
    EnumerationConfig,
    EvaluationConfig,
    RunConfig,
    StopConfig,
    TrainConfig,
)

TrainedConfig = RunConfig | ImprovementConfig
"""What ends with a model in a folder."""
AnyRun = RunConfig | ImprovementConfig | CompletionConfig | EnumerationConfig

__all__ = [
    "MAX_DIGITS",
    "MAX_EXAMPLES",
    "MAX_HINTS",
    "MAX_OPERANDS",
    "SCHEMA",
    "AnyModel",
    "AnyRun",
    "CompletionConfig",
    "Config",
    "DataConfig",
    "EnumerationConfig",
    "EvaluationConfig",
    "ExcludeConfig",
    "FiltersConfig",
    "FormName",
    "FormatConfig",
    "FormatName",
    "IdsName",
    "ImprovementConfig",
    "LoraConfig",
    "ModelConfig",
    "Noise",
    "OperationName",
    "PositionName",
    "PretrainedConfig",
    "RoundsConfig",
    "RunConfig",
    "SamplerName",
    "StopConfig",
    "TextConfig",
    "TextPromptName",
    "TokenizerName",
    "TrainConfig",
    "TrainedConfig",
    "choices",
    "config_hash",
    "load",
    "override",
]
