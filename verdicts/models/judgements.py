"""What was concluded for an attempt, and what people said of it."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from rules.words import Domain, Role, Source, State, Strength
from verdicts.choices import FindingStatus, Label, Mode
from verdicts.find import VERDICT_ORDER, UnrecognisedQuerySet, VerdictQuerySet
from verdicts.models.attempts import Attempt, Node
from verdicts.models.checks import CURRENT, closed


class RulesetVersion(models.Model):
    """A ruleset by the hash of its content, as some verdict used it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    digest = models.CharField(max_length=64, unique=True)
    rules = models.PositiveIntegerField()
    layers = models.JSONField(default=list)
    first_used_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-first_used_at"]
        constraints = [models.CheckConstraint(name="ruleset_digest_hex", condition=Q(digest__regex=r"^[0-9a-f]{64}$"))]

    def __str__(self) -> str:
        return self.digest[:12]


class RulesetText(models.Model):
    """The text of a ruleset as it was used: see `verdicts.rulebook.ruleset_text`. Its digest says if it is whole."""

    version = models.OneToOneField(RulesetVersion, on_delete=models.CASCADE, related_name="text", primary_key=True)
    packed = models.BinaryField(help_text="A line of JSON for each file, compressed with zstd.")
    size = models.PositiveIntegerField(help_text="Bytes before compression.")

    def __str__(self) -> str:
        return str(self.version_id)


class Verdict(models.Model):
    """What was concluded for an attempt, once: a trigger refuses any change but being superseded.

    `body_json` is the canonical JSON, byte for byte, and `body` the same for queries and pages.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="verdicts")
    number = models.PositiveIntegerField()
    is_current = models.BooleanField(default=True)
    superseded_at = models.DateTimeField(null=True, blank=True)
    mode = models.CharField(max_length=8)
    state = models.CharField(max_length=32)
    domain = models.CharField(max_length=32)
    strength = models.CharField(max_length=16, blank=True)
    headline = models.TextField()
    ended_at = models.DateTimeField(null=True, blank=True)
    happened_at = models.DateTimeField(help_text="When the attempt ended, else began, else became known.")
    generation = models.PositiveBigIntegerField(help_text="The generation of the evidence it was made from.")
    body = models.JSONField()
    body_json = models.TextField()
    body_sha256 = models.CharField(max_length=64)
    coverage = models.JSONField(default=list, help_text="The body's collector reports, for lists, without their files.")
    ruleset = models.ForeignKey(RulesetVersion, on_delete=models.PROTECT, related_name="verdicts")
    engine = models.CharField(max_length=32)
    nodes = models.ManyToManyField(Node, related_name="verdicts", blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = VerdictQuerySet.as_manager()

    class Meta:
        ordering = VERDICT_ORDER
        constraints = [
            models.UniqueConstraint(fields=["attempt", "number"], name="verdict_number_in_attempt"),
            models.UniqueConstraint(fields=["attempt"], condition=CURRENT, name="verdict_one_current"),
            models.CheckConstraint(name="verdict_number_from_one", condition=Q(number__gte=1)),
            models.CheckConstraint(
                name="verdict_current_or_superseded",
                condition=Q(is_current=True, superseded_at__isnull=True)
                | Q(is_current=False, superseded_at__isnull=False),
            ),
            models.CheckConstraint(
                name="verdict_sha256_hex",
                condition=Q(body_sha256__regex=r"^[0-9a-f]{64}$"),
            ),
            closed("verdict", "mode", Mode),
            closed("verdict", "state", State),
            closed("verdict", "domain", Domain),
            closed("verdict", "strength", Strength, blank=True),
        ]
        indexes = [
            models.Index(
                fields=["-happened_at", "-created_at", "id"],
                name="verdict_list",
                condition=CURRENT,
            ),
            models.Index(
                fields=["domain", "-happened_at"],
                name="verdict_domain",
                condition=CURRENT,
            ),
            models.Index(
                fields=["state", "-happened_at"],
                name="verdict_state",
                condition=CURRENT,
            ),
            models.Index(fields=["created_at"], name="verdict_created"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt_id} #{self.number}"


class Finding(models.Model):
    """One finding of a verdict as a row, for filters and counts; the verdict's body has the whole of it."""

    verdict = models.ForeignKey(Verdict, on_delete=models.CASCADE, related_name="findings")
    finding = models.CharField(max_length=32, help_text='Its name within the verdict, such as "f1".')
    status = models.CharField(max_length=16)
    rule = models.CharField(max_length=255)
    symptom = models.CharField(max_length=255)
    domain = models.CharField(max_length=32, blank=True)
    role = models.CharField(max_length=16)
    strength = models.CharField(max_length=16, blank=True)
    title = models.TextField(blank=True)
    node = models.CharField(max_length=255, blank=True, help_text="Empty also when it was seen on several.")
    gpu = models.CharField(max_length=255, blank=True)
    rank = models.PositiveIntegerField(null=True, blank=True)
    count = models.PositiveBigIntegerField(default=1)
    explained_by = models.CharField(
        max_length=255,
        blank=True,
        help_text="The rule of the finding that explains it.",
    )

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["verdict", "finding", "status"], name="finding_once"),
            closed("finding", "status", FindingStatus),
            closed("finding", "domain", Domain, blank=True),
            closed("finding", "role", Role),
            closed("finding", "strength", Strength, blank=True),
        ]
        indexes = [
            models.Index(fields=["symptom", "verdict"], name="finding_symptom"),
            models.Index(fields=["rule", "verdict"], name="finding_rule"),
            models.Index(fields=["node", "verdict"], name="finding_node"),
        ]

    def __str__(self) -> str:
        return f"{self.finding} {self.rule}"


class UnrecognisedLine(models.Model):
    """A template of error lines that no rule knew, as one verdict has it; for counts over many attempts."""

    verdict = models.ForeignKey(Verdict, on_delete=models.CASCADE, related_name="unrecognised")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the template: its name in addresses.")
    template = models.TextField()
    source = models.CharField(max_length=32)
    count = models.PositiveBigIntegerField(default=1)
    near_end = models.BooleanField(default=False)
    node = models.TextField(blank=True)
    ref = models.TextField(blank=True)
    example = models.TextField(blank=True)

    objects = UnrecognisedQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(name="unrecognised_digest_hex", condition=Q(digest__regex=r"^[0-9a-f]{64}$")),
            closed("unrecognised", "source", Source),
        ]
        indexes = [models.Index(fields=["digest", "id"], name="unrecognised_digest")]

    def __str__(self) -> str:
        return self.template


class Review(models.Model):
    """A person's label on a verdict. Never changed: a second look of the same person replaces the first."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    verdict = models.ForeignKey(Verdict, on_delete=models.CASCADE, related_name="reviews")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="reviews")
    label = models.CharField(max_length=16)
    actual_domain = models.CharField(max_length=32, blank=True, help_text="What it really was, when wrong.")
    actual_nodes = models.JSONField(default=list, blank=True)
    note = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    replaced_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "id"]
        permissions = [("review_verdict", "Can say whether a verdict was right")]
        constraints = [
            models.UniqueConstraint(
                fields=["verdict", "author"],
                condition=Q(replaced_at__isnull=True),
                name="review_one_standing",
            ),
            models.CheckConstraint(
                name="review_wrong_says_what",
                condition=Q(label=Label.WRONG.value) & ~Q(actual_domain="")
                | ~Q(label=Label.WRONG.value) & Q(actual_domain=""),
            ),
            closed("review", "label", Label),
            closed("review", "actual_domain", Domain, blank=True),
        ]

    def __str__(self) -> str:
        return self.label
