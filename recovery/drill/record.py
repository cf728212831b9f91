"""The writer of drills: asked for, begun, ended. What was seen stands in rows, and its digest in the ledger."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from recovery import permissions
from recovery.drill import find, report
from recovery.drill.seen import Seen, not_checked
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Drill, DrillCheck
from recovery.models.drill import OPEN_DRILL
from recovery.words import CheckOutcome, DrillState, EntryKind
from verdicts.choices import Origin
from verdicts.models import Attempt
from verdicts.record import NotPermitted
from verdicts.storable import storable, storable_text

#: Advisory: one is asked for at a time.
_LOCK = (715025, 11)
LOST = "the process that carried it out ended before it did"


class NotNow(ValueError):
    """A drill that cannot be asked for; the message says why."""


def ask(*, via: str, by: User | None = None, attempt: UUID | None = None) -> Drill:
    """Ask for a drill, over an attempt that it makes up, or over one that is chosen.

    Raises NotPermitted, Attempt.DoesNotExist, and NotNow while another is going on.
    """
    if by is not None and not by.has_perm(permissions.RUN_DRILL):
        raise NotPermitted("Running a drill needs the role lead or administrator.")
    drill = Drill(via=via, asked_by=by, made_up=attempt is None, attempt=attempt)
    if attempt is not None:
        found = Attempt.objects.only("job_id", "origin").get(pk=attempt)
        if found.origin == Origin.DRILL:
            raise NotNow("attempt: it was made up for another drill")
        drill.job_id = found.job_id
    drill.facts = {"asked_by": by.get_username() if by else via}
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", _LOCK)
        # The accounts of drills are shared: who ended first would switch them off for the other.
        if (other := Drill.objects.filter(OPEN_DRILL).first()) is not None:
            lost = other.asked_at + find.LOST_AFTER
            raise NotNow(
                f"drill {other.pk} was asked for at {other.asked_at:%H:%M:%S} UTC and has not ended; if its process is"
                f" gone, it is ended at {lost:%H:%M:%S}, and another can begin"
            )
        drill.save(force_insert=True)
    return drill


@transaction.atomic
def take(drill_id: UUID, *, address: str, host: str) -> Drill | None:
    """Begin a drill; None where it was begun or ended by somebody else."""
    now = timezone.now()
    taken = Drill.objects.filter(pk=drill_id, state=DrillState.ASKED.value).update(
        state=DrillState.RUNNING.value, started_at=now, address=storable_text(address)[:1000], host=host[:255]
    )
    return Drill.objects.get(pk=drill_id) if taken else None


@transaction.atomic
def begun(drill: Drill, actor: Actor, *, attempt: UUID, job_id: str, facts: Mapping[str, Any]) -> None:
    """Say over which attempt it is: an entry of the ledger, which the record then has with its proof."""
    drill.attempt, drill.job_id = attempt, job_id
    drill.facts = storable({**drill.facts, **facts})
    drill.save(update_fields=["attempt", "job_id", "facts"])
    ledger.record(
        EntryKind.DRILL_BEGUN,
        actor=actor,
        subject=drill,
        attempt=attempt,
        body={"made_up": drill.made_up, "job_id": job_id, **facts},
    )


def saw(drill: Drill, place: int, name: str, asked: str, seen: Seen, *, at: Any, seconds: float) -> DrillCheck:
    """Write down what came of one check."""
    return DrillCheck.objects.create(
        drill=drill,
        place=place,
        name=name,
        asked=asked,
        outcome=seen.outcome.value,
        seen=storable_text(seen.said),
        facts=storable(dict(seen.facts)),
        at=at,
        seconds=round(seconds, 3),
    )


@transaction.atomic
def end(drill: Drill, actor: Actor, *, facts: Mapping[str, Any]) -> Drill:
    """End a drill: it passed where every check was carried out and passed. The report's digest goes into the ledger."""
    drill = Drill.objects.select_for_update(of=("self",)).get(pk=drill.pk)
    if drill.finished_at is not None:
        return drill
    checks = list(drill.checks.all())
    outcomes = {check.outcome for check in checks}
    if CheckOutcome.FAILED.value in outcomes:
        drill.state = DrillState.FAILED.value
    elif not checks or CheckOutcome.NOT_CHECKED.value in outcomes:
        drill.state = DrillState.INCOMPLETE.value
    else:
        drill.state = DrillState.PASSED.value
    drill.finished_at = timezone.now()
    drill.facts = storable({**drill.facts, **facts})
    drill.report_sha256 = report.digest_of(drill, checks)
    drill.save()
    ledger.record(
        EntryKind.DRILL_ENDED,
        actor=actor,
        subject=drill,
        attempt=drill.attempt,
        body={
            "outcome": drill.state,
            "report_sha256": drill.report_sha256,
            "checks": {check.name: check.outcome for check in checks},
            "address": drill.address,
        },
    )
    return drill


@transaction.atomic
def break_off(drill: Drill, actor: Actor, why: str, *, facts: Mapping[str, Any]) -> Drill:
    """End a drill that does not come to its end: it did not pass."""
    now = timezone.now()
    Drill.objects.filter(pk=drill.pk, started_at=None).update(started_at=now)
    place = drill.checks.count() + 1
    seen = not_checked(why)
    saw(drill, place, "end", "Did the drill come to its end?", seen, at=now, seconds=0.0)
    return end(drill, actor, facts=facts)


def end_lost() -> int:
    """End drills whose process is gone. Says how many."""
    rows = list(find.lost(timezone.now()))
    for drill in rows:
        break_off(drill, Actor.system("drill"), LOST, facts={})
    return len(rows)
