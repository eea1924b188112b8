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
    by_name: dict[str, set[str]] = {}
    for settings in there.values():
        for name, value in settings.items():
            by_name.setdefault(name, set()).add(value)
    values = set().union(*by_name.values())
    known = values | {f"{name} {value}" for name, some in by_name.items() for value in some}
    words = _split(choice, known)
    for word in words:
        if not word:
            raise BadConfig(f"{choice!r} leaves out a setting: name some, with commas between, such as reverse,2000")
        if word in known:
            continue
        name, _, value = word.partition(" ")
        if name in by_name:
            raise UnknownName(f"setting {name}", value, by_name[name])
        if len(values) > _MOST_SHOWN:
            raise BadConfig(f"unknown setting {word!r}{did_you_mean(word, values)}: {_WHERE}")
        raise UnknownName("setting", word, values)
    found = [want for want in wanted if _has(there[id(want)], words)]
    if not found:
        raise Unsupported(f"no run has all of {', '.join(words)}: {_WHERE}")
    return found


def _split(choice: str, known: Collection[str]) -> list[str]:
    """Its words. Some that are known have a comma in them, and large numbers are printed with one."""
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", choice.strip())
    text = re.sub(r"\s*,\s*", ", ", text) + ", "
    words = []
    while text:
        fitting = [word for word in known if text.startswith(f"{word}, ")]
        words.append(max(fitting, key=len, default=text.partition(", ")[0]))
        text = text[len(words[-1]) + 2 :]
    return words


def _has(settings: Mapping[str, str], words: Sequence[str]) -> bool:
    """Each word is a setting of its own: a name with its value, or any value."""
    named = {f"{name} {value}": value for name, value in settings.items()}
    rest = Counter(settings.values()) - Counter(named[word] for word in named.keys() & set(words))
    return Counter(word for word in words if word not in named) <= rest
