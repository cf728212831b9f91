"""Waking workers for replays, without keeping them from anything else.

Replays share the workers and the queue of attributions, so that each replay uses every worker there is. A task works
for a second at most, and does attributions that are owed first, between any two attempts. What keeps it going is a
message of its own at the queue's end. One that lay there for long tells that the queue is crowded: it is not sent again
while another worker is at it, so that about as many go round as there are workers.
"""

from celery import current_app
from django.db import connection
from django.db.models.functions import Now

from recovery.models import ReplayChunk
from verdicts.choices import RequestState
from verdicts.waking import wake_task

TASK = "recovery.replay"
#: So many messages are sent for a replay that nobody works on: more workers than that are woken one by one.
FIRST = 16
#: Seconds after which a message is not sent again where another worker is at it.
CROWDED = 3.0


def now() -> float:
    """Seconds by the database's clock, which all machines share."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        return float(cursor.fetchone()[0])


def wake(number: int = 1) -> None:
    """Send messages; a broker that is not reached leaves it to the sweep."""
    sent = now()
    for _ in range(number):
        if not wake_task(TASK, queue=current_app.conf.task_default_queue, args=(sent,)):
            break


def wake_all() -> None:
    """Wake workers for a replay that begins."""
    wake(min(FIRST, max(ReplayChunk.objects.takeable(Now()).count(), 1)))


def sweep() -> int:
    """Wake workers for chunks that nobody took: many where nobody works, else one more. Says how many."""
    takeable = ReplayChunk.objects.takeable(Now())
    waiting = takeable.values("pk")[:FIRST].count()
    if not waiting:
        return 0
    number = 1 if at_work() else waiting
    wake(number)
    return number


def at_work() -> bool:
    """Whether a worker has a chunk."""
    return ReplayChunk.objects.filter(state=RequestState.RUNNING.value, lease_until__gt=Now()).exists()
