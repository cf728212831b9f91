"""Switches and ports that findings name, as rows of their own; those of the verdicts that are there, too."""

import django.db.models.deletion
from django.db import migrations, models

# Read from the bodies, as `verdict_rows.py` reads new ones.
THERE = """
INSERT INTO verdicts_namedport (verdict_id, finding, status, symptom, "of", owner, port)
SELECT named.verdict_id, named.finding, named.status, left(named.symptom, 255),
       CASE WHEN named.switch > '' THEN 'switch' ELSE 'node' END,
       left(CASE WHEN named.switch > '' THEN named.switch ELSE named.node END, 255),
       left(CASE WHEN named.device > '' AND named.port ~ '^[0-9]+$' THEN named.device || ' port ' || named.port
                 ELSE named.port END, 255)
FROM (
    SELECT verdict.id AS verdict_id, list.status, found ->> 'id' AS finding, found ->> 'symptom' AS symptom,
           COALESCE(found #>> '{locus,switch}', '') AS switch, COALESCE(found #>> '{locus,node}', '') AS node,
           COALESCE(found #>> '{locus,port}', '') AS port, COALESCE(found #>> '{locus,device}', '') AS device
    FROM verdicts_verdict AS verdict,
         (VALUES ('causes', 'cause'), ('candidates', 'candidate'), ('demoted', 'demoted'),
                 ('interesting', 'interesting')) AS list (name, status),
         jsonb_array_elements(verdict.body -> list.name) AS found
    WHERE verdict.body_json LIKE '%"switch"%' OR verdict.body_json LIKE '%"port"%'
) AS named
WHERE named.switch > '' OR (named.node > '' AND named.port > '')
"""


class Migration(migrations.Migration):
    dependencies = [
        ("verdicts", "0020_week_tally"),
    ]

    operations = [
        migrations.CreateModel(
            name="NamedPort",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("finding", models.CharField(max_length=32)),
                ("status", models.CharField(max_length=16)),
                ("symptom", models.CharField(max_length=255)),
                ("of", models.CharField(help_text="What has the port: switch or node.", max_length=8)),
                ("owner", models.CharField(help_text="Its name.", max_length=255)),
                (
                    "port",
                    models.CharField(
                        blank=True, help_text="Empty where a switch is named without a port.", max_length=255
                    ),
                ),
                (
                    "verdict",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="ports", to="verdicts.verdict"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "indexes": [models.Index(fields=["owner", "port", "verdict"], name="port_named")],
                "constraints": [
                    models.UniqueConstraint(fields=("verdict", "finding", "status"), name="port_once"),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["cause", "candidate", "demoted", "interesting"])),
                        name="port_status_word",
                    ),
                    models.CheckConstraint(condition=models.Q(("of__in", ["switch", "node"])), name="port_of"),
                ],
            },
        ),
        migrations.RunSQL(THERE, migrations.RunSQL.noop),
    ]
