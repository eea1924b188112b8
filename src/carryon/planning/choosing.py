"""Cases by some of their settings."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ..errors import BadConfig, UnknownName, Unsupported, did_you_mean
from .known import Wanted

_MOST_SHOWN = 40
_WHERE = "'--dry-run' without '--only' lists what there is"


def choose(wanted: Sequence[Wanted], choice: str) -> list[Wanted]:
    """Those with all of the settings named: "reverse,2000", or as they are printed, "reverse, examples 2,000"."""
    there = {id(want): {name: str(value) for name, value in want.case.settings.items()} for want in wanted}
    values = {value for some in there.values() for value in some.values()}
    known = values | {f"{name} {value}" for some in there.values() for name, value in some.items()}
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", choice.strip())
    words = _split(re.sub(r"\s*,\s*", ", ", text).strip(), known)
    for word in words:
        if not word:
            raise BadConfig(f"{choice!r} leaves out a setting: name some, with commas between, such as reverse,2000")
        if word not in known and len(values) > _MOST_SHOWN:
            raise BadConfig(f"unknown setting {word!r}{did_you_mean(word, values)}: {_WHERE}")
        if word not in known:
            raise UnknownName("setting", word, values)
    found = [want for want in wanted if _has(there[id(want)], words)]
    if not found:
        raise Unsupported(f"no run has all of {', '.join(words)}: {_WHERE}")
    return found


def _split(text: str, known: Collection[str]) -> list[str]:
    """Its words. Some that are known have a comma in them."""
    fitting = [word for word in known if f"{text}, ".startswith(f"{word}, ")]
    first = max(fitting, key=len, default=text.partition(",")[0])
    rest = text[len(first) :]
    return [first, *(_split(rest[1:].lstrip(), known) if rest else [])]


def _has(settings: Mapping[str, str], words: Sequence[str]) -> bool:
    """Each word is a setting of its own: a name with its value, or any value."""
    named = {name for name, value in settings.items() if f"{name} {value}" in words}
    rest = Counter(word for word in words if word not in {f"{name} {settings[name]}" for name in named})
    return rest <= Counter(value for name, value in settings.items() if name not in named)
