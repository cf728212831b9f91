"""Shapes of policies, scopes, promotions and labels in the API."""

from typing import Any
from uuid import UUID

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from recovery.models import Case, Policy, PolicyVersion, Promotion, Proposal, Scope
from recovery.policies import find, labels
from recovery.policies.diff import differences, tightened
from recovery.policies.meter import Labelled, Reading, apart, read
from recovery.words import CaseLabel, LabelBasis, Outcome, PolicyMode


class VersionSerializer(serializers.ModelSerializer[PolicyVersion]):
    """What a policy said, once."""

    author = serializers.CharField(source="author.username", read_only=True, default=None)

    class Meta:
        model = PolicyVersion
        fields = ["number", "body", "author", "reason", "created_at"]


class MeterSerializer(serializers.Serializer):
    """The evidence meter; `n` and `wrong` are incidents. `wealth` at 20 is enough to act by itself."""

    n = serializers.IntegerField()
    wrong = serializers.IntegerField()
    cases = serializers.IntegerField()
    missing = serializers.IntegerField(help_text="Incidents that are wrong for want of a label.")
    waiting = serializers.IntegerField()
    held_up = serializers.IntegerField()
    design_effect = serializers.FloatField()
    wealth = serializers.FloatField()
    promotable = serializers.BooleanField()
    upper_bound = serializers.FloatField(help_text="One-sided 95 % Clopper–Pearson bound of the false-action rate.")
    needed = serializers.IntegerField(help_text="Right incidents in a row that are wanting.")
    a_day = serializers.FloatField()
    days_to_go = serializers.FloatField(allow_null=True)
    p0 = serializers.FloatField()
    p1 = serializers.FloatField()


class ScopeSerializer(serializers.ModelSerializer[Scope]):
    """A policy for one domain on one cluster, with its record."""

    policy = serializers.CharField(source="policy.name", read_only=True)
    meter = serializers.SerializerMethodField()
    injected = serializers.SerializerMethodField(help_text="Planted faults, counted apart.")
    wanting = serializers.SerializerMethodField(help_text="What stands in the way of the next mode, for who asks.")

    class Meta:
        model = Scope
        fields = ["id", "policy", "cluster", "domain", "mode", "mode_since", "mode_until", "ruleset", "said"]
        fields += ["meter", "injected", "wanting"]

    def _cases(self, scope: Scope) -> list[Labelled]:
        """Its cases; of several scopes whoever has the page asks at once."""
        known: dict[UUID, list[Labelled]] = self.context.get("cases", {})
        return known[scope.pk] if scope.pk in known else find.cases_of(scope)

    def _reading(self, scope: Scope) -> Reading:
        return read(self._cases(scope), now=timezone.now())

    @extend_schema_field(MeterSerializer)
    def get_meter(self, scope: Scope) -> dict[str, Any]:
        return dict(MeterSerializer(self._reading(scope)).data)

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_injected(self, scope: Scope) -> dict[str, int]:
        return dict(apart(self._cases(scope)))

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_wanting(self, scope: Scope) -> list[str]:
        step = find.step_up(scope, self._reading(scope), self.context["user"])
        return step.wanting if step else []


class PolicySerializer(serializers.ModelSerializer[Policy]):
    """A policy with its versions, newest first."""

    versions = VersionSerializer(many=True, read_only=True)
    modes = serializers.SerializerMethodField()

    class Meta:
        model = Policy
        fields = ["id", "name", "created_at", "retired_at", "versions", "modes"]

    @extend_schema_field(serializers.ListField(child=serializers.DictField(child=serializers.CharField())))
    def get_modes(self, policy: Policy) -> list[dict[str, str]]:
        return [
            {"scope": str(one.pk), "cluster": one.cluster, "domain": one.domain, "mode": one.mode}
            for one in policy.scopes.all()
        ]


class DiffSerializer(serializers.Serializer):
    """One field that a version changed."""

    field = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class ChangedSerializer(serializers.Serializer):
    """A new version with what it changed; `record_kept` where only limits became tighter."""

    number = serializers.IntegerField()
    differences = DiffSerializer(many=True)
    record_kept = serializers.BooleanField()


def changed(before: PolicyVersion, after: PolicyVersion) -> dict[str, Any]:
    """The answer to a change."""
    return {
        "number": after.number,
        "differences": [
            {"field": one.field, "before": one.before, "after": one.after}
            for one in differences(before.body, after.body)
        ],
        "record_kept": tightened(before.body, after.body),
    }


class CreateSerializer(serializers.Serializer):
    """A new policy."""

    name = serializers.CharField(max_length=64)
    body = serializers.DictField()
    reason = serializers.CharField(max_length=4000)


