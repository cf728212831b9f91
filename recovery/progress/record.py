"""The writers of progress: how far workloads got, rank by rank, and how far an attempt was at which time.

Signs come from workloads that post them, from logs and from metrics (`Via`). The newest sign of a rank stands. A sign
that came late sets nothing back; a step that goes back with a newer time is a restart within the attempt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

import msgspec
from django.db import transaction
from django.db.models import Count, Max, Min, Q
from django.utils import timezone

from recovery.models import ProgressSample, RankProgress
from recovery.words import Via
from rules.attempt import MAX_RANK, InputError
from verdicts.models import Attempt
from verdicts.own import own
from verdicts.storable import moment, storable_text

#: Beyond this no JSON carries a number exactly, nor does the ledger.
Count53 = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
Name = Annotated[str, msgspec.Meta(max_length=255)]

#: How many of a rank's step times are kept, and how far apart: the window that stragglers are looked for in.
PACES, PACES_APART = 12, 20.0
#: One sample of an attempt a minute; of those older than this, the ones at the beginning of an hour stay.
SAMPLES_KEPT = timedelta(hours=6)
#: Signs may come in for so long after an attempt's end.
LATE = timedelta(hours=1)
#: Rows written by one statement.
ROWS = 1_000


class Sign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One sign of progress of a rank, or of the whole job where `rank` is left out. What is left out is unknown.

    `step_seconds` is what its last steps took each, of the rank's own work where it can tell: all ranks wait for the
    slowest, so that a time with the waiting in it is the same for all. `at` is RFC 3339.
    """

    rank: Annotated[int, msgspec.Meta(ge=0, le=MAX_RANK)] | None = None
    step: Count53 | None = None
    checkpoint_step: Count53 | None = None
    collective: Count53 | None = None
    step_seconds: Annotated[float, msgspec.Meta(gt=0, le=7 * 86_400)] | None = None
    phase: Annotated[str, msgspec.Meta(max_length=64)] | None = None
    node: Name = ""
    gpu: Name = ""
    at: Annotated[str, msgspec.Meta(max_length=64)] | None = None


@dataclass(frozen=True)
class Posted:
    """What became of a delivery. `moved` counts ranks that got on, `late` signs that were older than what stands."""

    received: int
    ranks: int
    moved: int
    late: int


@dataclass(frozen=True)
class Latest:
    """How far an attempt is. None is unknown, which is not zero."""

    step_min: int | None
    step_max: int | None
    checkpoint_step: int | None
    at: datetime | None
    observed_at: datetime
    ranks: int


class NoSuchAttempt(LookupError):
    """No attempt answers to what a sign named; the message says what to do."""


def latest(attempt_id: UUID) -> Latest | None:
    """How far an attempt is by its newest signs; None where nothing was ever heard."""
    return latest_of([attempt_id]).get(attempt_id)


def latest_of(attempts: Iterable[UUID]) -> dict[UUID, Latest]:
    """The same for several attempts; those of which nothing was ever heard are left out."""
    rows = RankProgress.objects.filter(attempt__in=list(attempts)).order_by().values("attempt_id")
    found = rows.annotate(
        step_min=Min("step"),
        step_max=Max("step"),
        checkpoint=Max("checkpoint_step"),
        newest=Max("at"),
        observed=Max("observed_at"),
        ranks=Count("rank", distinct=True),
    )
    return {
        row["attempt_id"]: Latest(
            step_min=row["step_min"],
            step_max=row["step_max"],
            checkpoint_step=row["checkpoint"],
            at=row["newest"],
            observed_at=row["observed"],
            ranks=row["ranks"],
        )
        for row in found
    }


def attempt_of(
    *,
    cluster: str,
    job_id: str,
    scheduler: str = "",
    submit_time: str | None = None,
    restart_count: int | None = None,
) -> Attempt:
    """The attempt that a sign means: without a submit time or restart count the newest of that job that has not ended.

    Raises NoSuchAttempt, InputError.
    """
    # With its control characters spelled out, as whatever is stored: PostgreSQL refuses to look for others.
    found = Attempt.objects.filter(own(), cluster__name=storable_text(cluster), job_id=storable_text(job_id))
    if scheduler:
        found = found.filter(scheduler=storable_text(scheduler))
    if submit_time is not None:
        if (at := moment(submit_time)) is None:
            raise InputError("submit_time: not a time; give RFC 3339, such as 2026-05-18T16:04:46Z")
        found = found.filter(submit_time=at)
    if restart_count is not None:
        found = found.filter(restart_count=restart_count)
    if submit_time is None:
        # Job ids are used again: an attempt that ended long ago is not the one that speaks now.
        late = Q(ended_at__gte=timezone.now() - LATE) if restart_count is not None else Q()
        found = found.filter(Q(ended_at__isnull=True) | late if late else Q(ended_at__isnull=True))
    newest = found.order_by("-submit_time", "-restart_count", "-created_at").first()
    if newest is None:
        raise NoSuchAttempt(
            f"no attempt of job {job_id!r} of cluster {cluster!r} is known that this fits:"
            " it may not have been found yet, send the signs again in a while"
        )
    return newest


