"""What progress is read by, and how far it was read for each attempt."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("recovery", "0002_roles"),
        ("verdicts", "0012_telling"),
    ]

    operations = [
        migrations.AddField(
            model_name="rankprogress",
            name="paces",
            field=models.JSONField(default=list),
        ),
        migrations.CreateModel(
            name="ProgressFeed",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                ("via", models.CharField(max_length=16)),
                ("looked_at", models.DateTimeField(blank=True, null=True)),
                ("answered_at", models.DateTimeField(blank=True, null=True)),
                (
                    "failures",
                    models.PositiveIntegerField(default=0, help_text="Looks in a row that it did not answer."),
                ),
                ("error", models.TextField(blank=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="progress_feeds",
                        to="verdicts.cluster",
                    ),
                ),
            ],
            options={
                "ordering": ["cluster__name", "name"],
            },
        ),
        migrations.CreateModel(
            name="ProgressReading",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tried_at", models.DateTimeField()),
                ("read_until", models.DateTimeField(blank=True, null=True)),
                ("lines", models.PositiveBigIntegerField(default=0)),
                ("signs", models.PositiveBigIntegerField(default=0)),
                ("wrote_at", models.DateTimeField(blank=True, null=True)),
                ("said", models.TextField(blank=True, help_text="What went wrong with the last look.")),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="progress_readings",
                        to="verdicts.attempt",
                    ),
                ),
                (
                    "feed",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="readings", to="recovery.progressfeed"
                    ),
                ),
            ],
            options={
                "ordering": ["attempt", "feed"],
            },
        ),
        migrations.AddConstraint(
            model_name="progressfeed",
            constraint=models.UniqueConstraint(fields=("cluster", "name"), name="feed_once"),
        ),
        migrations.AddConstraint(
            model_name="progressfeed",
            constraint=models.CheckConstraint(
                condition=models.Q(("via__in", ["post", "log", "prometheus"])), name="feed_via_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="progressreading",
            constraint=models.UniqueConstraint(fields=("attempt", "feed"), name="reading_once"),
        ),
    ]
