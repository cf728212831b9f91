"""How far workloads got, and what was detected: the signal, which is neither the cause nor the decision."""

import uuid

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from recovery.words import AnomalyKind, Via
from verdicts.models import Attempt, Cluster, Verdict
from verdicts.models.checks import closed


class RankProgress(models.Model):
    """The last sign of progress of one rank of an attempt; `rank` is empty where the sign is the whole job's.

    `at` is when it happened by the sender's clock, `observed_at` when we learned of it. `moved_at` is when its step or
    collective last changed, as observed. `paces` are its `step_seconds` of late, each behind when we learned of it
    (seconds since 1970). Unknown is null: it is not zero.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="progress")
    rank = models.PositiveIntegerField(null=True, blank=True)
    node = models.CharField(max_length=255, blank=True)
    gpu = models.CharField(max_length=255, blank=True)
    via = models.CharField(max_length=16)
    step = models.BigIntegerField(null=True, blank=True)
    checkpoint_step = models.BigIntegerField(null=True, blank=True)
    collective = models.BigIntegerField(null=True, blank=True, help_text="Sequence number of the last collective.")
    step_seconds = models.FloatField(null=True, blank=True, help_text="How long its last steps took, each.")
    phase = models.CharField(
        max_length=64, blank=True, help_text='What the workload says it does, such as "checkpoint".'
    )
    at = models.DateTimeField(null=True, blank=True)
    observed_at = models.DateTimeField()
    moved_at = models.DateTimeField(null=True, blank=True)
    paces = models.JSONField(default=list)

    class Meta:
        ordering = ["attempt", "rank"]
        permissions = [("post_progress", "Can post progress of attempts")]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "rank", "via"], name="progress_of_rank", nulls_distinct=False),
            closed("progress", "via", Via),
        ]

    def __str__(self) -> str:
        return f"{self.attempt_id} rank {self.rank}: {self.step}"


class ProgressSample(models.Model):
    """How far an attempt was at a time, at most one a minute: its own pace comes from these."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="progress_samples")
    at = models.DateTimeField()
    least_step = models.BigIntegerField()
    most_step = models.BigIntegerField()
    checkpoint_step = models.BigIntegerField(null=True, blank=True)
    ranks = models.PositiveIntegerField()

    class Meta:
        ordering = ["attempt", "at"]
        constraints = [models.UniqueConstraint(fields=["attempt", "at"], name="sample_once")]

    def __str__(self) -> str:
        return f"{self.attempt_id} {self.least_step}–{self.most_step}"


class ProgressFeed(models.Model):
    """A configured way by which Inquest itself looks how far attempts are, and whether it answers."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="progress_feeds")
    name = models.CharField(max_length=100)
    via = models.CharField(max_length=16)
    looked_at = models.DateTimeField(null=True, blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0, help_text="Looks in a row that it did not answer.")
    error = models.TextField(blank=True)

    class Meta:
        ordering = ["cluster__name", "name"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="feed_once"),
            closed("feed", "via", Via),
        ]

    def __str__(self) -> str:
        return self.name


class ProgressReading(models.Model):
    """How far a feed was read for an attempt. `wrote_at` is the newest line or sample that was seen, whatever it said.

    Nothing is known of the attempt by this feed after `read_until`: a clock of silence stands still there.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="progress_readings")
    feed = models.ForeignKey(ProgressFeed, on_delete=models.CASCADE, related_name="readings")
    tried_at = models.DateTimeField()
    read_until = models.DateTimeField(null=True, blank=True)
    lines = models.PositiveBigIntegerField(default=0)
    signs = models.PositiveBigIntegerField(default=0)
    wrote_at = models.DateTimeField(null=True, blank=True)
    said = models.TextField(blank=True, help_text="What went wrong with the last look.")

    class Meta:
        ordering = ["attempt", "feed"]
        constraints = [models.UniqueConstraint(fields=["attempt", "feed"], name="reading_once")]

    def __str__(self) -> str:
        return f"{self.feed_id} for {self.attempt_id}"


class Anomaly(models.Model):
    """A detected crash, hang or straggler. Four times, each its own: what happened, was seen, found and proposed."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="anomalies")
    kind = models.CharField(max_length=16)
    event_at = models.DateTimeField(null=True, blank=True, help_text="When it happened, as far as can be told.")
    observed_at = models.DateTimeField(help_text="When the sign of it reached us.")
    detected_at = models.DateTimeField(db_default=Now(), help_text="When it was found to be one.")
    proposed_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True, help_text="When it was seen to be over.")
    nodes = models.JSONField(default=list)
    ranks = models.JSONField(default=list, help_text="The ranks that are behind.")
    evidence = models.JSONField(default=dict, help_text="The figures it was found by.")
    said = models.TextField(help_text="One sentence.")
    verdict = models.ForeignKey(Verdict, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-detected_at", "id"]
        verbose_name_plural = "anomalies"
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "kind"], condition=Q(ended_at__isnull=True), name="anomaly_one_open"
            ),
            closed("anomaly", "kind", AnomalyKind),
        ]
        indexes = [models.Index(fields=["-detected_at"], name="anomaly_detected")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.attempt_id}"


class Blindness(models.Model):
    """Why hangs of an attempt would not be seen: a result that is shown, not a gap in silence."""

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="blindness")
    reason = models.TextField()
    since = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "blindness"

    def __str__(self) -> str:
        return self.reason
