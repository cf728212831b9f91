"""Telling workers that there is something to do.

A wake-up may be lost or doubled: what is owed is a row, and the sweep looks at those.
"""

import logging
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from celery import Celery, current_app
from django.db import transaction
from django.db.models.functions import Now
from kombu import Connection, pools
from kombu.exceptions import OperationalError as BrokerError

from verdicts import limits
from verdicts.models import AttributionRequest, CollectionTask, Discovery
from verdicts.models.leased import Leased
from verdicts.owed import OwedQuerySet

log = logging.getLogger(__name__)

#: The task that works off the rows of each table. A message names no row: whose turn it is says the database.
TASKS: dict[type[Leased], str] = {
    AttributionRequest: "verdicts.attribute",
    CollectionTask: "verdicts.collect",
    Discovery: "verdicts.discover",
}
#: Waiting for systems of a cluster must not keep attributions waiting: a worker of its own reads this queue.
COLLECT_QUEUE = "inquest-collect"
QUEUES: dict[type[Leased], str] = {CollectionTask: COLLECT_QUEUE, Discovery: COLLECT_QUEUE}
#: Seconds that a broker may take. One that is down or hangs must not hold up an ingest.
PATIENCE = 2.0
#: After a broker was not reached it is left alone for so many seconds, or a flood would wait for it row by row.
LEFT_ALONE = 5.0
#: So many wake-ups of one table a process sends within a second. Who hears one takes every row that is due, so that
#: in a flood of rows more of them wake nobody who is not awake.
ENOUGH, WITHIN = 16, 1.0
#: What an address raises that names no broker, a port that is none, or a transport that is not installed.
WRONG_ADDRESS = (KeyError, ValueError, ImportError)


#: When a broker that was not reached is tried again, by `time.monotonic()`.
_away_until = [0.0]
#: Since when wake-ups are counted, by `time.monotonic()`, and how many were sent since then.
_lately: dict[type[Leased], tuple[float, int]] = {}


def worthwhile(model: type[Leased]) -> bool:
    """Whether a wake-up for a new row is worth sending. Where it is not, the row says that none was sent: should
    nobody be awake after all, the next sweep finds it.
    """
    since, number = _lately.get(model, (0.0, 0))
    return number < ENOUGH or time.monotonic() - since > WITHIN


def wake(rows: Sequence[UUID], model: type[Leased] = AttributionRequest) -> int:
    """Send a wake-up for each row and say how many were sent. The rows say already that they were.

    A broker that is not reached is logged, not raised, and the rows are left to the sweep.
    """
    sent: list[UUID] = []
    if time.monotonic() < _away_until[0]:
        model.objects.filter(pk__in=rows).update(sent_at=None)  # type: ignore[attr-defined]
        return 0
    for retry in (True, False):
        try:
            _send(rows, model, sent)
            break
        except (BrokerError, OSError, *WRONG_ADDRESS) as error:
            # A connection of the pool may be from before a restart of the broker: the next one is new.
            pools.reset()
            if not retry:
                _away_until[0] = time.monotonic() + LEFT_ALONE
                unsent = list(rows[len(sent) :])
                log.warning("broker not reached, %d rows wait for the sweep: %s", len(unsent), error)
                model.objects.filter(pk__in=unsent).update(sent_at=None)  # type: ignore[attr-defined]
    return len(sent)


def wake_again(model: type[Leased]) -> int:
    """Wake workers for rows that nobody took: never sent, sent in vain, or left by a worker that died.

    Any number of sweeps may do this at once.
    """
    rows: OwedQuerySet[Any] = model.objects  # type: ignore[attr-defined]
    with transaction.atomic():
        # Rows that somebody holds just now are left out: to wait for several of them could be to wait for each other.
        unheard = rows.unheard(Now(), Now() - limits.RESEND_AFTER).select_for_update(skip_locked=True, of=("self",))
        ids = list(unheard.values_list("pk", flat=True)[: limits.SWEEP_SIZE])
        rows.filter(pk__in=ids).update(sent_at=Now())
    return wake(ids[:ENOUGH], model) if ids else 0


def go_on(model: type[Leased]) -> None:
    """Wake a worker for rows that are left over when one has worked long enough: they may have no wake-up of their
    own."""
    wake_task(TASKS[model], queue=QUEUES.get(model))


def wake_task(name: str, *, queue: str | None, args: tuple[Any, ...] = ()) -> bool:
    """Send one message for a task by its name; False where the broker is not reached."""
    try:
        with pools.producers[_connection(current_app)].acquire(block=True, timeout=PATIENCE) as producer:
            current_app.send_task(name, args=args, producer=producer, retry=False, queue=queue)
    except (BrokerError, OSError, *WRONG_ADDRESS) as error:
        pools.reset()
        log.warning("broker not reached, %s was not asked for: %s", name, error)
        return False
    return True


def _send(rows: Sequence[UUID], model: type[Leased], sent: list[UUID]) -> None:
    """Send what is not sent yet; each that was goes into `sent`."""
    route = {"queue": QUEUES[model]} if model in QUEUES else {}
    with pools.producers[_connection(current_app)].acquire(block=True, timeout=PATIENCE) as producer:
        for row in rows[len(sent) :]:
            current_app.send_task(TASKS[model], producer=producer, retry=False, **route)
            sent.append(row)
            since, number = _lately.get(model, (0.0, 0))
            now = time.monotonic()
            _lately[model] = (since, number + 1) if now - since <= WITHIN else (now, 1)


def _connection(app: Celery) -> Connection:
    """A connection of our own: the workers' may wait for a broker, this one gives up soon."""
    options: dict[str, Any] = {"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.1}
    if str(app.conf.broker_write_url or app.conf.broker_url).startswith(("redis", "rediss", "sentinel")):
        options |= {"socket_connect_timeout": PATIENCE, "socket_timeout": PATIENCE, "retry_on_timeout": False}
    connection: Connection = app.connection_for_write(connect_timeout=PATIENCE, transport_options=options)
    return connection
