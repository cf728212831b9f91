"""Numbers of the store for whoever watches the site."""

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, Min, Q
from django.db.models.functions import Now
from django.utils import timezone

from verdicts import wording
from verdicts.choices import RequestState
from verdicts.listing.filters import NOT_ANALYSED
from verdicts.models import AttributionRequest, DriftCheck, ListRow, UnrecognisedLine
from verdicts.own import own
from verdicts.quality.reckon import STEPS_OF
from verdicts.sources import find as source_find

#: How far back unrecognised templates are counted.
UNRECOGNISED_WITHIN = timedelta(days=7)


@dataclass(frozen=True)
class Queue:
    """What is owed: requests by state, without those that are done, and for how long the oldest has been due."""

    requests: dict[str, int]
    oldest_due_seconds: float


@dataclass(frozen=True)
class LastDrift:
    """What the last daily look for drift found."""

    checked_at: float
    signs: dict[str, int]
    silent: list[str]


def queue() -> Queue:
    """The queue of record, open and given up."""
    states = [state for state in RequestState if state is not RequestState.DONE]
    found = AttributionRequest.objects.exclude(state=RequestState.DONE.value).order_by()
    counts = dict(found.values_list("state").annotate(Count("pk")))
    due = AttributionRequest.objects.open().filter(due_at__lte=Now()).aggregate(oldest=Min("due_at"))["oldest"]
    age = max((timezone.now() - due).total_seconds(), 0.0) if due else 0.0
    return Queue({state.value: counts.get(state.value, 0) for state in states}, age)


def verdicts() -> dict[tuple[str, str], tuple[int, int]]:
    """Verdicts by domain and strength: all that were written, and those that stand."""
    # Of the list's own table, a row for each verdict, by what an index carries of it.
    counted = ListRow.objects.filter(own()).exclude(domain=NOT_ANALYSED).order_by()
    rows = counted.values_list("domain", "strength_step").annotate(
        written=Count("pk"), standing=Count("pk", filter=Q(is_current=True))
    )
    return {(domain, STEPS_OF[step]): (written, standing) for domain, step, written, standing in rows}


def unrecognised() -> tuple[int, int]:
    """Templates of unrecognised lines of late: all, and those that came near the end of a log."""
    found = UnrecognisedLine.objects.within(timezone.now() - UNRECOGNISED_WITHIN, None).aggregate(
        every=Count("digest", distinct=True), near_end=Count("digest", distinct=True, filter=Q(near_end=True))
    )
    return found["every"], found["near_end"]


def last_drift() -> LastDrift | None:
    """The last daily look for drift; None before the first. Kinds of which nothing was found are told as 0."""
    last = DriftCheck.objects.order_by("-checked_at").first()
    if last is None:
        return None
    kinds = Counter(sign["kind"] for sign in last.signs)
    silent = sorted({sign["rule"] for sign in last.signs if sign["kind"] == "silent"})
    return LastDrift(last.checked_at.timestamp(), {kind: kinds[kind] for kind in wording.DRIFT}, silent)


def sources() -> list[tuple[str, str, str, bool]]:
    """Cluster, name, kind of evidence and whether it is blind, of each configured source."""
    return [
        (shown.cluster, shown.name, shown.source, bool(shown.row and shown.row.blind_since))
        for shown in source_find.configured_sources()
    ]


def discoveries() -> list[tuple[str, str, int, float]]:
    """Cluster, name, failures in a row and the time of the last success (0 before the first) of each discovery."""
    out = []
    for row in source_find.discoveries():
        at = row.succeeded_at.timestamp() if row.succeeded_at else 0.0
        out.append((row.cluster.name if row.cluster else "", row.name, row.failures, at))
    return out
