"""Reading clusters: discoveries, collections and their tasks, how sources are; whose turn a request is."""

import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

# Rows from before have their turn when they were due.
FILL = """
UPDATE verdicts_attributionrequest SET cluster_id = verdicts_attempt.cluster_id, turn_at = due_at
FROM verdicts_attempt WHERE verdicts_attempt.id = attempt_id;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("verdicts", "0007_talk_and_log_order"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Collection",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("round", models.PositiveSmallIntegerField(default=1)),
                ("reason", models.CharField(max_length=16)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("due_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("fast_at", models.DateTimeField(blank=True, null=True)),
                ("deadline", models.DateTimeField(blank=True, null=True)),
                ("fast_asked_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["-created_at", "id"],
                "permissions": [("request_collection", "Can ask for evidence to be collected")],
            },
        ),
        migrations.CreateModel(
            name="CollectionTask",
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
                ("name", models.CharField(max_length=100)),
                ("kind", models.CharField(max_length=32)),
                ("source", models.CharField(max_length=32)),
                ("status", models.CharField(blank=True, max_length=16)),
                ("reason", models.TextField(blank=True)),
                ("read", models.PositiveBigIntegerField(default=0)),
                ("kept", models.PositiveBigIntegerField(default=0)),
                ("bytes", models.PositiveBigIntegerField(default=0)),
                ("seconds", models.FloatField(blank=True, null=True)),
                (
                    "again",
                    models.BooleanField(
                        default=False, help_text="It was late or could not be had: it is asked once more."
                    ),
                ),
            ],
            options={
                "ordering": ["source", "name"],
            },
        ),
        migrations.CreateModel(
            name="Discovery",
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
                ("name", models.CharField(max_length=100)),
                ("cursor", models.JSONField(blank=True, default=dict)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("succeeded_at", models.DateTimeField(blank=True, null=True)),
                ("failures", models.PositiveIntegerField(default=0, help_text="Looks in a row that failed.")),
                ("notes", models.JSONField(blank=True, default=list)),
                ("found", models.PositiveIntegerField(default=0, help_text="Attempts that the last look told of.")),
            ],
            options={
                "ordering": ["cluster__name", "name"],
            },
        ),
        migrations.CreateModel(
            name="SourceState",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=100)),
                ("kind", models.CharField(max_length=32)),
                ("source", models.CharField(max_length=32)),
                (
                    "failures",
                    models.PositiveIntegerField(default=0, help_text="Collections in a row that it did not answer."),
                ),
                ("retry_at", models.DateTimeField(blank=True, help_text="Until then it is left alone.", null=True)),
                ("answered_at", models.DateTimeField(blank=True, null=True)),
                ("failed_at", models.DateTimeField(blank=True, null=True)),
                ("error", models.TextField(blank=True)),
                ("health", models.CharField(default="unchecked", max_length=16)),
                ("blind_since", models.DateTimeField(blank=True, null=True)),
                ("checked_at", models.DateTimeField(blank=True, null=True)),
                ("check_body", models.JSONField(blank=True, default=dict, help_text="What the last check found.")),
            ],
            options={
                "ordering": ["cluster__name", "source", "name"],
            },
        ),
        migrations.AddField(
            model_name="attempt",
            name="missing_since",
            field=models.DateTimeField(
                blank=True,
                help_text="Since when the scheduler lists it no more, while nobody says how it ended.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="attributionrequest",
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
            model_name="attributionrequest",
            name="turn_at",
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", True)), fields=["cluster", "scheduler"], name="attempt_going_on"
            ),
        ),
        migrations.AddIndex(
            model_name="attributionrequest",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "running"])),
                fields=["cluster", "turn_at"],
                name="request_turn",
            ),
        ),
        migrations.AddField(
            model_name="collection",
            name="attempt",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="collections", to="verdicts.attempt"
            ),
        ),
        migrations.AddField(
            model_name="collection",
            name="requested_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="collectiontask",
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
            model_name="collectiontask",
            name="collection",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="tasks", to="verdicts.collection"
            ),
        ),
        migrations.AddField(
            model_name="discovery",
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
            model_name="sourcestate",
            name="cluster",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="sources", to="verdicts.cluster"
            ),
        ),
        migrations.AddIndex(
            model_name="collection",
            index=models.Index(
                condition=models.Q(("finished_at__isnull", True)), fields=["deadline"], name="collection_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="collection",
            constraint=models.UniqueConstraint(
                condition=models.Q(("finished_at__isnull", True)), fields=("attempt",), name="collection_one_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="collection",
            constraint=models.UniqueConstraint(fields=("attempt", "round"), name="collection_round"),
        ),
        migrations.AddConstraint(
            model_name="collection",
            constraint=models.CheckConstraint(
                condition=models.Q(("reason__in", ["ended", "again", "asked"])), name="collection_reason_word"
            ),
        ),
        migrations.AddIndex(
            model_name="collectiontask",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "running"])),
                fields=["cluster", "turn_at"],
                name="task_turn",
            ),
        ),
        migrations.AddConstraint(
            model_name="collectiontask",
            constraint=models.UniqueConstraint(fields=("collection", "name"), name="task_once"),
        ),
        migrations.AddConstraint(
            model_name="collectiontask",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "running"), _negated=True),
                    models.Q(("lease_until__isnull", False), models.Q(("lease_owner", ""), _negated=True)),
                    _connector="OR",
                ),
                name="task_running_has_lease",
            ),
        ),
        migrations.AddConstraint(
            model_name="collectiontask",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["pending", "running", "done", "failed"])), name="task_state_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="collectiontask",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "source__in",
                        [
                            "applog",
                            "syslog",
                            "fabric_manager",
                            "scheduler",
                            "kubernetes",
                            "node_metrics",
                            "network_metrics",
                            "gpu_events",
                            "progress",
                        ],
                    )
                ),
                name="task_source_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="collectiontask",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ["ok", "partial", "empty", "error", "not_configured", ""])),
                name="task_status_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="discovery",
            constraint=models.UniqueConstraint(fields=("cluster", "name"), name="discovery_once"),
        ),
        migrations.AddConstraint(
            model_name="discovery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "running"), _negated=True),
                    models.Q(("lease_until__isnull", False), models.Q(("lease_owner", ""), _negated=True)),
                    _connector="OR",
                ),
                name="discovery_running_has_lease",
            ),
        ),
        migrations.AddConstraint(
            model_name="discovery",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["pending", "running", "done", "failed"])), name="discovery_state_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="sourcestate",
            constraint=models.UniqueConstraint(fields=("cluster", "name"), name="source_once"),
        ),
        migrations.AddConstraint(
            model_name="sourcestate",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "source__in",
                        [
                            "applog",
                            "syslog",
                            "fabric_manager",
                            "scheduler",
                            "kubernetes",
                            "node_metrics",
                            "network_metrics",
                            "gpu_events",
                            "progress",
                        ],
                    )
                ),
                name="source_source_word",
            ),
        ),
        migrations.AddConstraint(
            model_name="sourcestate",
            constraint=models.CheckConstraint(
                condition=models.Q(("health__in", ["unchecked", "sees", "degraded", "blind"])),
                name="source_health_word",
            ),
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
