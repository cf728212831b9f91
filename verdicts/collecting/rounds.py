"""The writers of rounds: which sources are asked for an attempt, when, and for what time.

What happens in a round is in `gather.py`.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import msgspec
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from rules.words import ReportStatus, Source
from verdicts import limits
from verdicts.choices import CollectionReason, Mode, RequestState, Scheduler
from verdicts.collectors.config import ClusterSettings
from verdicts.collectors.source import SourceSettings
from verdicts.conclude import ask as ask_attribution
from verdicts.models import Attempt, Collection, CollectionTask
from verdicts.waking import wake, worthwhile

#: How long after a round what could not be had is asked for once more.
AGAIN_AFTER = (timedelta(minutes=1), timedelta(minutes=10), timedelta(hours=1))
#: An attempt without a start or an end is looked for so long before its end or after its start.
UNKNOWN_LENGTH = timedelta(hours=24)
#: What happened after an attempt's end is still about it for so long.
TRAIL = timedelta(minutes=2)
#: Times that no cluster's log has; a scheduler that says such a one means something else by it.
EARLIEST, AHEAD = datetime(1990, 1, 1, tzinfo=UTC), timedelta(days=1)
#: Sources that only one kind of scheduler has.
ONLY = {Source.SCHEDULER: Scheduler.SLURM, Source.KUBERNETES: Scheduler.KUBERNETES}


def begin(
    attempt: Attempt,
    cluster: ClusterSettings,
    reason: CollectionReason,
    *,
    by: User | None = None,
    only: Iterable[str] | None = None,
    delay: timedelta = timedelta(),
    rounds: Sequence[Collection] | None = None,
) -> Collection | None:
    """Have an attempt's evidence collected; the open round is the answer if there is one.

    The caller holds the attempt's lock. `only` names the sources to ask. Where there is none to ask, the verdict is
    asked for at once and the answer is None. Neither who asks nor an end waits for a round that is hours ahead.
    `rounds` are the attempt's rounds so far, where the caller knows them.
    """
    rounds = list(attempt.collections.all()) if rounds is None else rounds
    chosen = [
        source
        for source in cluster.source
        if (only is None or source.name in only) and applies(source, attempt.scheduler)
    ]
    due = timezone.now() + delay
    standing = next((one for one in rounds if one.finished_at is None), None)
    if standing is not None:
        _hurry(standing, chosen, reason, due, by=by, send=not delay)
        return standing
    if not chosen:
        ask_attribution(attempt, Mode.SLOW, by=by)
        return None
    last = max((one.round for one in rounds), default=0)
    fresh = Collection(attempt=attempt, round=last + 1, reason=reason.value, requested_by=by, due_at=due)
    return _made(fresh, chosen, send=not delay and (by is not None or worthwhile(CollectionTask)))


def _made(fresh: Collection, chosen: Sequence[SourceSettings], *, send: bool) -> Collection:
    """A new round with its sources, in one statement, for every attempt passes here.

    An attempt lets others go first: a little for each that its workload has in the queue already.
    """
    ids = [uuid4() for _ in chosen]
    tasks = [
        {"id": pk, "name": one.name, "kind": one.kind, "source": one.source.value}
        for pk, one in zip(ids, chosen, strict=True)
    ]
    made = Collection.objects.raw(
        """
        WITH crowd AS (
            SELECT count(*) AS size FROM (
                SELECT FROM verdicts_collection AS collection
                JOIN verdicts_attempt AS attempt ON attempt.id = collection.attempt_id
                WHERE attempt.workload_id = %(workload)s AND collection.finished_at IS NULL
                LIMIT %(most)s) AS open_ones
        ), tasks AS (
            INSERT INTO verdicts_collectiontask (id, collection_id, cluster_id, name, kind, source, state, due_at,
                turn_at, sent_at, lease_owner, fence, tries, error, status, reason, read, kept, bytes, again)
            SELECT task.id, %(id)s, %(cluster)s, task.name, task.kind, task.source, 'pending', %(due)s,
                %(due)s + %(step)s * crowd.size, CASE WHEN %(send)s THEN %(due)s END, '', 0, 0, '', '', '', 0, 0, 0,
                false
            FROM crowd, json_to_recordset(%(tasks)s) AS task (id uuid, name text, kind text, source text)
        )
        INSERT INTO verdicts_collection (id, attempt_id, round, reason, requested_by_id, due_at)
        VALUES (%(id)s, %(attempt)s, %(round)s, %(reason)s, %(by)s, %(due)s)
        RETURNING *
        """,
        {
            "id": fresh.pk,
            "attempt": fresh.attempt_id,
            "cluster": fresh.attempt.cluster_id,
            "round": fresh.round,
            "reason": fresh.reason,
            "by": fresh.requested_by_id,
            "due": fresh.due_at,
            "send": send,
            "tasks": msgspec.json.encode(tasks).decode(),
            # Nobody goes before a person who asks.
            "workload": None if fresh.requested_by_id else fresh.attempt.workload_id,
            "step": limits.CROWD_STEP,
            "most": limits.MAX_CROWD,
        },
    )
    (collection,) = made
    if send:
        transaction.on_commit(lambda: wake(ids, CollectionTask))
    return collection


def _add(collection: Collection, chosen: Sequence[SourceSettings], due: datetime, *, send: bool) -> None:
    """Add sources to an open round; where they are due at once, workers are woken."""
    tasks = CollectionTask.objects.bulk_create(
        CollectionTask(
            collection=collection,
            cluster_id=collection.attempt.cluster_id,
            name=source.name,
            kind=source.kind,
            source=source.source.value,
            due_at=due,
            turn_at=due,
            sent_at=due if send else None,
        )
        for source in chosen
    )
    if send and tasks:
        transaction.on_commit(lambda: wake([task.pk for task in tasks], CollectionTask))


def _hurry(
    standing: Collection,
    chosen: Sequence[SourceSettings],
    reason: CollectionReason,
    due: datetime,
    *,
    by: User | None,
    send: bool,
) -> None:
    """Have an open round begin by then, with the sources that it lacks.

    What was asked for before the attempt's end was known is asked for once more.
    """
    there = set(standing.tasks.values_list("name", flat=True))
    _add(standing, [source for source in chosen if source.name not in there], due, send=send)
    waiting = standing.tasks.filter(state=RequestState.PENDING.value, due_at__gt=due)
    ids = list(waiting.values_list("pk", flat=True))
    waiting.update(due_at=due, turn_at=due, sent_at=due if send else None)
    if send and ids:
        transaction.on_commit(lambda: wake(ids, CollectionTask))
    if reason is CollectionReason.ENDED:
        standing.tasks.exclude(state=RequestState.PENDING.value, tries=0).update(again=True)
    if reason is CollectionReason.ENDED or (standing.due_at > due and standing.reason == CollectionReason.AGAIN):
        standing.reason, standing.requested_by = reason.value, by or standing.requested_by
    standing.due_at = min(standing.due_at, due)
    standing.save(update_fields=["due_at", "reason", "requested_by"])


def window(attempt: Attempt, source: SourceSettings, now: datetime) -> tuple[datetime, datetime]:
    """From when to when an attempt's evidence is asked for, in UTC.

    What a requeued job printed before its start it printed in the attempt before.
    """
    lead = 0.0 if attempt.restart_count and source.source is Source.APPLOG else source.lead
    end = min(max(attempt.ended_at or now, EARLIEST + UNKNOWN_LENGTH), now + AHEAD)
    start = attempt.started_at or attempt.submit_time or end - UNKNOWN_LENGTH
    begin_at = max(min(start, end), EARLIEST) - timedelta(seconds=lead)
    return begin_at.astimezone(UTC), min(end + TRAIL, max(now, end)).astimezone(UTC)


def since_end(attempt: Attempt) -> timedelta:
    """How long ago an attempt ended; no time where that is not known, or where its clock is ahead of ours."""
    return max(timezone.now() - attempt.ended_at, timedelta()) if attempt.ended_at else timedelta()


def applies(source: SourceSettings, scheduler: str) -> bool:
    """Whether a source can have anything about a job of that scheduler."""
    owner = ONLY.get(source.source)
    return owner is None or not scheduler or scheduler in (owner, Scheduler.STATIC)


def pause(attempt: Attempt, cluster: ClusterSettings, collection_id: UUID, names: set[str]) -> timedelta | None:
    """How long until sources are asked once more; None where that was done often enough since somebody asked."""
    asked = attempt.collections.exclude(reason=CollectionReason.AGAIN.value).aggregate(last=Max("round"))["last"] or 0
    tries = attempt.collections.filter(round__gt=asked).count()
    if tries >= len(AGAIN_AFTER):
        return None
    failed = set(
        CollectionTask.objects.filter(
            collection=collection_id, again=True, status=ReportStatus.ERROR.value
        ).values_list("name", flat=True)
    )
    ago = since_end(attempt)
    pauses = [timedelta(seconds=one.lag) - ago for one in cluster.source if one.name in names - failed]
    if failed:
        pauses.append(AGAIN_AFTER[tries])
    # The soonest first: who is still too early then is asked once more; the last time everything must be there.
    last_time = tries == len(AGAIN_AFTER) - 1
    return max((max if last_time else min)(pauses, default=timedelta()), timedelta(seconds=1))
