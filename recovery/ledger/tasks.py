"""What Celery runs for the ledger. Every task may run twice."""

from celery import shared_task

from recovery.ledger import checkpoints, intake


@shared_task(name="recovery.take_in", ignore_result=True)
def take_in() -> None:
    """Bring verdicts, reviews, rulesets and what became of sources into the ledger."""
    intake.take_in()


@shared_task(name="recovery.checkpoint", ignore_result=True)
def checkpoint() -> None:
    """Sign how far the ledger goes."""
    checkpoints.make()
