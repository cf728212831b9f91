"""The rows of recovery."""

import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("verdicts", "0012_telling"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ActuatorState",
            fields=[
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="actuator",
                        serialize=False,
                        to="verdicts.cluster",
                    ),
                ),
                ("kind", models.CharField(max_length=32)),
                ("seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("reachable", models.BooleanField(default=False)),
                ("said", models.TextField(blank=True)),
                ("can", models.JSONField(default=list, help_text="The actions that it can do.")),
            ],
        ),
        migrations.CreateModel(
            name="Consideration",
            fields=[
                (
                    "verdict",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="consideration",
                        serialize=False,
                        to="verdicts.verdict",
                    ),
                ),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                (
                    "said",
                    models.JSONField(
                        default=list, help_text="A line per policy that was looked at: what came of it and why."
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Intake",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("read_until", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="LedgerCheckpoint",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("number", models.PositiveBigIntegerField(help_text="The last entry that it covers.")),
                ("hash", models.CharField(max_length=64)),
                ("made_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ("key_id", models.CharField(help_text="SHA-256 of the public key.", max_length=64)),
                ("signature", models.CharField(max_length=128)),
            ],
            options={
                "ordering": ["-made_at"],
            },
        ),
        migrations.CreateModel(
            name="Policy",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.SlugField(max_length=64, unique=True)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("retired_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name_plural": "policies",
                "ordering": ["name"],
                "permissions": [("promote_policy", "Can promote a policy"), ("demote_policy", "Can demote a policy")],
            },
        ),
        migrations.CreateModel(
            name="Action",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("state", models.CharField(default="pending", max_length=16)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("due_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("turn_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("sent_at", models.DateTimeField(blank=True, null=True)),
                ("lease_owner", models.CharField(blank=True, max_length=255)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("error", models.TextField(blank=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("kind", models.CharField(max_length=32)),
                ("outcome", models.CharField(default="intended", max_length=16)),
                ("mark", models.CharField(max_length=64, unique=True)),
                ("step", models.CharField(blank=True, max_length=32)),
                ("calls", models.JSONField(default=list, help_text="What was sent: step, when, what was answered.")),
                ("observed", models.JSONField(default=dict)),
                ("observed_at", models.DateTimeField(blank=True, null=True)),
                ("deadline", models.DateTimeField()),
                ("why", models.TextField(blank=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="verdicts.cluster",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="Anomaly",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=16)),
                (
                    "event_at",
                    models.DateTimeField(blank=True, help_text="When it happened, as far as can be told.", null=True),
                ),
                ("observed_at", models.DateTimeField(help_text="When the sign of it reached us.")),
                (
                    "detected_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), help_text="When it was found to be one."
                    ),
                ),
                ("proposed_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, help_text="When it was seen to be over.", null=True)),
                ("nodes", models.JSONField(default=list)),
                ("ranks", models.JSONField(default=list, help_text="The ranks that are behind.")),
                ("evidence", models.JSONField(default=dict, help_text="The figures it was found by.")),
                ("said", models.TextField(help_text="One sentence.")),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="anomalies", to="verdicts.attempt"
                    ),
                ),
                (
                    "verdict",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="verdicts.verdict",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "anomalies",
                "ordering": ["-detected_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="Blindness",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("reason", models.TextField()),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="blindness", to="verdicts.attempt"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "blindness",
            },
        ),
        migrations.CreateModel(
            name="Brake",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=16)),
                ("reason", models.TextField()),
                (
                    "opened_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "clears_at",
                    models.DateTimeField(blank=True, help_text="When a pace brake clears by itself.", null=True),
                ),
                ("released_at", models.DateTimeField(blank=True, null=True)),
                ("released_why", models.TextField(blank=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="verdicts.cluster",
                    ),
                ),
                (
                    "opened_by",
                    models.ForeignKey(
                        blank=True,
                        help_text="None where the system did.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "released_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-opened_at", "id"],
                "permissions": [("pull_brake", "Can stop recovery"), ("release_brake", "Can release a stop")],
            },
        ),
        migrations.CreateModel(
            name="Incident",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                (
                    "element",
                    models.CharField(help_text='What is shared: "switch", "rack", "image", "driver" …', max_length=32),
                ),
                ("value", models.CharField(max_length=1024)),
                ("symptom", models.CharField(blank=True, max_length=255)),
                (
                    "opened_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("closed_at", models.DateTimeField(blank=True, null=True)),
                ("nodes", models.JSONField(default=list)),
                ("said", models.TextField()),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="incidents", to="verdicts.cluster"
                    ),
                ),
            ],
            options={
                "ordering": ["-opened_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="LedgerEntry",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=32)),
                ("at", models.DateTimeField(help_text="When it became true, by the database's clock.")),
                (
                    "actor",
                    models.CharField(help_text='"user:NAME", "policy:NAME@VERSION" or "system:PART".', max_length=255),
                ),
                ("subject_kind", models.CharField(max_length=32)),
                ("subject", models.CharField(max_length=255)),
                ("attempt", models.UUIDField(blank=True, null=True)),
                ("body", models.JSONField()),
                ("body_json", models.TextField()),
                ("body_sha256", models.CharField(max_length=64)),
            ],
            options={
                "verbose_name_plural": "ledger entries",
                "ordering": ["at", "id"],
                "permissions": [("export_ledger", "Can export the ledger")],
                "indexes": [
                    models.Index(fields=["subject_kind", "subject"], name="entry_subject"),
                    models.Index(
                        condition=models.Q(("attempt__isnull", False)), fields=["attempt"], name="entry_attempt"
                    ),
                    models.Index(fields=["kind", "-at"], name="entry_kind"),
                    models.Index(fields=["actor", "-at"], name="entry_actor"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "kind__in",
                                [
                                    "verdict.issued",
                                    "verdict.superseded",
                                    "review.given",
                                    "anomaly.detected",
                                    "proposal.made",
                                    "proposal.observed",
                                    "proposal.approved",
                                    "proposal.rejected",
                                    "proposal.asked",
                                    "proposal.expired",
                                    "proposal.withdrawn",
                                    "proposal.vetoed",
                                    "proposal.closed",
                                    "outcome.given",
                                    "label.given",
                                    "action.intended",
                                    "action.sent",
                                    "action.observed",
                                    "milestone.observed",
                                    "exclusion.made",
                                    "exclusion.lifted",
                                    "exclusion.expired",
                                    "exclusion.wrong",
                                    "incident.opened",
                                    "incident.closed",
                                    "veto.set",
                                    "veto.ended",
                                    "policy.created",
                                    "policy.changed",
                                    "policy.retired",
                                    "promotion.asked",
                                    "policy.promoted",
                                    "policy.demoted",
                                    "brake.opened",
                                    "brake.released",
                                    "export.made",
                                    "evidence.read",
                                    "retention.applied",
                                    "hold.set",
                                    "hold.ended",
                                    "sign_in.noted",
                                    "source.blind",
                                    "source.sees",
                                    "ruleset.changed",
                                    "checkpoint.failed",
                                ],
                            )
                        ),
                        name="entry_kind_word",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("body_sha256__regex", "^[0-9a-f]{64}$")), name="entry_sha256_hex"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LedgerContent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("field", models.CharField(max_length=64)),
                ("salt", models.CharField(max_length=64)),
                ("text", models.TextField(blank=True)),
                ("erased_at", models.DateTimeField(blank=True, null=True)),
                (
                    "entry",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="contents",
                        to="recovery.ledgerentry",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="LedgerLink",
            fields=[
                ("number", models.PositiveBigIntegerField(primary_key=True, serialize=False)),
                ("previous", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64, unique=True)),
                (
                    "entry",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="link",
                        to="recovery.ledgerentry",
                    ),
                ),
            ],
            options={
                "ordering": ["number"],
            },
        ),
        migrations.CreateModel(
            name="Milestone",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=32)),
                ("at", models.DateTimeField()),
                ("observed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("evidence", models.JSONField(default=dict)),
                (
                    "action",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="milestones", to="recovery.action"
                    ),
                ),
                (
                    "attempt",
                    models.ForeignKey(
                        blank=True,
                        help_text="The attempt that it was seen in.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="milestones",
                        to="verdicts.attempt",
                    ),
                ),
            ],
            options={
                "ordering": ["at", "id"],
            },
        ),
        migrations.CreateModel(
            name="PolicyVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("body", models.JSONField()),
                ("reason", models.TextField(blank=True)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "author",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="versions", to="recovery.policy"
                    ),
                ),
            ],
            options={
                "ordering": ["policy", "-number"],
            },
        ),
        migrations.CreateModel(
            name="ProgressSample",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("least_step", models.BigIntegerField()),
                ("most_step", models.BigIntegerField()),
                ("checkpoint_step", models.BigIntegerField(blank=True, null=True)),
                ("ranks", models.PositiveIntegerField()),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="progress_samples",
                        to="verdicts.attempt",
                    ),
                ),
            ],
            options={
                "ordering": ["attempt", "at"],
            },
        ),
        migrations.CreateModel(
            name="Proposal",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("cause", models.CharField(max_length=512)),
                ("action", models.CharField(max_length=32)),
                ("mode", models.CharField(help_text="Its policy's mode when it was made.", max_length=16)),
                ("state", models.CharField(max_length=16)),
                ("nodes", models.JSONField(default=list, help_text="The nodes that it takes away or gives back.")),
                ("plan", models.JSONField()),
                ("plan_json", models.TextField()),
                ("plan_sha256", models.CharField(max_length=64)),
                ("generation", models.PositiveIntegerField(default=1)),
                ("approvals_needed", models.PositiveSmallIntegerField(default=1)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("expires_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("ended_why", models.TextField(blank=True)),
                ("must_label", models.BooleanField(default=False)),
                ("injected", models.BooleanField(default=False, help_text="The fault was planted: counted apart.")),
                (
                    "sampled",
                    models.BooleanField(
                        default=False, help_text="An automatic action that a person looks at afterwards."
                    ),
                ),
                ("outcome", models.CharField(blank=True, max_length=16)),
                ("outcome_at", models.DateTimeField(blank=True, null=True)),
                ("outcome_why", models.TextField(blank=True)),
                (
                    "anomaly",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="proposals",
                        to="recovery.anomaly",
                    ),
                ),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="proposals", to="verdicts.attempt"
                    ),
                ),
                (
                    "incident",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="proposals",
                        to="recovery.incident",
                    ),
                ),
                (
                    "made_by",
                    models.ForeignKey(
                        blank=True,
                        help_text="The person who proposed it; none where a policy did.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "verdict",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="proposals",
                        to="verdicts.verdict",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="proposals",
                        to="recovery.policyversion",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
                "permissions": [
                    ("decide_proposal", "Can approve or reject proposals"),
                    ("make_proposal", "Can propose an action"),
                    ("label_proposal", "Can say what was found afterwards"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Exclusion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("node", models.CharField(max_length=255)),
                ("kind", models.CharField(max_length=8)),
                ("symptom", models.CharField(blank=True, max_length=255)),
                ("state", models.CharField(default="standing", max_length=16)),
                ("made_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ("expires_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("ended_why", models.TextField(blank=True)),
                (
                    "wrong_since",
                    models.DateTimeField(
                        blank=True,
                        help_text="When the same symptom came again without the node: it was not the cause.",
                        null=True,
                    ),
                ),
                ("wrong_why", models.TextField(blank=True)),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="exclusions", to="verdicts.attempt"
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="exclusions", to="verdicts.cluster"
                    ),
                ),
                (
                    "proposal",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="exclusions", to="recovery.proposal"
                    ),
                ),
            ],
            options={
                "ordering": ["-made_at", "id"],
                "permissions": [("lift_exclusion", "Can lift an exclusion")],
            },
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=16)),
                ("roles", models.JSONField(default=list)),
                ("seen_sha256", models.CharField(max_length=64)),
                ("reason", models.CharField(blank=True, max_length=32)),
                ("text", models.TextField(blank=True)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                (
                    "by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "proposal",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="decisions", to="recovery.proposal"
                    ),
                ),
            ],
            options={
                "ordering": ["at", "id"],
            },
        ),
        migrations.CreateModel(
            name="Case",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("label", models.CharField(max_length=16)),
                ("basis", models.CharField(max_length=16)),
                ("text", models.TextField(blank=True)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ("replaced_at", models.DateTimeField(blank=True, null=True)),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "proposal",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="labels", to="recovery.proposal"
                    ),
                ),
            ],
            options={
                "ordering": ["-at"],
            },
        ),
        migrations.AddField(
            model_name="action",
            name="proposal",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT, related_name="acted", to="recovery.proposal"
            ),
        ),
        migrations.CreateModel(
            name="RankProgress",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rank", models.PositiveIntegerField(blank=True, null=True)),
                ("node", models.CharField(blank=True, max_length=255)),
                ("gpu", models.CharField(blank=True, max_length=255)),
                ("via", models.CharField(max_length=16)),
                ("step", models.BigIntegerField(blank=True, null=True)),
                ("checkpoint_step", models.BigIntegerField(blank=True, null=True)),
                (
                    "collective",
                    models.BigIntegerField(blank=True, help_text="Sequence number of the last collective.", null=True),
                ),
                (
                    "step_seconds",
                    models.FloatField(blank=True, help_text="How long its last steps took, each.", null=True),
                ),
                (
                    "phase",
                    models.CharField(
                        blank=True, help_text='What the workload says it does, such as "checkpoint".', max_length=64
                    ),
                ),
                ("at", models.DateTimeField(blank=True, null=True)),
                ("observed_at", models.DateTimeField()),
                ("moved_at", models.DateTimeField(blank=True, null=True)),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="progress", to="verdicts.attempt"
                    ),
                ),
            ],
            options={
                "ordering": ["attempt", "rank"],
                "permissions": [("post_progress", "Can post progress of attempts")],
            },
        ),
        migrations.CreateModel(
            name="Scope",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("cluster", models.CharField(blank=True, max_length=255)),
                ("domain", models.CharField(max_length=32)),
                ("mode", models.CharField(default="observe", max_length=16)),
                ("mode_since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("mode_until", models.DateTimeField(blank=True, help_text="When `automatic` expires.", null=True)),
                (
                    "ruleset",
                    models.CharField(blank=True, help_text="The ruleset's digest at the promotion.", max_length=64),
                ),
                ("said", models.TextField(blank=True, help_text="Why it has this mode.")),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="scopes", to="recovery.policy"
                    ),
                ),
            ],
            options={
                "ordering": ["policy", "cluster", "domain"],
            },
        ),
        migrations.AddField(
            model_name="proposal",
            name="scope",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="proposals",
                to="recovery.scope",
            ),
        ),
        migrations.CreateModel(
            name="Promotion",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("to_mode", models.CharField(max_length=16)),
                (
                    "asked_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("reason", models.TextField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("granted", models.BooleanField(default=False)),
                ("meter", models.JSONField(default=dict, help_text="The evidence meter as it stood.")),
                (
                    "asked_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "seconded_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="recovery.policyversion"
                    ),
                ),
                (
                    "scope",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="promotions", to="recovery.scope"
                    ),
                ),
            ],
            options={
                "ordering": ["-asked_at"],
            },
        ),
        migrations.CreateModel(
            name="Veto",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=16)),
                ("value", models.CharField(max_length=255)),
                ("reason", models.TextField()),
                ("set_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ("until", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="verdicts.cluster"
                    ),
                ),
                (
                    "ended_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "vetoes",
                "ordering": ["-set_at", "id"],
                "permissions": [("set_veto", "Can protect nodes and jobs")],
            },
        ),
        migrations.AddIndex(
            model_name="anomaly",
            index=models.Index(fields=["-detected_at"], name="anomaly_detected"),
        ),
        migrations.AddConstraint(
            model_name="anomaly",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at__isnull", True)), fields=("attempt", "kind"), name="anomaly_one_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="anomaly",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["crash", "hang", "straggler"])), name="anomaly_kind_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="brake",
            constraint=models.UniqueConstraint(
                condition=models.Q(("released_at__isnull", True)),
                fields=("cluster", "kind"),
                name="brake_one_pulled",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="brake",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["pace", "stop"])), name="brake_kind_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="brake",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "pace"), _negated=True), ("clears_at__isnull", False), _connector="OR"
                ),
                name="brake_pace_clears",
            ),
        ),
        migrations.AddConstraint(
            model_name="brake",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "stop"), _negated=True),
                    ("released_at__isnull", True),
                    models.Q(("released_why", ""), _negated=True),
                    _connector="OR",
                ),
                name="brake_stop_released_with_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="incident",
            constraint=models.UniqueConstraint(
                condition=models.Q(("closed_at__isnull", True)),
                fields=("cluster", "element", "value"),
                name="incident_one_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="ledgercontent",
            constraint=models.UniqueConstraint(fields=("entry", "field"), name="content_field_once"),
        ),
        migrations.AddConstraint(
            model_name="milestone",
            constraint=models.UniqueConstraint(fields=("action", "kind"), name="milestone_once"),
        ),
        migrations.AddConstraint(
            model_name="milestone",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind__in", ["action_done", "allocation_restarted", "progress_restored", "completed"])
                ),
                name="milestone_kind_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="policyversion",
            constraint=models.UniqueConstraint(fields=("policy", "number"), name="policy_version_number"),
        ),
        migrations.AddConstraint(
            model_name="progresssample",
            constraint=models.UniqueConstraint(fields=("attempt", "at"), name="sample_once"),
        ),
        migrations.AddIndex(
            model_name="exclusion",
            index=models.Index(
                condition=models.Q(("state", "standing")), fields=["cluster", "node"], name="exclusion_standing"
            ),
        ),
        migrations.AddIndex(
            model_name="exclusion",
            index=models.Index(fields=["-made_at"], name="exclusion_made"),
        ),
        migrations.AddConstraint(
            model_name="exclusion",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "standing")),
                fields=("cluster", "node", "kind", "proposal"),
                name="exclusion_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="exclusion",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["job", "node"])), name="exclusion_kind_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="exclusion",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["standing", "lifted", "expired"])), name="exclusion_state_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="exclusion",
            constraint=models.CheckConstraint(
                condition=models.Q(("node", ""), _negated=True), name="exclusion_names_a_node"
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind", "approve")), fields=("proposal", "by"), name="decision_one_approval"
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["approve", "reject", "ask", "withdraw"])), name="decision_kind_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "reason__in",
                        [
                            "wrong_node",
                            "wrong_cause",
                            "too_little_evidence",
                            "not_worth_capacity",
                            "handled_by_hand",
                            "other",
                            "",
                        ],
                    )
                ),
                name="decision_reason_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="case",
            constraint=models.UniqueConstraint(
                condition=models.Q(("replaced_at__isnull", True)), fields=("proposal",), name="case_one_standing"
            ),
        ),
        migrations.AddConstraint(
            model_name="case",
            constraint=models.CheckConstraint(
                condition=models.Q(("label__in", ["right", "wrong", "precaution", "undecidable"])),
                name="case_label_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="case",
            constraint=models.CheckConstraint(
                condition=models.Q(("basis__in", ["diagnostics", "recurrence", "vendor", "inspection", "injected"])),
                name="case_basis_word",
            ),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "running"])), fields=["due_at"], name="action_open_due"
            ),
        ),
        migrations.AddIndex(
            model_name="action",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "running"])),
                fields=["cluster", "turn_at"],
                name="action_turn",
            ),
        ),
        migrations.AddConstraint(
            model_name="action",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "running"), _negated=True),
                    models.Q(("lease_until__isnull", False), models.Q(("lease_owner", ""), _negated=True)),
                    _connector="OR",
                ),
                name="action_running_has_lease",
            ),
        ),
        migrations.AddConstraint(
            model_name="action",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        [
                            "restart",
                            "restart_excluding",
                            "stop",
                            "hold",
                            "notify",
                            "drain",
                            "undrain",
                            "lift_exclusion",
                        ],
                    )
                ),
                name="action_kind_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="action",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("outcome__in", ["intended", "sent", "unknown", "converged", "already_so", "abandoned", "failed"])
                ),
                name="action_outcome_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="action",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["pending", "running", "done", "failed"])), name="action_state_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="rankprogress",
            constraint=models.UniqueConstraint(
                fields=("attempt", "rank", "via"), name="progress_of_rank", nulls_distinct=False
            ),
        ),
        migrations.AddConstraint(
            model_name="rankprogress",
            constraint=models.CheckConstraint(
                condition=models.Q(("via__in", ["post", "log", "prometheus"])), name="progress_via_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="scope",
            constraint=models.UniqueConstraint(fields=("policy", "cluster", "domain"), name="scope_once"),
        ),
        migrations.AddConstraint(
            model_name="scope",
            constraint=models.CheckConstraint(
                condition=models.Q(("mode__in", ["observe", "advisory", "automatic"])), name="scope_mode_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="scope",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("mode", "automatic"), _negated=True), ("mode_until__isnull", False), _connector="OR"
                ),
                name="scope_automatic_expires",
            ),
        ),
        migrations.AddIndex(
            model_name="proposal",
            index=models.Index(fields=["-created_at", "id"], name="proposal_list"),
        ),
        migrations.AddIndex(
            model_name="proposal",
            index=models.Index(
                condition=models.Q(("state__in", ["open", "approved", "acting"])),
                fields=["expires_at"],
                name="proposal_open_expiry",
            ),
        ),
        migrations.AddIndex(
            model_name="proposal",
            index=models.Index(fields=["scope", "-created_at"], name="proposal_scope"),
        ),
        migrations.AddConstraint(
            model_name="proposal",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["open", "approved", "acting"])),
                fields=("attempt", "cause"),
                name="proposal_one_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="proposal",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "action__in",
                        [
                            "restart",
                            "restart_excluding",
                            "stop",
                            "hold",
                            "notify",
                            "drain",
                            "undrain",
                            "lift_exclusion",
                        ],
                    )
                ),
                name="proposal_action_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="proposal",
            constraint=models.CheckConstraint(
                condition=models.Q(("mode__in", ["observe", "advisory", "automatic"])), name="proposal_mode_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="proposal",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "state__in",
                        [
                            "observed",
                            "open",
                            "approved",
                            "acting",
                            "closed",
                            "rejected",
                            "expired",
                            "withdrawn",
                            "vetoed",
                        ],
                    )
                ),
                name="proposal_state_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="proposal",
            constraint=models.CheckConstraint(
                condition=models.Q(("outcome__in", ["worked", "did_not", "not_needed", "cannot_tell", ""])),
                name="proposal_outcome_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="proposal",
            constraint=models.CheckConstraint(
                condition=models.Q(("plan_sha256__regex", "^[0-9a-f]{64}$")), name="proposal_plan_sha256_hex"
            ),
        ),
        migrations.AddConstraint(
            model_name="proposal",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("mode", "observe"), _negated=True), ("state", "observed"), _connector="OR"
                ),
                name="proposal_observed_only_recorded",
            ),
        ),
        migrations.AddConstraint(
            model_name="promotion",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at__isnull", True)), fields=("scope",), name="promotion_one_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="promotion",
            constraint=models.CheckConstraint(
                condition=models.Q(("to_mode__in", ["observe", "advisory", "automatic"])), name="promotion_to_mode_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="promotion",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("seconded_by__isnull", True),
                    models.Q(("seconded_by", models.F("asked_by")), _negated=True),
                    _connector="OR",
                ),
                name="promotion_two_people",
            ),
        ),
        migrations.AddConstraint(
            model_name="promotion",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("granted", False),
                    models.Q(("to_mode", "automatic"), _negated=True),
                    ("seconded_by__isnull", False),
                    _connector="OR",
                ),
                name="promotion_automatic_seconded",
            ),
        ),
        migrations.AddConstraint(
            model_name="veto",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at__isnull", True)),
                fields=("cluster", "kind", "value"),
                name="veto_one_standing",
            ),
        ),
        migrations.AddConstraint(
            model_name="veto",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["node", "job", "group"])), name="veto_kind_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="veto",
            constraint=models.CheckConstraint(
                condition=models.Q(("value", ""), _negated=True), name="veto_names_something"
            ),
        ),
    ]
