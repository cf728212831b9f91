"""Holds, who may place them, and frozen plans and decisions that let go what expires."""

import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.apps import apps as installed
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.db import migrations, models

# A transaction that says SET LOCAL inquest.erase = 'on' may take out what a plan quotes and what people wrote. The
# plan's hash stays: it is that of the plan that was seen.
PROPOSAL = """
DO $do$
DECLARE
    told text := pg_get_functiondef('recovery_proposal_moves'::regproc);
    before text := 'BEFORE';
    after text := 'AFTER';
BEGIN
    IF position(before IN told) = 0 THEN
        RAISE EXCEPTION 'recovery_proposal_moves() is not what this migration knows';
    END IF;
    EXECUTE replace(told, before, after);
END $do$;
"""
STAYS = "wanted.outcome_why := OLD.outcome_why;"
GOES = """wanted.outcome_why := OLD.outcome_why;
    IF current_setting(''inquest.erase'', true) = ''on'' AND NEW.plan = NEW.plan_json::jsonb
       AND NEW.plan - ''{evidence,gaps,reason}''::text[] = OLD.plan - ''{evidence,gaps,reason}''::text[] THEN
        wanted.plan := OLD.plan;
        wanted.plan_json := OLD.plan_json;
    END IF;"""
DECISION = """
CREATE FUNCTION recovery_decision_written_once() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted recovery_decision := NEW;
BEGIN
    IF current_setting('inquest.erase', true) = 'on' AND NEW.text = '' THEN
        wanted.text := OLD.text;
    END IF;
    IF wanted IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'recovery_decision is written once' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER written_once ON recovery_decision;
CREATE TRIGGER written_once BEFORE UPDATE ON recovery_decision
    FOR EACH ROW EXECUTE FUNCTION recovery_decision_written_once();
"""
NO_DECISION = """
DROP TRIGGER written_once ON recovery_decision;
CREATE TRIGGER written_once BEFORE UPDATE ON recovery_decision
    FOR EACH ROW EXECUTE FUNCTION recovery_refuse_update();
DROP FUNCTION recovery_decision_written_once();
"""
FORWARD = PROPOSAL.replace("BEFORE", STAYS).replace("AFTER", GOES) + DECISION
BACKWARD = NO_DECISION + PROPOSAL.replace("BEFORE", GOES).replace("AFTER", STAYS)

READ = ("viewer", "reviewer", "operator", "lead", "policy admin", "administrator")
MAY_HOLD = ("lead", "administrator")


def give(apps, schema_editor):
    # Django makes permissions after all migrations; the groups need them now.
    create_permissions(
        installed.get_app_config("recovery"), apps=apps, using=schema_editor.connection.alias, verbosity=0
    )
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label="recovery")
    for names, codename in ((READ, "view_hold"), (MAY_HOLD, "hold_evidence")):
        for group in apps.get_model("auth", "Group").objects.filter(name__in=names):
            group.permissions.add(permissions.get(codename=codename))


def take_away(apps, schema_editor):
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label="recovery")
    for group in apps.get_model("auth", "Group").objects.filter(name__in=READ):
        group.permissions.remove(*permissions.filter(codename__in=("view_hold", "hold_evidence")))


class Migration(migrations.Migration):
    dependencies = [
        ("recovery", "0009_exports"),
        ("verdicts", "0019_retention"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Hold",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("after", models.DateTimeField(blank=True, help_text="Of a cluster: what ran at or after.", null=True)),
                ("before", models.DateTimeField(blank=True, help_text="Of a cluster: what ran before.", null=True)),
                ("reason", models.TextField()),
                ("review_on", models.DateField()),
                (
                    "placed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("released_at", models.DateTimeField(blank=True, null=True)),
                ("released_why", models.TextField(blank=True)),
                (
                    "attempt",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="holds",
                        to="verdicts.attempt",
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="holds",
                        to="verdicts.cluster",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="holds", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "placed_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "released_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workload",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="holds",
                        to="verdicts.workload",
                    ),
                ),
            ],
            options={
                "ordering": ["-placed_at", "id"],
                "permissions": [("hold_evidence", "Can place and release holds")],
                "indexes": [
                    models.Index(
                        condition=models.Q(("released_at__isnull", True)),
                        fields=["attempt"],
                        name="hold_attempt_standing",
                    ),
                    models.Index(
                        condition=models.Q(("released_at__isnull", True)),
                        fields=["workload"],
                        name="hold_workload_standing",
                    ),
                    models.Index(
                        condition=models.Q(("released_at__isnull", True)),
                        fields=["cluster"],
                        name="hold_cluster_standing",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("attempt__isnull", False), ("cluster__isnull", True), ("workload__isnull", True)),
                            models.Q(("attempt__isnull", True), ("cluster__isnull", True), ("workload__isnull", False)),
                            models.Q(("attempt__isnull", True), ("cluster__isnull", False), ("workload__isnull", True)),
                            _connector="OR",
                        ),
                        name="hold_of_one_thing",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("after__isnull", True), ("before__isnull", True), ("cluster__isnull", True)),
                            models.Q(
                                ("after__isnull", False),
                                ("after__lt", models.F("before")),
                                ("before__isnull", False),
                                ("cluster__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="hold_of_cluster_has_times",
                    ),
                    models.CheckConstraint(condition=models.Q(("reason", ""), _negated=True), name="hold_has_reason"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("released_at__isnull", True), ("released_by__isnull", True)),
                            models.Q(
                                ("released_at__isnull", False),
                                ("released_by__isnull", False),
                                models.Q(("released_why", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="hold_released_with_reason",
                    ),
                ],
            },
        ),
        migrations.RunPython(give, take_away),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
