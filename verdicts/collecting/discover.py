"""The writers of what discovery finds: attempts, those that ended, and those that vanished."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from rules.attempt import Attempt as GivenAttempt
from rules.attempt import InputError
from verdicts import limits, record
from verdicts.choices import RequestState
from verdicts.clusters import cluster_row, current_clusters
from verdicts.collecting import gather
from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.config import ClusterSettings
from verdicts.collectors.source import Found
from verdicts.evidence import given_attempt
from verdicts.lease import Kept, Lease, LeaseLost, Turns
from verdicts.models import Attempt, Discovery
from verdicts.own import own
from verdicts.redaction import clean_text
from verdicts.storable import moment, storable, storable_text
from verdicts.waking import wake_again

log = logging.getLogger(__name__)

#: After failed looks the pause doubles, up to this.
LONGEST_PAUSE = timedelta(minutes=5)
#: What is written as the state of an attempt that the scheduler no longer lists, and why.
VANISHED = "UNKNOWN"
WHY_VANISHED = "the scheduler no longer lists it, and its accounting does not say how it ended"
MAX_NOTES = 20


def ensure() -> int:
    """Make the rows of the configured discoveries, and wake workers for those that are due.

    One that was out of the file for a while, and one of which each worker died, is taken up again.
    """
    for cluster in current_clusters().cluster:
        for discovery in cluster.discovery:
            row, _ = Discovery.objects.get_or_create(cluster=cluster_row(cluster.name), name=discovery.name)
            mine = Discovery.objects.filter(pk=row.pk)
            if row.state == RequestState.FAILED:
                mine.filter(state=row.state).update(
                    state=RequestState.PENDING.value, tries=0, error="", finished_at=None, due_at=Now(), turn_at=Now()
                )
            elif row.tries >= limits.MAX_TRIES:
                mine.takeable(Now()).filter(fence=row.fence).update(
                    state=RequestState.PENDING.value,
                    tries=0,
                    lease_owner="",
                    lease_until=None,
                    failures=F("failures") + 1,
                    error=f"{row.tries} workers that took it ended before it was done",
                    due_at=Now() + LONGEST_PAUSE,
                    turn_at=Now() + LONGEST_PAUSE,
                )
    return wake_again(Discovery)


def work() -> int:
    """Take the looks that are due, each in its turn, until none is left or it is time to let the worker go on."""
    end, done, turns = time.monotonic() + limits.WORK_SECONDS, 0, Turns(Discovery)
    while time.monotonic() < end and (lease := turns.take()) is not None:
        done += 1
        try:
            _look(lease)
        except LeaseLost:
            log.warning("discovery %s was taken over meanwhile", lease.row.name)
    return done


def _look(lease: Lease[Discovery]) -> None:
    """Look once, store what was found, and say when to look again. Raises LeaseLost."""
    row = lease.row
    cluster = current_clusters().named(row.cluster.name if row.cluster else "")
    discovery = next((one for one in cluster.discovery if one.name == row.name), None) if cluster else None
    if cluster is None or discovery is None:
        with transaction.atomic():
            lease.locked()
            lease.release(RequestState.FAILED, error="it is no longer in the clusters file")
        return
    budget = Budget.of(seconds=discovery.seconds, megabytes=1024)
    began = timezone.now()
    try:
        with Kept(lease):
            found = discovery.discover(row.cursor, began, budget)
            notes = [*found.notes, *store(cluster, found.attempts, by=row), *vanished(cluster, found, by=row)]
        _again(
            lease,
            timedelta(seconds=discovery.every),
            started_at=began,
            succeeded_at=Now(),
            failures=0,
            error="",
            cursor=storable(found.cursor),
            notes=_shown(notes),
            found=len(found.attempts),
        )
    except (OperationalError, InterfaceError, LeaseLost):
        raise
    except Exception as error:
        known = isinstance(error, SourceError)
        said = str(error) if known else f"a fault of Inquest: {type(error).__name__}: {error}"
        log.warning("discovery %s of %s failed: %s", row.name, cluster.name, clean_text(said), exc_info=not known)
        pause = min(timedelta(seconds=discovery.every) * 2 ** min(row.failures, 10), LONGEST_PAUSE)
        _again(lease, pause, started_at=began, failures=row.failures + 1, error=storable_text(clean_text(said))[:4000])


def _shown(notes: Sequence[str]) -> list[str]:
    """The first notes, fit to be stored, and how many there are besides."""
    some = notes if len(notes) <= MAX_NOTES else [*notes[: MAX_NOTES - 1], f"and {len(notes) - MAX_NOTES + 1} more"]
    return [storable_text(clean_text(note))[:1000] for note in some]


def _again(lease: Lease[Discovery], pause: timedelta, **said: object) -> None:
    with transaction.atomic():
        lease.locked()
        due = Now() + pause
        lease.release(RequestState.PENDING, due_at=due, turn_at=due, tries=0, **said)


def store(cluster: ClusterSettings, given: Iterable[GivenAttempt], *, by: Discovery | None = None) -> list[str]:
    """Store what is new of the attempts, and have those that are over looked at. Says what could not be stored.

    An attempt that is stored and one that has ended begin in one transaction: whoever is killed in between
    leaves nothing half done, and the next look tells of it again.
    """
    said = (
        _alone(attempt.job_id, partial(_store, cluster, attempt, by)) for attempt in _news(cluster, list(given), by)
    )
    return [note for note in said if note]


def _alone(job: str, do: Callable[[], str | None]) -> str:
    """Do what concerns one attempt in a transaction, and say what there is to say of it: one that cannot be stored
    must not hide the others."""
    try:
        with transaction.atomic():
            return do() or ""
    except (OperationalError, InterfaceError):
        raise
    except InputError as error:
        return f"job {job}: {error}"
    except Exception as error:
        log.exception("job %s could not be stored", job)
        return f"job {job}: a fault of Inquest: {type(error).__name__}: {error}"


def _store(cluster: ClusterSettings, attempt: GivenAttempt, by: Discovery | None) -> None:
    row, _ = record.record_attempt(attempt, cluster=cluster_row(cluster.name), found_by=by)
    if row.missing_since is not None and row.missing_since == row.ended_at and not attempt.end:
        record.take_back_end(row, WHY_VANISHED)
    if row.missing_since is not None or (by is not None and row.found_by_id != by.pk):
        Attempt.objects.filter(pk=row.pk).update(missing_since=None, found_by=by or row.found_by_id)
    if attempt.end:
        gather.ended(row, cluster)


def _news(cluster: ClusterSettings, given: list[GivenAttempt], by: Discovery | None) -> Iterator[GivenAttempt]:
    """Those that say something that the store does not have; one query for many.

    That an attempt is there is news too where it was missed, or where nobody looks whether it still is.
    """
    size = 1000
    names = [discovery.name for discovery in cluster.discovery]
    rows = Discovery.objects.filter(cluster=cluster_row(cluster.name), name__in=names)
    lookers = set(rows.values_list("pk", flat=True)) if by else {None}
    for start in range(0, len(given), size):
        some = [_named(attempt, cluster.name) for attempt in given[start : start + size]]
        known = {
            (job, submit, restart): (body, missing is None and found_by in lookers)
            for job, submit, restart, body, missing, found_by in Attempt.objects.filter(
                cluster=cluster_row(cluster.name), job_id__in={storable_text(attempt.job_id) for attempt in some}
            ).values_list("job_id", "submit_time", "restart_count", "body", "missing_since", "found_by")
        }
        for attempt in some:
            submit = moment(attempt.submit_time, attempt.utc_offset)
            body, watched = known.get((storable_text(attempt.job_id), submit, attempt.restart_count), (None, False))
            if body is None or not watched or _says_more(attempt, body):
                yield attempt


def _says_more(attempt: GivenAttempt, body: dict[str, Any]) -> bool:
    """Whether an attempt says what its stored form does not; most are stored as they are told."""
    if body | storable(attempt.described()) == body:
        return False
    try:
        return bool(body | record.fit(attempt).described() != body)
    except InputError:
        return True


def vanished(cluster: ClusterSettings, found: Found, *, by: Discovery | None = None) -> list[str]:
    """Note which attempts the scheduler lists no more, and give up those that stayed away without a word.

    Silence is unknown, never gone: nothing is concluded where the scheduler could not be asked, and
    what it says later of an attempt replaces this. A discovery speaks only for attempts that it found itself:
    another one, and tools that send attempts, have their own.
    """
    if found.listed is None:
        return []
    told = {storable_text(job) for job in {attempt.job_id for attempt in found.attempts} | found.listed}
    going_on = Attempt.objects.filter(own(), cluster=cluster_row(cluster.name), ended_at__isnull=True, found_by=by)
    back = going_on.filter(missing_since__isnull=False, job_id__in=told)
    back.update(missing_since=None)
    away = going_on.exclude(scheduler="").exclude(job_id__in=told)
    away.filter(missing_since__isnull=True).update(missing_since=Now())
    late = away.filter(missing_since__lte=Now() - timedelta(seconds=cluster.vanish_after))
    said = [_alone(job, partial(_give_up, cluster, pk)) for pk, job in list(late.values_list("pk", "job_id")[:1000])]
    return [note for note in said if note]


def _give_up(cluster: ClusterSettings, pk: UUID) -> str:
    """End an attempt that vanished; what is to be said of it, "" where it came back meanwhile."""
    row = Attempt.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=pk)
    if row.ended_at is not None or row.missing_since is None:
        return ""
    end = row.missing_since.isoformat()
    given = msgspec.structs.replace(given_attempt(row), state=VANISHED, reason=WHY_VANISHED, end=end)
    row, _ = record.record_attempt(given)
    gather.ended(row, cluster)
    return f"job {row.job_id}: {WHY_VANISHED}"


def _named(attempt: GivenAttempt, cluster: str) -> GivenAttempt:
    return msgspec.structs.replace(attempt, cluster=cluster)
