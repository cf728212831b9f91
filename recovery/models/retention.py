"""Holds: what must not expire, because somebody said why."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from verdicts.models import Attempt, Cluster, Workload

STANDING = Q(released_at__isnull=True)


class Hold(models.Model):
    """Nothing expires of an attempt, of a workload, or of what ran on a cluster within a time, while it stands.

    `owner` answers for it and `review_on` is the day on which somebody looks whether it is still needed. It does not
    end by itself.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    attempt = models.ForeignKey(Attempt, null=True, blank=True, on_delete=models.PROTECT, related_name="holds")
    workload = models.ForeignKey(Workload, null=True, blank=True, on_delete=models.PROTECT, related_name="holds")
    cluster = models.ForeignKey(Cluster, null=True, blank=True, on_delete=models.PROTECT, related_name="holds")
    after = models.DateTimeField(null=True, blank=True, help_text="Of a cluster: what ran at or after.")
    before = models.DateTimeField(null=True, blank=True, help_text="Of a cluster: what ran before.")
    reason = models.TextField()
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="holds")
    review_on = models.DateField()
    placed_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    placed_at = models.DateTimeField(db_default=Now(), editable=False)
    released_at = models.DateTimeField(null=True, blank=True)
    released_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    released_why = models.TextField(blank=True)

    class Meta:
        ordering = ["-placed_at", "id"]
        permissions = [("hold_evidence", "Can place and release holds")]
        constraints = [
            models.CheckConstraint(
                name="hold_of_one_thing",
                condition=Q(attempt__isnull=False, workload__isnull=True, cluster__isnull=True)
                | Q(attempt__isnull=True, workload__isnull=False, cluster__isnull=True)
                | Q(attempt__isnull=True, workload__isnull=True, cluster__isnull=False),
            ),
            models.CheckConstraint(
                name="hold_of_cluster_has_times",
                condition=Q(cluster__isnull=True, after__isnull=True, before__isnull=True)
                | Q(cluster__isnull=False, after__isnull=False, before__isnull=False, after__lt=F("before")),
            ),
            models.CheckConstraint(name="hold_has_reason", condition=~Q(reason="")),
            models.CheckConstraint(
                name="hold_released_with_reason",
                condition=Q(released_at__isnull=True, released_by__isnull=True)
                | Q(released_at__isnull=False, released_by__isnull=False) & ~Q(released_why=""),
            ),
        ]
        indexes = [
            models.Index(fields=["attempt"], name="hold_attempt_standing", condition=STANDING),
            models.Index(fields=["workload"], name="hold_workload_standing", condition=STANDING),
            models.Index(fields=["cluster"], name="hold_cluster_standing", condition=STANDING),
        ]

    def __str__(self) -> str:
        return f"hold {self.pk}"
