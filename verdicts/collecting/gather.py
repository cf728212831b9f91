"""The writers of collections: what is asked of a cluster's sources for an attempt, and what came.

A collection is a round over all sources, each of them a row of work. Workers take the rows in turn and store what
they obtained. Whoever finishes the last row ends the round and asks for the verdict; at the deadline the sweep
does, and what did not answer by then is said so in its report.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now
from django.utils import timezone

from rules.attempt import CollectorReport
from rules.observation import Observation
from rules.terminal import scheduler_state
from rules.words import ReportStatus, Source, State
from verdicts import limits
from verdicts.choices import OPEN_STATES, CollectionReason, Mode, RequestState
from verdicts.clusters import current_clusters
from verdicts.collecting.collected import store_collected
from verdicts.collecting.rounds import applies, begin, pause, since_end, window
from verdicts.collectors.ask import Ask, Budget, SourceError, Unreachable
from verdicts.collectors.config import ClusterSettings
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import SourceSettings
from verdicts.conclude import ask as ask_attribution
from verdicts.conclude import current_ruleset
from verdicts.evidence import given_attempt
from verdicts.lease import Kept, Lease, LeaseLost, Turns, give_up
from verdicts.models import Attempt, AttributionRequest, Collection, CollectionTask
from verdicts.redaction import current_redactor
from verdicts.sources import standing as sources
from verdicts.waking import go_on, wake_again

log = logging.getLogger(__name__)

#: A source may take so much of what is left of its round: what it gave until then has yet to be stored.
SHARE = 0.9


class NotConfigured(LookupError):
    """The attempt's cluster has no sources in the clusters file; the message says so."""


@transaction.atomic
def ask(attempt_id: UUID, *, by: User | None = None) -> Collection:
    """Collect an attempt's evidence because someone asks. Raises Attempt.DoesNotExist, NotConfigured."""
    attempt = Attempt.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=attempt_id)
    cluster = current_clusters().named(attempt.cluster.name)
    if attempt.lines_expired_at is not None:
        raise NotConfigured("what was collected of it has expired: none is added to it")
    if cluster is None or not cluster.source:
        raise NotConfigured(f"no sources are configured for the cluster {attempt.cluster.name!r}")
    collection = begin(attempt, cluster, CollectionReason.ASKED, by=by)
    if collection is None:
        raise NotConfigured(f"none of the sources of {attempt.cluster.name!r} is for a job of {attempt.scheduler}")
    return collection


def ended(attempt: Attempt, cluster: ClusterSettings) -> None:
    """Have an attempt that is over looked at, once. The caller holds the attempt's lock.

    That somebody asked while it ran is not that look, nor is one from before the end that is known now.
    """
    if attempt.lines_expired_at is not None:
        return
    rounds = list(attempt.collections.all())
    looks = [one.created_at for one in rounds if one.reason == CollectionReason.ENDED]
    if any(attempt.ended_at is None or at >= min(attempt.ended_at, timezone.now()) for at in looks):
        return
    if not cluster.successes and _succeeded(attempt):
        told = set(attempt.reports.values_list("collector", flat=True))
        for source in cluster.source:
            if source.name not in told and applies(source, attempt.scheduler):
                store_collected(attempt, [], _not_asked(source, "not asked: the attempt succeeded"))
        if not attempt.requests.exists():
            ask_attribution(attempt, Mode.SLOW)
        return
    settled = timedelta(seconds=cluster.settle) - since_end(attempt)
    begin(attempt, cluster, CollectionReason.ENDED, delay=max(settled, timedelta()), rounds=rounds)


def work() -> int:
    """Work off sources, each in its turn, until none is left or it is time to let the worker look for other tasks."""
    end, done, turns = time.monotonic() + limits.WORK_SECONDS, 0, Turns(CollectionTask)
    while time.monotonic() < end and (lease := turns.take()) is not None:
        done += 1
        try:
            _collect(lease)
        except LeaseLost:
            log.warning("collection task %s was closed or taken over meanwhile; nothing was written", lease.row.pk)
        except (OperationalError, InterfaceError):
            # The database is away: the lease runs out and the sweep offers the row again.
            raise
        except Exception as error:
            log.exception("collection task %s failed", lease.row.pk)
            lease.give_back(error)
    if time.monotonic() >= end:
        go_on(CollectionTask)
    return done


def sweep() -> int:
    """Wake workers for sources that nobody took, give first verdicts, and end the rounds whose time is up."""
    sent = wake_again(CollectionTask)
    give_up(CollectionTask)
    going_on = Collection.objects.filter(finished_at__isnull=True)
    unfinished = CollectionTask.objects.open().filter(collection=OuterRef("pk"))
    _for_each(going_on.filter(Q(deadline__lte=Now()) | ~Exists(unfinished)).values_list("pk", flat=True), _close)
    first = going_on.filter(fast_at__lte=Now(), fast_asked_at__isnull=True)
    _for_each(first.values_list("pk", flat=True), _first_verdict)
    return sent


