"""The shapes of proposals, decisions, exclusions, shared causes, brakes and vetoes in the API."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from recovery.models import Action, Brake, Decision, Exclusion, Incident, Milestone, Proposal, Veto


class ProposalRowSerializer(serializers.ModelSerializer[Proposal]):
    """A proposal as a list shows it."""

    cluster = serializers.CharField(source="attempt.cluster.name")
    job_id = serializers.CharField(source="attempt.job_id")
    restart_count = serializers.IntegerField(source="attempt.restart_count")
    workload = serializers.CharField(source="attempt.workload.name", default="")
    policy = serializers.CharField(source="version.policy.name", default="")
    policy_version = serializers.IntegerField(source="version.number", default=None)
    made_by = serializers.CharField(source="made_by.username", default="")
    says = serializers.CharField(source="plan.says")
    domain = serializers.CharField(source="verdict.domain", default="")
    strength = serializers.CharField(source="verdict.strength", default="")
    headline = serializers.CharField(source="verdict.headline", default="")
    approvals = serializers.IntegerField()

    class Meta:
        model = Proposal
        fields = [
            "id", "action", "state", "mode", "attempt", "cluster", "job_id", "restart_count", "workload", "verdict",
            "anomaly", "incident", "domain", "strength", "headline", "cause", "nodes", "says", "policy",
            "policy_version", "made_by", "plan_sha256", "generation", "approvals", "approvals_needed", "created_at",
            "expires_at", "decided_at", "ended_at", "ended_why", "outcome", "injected", "must_label", "sampled",
        ]  # fmt: skip


class DecisionSerializer(serializers.ModelSerializer[Decision]):
    """What a person said of a proposal."""

    by = serializers.CharField(source="by.username")

    class Meta:
        model = Decision
        fields = ["id", "kind", "by", "roles", "seen_sha256", "reason", "text", "at"]


class MilestoneSerializer(serializers.ModelSerializer[Milestone]):
    """Something that was seen after an action."""

    class Meta:
        model = Milestone
        fields = ["kind", "at", "observed_at", "attempt", "evidence"]


class ActionSerializer(serializers.ModelSerializer[Action]):
    """What was done and what was seen of it."""

    milestones = MilestoneSerializer(many=True)

    class Meta:
        model = Action
        fields = [
            "id", "kind", "outcome", "mark", "step", "calls", "observed", "observed_at", "created_at", "deadline",
            "why", "error", "finished_at", "milestones",
        ]  # fmt: skip


class ExclusionSerializer(serializers.ModelSerializer[Exclusion]):
    """A node that is or was kept away."""

    cluster = serializers.CharField(source="cluster.name")
    job_id = serializers.CharField(source="attempt.job_id")

    class Meta:
        model = Exclusion
        fields = [
            "id", "cluster", "node", "kind", "attempt", "job_id", "proposal", "symptom", "state", "made_at",
            "expires_at", "ended_at", "ended_why", "wrong_since", "wrong_why",
        ]  # fmt: skip


class RefusalSerializer(serializers.Serializer[Any]):
    """A guard that stands against a plan."""

    guard = serializers.CharField()
    said = serializers.CharField()
    clears = serializers.BooleanField()


class ProposalSerializer(ProposalRowSerializer):
    """A proposal with its plan, what stands against it now, what was said of it and what came of it."""

    plan = serializers.DictField()
    decisions = DecisionSerializer(many=True)
    action_done = serializers.SerializerMethodField()
    exclusions = ExclusionSerializer(many=True)
    against = serializers.SerializerMethodField()

    @extend_schema_field(ActionSerializer(allow_null=True))
    def get_action_done(self, row: Proposal) -> Any:
        """The action, if one was begun."""
        found = self.context["action"]
        return ActionSerializer(found).data if found is not None else None

    @extend_schema_field(RefusalSerializer(many=True))
    def get_against(self, row: Proposal) -> Any:
        """The guards that stand against it now."""
        return RefusalSerializer(self.context["against"], many=True).data

    class Meta(ProposalRowSerializer.Meta):
        fields = [*ProposalRowSerializer.Meta.fields, "plan", "decisions", "action_done", "exclusions", "against"]


class DecideSerializer(serializers.Serializer[Any]):
    """What is decided, having seen the plan with that hash."""

    decision = serializers.ChoiceField(choices=["approve", "reject", "ask", "withdraw"])
    seen = serializers.CharField(max_length=64, required=False, allow_blank=True, help_text="plan_sha256 as shown")
    reason = serializers.CharField(max_length=32, required=False, allow_blank=True)
    text = serializers.CharField(max_length=10_000, required=False, allow_blank=True)


class ProposeSerializer(serializers.Serializer[Any]):
    """An action that a person or a tool proposes for an attempt."""

    attempt = serializers.UUIDField()
    action = serializers.CharField(max_length=32)
    nodes = serializers.ListField(child=serializers.CharField(max_length=255), required=False, max_length=1000)
    reason = serializers.CharField(max_length=10_000)


class ReasonSerializer(serializers.Serializer[Any]):
    """Why something is done."""

    reason = serializers.CharField(max_length=2000)


class IncidentSerializer(serializers.ModelSerializer[Incident]):
    """A cause that several failures share."""

    cluster = serializers.CharField(source="cluster.name")

    class Meta:
        model = Incident
        fields = ["id", "cluster", "element", "value", "symptom", "nodes", "said", "opened_at", "closed_at"]


class BrakeSerializer(serializers.ModelSerializer[Brake]):
    """A brake; without a cluster it holds all of them."""

    cluster = serializers.CharField(source="cluster.name", default=None)
    opened_by = serializers.CharField(source="opened_by.username", default=None)
    released_by = serializers.CharField(source="released_by.username", default=None)

    class Meta:
        model = Brake
        fields = [
            "id", "cluster", "kind", "reason", "opened_by", "opened_at", "clears_at", "released_at", "released_by",
            "released_why",
        ]  # fmt: skip


class PullSerializer(serializers.Serializer[Any]):
    """A stop of a cluster, or of all where none is named."""

    cluster = serializers.CharField(max_length=255, required=False, allow_blank=True)
    reason = serializers.CharField(max_length=2000)


class VetoSerializer(serializers.ModelSerializer[Veto]):
    """Something that is left alone."""

    cluster = serializers.CharField(source="cluster.name")
    by = serializers.CharField(source="by.username")

    class Meta:
        model = Veto
        fields = ["id", "cluster", "kind", "value", "reason", "by", "set_at", "until", "ended_at"]


class ProtectSerializer(serializers.Serializer[Any]):
    """A veto to set."""

    cluster = serializers.CharField(max_length=255)
    kind = serializers.CharField(max_length=16)
    value = serializers.CharField(max_length=255)
    reason = serializers.CharField(max_length=2000)
    hours = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=8760)
