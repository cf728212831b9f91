"""What Celery runs for recovery."""

from recovery.acting import tasks as act_tasks
from recovery.drill import tasks as drill_tasks
from recovery.ledger import tasks as ledger_tasks
from recovery.progress import tasks as watch_tasks
from recovery.record import tasks as record_tasks
from recovery.replay import tasks as replay_tasks
from recovery.retention import tasks as retention_tasks

__all__ = ["act_tasks", "drill_tasks", "ledger_tasks", "record_tasks", "replay_tasks", "retention_tasks", "watch_tasks"]
