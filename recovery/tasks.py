"""What Celery runs for recovery."""

from recovery import act_tasks, ledger_tasks, watch_tasks

__all__ = ["act_tasks", "ledger_tasks", "watch_tasks"]
