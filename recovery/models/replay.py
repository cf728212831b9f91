"""Replays: which rules or which evidence were tried, on which attempts, and what would be concluded otherwise."""

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from recovery.replay.words import Again, ItemOutcome, Judgement, ReplayKind, ReplayState
from verdicts.choices import RequestState
from verdicts.models import Attempt, Verdict
from verdicts.models.checks import OPEN, closed
from verdicts.models.leased import RUNNING_HAS_LEASE, Leased
from verdicts.owed import OwedQuerySet


class CandidateRuleset(models.Model):
    """A ruleset that was or is to be tried, with its text, so that workers on any machine can run it.

    It has no row among those that verdicts used: nothing was concluded with it.
    """

    digest = models.CharField(max_length=64, primary_key=True)
    rules = models.PositiveIntegerField()
    layers = models.JSONField(default=list)
    packed = models.BinaryField(help_text="A line of JSON for each file, compressed with zstd.")
    size = models.PositiveIntegerField(help_text="Bytes before compression.")
    kept_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-kept_at"]
        constraints = [
            models.CheckConstraint(name="candidate_digest_hex", condition=Q(digest__regex=r"^[0-9a-f]{64}$"))
        ]

    def __str__(self) -> str:
        return self.digest[:12]


class Replay(models.Model):
    """One question put to many attempts. `query` is the address of the list of verdicts that names them."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=16)
    ruleset = models.ForeignKey(
        CandidateRuleset, null=True, blank=True, on_delete=models.PROTECT, related_name="replays"
    )
    ablation = models.JSONField(default=dict, blank=True)
    query = models.TextField(blank=True)
    state = models.CharField(max_length=16, default=ReplayState.RUNNING.value)
    total = models.PositiveIntegerField(default=0)
    actor = models.CharField(max_length=255, help_text='Who started it, as the ledger spells it: "user:NAME".')
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True, blank=True, help_text="When it was done or cancelled last.")

    class Meta:
        ordering = ["-created_at", "id"]
        permissions = [("start_replay", "Can start a replay"), ("judge_replay", "Can accept or reject its changes")]
        constraints = [
            closed("replay", "kind", ReplayKind),
            closed("replay", "state", ReplayState),
            models.CheckConstraint(
                name="replay_rules_are_named",
                condition=Q(kind=ReplayKind.RULES.value, ruleset__isnull=False)
                | Q(ruleset__isnull=True) & ~Q(kind=ReplayKind.RULES.value),
            ),
            models.CheckConstraint(
                name="replay_ended_or_running",
                condition=Q(state=ReplayState.RUNNING.value, ended_at__isnull=True)
                | Q(ended_at__isnull=False) & ~Q(state=ReplayState.RUNNING.value),
            ),
        ]
        indexes = [models.Index(fields=["-created_at"], name="replay_made")]

    def __str__(self) -> str:
        return f"{self.kind} {self.state}"


class ReplayItem(models.Model):
    """One attempt of a replay: the verdict that it stands beside, and what would be concluded."""

    replay = models.ForeignKey(Replay, on_delete=models.CASCADE, related_name="items")
    number = models.PositiveIntegerField(help_text="Its place in the replay, from one.")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="replayed")
    verdict = models.ForeignKey(Verdict, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    outcome = models.CharField(max_length=16, blank=True)
    again = models.CharField(max_length=16, blank=True)
    why = models.TextField(blank=True, help_text="Why it could not be replayed, or not from all that there was.")
    weighty = models.BooleanField(default=False, help_text="Whether it changes what policies or people act on.")
    stronger = models.BooleanField(default=False, help_text="Whether it would be told with more strength.")
    domain_before = models.CharField(max_length=32, blank=True)
    domain_after = models.CharField(max_length=32, blank=True)
    move = models.CharField(max_length=80, blank=True)
    rules = ArrayField(models.CharField(max_length=255), default=list, blank=True)
    tried = models.BooleanField(default=True, help_text="Whether each of the rules does it by itself.")
    said = models.JSONField(default=list, blank=True)
    before = models.JSONField(default=dict, blank=True)
    after = models.JSONField(default=dict, blank=True)
    done_at = models.DateTimeField(null=True, blank=True)
    judged = models.CharField(max_length=16, blank=True)
    judged_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    judged_at = models.DateTimeField(null=True, blank=True)
    judged_why = models.TextField(blank=True)

    class Meta:
        ordering = ["replay", "number"]
        constraints = [
            models.UniqueConstraint(fields=["replay", "number"], name="replay_item_number"),
            models.UniqueConstraint(fields=["replay", "attempt"], name="replay_item_once"),
            closed("replayitem", "outcome", ItemOutcome),
            closed("replayitem", "again", Again),
            closed("replayitem", "judged", Judgement),
            models.CheckConstraint(
                name="replay_item_judged_when",
                condition=Q(judged="", judged_at__isnull=True) | Q(judged_at__isnull=False) & ~Q(judged=""),
            ),
        ]
        indexes = [models.Index(fields=["replay", "outcome", "number"], name="replay_item_outcome")]

    def __str__(self) -> str:
        return f"{self.number} {self.outcome or 'waiting'}"


class ReplayChunk(Leased):
    """Some items of a replay in a row: what a worker takes at once. `at` is the item that was begun last."""

    replay = models.ForeignKey(Replay, on_delete=models.CASCADE, related_name="chunks")
    first = models.PositiveIntegerField()
    last = models.PositiveIntegerField()
    at = models.PositiveIntegerField(null=True, blank=True)

    objects = OwedQuerySet["ReplayChunk"].as_manager()

    class Meta:
        ordering = ["replay", "first"]
        constraints = [
            models.CheckConstraint(name="replay_chunk_running_has_lease", condition=RUNNING_HAS_LEASE),
            closed("replaychunk", "state", RequestState),
        ]
        indexes = [
            models.Index(fields=["turn_at"], name="replay_chunk_turn", condition=OPEN),
            models.Index(fields=["replay", "state"], name="replay_chunk_of"),
        ]

    def __str__(self) -> str:
        return f"{self.first} to {self.last} {self.state}"
