"""Policies, what they may do where, and the record that promotes or demotes them."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from recovery.words import PolicyMode
from verdicts.models.checks import closed


class Policy(models.Model):
    """Which action a class of verdict may lead to. What it says is in its versions."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.SlugField(max_length=64, unique=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    retired_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "policies"
        permissions = [("promote_policy", "Can promote a policy"), ("demote_policy", "Can demote a policy")]

    def __str__(self) -> str:
        return self.name


class PolicyVersion(models.Model):
    """What a policy says, written once: see `recovery.policy.Rule` for the body."""

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    body = models.JSONField()
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["policy", "-number"]
        constraints = [models.UniqueConstraint(fields=["policy", "number"], name="policy_version_number")]

    def __str__(self) -> str:
        return f"{self.policy}@{self.number}"


class Scope(models.Model):
    """A policy for one class of verdict (its domain) on one cluster, with its mode. It starts in `observe`.

    Promotion is by scope: what was learned of GPUs on one cluster says nothing about switches on another.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="scopes")
    cluster = models.CharField(max_length=255, blank=True)
    domain = models.CharField(max_length=32)
    mode = models.CharField(max_length=16, default=PolicyMode.OBSERVE.value)
    mode_since = models.DateTimeField(db_default=Now())
    mode_until = models.DateTimeField(null=True, blank=True, help_text="When `automatic` expires.")
    ruleset = models.CharField(max_length=64, blank=True, help_text="The ruleset's digest at the promotion.")
    said = models.TextField(blank=True, help_text="Why it has this mode.")

    class Meta:
        ordering = ["policy", "cluster", "domain"]
        constraints = [
            models.UniqueConstraint(fields=["policy", "cluster", "domain"], name="scope_once"),
            closed("scope", "mode", PolicyMode),
            models.CheckConstraint(
                name="scope_automatic_expires",
                condition=~Q(mode=PolicyMode.AUTOMATIC.value) | Q(mode_until__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.policy} · {self.domain} · {self.cluster or '(no cluster named)'}"


class Promotion(models.Model):
    """A wish to raise a scope's mode. `automatic` needs two different people with the right to promote."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="promotions")
    version = models.ForeignKey(PolicyVersion, on_delete=models.PROTECT, related_name="+")
    to_mode = models.CharField(max_length=16)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField(db_default=Now(), editable=False)
    reason = models.TextField()
    seconded_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    ended_at = models.DateTimeField(null=True, blank=True)
    granted = models.BooleanField(default=False)
    meter = models.JSONField(default=dict, help_text="The evidence meter as it stood.")

    class Meta:
        ordering = ["-asked_at"]
        constraints = [
            models.UniqueConstraint(fields=["scope"], condition=Q(ended_at__isnull=True), name="promotion_one_open"),
            closed("promotion", "to_mode", PolicyMode),
            models.CheckConstraint(
                name="promotion_two_people",
                condition=Q(seconded_by__isnull=True) | ~Q(seconded_by=models.F("asked_by")),
            ),
            models.CheckConstraint(
                name="promotion_automatic_seconded",
                condition=Q(granted=False) | ~Q(to_mode=PolicyMode.AUTOMATIC.value) | Q(seconded_by__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope} to {self.to_mode}"
