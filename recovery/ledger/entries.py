"""Writing into the decision ledger: the only module that does.

An entry is part of the transaction that makes it true. Its place in the chain is given by the database when that
transaction commits; see `recovery.models.ledger`.
"""

import secrets
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import connection, models

from recovery.ledger.canonical import canonical
from recovery.ledger.chain import body_hash, content_hash
from recovery.models import LedgerContent, LedgerEntry, PolicyVersion
from recovery.words import EntryKind
from verdicts.storable import storable, storable_text

#: Entries written by one statement.
BATCH = 500


@dataclass(frozen=True)
class Actor:
    """Who did it, with the roles that they had then.

    `str(actor)` is "user:NAME", "policy:NAME@NUMBER" or "system:PART".
    """

    name: str
    roles: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @classmethod
    def user(cls, user: AbstractUser) -> "Actor":
        """A person, with the groups they are in now; a superuser has that as a role too."""
        roles = list(user.groups.order_by("name").values_list("name", flat=True))
        return cls(f"user:{user.get_username()}", (*roles, *(["superuser"] if user.is_superuser else [])))

    @classmethod
    def policy(cls, version: PolicyVersion) -> "Actor":
        """A policy that acts by itself, in the version that decided."""
        return cls(f"policy:{version.policy.name}@{version.number}")

    @classmethod
    def system(cls, part: str) -> "Actor":
        """A part of the system, such as "dispatcher"."""
        return cls(f"system:{part}")


Subject = models.Model | tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What an entry will say. `at` is when it became true; without it, now by the database's clock."""

    kind: EntryKind
    actor: Actor
    subject: Subject
    attempt: uuid.UUID | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    erasable: Mapping[str, str] = field(default_factory=dict)
    at: datetime | None = None


def record(
    kind: EntryKind,
    *,
    actor: Actor,
    subject: Subject,
    attempt: uuid.UUID | None = None,
    body: Mapping[str, Any] | None = None,
    erasable: Mapping[str, str] | None = None,
) -> LedgerEntry:
    """Write one entry, inside the transaction that makes it true and at its end.

    `body` is plain data (times and ids are spelled as text; a number that is not finite, or an integer beyond 2^53,
    is refused). What people wrote in their own words belongs into `erasable`: the chain keeps its salted hash alone.
    """
    fact = Fact(kind=kind, actor=actor, subject=subject, attempt=attempt, body=body or {}, erasable=erasable or {})
    return record_all([fact])[0]


def record_all(facts: Iterable[Fact]) -> list[LedgerEntry]:
    """Write several entries, in their order. They are chained together, at the same commit."""
    if not connection.in_atomic_block:
        raise RuntimeError("an entry belongs into the transaction that makes it true: use transaction.atomic()")
    entries: list[LedgerEntry] = []
    contents: list[LedgerContent] = []
    now = _now()
    for fact in facts:
        entry, texts = _entry(fact, now)
        entries.append(entry)
        contents += texts
    LedgerEntry.objects.bulk_create(entries, batch_size=BATCH)
    LedgerContent.objects.bulk_create(contents, batch_size=BATCH)
    return entries


def _entry(fact: Fact, now: datetime) -> tuple[LedgerEntry, list[LedgerContent]]:
    pk = uuid.uuid4()
    subject_kind, subject = _subject(fact.subject)
    at = fact.at or now
    contents = [
        LedgerContent(entry_id=pk, field=name, salt=secrets.token_hex(32), text=storable_text(text))
        for name, text in fact.erasable.items()
    ]
    body = {
        "id": str(pk),
        "kind": fact.kind.value,
        "at": spelled(at),
        "actor": storable_text(fact.actor.name),
        "roles": list(fact.actor.roles),
        "subject": {"kind": subject_kind, "id": subject},
        "attempt": str(fact.attempt) if fact.attempt else None,
        "facts": storable(_plain(fact.body)),
        "erasable": {text.field: content_hash(text.salt, text.field, text.text) for text in contents},
    }
    raw = canonical(body)
    entry = LedgerEntry(
        id=pk,
        kind=fact.kind.value,
        at=at,
        actor=body["actor"],
        subject_kind=subject_kind,
        subject=subject,
        attempt=fact.attempt,
        body=body,
        body_json=raw.decode(),
        body_sha256=body_hash(raw),
    )
    return entry, contents


def _subject(subject: Subject) -> tuple[str, str]:
    if isinstance(subject, tuple):
        return storable_text(subject[0]), storable_text(subject[1])
    return type(subject).__name__.lower(), storable_text(str(subject.pk))


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


def spelled(at: datetime) -> str:
    """A time as the ledger spells it."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    """Plain data with ids and times spelled as text."""
    if isinstance(value, datetime):
        return spelled(value)
    if isinstance(value, uuid.UUID | date):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
