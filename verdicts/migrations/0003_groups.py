"""The groups that people are put into, with the permissions each one has."""

from django.apps import apps as installed
from django.contrib.auth.management import create_permissions
from django.db import migrations

MODELS = (
    "attempt",
    "attributionrequest",
    "batch",
    "cluster",
    "collectorreport",
    "finding",
    "node",
    "observation",
    "review",
    "rulesetversion",
    "verdict",
    "workload",
)
READ = tuple(f"view_{model}" for model in MODELS)
GROUPS = {
    "viewer": READ,
    "operator": (*READ, "ingest_evidence", "request_attribution"),
    "reviewer": (*READ, "review_verdict"),
    "lead": (*READ, "ingest_evidence", "request_attribution", "review_verdict"),
}


def make_groups(apps, schema_editor):
    # Django makes permissions after all migrations; the groups need them now.
    create_permissions(
        installed.get_app_config("verdicts"), apps=apps, using=schema_editor.connection.alias, verbosity=0
    )
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label="verdicts")
    for name, codenames in GROUPS.items():
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        group.permissions.add(*permissions.filter(codename__in=codenames))


def remove_groups(apps, schema_editor):
    apps.get_model("auth", "Group").objects.filter(name__in=GROUPS).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("verdicts", "0002_immutable"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(make_groups, remove_groups)]
