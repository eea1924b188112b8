"""Numbers of which only a bound is known: where a curve reaches a level that lies outside of what was tried."""

from collections.abc import Iterable


class NotEnough(Exception):
    """A number that a claim needs was not measured, or with too few seeds."""


class _Bound(float):
    """All that is known of a positive number."""

    def __mul__(self, factor: float) -> "_Bound":
        return type(self)(float(self) * factor)

    def __truediv__(self, divisor: float) -> "_Bound":
        return type(self)(float(self) / divisor)


class AtLeast(_Bound):
    """A level that was not reached by the largest `x` tried."""


class AtMost(_Bound):
    """A level that was reached from the smallest `x` tried on."""


def ratio(above: float, below: float) -> float:
    """For a claim: one crossing over another. NotEnough where two bounds on the same side say nothing."""
    if isinstance(above, AtLeast) and isinstance(below, AtLeast):
        raise NotEnough("neither side of the ratio got that far")
    if isinstance(above, AtMost) and isinstance(below, AtMost):
        raise NotEnough("both sides of the ratio were there from the first point on")
    value = float(above) / float(below)
    if isinstance(above, AtLeast) or isinstance(below, AtMost):
        return AtLeast(value)
    return AtMost(value) if isinstance(above, AtMost) or isinstance(below, AtLeast) else value


def largest(values: Iterable[float]) -> float:
    """The maximum, and what is known of it."""
    values = list(values)
    top = max(values)
    return AtLeast(top) if any(isinstance(value, AtLeast) for value in values) else top


def smallest(values: Iterable[float]) -> float:
    """The minimum, and what is known of it."""
    values = list(values)
    low = min(values)
    return AtMost(low) if any(isinstance(value, AtMost) for value in values) else low
