"""The decision ledger: entries that nobody changes, and the chain that tells if somebody did.

An entry is inserted by whatever transaction makes it true. When that transaction commits, a deferred trigger of the
database gives the entry its place in the chain, one transaction after the other, so that numbers have no gaps
and nothing waits for the ledger before its commit.
"""

import uuid

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from recovery.words import EntryKind
from verdicts.models.checks import closed


class LedgerEntry(models.Model):
    """One fact: who did what, on what evidence. `body_json` is its canonical JSON (RFC 8785), byte for byte.

    `subject_kind` and `subject` name the row it is about ("proposal" and its id), `attempt` the attempt if any.
    What may be erased one day (free text of people, evidence) is in `LedgerContent`; the body has its salted hash.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=32)
    at = models.DateTimeField(help_text="When it became true, by the database's clock.")
    actor = models.CharField(max_length=255, help_text='"user:NAME", "policy:NAME@VERSION" or "system:PART".')
    subject_kind = models.CharField(max_length=32)
    subject = models.CharField(max_length=255)
    attempt = models.UUIDField(null=True, blank=True)
    body = models.JSONField()
    body_json = models.TextField()
    body_sha256 = models.CharField(max_length=64)

    class Meta:
        ordering = ["at", "id"]
        verbose_name_plural = "ledger entries"
        permissions = [("export_ledger", "Can export the ledger")]
        constraints = [
            closed("entry", "kind", EntryKind),
            models.CheckConstraint(name="entry_sha256_hex", condition=Q(body_sha256__regex=r"^[0-9a-f]{64}$")),
        ]
        indexes = [
            models.Index(fields=["subject_kind", "subject"], name="entry_subject"),
            models.Index(fields=["attempt"], name="entry_attempt", condition=Q(attempt__isnull=False)),
            models.Index(fields=["-at"], name="entry_at"),
            models.Index(fields=["kind", "-at"], name="entry_kind"),
            models.Index(fields=["actor", "-at"], name="entry_actor"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_kind} {self.subject}"


class LedgerLink(models.Model):
    """An entry's place in the chain. `hash` is SHA-256 over the number, the hash before it and the body's hash."""

    number = models.PositiveBigIntegerField(primary_key=True)
    entry = models.OneToOneField(LedgerEntry, on_delete=models.PROTECT, related_name="link", db_constraint=False)
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)

    class Meta:
        ordering = ["number"]

    def __str__(self) -> str:
        return f"{self.number} {self.hash[:12]}"


class LedgerContent(models.Model):
    """What an entry says that may be erased: the chain keeps the salted hash, no proof once it is gone."""

    entry = models.ForeignKey(LedgerEntry, on_delete=models.PROTECT, related_name="contents", db_constraint=False)
    field = models.CharField(max_length=64)
    salt = models.CharField(max_length=64)
    text = models.TextField(blank=True)
    erased_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["entry", "field"], name="content_field_once")]

    def __str__(self) -> str:
        return f"{self.field} of {self.entry_id}"


class LedgerCheckpoint(models.Model):
    """A signed statement of how far the chain went at a time; the same is written outside the database."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    number = models.PositiveBigIntegerField(help_text="The last entry that it covers.")
    hash = models.CharField(max_length=64)
    made_at = models.DateTimeField(db_default=Now(), editable=False)
    public_key = models.CharField(max_length=64, help_text="The Ed25519 key that it is checked with, as hex.")
    signature = models.CharField(max_length=128)

    class Meta:
        ordering = ["-made_at"]

    def __str__(self) -> str:
        return f"{self.number} {self.hash[:12]}"


class Intake(models.Model):
    """How far a reader of other tables has read, so that each fact comes into the ledger once."""

    name = models.CharField(max_length=32, primary_key=True)
    read_until = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
