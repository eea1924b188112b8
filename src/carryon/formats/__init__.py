"""How a problem is written and read back.

A new format is a class with `work` and, where the answer is not written as it is, `number` (`OneLine` has both for
those that fit on a line); it goes into the tuple below, its name into `FormatName` in config, and one golden string
into the tests.
"""

from ..config import FormatConfig
from ..errors import UnknownName
from .base import Example, Format, Texts
from .hints import IndexHints
from .hosted import HostedDetailedScratchpad, HostedPlain, HostedReverse, HostedSimplifiedScratchpad
from .plain import (
    Plain,
    PlainPadded,
    PlainWrapped,
    Reverse,
    ReverseAll,
    ReverseAllPadded,
    ReversePadded,
    ReverseUnwrapped,
)
from .running import PartialProducts, RunningSums
from .scratchpads import DetailedScratchpad, DetailedScratchpadV2, SimplifiedScratchpad

FORMATS: dict[str, type[Format]] = {
    format.name: format
    for format in (
        Plain,
        PlainWrapped,
        PlainPadded,
        Reverse,
        ReverseUnwrapped,
        ReversePadded,
        ReverseAll,
        ReverseAllPadded,
        IndexHints,
        RunningSums,
        PartialProducts,
        SimplifiedScratchpad,
        DetailedScratchpad,
        DetailedScratchpadV2,
        HostedPlain,
        HostedReverse,
        HostedSimplifiedScratchpad,
        HostedDetailedScratchpad,
    )
}


def make_format(config: FormatConfig | str, seed: int = 0) -> Format:
    """make_format("reverse").write(problem)"""
    if isinstance(config, str):
        if config not in FORMATS:
            raise UnknownName("format", config, FORMATS)
        config = FormatConfig(name=config)  # type: ignore[arg-type]
    return FORMATS[config.name](config, seed)


__all__ = ["FORMATS", "Example", "Format", "Texts", "make_format"]
