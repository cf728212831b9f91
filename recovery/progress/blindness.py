"""The writer of blindness: of which running attempts hangs would not be seen, and why."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from recovery.ledger.entries import Actor, Fact, record_all
from recovery.models import Blindness
from recovery.progress import blind
from recovery.progress.blind import Way
from recovery.progress.detect import Limits
from recovery.progress.watched import Watched
from recovery.words import EntryKind, Via
from verdicts.clusters import current_clusters

WATCH = Actor.system("watch")


def note(watched: Mapping[UUID, Watched], silent: Mapping[str, float], now: datetime, bounds: Limits) -> None:
    """Say of each running attempt why its hangs would not be seen, and take back what holds no more.

    The ledger is told when an attempt goes blind and when it is seen again, not each time that the reason changes.
    """
    feeds = {cluster.name: cluster.progress for cluster in current_clusters().cluster}
    standing = dict(Blindness.objects.filter(attempt__ended_at__isnull=True).values_list("attempt", "reason"))
    new: list[Blindness] = []
    gone: list[UUID] = []
    told: list[Fact] = []
    for one in watched.values():
        if now - one.started < timedelta(seconds=bounds.floor):
            continue  # it has not had time to say anything
        ways = [
            Way(
                name=f"The feed {feed.name}",
                via=Via.LOG.value if feed.kind == "log" else Via.PROMETHEUS.value,
                read_until=_stamp(reading.read_until) if (reading := one.readings.get(feed.name)) else None,
                lines=reading.lines if reading else 0,
                signs=reading.signs if reading else 0,
                said=reading.said if reading else "",
            )
            for feed in feeds.get(one.cluster, [])
        ]
        if Via.POST.value in one.heard:
            stepped = one.stepped.get(Via.POST.value, 0)
            ways.append(Way("What it posts", Via.POST.value, signs=stepped, silent_since=silent.get(one.cluster)))
        reason = blind.blindness(ways, now.timestamp(), bounds)
        before = standing.get(one.pk)
        if reason is None:
            if before is not None:
                gone.append(one.pk)
                told.append(_fact(EntryKind.PROGRESS_SEES, one, {"was": before}))
        elif before is None or _figureless(before) != _figureless(reason):
            new.append(Blindness(attempt_id=one.pk, reason=reason, since=now))
            if before is None:
                told.append(_fact(EntryKind.PROGRESS_BLIND, one, {"reason": reason}))
    if not new and not gone:
        return
    with transaction.atomic():
        Blindness.objects.filter(attempt__in=gone).delete()
        Blindness.objects.bulk_create(
            new, batch_size=1_000, update_conflicts=True, unique_fields=["attempt"], update_fields=["reason"]
        )
        record_all(told)


def _fact(kind: EntryKind, one: Watched, body: dict[str, str]) -> Fact:
    return Fact(kind=kind, actor=WATCH, subject=("attempt", str(one.pk)), attempt=one.pk, body=body)


def _figureless(text: str) -> str:
    """A sentence without its figures: it says the same while only they grow."""
    return "".join(letter for letter in text if not letter.isdigit() and letter != ".")


def _stamp(at: datetime | None) -> float | None:
    return at.timestamp() if at is not None else None
