"""Which digits of the operands a digit of the sum depends on, counted over every case.

first digit needs every digit           change one digit of an operand: can the sum's highest digit change?
lowest digit first needs three inputs   do two digits and a carry always give the same next digit?
"""

from collections.abc import Callable

import numpy as np


def first_digit(digits: int, base: int = 10) -> tuple[int, int]:
    """Of all digits of both operands, those whose change can change the sum's highest digit (padded to digits + 1).

    A digit at place p of a counts when two numbers that differ there alone give sums with different first digits.
    """
    numbers = np.arange(base**digits)
    first_AB = (numbers[:, None] + numbers[None]) // base**digits  # 0 or 1: the digit at place `digits`
    below_AB = (numbers[:, None] + numbers[None]) // base ** (digits - 1) % base
    both_AB = first_AB * base + below_AB  # the highest digit, whether or not there is a carry out
    matters = 0
    for operand in (0, 1):
        table_AB = both_AB if operand == 0 else both_AB.T
        for place in range(digits):
            shape = (base ** (digits - 1 - place), base, base**place, base**digits)
            by_digit = table_AB.reshape(shape)
            matters += bool((by_digit != by_digit[:, :1]).any())
    return matters, 2 * digits


def three_inputs(digits: int, base: int = 10) -> tuple[int, int]:
    """Of all digits of all sums, lowest first, those that two digits and the carry give, and the carry they pass on."""
    numbers = np.arange(base**digits)
    a, b = (axis.ravel() for axis in np.meshgrid(numbers, numbers, indexing="ij"))
    right = count = 0
    carry = np.zeros(len(a), np.int64)
    for place in range(digits + 1):
        total = a // base**place % base + b // base**place % base + carry
        right += int((total % base == (a + b) // base**place % base).sum())
        count += len(a)
        carry = total // base
    return right, count


LEMMAS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "first digit needs every digit": first_digit,
    "lowest digit first needs three inputs": three_inputs,
}
