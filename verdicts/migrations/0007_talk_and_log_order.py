"""Comments that name people; where each stored line stands in its stream and when it happened, in columns."""

import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

from verdicts.logs.order import place_of, window_of

CHUNK = 2000

# A comment is part of the record like the verdict it is about.
WRITTEN_ONCE = """
CREATE TRIGGER written_once BEFORE UPDATE ON verdicts_comment
    FOR EACH ROW EXECUTE FUNCTION verdicts_refuse_update();
CREATE TRIGGER kept BEFORE DELETE ON verdicts_comment
    FOR EACH ROW EXECUTE FUNCTION verdicts_refuse_delete();
"""
CHANGEABLE = """
DROP TRIGGER kept ON verdicts_comment;
DROP TRIGGER written_once ON verdicts_comment;
"""


def fill(apps, schema_editor):
    """Give the lines that are there their place."""
    attempts = apps.get_model("verdicts", "Attempt").objects
    observations = apps.get_model("verdicts", "Observation").objects
    for pk, body in attempts.values_list("pk", "body").iterator(chunk_size=CHUNK):
        near, zone = window_of(body)
        lines = []
        for line in observations.filter(attempt_id=pk).iterator(chunk_size=CHUNK):
            place = place_of(ref=line.ref, timestamp=line.timestamp, text=line.body, near=near, zone=zone)
            line.file, line.line, line.clock, line.micros = place
            lines.append(line)
            if len(lines) == CHUNK:
                observations.bulk_update(lines, ["file", "line", "clock", "micros"])
                lines = []
        observations.bulk_update(lines, ["file", "line", "clock", "micros"])


class Migration(migrations.Migration):
    dependencies = [
        ("verdicts", "0006_list_rows"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Comment",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("text", models.TextField()),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
            ],
            options={
                "ordering": ["created_at", "id"],
            },
        ),
        migrations.CreateModel(
            name="Mention",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seen_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["-comment__created_at", "-id"],
            },
        ),
        migrations.AddField(
            model_name="observation",
            name="clock",
            field=models.PositiveSmallIntegerField(db_default=4, help_text="Whose time `micros` is: see log_order.py."),
        ),
        migrations.AddField(
            model_name="observation",
            name="file",
            field=models.CharField(blank=True, db_default="", help_text="Of `ref`, without its line.", max_length=1024),
        ),
        migrations.AddField(
            model_name="observation",
            name="line",
            field=models.PositiveBigIntegerField(db_default=0, help_text="Of `ref`; 0 where it names none."),
        ),
        migrations.AddField(
            model_name="observation",
            name="micros",
            field=models.BigIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name="comment",
            name="author",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="comments", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="comment",
            name="verdict",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="comments", to="verdicts.verdict"
            ),
        ),
        migrations.AddField(
            model_name="mention",
            name="comment",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="mentions", to="verdicts.comment"
            ),
        ),
        migrations.AddField(
            model_name="mention",
            name="person",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="mentions", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddConstraint(
            model_name="comment",
            constraint=models.CheckConstraint(condition=models.Q(("text", ""), _negated=True), name="comment_has_text"),
        ),
        migrations.AddIndex(
            model_name="mention",
            index=models.Index(condition=models.Q(("seen_at__isnull", True)), fields=["person"], name="mention_unseen"),
        ),
        migrations.AddConstraint(
            model_name="mention",
            constraint=models.UniqueConstraint(fields=("comment", "person"), name="mention_once"),
        ),
        migrations.RunSQL(WRITTEN_ONCE, CHANGEABLE),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
