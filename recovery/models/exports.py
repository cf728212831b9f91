"""Many records exported at once: what was asked for, and a row of work for each record."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from verdicts.choices import RequestState
from verdicts.models import Attempt
from verdicts.models.checks import OPEN, closed
from verdicts.models.leased import RUNNING_HAS_LEASE, Leased
from verdicts.owed import OwedQuerySet


class ExportBatch(models.Model):
    """An export of all that a filter of the verdict list found when it was asked for.

    `roles` are those that who asked had then. Finished, its files are kept until `expires_at`; they went at
    `removed_at`. The rows stay: they say what was taken away.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    query = models.TextField(blank=True, help_text="The filters, as in the list's address.")
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    roles = models.JSONField(default=list)
    total = models.PositiveIntegerField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    stopped_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.CheckConstraint(
                name="export_batch_finished_expires",
                condition=Q(finished_at__isnull=True, expires_at__isnull=True)
                | Q(finished_at__isnull=False, expires_at__isnull=False),
            )
        ]
        indexes = [
            models.Index(fields=["expires_at"], name="export_batch_due", condition=Q(removed_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.total} records"


class ExportedRecord(Leased):
    """One record of a batch: the row is the queue. `file` is its name in the batch's folder once it is whole."""

    batch = models.ForeignKey(ExportBatch, on_delete=models.CASCADE, related_name="records")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+")
    place = models.PositiveIntegerField(help_text="Its place in the list that was asked for.")
    file = models.CharField(max_length=120, blank=True)
    size = models.PositiveBigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)

    objects = OwedQuerySet["ExportedRecord"].as_manager()

    class Meta:
        ordering = ["place", "id"]
        constraints = [
            models.UniqueConstraint(fields=["batch", "attempt"], name="exported_record_once"),
            models.CheckConstraint(name="exported_record_running_has_lease", condition=RUNNING_HAS_LEASE),
            closed("exported_record", "state", RequestState),
        ]
        indexes = [
            models.Index(fields=["cluster", "turn_at"], name="exported_record_turn", condition=OPEN),
            models.Index(fields=["batch", "state", "place"], name="exported_record_state"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt_id}: {self.state}"
