"""Signed checkpoints: what the chain was at a time, kept where a database's owner cannot change it."""

import json
import logging
import os
import uuid
from datetime import timedelta
from pathlib import Path

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from recovery.ledger import entries, keys
from recovery.ledger.chain import START, checkpoint_line
from recovery.ledger.export import statement_of
from recovery.ledger.find import first_broken
from recovery.models import LedgerCheckpoint, LedgerEntry, LedgerLink
from recovery.words import EntryKind
from verdicts.webhook_send import send

log = logging.getLogger(__name__)

#: A failure that goes on is one entry a day, and a line in the log each time.
TOLD_FOR = timedelta(days=1)
#: The second number of the lock: one checkpoint at a time, so that the file has them in their order.
_LOCK = (715025, 1)


class NotKept(Exception):
    """A checkpoint that could not be made or kept; `where` is "key", "chain", "file" or "webhook"."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(why)
        self.where = where


def make() -> LedgerCheckpoint | None:
    """Make a checkpoint, if the chain went on since the last one."""
    return attempt()[0]


def attempt() -> tuple[LedgerCheckpoint | None, list[NotKept]]:
    """Sign how far the chain is, if it went on since the last checkpoint, and keep that outside too; say what failed.

    Nothing is signed that does not follow from what was signed last. What fails is logged and an entry of the ledger;
    the next checkpoint covers all that this one would have.
    """
    try:
        key = keys.key_from(Path(settings.INQUEST_LEDGER_KEY_FILE))
    except keys.KeyFileError as error:
        failures = [NotKept("key", str(error))]
        _failed(failures[0])
        return None, failures
    failures = []
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", _LOCK)
        link = LedgerLink.objects.order_by("-number").first()
        latest = LedgerCheckpoint.objects.order_by("-number", "-made_at").first()
        if link is None or (latest is not None and latest.number >= link.number):
            return None, []
        broken = _broken(latest, link)
        if broken is not None:
            failures.append(broken)
        else:
            made = _sign(link, key)
            try:
                _append(Path(settings.INQUEST_LEDGER_CHECKPOINT_FILE), line_of(made))
            except OSError as error:
                why = f"{settings.INQUEST_LEDGER_CHECKPOINT_FILE}: {error.strerror or error}"
                failures.append(NotKept("file", why))
    if broken is not None:
        _failed(broken)
        return None, failures
    # Not while the lock is held: the other side may take its time.
    try:
        _post(made)
    except NotKept as error:
        failures.append(error)
    for failure in failures:
        _failed(failure)
    return made, failures


def _broken(latest: LedgerCheckpoint | None, link: LedgerLink) -> NotKept | None:
    """What is wrong between the last checkpoint and now: a history that was changed is not to be signed."""
    number, digest = (latest.number, latest.hash) if latest else (0, START)
    if latest is not None and not LedgerLink.objects.filter(number=number, hash=digest).exists():
        return NotKept("chain", f"entry {number} is not what was signed at {entries.spelled(latest.made_at)}")
    broken = first_broken(number, digest, link.number)
    return None if broken is None else NotKept("chain", f"the chain is broken at entry {broken}")


def _sign(link: LedgerLink, key: Ed25519PrivateKey) -> LedgerCheckpoint:
    made = LedgerCheckpoint(number=link.number, hash=link.hash, made_at=timezone.now(), public_key=keys.public_hex(key))
    made.signature = keys.sign(key, statement_of(made).canonical())
    made.save(force_insert=True)
    return made


def line_of(checkpoint: LedgerCheckpoint) -> bytes:
    """A checkpoint as the file has it."""
    return checkpoint_line(statement_of(checkpoint), checkpoint.signature)


def _append(path: Path, line: bytes) -> None:
    """Add a line, wholly or not at all: half a line would make every later verification fail."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(handle).st_size
        if os.write(handle, line) != len(line):
            os.ftruncate(handle, size)
            raise OSError("the file system is full")
        os.fsync(handle)
    finally:
        os.close(handle)


def _post(made: LedgerCheckpoint) -> None:
    name = settings.INQUEST_LEDGER_CHECKPOINT_WEBHOOK
    if not name:
        return
    webhook = settings.WEBHOOKS.get(name)
    if webhook is None:
        raise NotKept("webhook", f"INQUEST_WEBHOOKS names no {name!r}")
    sent_at = int(timezone.now().timestamp())
    told = {
        "type": "ledger.checkpoint",
        "timestamp": entries.spelled(made.made_at),
        "data": json.loads(line_of(made)),
    }
    body = json.dumps(told, separators=(",", ":")).encode()
    try:
        answer = send(webhook, uuid.UUID(str(made.pk)), sent_at, body)
    except httpx2.HTTPError as error:
        raise NotKept("webhook", f"{name}: {type(error).__name__}: {str(error)[:300]}") from error
    if not 200 <= answer.status_code < 300:
        raise NotKept("webhook", f"{name} answered {answer.status_code}")


@transaction.atomic
def _failed(error: NotKept) -> None:
    """Log a failure, and write it into the ledger unless that was done of late."""
    log.error("ledger.checkpoint_failed where=%s: %s", error.where, error)
    told = LedgerEntry.objects.filter(
        kind=EntryKind.CHECKPOINT_FAILED.value,
        subject_kind="checkpoint",
        subject=error.where,
        at__gte=timezone.now() - TOLD_FOR,
    )
    if not told.exists():
        entries.record(
            EntryKind.CHECKPOINT_FAILED,
            actor=entries.Actor.system("checkpoints"),
            subject=("checkpoint", error.where),
            body={"why": str(error)[:2000]},
        )
