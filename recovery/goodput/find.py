"""Reading what `reckon.py` reckons with: failures, how far they were, and how they were recovered from."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Func, IntegerField, Max, Min, Q
from django.db.models.expressions import RawSQL

from recovery.acting import verify
from recovery.goodput import reckon
from recovery.goodput.reckon import Failure, Lost, Recovered, Run, WhatIf
from recovery.goodput.timings import Moments, Spread, to_goodput
from recovery.models import Action, Anomaly, ProgressSample, RankProgress
from recovery.progress.watch import BAD_ENDS
from recovery.words import AnomalyKind
from verdicts.fleet.find import Span
from verdicts.models import Attempt, Verdict
from verdicts.own import own

#: Failures that are counted at most, the newest, and recoveries whose times are looked up one by one.
MOST, MOST_TIMED = 5_000, 200
NO_VERDICT = "no verdict"
#: A requeued attempt may be said to have begun so much before the one that it follows had ended.
SAME_MOMENT = timedelta(seconds=5)
AUTOMATIC, APPROVED, OUTSIDE = "automatic", "approved by a person", "without Inquest"


class _Keys(Func):
    """How many keys an object has; none where it is none."""

    template = "(SELECT count(*) FROM jsonb_object_keys(COALESCE(%(expressions)s, '{}'::jsonb)))"
    output_field = IntegerField()


def _those(attempts: Iterable[UUID]) -> RawSQL:
    """Some attempts as one parameter: thousands of them take the database longer to read than to look up."""
    return RawSQL("SELECT unnest(%s::uuid[])", [list(attempts)])


@dataclass(frozen=True)
class Goodput:
    """The whole page: losses, times, and what would have been better."""

    failures: int
    #: Since when they are counted, where the time has more of them.
    counted_since: datetime | None
    by_cause: list[Lost]
    by_cluster: list[Lost]
    detection: dict[str, Spread | None]
    by_hand_or_not: dict[str, tuple[int, dict[str, Spread | None]]]
    by_cause_times: dict[str, tuple[int, dict[str, Spread | None]]]
    by_cluster_times: dict[str, tuple[int, dict[str, Spread | None]]]
    faster: list[WhatIf]
    shorter: list[WhatIf]
    totals: list[float]


@dataclass
class _Failed:
    """A failed attempt with what else was read of it."""

    pk: UUID
    cluster: str
    key: tuple[Any, ...]
    workload: UUID | None
    started: datetime | None
    ended: datetime
    restart_count: int
    ranks: int


def measured(span: Span, cluster: str = "") -> Goodput:
    """Everything that the page about goodput shows of a time."""
    failed = _failed(span, cluster)
    cut, failed = len(failed) > MOST, failed[:MOST]
    ids = [one.pk for one in failed]
    causes = dict(Verdict.objects.filter(attempt__in=_those(ids), is_current=True).values_list("attempt", "domain"))
    anomalies_of = Anomaly.objects.filter(attempt__in=_those(ids)).order_by("detected_at")
    found = {(row.attempt_id, row.kind): row for row in anomalies_of}
    after = _successors(failed)
    failures = _failures(failed, causes, found, after)
    runs = _runs(span, cluster)
    cases = [*_by_actions(span, cluster, causes), *_outside(failed, causes, found, after)]
    anomalies = Anomaly.objects.filter(detected_at__gte=span.after, detected_at__lt=span.before)
    if cluster:
        anomalies = anomalies.filter(attempt__cluster__name=cluster)
    stages = anomalies.order_by("-detected_at").values_list("event_at", "observed_at", "detected_at", "proposed_at")
    return Goodput(
        failures=len(failed),
        counted_since=failed[-1].ended if cut else None,
        by_cause=reckon.lost_by(failures, lambda one: one.cause),
        by_cluster=reckon.lost_by(failures, lambda one: one.cluster),
        detection=reckon.detection_times(stages[:MOST]),
        by_hand_or_not=reckon.times_by(cases, lambda case: case.by),
        by_cause_times=reckon.times_by(cases, lambda case: f"{case.cause}, {case.by}"),
        by_cluster_times=reckon.times_by(cases, lambda case: f"{case.cluster or '(no cluster named)'}, {case.by}"),
        faster=[reckon.faster_detection(failures, within) for within in reckon.FASTER],
        shorter=[reckon.shorter_interval(failures, runs, part) for part in reckon.SHORTER],
        totals=sorted(t for case in cases if (t := to_goodput(case.moments)) is not None),
    )


def _failed(span: Span, cluster: str) -> list[_Failed]:
    """The attempts that ended badly in a time, or that were found to hang; the newest first, one more than counted."""
    bad = Q(pk__in=Anomaly.objects.filter(kind=AnomalyKind.HANG.value).values("attempt"))
    for word in BAD_ENDS:
        bad |= Q(state__istartswith=word)
    rows = Attempt.objects.filter(own(), bad, ended_at__gte=span.after, ended_at__lt=span.before)
    if cluster:
        rows = rows.filter(cluster__name=cluster)
    rows = rows.annotate(places=_Keys(F("body__ranks"))).order_by("-ended_at", "id")
    return [
        _Failed(pk, name, (cluster_id, scheduler, job_id), workload, started, ended, count, places)
        for pk, name, cluster_id, scheduler, job_id, workload, started, ended, count, places in rows.values_list(
            "pk",
            "cluster__name",
            "cluster",
            "scheduler",
            "job_id",
            "workload",
            "started_at",
            "ended_at",
            "restart_count",
            "places",
        )[: MOST + 1]
        if ended is not None
    ]


@dataclass(frozen=True)
class _Next:
    """The attempt that came next."""

    pk: UUID
    started: datetime | None
    first_step: datetime | None


def _successors(failed: Iterable[_Failed]) -> dict[UUID, _Next]:
    """For each failed attempt the next of its job, else of its workload that began after it."""
    rows = list(failed)
    jobs = {one.key[2] for one in rows}
    workloads = {one.workload for one in rows if one.workload is not None}
    by_job: defaultdict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    by_workload: defaultdict[UUID, list[tuple[Any, ...]]] = defaultdict(list)
    earliest = min((one.ended for one in rows), default=datetime.max.replace(tzinfo=UTC)) - SAME_MOMENT
    # What began after it has not ended before it: by that an index finds the few.
    later = Attempt.objects.filter(
        own(),
        Q(job_id__in=jobs) | Q(workload__in=workloads),
        Q(ended_at__isnull=True) | Q(ended_at__gte=earliest),
        started_at__gte=earliest,
    )
    for pk, cluster, scheduler, job_id, workload, started, count in later.order_by("started_at").values_list(
        "pk", "cluster", "scheduler", "job_id", "workload", "started_at", "restart_count"
    ):
        by_job[cluster, scheduler, job_id].append((pk, started, count))
        if workload is not None:
            by_workload[workload].append((pk, started, count))
    found: dict[UUID, tuple[UUID, datetime]] = {}
    for one in rows:
        same = [row for row in by_job[one.key] if row[1] >= one.ended - SAME_MOMENT and row[0] != one.pk]
        others = by_workload.get(one.workload, []) if one.workload else []
        other = others[bisect_left(others, one.ended, key=itemgetter(1)) :][:1]
        if nearest := next(iter(same or other), None):
            found[one.pk] = (nearest[0], nearest[1])
    firsts = dict(
        ProgressSample.objects.filter(attempt__in=_those(pk for pk, _ in found.values()))
        .order_by()
        .values_list("attempt")
        .annotate(first=Min("at"))
    )
    return {pk: _Next(after, started, firsts.get(after)) for pk, (after, started) in found.items()}


def _failures(
    failed: Iterable[_Failed],
    causes: dict[UUID, str],
    anomalies: dict[tuple[UUID, str], Anomaly],
    after: dict[UUID, _Next],
) -> list[Failure]:
    rows = list(failed)
    ids = [one.pk for one in rows]
    moved, ranks = _moved(ids)
    marks = _marks(ids)
    found = []
    for one in rows:
        hang = anomalies.get((one.pk, AnomalyKind.HANG.value))
        first = hang or anomalies.get((one.pk, AnomalyKind.CRASH.value))
        stood = hang.event_at if hang is not None else None
        replay, interval = reckon.since_checkpoint(marks.get(one.pk, []), moved.get(one.pk))
        came = after.get(one.pk)
        restore = None
        if came is not None and came.started is not None and came.first_step is not None:
            restore = max(0.0, (came.first_step - came.started).total_seconds())
        found.append(
            Failure(
                attempt=str(one.pk),
                cluster=one.cluster or "(no cluster named)",
                cause=causes.get(one.pk, NO_VERDICT),
                gpus=one.ranks or ranks.get(one.pk) or None,
                replay=replay,
                hang=max(0.0, (one.ended - stood).total_seconds()) if stood is not None else None,
                restore=restore,
                hung=hang is not None,
                detection=(first.detected_at - first.event_at).total_seconds() if first and first.event_at else None,
                interval=interval,
            )
        )
    return found


def _moved(ids: list[UUID]) -> tuple[dict[UUID, float], dict[UUID, int]]:
    """When each attempt last moved, and how many ranks told of themselves."""
    rows = RankProgress.objects.filter(attempt__in=_those(ids)).order_by().values_list("attempt")
    found = list(rows.annotate(moved=Max("moved_at"), ranks=Count("rank", distinct=True)))
    return {pk: at.timestamp() for pk, at, _ in found if at is not None}, {pk: ranks for pk, _, ranks in found}


def _marks(ids: Iterable[UUID]) -> dict[UUID, list[tuple[float, int]]]:
    """When each checkpoint of each attempt was first seen."""
    found: defaultdict[UUID, list[tuple[float, int]]] = defaultdict(list)
    rows = ProgressSample.objects.filter(attempt__in=_those(ids), checkpoint_step__isnull=False).order_by()
    for pk, step, first in rows.values_list("attempt", "checkpoint_step").annotate(first=Min("at")):
        found[pk].append((first.timestamp(), step))
    return found


def _runs(span: Span, cluster: str) -> list[Run]:
    """How long attempts of a time trained that wrote several checkpoints, failed or not."""
    rows = ProgressSample.objects.filter(at__gte=span.after, at__lt=span.before, checkpoint_step__isnull=False)
    if cluster:
        rows = rows.filter(attempt__cluster__name=cluster)
    told = (
        rows.order_by()
        .values_list("attempt")
        .annotate(first=Min("at"), last=Max("at"), written=Count("checkpoint_step", distinct=True))
        .filter(written__gt=2)[:MOST]
    )
    return [
        Run(seconds=(last - first).total_seconds(), interval=(last - first).total_seconds() / (written - 1))
        for _, first, last, written in told
        if last > first
    ]


def _by_actions(span: Span, cluster: str, causes: dict[UUID, str]) -> list[Recovered]:
    """The recoveries that Inquest carried out, the newest."""
    rows = Action.objects.filter(kind__in=verify.RESTARTS, created_at__gte=span.after, created_at__lt=span.before)
    if cluster:
        rows = rows.filter(cluster__name=cluster)
    rows = rows.select_related("cluster", "proposal__attempt", "proposal__anomaly", "proposal__verdict").defer(
        *("proposal__plan", "proposal__plan_json", "proposal__attempt__body"),
        *("proposal__verdict__body", "proposal__verdict__body_json", "proposal__verdict__coverage"),
    )
    actions = list(rows.prefetch_related("milestones", "proposal__decisions").order_by("-created_at")[:MOST_TIMED])
    found = []
    for row, moments in zip(actions, verify.moments(actions), strict=True):
        verdict = row.proposal.verdict
        cause = verdict.domain if verdict else causes.get(row.proposal.attempt_id, NO_VERDICT)
        name = row.cluster.name if row.cluster else ""
        found.append(Recovered(moments, name, cause, AUTOMATIC if moments.automatic else APPROVED))
    return found


def _outside(
    failed: Iterable[_Failed],
    causes: dict[UUID, str],
    anomalies: dict[tuple[UUID, str], Anomaly],
    after: dict[UUID, _Next],
) -> list[Recovered]:
    """The failures after which the job came back with nothing done by Inquest: by people, or by the scheduler."""
    rows = [one for one in failed if one.pk in after]
    ours = set(
        Action.objects.filter(proposal__attempt__in=_those(one.pk for one in rows)).values_list(
            "proposal__attempt", flat=True
        )
    )
    rows = [one for one in rows if one.pk not in ours][:MOST_TIMED]
    stood = _stood([one.pk for one in rows])
    crossed = _crossed({after[one.pk].pk: stood.get(one.pk, (None, None)) for one in rows})
    found = []
    for one in rows:
        first = anomalies.get((one.pk, AnomalyKind.HANG.value)) or anomalies.get((one.pk, AnomalyKind.CRASH.value))
        came = after[one.pk]
        progressed, caught_up = crossed.get(came.pk, (None, None))
        moments = Moments(
            failed=(first.event_at if first else None) or one.ended,
            observed=first.observed_at if first else None,
            detected=first.detected_at if first else None,
            restarted=came.started,
            progressed=progressed,
            caught_up=caught_up,
        )
        found.append(Recovered(moments, one.cluster, causes.get(one.pk, NO_VERDICT), OUTSIDE))
    return found


def _stood(ids: list[UUID]) -> dict[UUID, tuple[int | None, int | None]]:
    """Of each attempt the step that the next one goes on from, and the step at which it stood itself."""
    rows = RankProgress.objects.filter(attempt__in=_those(ids)).order_by().values_list("attempt")
    found = rows.annotate(saved=Max("checkpoint_step"), most=Max("step"))
    return {pk: (saved if saved is not None else most, most) for pk, saved, most in found}


def _crossed(
    marks: dict[UUID, tuple[int | None, int | None]],
) -> dict[UUID, tuple[datetime | None, datetime | None]]:
    """When each attempt was first beyond the one step, and as far as the other."""
    found: dict[UUID, tuple[datetime | None, datetime | None]] = {}
    rows = ProgressSample.objects.filter(attempt__in=_those(marks)).order_by("attempt", "at")
    for pk, at, step in rows.values_list("attempt", "at", "most_step").iterator(chunk_size=10_000):
        base, stood = marks[pk]
        beyond, level = found.get(pk, (None, None))
        if beyond is None and base is not None and step > base:
            beyond = at
        if level is None and stood is not None and step >= stood:
            level = at
        found[pk] = beyond, level
    return found
