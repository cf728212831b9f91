"""What Celery runs for detection. Every task may run twice."""

from celery import shared_task

from recovery.progress import feeds, watch


@shared_task(name="recovery.watch", ignore_result=True)
def watch_attempts() -> None:
    """Look at what runs and at what ended for hangs, stragglers and crashes."""
    watch.safely()


@shared_task(name="recovery.read_progress", ignore_result=True)
def read_progress() -> None:
    """Look how far attempts are by the feeds of the clusters file; on the queue of what waits for other systems."""
    watch.fatal(feeds.work())
