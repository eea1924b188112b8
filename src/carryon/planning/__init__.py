"""From experiments to tasks, and from outcomes back to results."""

from .converting import make_lines
from .known import Known, Wanted
from .ordering import spread
from .plans import Plan, make_plan
from .probing import probe_plan

__all__ = ["Known", "Plan", "Wanted", "make_lines", "make_plan", "probe_plan", "spread"]
