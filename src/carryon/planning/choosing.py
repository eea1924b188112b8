"""Cases by some of their settings."""

import re
from collections import Counter
from collections.abc import Sequence

from ..errors import BadConfig, UnknownName, Unsupported, did_you_mean
from .known import Wanted

_MOST_SHOWN = 40
_WHERE = "'--dry-run' without '--only' lists what there is"


def choose(wanted: Sequence[Wanted], choice: str) -> list[Wanted]:
    """Those with all of the settings named: "reverse,2000"."""
    there = {id(want): Counter(str(value) for value in want.case.settings.values()) for want in wanted}
    values = {value for some in there.values() for value in some}
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", choice.strip())  # 2,000, as it is printed
    words = [text] if text in values else [word.strip() for word in text.split(",")]  # some have a comma
    for word in words:
        if not word:
            raise BadConfig(f"{choice!r} leaves out a setting: name some, with commas between, such as reverse,2000")
        if word not in values and len(values) > _MOST_SHOWN:
            raise BadConfig(f"unknown setting {word!r}{did_you_mean(word, values)}: {_WHERE}")
        if word not in values:
            raise UnknownName("setting", word, values)
    found = [want for want in wanted if Counter(words) <= there[id(want)]]
    if not found:
        raise Unsupported(f"no run has all of {', '.join(words)}: {_WHERE}")
    return found
