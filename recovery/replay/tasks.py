"""What Celery runs for replays. Every task may run twice."""

from celery import shared_task

from recovery.replay import waking, work


@shared_task(name=waking.TASK, acks_late=False, ignore_result=True)
def replay(sent: float) -> None:
    """Work off replays for a turn."""
    work.work(sent)


@shared_task(name="recovery.sweep_replays", ignore_result=True, expires=30)
def sweep_replays() -> None:
    """Wake workers for what nobody took, and end what is done."""
    work.sweep()
