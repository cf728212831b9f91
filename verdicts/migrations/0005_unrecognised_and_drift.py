"""Error lines that no rule knew as rows of their own, filled from the bodies that are there; checks for drift."""

import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

FILL = """
INSERT INTO verdicts_unrecognisedline (verdict_id, digest, template, source, count, near_end, node, ref, example)
SELECT verdicts_verdict.id, encode(sha256(convert_to(item ->> 'template', 'UTF8')), 'hex'), item ->> 'template',
       item ->> 'source', COALESCE((item ->> 'count')::bigint, 1), COALESCE((item ->> 'near_end')::boolean, false),
       COALESCE(item #>> '{example,node}', ''), COALESCE(item #>> '{example,ref}', ''),
       COALESCE(item #>> '{example,text}', '')
FROM verdicts_verdict, jsonb_array_elements(body -> 'unrecognised') WITH ORDINALITY AS items (item, place)
ORDER BY verdicts_verdict.created_at, verdicts_verdict.id, place;
"""

# As part of a verdict they are written once, and go only with their attempt.
WRITTEN_ONCE = """
CREATE TRIGGER written_once BEFORE UPDATE ON verdicts_unrecognisedline
    FOR EACH ROW EXECUTE FUNCTION verdicts_refuse_update();
CREATE TRIGGER kept BEFORE DELETE ON verdicts_unrecognisedline
    FOR EACH ROW EXECUTE FUNCTION verdicts_refuse_delete();
"""
CHANGEABLE = """
DROP TRIGGER kept ON verdicts_unrecognisedline;
DROP TRIGGER written_once ON verdicts_unrecognisedline;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("verdicts", "0004_verdict_coverage"),
    ]

    operations = [
        migrations.CreateModel(
            name="DriftCheck",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                (
                    "checked_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("until", models.DateTimeField()),
                ("days", models.PositiveSmallIntegerField()),
                ("attempts_before", models.PositiveIntegerField()),
                ("attempts_after", models.PositiveIntegerField()),
                (
                    "ruleset",
                    models.CharField(help_text="Digest of the rules that the windows were compared by.", max_length=64),
                ),
                ("signs", models.JSONField(default=list)),
            ],
            options={
                "ordering": ["-checked_at", "id"],
                "indexes": [models.Index(fields=["-checked_at"], name="drift_checked")],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("days__gte", 1)), name="drift_days_positive")
                ],
            },
        ),
        migrations.CreateModel(
            name="UnrecognisedLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "digest",
                    models.CharField(help_text="SHA-256 of the template: its name in addresses.", max_length=64),
                ),
                ("template", models.TextField()),
                ("source", models.CharField(max_length=32)),
                ("count", models.PositiveBigIntegerField(default=1)),
                ("near_end", models.BooleanField(default=False)),
                ("node", models.TextField(blank=True)),
                ("ref", models.TextField(blank=True)),
                ("example", models.TextField(blank=True)),
                (
                    "verdict",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="unrecognised", to="verdicts.verdict"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "indexes": [models.Index(fields=["digest", "verdict"], name="unrecognised_digest")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("digest__regex", "^[0-9a-f]{64}$")), name="unrecognised_digest_hex"
                    ),
                    models.CheckConstraint(
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
                        name="unrecognised_source_word",
                    ),
                ],
            },
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.RunSQL(WRITTEN_ONCE, CHANGEABLE),
    ]
