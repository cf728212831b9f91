"""What was done to a scheduler, what is kept away because of it, and what came of it as observed."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from recovery.models.proposals import Proposal
from recovery.words import ActionKind, ActionState, ExclusionKind, ExclusionState, MilestoneKind
from verdicts.choices import RequestState
from verdicts.models import Attempt, Cluster
from verdicts.models.checks import OPEN, closed
from verdicts.models.leased import RUNNING_HAS_LEASE, Leased
from verdicts.owed import OwedQuerySet


class Action(Leased):
    """The one effect of an approved proposal, as a row of the queue of record: written before the first call.

    `mark` is readable back from the scheduler. `step` is the labelled step it is at and `observed` the last fresh look.
    `deadline` is when the watchdog gives back or escalates what is half done.
    """

    proposal = models.OneToOneField(Proposal, on_delete=models.PROTECT, related_name="acted")
    kind = models.CharField(max_length=32)
    outcome = models.CharField(max_length=16, default=ActionState.INTENDED.value)
    mark = models.CharField(max_length=64, unique=True)
    step = models.CharField(max_length=32, blank=True)
    calls = models.JSONField(default=list, help_text="What was sent: step, when, what was answered.")
    observed = models.JSONField(default=dict)
    observed_at = models.DateTimeField(null=True, blank=True)
    deadline = models.DateTimeField()
    why = models.TextField(blank=True)

    objects = OwedQuerySet["Action"].as_manager()

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.CheckConstraint(name="action_running_has_lease", condition=RUNNING_HAS_LEASE),
            closed("action", "kind", ActionKind),
            closed("action", "outcome", ActionState),
            closed("action", "state", RequestState),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="action_open_due", condition=OPEN),
            models.Index(fields=["cluster", "turn_at"], name="action_turn", condition=OPEN),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.mark}: {self.outcome}"


class Exclusion(models.Model):
    """A node that is kept away from a job or from everybody, until it is lifted or expires. Each can be lifted."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="exclusions")
    node = models.CharField(max_length=255)
    kind = models.CharField(max_length=8)
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="exclusions")
    proposal = models.ForeignKey(Proposal, on_delete=models.PROTECT, related_name="exclusions")
    symptom = models.CharField(max_length=255, blank=True)
    state = models.CharField(max_length=16, default=ExclusionState.STANDING.value)
    made_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_why = models.TextField(blank=True)
    wrong_since = models.DateTimeField(
        null=True, blank=True, help_text="When the same symptom came again without the node: it was not the cause."
    )
    wrong_why = models.TextField(blank=True)

    class Meta:
        ordering = ["-made_at", "id"]
        permissions = [("lift_exclusion", "Can lift an exclusion")]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "node", "kind", "proposal"],
                condition=Q(state=ExclusionState.STANDING.value),
                name="exclusion_once",
            ),
            closed("exclusion", "kind", ExclusionKind),
            closed("exclusion", "state", ExclusionState),
            models.CheckConstraint(name="exclusion_names_a_node", condition=~Q(node="")),
        ]
        indexes = [
            models.Index(
                fields=["cluster", "node"], name="exclusion_standing", condition=Q(state=ExclusionState.STANDING.value)
            ),
            models.Index(fields=["-made_at"], name="exclusion_made"),
        ]

    def __str__(self) -> str:
        return f"{self.node}: {self.state}"


class Milestone(models.Model):
    """Something that was observed after an action: never assumed. `at` is when it happened, `observed_at` when seen."""

    action = models.ForeignKey(Action, on_delete=models.PROTECT, related_name="milestones")
    kind = models.CharField(max_length=32)
    at = models.DateTimeField()
    observed_at = models.DateTimeField(db_default=Now())
    attempt = models.ForeignKey(
        Attempt,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="milestones",
        help_text="The attempt that it was seen in.",
    )
    evidence = models.JSONField(default=dict)

    class Meta:
        ordering = ["at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["action", "kind"], name="milestone_once"),
            closed("milestone", "kind", MilestoneKind),
        ]

    def __str__(self) -> str:
        return self.kind


class ActuatorState(models.Model):
    """What the dispatcher last said of the way to a cluster's scheduler: pages cannot read its settings."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="actuator", primary_key=True)
    kind = models.CharField(max_length=32)
    seen_at = models.DateTimeField(db_default=Now())
    reachable = models.BooleanField(default=False)
    said = models.TextField(blank=True)
    can = models.JSONField(default=list, help_text="The actions that it can do.")
    partitions = models.JSONField(
        default=dict, help_text="The nodes of each partition, names with commas between them."
    )
    down = models.JSONField(default=list, help_text="The nodes on which no job can start.")
    partitions_at = models.DateTimeField(null=True, blank=True, help_text="When partitions and nodes were last told.")

    def __str__(self) -> str:
        return f"{self.kind} of {self.cluster}"
