"""What Celery runs for recovery."""

from recovery import ledger_tasks, watch_tasks

__all__ = ["ledger_tasks", "watch_tasks"]