def post(attempt: Attempt | UUID, signs: Sequence[Sign], via: Via, *, now: datetime | None = None) -> Posted:
    """Take in signs of one attempt. The same signs again change nothing but when we last heard.

    Raises InputError naming the sign and the field.
    """
    attempt_id = attempt if isinstance(attempt, UUID) else attempt.pk
    now = now or timezone.now()
    by_rank: dict[int | None, list[tuple[datetime | None, Sign]]] = {}
    for index, sign in enumerate(signs):
        by_rank.setdefault(sign.rank, []).append((_time(sign, index, now), sign))
    # One order for all, so that deliveries for the same ranks wait for each other in turn.
    order = sorted(by_rank, key=lambda rank: -1 if rank is None else rank)
    moved = late = 0
    with transaction.atomic():
        rows = _rows(attempt_id, order, via)
        for rank in order:
            row = rows.setdefault(rank, RankProgress(attempt_id=attempt_id, rank=rank, via=via.value))
            before = row.moved_at
            for at, sign in by_rank[rank]:
                late += not merge(row, sign, at, now)
            moved += row.moved_at != before
        RankProgress.objects.bulk_create(
            [rows[rank] for rank in order],
            batch_size=ROWS,
            update_conflicts=True,
            unique_fields=["attempt", "rank", "via"],
            update_fields=_FIELDS,
        )
        if moved:
            _sample(attempt_id, now)
    return Posted(received=len(signs), ranks=len(order), moved=moved, late=late)


_FIELDS = [
    "node",
    "gpu",
    "step",
    "checkpoint_step",
    "collective",
    "step_seconds",
    "phase",
    "at",
    "observed_at",
    "moved_at",
    "paces",
]


def _rows(attempt_id: UUID, ranks: Iterable[int | None], via: Via) -> dict[int | None, RankProgress]:
    """The rows that are there, held until the transaction ends. Their keys are not known to the upsert."""
    wanted = list(ranks)
    which = Q(rank__in=[rank for rank in wanted if rank is not None])
    if None in wanted:
        which |= Q(rank__isnull=True)
    held = RankProgress.objects.select_for_update(of=("self",)).filter(which, attempt=attempt_id, via=via.value)
    rows = {}
    for row in held.order_by("pk"):
        row.pk = None
        rows[row.rank] = row
    return rows


def merge(row: RankProgress, sign: Sign, at: datetime | None, now: datetime) -> bool:
    """Let a sign change what stands of its rank; False where it is older than that and changed nothing.

    Clocks jump: a sign with an earlier time is still news when it is further on.
    """
    row.observed_at = max(now, row.observed_at) if row.observed_at else now
    earlier = at is not None and row.at is not None and at < row.at
    if earlier and not _further(row, sign):
        return False
    if _changed(row, sign):
        row.moved_at = now
    for field in ("step", "checkpoint_step", "collective"):
        if (value := getattr(sign, field)) is not None:
            setattr(row, field, value)
    if sign.phase is not None:
        row.phase = storable_text(sign.phase)[:64]
    row.node = storable_text(sign.node)[:255] or row.node
    row.gpu = storable_text(sign.gpu)[:255] or row.gpu
    row.at = at or row.at
    if sign.step_seconds is not None:
        row.step_seconds = sign.step_seconds
        _paced(row, sign.step_seconds, now)
    return True


def _further(row: RankProgress, sign: Sign) -> bool:
    """Whether a sign is beyond what stands, whatever its clock says."""
    pairs = ((row.step, sign.step), (row.collective, sign.collective))
    return any(new is not None and (old is None or new > old) for old, new in pairs)


def _changed(row: RankProgress, sign: Sign) -> bool:
    """Whether a rank is elsewhere than it was: also when its step went back, for then it began again."""
    pairs = ((row.step, sign.step), (row.collective, sign.collective))
    return any(new is not None and new != old for old, new in pairs)


def _paced(row: RankProgress, seconds: float, now: datetime) -> None:
    """Remember how long its steps took, at most once in a while."""
    at = now.timestamp()
    if not row.paces or at - row.paces[-1][0] >= PACES_APART:
        row.paces = [*row.paces[-(PACES - 1) :], [round(at, 1), seconds]]


def _time(sign: Sign, index: int, now: datetime) -> datetime | None:
    """When a sign says that it was. A clock that is ahead cannot tell of what has not been: it is set to now."""
    if sign.at is None:
        return None
    try:
        at = moment(sign.at)
    except (OverflowError, ValueError):
        at = None
    if at is None:
        raise InputError(f"signs[{index}].at: not a time; give RFC 3339, such as 2026-05-18T16:04:46Z")
    return min(at.astimezone(UTC), now)


def _sample(attempt_id: UUID, now: datetime) -> None:
    """Note how far the attempt is, once a minute, and let go of most of the old ones."""
    minute = now.replace(second=0, microsecond=0)
    found = RankProgress.objects.filter(attempt=attempt_id, step__isnull=False).aggregate(
        least=Min("step"), most=Max("step"), saved=Max("checkpoint_step"), ranks=Count("id")
    )
    if found["least"] is None:
        return
    sample = ProgressSample(
        attempt_id=attempt_id,
        at=minute,
        least_step=found["least"],
        most_step=found["most"],
        checkpoint_step=found["saved"],
        ranks=found["ranks"],
    )
    ProgressSample.objects.bulk_create([sample], ignore_conflicts=True)
    if minute.minute % 10 == 0:
        old = ProgressSample.objects.filter(attempt=attempt_id, at__lt=minute - SAMPLES_KEPT)
        old.exclude(at__minute__lt=2).delete()
