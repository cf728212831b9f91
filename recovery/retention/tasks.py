"""What Celery runs for retention. It may run twice."""

from celery import shared_task

from recovery.retention import expire as job


@shared_task(name="recovery.expire", ignore_result=True)
def expire() -> None:
    """Take out what is due."""
    job.run()
