"""The shapes of progress and anomalies in the API."""

from typing import Any

from rest_framework import serializers

from recovery.models import Anomaly, Blindness, ProgressReading, RankProgress


class AnomalySerializer(serializers.ModelSerializer[Anomaly]):
    """A detected crash, hang or straggler with its four times and the figures that it rests on."""

    cluster = serializers.CharField(source="attempt.cluster.name")
    job_id = serializers.CharField(source="attempt.job_id")
    restart_count = serializers.IntegerField(source="attempt.restart_count")
    workload = serializers.CharField(source="attempt.workload.name", default="")

    class Meta:
        model = Anomaly
        fields = [
            "id", "kind", "attempt", "cluster", "job_id", "restart_count", "workload", "event_at", "observed_at",
            "detected_at", "proposed_at", "ended_at", "nodes", "ranks", "said", "evidence", "verdict",
        ]  # fmt: skip


class RankSerializer(serializers.ModelSerializer[RankProgress]):
    """The newest sign of a rank; null is unknown, which is not zero."""

    class Meta:
        model = RankProgress
        fields = [
            "rank", "node", "gpu", "via", "step", "checkpoint_step", "collective", "step_seconds", "phase", "at",
            "observed_at", "moved_at",
        ]  # fmt: skip


class ReadingSerializer(serializers.ModelSerializer[ProgressReading]):
    """How far a feed was read for an attempt: nothing is known by it after `read_until`."""

    feed = serializers.CharField(source="feed.name")
    via = serializers.CharField(source="feed.via")

    class Meta:
        model = ProgressReading
        fields = ["feed", "via", "tried_at", "read_until", "wrote_at", "lines", "signs", "said"]


class BlindnessSerializer(serializers.ModelSerializer[Blindness]):
    """Why hangs of an attempt would not be seen."""

    class Meta:
        model = Blindness
        fields = ["reason", "since"]


class AttemptProgressSerializer(serializers.Serializer[Any]):
    """How far an attempt is, by what this is known, and whether its hangs would be seen."""

    attempt = serializers.UUIDField()
    step_min = serializers.IntegerField(allow_null=True)
    step_max = serializers.IntegerField(allow_null=True)
    checkpoint_step = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField(allow_null=True)
    observed_at = serializers.DateTimeField(allow_null=True)
    blindness = BlindnessSerializer(allow_null=True)
    feeds = ReadingSerializer(many=True)
    ranks = RankSerializer(many=True, help_text="The least far first, 200 at most.")
    ranks_known = serializers.IntegerField()


class PostedSerializer(serializers.Serializer[Any]):
    """What became of a delivery."""

    attempt = serializers.UUIDField()
    received = serializers.IntegerField()
    ranks = serializers.IntegerField()
    moved = serializers.IntegerField(help_text="Ranks that are elsewhere than before.")
    late = serializers.IntegerField(help_text="Signs that were older than what stands.")
