"""Where a scratchpad first goes wrong."""

import re


def first_wrong_line(expected: str, written: str) -> str:
    """What kind of line a scratchpad first goes wrong in."""
    right, given = expected.split("\n"), written.split("\n")
    for number, line in enumerate(right):
        if number >= len(given):
            return "stopped early"
        if given[number] != line:
            return _kind_of_difference(line, given[number])
    return "went on"


def _kind_of_difference(line: str, given: str) -> str:
    if "has" in line and "digits." in line:
        return "digit count"
    if re.match(r"\d+(>=|<)\d+", line):
        return "comparison"
    if "A->" in line:
        if line.partition("A->")[0] != given.partition("A->")[0]:
            return "digit step"
        return "carry" if line.partition(" , C->")[0] == given.partition(" , C->")[0] else "digit step"
    if line.startswith("x_") or " * " in line:
        return "digit step"
    if line in ("<scratch>", "</scratch>"):
        return "layout"
    return "result"
