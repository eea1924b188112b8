"""Text with examples in between, as one stream.

    dialogue   passage ⏎⏎ 12+7=19⏎ 3+4=7⏎ ⏎ passage ⏎⏎ passage ⏎⏎ 128+367=495⏎ ⏎ …    what the paper says
    blocks     some passages, then some plain sums, then some detailed ones, and so on  what its authors released

A passage is what stands between two blank lines: a speech, where the text is a play.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..config import TextConfig
from ..corpora import passages, read_corpus
from ..errors import BadConfig
from ..formats import Example
from ..rng import Stream

_BLOCKS = 100


class SplitText(NamedTuple):
    train: str
    held_out: str


def split_text(config: TextConfig) -> SplitText:
    """The text to train on, and its end, which is held out; cut between two passages."""
    left_out = dict.fromkeys(map(ord, config.left_out))
    pieces = passages(read_corpus(config.corpus).translate(left_out))
    if len(pieces) < 2:
        raise BadConfig(f"the corpus {config.corpus} has no blank lines to cut it at: put some between its passages")
    ends = np.cumsum([len(piece) for piece in pieces])
    cut = int(np.searchsorted(ends, (1 - config.held_out) * ends[-1], side="right"))
    cut = min(max(cut, 1), len(pieces) - 1)
    return SplitText("".join(pieces[:cut]), "".join(pieces[cut:]))


def questions_in(text: str) -> set[str]:
    """Whatever in a text looks like a problem: 128+367, 12 - 5, sin(0.5); without its spaces."""
    found = re.findall(r"[0-9]+ *[-+*x] *[0-9]+|(?:sin|sqrt)\([-0-9.]+\)", text)
    return {question.replace(" ", "") for question in found}


def characters_of(config: TextConfig) -> str:
    """What a text adds to a vocabulary of characters."""
    return "".join(sorted(set("".join(split_text(config))) | set(config.characters)))


def mix_with_text(text: str, parts: Sequence[Sequence[Example]], mixing: str, seed: int) -> Iterator[str]:
    """The text's passages with all examples of all parts in between, piece by piece."""
    pieces = passages(text)
    return _in_blocks(pieces, parts) if mixing == "blocks" else _in_dialogue(pieces, parts, seed)


def _in_dialogue(pieces: list[str], parts: Sequence[Sequence[Example]], seed: int) -> Iterator[str]:
    examples = [example for part in parts for example in part]
    order = Stream("text order", seed).permutation(len(examples)).tolist()
    after = np.sort(Stream("text places", seed).below(len(pieces), len(examples))).tolist()
    at = 0
    for number, piece in enumerate(pieces):
        yield piece
        first = at
        while at < len(after) and after[at] == number:
            yield examples[order[at]].text
            at += 1
        if at > first:
            yield "\n"


def _in_blocks(pieces: list[str], parts: Sequence[Sequence[Example]]) -> Iterator[str]:
    sizes = [max(1, len(part) // _BLOCKS) for part in parts]
    some = max(1, len(pieces) // _BLOCKS)
    blocks = max(-(-len(pieces) // some), *(-(-len(part) // size) for part, size in zip(parts, sizes, strict=True)))
    for block in range(blocks):
        yield from pieces[block * some : (block + 1) * some]
        for part, size in zip(parts, sizes, strict=True):
            if examples := part[block * size : (block + 1) * size]:
                yield from (example.text for example in examples)
                yield "\n"
