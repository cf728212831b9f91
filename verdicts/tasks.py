"""What Celery runs. A task takes ids, calls one service and may run twice."""

from typing import Any
from uuid import UUID

from celery import shared_task
from celery.signals import worker_init
from django.conf import settings

from verdicts import conclude, drift, waking


@worker_init.connect
def load_rules(**_: Any) -> None:
    """Load the rules before the worker forks: new ones take a while to compile, which no request should wait for."""
    conclude.current_ruleset()


@shared_task(name=waking.TASK, acks_late=True, reject_on_worker_lost=True, ignore_result=True)
def attribute(request_id: str) -> None:
    """Work off one attribution request."""
    conclude.attribute_now(UUID(request_id))


@shared_task(name="verdicts.drift", ignore_result=True)
def look_for_drift() -> None:
    """Compare what the rules saw lately with what they saw before; a sign is logged as `rules.drift`."""
    drift.check(settings.INQUEST_DRIFT_DAYS)


@shared_task(name="verdicts.sweep", ignore_result=True, expires=30)
def sweep() -> None:
    """Wake workers for the requests that nobody took."""
    conclude.sweep()
