"""What Celery runs for records. Every task may run twice."""

from celery import shared_task

from recovery.record import batch, batch_work


@shared_task(name=batch.TASK, acks_late=False, ignore_result=True)
def export_records() -> None:
    """Write records that are owed."""
    batch_work.work()


@shared_task(name="recovery.sweep_exports", ignore_result=True, expires=60)
def sweep_exports() -> None:
    """Wake workers for records that nobody took, and remove batches whose time is over."""
    batch.sweep()
