"""What earlier restarts took, and how much training a restart would do again: the facts under a plan's costs."""

from datetime import datetime

from django.db.models import Q

from recovery import cost
from recovery.models import Milestone, ProgressSample
from recovery.words import MilestoneKind
from verdicts.models import Attempt

#: So many earlier restarts are looked at.
RECENT = 20


def seen(attempt: Attempt, now: datetime) -> cost.Seen:
    """What is known of the attempt and of restarts of its workload, else of its cluster."""
    failed = attempt.ended_at or now
    restarts, queues = (
        _durations(Q(action__proposal__attempt__workload=attempt.workload)) if attempt.workload_id else ([], [])
    )
    of = "this workload"
    if not restarts:
        restarts, queues = _durations(Q(action__cluster=attempt.cluster_id))
        of = "this cluster"
    gpus, counted = _gpus(attempt)
    begun = attempt.started_at
    return cost.Seen(
        gpus=gpus,
        gpus_from=counted,
        restarts=restarts,
        restarts_of=of,
        queues=queues,
        since_checkpoint=_since_checkpoint(attempt, failed),
        still_running=attempt.ended_at is None,
        whole_run=max((failed - begun).total_seconds(), 0.0) if begun else None,
    )


def _gpus(attempt: Attempt) -> tuple[int | None, str]:
    """How many GPUs the job had: one for each rank, where ranks are known."""
    ranks = attempt.body.get("ranks") or {}
    return (len(ranks), "one for each rank") if ranks else (None, "")


def _durations(which: Q) -> tuple[list[float], list[float]]:
    """Seconds from start to progress and from the action to the start, of the latest restarts."""
    kinds = [MilestoneKind.ACTION_DONE, MilestoneKind.ALLOCATION_RESTARTED, MilestoneKind.PROGRESS_RESTORED]
    rows = (
        Milestone.objects.filter(which, kind__in=[kind.value for kind in kinds])
        .order_by("-at")
        .values_list("action", "kind", "at")[: RECENT * len(kinds)]
    )
    times: dict[object, dict[str, datetime]] = {}
    for action, kind, at in rows:
        times.setdefault(action, {})[kind] = at
    restarts = [
        _between(one, MilestoneKind.ALLOCATION_RESTARTED, MilestoneKind.PROGRESS_RESTORED) for one in times.values()
    ]
    queues = [_between(one, MilestoneKind.ACTION_DONE, MilestoneKind.ALLOCATION_RESTARTED) for one in times.values()]
    return [took for took in restarts if took is not None], [took for took in queues if took is not None]


def _between(times: dict[str, datetime], first: MilestoneKind, then: MilestoneKind) -> float | None:
    if first.value not in times or then.value not in times:
        return None
    return max((times[then.value] - times[first.value]).total_seconds(), 0.0)


def _since_checkpoint(attempt: Attempt, failed: datetime) -> float | None:
    """Seconds of training since the last checkpoint was first seen; None where no checkpoint is known."""
    samples = ProgressSample.objects.filter(attempt=attempt, checkpoint_step__isnull=False)
    last = samples.order_by("-at").first()
    if last is None:
        return None
    first = samples.filter(checkpoint_step=last.checkpoint_step).order_by("at").first()
    assert first is not None
    return max((failed - first.at).total_seconds(), 0.0)
