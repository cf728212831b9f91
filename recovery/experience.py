"""What earlier restarts took, and how much training a restart would do again: the facts under a plan's costs."""

from collections.abc import Collection
from datetime import datetime

from django.db.models import Q, QuerySet, Value

from recovery import cost
from recovery.models import Milestone, ProgressSample
from recovery.words import MilestoneKind
from verdicts.models import Attempt

#: So many earlier restarts are looked at.
RECENT = 20
_KINDS = (MilestoneKind.ACTION_DONE, MilestoneKind.ALLOCATION_RESTARTED, MilestoneKind.PROGRESS_RESTORED)


def seen(attempt: Attempt, now: datetime) -> cost.Seen:
    """What is known of the attempt and of restarts of its workload, else of its cluster."""
    failed = attempt.ended_at or now
    workload, cluster = _durations(attempt)
    (restarts, queues), of = (workload, "this workload") if workload[0] else (cluster, "this cluster")
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


def _durations(attempt: Attempt) -> tuple[tuple[list[float], list[float]], ...]:
    """How long the latest restarts of the workload took, and those of the cluster: see `_took`."""
    mine = _milestones(Q(action__proposal__attempt__workload=attempt.workload_id), "workload")
    all_of = _milestones(Q(action__cluster=attempt.cluster_id), "cluster")
    rows = mine.union(all_of, all=True) if attempt.workload_id else all_of
    times: dict[str, dict[object, dict[str, datetime]]] = {"workload": {}, "cluster": {}}
    for of, action, kind, at in rows:
        times[of].setdefault(action, {})[kind] = at
    return tuple(_took(times[of].values()) for of in ("workload", "cluster"))


def _milestones(which: Q, of: str) -> QuerySet[Milestone, tuple[str, object, str, datetime]]:
    return (
        Milestone.objects.filter(which, kind__in=[kind.value for kind in _KINDS])
        .annotate(of=Value(of))
        .order_by("-at")
        .values_list("of", "action", "kind", "at")[: RECENT * len(_KINDS)]
    )


def _took(restarts: Collection[dict[str, datetime]]) -> tuple[list[float], list[float]]:
    """Seconds from start to progress, and from the action to the start."""
    took = [_between(one, MilestoneKind.ALLOCATION_RESTARTED, MilestoneKind.PROGRESS_RESTORED) for one in restarts]
    waits = [_between(one, MilestoneKind.ACTION_DONE, MilestoneKind.ALLOCATION_RESTARTED) for one in restarts]
    return [one for one in took if one is not None], [one for one in waits if one is not None]


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
