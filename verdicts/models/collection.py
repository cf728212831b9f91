"""Reading clusters as rows: looks for attempts, collections of evidence, and how the sources are."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from rules.words import ReportStatus, Source
from verdicts.choices import CollectionReason, RequestState, SourceHealth
from verdicts.models.attempts import Attempt, Cluster
from verdicts.models.checks import OPEN, closed
from verdicts.models.leased import RUNNING_HAS_LEASE, Leased
from verdicts.owed import OwedQuerySet


class Discovery(Leased):
    """A look for attempts that comes round: never done, always due again. `cursor` is where it goes on from."""

    name = models.CharField(max_length=100)
    cursor = models.JSONField(default=dict, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    succeeded_at = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0, help_text="Looks in a row that failed.")
    notes = models.JSONField(default=list, blank=True)
    found = models.PositiveIntegerField(default=0, help_text="Attempts that the last look told of.")

    objects = OwedQuerySet["Discovery"].as_manager()

    class Meta:
        ordering = ["cluster__name", "name"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="discovery_once"),
            models.CheckConstraint(name="discovery_running_has_lease", condition=RUNNING_HAS_LEASE),
            closed("discovery", "state", RequestState),
        ]

    def __str__(self) -> str:
        return self.name


class Collection(models.Model):
    """One round of collecting an attempt's evidence from all sources of its cluster.

    The clock starts with the first source that is asked (`started_at`): `fast_at` is when a first verdict is given from
    what came by then, `deadline` when the verdict is made with what is there. `round` counts from 1; later rounds ask
    for what was late or could not be had.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="collections")
    round = models.PositiveSmallIntegerField(default=1)
    reason = models.CharField(max_length=16)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    due_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    fast_at = models.DateTimeField(null=True, blank=True)
    deadline = models.DateTimeField(null=True, blank=True)
    fast_asked_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["attempt"], condition=Q(finished_at__isnull=True), name="collection_one_open"
            ),
            models.UniqueConstraint(fields=["attempt", "round"], name="collection_round"),
            closed("collection", "reason", CollectionReason),
        ]
        indexes = [models.Index(fields=["deadline"], condition=Q(finished_at__isnull=True), name="collection_open")]

    def __str__(self) -> str:
        return f"{self.attempt_id} round {self.round}"


class CollectionTask(Leased):
    """One source for one collection: what was asked of it and what came."""

    collection = models.ForeignKey(Collection, on_delete=models.CASCADE, related_name="tasks")
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=32)
    source = models.CharField(max_length=32)
    status = models.CharField(max_length=16, blank=True)
    reason = models.TextField(blank=True)
    read = models.PositiveBigIntegerField(default=0)
    kept = models.PositiveBigIntegerField(default=0)
    bytes = models.PositiveBigIntegerField(default=0)
    seconds = models.FloatField(null=True, blank=True)
    again = models.BooleanField(default=False, help_text="It was late or could not be had: it is asked once more.")

    objects = OwedQuerySet["CollectionTask"].as_manager()

    class Meta:
        ordering = ["source", "name"]
        constraints = [
            models.UniqueConstraint(fields=["collection", "name"], name="task_once"),
            models.CheckConstraint(name="task_running_has_lease", condition=RUNNING_HAS_LEASE),
            closed("task", "state", RequestState),
            closed("task", "source", Source),
            closed("task", "status", ReportStatus, blank=True),
        ]
        indexes = [models.Index(fields=["cluster", "turn_at"], name="task_turn", condition=OPEN)]

    def __str__(self) -> str:
        return f"{self.name}: {self.status or self.state}"


class SourceState(models.Model):
    """How a configured source is: by its collections, which leave it alone while it does not answer, and by its checks.

    `blind_since` says since when what it does not say proves nothing.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="sources")
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=32)
    source = models.CharField(max_length=32)
    failures = models.PositiveIntegerField(default=0, help_text="Collections in a row that it did not answer.")
    retry_at = models.DateTimeField(null=True, blank=True, help_text="Until then it is left alone.")
    answered_at = models.DateTimeField(null=True, blank=True)
    failed_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)
    health = models.CharField(max_length=16, default=SourceHealth.UNCHECKED.value)
    blind_since = models.DateTimeField(null=True, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)
    check_body = models.JSONField(default=dict, blank=True, help_text="What the last check found.")

    class Meta:
        ordering = ["cluster__name", "source", "name"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="source_once"),
            closed("source", "source", Source),
            closed("source", "health", SourceHealth),
        ]

    def __str__(self) -> str:
        return self.name