def _for_each(rounds: Iterable[UUID], do: Callable[[UUID], None]) -> None:
    """Do the same for each round: one that cannot be served does not keep the others waiting."""
    for pk in rounds:
        try:
            do(pk)
        except (OperationalError, InterfaceError):
            raise
        except Attempt.DoesNotExist:
            log.info("round %s is gone with its attempt", pk)
        except Exception:
            log.exception("round %s was left as it is", pk)


def _succeeded(attempt: Attempt) -> bool:
    return scheduler_state(attempt.state) is State.SUCCEEDED


def _collect(lease: Lease[CollectionTask]) -> None:
    """Ask one source, and store what came. Raises LeaseLost."""
    task = lease.row
    collection = Collection.objects.select_related("attempt__cluster").get(pk=task.collection_id)
    attempt = collection.attempt
    cluster = current_clusters().named(attempt.cluster.name)
    source = cluster.named(task.name) if cluster else None
    if cluster is None or source is None:
        report = CollectorReport(
            source=Source(task.source),
            status=ReportStatus.NOT_CONFIGURED,
            reason="it is no longer in the clusters file",
            collector=task.name,
        )
        _store(lease, collection, [], report, again=False)
        return
    deadline = _start(collection, cluster)
    left = (deadline - timezone.now()).total_seconds()
    if (why := sources.left_alone(cluster.name, source)) or left <= 0:
        _store(lease, collection, [], _not_asked(source, why or "not asked: the round's time was up"), again=True)
        return
    sink = Sink(source.name, source.source, current_ruleset(), current_redactor())
    budget = Budget.of(seconds=min(source.seconds, max(round(left * SHARE, 1), 0.1)), megabytes=source.megabytes)
    error: SourceError | None = None
    with Kept(lease, lambda: {"read": sink.lines, "bytes": budget.taken}):
        try:
            source.collect(_asked(attempt, cluster, source, budget), sink)
        except SourceError as said:
            error = said
        except (OperationalError, InterfaceError):
            raise
        except Exception as fault:
            log.exception("collector %s of %s failed", source.name, cluster.name)
            error = SourceError(f"the collector failed, which is a fault of Inquest: {type(fault).__name__}: {fault}")
        observations, report = sink.close(error, empty=f"asked for {_nodes(_asked_nodes(attempt))}; nothing came")
    unreachable = isinstance(error, Unreachable)
    sources.noted(cluster.name, source, report, unreachable=unreachable)
    report = sources.judged(cluster.name, source, report)
    early = attempt.ended_at is not None and since_end(attempt) < timedelta(seconds=source.lag)
    _store(lease, collection, observations, report, again=unreachable or early)


def _start(collection: Collection, cluster: ClusterSettings) -> datetime:
    """Start the round's clock with the first source that is asked; says when the round ends."""
    if collection.deadline is not None:
        return collection.deadline
    now = timezone.now()
    deadline = now + timedelta(seconds=cluster.deadline)
    not_begun = Collection.objects.filter(pk=collection.pk, started_at__isnull=True)
    if not_begun.update(started_at=now, fast_at=now + timedelta(seconds=cluster.fast_after), deadline=deadline):
        return deadline
    begun = Collection.objects.values_list("deadline", flat=True).get(pk=collection.pk)
    assert begun is not None
    return begun


def _asked(attempt: Attempt, cluster: ClusterSettings, source: SourceSettings, budget: Budget) -> Ask:
    begin_at, end = window(attempt, source, timezone.now())
    given = given_attempt(attempt)
    return Ask(
        cluster=cluster.name,
        attempt=given,
        begin=begin_at,
        end=end,
        nodes=tuple(given.nodes),
        budget=budget,
        ruleset=current_ruleset(),
    )


def _asked_nodes(attempt: Attempt) -> list[str]:
    nodes: list[str] = attempt.body.get("nodes", [])
    return nodes


def _nodes(names: list[str]) -> str:
    return f"{len(names)} node{'' if len(names) == 1 else 's'}"


def _not_asked(source: SourceSettings, why: str) -> CollectorReport:
    return CollectorReport(source=source.source, status=ReportStatus.ERROR, reason=why, collector=source.name)


