"""Attempts that came from another site as a record."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from verdicts.models.attempts import Attempt


class ImportedRecord(models.Model):
    """Where an imported attempt comes from. Nothing is proposed for it, and the ledger has no entries of its verdicts.

    `payload` is the hash of the record's manifest: the same record again changes nothing. `told` is what the other
    site proposed, decided, did and said: it is shown, and counts for nothing here.
    """

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="imported", primary_key=True)
    origin = models.UUIDField(unique=True, help_text="The attempt's id where the record was made.")
    payload = models.CharField(max_length=64)
    public_key = models.CharField(max_length=64, help_text="Who signed it.")
    made_on = models.DateField()
    expires_on = models.DateField(null=True, blank=True)
    told = models.JSONField(default=dict)
    imported_at = models.DateTimeField(db_default=Now(), editable=False)
    imported_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["-imported_at"]
        constraints = [
            models.CheckConstraint(name="imported_payload_hex", condition=Q(payload__regex=r"^[0-9a-f]{64}$")),
        ]

    def __str__(self) -> str:
        return str(self.origin)
