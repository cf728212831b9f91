"""The running attempts and what their ranks and feeds say together, in a few statements over all of them."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import Avg, Count, Max

from recovery.models import ProgressReading, RankProgress
from verdicts.models import Attempt
from verdicts.own import own


@dataclass
class Watched:
    """What is known of one running attempt without reading its ranks."""

    pk: UUID
    cluster: str
    started: datetime
    moved: dict[str, float] = field(default_factory=dict)  # by way
    heard: dict[str, float] = field(default_factory=dict)
    stepped: dict[str, int] = field(default_factory=dict)
    readings: dict[str, ProgressReading] = field(default_factory=dict)  # by feed
    uneven: bool = False


def running() -> dict[UUID, Watched]:
    """All running attempts with what their ranks and feeds say together."""
    rows = Attempt.objects.filter(own(), ended_at__isnull=True, started_at__isnull=False).order_by()
    watched = {
        pk: Watched(pk, cluster, started)
        for pk, cluster, started in rows.values_list("pk", "cluster__name", "started_at")
        if started is not None
    }
    signs = RankProgress.objects.filter(attempt__ended_at__isnull=True).order_by().values("attempt", "via")
    for row in signs.annotate(
        moved=Max("moved_at"),
        heard=Max("observed_at"),
        stepped=Count("moved_at"),
        slowest=Max("step_seconds"),
        usual=Avg("step_seconds"),
    ):
        if (one := watched.get(row["attempt"])) is None:
            continue
        one.heard[row["via"]] = row["heard"].timestamp()
        one.stepped[row["via"]] = row["stepped"]
        if row["moved"] is not None:
            one.moved[row["via"]] = row["moved"].timestamp()
        # A rank that is a seventh slower than its peers lies above the mean of all by a part of that.
        one.uneven |= row["slowest"] is not None and row["slowest"] > 1.05 * row["usual"]
    for reading in ProgressReading.objects.filter(attempt__ended_at__isnull=True).select_related("feed"):
        if (one := watched.get(reading.attempt_id)) is not None:
            one.readings[reading.feed.name] = reading
    return watched
