"""Where runs are carried out: worker processes on this machine, a Ray cluster, a Slurm queue.

What is to be run comes as tasks; nothing here knows what they are for.
"""

from .tasks import Outcome, Task, order_tasks
from .work import perform

__all__ = ["Outcome", "Task", "order_tasks", "perform"]
