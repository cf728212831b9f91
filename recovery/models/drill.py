"""Retention drills: what was asked, what was seen, and whether it was as promised."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from recovery.words import CheckOutcome, DrillState
from verdicts.models.checks import closed

#: A drill that is asked for or going on. Of those that make an attempt up there is one at a time.
OPEN_DRILL = Q(state__in=[DrillState.ASKED.value, DrillState.RUNNING.value])


class Drill(models.Model):
    """One drill. `attempt` is an id alone: what a drill makes up is gone at its end.

    `made_up` is a drill over an attempt that it makes itself; else it is over one that was chosen, of which nothing is
    removed. `report_sha256` is of the report's canonical JSON, and stands in the ledger.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    state = models.CharField(max_length=16, default=DrillState.ASKED.value)
    made_up = models.BooleanField(default=True)
    attempt = models.UUIDField(null=True, blank=True)
    job_id = models.CharField(max_length=256, blank=True)
    via = models.CharField(max_length=16, help_text="schedule, console, api or command-line.")
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    asked_at = models.DateTimeField(db_default=Now(), editable=False)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    address = models.CharField(max_length=1000, blank=True, help_text="Where the site was asked.")
    host = models.CharField(max_length=255, blank=True, help_text="The machine from which it was asked.")
    facts = models.JSONField(default=dict, help_text="Versions and digests.")
    report_sha256 = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-asked_at", "id"]
        permissions = [("run_drill", "Can run a retention drill")]
        constraints = [
            closed("drill", "state", DrillState),
            models.UniqueConstraint(
                fields=["made_up"], condition=OPEN_DRILL & Q(made_up=True), name="drill_one_made_up_open"
            ),
            models.CheckConstraint(
                name="drill_finished_has_report",
                condition=OPEN_DRILL & Q(finished_at__isnull=True)
                | ~OPEN_DRILL & Q(finished_at__isnull=False) & ~Q(report_sha256=""),
            ),
        ]
        indexes = [models.Index(fields=["-asked_at"], name="drill_asked")]

    def __str__(self) -> str:
        return f"drill {self.pk}: {self.state}"


class DrillCheck(models.Model):
    """One thing that a drill looked at. What could not be checked says why, and is not passed."""

    drill = models.ForeignKey(Drill, on_delete=models.CASCADE, related_name="checks")
    place = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=32)
    asked = models.TextField()
    outcome = models.CharField(max_length=16)
    seen = models.TextField()
    facts = models.JSONField(default=dict)
    at = models.DateTimeField()
    seconds = models.FloatField()

    class Meta:
        ordering = ["place"]
        constraints = [
            models.UniqueConstraint(fields=["drill", "name"], name="drill_check_once"),
            closed("drill_check", "outcome", CheckOutcome),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.outcome}"
