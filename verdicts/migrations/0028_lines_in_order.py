"""Unrecognised lines of a template in the order in which they were stored: its first and its last few are found."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0027_pairs")]

    operations = [
        migrations.RemoveIndex("unrecognisedline", "unrecognised_digest"),
        migrations.AddIndex("unrecognisedline", models.Index(fields=["digest", "id"], name="unrecognised_digest")),
    ]
