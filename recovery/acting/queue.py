"""The recovery rows of the queue of record: which task works them off, and in which queue.

A queue of its own: the worker that reads it is the only process that has the credentials of schedulers.
"""

from recovery.models import Action
from verdicts import waking

RECOVERY_QUEUE = "inquest-recovery"
ACT = "recovery.act"

waking.TASKS[Action] = ACT
waking.QUEUES[Action] = RECOVERY_QUEUE
