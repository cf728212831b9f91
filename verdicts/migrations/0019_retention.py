"""What expires of an attempt: since when a class is gone, tombstones, and tables written once that let go."""

import django.db.models.deletion
import django.db.models.functions.comparison
from django.db import migrations, models

# What is quoted in a verdict may go once there is a tombstone that says so, by a transaction that says
# SET LOCAL inquest.erase = 'on'. What was concluded stays, and the hash of what was issued.
VERDICT = """
CREATE OR REPLACE FUNCTION verdicts_verdict_written_once() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted verdicts_verdict := NEW;
BEGIN
    wanted.is_current := OLD.is_current;
    wanted.superseded_at := OLD.superseded_at;
    EXPIRED
    IF wanted IS DISTINCT FROM OLD OR (NEW.is_current AND NOT OLD.is_current)
       OR (OLD.superseded_at IS NOT NULL AND NEW.superseded_at IS DISTINCT FROM OLD.superseded_at) THEN
        RAISE EXCEPTION 'verdict % is written once: it can be superseded, not changed', OLD.id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
"""
QUOTES_GO = """
    IF current_setting('inquest.erase', true) = 'on' AND EXISTS (
        SELECT FROM verdicts_tombstone WHERE attempt_id = OLD.attempt_id AND kept = 'quotes'
    ) THEN
        wanted.body := OLD.body;
        wanted.body_json := OLD.body_json;
        wanted.coverage := OLD.coverage;
        wanted.headline := OLD.headline;
    END IF;
"""
REVIEW = """
CREATE OR REPLACE FUNCTION verdicts_review_written_once() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted verdicts_review := NEW;
BEGIN
    EXPIRED
    wanted.replaced_at := OLD.replaced_at;
    IF wanted IS DISTINCT FROM OLD
       OR OLD.replaced_at IS NOT NULL AND NEW.replaced_at IS DISTINCT FROM OLD.replaced_at THEN
        RAISE EXCEPTION 'review % is written once: it can be replaced, not changed', OLD.id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
"""
NOTE_GOES = """
    IF current_setting('inquest.erase', true) = 'on' AND NEW.note = '' THEN
        wanted.note := OLD.note;
    END IF;
"""
FORWARD = VERDICT.replace("EXPIRED", QUOTES_GO.strip()) + REVIEW.replace("EXPIRED", NOTE_GOES.strip())
BACKWARD = VERDICT.replace("    EXPIRED\n", "") + REVIEW.replace("    EXPIRED\n", "")


class Migration(migrations.Migration):
    dependencies = [
        ("verdicts", "0018_evidence_read"),
    ]

    operations = [
        migrations.CreateModel(
            name="Tombstone",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kept", models.CharField(help_text="The class.", max_length=16)),
                ("at", models.DateTimeField()),
                ("rows", models.PositiveBigIntegerField()),
                (
                    "bytes",
                    models.PositiveBigIntegerField(
                        help_text="Of the texts that went, without what a database adds to them."
                    ),
                ),
                ("rule", models.TextField()),
            ],
            options={
                "ordering": ["at", "id"],
            },
        ),
        migrations.AddField(
            model_name="attempt",
            name="lines_expired_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="attempt",
            name="progress_expired_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="attempt",
            name="quotes_expired_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="attempt",
            name="words_expired_at",
            field=models.DateTimeField(blank=True, editable=False, help_text="When some went last.", null=True),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                django.db.models.functions.comparison.Greatest("ended_at", "created_at"),
                models.F("id"),
                condition=models.Q(("lines_expired_at__isnull", True)),
                name="attempt_lines",
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                django.db.models.functions.comparison.Greatest("ended_at", "created_at"),
                models.F("id"),
                condition=models.Q(("quotes_expired_at__isnull", True)),
                name="attempt_quotes",
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                django.db.models.functions.comparison.Greatest("ended_at", "created_at"),
                models.F("id"),
                condition=models.Q(("progress_expired_at__isnull", True)),
                name="attempt_progress",
            ),
        ),
        migrations.AddField(
            model_name="tombstone",
            name="attempt",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="tombstones", to="verdicts.attempt"
            ),
        ),
        migrations.AddConstraint(
            model_name="tombstone",
            constraint=models.CheckConstraint(
                condition=models.Q(("kept__in", ["lines", "quotes", "progress", "words"])), name="tombstone_kept_word"
            ),
        ),
        migrations.AddConstraint(
            model_name="tombstone",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kept", "words"), _negated=True), fields=("attempt", "kept"), name="tombstone_once"
            ),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
