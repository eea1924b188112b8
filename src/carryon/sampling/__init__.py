"""Which problems: strata to draw from, plans of how many from each, and what must stay out.

A new sampler is a function in plans.py that returns a `Plan`, its line in SAMPLERS and its name in config.
"""

from .drawing import Drawing
from .exclusions import Barred, excluded_numbers
from .plans import SAMPLERS, Goals, Plan, make_plan
from .strata import Lengths

__all__ = [
    "SAMPLERS",
    "Barred",
    "Drawing",
    "Goals",
    "Lengths",
    "Plan",
    "excluded_numbers",
    "make_plan",
]
