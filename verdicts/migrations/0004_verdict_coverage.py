"""The collector reports of a verdict in a column of their own: a list must not unpack every body to show them."""

from django.db import migrations, models

FILL = """
ALTER TABLE verdicts_verdict DISABLE TRIGGER written_once;
UPDATE verdicts_verdict SET coverage = COALESCE(
    (SELECT jsonb_agg(report - 'files' ORDER BY place)
     FROM jsonb_array_elements(body -> 'coverage') WITH ORDINALITY AS reports (report, place)),
    '[]'::jsonb
);
ALTER TABLE verdicts_verdict ENABLE TRIGGER written_once;
"""


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0003_groups")]

    operations = [
        migrations.AddField(
            model_name="verdict",
            name="coverage",
            field=models.JSONField(
                default=list, help_text="The body's collector reports, for lists, without their files."
            ),
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
