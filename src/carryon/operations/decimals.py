"""Decimal numbers as whole ten-thousandths: exact, never a binary float.

    27175 <-> "2.7175"     -6360 <-> "-0.636"     10000 <-> "1.0"

A float would do harm here: 2.7175 * 10000 is 27174.999…, and flooring it again loses a digit, which
is how 6 % of the operands of the paper's released data came to differ from their own worked steps.
"""

import re

ONE = 10_000
"""One, in ten-thousandths."""

_CANONICAL = re.compile(r"(-?)(0|[1-9][0-9]{0,8})\.([0-9]{1,4})")


def decimal_text(value: int) -> str:
    """Trailing zeros are dropped, down to one decimal."""
    whole, part = divmod(abs(value), ONE)
    return f"{'-' if value < 0 else ''}{whole}.{f'{part:04d}'.rstrip('0') or '0'}"


def parse_decimal(text: str) -> int | None:
    """The ten-thousandths of a canonical decimal, else None."""
    match = _CANONICAL.fullmatch(text)
    if not match:
        return None
    sign, whole, part = match.groups()
    value = (int(whole) * ONE + int(part.ljust(4, "0"))) * (-1 if sign else 1)
    return value if decimal_text(value) == text else None
