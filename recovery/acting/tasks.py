"""What Celery runs for acting. Every task may run twice.

Those that call schedulers run in the queue `inquest-recovery`: its worker, the dispatcher, alone has the credentials.
"""

from typing import Any

from celery import shared_task
from celery.signals import worker_ready
from django.conf import settings
from django.db import connections

from recovery import decide, meanwhile, propose
from recovery.acting import chores, sites, verify, watchdog
from recovery.acting import dispatch as act
from recovery.acting.queue import ACT
from recovery.policies import record as policies


@shared_task(name=ACT, acks_late=False, ignore_result=True)
def dispatch() -> None:
    """Bring actions further."""
    act.work()


@worker_ready.connect
def tell_who_acts(**_: Any) -> None:
    """Say at its start which schedulers this worker can act on; from then on the sweep asks it again and again."""
    if settings.INQUEST_RECOVERY_FILE:
        sites.tell()
        # Processes that are forked off later must not share it.
        connections.close_all()


@shared_task(name="recovery.verify", ignore_result=True)
def look_what_came_of_it() -> None:
    """Look for milestones of actions that were done."""
    verify.work()


@shared_task(name=chores.WATCHDOG, ignore_result=True)
def watch_the_dispatcher() -> None:
    """Give back what was left half done."""
    watchdog.sweep()


@shared_task(name=chores.LOOK, ignore_result=True)
def look_at_schedulers() -> None:
    """Write down whether each scheduler can be acted on, for the pages."""
    sites.tell()


@shared_task(name="recovery.sweep", ignore_result=True, expires=30)
def sweep() -> None:
    """Wake the dispatcher for what nobody took, consider new verdicts, and do what comes with time: expiry, brakes."""
    act.sweep()
    propose.work()
    decide.sweep()
    meanwhile.sweep()
    chores.send()


@shared_task(name="recovery.sweep_policies", ignore_result=True)
def sweep_policies() -> None:
    """Expire, suspend and demote what is due."""
    policies.sweep()