@transaction.atomic
def _store(
    lease: Lease[CollectionTask],
    collection: Collection,
    observations: Sequence[Observation],
    report: CollectorReport,
    *,
    again: bool,
) -> None:
    """Store what one source gave, end its row, and the round if it was the last. Raises LeaseLost."""
    attempt = _locked_attempt(collection.pk)
    attempt.cluster = collection.attempt.cluster  # it never has another one
    cluster = current_clusters().named(attempt.cluster.name)
    configured = [source.name for source in cluster.source] if cluster else []
    store_collected(attempt, observations, report, configured=configured)
    lease.release(
        RequestState.DONE,
        status=report.status.value,
        reason=report.reason,
        read=report.read,
        kept=report.kept,
        bytes=report.bytes,
        seconds=report.seconds,
        error="",
        **({"again": True} if again else {}),
    )
    tasks = _tasks(collection.pk)
    if not any(task.state in OPEN_STATES for task in tasks):
        _end(attempt, collection.pk, tasks)


class _Task(NamedTuple):
    """How a source of a round is."""

    name: str
    state: str
    status: str
    again: bool


def _tasks(collection_id: UUID) -> list[_Task]:
    rows = CollectionTask.objects.filter(collection=collection_id).order_by()
    return [_Task(*row) for row in rows.values_list("name", "state", "status", "again")]


def _locked_attempt(collection_id: UUID) -> Attempt:
    """The attempt of a round, locked until the transaction ends. Raises Attempt.DoesNotExist."""
    found = Attempt.objects.raw(
        """
        SELECT * FROM verdicts_attempt
        WHERE id = (SELECT attempt_id FROM verdicts_collection WHERE id = %s) FOR UPDATE
        """,
        [collection_id],
    )
    attempt = next(iter(found), None)
    if attempt is None:
        raise Attempt.DoesNotExist
    return attempt


def _end(attempt: Attempt, collection_id: UUID, tasks: Sequence[_Task]) -> None:
    """End a round: ask for the verdict, and for another round where something was late or could not be had."""
    finished = Collection.objects.raw(
        """
        UPDATE verdicts_collection SET finished_at = statement_timestamp()
        WHERE id = %s AND finished_at IS NULL RETURNING *
        """,
        [collection_id],
    )
    collection = next(iter(finished), None)
    if collection is None:
        return
    names = {task.name for task in tasks if task.again}
    if any(task.state in OPEN_STATES or (task.state == RequestState.FAILED and not task.status) for task in tasks):
        names |= _tell_unanswered(attempt, collection)
    # A first verdict that nobody has begun is not needed any more.
    if collection.fast_asked_at is not None:
        AttributionRequest.objects.filter(
            attempt=attempt, mode=Mode.FAST.value, state=RequestState.PENDING.value, requested_by=None
        ).delete()
    ask_attribution(attempt, Mode.SLOW)
    cluster = current_clusters().named(attempt.cluster.name)
    if names and cluster is not None and (delay := pause(attempt, cluster, collection_id, names)) is not None:
        begin(attempt, cluster, CollectionReason.AGAIN, only=names, delay=delay)


@transaction.atomic
def _first_verdict(collection_id: UUID) -> None:
    """Ask for a verdict from what came so far, once."""
    attempt = _locked_attempt(collection_id)
    asked = Collection.objects.filter(pk=collection_id, finished_at__isnull=True, fast_asked_at__isnull=True)
    if asked.update(fast_asked_at=Now()):
        ask_attribution(attempt, Mode.FAST)


@transaction.atomic
def _close(collection_id: UUID) -> None:
    """End a round whose time is up."""
    _end(_locked_attempt(collection_id), collection_id, _tasks(collection_id))


def _tell_unanswered(attempt: Attempt, collection: Collection) -> set[str]:
    """Say in the report of each source that it did not answer: by the end of the round, or before it was given up.

    The names of those sources are the answer.
    """
    told = set()
    unanswered = collection.tasks.filter(
        Q(state__in=[RequestState.PENDING.value, RequestState.RUNNING.value])
        | Q(state=RequestState.FAILED.value, status="")
    ).select_for_update()
    allowed = (collection.deadline - collection.started_at).total_seconds() if collection.started_at else 0  # type: ignore[operator]
    for task in unanswered:
        if task.state == RequestState.PENDING.value and not task.tries:
            why = "not asked: every collector was busy until the round's time was up"
        elif task.error:
            why = task.error
        else:
            why = f"no answer within the {allowed:g} s that one round may take"
        report = CollectorReport(
            source=Source(task.source), status=ReportStatus.ERROR, reason=why, collector=task.name, read=task.read
        )
        store_collected(attempt, [], report)
        CollectionTask.objects.filter(pk=task.pk).update(
            state=RequestState.FAILED.value,
            status=ReportStatus.ERROR.value,
            reason=why,
            again=True,
            lease_owner="",
            lease_until=None,
            fence=F("fence") + 1,
            finished_at=Now(),
        )
        told.add(task.name)
    return told
