"""What a record of an attempt says of retention: until when it may be kept, what holds it, what had expired."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import islice
from typing import Annotated, Any

import msgspec
from django.conf import settings

from recovery.ledger.entries import spelled
from recovery.record.read import Missing, Record
from recovery.retention import due, find, holds
from rules.verdict import plain_text
from verdicts.expired import in_words, tombstones_of
from verdicts.keeping import Kept
from verdicts.models import Attempt, Tombstone, Verdict
from verdicts.redaction import clean_text
from verdicts.storable import storable_text

#: Classes of attempts that a record contains. Of progress it has what was detected, which stays.
CONTAINED = (Kept.LINES, Kept.QUOTES)
#: Holds that are named, and how much is said of each.
MOST_HOLDS, MOST_TEXT = 5, 120
#: Tombstones that are taken over from a record, and how much of each rule.
MOST_STONES, MOST_RULE = 100, 500


def tags(attempt: Attempt, at: datetime) -> list[tuple[str, str]]:
    """The lines of `bag-info.txt`: expiry, and the holds that stand.

    A record is kept no longer than INQUEST_RECORD_DAYS, nor than what it contains is kept here. While a hold stands
    nothing of it expires here: then the record's own time alone is said, and the hold, during which it is not deleted.
    """
    ends = at + timedelta(days=settings.INQUEST_RECORD_DAYS)
    standing = list(due.holds_over(attempt).select_related("attempt", "workload", "cluster")[: MOST_HOLDS + 1])
    if not standing:
        ends = min([ends, *_terms(attempt, at)])
    told = [("Inquest-Expires", f"{ends.astimezone(UTC):%Y-%m-%d}")]
    if standing:
        said = [
            f"{hold.pk} over {plain_text(holds.what(hold), MOST_TEXT)}, review on {hold.review_on}"
            for hold in standing[:MOST_HOLDS]
        ]
        told.append(("Inquest-Hold", "; ".join(said) + ("; and more" if len(standing) > MOST_HOLDS else "")))
    return told


def _terms(attempt: Attempt, at: datetime) -> Iterator[datetime]:
    """When the classes expire that the record contains and that are still there."""
    for term in due.terms_of(attempt):
        if term.kept in CONTAINED and getattr(attempt, f"{term.kept.value}_expired_at") is None:
            yield term.at
    if (words := find.earliest(attempt, at)) is not None:
        yield words


def missing(attempt: Attempt) -> list[Missing]:
    """What had expired when the record was made: inputs that it has not."""
    return [Missing(input=f"expired:{stone.kept}", said=in_words(stone)) for stone in tombstones_of(attempt)]


def tombstones(attempt: Attempt) -> Iterator[dict[str, Any]]:
    """The same as rows."""
    for stone in tombstones_of(attempt):
        yield {
            "kept": stone.kept,
            "at": spelled(stone.at),
            "rows": stone.rows,
            "bytes": stone.bytes,
            "rule": stone.rule,
        }


class _Stone(msgspec.Struct, frozen=True):
    kept: Kept
    at: datetime
    rows: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    bytes: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    rule: str


def take_over(record: Record, attempt: Attempt) -> None:
    """Mark an imported attempt with what had expired where its record was made: it was there, and is not here either.

    Raises BadRecord.
    """
    if not record.has("expired.jsonl"):
        return
    for told in islice(record.rows("expired.jsonl", _Stone), MOST_STONES):
        rule = f"{clean_text(storable_text(told.rule))[:MOST_RULE]}; where its record was made"
        stone = Tombstone(
            attempt=attempt, kept=told.kept.value, at=told.at, rows=told.rows, bytes=told.bytes, rule=rule
        )
        Tombstone.objects.bulk_create([stone], ignore_conflicts=True)
        Attempt.objects.filter(pk=attempt.pk).update(**{f"{told.kept.value}_expired_at": told.at})


def left_sha256(attempt: Attempt, verdict: Verdict) -> str:
    """The hash of what is left of a verdict whose quotations expired; empty while it is what was issued."""
    if attempt.quotes_expired_at is None:
        return ""
    digest = sha256(verdict.body_json.encode()).hexdigest()
    return digest if digest != verdict.body_sha256 else ""
