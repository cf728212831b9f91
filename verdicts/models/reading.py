"""Who read the raw evidence of an attempt."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from verdicts.models.attempts import Attempt


class EvidenceRead(models.Model):
    """That an account read lines of an attempt in an hour, once. Whoever keeps a ledger takes it in: `told`.

    No lock of the attempt is asked for, which ingest may hold: the page that writes this does not wait.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    hour = models.DateTimeField()
    at = models.DateTimeField(db_default=Now(), editable=False)
    via = models.CharField(max_length=16, help_text='"console" or "api".')
    told = models.BooleanField(default=False)

    class Meta:
        ordering = ["-at", "id"]
        constraints = [models.UniqueConstraint(fields=["user", "attempt", "hour"], name="evidence_read_once_an_hour")]
        indexes = [
            models.Index(fields=["id"], name="evidence_read_untold", condition=Q(told=False)),
            models.Index(fields=["at"], name="evidence_read_at"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt_id} by {self.user_id}"
