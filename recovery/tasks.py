"""What Celery runs for recovery."""

from recovery import ledger_tasks

__all__ = ["ledger_tasks"]
