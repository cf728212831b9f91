"""Subscriptions to verdicts, what they are owed, and who may have webhooks told."""

import uuid

import django.db.models.deletion
import django.db.models.functions.datetime
from django.apps import apps as installed
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.db import migrations, models


def give_webhooks(apps, schema_editor):
    # Django makes permissions after all migrations; the groups need this one now.
    create_permissions(
        installed.get_app_config("verdicts"), apps=apps, using=schema_editor.connection.alias, verbosity=0
    )
    permission = apps.get_model("auth", "Permission").objects.get(
        content_type__app_label="verdicts", codename="manage_webhooks"
    )
    for group in apps.get_model("auth", "Group").objects.filter(name__in=("policy admin", "administrator")):
        group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [
        ("verdicts", "0011_attempt_found_by"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Subscription",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=80)),
                ("query", models.TextField(blank=True, help_text="The filters, as in the list's address.")),
                ("channel", models.CharField(max_length=16)),
                ("webhook", models.CharField(blank=True, help_text="Its name in the settings.", max_length=80)),
                ("active", models.BooleanField(default=True)),
                ("problem", models.TextField(blank=True, help_text="Why it was switched off by itself.")),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("looked_until", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="subscriptions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["name", "id"],
                "permissions": [("manage_webhooks", "Can have verdicts told to the site's webhooks")],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("state", models.CharField(default="pending", max_length=16)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("due_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("error", models.TextField(blank=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "verdict",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="verdicts.verdict"
                    ),
                ),
                (
                    "subscription",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="verdicts.subscription",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "id"],
            },
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.UniqueConstraint(fields=("owner", "name"), name="subscription_name_of_owner"),
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.CheckConstraint(
                condition=models.Q(("name", ""), _negated=True), name="subscription_has_name"
            ),
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("channel", "webhook"), models.Q(("webhook", ""), _negated=True)),
                    models.Q(models.Q(("channel", "webhook"), _negated=True), ("webhook", "")),
                    _connector="OR",
                ),
                name="subscription_webhook_named",
            ),
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.CheckConstraint(
                condition=models.Q(("channel__in", ["email", "webhook"])), name="subscription_channel_word"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "running"])), fields=["due_at"], name="delivery_open_due"
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(fields=("subscription", "verdict"), name="delivery_once"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "running"), _negated=True), ("lease_until__isnull", False), _connector="OR"
                ),
                name="delivery_running_has_lease",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["pending", "running", "done", "failed"])), name="delivery_state_word"
            ),
        ),
        migrations.RunPython(give_webhooks, migrations.RunPython.noop),
    ]
