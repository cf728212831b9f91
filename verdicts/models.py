"""Rows and constraints of the verdict store. No verbs: `record.py` writes, `find.py` reads."""

import uuid
from enum import StrEnum

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from rules.words import Domain, ReportStatus, Role, Source, State, Strength
from verdicts.choices import (
    OPEN_STATES,
    FindingStatus,
    Label,
    Mode,
    RequestState,
    Scheduler,
)
from verdicts.find import (
    VERDICT_ORDER,
    AttemptQuerySet,
    NodeQuerySet,
    RequestQuerySet,
    UnrecognisedQuerySet,
    VerdictQuerySet,
)

CURRENT = Q(is_current=True)
OPEN = Q(state__in=[state.value for state in OPEN_STATES])


def _words(enum: type[StrEnum], *, blank: bool = False) -> list[str]:
    """The words of a closed set, for a check constraint."""
    return [word.value for word in enum] + ([""] if blank else [])


def _closed(model: str, field: str, enum: type[StrEnum], *, blank: bool = False) -> models.CheckConstraint:
    """The database's own check that a column holds a word of its set."""
    return models.CheckConstraint(
        name=f"{model}_{field}_word",
        condition=Q(**{f"{field}__in": _words(enum, blank=blank)}),
    )


class Cluster(models.Model):
    """A cluster by its name; the empty name stands for attempts that did not say."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=255, unique=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name or "(no cluster named)"


class Node(models.Model):
    """A machine of a cluster, made when evidence or a scheduler first names it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = NodeQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="node_name_in_cluster"),
            models.CheckConstraint(name="node_has_name", condition=~Q(name="")),
        ]

    def __str__(self) -> str:
        return self.name


class Workload(models.Model):
    """The logical run that may take many attempts: a job name within an account of a cluster."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="workloads")
    account = models.CharField(max_length=255, blank=True)
    name = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "account", "name"], name="workload_name_in_account"),
            models.CheckConstraint(name="workload_has_name", condition=~Q(name="")),
        ]

    def __str__(self) -> str:
        return self.name


class Attempt(models.Model):
    """One execution of a workload. `body` is what `attempt.json` said; columns repeat it for keys and filters.

    `generation` counts changes of the evidence: an attribution that loaded an older one is run again.
    `cut` says of each source how many deliveries of observations the store refused because it was full.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="attempts")
    scheduler = models.CharField(max_length=16, blank=True)
    job_id = models.CharField(max_length=256)
    submit_time = models.DateTimeField(null=True, blank=True)
    restart_count = models.PositiveIntegerField(default=0)
    workload = models.ForeignKey(
        Workload,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="attempts",
    )
    state = models.CharField(
        max_length=4096,
        blank=True,
        help_text="The scheduler's own word for how it ended.",
    )
    user = models.CharField(max_length=4096, blank=True)
    account = models.CharField(max_length=255, blank=True)
    partition = models.CharField(max_length=4096, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    nodes = models.ManyToManyField(Node, related_name="attempts", blank=True)
    body = models.JSONField()
    generation = models.PositiveBigIntegerField(default=0)
    cut = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = AttemptQuerySet.as_manager()

    class Meta:
        ordering = [F("ended_at").desc(nulls_first=True), "-created_at", "id"]
        permissions = [("ingest_evidence", "Can send attempts, observations and reports")]
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "cluster",
                    "scheduler",
                    "job_id",
                    "submit_time",
                    "restart_count",
                ],
                name="attempt_key",
                nulls_distinct=False,
            ),
            models.CheckConstraint(name="attempt_has_job_id", condition=~Q(job_id="")),
            _closed("attempt", "scheduler", Scheduler),
        ]
        indexes = [
            models.Index(F("ended_at").desc(nulls_first=True), "created_at", name="attempt_ended"),
            models.Index(fields=["job_id"], name="attempt_job_id"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}.{self.restart_count}" if self.restart_count else self.job_id


class CollectorReport(models.Model):
    """What one collector said of its source for an attempt; a later report of it replaces the earlier one."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="reports")
    source = models.CharField(max_length=32)
    collector = models.CharField(max_length=255, blank=True)
    status = models.CharField(max_length=16)
    body = models.JSONField()
    received_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["source", "collector"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "source", "collector"], name="report_per_collector"),
            _closed("report", "source", Source),
            _closed("report", "status", ReportStatus),
        ]

    def __str__(self) -> str:
        return f"{self.source}: {self.status}"


class Batch(models.Model):
    """A delivery of observations, so that the same delivery twice is answered, not stored, twice."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="batches")
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, help_text="SHA-256 over the digests of its observations.")
    received = models.PositiveIntegerField()
    stored = models.PositiveIntegerField()
    repeated = models.PositiveIntegerField()
    cut = models.PositiveIntegerField()
    received_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["received_at", "id"]
        constraints = [models.UniqueConstraint(fields=["attempt", "key"], name="batch_key_in_attempt")]

    def __str__(self) -> str:
        return self.key


