"""Decisions: proposals with their frozen plans, what people said of them, and shared-cause incidents."""

import uuid

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from recovery.models.policies import PolicyVersion, Scope
from recovery.models.signals import Anomaly
from recovery.words import (
    OPEN_PROPOSALS,
    ActionKind,
    BrakeKind,
    CaseLabel,
    DecisionKind,
    LabelBasis,
    Outcome,
    PolicyMode,
    ProposalState,
    RejectReason,
    VetoKind,
)
from verdicts.models import Attempt, Cluster, Verdict
from verdicts.models.checks import closed

OPEN_PROPOSAL = Q(state__in=[state.value for state in OPEN_PROPOSALS])


class Incident(models.Model):
    """One cause under many attempts: an element that they share. Its nodes are not excluded."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="incidents")
    element = models.CharField(max_length=32, help_text='What is shared: "switch", "rack", "image", "driver" …')
    value = models.CharField(max_length=1024)
    symptom = models.CharField(max_length=255, blank=True)
    opened_at = models.DateTimeField(db_default=Now(), editable=False)
    closed_at = models.DateTimeField(null=True, blank=True)
    nodes = models.JSONField(default=list)
    said = models.TextField()

    class Meta:
        ordering = ["-opened_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "element", "value"], condition=Q(closed_at__isnull=True), name="incident_one_open"
            )
        ]

    def __str__(self) -> str:
        return f"{self.element} {self.value}"


class Consideration(models.Model):
    """What recovery made of a verdict, once: proposed something, or why not."""

    verdict = models.OneToOneField(Verdict, on_delete=models.CASCADE, related_name="consideration", primary_key=True)
    at = models.DateTimeField(db_default=Now(), editable=False)
    said = models.JSONField(default=list, help_text="A line per policy that was looked at: what came of it and why.")

    def __str__(self) -> str:
        return str(self.verdict_id)


class Proposal(models.Model):
    """A recommended action: the plan is frozen, and what is approved is its hash. See `recovery.plan.Plan`.

    `cause` names what it is for: the finding's rule and locus, or the anomaly. The same attempt and cause never has
    two open proposals. `must_label` was drawn when it was made: such a case counts as wrong until it has a label.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="proposals")
    verdict = models.ForeignKey(Verdict, null=True, blank=True, on_delete=models.PROTECT, related_name="proposals")
    anomaly = models.ForeignKey(Anomaly, null=True, blank=True, on_delete=models.PROTECT, related_name="proposals")
    incident = models.ForeignKey(Incident, null=True, blank=True, on_delete=models.PROTECT, related_name="proposals")
    scope = models.ForeignKey(Scope, null=True, blank=True, on_delete=models.PROTECT, related_name="proposals")
    version = models.ForeignKey(
        PolicyVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="proposals"
    )
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="The person who proposed it; none where a policy did.",
    )
    cause = models.CharField(max_length=512)
    action = models.CharField(max_length=32)
    mode = models.CharField(max_length=16, help_text="Its policy's mode when it was made.")
    state = models.CharField(max_length=16)
    nodes = models.JSONField(default=list, help_text="The nodes that it takes away or gives back.")
    plan = models.JSONField()
    plan_json = models.TextField()
    plan_sha256 = models.CharField(max_length=64)
    generation = models.PositiveIntegerField(default=1)
    approvals_needed = models.PositiveSmallIntegerField(default=1)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_why = models.TextField(blank=True)
    must_label = models.BooleanField(default=False)
    injected = models.BooleanField(default=False, help_text="The fault was planted: counted apart.")
    sampled = models.BooleanField(default=False, help_text="An automatic action that a person looks at afterwards.")
    outcome = models.CharField(max_length=16, blank=True)
    outcome_at = models.DateTimeField(null=True, blank=True)
    outcome_why = models.TextField(blank=True)
    outcome_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Who said so; none where it was seen by itself.",
    )

    class Meta:
        ordering = ["-created_at", "id"]
        permissions = [
            ("decide_proposal", "Can approve or reject proposals"),
            ("make_proposal", "Can propose an action"),
            ("label_proposal", "Can say what was found afterwards"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "cause"], condition=OPEN_PROPOSAL, name="proposal_one_open"),
            closed("proposal", "action", ActionKind),
            closed("proposal", "mode", PolicyMode),
            closed("proposal", "state", ProposalState),
            closed("proposal", "outcome", Outcome, blank=True),
            models.CheckConstraint(name="proposal_plan_sha256_hex", condition=Q(plan_sha256__regex=r"^[0-9a-f]{64}$")),
            models.CheckConstraint(
                name="proposal_observed_only_recorded",
                condition=~Q(mode=PolicyMode.OBSERVE.value) | Q(state=ProposalState.OBSERVED.value),
            ),
        ]
        indexes = [
            models.Index(fields=["-created_at", "id"], name="proposal_list"),
            models.Index(fields=["expires_at"], name="proposal_open_expiry", condition=OPEN_PROPOSAL),
            models.Index(fields=["scope", "-created_at"], name="proposal_scope"),
            GinIndex(fields=["nodes"], opclasses=["jsonb_path_ops"], name="proposal_nodes"),
        ]

    def __str__(self) -> str:
        return f"{self.action} for {self.attempt_id}: {self.state}"


