"""The shapes that the API answers with. What it takes is described by the engine's own types."""

from typing import Any

import msgspec
from django.urls import NoReverseMatch, reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from rules.words import Domain
from verdicts import limits
from verdicts.choices import Label, Mode, RequestState
from verdicts.expired import as_data
from verdicts.keeping import Kept
from verdicts.models import (
    Attempt,
    AttributionRequest,
    Cluster,
    Comment,
    Node,
    Observation,
    Review,
    RulesetVersion,
    Verdict,
)
from verdicts.verdict_page.compare import Change, compare


class ClusterSerializer(serializers.ModelSerializer[Cluster]):
    """A cluster."""

    class Meta:
        model = Cluster
        fields = ["id", "name", "created_at"]


class NodeSerializer(serializers.ModelSerializer[Node]):
    """A node; `blamed` is the number of standing verdicts that name it as affected."""

    cluster = serializers.CharField(source="cluster.name")
    blamed = serializers.IntegerField()

    class Meta:
        model = Node
        fields = ["id", "cluster", "name", "blamed", "created_at"]


class VerdictSummarySerializer(serializers.ModelSerializer[Verdict]):
    """A verdict in few words."""

    nodes: Any = serializers.SlugRelatedField(slug_field="name", many=True, read_only=True)

    class Meta:
        model = Verdict
        fields = [
            "id",
            "number",
            "mode",
            "state",
            "domain",
            "strength",
            "headline",
            "nodes",
            "created_at",
        ]


class TombstoneSerializer(serializers.Serializer[Any]):
    """That a class of an attempt expired: when, how much, by which rule."""

    kept = serializers.ChoiceField(choices=[kept.value for kept in Kept], help_text="The class.")
    at = serializers.DateTimeField()
    rows = serializers.IntegerField()
    bytes = serializers.IntegerField()
    rule = serializers.CharField()


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    """An attempt with the words of the scheduler, and its standing verdict if it has one."""

    cluster = serializers.CharField(source="cluster.name")
    workload = serializers.CharField(source="workload.name", default="")
    nodes: Any = serializers.SlugRelatedField(slug_field="name", many=True, read_only=True)
    verdict = serializers.SerializerMethodField()

    class Meta:
        model = Attempt
        fields = [
            "id",
            "cluster",
            "scheduler",
            "job_id",
            "submit_time",
            "restart_count",
            "workload",
            "state",
            "user",
            "account",
            "partition",
            "started_at",
            "ended_at",
            "nodes",
            "generation",
            "created_at",
            "origin",
            "verdict",
        ]

    @extend_schema_field(VerdictSummarySerializer(allow_null=True))
    def get_verdict(self, attempt: Attempt) -> dict[str, Any] | None:
        standing: list[Verdict] = getattr(attempt, "standing", [])
        return VerdictSummarySerializer(standing[0]).data if standing else None


class AttemptDetailSerializer(AttemptSerializer):
    """An attempt with everything that was said of it, as in attempt.json."""

    given = serializers.JSONField(source="body")
    expired = serializers.SerializerMethodField()

    class Meta(AttemptSerializer.Meta):
        fields = [*AttemptSerializer.Meta.fields, "given", "expired"]

    @extend_schema_field(TombstoneSerializer(many=True))
    def get_expired(self, attempt: Attempt) -> list[dict[str, Any]]:
        """What expired of it; empty where nothing did."""
        return as_data(attempt)


class ObservationSerializer(serializers.ModelSerializer[Observation]):
    """A stored record of evidence."""

    class Meta:
        model = Observation
        fields = [
            "id",
            "digest",
            "source",
            "collector",
            "node",
            "rank",
            "ref",
            "timestamp",
            "observed_timestamp",
            "body",
            "attributes",
            "count",
        ]


class DeliverySerializer(serializers.Serializer[Any]):
    """What became of a batch of observations."""

    batch = serializers.UUIDField()
    received = serializers.IntegerField()
    stored = serializers.IntegerField()
    repeated = serializers.IntegerField(help_text="Already there, or twice in the batch.")
    cut = serializers.IntegerField(help_text="Refused because their source is full for this attempt.")
    replayed = serializers.BooleanField(help_text="The batch was known: this is the answer it got then.")


class VerdictRowSerializer(serializers.ModelSerializer[Verdict]):
    """A verdict in a list."""

    attempt = serializers.UUIDField(source="attempt_id")
    cluster = serializers.CharField(source="attempt.cluster.name")
    workload = serializers.CharField(source="attempt.workload.name", default="")
    job_id = serializers.CharField(source="attempt.job_id")
    restart_count = serializers.IntegerField(source="attempt.restart_count")
    origin = serializers.CharField(source="attempt.origin", help_text="own, or imported from another site.")
    nodes: Any = serializers.SlugRelatedField(slug_field="name", many=True, read_only=True)
    ruleset = serializers.CharField(source="ruleset.digest")
    coverage = serializers.SerializerMethodField()
    page = serializers.SerializerMethodField()

    class Meta:
        model = Verdict
        fields = [
            "id",
            "attempt",
            "number",
            "is_current",
            "mode",
            "state",
            "domain",
            "strength",
            "headline",
            "cluster",
            "workload",
            "job_id",
            "restart_count",
            "origin",
            "nodes",
            "coverage",
            "ended_at",
            "created_at",
            "superseded_at",
            "ruleset",
            "body_sha256",
            "page",
        ]

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "string"}})
    def get_coverage(self, verdict: Verdict) -> dict[str, str]:
        """The status of each source's collector."""
        return {report["source"]: report["status"] for report in verdict.coverage}

    @extend_schema_field(OpenApiTypes.STR)
    def get_page(self, verdict: Verdict) -> str:
        """The path of the verdict's page."""
        return page_of(verdict)


