"""When what of an attempt is due, and what stands in the way. Queries; nothing here writes."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.conf import settings
from django.db.models import DateTimeField, Exists, ExpressionWrapper, Max, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Greatest, Least

from recovery.models import Hold, Proposal, RankProgress
from recovery.models.proposals import OPEN_PROPOSAL
from recovery.models.retention import STANDING
from verdicts.keeping import OF_ATTEMPTS, Kept
from verdicts.models import Attempt, AttributionRequest, Batch, Collection, CollectorReport, ImportedRecord
from verdicts.models.checks import OPEN

#: When an attempt's time begins, as the indexes of `Attempt` have it: when it ended or became known, what is later.
SINCE = Greatest("ended_at", "created_at")
#: When an attempt began, as far as is known: the first of these that is.
BEGAN = ("started_at", "submit_time", "ended_at", "created_at")


def days_of(kept: Kept) -> int:
    """How many days a class is kept; 0 is for ever."""
    return int(settings.INQUEST_KEEP_DAYS[kept.value])


def cutoff(kept: Kept, now: datetime) -> datetime | None:
    """What began before this is due; None where the class is kept for ever."""
    days = days_of(kept)
    return now - timedelta(days=days) if days else None


def left(kept: Kept) -> QuerySet[Any]:
    """The attempts of which a class is still there, each with `since`."""
    return Attempt.objects.filter(**{f"{kept.value}_expired_at__isnull": True}).annotate(since=SINCE)


def due(kept: Kept, now: datetime) -> QuerySet[Any]:
    """The attempts of which a class is due by its time, whatever stands in the way."""
    before = cutoff(kept, now)
    return left(kept).filter(since__lt=before) if before is not None else left(kept).none()


def due_imported(kept: Kept, now: datetime) -> QuerySet[Any]:
    """Imported attempts whose record said that it is to be deleted by a day that is over."""
    over = ImportedRecord.objects.filter(expires_on__lt=now.astimezone(UTC).date())
    return left(kept).filter(pk__in=over.values("attempt"))


def is_held() -> Exists:
    """Whether a hold stands over an attempt."""
    end = Coalesce(OuterRef("ended_at"), Value(datetime.max.replace(tzinfo=UTC) - timedelta(days=2)))
    begin = Coalesce(*map(OuterRef, BEGAN))
    return Exists(
        Hold.objects.filter(STANDING).filter(
            Q(attempt=OuterRef("pk"))
            | Q(workload=OuterRef("workload"))
            | Q(cluster=OuterRef("cluster"), before__gt=begin, after__lte=end)
        )
    )


def holds_over(attempt: Attempt) -> QuerySet[Hold]:
    """The holds that stand over an attempt, the oldest first."""
    begin = next(at for name in BEGAN if (at := getattr(attempt, name)) is not None)
    within = Q(cluster=attempt.cluster_id, before__gt=begin)
    if attempt.ended_at is not None:
        within &= Q(after__lte=attempt.ended_at)
    over = Q(attempt=attempt.pk) | within
    if attempt.workload_id is not None:
        over |= Q(workload=attempt.workload_id)
    return Hold.objects.filter(STANDING).filter(over).order_by("placed_at", "id")


def is_busy() -> Any:
    """Whether an attempt runs, is owed an attribution or a collection, or has something proposed that is open."""
    return (
        Q(ended_at__isnull=True, found_by__isnull=False, missing_since__isnull=True)
        | Exists(AttributionRequest.objects.filter(OPEN, attempt=OuterRef("pk")))
        | Exists(Collection.objects.filter(attempt=OuterRef("pk"), finished_at__isnull=True))
        | Exists(Proposal.objects.filter(OPEN_PROPOSAL, attempt=OuterRef("pk")))
    )


def since_of(attempt: Attempt) -> datetime:
    """When an attempt's time begins. One that nobody says ended begins anew with every sign of life."""
    if attempt.ended_at is not None:
        return max(attempt.ended_at, attempt.created_at)
    heard = [
        CollectorReport.objects.filter(attempt=attempt).aggregate(at=Max("received_at"))["at"],
        Batch.objects.filter(attempt=attempt).aggregate(at=Max("received_at"))["at"],
        RankProgress.objects.filter(attempt=attempt).aggregate(at=Max("observed_at"))["at"],
    ]
    return max([attempt.created_at, *(at for at in heard if at is not None)])


@dataclass(frozen=True)
class Term:
    """When a class of an attempt expires, and the rule that says so."""

    kept: Kept
    at: datetime
    rule: str


def terms_of(attempt: Attempt) -> Iterator[Term]:
    """When each class of an attempt expires, those that are kept for ever left out."""
    since = since_of(attempt)
    told = ImportedRecord.objects.filter(attempt=attempt).values_list("expires_on", flat=True).first()
    ends = datetime.combine(told, time.max, tzinfo=UTC) if told else None
    what = "it ended" if attempt.ended_at is not None and attempt.ended_at >= attempt.created_at else "it became known"
    if attempt.ended_at is None:
        what = "it was last heard of"
    for kept in OF_ATTEMPTS:
        days = days_of(kept)
        at = min(since, _latest(days)) + timedelta(days=days) if days else None
        if ends is not None and (at is None or ends < at):
            yield Term(kept, ends, f"the record that it was imported from was to be deleted by {told}")
        elif at is not None:
            yield Term(kept, at, f"{days} days after {what}, {since.astimezone(UTC):%Y-%m-%d}")


def expires_at(kept: Kept) -> ExpressionWrapper:
    """When a class of an attempt expires by its time, for rows of `left`."""
    days = days_of(kept)
    return ExpressionWrapper(Least("since", Value(_latest(days))) + timedelta(days=days), output_field=DateTimeField())


def _latest(days: int) -> datetime:
    """The last time from which so many days on there still is a date, in any zone: some say that they ended in 9999."""
    return datetime.max.replace(tzinfo=UTC) - timedelta(days=days + 2)
