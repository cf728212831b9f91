"""Reading drills: the last one, and whether one is overdue."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from recovery.models import Drill, LedgerEntry
from recovery.models.drill import OPEN_DRILL
from recovery.words import DrillState, EntryKind

#: So much later than its interval a drill is overdue: it is looked for at intervals too, and a worker may be busy.
GRACE = timedelta(hours=6)
#: A drill that runs for so long has lost its process.
LOST_AFTER = timedelta(minutes=20)


def interval() -> timedelta | None:
    """How often a drill is due; None where they are not scheduled."""
    hours = float(settings.INQUEST_DRILL_HOURS)
    return timedelta(hours=hours) if hours else None


def drills() -> QuerySet[Drill]:
    """All drills, the newest first."""
    return Drill.objects.select_related("asked_by")


def scheduled() -> QuerySet[Drill]:
    """Those over an attempt that was made up: one over a chosen attempt stands for nothing else."""
    return Drill.objects.filter(made_up=True)


def is_due(now: datetime) -> bool:
    """Whether the schedule wants one now: none was begun within the interval, and none is open."""
    every = interval()
    if every is None or Drill.objects.filter(OPEN_DRILL).exists():
        return False
    return not scheduled().filter(asked_at__gt=now - every).exists()


def lost(now: datetime) -> QuerySet[Drill]:
    """Drills whose process is gone."""
    return Drill.objects.filter(OPEN_DRILL, asked_at__lt=now - LOST_AFTER)


def ended_entry(drill_id: UUID) -> LedgerEntry | None:
    """The entry of the ledger that tells of a drill's end."""
    return (
        LedgerEntry.objects.filter(kind=EntryKind.DRILL_ENDED.value, subject_kind="drill", subject=str(drill_id))
        .select_related("link")
        .first()
    )


@dataclass(frozen=True)
class Standing:
    """How drills stand. `overdue` says since when one should have passed that did not."""

    last: Drill | None
    passed: Drill | None
    overdue: datetime | None

    @property
    def wants_somebody(self) -> bool:
        """Whether a person has to look: the last one did not pass, or none passed in time."""
        return self.overdue is not None or (self.last is not None and self.last.state != DrillState.PASSED)


def standing(now: datetime | None = None) -> Standing:
    """The last drill that ended, the last that passed, and whether one is overdue."""
    now = now or timezone.now()
    over = scheduled().exclude(OPEN_DRILL).order_by("-finished_at")
    last = over.first()
    passed = last if last is None or last.state == DrillState.PASSED else _passed(over)
    every = interval()
    overdue = None
    if every is not None:
        since = passed.finished_at if passed else _first()
        if since is not None and since + every + GRACE < now:
            overdue = since + every
    return Standing(last, passed, overdue)


def _passed(over: QuerySet[Drill]) -> Drill | None:
    return over.filter(state=DrillState.PASSED.value).first()


def _first() -> datetime | None:
    """Since when one is wanted where none has passed: since the site has a ledger."""
    return LedgerEntry.objects.order_by("at").values_list("at", flat=True).first()
