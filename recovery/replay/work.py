"""What workers do for replays: take some attempts, conclude for each, write each at once.

A worker that ends in between leaves its chunk to the next one, which goes on with the attempt that was begun; where
that ends a worker three times, it is left as failed and the others go on.
"""

import logging
import time
from collections.abc import Iterator
from functools import lru_cache
from uuid import UUID

from django.db import DatabaseError, InterfaceError
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from recovery.models import Replay, ReplayChunk, ReplayItem
from recovery.replay import begin, gate, waking
from recovery.replay.conclude import Answer, Question, answer, question_of
from recovery.replay.rulesets import NoRuleset
from recovery.replay.words import ItemOutcome, ReplayState
from verdicts import conclude, limits
from verdicts.choices import RequestState
from verdicts.lease import Kept, Lease, LeaseLost, Turns
from verdicts.models import AttributionRequest
from verdicts.redaction import clean_text
from verdicts.storable import storable, storable_text

log = logging.getLogger(__name__)

#: How long one task works before the next one of the queue has its turn, in seconds.
TURN = 1.0
#: A worker's end while it concluded for an attempt may have been chance, so often.
TRIES = 3


def work(sent: float) -> int:
    """Work for a turn. `sent` is when the message was: see `waking`. Says how many attempts were done."""
    crowded = waking.now() - sent > waking.CROWDED
    done = run(TURN)
    # Where the queue is crowded fewer go on, but never nobody: that would be to wait for the sweep.
    if ReplayChunk.objects.takeable(Now()).exists() and not (crowded and waking.at_work()):
        waking.wake()
    return done


def run(seconds: float, *, alone: bool = False) -> int:
    """Take chunks until none is left or the time is up; unless `alone`, attributions that are owed come first."""
    end, done, turns = time.monotonic() + seconds, 0, Turns(ReplayChunk)
    while time.monotonic() < end:
        if not alone and _others_wait():
            conclude.work()
        if (lease := turns.take()) is None:
            break
        try:
            done += _chunk(lease, end, alone=alone)
        except LeaseLost:
            log.info("a chunk of replay %s was taken over or cancelled while it was worked on", lease.row.replay_id)
    return done


def sweep() -> int:
    """Wake workers for what nobody took, and end replays of which nothing is left."""
    ended = sum(ended_now(pk) for pk in _ended())
    return waking.sweep() + ended


def ended_now(replay_id: UUID) -> bool:
    """End a replay if nothing is left of it; then the policies that waited for it are looked at."""
    if not begin.finish(replay_id):
        return False
    gate.look(replay_id)
    return True


def _ended() -> list[UUID]:
    owed = ReplayChunk.objects.open().filter(replay=OuterRef("pk"))
    # One that every worker died of may be left in the queue without anybody who may take it.
    spent = ReplayChunk.objects.takeable(Now()).filter(tries__gte=limits.MAX_TRIES)
    spent.update(state=RequestState.FAILED.value, lease_owner="", lease_until=None, finished_at=Now())
    running = Replay.objects.filter(~Exists(owed), state=ReplayState.RUNNING.value)
    return list(running.values_list("pk", flat=True))


def _others_wait() -> bool:
    return AttributionRequest.objects.takeable(Now()).exists()


@lru_cache(maxsize=16)
def _question(replay_id: UUID) -> Question:
    """What a replay asks never changes."""
    return question_of(Replay.objects.get(pk=replay_id))


def _chunk(lease: Lease[ReplayChunk], end: float, *, alone: bool) -> int:
    """Work off a chunk, or as much of it as there is time for. Raises LeaseLost."""
    chunk, done = lease.row, 0
    with Kept(lease):
        for item in _waiting(chunk):
            if done and (time.monotonic() >= end or (not alone and _others_wait())):
                lease.release(RequestState.PENDING, tries=0)
                return done
            _one(lease, item)
            done += 1
    lease.release(RequestState.DONE)
    if not ReplayChunk.objects.open().filter(replay=chunk.replay_id).exists():
        ended_now(chunk.replay_id)
    return done


def _waiting(chunk: ReplayChunk) -> Iterator[ReplayItem]:
    rows = ReplayItem.objects.filter(
        replay=chunk.replay_id, number__range=(chunk.first, chunk.last), outcome=ItemOutcome.WAITING.value
    )
    yield from list(rows.only("id", "number", "attempt_id", "verdict_id", "replay_id").order_by("number"))


def _one(lease: Lease[ReplayChunk], item: ReplayItem) -> None:
    """Conclude for one attempt and write it. Raises LeaseLost."""
    chunk = lease.row
    if chunk.at == item.number and chunk.tries >= TRIES:
        said = f"each of {chunk.tries - 1} workers that concluded for it ended before it was done"
        _write(lease, item, Answer(outcome=ItemOutcome.FAILED, why=said))
        return
    if chunk.at != item.number:
        # So many tries are counted for the attempt that was begun last.
        if not lease.renew(at=item.number, tries=1):
            raise LeaseLost(str(chunk.pk))
        chunk.at, chunk.tries = item.number, 1
    try:
        found = answer(_question(item.replay_id), item)
    except (DatabaseError, InterfaceError):
        # The database is away: the lease runs out, and another worker goes on with this attempt.
        raise
    except NoRuleset as error:
        found = Answer(outcome=ItemOutcome.FAILED, why=str(error))
    except Exception as error:
        log.exception("replay %s failed at attempt %s", item.replay_id, item.attempt_id)
        found = Answer(outcome=ItemOutcome.FAILED, why=clean_text(f"{type(error).__name__}: {error}")[:2000])
    _write(lease, item, found)


def _write(lease: Lease[ReplayChunk], item: ReplayItem, found: Answer) -> None:
    """Write what came of an attempt, in one statement that does nothing where the lease is lost. Raises LeaseLost."""
    mine = ReplayChunk.objects.filter(pk=lease.row.pk, state=RequestState.RUNNING.value, fence=lease.row.fence)
    columns = {name: storable(value) for name, value in found.columns.items()}
    written = ReplayItem.objects.filter(Exists(mine), pk=item.pk, outcome=ItemOutcome.WAITING.value).update(
        outcome=found.outcome.value, again=found.again.value, why=storable_text(found.why), done_at=Now(), **columns
    )
    if not written:
        raise LeaseLost(str(lease.row.pk))
