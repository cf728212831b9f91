"""Looking how far running attempts are by the feeds of the clusters file: the writer of feeds and their readings.

What a feed cannot say is kept apart from what it says: an attempt is known as far as its feed was read and no
further. Any number of workers may look at once: each look is claimed by moving its time on.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.db.models import Q, QuerySet
from django.utils import timezone

from recovery.models import ProgressFeed, ProgressReading
from recovery.progress import log as progress_log
from recovery.progress import prometheus, record
from recovery.progress.detect import FatalLine
from recovery.words import Via
from rules.attempt import InputError
from verdicts.clusters import cluster_row, current_clusters
from verdicts.collectors.ask import SourceError
from verdicts.collectors.config import ClusterSettings
from verdicts.collectors.progress_settings import LogFeed, ProgressKind, PrometheusFeed
from verdicts.models import Attempt
from verdicts.own import own
from verdicts.storable import storable_text

log = logging.getLogger(__name__)

#: How long one round of looks may take before the worker looks for other tasks, in seconds.
WORK_SECONDS = 20.0
#: Looks in a row that failed after which a feed is left alone, and for how long: doubled each time, up to the longest.
FAILURES, PAUSE, LONGEST_PAUSE = 3, timedelta(seconds=30), timedelta(minutes=5)
#: Attempts whose logs one round looks at.
ATTEMPTS = 500
MAX_SAID = 1_000

#: Fatal lines by the attempt whose log has them.
Fatal = dict[UUID, list[FatalLine]]


def work() -> Fatal:
    """Look at every feed whose time has come; says which attempts have lines that can be the cause of a failure."""
    end = time.monotonic() + WORK_SECONDS
    fatal: Fatal = {}
    for cluster in current_clusters().cluster:
        for feed in cluster.progress:
            if time.monotonic() >= end:
                return fatal
            row = _row(cluster, feed)
            if _left_alone(row, timezone.now()):
                continue
            if isinstance(feed, PrometheusFeed):
                _all_jobs(cluster, feed, row)
            else:
                for attempt_id, lines in _logs(cluster, feed, row, end):
                    fatal.setdefault(attempt_id, []).extend(lines)
    return fatal


def running(cluster: str) -> QuerySet[Attempt]:
    """The attempts of a cluster that have begun and are not known to have ended."""
    return Attempt.objects.filter(own(), cluster__name=cluster, started_at__isnull=False, ended_at__isnull=True)


def _row(cluster: ClusterSettings, feed: ProgressKind) -> ProgressFeed:
    via = Via.LOG if isinstance(feed, LogFeed) else Via.PROMETHEUS
    row, _ = ProgressFeed.objects.get_or_create(
        cluster=cluster_row(cluster.name), name=feed.name, defaults={"via": via.value}
    )
    return row


def _left_alone(row: ProgressFeed, now: datetime) -> bool:
    """Whether a feed did not answer so often that it is not asked just now."""
    if row.failures < FAILURES or row.looked_at is None:
        return False
    return now - row.looked_at < min(PAUSE * 2 ** min(row.failures - FAILURES, 8), LONGEST_PAUSE)


def _all_jobs(cluster: ClusterSettings, feed: PrometheusFeed, row: ProgressFeed) -> None:
    """Ask the metrics store for all jobs of the cluster at once."""
    now = timezone.now()
    due = Q(looked_at__isnull=True) | Q(looked_at__lte=now - timedelta(seconds=feed.every))
    if not ProgressFeed.objects.filter(due, pk=row.pk).update(looked_at=now):
        return
    try:
        answer = prometheus.ask(feed)
    except SourceError as error:
        _failed(row, str(error))
        return
    _answered(row, now)
    if answer.without_job and answer.without_job == answer.series:
        log.warning("%s of %s: no series has a label %s", feed.name, cluster.name, feed.job_label)
    readings = []
    # A job id that was used before belongs to the newest attempt that runs.
    newest = {
        one.job_id: one for one in running(cluster.name).only("id", "job_id").order_by("submit_time", "created_at")
    }
    for job_id, attempt in newest.items():
        signs = answer.signs.get(job_id, [])
        reading = ProgressReading(attempt_id=attempt.pk, feed=row, tried_at=now, signs=len(signs))
        if signs:
            _post(attempt.pk, signs, Via.PROMETHEUS, now)
            reading.read_until = reading.wrote_at = now
        else:
            reading.said = f"no series has its job id in the label {feed.job_label}"
        readings.append(reading)
    told = [one for one in readings if one.signs]
    _write(told, ["tried_at", "read_until", "wrote_at", "signs", "said"])
    # Where nothing was told, what was read before stands: the clock of silence stops there.
    _write([one for one in readings if not one.signs], ["tried_at", "said"])


def _write(readings: Sequence[ProgressReading], fields: list[str]) -> None:
    ProgressReading.objects.bulk_create(
        readings, batch_size=1_000, update_conflicts=True, unique_fields=["attempt", "feed"], update_fields=fields
    )


def _logs(
    cluster: ClusterSettings, feed: LogFeed, row: ProgressFeed, end: float
) -> Iterator[tuple[UUID, list[FatalLine]]]:
    """Look at the logs of running attempts, those first that were not looked at for the longest time."""
    source = cluster.named(feed.source)
    if source is None:
        return
    now = timezone.now()
    before = now - timedelta(seconds=feed.every)
    read = ProgressReading.objects.filter(feed=row, attempt__ended_at__isnull=True)
    fresh = read.filter(tried_at__gt=before).values("attempt")
    tried = dict(read.values_list("attempt", "tried_at"))
    due = list(running(cluster.name).exclude(pk__in=fresh).values_list("pk", flat=True))
    for attempt_id in sorted(due, key=lambda pk: (pk in tried, tried.get(pk, now)))[:ATTEMPTS]:
        if time.monotonic() >= end:
            return
        reading = _claim(attempt_id, row, before)
        if reading is None:
            continue
        attempt = Attempt.objects.select_related("cluster").filter(pk=attempt_id, ended_at__isnull=True).first()
        if attempt is None:
            continue
        now = timezone.now()
        found = progress_log.look(attempt, feed, source, reading.read_until, now)
        ProgressFeed.objects.filter(pk=row.pk).update(looked_at=now)
        if found.signs:
            _post(attempt_id, found.signs, Via.LOG, now)
        _noted(reading, found, now)
        if found.error is not None and not found.lines:
            _failed(row, str(found.error))
            return
        _answered(row, now)
        if found.fatal:
            yield attempt_id, found.fatal


def _claim(attempt_id: UUID, row: ProgressFeed, before: datetime) -> ProgressReading | None:
    """The reading of an attempt, if it is ours to go on with."""
    now = timezone.now()
    fresh = ProgressReading(attempt_id=attempt_id, feed=row, tried_at=before - timedelta(seconds=1))
    ProgressReading.objects.bulk_create([fresh], ignore_conflicts=True)
    mine = ProgressReading.objects.filter(attempt=attempt_id, feed=row)
    if not mine.filter(tried_at__lte=before).update(tried_at=now):
        return None
    return mine.first()


def _noted(reading: ProgressReading, found: progress_log.Look, now: datetime) -> None:
    """Write down how far a log was read. Lines without times moved where there are more of them than before."""
    if found.error is None or found.lines:
        reading.read_until = now
    wrote = found.wrote_at
    if wrote is None and found.lines > reading.lines:
        wrote = now
    if wrote is not None and (reading.wrote_at is None or wrote > reading.wrote_at):
        reading.wrote_at = wrote
    reading.lines = max(reading.lines, found.lines)
    reading.signs += len(found.signs)
    reading.said = storable_text(str(found.error))[:MAX_SAID] if found.error else ""
    reading.save(update_fields=["read_until", "wrote_at", "lines", "signs", "said"])


def _post(attempt_id: UUID, signs: Sequence[record.Sign], via: Via, now: datetime) -> None:
    """Take in signs; one attempt that cannot be served does not keep the others waiting."""
    try:
        record.post(attempt_id, signs, via, now=now)
    except (OperationalError, InterfaceError):
        raise
    except InputError:
        log.exception("progress of attempt %s by %s was refused", attempt_id, via)


def _failed(row: ProgressFeed, why: str) -> None:
    row.failures += 1
    row.error = storable_text(why)[:MAX_SAID]
    ProgressFeed.objects.filter(pk=row.pk).update(failures=row.failures, error=row.error)


def _answered(row: ProgressFeed, now: datetime) -> None:
    row.failures, row.error = 0, ""
    ProgressFeed.objects.filter(pk=row.pk).update(failures=0, error="", answered_at=now)