class Observation(models.Model):
    """One record of evidence. `digest` is its identity: the same record is kept once for an attempt."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="observations")
    digest = models.CharField(max_length=64)
    source = models.CharField(max_length=32)
    collector = models.CharField(max_length=255, blank=True)
    node = models.CharField(max_length=255, blank=True)
    rank = models.PositiveIntegerField(null=True, blank=True)
    ref = models.CharField(max_length=1024, blank=True)
    timestamp = models.CharField(max_length=64, null=True, blank=True)
    observed_timestamp = models.CharField(max_length=64, null=True, blank=True)
    body = models.TextField(blank=True)
    attributes = models.JSONField(default=dict, blank=True)
    count = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "digest"], name="observation_once"),
            models.CheckConstraint(name="observation_count_positive", condition=Q(count__gte=1)),
            _closed("observation", "source", Source),
        ]

    def __str__(self) -> str:
        return self.ref or self.digest


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
            _closed("verdict", "mode", Mode),
            _closed("verdict", "state", State),
            _closed("verdict", "domain", Domain),
            _closed("verdict", "strength", Strength, blank=True),
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
            _closed("finding", "status", FindingStatus),
            _closed("finding", "domain", Domain, blank=True),
            _closed("finding", "role", Role),
            _closed("finding", "strength", Strength, blank=True),
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
            _closed("unrecognised", "source", Source),
        ]
        indexes = [models.Index(fields=["digest", "verdict"], name="unrecognised_digest")]

    def __str__(self) -> str:
        return self.template


class DriftCheck(models.Model):
    """What the daily look for parser drift found; metrics and the page read the last one."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    checked_at = models.DateTimeField(db_default=Now(), editable=False)
    until = models.DateTimeField()
    days = models.PositiveSmallIntegerField()
    attempts_before = models.PositiveIntegerField()
    attempts_after = models.PositiveIntegerField()
    ruleset = models.CharField(max_length=64, help_text="Digest of the rules that the windows were compared by.")
    signs = models.JSONField(default=list)

    class Meta:
        ordering = ["-checked_at", "id"]
        constraints = [models.CheckConstraint(name="drift_days_positive", condition=Q(days__gte=1))]
        indexes = [models.Index(fields=["-checked_at"], name="drift_checked")]

    def __str__(self) -> str:
        return f"{self.days} days until {self.until:%Y-%m-%d}"


class AttributionRequest(models.Model):
    """The queue of record: a row says what is owed, a Celery message only wakes a worker.

    A worker holds a row for the time of its lease. `fence` rises with each taking, so that a worker
    that outlived its lease cannot finish what another one took over.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="requests")
    mode = models.CharField(max_length=8)
    state = models.CharField(max_length=16, default=RequestState.PENDING.value)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    due_at = models.DateTimeField(db_default=Now())
    sent_at = models.DateTimeField(null=True, blank=True)
    deadline = models.DateTimeField(null=True, blank=True)
    lease_owner = models.CharField(max_length=255, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    fence = models.PositiveBigIntegerField(default=0)
    tries = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    generation = models.PositiveBigIntegerField(null=True, blank=True, help_text="The evidence that it answered for.")
    verdict = models.ForeignKey(
        Verdict,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="requests",
    )
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = RequestQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "id"]
        permissions = [("request_attribution", "Can ask for an attribution")]
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "mode"],
                condition=OPEN,
                name="request_one_open",
            ),
            models.CheckConstraint(
                name="request_running_has_lease",
                condition=~Q(state=RequestState.RUNNING.value) | Q(lease_until__isnull=False) & ~Q(lease_owner=""),
            ),
            models.CheckConstraint(
                name="request_done_has_verdict",
                condition=~Q(state=RequestState.DONE.value) | Q(verdict__isnull=False, finished_at__isnull=False),
            ),
            _closed("request", "mode", Mode),
            _closed("request", "state", RequestState),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="request_open_due", condition=OPEN),
        ]

    def __str__(self) -> str:
        return f"{self.mode} {self.state}"


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
            _closed("review", "label", Label),
            _closed("review", "actual_domain", Domain, blank=True),
        ]

    def __str__(self) -> str:
        return self.label
