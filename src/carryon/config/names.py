"""The names a config may use, and how far its numbers may go."""

import typing
from typing import Any, Literal

OperationName = Literal["add", "subtract", "multiply", "sine", "sqrt"]
FormatName = Literal[
    "plain",
    "plain_wrapped",
    "plain_padded",
    "reverse",
    "reverse_unwrapped",
    "reverse_padded",
    "reverse_all",
    "reverse_all_padded",
    "index_hints",
    "running_sums",
    "partial_products",
    "simplified_scratchpad",
    "detailed_scratchpad",
    "detailed_scratchpad_v2",
    "hosted_plain",
    "hosted_reverse",
    "hosted_simplified_scratchpad",
    "hosted_detailed_scratchpad",
]
SamplerName = Literal[
    "uniform",
    "full_length",
    "both_full_length",
    "balanced_full_length",
    "balanced_digits",
    "balanced_carries",
    "balanced",
    "balanced_lengths",
    "equal_lengths",
    "equal_operands",
    "revealed",
]
BY_LENGTHS = ("balanced_lengths", "equal_lengths", "equal_operands")
"""Those whose problems fall into classes of one length each."""
TokenizerName = Literal["characters", "ascii", "gpt2", "own"]
TextPromptName = Literal["short outside", "short inside", "long inside", "numbers outside", "long outside"]
PositionName = Literal["learned", "sinusoidal", "none", "rotary", "alibi", "t5", "fire"]
IdsName = Literal["places", "shifted", "scattered", "abacus", "coupling", "coupling_sums", "coupling_products"]
FormName = Literal["txt", "jsonl", "parquet", "hf", "openai", "openai_prompt"]
Noise = Literal["none", "A", "C", "both"]

MAX_DIGITS = 2_000
"""Longest operand. Python converts at most 4,300 digits by default, and a product has twice its operands' digits."""
MAX_OPERANDS = 100
"""Of one sum."""
MAX_HINTS = 2_001
"""Letters in front of digits; a sum has a digit more than its operands."""
MAX_EXAMPLES = 100_000_000
"""Largest data set: past this a file is the wrong shape, and endless sampling the right one."""


def choices(names: Any) -> tuple[str, ...]:
    """The names of a Literal: choices(FormatName) == ("plain", …)."""
    return typing.get_args(names)
