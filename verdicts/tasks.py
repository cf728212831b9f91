"""What Celery runs. A task names no row: the database says whose turn it is. Every task may run twice.

A message that wakes a worker is acknowledged when it comes: to lose it costs a sweep. Acknowledged late, it would
belong to a connection that may be gone by then, which ends a worker of threads when the broker is started again.
"""

from typing import Any

from celery import shared_task
from celery.signals import worker_init
from django.conf import settings

from verdicts import conclude, waking
from verdicts.collecting import discover, gather
from verdicts.models import AttributionRequest, CollectionTask, Discovery
from verdicts.overview import tally
from verdicts.people import deliver, subscribe
from verdicts.rulebook import drift
from verdicts.sources import check as source_check


@worker_init.connect
def load_rules(**_: Any) -> None:
    """Load the rules before the worker forks: new ones take a while to compile, which no request should wait for."""
    conclude.current_ruleset()


@shared_task(name=waking.TASKS[Discovery], acks_late=False, ignore_result=True)
def look_for_attempts() -> None:
    """Ask schedulers what runs and what ended."""
    discover.work()


@shared_task(name=waking.TASKS[CollectionTask], acks_late=False, ignore_result=True)
def collect() -> None:
    """Ask sources for the evidence of attempts."""
    gather.work()


@shared_task(name=waking.TASKS[AttributionRequest], acks_late=False, ignore_result=True)
def attribute() -> None:
    """Work off attribution requests."""
    conclude.work()


@shared_task(name="verdicts.tell", ignore_result=True)
def tell_people() -> None:
    """Find what subscriptions are owed, and deliver what is due."""
    subscribe.look()
    deliver.deliver_due()


@shared_task(name="verdicts.drift", ignore_result=True)
def look_for_drift() -> None:
    """Compare what the rules saw lately with what they saw before; a sign is logged as `rules.drift`."""
    drift.check(settings.INQUEST_DRIFT_DAYS)


@shared_task(name="verdicts.fold_tally", ignore_result=True)
def fold_tally() -> None:
    """Keep the weekly tally of the list short."""
    tally.fold()


@shared_task(name="verdicts.check_sources", ignore_result=True)
def check_sources() -> None:
    """Look whether every source still sees; one that goes blind is told of in log, page and metrics."""
    source_check.check_in_turn()


@shared_task(name="verdicts.sweep", ignore_result=True, expires=30)
def sweep() -> None:
    """Wake workers for what nobody took, and end collections whose time is up."""
    discover.ensure()
    gather.sweep()
    conclude.sweep()
