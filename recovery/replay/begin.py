"""The writers of replays: begun, cancelled, resumed, ended. What a worker does is in `work.py`.

The rows are the queue: a replay's attempts are rows of their own, some of them in a row are a chunk, and a chunk is
held under a lease. A replay that is cancelled has no chunks; to resume it makes them anew of what is still waiting.
"""

import logging
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Count, Max, Min, QuerySet
from django.db.models.functions import Now
from django.http import QueryDict

from recovery import permissions
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import CandidateRuleset, Replay, ReplayChunk
from recovery.replay import waking
from recovery.replay.ablate import Ablation, checked
from recovery.replay.words import ItemOutcome, ReplayKind, ReplayState
from recovery.words import EntryKind
from rules.attempt import InputError
from verdicts.choices import OPEN_STATES
from verdicts.listing.read import asked, problems
from verdicts.models import ListRow
from verdicts.record import NotPermitted
from verdicts.redaction import clean_text
from verdicts.storable import storable_text

log = logging.getLogger(__name__)

#: Attempts that a worker takes at once: few, so that none waits at the end while another has many left.
CHUNK = 20
#: Attempts of one replay.
MOST = 200_000
#: Replays of one person that are not done.
MOST_OPEN = 5
LONGEST_REASON = 2000
#: What narrows no list, or makes it another one than that of standing verdicts.
_NOT_HERE = ("superseded", "order", "cursor", "limit", "format")


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked, and of which attempts: `query` is what the address of the list of verdicts says."""

    ruleset: CandidateRuleset | None = None
    ablation: Ablation | None = None
    query: str = ""
    reason: str = ""

    @property
    def kind(self) -> ReplayKind:
        """What kind of replay it is."""
        if self.ablation is not None:
            return ReplayKind.ABLATION
        return ReplayKind.OWN if self.ruleset is None else ReplayKind.RULES


class NotNow(ValueError):
    """The replay is in no state for that; the message says in which."""


@transaction.atomic
def begin_as(wish: Wish, *, by: User) -> Replay:
    """Begin a replay for a person. Raises NotPermitted and InputError, and NotNow where many of theirs are open."""
    _may_start(by)
    actor = Actor.user(by)
    # One after the other, or each of many at once finds the others not yet begun.
    User.objects.select_for_update(of=("self",), no_key=True).only("pk").get(pk=by.pk)
    if Replay.objects.filter(actor=actor.name, state=ReplayState.RUNNING.value).count() >= MOST_OPEN:
        raise NotNow(f"{MOST_OPEN} replays of yours are not done: wait for one, or stop one")
    return begin(wish, actor)


@transaction.atomic
def begin(wish: Wish, actor: Actor) -> Replay:
    """Begin a replay and wake workers for it. Raises InputError that names what is wrong."""
    if wish.ablation is not None and wish.ruleset is not None:
        raise InputError("ablation: evidence is changed under the rules that were used, not under others")
    found = attempts_of(wish.query)
    reason = storable_text(wish.reason).strip()[:LONGEST_REASON]
    replay = Replay.objects.create(
        kind=wish.kind.value,
        ruleset=wish.ruleset,
        ablation=_kept(wish.ablation) if wish.ablation is not None else {},
        query=storable_text(wish.query),
        actor=actor.name,
        reason=reason,
    )
    replay.total = _add_items(replay, found)
    if not replay.total:
        raise InputError("query: no attempt matches it")
    if replay.total > MOST:
        raise InputError(f"query: {replay.total:,} attempts match it; a replay has at most {MOST:,}: narrow it")
    replay.save(update_fields=["total"])
    _make_chunks(replay)
    _tell(replay, actor, EntryKind.REPLAY_BEGUN, {"query": replay.query, "attempts": replay.total}, reason)
    replay.refresh_from_db()
    return replay


def _kept(ablation: Ablation) -> dict[str, Any]:
    """What is asked, as it is stored: a line that is put in is evidence, and secrets are taken out of that."""
    line = clean_text(storable_text(ablation.line))
    kept: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(checked(ablation), line=line))
    return kept


def attempts_of(query: str) -> list[QuerySet[ListRow]]:
    """The rows of the list of verdicts that an address names, in parts that share none. Raises InputError."""
    data = QueryDict(query)
    for name in _NOT_HERE:
        if name in data:
            raise InputError(f"query: {name} is no filter of a replay, which looks at standing verdicts")
    filters = asked(data)
    if wrong := problems(filters, also=()):
        raise InputError("query: " + " ".join(f"{name}: {said}" for name, said in sorted(wrong.items())))
    # The list of one attempt has its older verdicts too.
    return [part.filter(is_current=True) for part in filters.found().parts]


@transaction.atomic
def cancel(replay_id: UUID, *, by: User) -> Replay:
    """Stop a replay; what is done is kept. Raises NotPermitted, NotNow and Replay.DoesNotExist."""
    _may_start(by)
    return stop(replay_id, Actor.user(by))


@transaction.atomic
def stop(replay_id: UUID, actor: Actor) -> Replay:
    """The same for who need not ask. A worker that has a chunk finds its lease lost and writes nothing more."""
    replay = _held(replay_id)
    if replay.state != ReplayState.RUNNING:
        raise NotNow(f"It is {replay.state} already.")
    replay.chunks.all().delete()
    _end(replay, ReplayState.CANCELLED, actor)
    return replay


@transaction.atomic
def resume(replay_id: UUID, *, by: User) -> Replay:
    """Go on with a replay that was cancelled. Raises NotPermitted, NotNow and Replay.DoesNotExist."""
    _may_start(by)
    return go_on(replay_id, Actor.user(by))


@transaction.atomic
def go_on(replay_id: UUID, actor: Actor) -> Replay:
    """The same for who need not ask; one that runs is left alone and its workers are woken."""
    replay = _held(replay_id)
    if replay.state == ReplayState.RUNNING:
        transaction.on_commit(waking.wake_all)
        return replay
    if not replay.items.filter(outcome=ItemOutcome.WAITING.value).exists():
        raise NotNow("It is done: every attempt was looked at.")
    replay.state, replay.ended_at = ReplayState.RUNNING.value, None
    replay.save(update_fields=["state", "ended_at"])
    _make_chunks(replay)
    _tell(replay, actor, EntryKind.REPLAY_BEGUN, {"resumed": True, "attempts": replay.total})
    return replay


def finish(replay_id: UUID) -> bool:
    """End a replay of which nothing is left; says whether it ended now. May be called any number of times."""
    with transaction.atomic():
        replay = Replay.objects.select_for_update(of=("self",)).filter(pk=replay_id).first()
        open_ones = ReplayChunk.objects.filter(replay=replay_id, state__in=[state.value for state in OPEN_STATES])
        if replay is None or replay.state != ReplayState.RUNNING or open_ones.exists():
            return False
        # A chunk that was given up after many tries leaves its attempts without an answer: that is one too.
        replay.items.filter(outcome=ItemOutcome.WAITING.value).update(
            outcome=ItemOutcome.FAILED.value, why="the workers that took it ended, again and again", done_at=Now()
        )
        replay.chunks.all().delete()
        _end(replay, ReplayState.DONE, Actor.system("replay"))
    return True


def _end(replay: Replay, state: ReplayState, actor: Actor) -> None:
    replay.state = state.value
    Replay.objects.filter(pk=replay.pk).update(state=state.value, ended_at=Now())
    replay.refresh_from_db()
    counted = replay.items.values_list("outcome").annotate(number=Count("pk")).order_by("outcome")
    counts = {outcome or "waiting": number for outcome, number in counted}
    weighty = replay.items.filter(outcome=ItemOutcome.CHANGED.value, weighty=True).count()
    _tell(replay, actor, EntryKind.REPLAY_ENDED, {"state": state.value, "counts": counts, "weighty": weighty})


def _tell(replay: Replay, actor: Actor, kind: EntryKind, more: dict[str, Any], reason: str = "") -> None:
    body = {"what": replay.kind, "ruleset": replay.ruleset_id, "ablation": _asked(replay)} | more
    ledger.record(kind, actor=actor, subject=replay, body=body, erasable={"reason": reason} if reason else None)


def _asked(replay: Replay) -> str:
    return str(msgspec.convert(replay.ablation, Ablation)) if replay.ablation else ""


def _add_items(replay: Replay, parts: list[QuerySet[ListRow]]) -> int:
    """A row for each attempt, the one that ended last first; in one statement for each part, however many there are."""
    total = 0
    for part in parts:
        rows = part.order_by().values("attempt_id", "verdict_id", "happened_at", "id")
        sql, params = rows.query.sql_with_params()
        with connection.cursor() as cursor:
            cursor.execute(
                f"""
                INSERT INTO recovery_replayitem (replay_id, number, attempt_id, verdict_id, outcome, again, why,
                    weighty, stronger, domain_before, domain_after, move, rules, tried, said, before, after, judged,
                    judged_why)
                SELECT %s, %s + row_number() OVER (ORDER BY happened_at DESC, id DESC), attempt_id, verdict_id,
                    '', '', '', false, false, '', '', '', '{{}}', true, '[]', '{{}}', '{{}}', '', ''
                FROM ({sql}) AS chosen (attempt_id, verdict_id, happened_at, id)
                """,  # noqa: S608 - what the filters made, with its parameters apart
                [replay.pk, total, *params],
            )
            total += cursor.rowcount
    return total


def _make_chunks(replay: Replay) -> None:
    """Chunks of all that waits. Workers are woken when it is committed."""
    waiting = replay.items.filter(outcome=ItemOutcome.WAITING.value)
    ends = waiting.aggregate(first=Min("number"), last=Max("number"))
    steps = range(ends["first"], ends["last"] + 1, CHUNK)
    numbers = set(waiting.values_list("number", flat=True)) if replay.total > waiting.count() else None
    chunks = [
        ReplayChunk(replay=replay, first=first, last=min(first + CHUNK - 1, ends["last"]))
        for first in steps
        if numbers is None or not numbers.isdisjoint(range(first, first + CHUNK))
    ]
    ReplayChunk.objects.bulk_create(chunks, batch_size=1000)
    transaction.on_commit(waking.wake_all)


def _held(replay_id: UUID) -> Replay:
    """The replay, locked. Raises Replay.DoesNotExist."""
    return (
        Replay.objects.select_for_update(of=("self",))
        .select_related("ruleset")
        .defer("ruleset__packed")
        .get(pk=replay_id)
    )


def _may_start(by: User) -> None:
    if not by.has_perm(permissions.START_REPLAY):
        raise NotPermitted(
            "Starting, cancelling or resuming a replay needs the role reviewer, operator, lead or policy admin."
        )
