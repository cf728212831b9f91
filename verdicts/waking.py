"""Telling workers that there is something to do.

A wake-up may be lost or doubled: what is owed is a row, and the sweep looks at those.
"""

import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from celery import Celery, current_app
from django.db.models.functions import Now
from kombu import Connection
from kombu.exceptions import OperationalError as BrokerError

from verdicts.models import AttributionRequest

log = logging.getLogger(__name__)

TASK = "verdicts.attribute"
#: Seconds that a broker may take. One that is down or hangs must not hold up an ingest.
PATIENCE = 2.0
#: What an address raises that names no broker, a port that is none, or a transport that is not installed.
WRONG_ADDRESS = (KeyError, ValueError, ImportError)


def wake(requests: Sequence[UUID]) -> int:
    """Send a wake-up for each request and say how many were sent.

    A broker that is not reached is logged, not raised.
    """
    sent: list[UUID] = []
    try:
        with _connection(current_app) as connection:
            for request in requests:
                current_app.send_task(TASK, args=[str(request)], connection=connection, retry=False)
                sent.append(request)
    except (BrokerError, OSError, *WRONG_ADDRESS) as error:
        log.warning("broker not reached, %d requests wait for the sweep: %s", len(requests) - len(sent), error)
    if sent:
        AttributionRequest.objects.filter(pk__in=sent).update(sent_at=Now())
    return len(sent)


def _connection(app: Celery) -> Connection:
    """A connection of our own: the workers' may wait for a broker, this one gives up soon."""
    options: dict[str, Any] = {"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.1}
    if str(app.conf.broker_write_url or app.conf.broker_url).startswith(("redis", "rediss", "sentinel")):
        options |= {"socket_connect_timeout": PATIENCE, "socket_timeout": PATIENCE, "retry_on_timeout": False}
    connection: Connection = app.connection_for_write(connect_timeout=PATIENCE, transport_options=options)
    return connection