class Decision(models.Model):
    """What a person said of a proposal, having seen the plan with that hash. Written once."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    proposal = models.ForeignKey(Proposal, on_delete=models.PROTECT, related_name="decisions")
    kind = models.CharField(max_length=16)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    roles = models.JSONField(default=list)
    seen_sha256 = models.CharField(max_length=64)
    reason = models.CharField(max_length=32, blank=True)
    text = models.TextField(blank=True)
    at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["proposal", "by"], condition=Q(kind=DecisionKind.APPROVE.value), name="decision_one_approval"
            ),
            closed("decision", "kind", DecisionKind),
            closed("decision", "reason", RejectReason, blank=True),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.by_id}"


class Case(models.Model):
    """What was found afterwards about the diagnosis under a proposal: the evidence that promotes or demotes.

    A newer label replaces an older one; the meter reads those that stand.
    """

    proposal = models.ForeignKey(Proposal, on_delete=models.PROTECT, related_name="labels")
    label = models.CharField(max_length=16)
    basis = models.CharField(max_length=16)
    text = models.TextField(blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now(), editable=False)
    replaced_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-at"]
        constraints = [
            models.UniqueConstraint(
                fields=["proposal"], condition=Q(replaced_at__isnull=True), name="case_one_standing"
            ),
            closed("case", "label", CaseLabel),
            closed("case", "basis", LabelBasis),
        ]

    def __str__(self) -> str:
        return f"{self.label} ({self.basis})"


class Veto(models.Model):
    """A node, job or shared element that is left alone, also in mid-flight, until the veto ends."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=16)
    value = models.CharField(max_length=255)
    reason = models.TextField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    set_at = models.DateTimeField(db_default=Now(), editable=False)
    until = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        ordering = ["-set_at", "id"]
        verbose_name_plural = "vetoes"
        permissions = [("set_veto", "Can protect nodes and jobs")]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "kind", "value"], condition=Q(ended_at__isnull=True), name="veto_one_standing"
            ),
            closed("veto", "kind", VetoKind),
            models.CheckConstraint(name="veto_names_something", condition=~Q(value="")),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"


class Brake(models.Model):
    """A brake that was pulled on a cluster; without a cluster, on all. It never stops what gives back."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=16)
    reason = models.TextField()
    opened_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="None where the system did.",
    )
    opened_at = models.DateTimeField(db_default=Now(), editable=False)
    clears_at = models.DateTimeField(null=True, blank=True, help_text="When a pace brake clears by itself.")
    released_at = models.DateTimeField(null=True, blank=True)
    released_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    released_why = models.TextField(blank=True)

    class Meta:
        ordering = ["-opened_at", "id"]
        permissions = [("pull_brake", "Can stop recovery"), ("release_brake", "Can release a stop")]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "kind"],
                condition=Q(released_at__isnull=True),
                name="brake_one_pulled",
                nulls_distinct=False,
            ),
            closed("brake", "kind", BrakeKind),
            models.CheckConstraint(
                name="brake_pace_clears", condition=~Q(kind=BrakeKind.PACE.value) | Q(clears_at__isnull=False)
            ),
            models.CheckConstraint(
                name="brake_stop_released_with_reason",
                condition=~Q(kind=BrakeKind.STOP.value) | Q(released_at__isnull=True) | ~Q(released_why=""),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.cluster or 'all clusters'}"
