"""Digits of numbers in a base, for Python integers and numpy arrays alike.

Arrays of dtype object hold Python integers of any length, so that one formula serves 3 digits and 300.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Whole = TypeVar("Whole", int, NDArray[Any])
"""An integer or an array of them."""


def to_text(number: int, base: int) -> str:
    """to_text(5, 2) == "101"; a negative number keeps its sign in front."""
    if base == 10:
        return str(number)
    digits = []
    rest = abs(number)
    while rest >= base:
        rest, digit = divmod(rest, base)
        digits.append(str(digit))
    digits.append(str(rest))
    return "-" * (number < 0) + "".join(reversed(digits))


def digit_sum(number: Whole, base: int) -> Whole:
    total = number * 0
    while np.any(number):
        total = total + number % base
        number = number // base
    return total


def carries_of_sum(a: Whole, b: Whole, base: int) -> Whole:
    """How many carries adding a and b takes: each one turns `base` units of a digit into one of the next."""
    surplus: Whole = digit_sum(a, base) + digit_sum(b, base) - digit_sum(a + b, base)
    return surplus // (base - 1)


def num_digits(number: Whole, base: int) -> Whole:
    """Zero has one digit."""
    count = number * 0 + 1
    number = number // base
    while np.any(number):
        count = count + (number > 0)
        number = number // base
    return count
