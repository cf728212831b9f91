"""Retention drills, the two entries of the ledger that tell of one, and who may run one."""

import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.apps import apps as installed
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.db import migrations, models

READ = ("view_drill", "view_drillcheck")
GROUPS = {
    "viewer": READ,
    "reviewer": READ,
    "operator": READ,
    "lead": (*READ, "run_drill"),
    "policy admin": READ,
    "administrator": (*READ, "run_drill"),
}
ENTRY_KINDS = [
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
    "record.imported",
    "evidence.read",
    "retention.applied",
    "hold.set",
    "hold.ended",
    "sign_in.noted",
    "source.blind",
    "source.sees",
    "ruleset.changed",
    "replay.begun",
    "replay.ended",
    "replay.judged",
    "checkpoint.failed",
    "drill.begun",
    "drill.ended",
]


def give(apps, schema_editor):
    create_permissions(
        installed.get_app_config("recovery"), apps=apps, using=schema_editor.connection.alias, verbosity=0
    )
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label="recovery")
    for name, codenames in GROUPS.items():
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        group.permissions.add(*permissions.filter(codename__in=codenames))


class Migration(migrations.Migration):
    dependencies = [
        ("recovery", "0011_replay"),
        ("verdicts", "0017_origin"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Drill",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("state", models.CharField(default="asked", max_length=16)),
                ("made_up", models.BooleanField(default=True)),
                ("attempt", models.UUIDField(blank=True, null=True)),
                ("job_id", models.CharField(blank=True, max_length=256)),
                ("via", models.CharField(help_text="schedule, console, api or command-line.", max_length=16)),
                (
                    "asked_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "asked_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "address",
                    models.CharField(blank=True, help_text="Where the site was asked.", max_length=1000),
                ),
                (
                    "host",
                    models.CharField(blank=True, help_text="The machine from which it was asked.", max_length=255),
                ),
                ("facts", models.JSONField(default=dict, help_text="Versions and digests.")),
                ("report_sha256", models.CharField(blank=True, max_length=64)),
            ],
            options={
                "ordering": ["-asked_at", "id"],
                "permissions": [("run_drill", "Can run a retention drill")],
            },
        ),
        migrations.CreateModel(
            name="DrillCheck",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "drill",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="checks", to="recovery.drill"
                    ),
                ),
                ("place", models.PositiveSmallIntegerField()),
                ("name", models.CharField(max_length=32)),
                ("asked", models.TextField()),
                ("outcome", models.CharField(max_length=16)),
                ("seen", models.TextField()),
                ("facts", models.JSONField(default=dict)),
                ("at", models.DateTimeField()),
                ("seconds", models.FloatField()),
            ],
            options={"ordering": ["place"]},
        ),
        migrations.AddIndex(model_name="drill", index=models.Index(fields=["-asked_at"], name="drill_asked")),
        migrations.AddConstraint(
            model_name="drill",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["asked", "running", "passed", "failed", "incomplete"])),
                name="drill_state_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="drill",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["asked", "running"]), ("made_up", True)),
                fields=("made_up",),
                name="drill_one_made_up_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="drill",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state__in", ["asked", "running"]), ("finished_at__isnull", True)),
                    models.Q(
                        models.Q(("state__in", ["asked", "running"]), _negated=True),
                        ("finished_at__isnull", False),
                        models.Q(("report_sha256", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="drill_finished_has_report",
            ),
        ),
        migrations.AddConstraint(
            model_name="drillcheck",
            constraint=models.UniqueConstraint(fields=("drill", "name"), name="drill_check_once"),
        ),
        migrations.AddConstraint(
            model_name="drillcheck",
            constraint=models.CheckConstraint(
                condition=models.Q(("outcome__in", ["passed", "failed", "not_checked"])),
                name="drill_check_outcome_word",
            ),
        ),
        migrations.RemoveConstraint(model_name="ledgerentry", name="entry_kind_word"),
        migrations.AddConstraint(
            model_name="ledgerentry",
            constraint=models.CheckConstraint(condition=models.Q(("kind__in", ENTRY_KINDS)), name="entry_kind_word"),
        ),
        migrations.RunPython(give, migrations.RunPython.noop),
    ]
