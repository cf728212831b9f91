"""What Celery runs for drills. It may run twice: a drill is begun once."""

from celery import shared_task
from django.utils import timezone

from recovery.drill import find, record, run
from recovery.models import Drill
from recovery.words import DrillState

#: Sent when somebody asks, and at intervals.
NAME = "recovery.drill"
MOST = 3


@shared_task(name=NAME, ignore_result=True)
def drill() -> None:
    """End drills that were lost, and carry out those that were asked for, and one where the schedule wants one."""
    record.end_lost()
    if find.is_due(timezone.now()):
        try:
            record.ask(via="schedule")
        except record.NotNow:
            return  # another worker was faster
    asked = Drill.objects.filter(state=DrillState.ASKED.value).order_by("asked_at")
    for pk in list(asked.values_list("pk", flat=True)[:MOST]):
        run.carry_out(pk)
