"""What other tables tell comes into the ledger: verdicts, reviews, rulesets, sources that go blind, who read evidence.

Whoever writes those tables knows nothing of the ledger and does not wait for it. Each reader remembers how far it has
read; a fact that has an entry already is not written again. The first look after an upgrade starts at its own time.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import CharField, Exists, OuterRef, QuerySet
from django.db.models.functions import Cast

from recovery.ledger import entries
from recovery.ledger.entries import Actor, Fact
from recovery.models import Intake, LedgerEntry
from recovery.words import EntryKind
from verdicts.models import EvidenceRead, Review, RulesetVersion, SourceState, Verdict
from verdicts.own import own

#: Facts written by one transaction, and transactions of one look.
BATCH, MOST_BATCHES = 500, 40
#: Between a transaction's start and its being seen to have started lies less than this.
MARGIN = timedelta(seconds=30)
#: No transaction that writes a verdict or review takes so long; one that sleeps longer is not waited for.
LONGEST = timedelta(hours=1)

#: What was taken in of who read evidence is kept beside the ledger for so long: an hour would do.
KEPT = timedelta(days=2)

ATTRIBUTION = Actor.system("attribution")


def take_in() -> int:
    """Write what became true since the last look; says how many entries were written."""
    return sum(_read(name, table, tell) for name, table, tell in _READERS) + _sources() + _reading()


def _read(name: str, rows: Callable[[], QuerySet[Any]], tell: Callable[[Sequence[Any]], list[Fact]]) -> int:
    written = 0
    for _ in range(MOST_BATCHES):
        with transaction.atomic():
            mark = _turn(name)
            if mark is None:
                break
            horizon = _horizon()
            found = list(rows().filter(**{f"{_TIME[name]}__gte": mark.read_until})[:BATCH])
            written += len(entries.record_all(tell(found)))
            if len(found) < BATCH:
                Intake.objects.filter(pk=name, read_until__lt=horizon).update(read_until=horizon)
                break
    return written


def _turn(name: str) -> Intake | None:
    """The reader's mark, held by this transaction; None while another has it, and at the very first look."""
    Intake.objects.bulk_create([Intake(name=name, read_until=_clock())], ignore_conflicts=True)
    return Intake.objects.select_for_update(skip_locked=True).filter(pk=name).first()


def _clock() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


