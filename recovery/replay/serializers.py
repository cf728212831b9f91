"""The shapes of replays, of their attempts and of what is asked and judged in the API."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from recovery.models import Replay, ReplayItem
from recovery.replay import begin, find, judge, report
from recovery.replay.words import ItemOutcome, Judgement, ReplayKind
from rules.words import Source


class ReplayRowSerializer(serializers.ModelSerializer[Replay]):
    """A replay as the list shows it."""

    asked = serializers.SerializerMethodField()
    done = serializers.IntegerField(help_text="Attempts that were looked at.")
    weighty = serializers.IntegerField(help_text="Those whose conclusion would be otherwise in what is acted on.")

    @extend_schema_field(str)
    def get_asked(self, row: Replay) -> str:
        """What it asks, as a sentence."""
        return find.asked(row)

    class Meta:
        model = Replay
        fields = [
            "id", "kind", "asked", "ruleset", "ablation", "query", "state", "total", "done", "weighty", "actor",
            "reason", "created_at", "ended_at",
        ]  # fmt: skip


class CountsSerializer(serializers.Serializer[Any]):
    """How far a replay is, and what it found so far."""

    total = serializers.IntegerField()
    waiting = serializers.IntegerField()
    same = serializers.IntegerField()
    changed = serializers.IntegerField()
    weighty = serializers.IntegerField()
    unreplayable = serializers.IntegerField()
    failed = serializers.IntegerField()
    part = serializers.IntegerField(help_text="Replayed from evidence that was never kept whole.")
    differs = serializers.IntegerField(help_text="Not reproducible under their own rules, and nothing explains it.")
    accepted = serializers.IntegerField()
    rejected = serializers.IntegerField()
    unjudged = serializers.IntegerField()
    stronger = serializers.IntegerField()


class ReplayGroupSerializer(serializers.Serializer[Any]):
    """Changes for one reason."""

    move = serializers.CharField()
    rules = serializers.ListField(child=serializers.CharField())
    tried = serializers.BooleanField(help_text="Whether each of the rules does it by itself.")
    weighty = serializers.BooleanField()
    attempts = serializers.IntegerField()
    accepted = serializers.IntegerField()
    rejected = serializers.IntegerField()


class GateSerializer(serializers.Serializer[Any]):
    """What a replay says of a policy in one class of verdict on one cluster."""

    policy = serializers.CharField(source="scope.policy.name")
    cluster = serializers.CharField(source="scope.cluster")
    domain = serializers.CharField(source="scope.domain")
    mode = serializers.CharField(source="scope.mode")
    ruleset = serializers.CharField()
    replay = serializers.UUIDField(source="replay.pk", default=None, allow_null=True)
    passes = serializers.BooleanField()
    said = serializers.CharField()


class ReasonSerializer(serializers.Serializer[Any]):
    """Why attempts could not be replayed, or not whole."""

    outcome = serializers.CharField()
    why = serializers.CharField()
    attempts = serializers.IntegerField()


class ReplaySerializer(ReplayRowSerializer):
    """A replay with what it found by reason, and what it says of policies."""

    counts = CountsSerializer()
    groups = ReplayGroupSerializer(many=True)
    cannot = ReasonSerializer(many=True)
    gate = GateSerializer(many=True)

    class Meta(ReplayRowSerializer.Meta):
        fields = [*ReplayRowSerializer.Meta.fields, "counts", "groups", "cannot", "gate"]


class ItemSerializer(serializers.BaseSerializer[ReplayItem]):
    """One attempt of a replay, as the export has it."""

    def to_representation(self, instance: ReplayItem) -> dict[str, Any]:
        return report.row(instance)


class ItemShape(serializers.Serializer[Any]):
    """One attempt of a replay: what stands, what would be concluded, by which rules, and what people said."""

    number = serializers.IntegerField()
    attempt = serializers.UUIDField()
    verdict = serializers.UUIDField(allow_null=True)
    cluster = serializers.CharField()
    job_id = serializers.CharField()
    restart_count = serializers.IntegerField()
    outcome = serializers.ChoiceField(choices=[word.value or "waiting" for word in ItemOutcome])
    reproducible = serializers.CharField(allow_null=True)
    weighty = serializers.BooleanField()
    stronger = serializers.BooleanField()
    move = serializers.CharField()
    rules = serializers.ListField(child=serializers.CharField())
    rules_alone = serializers.BooleanField()
    said = serializers.ListField(child=serializers.CharField())
    before = serializers.DictField()
    after = serializers.DictField()
    why = serializers.CharField()
    judged = serializers.CharField()
    judged_by = serializers.CharField(allow_null=True)
    judged_at = serializers.DateTimeField(allow_null=True)
    judged_why = serializers.CharField()


class WishSerializer(serializers.Serializer[Any]):
    """What is to be tried on which attempts."""

    kind = serializers.ChoiceField(choices=[word.value for word in ReplayKind], default=ReplayKind.RULES.value)
    ruleset = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=64,
        help_text="A digest or its beginning; the rules in force if not said.",
    )
    query = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=8000,
        help_text="Filters as in the address of the list of verdicts.",
    )
    reason = serializers.CharField(required=False, allow_blank=True, max_length=begin.LONGEST_REASON)
    without = serializers.ChoiceField(choices=[source.value for source in Source], required=False)
    delay = serializers.ChoiceField(choices=[source.value for source in Source], required=False)
    seconds = serializers.FloatField(required=False)
    line = serializers.CharField(required=False, allow_blank=True, max_length=16_384)
    source = serializers.ChoiceField(  # type: ignore[assignment]
        choices=[source.value for source in Source], required=False
    )
    node = serializers.CharField(required=False, allow_blank=True, max_length=255)
    at = serializers.CharField(required=False, allow_blank=True, max_length=64)


class JudgeSerializer(serializers.Serializer[Any]):
    """What is said of changes, by their numbers, or of all that nobody judged."""

    judgement = serializers.ChoiceField(choices=[Judgement.ACCEPTED.value, Judgement.REJECTED.value])
    items = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**31 - 1), required=False, max_length=10_000
    )
    all = serializers.BooleanField(default=False)
    reason = serializers.CharField(max_length=judge.LONGEST_REASON)


class JudgedSerializer(serializers.Serializer[Any]):
    """How many were judged."""

    judged = serializers.IntegerField()


class TriedRulesetSerializer(serializers.Serializer[Any]):
    """A ruleset that can be tried."""

    digest = serializers.CharField()
    rules = serializers.IntegerField()
    layers = serializers.ListField(child=serializers.CharField())
    used = serializers.BooleanField(help_text="Whether verdicts were made with it.")
    at = serializers.DateTimeField(help_text="When it was first used, or kept to be tried.")
