"""What came after an attempt: the next of its job, whether it came farther, and what our restarts of a workload did."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet, UUIDField, Value

from recovery.caps import Caps
from recovery.facts import Restarted
from recovery.guards import gained
from recovery.models import Action, Milestone
from recovery.policy import RESTARTS
from recovery.progress import record as progress
from recovery.progress.record import Latest
from recovery.words import ActionState, MilestoneKind
from verdicts.models import Attempt

#: So many restarts of a workload are looked at.
RECENT_RESTARTS = 60
_RESTARTS = [kind.value for kind in RESTARTS]
#: What had no effect counts for the pace, and not as a restart.
_WITHOUT_EFFECT = [ActionState.ABANDONED.value, ActionState.FAILED.value]


def successor(attempt: Attempt) -> Attempt | None:
    """The attempt that came next of the same job."""
    return _later(attempt).order_by("submit_time", "restart_count").first()


def job_changed(attempt: Attempt) -> str:
    """What became of the job since: it runs again, or its id was given to another one. Empty if nothing did."""
    counts = _later(attempt).order_by("-submit_time", "-restart_count").values_list("restart_count", flat=True)
    later = counts.first()
    if later is None:
        return ""
    if later > attempt.restart_count:
        return f"job {attempt.job_id} was restarted meanwhile: it is at restart {later}"
    return f"job id {attempt.job_id} belongs to a later submission"


def farther(before: Attempt, after: Attempt) -> bool | None:
    """Whether a later attempt came farther than an earlier one, by what both posted; None where that is not known."""
    latest = progress.latest_of([before.pk, after.pk])
    return _farther(before.pk, after.pk, after.ended_at, latest)


def restarts(attempt: Attempt, caps: Caps, now: datetime, *, but: str = "") -> Iterable[Restarted]:
    """The restarts that we did of the attempt's workload, and whether each came farther than what it restarted."""
    mine = (
        Q(proposal__attempt__workload=attempt.workload_id)
        if attempt.workload_id
        else Q(proposal__attempt__cluster=attempt.cluster_id, proposal__attempt__job_id=attempt.job_id)
    )
    completed = Milestone.objects.filter(action=OuterRef("pk"), kind=MilestoneKind.COMPLETED.value)
    rows = list(
        Action.objects.filter(mine, kind__in=_RESTARTS, created_at__gt=now - timedelta(hours=caps.budget_hours))
        .exclude(outcome__in=_WITHOUT_EFFECT)
        .exclude(proposal=UUID(but) if but else None)
        .annotate(completed=Exists(completed))
        .select_related("proposal__attempt")
        .defer("proposal__plan_json", "proposal__attempt__body")
        .order_by("-created_at")[:RECENT_RESTARTS]
    )
    restarted = {row.proposal.attempt_id: row.proposal.attempt for row in rows if not row.completed}
    after = _successors(restarted.values())
    latest = progress.latest_of([*restarted, *(pk for pk, _ in after.values())]) if after else {}
    for row in rows:
        before, plan = row.proposal.attempt_id, row.proposal.plan
        came = True if row.completed else _farther(before, *after[before], latest=latest) if before in after else None
        yield Restarted(at=row.created_at, symptom=plan["symptom"], locus=plan["locus"], progressed=came)


def _later(attempt: Attempt) -> QuerySet[Attempt]:
    """The attempts of the same job id that came later. Where times are not known, the restart count tells."""
    count = Q(restart_count__gt=attempt.restart_count)
    if attempt.submit_time is None:
        later = count | Q(created_at__gt=attempt.created_at, submit_time__isnull=False)
    else:
        same = Q(submit_time=attempt.submit_time) | Q(submit_time__isnull=True)
        later = Q(submit_time__gt=attempt.submit_time) | same & count
    same_job = Attempt.objects.filter(cluster=attempt.cluster_id, scheduler=attempt.scheduler, job_id=attempt.job_id)
    return same_job.exclude(pk=attempt.pk).filter(later)


def _successors(attempts: Iterable[Attempt]) -> dict[UUID, tuple[UUID, datetime | None]]:
    """For each attempt that has one its successor and when that ended, all in one statement."""
    ones = [
        _later(one)
        .annotate(of=Value(one.pk, output_field=UUIDField()))
        .order_by("submit_time", "restart_count")
        .values_list("of", "pk", "ended_at")[:1]
        for one in attempts
    ]
    if not ones:
        return {}
    return {of: (pk, ended) for of, pk, ended in ones[0].union(*ones[1:], all=True)}


def _farther(before: UUID, after: UUID, after_ended: datetime | None, latest: Mapping[UUID, Latest]) -> bool | None:
    was, became = latest.get(before), latest.get(after)
    found = gained(
        checkpoint=was.checkpoint_step if was else None,
        step=was.step_max if was else None,
        new_checkpoint=became.checkpoint_step if became else None,
        new_step=became.step_max if became else None,
    )
    # One that goes on may come farther yet: that it did not so far says nothing.
    return None if found is False and after_ended is None else found