class ChangeSerializer(serializers.Serializer):
    """A new version; `seen` is the number of the version that the change started from."""

    body = serializers.DictField()
    reason = serializers.CharField(max_length=4000)
    seen = serializers.IntegerField(min_value=1)


class PolicyReasonSerializer(serializers.Serializer):
    """Why."""

    reason = serializers.CharField(max_length=4000)


class TryPolicySerializer(serializers.Serializer):
    """What to try, over how many days, on which cluster."""

    body = serializers.DictField()
    days = serializers.IntegerField(min_value=1, max_value=90, default=14)
    cluster = serializers.CharField(max_length=255, default="", allow_blank=True)


class TriedRowSerializer(serializers.Serializer):
    """One attempt that the policy is about."""

    attempt = serializers.UUIDField()
    job = serializers.CharField()
    workload = serializers.CharField()
    cluster = serializers.CharField()
    at = serializers.DateTimeField()
    domain = serializers.CharField()
    symptom = serializers.CharField()
    strength = serializers.CharField()
    nodes = serializers.ListField(child=serializers.CharField())
    held_up = serializers.CharField(help_text="Why guards would have held it up; empty: it would have acted.")
    done = serializers.CharField(help_text="What was proposed then, and what people decided.")
    outcome = serializers.CharField()
    ended = serializers.CharField(help_text="How the job's next attempt ended.")
    right = serializers.BooleanField(allow_null=True, help_text="The diagnosis, by what was found; null: nobody said.")


class TriedPolicySerializer(serializers.Serializer):
    """What a policy would have done."""

    days = serializers.IntegerField()
    figures = serializers.DictField(child=serializers.IntegerField())
    cut = serializers.DateTimeField(allow_null=True, help_text="Before this time nothing was looked at.")
    why_not = serializers.DictField(child=serializers.IntegerField())
    rows = TriedRowSerializer(many=True)


class PromoteSerializer(serializers.Serializer):
    """A wish to raise or lower a mode."""

    to = serializers.ChoiceField(choices=[mode.value for mode in PolicyMode])
    reason = serializers.CharField(max_length=4000)


class PromotionSerializer(serializers.ModelSerializer[Promotion]):
    """A wish to raise a scope's mode, and what came of it."""

    policy = serializers.CharField(source="scope.policy.name", read_only=True)
    version = serializers.IntegerField(source="version.number", read_only=True)
    asked_by = serializers.CharField(source="asked_by.username", read_only=True)
    seconded_by = serializers.CharField(source="seconded_by.username", read_only=True, default=None)

    class Meta:
        model = Promotion
        fields = ["id", "scope", "policy", "version", "to_mode", "asked_by", "asked_at", "reason", "seconded_by"]
        fields += ["ended_at", "granted", "meter"]


class AwaitingSerializer(serializers.ModelSerializer[Proposal]):
    """A case that waits for its label."""

    proposal = serializers.UUIDField(source="id", read_only=True)
    policy = serializers.CharField(source="version.policy.name", read_only=True, default=None)
    cluster = serializers.CharField(source="attempt.cluster.name", read_only=True)
    due = serializers.SerializerMethodField()

    class Meta:
        model = Proposal
        fields = ["proposal", "attempt", "verdict", "policy", "cluster", "action", "nodes", "cause", "mode", "state"]
        fields += ["created_at", "due", "injected", "sampled"]

    @extend_schema_field(OpenApiTypes.DATETIME)
    def get_due(self, row: Proposal) -> str:
        return labels.due_at(row).isoformat()


class CaseSerializer(serializers.ModelSerializer[Case]):
    """What was found afterwards."""

    by = serializers.CharField(source="by.username", read_only=True, default=None)

    class Meta:
        model = Case
        fields = ["proposal", "label", "basis", "text", "by", "at", "replaced_at"]


class GiveLabelSerializer(serializers.Serializer):
    """What was found, and what that rests on."""

    label = serializers.ChoiceField(choices=[word.value for word in CaseLabel])  # type: ignore[assignment]
    basis = serializers.ChoiceField(choices=[word.value for word in LabelBasis])
    text = serializers.CharField(max_length=4000)


class GiveOutcomeSerializer(serializers.Serializer):
    """What came of a proposal."""

    outcome = serializers.ChoiceField(choices=[word.value for word in Outcome])
    text = serializers.CharField(max_length=4000, default="", allow_blank=True)


class ProposalOutcomeSerializer(serializers.ModelSerializer[Proposal]):
    """What came of a proposal, as it is kept."""

    class Meta:
        model = Proposal
        fields = ["id", "outcome", "outcome_at", "outcome_why"]
