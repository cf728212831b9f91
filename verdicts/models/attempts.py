"""Workloads, their attempts, and the evidence of each."""

import uuid

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Greatest, Now

from rules.words import ReportStatus, Source
from verdicts.choices import Origin, Scheduler
from verdicts.find import AttemptQuerySet, NodeQuerySet
from verdicts.keeping import OF_ATTEMPTS
from verdicts.logs.order import UNDATED
from verdicts.models.checks import closed


class Cluster(models.Model):
    """A cluster by its name; the empty name stands for attempts that did not say."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255, unique=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name or "(no cluster named)"


class Node(models.Model):
    """A machine of a cluster, made when evidence or a scheduler first names it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = NodeQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="node_name_in_cluster"),
            models.CheckConstraint(name="node_has_name", condition=~Q(name="")),
        ]

    def __str__(self) -> str:
        return self.name


class Workload(models.Model):
    """The logical run that may take many attempts: a job name within an account of a cluster."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="workloads")
    account = models.CharField(max_length=255, blank=True)
    name = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "account", "name"], name="workload_name_in_account"),
            models.CheckConstraint(name="workload_has_name", condition=~Q(name="")),
        ]

    def __str__(self) -> str:
        return self.name


class Attempt(models.Model):
    """One execution of a workload. `body` is what `attempt.json` said; columns repeat it for keys and filters.

    `generation` counts changes of the evidence: an attribution that loaded an older one is run again.
    `cut` says of each source how many deliveries of observations the store refused because it was full; what was
    collected is counted under "source collector". `…_expired_at` says since when nothing of a class is kept: what went
    is in `Tombstone`, if anything was there.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="attempts")
    scheduler = models.CharField(max_length=16, blank=True)
    job_id = models.CharField(max_length=256)
    submit_time = models.DateTimeField(null=True, blank=True)
    restart_count = models.PositiveIntegerField(default=0)
    workload = models.ForeignKey(
        Workload,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="attempts",
    )
    state = models.CharField(
        max_length=4096,
        blank=True,
        help_text="The scheduler's own word for how it ended.",
    )
    user = models.CharField(max_length=4096, blank=True)
    account = models.CharField(max_length=255, blank=True)
    partition = models.CharField(max_length=4096, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    nodes = models.ManyToManyField(Node, related_name="attempts", blank=True)
    body = models.JSONField()
    generation = models.PositiveBigIntegerField(default=0)
    cut = models.JSONField(default=dict, blank=True)
    missing_since = models.DateTimeField(
        null=True, blank=True, help_text="Since when the scheduler lists it no more, while nobody says how it ended."
    )
    found_by = models.ForeignKey(
        "verdicts.Discovery",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
        help_text="The discovery that says whether it is still there; none where only tools sent it.",
    )
    origin = models.CharField(max_length=16, default=Origin.OWN.value, db_default=Origin.OWN.value, editable=False)
    lines_expired_at = models.DateTimeField(null=True, blank=True, editable=False)
    quotes_expired_at = models.DateTimeField(null=True, blank=True, editable=False)
    progress_expired_at = models.DateTimeField(null=True, blank=True, editable=False)
    words_expired_at = models.DateTimeField(null=True, blank=True, editable=False, help_text="When some went last.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = AttemptQuerySet.as_manager()

    class Meta:
        ordering = [F("ended_at").desc(nulls_first=True), "-created_at", "id"]
        permissions = [("ingest_evidence", "Can send attempts, observations and reports")]
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "cluster",
                    "scheduler",
                    "job_id",
                    "submit_time",
                    "restart_count",
                ],
                name="attempt_key",
                nulls_distinct=False,
            ),
            models.CheckConstraint(name="attempt_has_job_id", condition=~Q(job_id="")),
            closed("attempt", "scheduler", Scheduler),
            closed("attempt", "origin", Origin),
        ]
        indexes = [
            models.Index(F("ended_at").desc(nulls_first=True), "created_at", name="attempt_ended"),
            models.Index(fields=["job_id"], name="attempt_job_id"),
            models.Index(fields=["cluster", "scheduler"], name="attempt_going_on", condition=Q(ended_at__isnull=True)),
            models.Index(fields=["origin"], name="attempt_foreign", condition=~Q(origin=Origin.OWN.value)),
            # What is still there of a class, the oldest first: nothing of it is older than that.
            *[
                models.Index(
                    Greatest("ended_at", "created_at"),
                    "id",
                    name=f"attempt_{kept.value}",
                    condition=Q(**{f"{kept.value}_expired_at__isnull": True}),
                )
                for kept in OF_ATTEMPTS
            ],
        ]

    def __str__(self) -> str:
        return f"{self.job_id}.{self.restart_count}" if self.restart_count else self.job_id


class CollectorReport(models.Model):
    """What one collector said of its source for an attempt; a later report of it replaces the earlier one."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="reports")
    source = models.CharField(max_length=32)
    collector = models.CharField(max_length=255, blank=True)
    status = models.CharField(max_length=16)
    body = models.JSONField()
    received_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["source", "collector"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "source", "collector"], name="report_per_collector"),
            closed("report", "source", Source),
            closed("report", "status", ReportStatus),
        ]

    def __str__(self) -> str:
        return f"{self.source}: {self.status}"


class Batch(models.Model):
    """A delivery of observations, so that the same delivery twice is answered, not stored, twice."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="batches")
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, help_text="SHA-256 over the digests of its observations.")
    received = models.PositiveIntegerField()
    stored = models.PositiveIntegerField()
    repeated = models.PositiveIntegerField()
    cut = models.PositiveIntegerField()
    received_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["received_at", "id"]
        constraints = [models.UniqueConstraint(fields=["attempt", "key"], name="batch_key_in_attempt")]

    def __str__(self) -> str:
        return self.key


class Observation(models.Model):
    """One record of evidence. `digest` is its identity: the same record is kept once for an attempt.

    `file`, `line`, `clock` and `micros` are told by the others, for sorting.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="observations")
    digest = models.CharField(max_length=64)
    source = models.CharField(max_length=32)
    collector = models.CharField(max_length=255, blank=True)
    node = models.CharField(max_length=255, blank=True)
    rank = models.PositiveIntegerField(null=True, blank=True)
    ref = models.CharField(max_length=1024, blank=True)
    timestamp = models.CharField(max_length=64, null=True, blank=True)
    observed_timestamp = models.CharField(max_length=64, null=True, blank=True)
    body = models.TextField(blank=True)
    attributes = models.JSONField(default=dict, blank=True)
    count = models.PositiveBigIntegerField(default=1)
    file = models.CharField(max_length=1024, blank=True, db_default="", help_text="Of `ref`, without its line.")
    line = models.PositiveBigIntegerField(db_default=0, help_text="Of `ref`; 0 where it names none.")
    clock = models.PositiveSmallIntegerField(db_default=UNDATED, help_text="Whose time `micros` is: see log_order.py.")
    micros = models.BigIntegerField(db_default=0)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "digest"], name="observation_once"),
            models.CheckConstraint(name="observation_count_positive", condition=Q(count__gte=1)),
            closed("observation", "source", Source),
        ]

    def __str__(self) -> str:
        return self.ref or self.digest
