"""The expiry job: takes out what is due, an attempt at a time, each in a transaction of its own with its tombstone.

Whoever is killed in between leaves whole attempts: gone with a tombstone, or there. Nothing is done twice.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import LedgerEntry
from recovery.record import batch
from recovery.retention import due, words
from recovery.retention.erase import Gone, erase
from recovery.retention.lock import for_expiry
from recovery.words import EntryKind
from verdicts.keeping import OF_ATTEMPTS, Kept
from verdicts.models import Attempt, DriftCheck, Tombstone

log = structlog.get_logger("inquest.retention")

#: Attempts looked for at once.
AT_ONCE = 200
#: A run ends after so long; what is left is for the next.
WORK_SECONDS = 240.0
ACTOR = Actor.system("retention")


@dataclass
class Done:
    """What a run took out: attempts, and rows and bytes by class. `more` says that its time was over."""

    attempts: int = 0
    gone: dict[str, Gone] = field(default_factory=dict)
    more: bool = False

    def add(self, told: dict[Kept, Gone]) -> None:
        """Count one attempt's."""
        self.attempts += bool(told)
        for kept, gone in told.items():
            if not gone.rows:
                continue
            self.gone[kept.value] = self.gone.get(kept.value, Gone(0, 0)) + gone


def run(*, now: datetime | None = None, seconds: float = WORK_SECONDS) -> Done:
    """Take out what is due, for `seconds` at most."""
    now, end, done = now or timezone.now(), time.monotonic() + seconds, Done()
    for step, pk in _work(now):
        if time.monotonic() >= end:
            done.more = True
            break
        done.add(step(pk, now))
    if not done.more:
        words.without_attempt(now)
        _drift_checks(now)
    if done.gone:
        told = {kept: gone._asdict() for kept, gone in done.gone.items()}
        log.info("retention.expired", attempts=done.attempts, classes=told, more=done.more)
    return done


Step = Callable[[UUID, datetime], dict[Kept, Gone]]


def _work(now: datetime) -> Iterator[tuple[Step, UUID]]:
    """The attempts of which something is due and nothing stands in the way, the oldest first."""
    for kept in OF_ATTEMPTS:
        for rows in (due.due(kept, now), due.due_imported(kept, now)):
            yield from ((expire, pk) for pk in _by_key(rows))
    yield from ((_words, pk) for pk in words.attempts_due(now))


def _by_key(rows: QuerySet[Any]) -> Iterator[UUID]:
    free = rows.filter(~due.is_held(), ~Q(due.is_busy())).order_by("since", "pk")
    last: tuple[datetime, UUID] | None = None
    while True:
        after = Q(since__gte=last[0]) & (Q(since__gt=last[0]) | Q(pk__gt=last[1])) if last else Q()
        found = list(free.filter(after).values_list("pk", "since")[:AT_ONCE])
        yield from (pk for pk, _ in found)
        if len(found) < AT_ONCE:
            return
        last = (found[-1][1], found[-1][0])


def _taken(attempt_id: UUID) -> Attempt | None:
    """The attempt, locked, if nothing stands in the way of expiry now and until the transaction ends."""
    for_expiry()
    rows = Attempt.objects.select_for_update(of=("self",), skip_locked=True).filter(pk=attempt_id)
    attempt = rows.only(*_NEEDED).first()
    if attempt is None or due.holds_over(attempt).exists():
        return None
    # Asked anew: it may have become so since the attempt was looked for.
    return None if Attempt.objects.filter(due.is_busy(), pk=attempt_id).exists() else attempt


_NEEDED = (
    *("id", "cluster", "workload", "ended_at", "created_at", "started_at", "submit_time"),
    *(f"{kept.value}_expired_at" for kept in Kept),
)


def expire(attempt_id: UUID, now: datetime) -> dict[Kept, Gone]:
    """Take out of an attempt what is due of it; what went, by class. Nothing where something stands in the way."""
    with transaction.atomic():
        attempt = _taken(attempt_id)
        if attempt is None:
            return {}
        terms = [
            term
            for term in due.terms_of(attempt)
            if term.at < now and getattr(attempt, f"{term.kept.value}_expired_at") is None
        ]
        # The tombstones first: the database lets nothing of a verdict go without one.
        stones = {
            term.kept: Tombstone(attempt=attempt, kept=term.kept.value, at=now, rows=0, bytes=0, rule=term.rule)
            for term in terms
        }
        Tombstone.objects.bulk_create(stones.values())
        gone = {kept: erase(kept, attempt.pk) for kept in stones}
        _leave(attempt, stones, gone, now)
        return gone


def _words(attempt_id: UUID, now: datetime) -> dict[Kept, Gone]:
    """Take out of an attempt what people wrote so long ago that it is due."""
    with transaction.atomic():
        attempt = _taken(attempt_id)
        if attempt is None:
            return {}
        gone = words.erase(attempt_id, now)
        if not gone.rows:
            return {}
        rule = f"{due.days_of(Kept.WORDS)} days after each was written"
        stone = Tombstone.objects.create(
            attempt=attempt, kept=Kept.WORDS.value, at=now, rows=gone.rows, bytes=gone.bytes, rule=rule
        )
        _leave(attempt, {Kept.WORDS: stone}, {Kept.WORDS: gone}, now)
        return {Kept.WORDS: gone}


def _leave(attempt: Attempt, stones: dict[Kept, Tombstone], gone: dict[Kept, Gone], now: datetime) -> None:
    """Leave tombstones for what went, here and in the ledger; what was not there is not looked for again."""
    if not gone:
        return
    Attempt.objects.filter(pk=attempt.pk).update(**{f"{kept.value}_expired_at": now for kept in gone})
    for kept, stone in stones.items():
        if not gone[kept].rows:
            stone.delete()
        else:
            Tombstone.objects.filter(pk=stone.pk).update(rows=gone[kept].rows, bytes=gone[kept].bytes)
    told = {kept: one for kept, one in gone.items() if one.rows}
    if told:
        _entry(attempt, told, stones)
        # Records that wait to be fetched have what is gone here.
        batch.forget([attempt.pk], "what it contained expired")


def _entry(attempt: Attempt, gone: dict[Kept, Gone], stones: dict[Kept, Tombstone]) -> LedgerEntry:
    return ledger.record(
        EntryKind.RETENTION,
        actor=ACTOR,
        subject=attempt,
        attempt=attempt.pk,
        body={
            "expired": [kept.value for kept in gone],
            "rows": sum(one.rows for one in gone.values()),
            "bytes": sum(one.bytes for one in gone.values()),
            "by_class": {kept.value: {**one._asdict(), "rule": stones[kept].rule} for kept, one in gone.items()},
        },
    )


def _drift_checks(now: datetime) -> None:
    """Old looks for drift quote templates of error lines: they go when what they looked at has."""
    if (before := due.cutoff(Kept.QUOTES, now)) is not None:
        DriftCheck.objects.filter(checked_at__lt=before).delete()
