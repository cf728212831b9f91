"""What is owed and what was looked at: the queue of record, and checks that run by themselves."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from verdicts.choices import Mode, RequestState
from verdicts.models.attempts import Attempt
from verdicts.models.checks import OPEN, closed
from verdicts.models.judgements import Verdict
from verdicts.models.leased import RUNNING_HAS_LEASE, Leased
from verdicts.owed import OwedQuerySet


class DriftCheck(models.Model):
    """What the daily look for parser drift found; metrics and the page read the last one."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    checked_at = models.DateTimeField(db_default=Now(), editable=False)
    until = models.DateTimeField()
    days = models.PositiveSmallIntegerField()
    attempts_before = models.PositiveIntegerField()
    attempts_after = models.PositiveIntegerField()
    ruleset = models.CharField(max_length=64, help_text="Digest of the rules that the windows were compared by.")
    signs = models.JSONField(default=list)

    class Meta:
        ordering = ["-checked_at", "id"]
        constraints = [models.CheckConstraint(name="drift_days_positive", condition=Q(days__gte=1))]
        indexes = [models.Index(fields=["-checked_at"], name="drift_checked")]

    def __str__(self) -> str:
        return f"{self.days} days until {self.until:%Y-%m-%d}"


class AttributionRequest(Leased):
    """The queue of record: a row says what is owed, a Celery message only wakes a worker."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="requests")
    mode = models.CharField(max_length=8)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    deadline = models.DateTimeField(null=True, blank=True)
    generation = models.PositiveBigIntegerField(null=True, blank=True, help_text="The evidence that it answered for.")
    verdict = models.ForeignKey(
        Verdict,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="requests",
    )

    objects = OwedQuerySet["AttributionRequest"].as_manager()

    class Meta:
        ordering = ["-created_at", "id"]
        permissions = [("request_attribution", "Can ask for an attribution")]
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "mode"],
                condition=OPEN,
                name="request_one_open",
            ),
            models.CheckConstraint(name="request_running_has_lease", condition=RUNNING_HAS_LEASE),
            models.CheckConstraint(
                name="request_done_has_verdict",
                condition=~Q(state=RequestState.DONE.value) | Q(verdict__isnull=False, finished_at__isnull=False),
            ),
            closed("request", "mode", Mode),
            closed("request", "state", RequestState),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="request_open_due", condition=OPEN),
            models.Index(fields=["cluster", "turn_at"], name="request_turn", condition=OPEN),
            models.Index(fields=["state"], name="request_not_done", condition=~Q(state=RequestState.DONE.value)),
        ]

    def __str__(self) -> str:
        return f"{self.mode} {self.state}"