def _horizon() -> datetime:
    """Up to where nothing can come any more: rows are dated by their transaction's start, and seen at its end."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT clock_timestamp(), min(xact_start) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        now, oldest = cursor.fetchone()
    return max(min(now, oldest or now), now - LONGEST) - MARGIN


def _without(rows: QuerySet[Any], kind: EntryKind, model: str, time: str) -> QuerySet[Any]:
    """Those that have no entry yet, the oldest first."""
    told = LedgerEntry.objects.filter(
        kind=kind.value, subject_kind=model, subject=Cast(OuterRef("pk"), CharField(max_length=255))
    )
    return rows.filter(~Exists(told)).order_by(time, "pk")


# --- Verdicts -----------------------------------------------------------------------------------


def _verdicts() -> QuerySet[Verdict]:
    # What another site concluded stands in that site's ledger, and of what a drill makes up the drill tells.
    rows = Verdict.objects.filter(own("attempt")).select_related("ruleset").defer("body", "body_json", "coverage")
    return _without(rows, EntryKind.VERDICT_ISSUED, "verdict", "created_at")


def _issued(verdicts: Sequence[Verdict]) -> list[Fact]:
    """That they were issued, and that each took the place of the one before."""
    pairs = {(verdict.attempt_id, verdict.number - 1) for verdict in verdicts if verdict.number > 1}
    before = {
        (row.attempt_id, row.number): row
        for row in Verdict.objects.filter(attempt_id__in={attempt for attempt, _ in pairs}).only(
            "attempt_id", "number", "superseded_at", "body_sha256"
        )
        if (row.attempt_id, row.number) in pairs
    }
    facts: list[Fact] = []
    for verdict in verdicts:
        facts.append(
            Fact(
                kind=EntryKind.VERDICT_ISSUED,
                actor=ATTRIBUTION,
                subject=verdict,
                attempt=verdict.attempt_id,
                at=verdict.created_at,
                body={
                    "number": verdict.number,
                    "sha256": verdict.body_sha256,
                    "domain": verdict.domain,
                    "strength": verdict.strength,
                    "state": verdict.state,
                    "mode": verdict.mode,
                    "ruleset": verdict.ruleset.digest,
                    "engine": verdict.engine,
                },
            )
        )
        old = before.get((verdict.attempt_id, verdict.number - 1))
        if old is not None and old.superseded_at is not None:
            facts.append(
                Fact(
                    kind=EntryKind.VERDICT_SUPERSEDED,
                    actor=ATTRIBUTION,
                    subject=old,
                    attempt=old.attempt_id,
                    at=old.superseded_at,
                    body={
                        "number": old.number,
                        "sha256": old.body_sha256,
                        "by": {"verdict": verdict.pk, "number": verdict.number, "sha256": verdict.body_sha256},
                    },
                )
            )
    return facts


# --- Reviews and rulesets -------------------------------------------------------------------------


def _reviews() -> QuerySet[Review]:
    rows = Review.objects.select_related("author", "verdict").defer("verdict__body", "verdict__body_json")
    return _without(rows, EntryKind.REVIEW_GIVEN, "review", "created_at")


def _given(reviews: Sequence[Review]) -> list[Fact]:
    return [
        Fact(
            kind=EntryKind.REVIEW_GIVEN,
            actor=Actor.user(review.author),
            subject=review,
            attempt=review.verdict.attempt_id,
            at=review.created_at,
            body={
                "verdict": review.verdict_id,
                "number": review.verdict.number,
                "sha256": review.verdict.body_sha256,
                "label": review.label,
                "actual_domain": review.actual_domain,
                "actual_nodes": review.actual_nodes,
            },
            erasable={"note": review.note} if review.note else {},
        )
        for review in reviews
    ]


def _rulesets() -> QuerySet[RulesetVersion]:
    used = Verdict.objects.filter(own("attempt"), ruleset=OuterRef("pk"))
    rows = RulesetVersion.objects.filter(Exists(used))
    return _without(rows, EntryKind.RULESET_CHANGED, "rulesetversion", "first_used_at")


def _used(rulesets: Sequence[RulesetVersion]) -> list[Fact]:
    return [
        Fact(
            kind=EntryKind.RULESET_CHANGED,
            actor=ATTRIBUTION,
            subject=ruleset,
            at=ruleset.first_used_at,
            body={"digest": ruleset.digest, "rules": ruleset.rules, "layers": ruleset.layers},
        )
        for ruleset in rulesets
    ]


_TIME = {"verdicts": "created_at", "reviews": "created_at", "rulesets": "first_used_at"}
_READERS: tuple[tuple[str, Callable[[], QuerySet[Any]], Callable[[Sequence[Any]], list[Fact]]], ...] = (
    # A ruleset before the verdicts made with it.
    ("rulesets", _rulesets, _used),
    ("verdicts", _verdicts, _issued),
    ("reviews", _reviews, _given),
)


# --- Sources --------------------------------------------------------------------------------------


@transaction.atomic
def _sources() -> int:
    """Compare how sources are with what the ledger said of them last."""
    mark = _turn("sources")
    if mark is None:
        return 0
    facts: list[Fact] = []
    told = _last_said()
    for source in SourceState.objects.select_related("cluster").filter(checked_at__gte=mark.read_until):
        last = told.get(str(source.pk))
        since = source.blind_since
        was_blind = last is not None and last.kind == EntryKind.SOURCE_BLIND.value
        body: dict[str, Any] = {"cluster": source.cluster.name, "name": source.name, "source": source.source}
        if since is not None and since >= mark.read_until:
            if not (was_blind and last is not None and last.at == since):
                body["why"] = str(source.check_body.get("summary", ""))
                facts.append(_of_source(EntryKind.SOURCE_BLIND, source, since, body))
        elif since is None and was_blind and last is not None and source.checked_at is not None:
            facts.append(_of_source(EntryKind.SOURCE_SEES, source, source.checked_at, body | {"blind_since": last.at}))
    return len(entries.record_all(facts)) if facts else 0


def _last_said() -> dict[str, LedgerEntry]:
    kinds = [EntryKind.SOURCE_BLIND.value, EntryKind.SOURCE_SEES.value]
    rows = LedgerEntry.objects.filter(kind__in=kinds, subject_kind="sourcestate")
    latest = rows.order_by("subject", "-at", "-kind").distinct("subject")
    return {row.subject: row for row in latest.only("subject", "kind", "at")}


def _of_source(kind: EntryKind, source: SourceState, at: datetime, body: dict[str, Any]) -> Fact:
    return Fact(kind=kind, actor=Actor.system("sources"), subject=source, at=at, body=body)


# --- Who read evidence ----------------------------------------------------------------------------


@transaction.atomic
def _reading() -> int:
    """Take in who read raw evidence, and forget what was taken in long ago."""
    untold = EvidenceRead.objects.filter(told=False).select_related("user").order_by("id")
    rows = list(untold.select_for_update(of=("self",), skip_locked=True)[: BATCH * MOST_BATCHES])
    people = {row.user_id: row.user for row in rows}
    actors = {pk: Actor.user(user) for pk, user in people.items()}
    told = [
        Fact(
            kind=EntryKind.EVIDENCE_READ,
            actor=actors[row.user_id],
            subject=("attempt", str(row.attempt_id)),
            attempt=row.attempt_id,
            at=row.at,
            body={"what": "lines", "via": row.via, "hour": row.hour},
        )
        for row in rows
    ]
    if told:
        entries.record_all(told)
        EvidenceRead.objects.filter(pk__in=[row.pk for row in rows]).update(told=True)
    EvidenceRead.objects.filter(told=True, at__lt=_clock() - KEPT).delete()
    return len(told)
