"""How the configured sources are: which to leave alone because they do not answer, and which are blind.

The writers of `SourceState`. A source that did not answer several attempts in a row is left alone for a while, so that
a flood of failed jobs does not wait for it one by one; one attempt at a time tries it again.
"""

import time
from datetime import timedelta

import msgspec
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from rules.attempt import MAX_TEXT, CollectorReport
from rules.words import ReportStatus
from verdicts.clusters import cluster_row
from verdicts.collectors.source import SourceSettings
from verdicts.models import SourceState
from verdicts.storable import storable_text

#: Unanswered collections in a row after which a source is left alone, and for how long: doubled each time, up to the
#: longest.
FAILURES, PAUSE, LONGEST_PAUSE = 3, timedelta(seconds=15), timedelta(minutes=5)
#: How long a process believes what it read of a source, in seconds.
FRESH = 1.0

_read: dict[tuple[str, str], tuple[float, SourceState]] = {}


def state_of(cluster: str, source: SourceSettings) -> SourceState:
    """The row of a source, made when it is first met; read anew after a second."""
    key = (cluster, source.name)
    at, row = _read.get(key, (0.0, None))
    if row is None or time.monotonic() - at > FRESH:
        row, _ = SourceState.objects.get_or_create(
            cluster=cluster_row(cluster),
            name=source.name,
            defaults={"kind": source.kind, "source": source.source.value},
        )
        _read[key] = (time.monotonic(), row)
    return row


def left_alone(cluster: str, source: SourceSettings) -> str:
    """Why a source is not asked just now, "" when it is. Of those that come after the pause one may try."""
    row = state_of(cluster, source)
    if row.retry_at is None:
        return ""
    if row.retry_at <= timezone.now():
        # The first to move the time on is the one that tries.
        mine = SourceState.objects.filter(pk=row.pk, retry_at=row.retry_at)
        if mine.update(retry_at=Now() + _pause(row.failures)):
            _read.pop((cluster, source.name), None)
            return ""
    return f"not asked: it did not answer {row.failures} times in a row, last: {row.error}"[:MAX_TEXT]


def noted(cluster: str, source: SourceSettings, report: CollectorReport, *, unreachable: bool) -> None:
    """Remember whether a source answered."""
    row = state_of(cluster, source)
    mine = SourceState.objects.filter(pk=row.pk)
    if unreachable:
        failures = row.failures + 1
        mine.update(
            failures=F("failures") + 1,
            failed_at=Now(),
            error=storable_text(report.reason),
            retry_at=Now() + _pause(failures) if failures >= FAILURES else None,
        )
        _read.pop((cluster, source.name), None)
    elif row.failures or row.answered_at is None or timezone.now() - row.answered_at > timedelta(seconds=10):
        mine.update(failures=0, retry_at=None, error="", answered_at=Now())
        _read.pop((cluster, source.name), None)


def judged(cluster: str, source: SourceSettings, report: CollectorReport) -> CollectorReport:
    """A report in the light of the last check: nothing from a source that is blind is no answer, it is an error."""
    row = state_of(cluster, source)
    if row.blind_since is None or report.status is not ReportStatus.EMPTY:
        return report
    since = row.blind_since.isoformat(timespec="seconds")
    reason = f"{report.reason}; but it is blind since {since}: {row.check_body.get('summary', 'see the sources page')}"
    return msgspec.structs.replace(report, status=ReportStatus.ERROR, reason=reason[:MAX_TEXT])


def _pause(failures: int) -> timedelta:
    return min(PAUSE * 2 ** max(failures - FAILURES, 0), LONGEST_PAUSE)


def forget() -> None:
    """Read every source's row anew."""
    _read.clear()
