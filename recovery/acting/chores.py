"""What the dispatcher is asked to do now and then, where one is there: its queue must not fill up for nobody."""

from datetime import timedelta

from django.core.cache import cache
from django.db.models import Q
from django.utils import timezone

from recovery.acting import watchdog
from recovery.acting.queue import RECOVERY_QUEUE
from recovery.models import Action, ActuatorState
from verdicts.waking import wake_task

WATCHDOG, LOOK = "recovery.watchdog", "recovery.look_at_schedulers"
#: Seconds between two askings.
EVERY = {WATCHDOG: 30, LOOK: 60}
#: A dispatcher that was not heard of for so long is not there.
GONE = timedelta(hours=1)


def send() -> list[str]:
    """Ask for what is due; says what was asked for."""
    now = timezone.now()
    if not ActuatorState.objects.filter(seen_at__gt=now - GONE).exists():
        return []
    recent = Q(finished_at__gt=now - watchdog.WATCHED) & ~Q(calls=[])
    wanted = [LOOK]
    if Action.objects.filter(~Q(outcome__in=watchdog.ENDED) | recent).exists():
        wanted.append(WATCHDOG)
    # Each worker remembers for itself when it last asked: to be asked twice does no harm.
    due = [name for name in wanted if cache.add(f"asked:{name}", 1, EVERY[name])]
    return [name for name in due if wake_task(name, queue=RECOVERY_QUEUE)]
