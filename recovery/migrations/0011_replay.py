"""Replays, and who may start and judge them."""

import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.apps import apps as installed
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.db import migrations, models

READ = tuple(f"view_{model}" for model in ("candidateruleset", "replay", "replayitem"))
START, JUDGE = ("start_replay",), ("judge_replay",)
GROUPS = {
    "viewer": READ,
    "reviewer": (*READ, *START, *JUDGE),
    "operator": (*READ, *START),
    "lead": (*READ, *START, *JUDGE),
    "policy admin": (*READ, *START),
    "administrator": (*READ, *START, *JUDGE),
}


def give(apps, schema_editor):
    # Django makes permissions after all migrations; the groups need them now.
    create_permissions(
        installed.get_app_config("recovery"), apps=apps, using=schema_editor.connection.alias, verbosity=0
    )
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label="recovery")
    for name, codenames in GROUPS.items():
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        group.permissions.add(*permissions.filter(codename__in=codenames))


def take_away(apps, schema_editor):
    codenames = {codename for given in GROUPS.values() for codename in given}
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label="recovery")
    for group in apps.get_model("auth", "Group").objects.filter(name__in=GROUPS):
        group.permissions.remove(*permissions.filter(codename__in=codenames))


class Migration(migrations.Migration):
    dependencies = [
        ("recovery", "0010_retention"),
        ("verdicts", "0018_evidence_read"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="CandidateRuleset",
            fields=[
                ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("rules", models.PositiveIntegerField()),
                ("layers", models.JSONField(default=list)),
                ("packed", models.BinaryField(help_text="A line of JSON for each file, compressed with zstd.")),
                ("size", models.PositiveIntegerField(help_text="Bytes before compression.")),
                ("kept_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                "ordering": ["-kept_at"],
            },
        ),
        migrations.CreateModel(
            name="Replay",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=16)),
                ("ablation", models.JSONField(blank=True, default=dict)),
                ("query", models.TextField(blank=True)),
                ("state", models.CharField(default="running", max_length=16)),
                ("total", models.PositiveIntegerField(default=0)),
                (
                    "actor",
                    models.CharField(help_text='Who started it, as the ledger spells it: "user:NAME".', max_length=255),
                ),
                ("reason", models.TextField(blank=True)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "ended_at",
                    models.DateTimeField(blank=True, help_text="When it was done or cancelled last.", null=True),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
                "permissions": [
                    ("start_replay", "Can start a replay"),
                    ("judge_replay", "Can accept or reject its changes"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReplayChunk",
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
                ("first", models.PositiveIntegerField()),
                ("last", models.PositiveIntegerField()),
                ("at", models.PositiveIntegerField(blank=True, null=True)),
            ],
            options={
                "ordering": ["replay", "first"],
            },
        ),
        migrations.CreateModel(
            name="ReplayItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField(help_text="Its place in the replay, from one.")),
                ("outcome", models.CharField(blank=True, max_length=16)),
                ("again", models.CharField(blank=True, max_length=16)),
                (
                    "why",
                    models.TextField(
                        blank=True, help_text="Why it could not be replayed, or not from all that there was."
                    ),
                ),
                (
                    "weighty",
                    models.BooleanField(default=False, help_text="Whether it changes what policies or people act on."),
                ),
                (
                    "stronger",
                    models.BooleanField(default=False, help_text="Whether it would be told with more strength."),
                ),
                ("domain_before", models.CharField(blank=True, max_length=32)),
                ("domain_after", models.CharField(blank=True, max_length=32)),
                ("move", models.CharField(blank=True, max_length=80)),
                (
                    "rules",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=255), blank=True, default=list, size=None
                    ),
                ),
                ("tried", models.BooleanField(default=True, help_text="Whether each of the rules does it by itself.")),
                ("said", models.JSONField(blank=True, default=list)),
                ("before", models.JSONField(blank=True, default=dict)),
                ("after", models.JSONField(blank=True, default=dict)),
                ("done_at", models.DateTimeField(blank=True, null=True)),
                ("judged", models.CharField(blank=True, max_length=16)),
                ("judged_at", models.DateTimeField(blank=True, null=True)),
                ("judged_why", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["replay", "number"],
            },
        ),
        migrations.RemoveConstraint(
            model_name="ledgerentry",
            name="entry_kind_word",
        ),
        migrations.AddConstraint(
            model_name="ledgerentry",
            constraint=models.CheckConstraint(
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
                        ],
                    )
                ),
                name="entry_kind_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="candidateruleset",
            constraint=models.CheckConstraint(
                condition=models.Q(("digest__regex", "^[0-9a-f]{64}$")), name="candidate_digest_hex"
            ),
        ),
        migrations.AddField(
            model_name="replay",
            name="ruleset",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="replays",
                to="recovery.candidateruleset",
            ),
        ),
        migrations.AddField(
            model_name="replaychunk",
            name="cluster",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="verdicts.cluster",
            ),
        ),
        migrations.AddField(
            model_name="replaychunk",
            name="replay",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="chunks", to="recovery.replay"
            ),
        ),
        migrations.AddField(
            model_name="replayitem",
            name="attempt",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="replayed", to="verdicts.attempt"
            ),
        ),
        migrations.AddField(
            model_name="replayitem",
            name="judged_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="replayitem",
            name="replay",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="items", to="recovery.replay"
            ),
        ),
        migrations.AddField(
            model_name="replayitem",
            name="verdict",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="verdicts.verdict",
            ),
        ),
        migrations.AddIndex(
            model_name="replay",
            index=models.Index(fields=["-created_at"], name="replay_made"),
        ),
        migrations.AddConstraint(
            model_name="replay",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["rules", "own", "ablation"])), name="replay_kind_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="replay",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["running", "cancelled", "done"])), name="replay_state_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="replay",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "rules"), ("ruleset__isnull", False)),
                    models.Q(("ruleset__isnull", True), models.Q(("kind", "rules"), _negated=True)),
                    _connector="OR",
                ),
                name="replay_rules_are_named",
            ),
        ),
        migrations.AddConstraint(
            model_name="replay",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at__isnull", True), ("state", "running")),
                    models.Q(("ended_at__isnull", False), models.Q(("state", "running"), _negated=True)),
                    _connector="OR",
                ),
                name="replay_ended_or_running",
            ),
        ),
        migrations.AddIndex(
            model_name="replaychunk",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "running"])), fields=["turn_at"], name="replay_chunk_turn"
            ),
        ),
        migrations.AddIndex(
            model_name="replaychunk",
            index=models.Index(fields=["replay", "state"], name="replay_chunk_of"),
        ),
        migrations.AddConstraint(
            model_name="replaychunk",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "running"), _negated=True),
                    models.Q(("lease_until__isnull", False), models.Q(("lease_owner", ""), _negated=True)),
                    _connector="OR",
                ),
                name="replay_chunk_running_has_lease",
            ),
        ),
        migrations.AddConstraint(
            model_name="replaychunk",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["pending", "running", "done", "failed"])),
                name="replaychunk_state_word",
            ),
        ),
        migrations.AddIndex(
            model_name="replayitem",
            index=models.Index(fields=["replay", "outcome", "number"], name="replay_item_outcome"),
        ),
        migrations.AddConstraint(
            model_name="replayitem",
            constraint=models.UniqueConstraint(fields=("replay", "number"), name="replay_item_number"),
        ),
        migrations.AddConstraint(
            model_name="replayitem",
            constraint=models.UniqueConstraint(fields=("replay", "attempt"), name="replay_item_once"),
        ),
        migrations.AddConstraint(
            model_name="replayitem",
            constraint=models.CheckConstraint(
                condition=models.Q(("outcome__in", ["", "same", "changed", "unreplayable", "failed"])),
                name="replayitem_outcome_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="replayitem",
            constraint=models.CheckConstraint(
                condition=models.Q(("again__in", ["", "same", "evidence", "engine", "differs", "no_rules"])),
                name="replayitem_again_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="replayitem",
            constraint=models.CheckConstraint(
                condition=models.Q(("judged__in", ["", "accepted", "rejected"])), name="replayitem_judged_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="replayitem",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("judged", ""), ("judged_at__isnull", True)),
                    models.Q(("judged_at__isnull", False), models.Q(("judged", ""), _negated=True)),
                    _connector="OR",
                ),
                name="replay_item_judged_when",
            ),
        ),
        migrations.RunPython(give, take_away),
    ]