class VerdictSerializer(VerdictRowSerializer):
    """A verdict with its body. `body_sha256` is over the canonical bytes, which `/verdicts/{id}/body` returns."""

    changes = serializers.SerializerMethodField()
    because = serializers.SerializerMethodField()
    expired = serializers.SerializerMethodField()
    body = serializers.SerializerMethodField()

    class Meta(VerdictRowSerializer.Meta):
        fields = [*VerdictRowSerializer.Meta.fields, "changes", "because", "expired", "body"]

    def to_representation(self, verdict: Verdict) -> Any:
        """The verdict compared once with the one that it superseded."""
        before = None
        if verdict.number > 1:
            earlier = Verdict.objects.filter(attempt_id=verdict.attempt_id, number=verdict.number - 1)
            before = earlier.only("body").first()
        self._change = compare(before.body, verdict.body) if before else Change(what=[], why=[])
        return super().to_representation(verdict)

    @extend_schema_field({"type": "array", "items": {"type": "string"}})
    def get_changes(self, verdict: Verdict) -> list[str]:
        """What differs from the verdict that it superseded, in sentences; empty for the first one."""
        return self._change.what

    @extend_schema_field({"type": "array", "items": {"type": "string"}})
    def get_because(self, verdict: Verdict) -> list[str]:
        """What came between the two: evidence, coverage, rules, the attempt's record."""
        return self._change.why

    @extend_schema_field(TombstoneSerializer(many=True))
    def get_expired(self, verdict: Verdict) -> list[dict[str, Any]]:
        """What expired of its attempt; with quotations gone, `body` has not the hash `body_sha256` any more."""
        return as_data(verdict.attempt)

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_body(self, verdict: Verdict) -> Any:
        """The body in the order of its canonical form."""
        return msgspec.json.decode(verdict.body_json)


class AttributionSerializer(serializers.ModelSerializer[AttributionRequest]):
    """An attribution request and how far it is."""

    attempt = serializers.UUIDField(source="attempt_id")
    state = serializers.ChoiceField(choices=[state.value for state in RequestState])
    mode = serializers.ChoiceField(choices=[mode.value for mode in Mode])
    verdict = serializers.UUIDField(source="verdict_id", allow_null=True)

    class Meta:
        model = AttributionRequest
        fields = [
            "id",
            "attempt",
            "mode",
            "state",
            "verdict",
            "tries",
            "error",
            "created_at",
            "finished_at",
        ]


class AttributionOrderSerializer(serializers.Serializer[Any]):
    """What to ask for. `fast` answers from what is there within `wait` seconds; `slow` is the considered answer."""

    mode = serializers.ChoiceField(choices=[mode.value for mode in Mode], default=Mode.SLOW.value)
    wait = serializers.FloatField(
        min_value=0,
        max_value=limits.MAX_WAIT,
        required=False,
        help_text="Seconds; 5 for fast and 0 for slow if not given.",
    )


class ReviewSerializer(serializers.ModelSerializer[Review]):
    """A person's label on a verdict."""

    verdict = serializers.UUIDField(source="verdict_id", read_only=True)
    author = serializers.CharField(source="author.username", read_only=True)

    class Meta:
        model = Review
        fields = [
            "id",
            "verdict",
            "author",
            "label",
            "actual_domain",
            "actual_nodes",
            "note",
            "created_at",
            "replaced_at",
        ]
        read_only_fields = fields


class CommentSerializer(serializers.ModelSerializer[Comment]):
    """A remark on a verdict, and whom it names."""

    verdict = serializers.UUIDField(source="verdict_id", read_only=True)
    author = serializers.CharField(source="author.username", read_only=True)
    mentions: Any = serializers.SerializerMethodField()

    class Meta:
        model = Comment
        fields = ["id", "verdict", "author", "text", "mentions", "created_at"]
        read_only_fields = ["id", "verdict", "author", "mentions", "created_at"]

    @extend_schema_field({"type": "array", "items": {"type": "string"}})
    def get_mentions(self, comment: Comment) -> list[str]:
        """The names of the people whom it tells."""
        return sorted(mention.person.username for mention in comment.mentions.all())


class ReviewOrderSerializer(serializers.Serializer[Any]):
    """A review to be recorded: `wrong` says what it really was."""

    verdict = serializers.UUIDField()
    label: Any = serializers.ChoiceField(choices=[label.value for label in Label])
    actual_domain = serializers.ChoiceField(
        choices=[domain.value for domain in Domain], required=False, allow_blank=True
    )
    actual_nodes = serializers.ListField(
        child=serializers.CharField(max_length=255),
        required=False,
        max_length=1000,
        default=list,
    )
    note = serializers.CharField(required=False, allow_blank=True, max_length=10_000, default="")


class RulesetVersionSerializer(serializers.ModelSerializer[RulesetVersion]):
    """A ruleset that some verdict used."""

    class Meta:
        model = RulesetVersion
        fields = ["digest", "rules", "layers", "first_used_at"]


class RulesetSerializer(serializers.Serializer[Any]):
    """The ruleset in force, and those that verdicts were made with."""

    digest = serializers.CharField()
    rules = serializers.IntegerField()
    layers = serializers.ListField(child=serializers.CharField())
    used = RulesetVersionSerializer(many=True)


def page_of(verdict: Verdict) -> str:
    """The path of a verdict's page; empty on a site that has no pages."""
    try:
        return reverse("verdicts:detail", args=[verdict.pk])
    except NoReverseMatch:
        return ""
