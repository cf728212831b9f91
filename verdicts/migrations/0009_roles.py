"""The roles policy admin and administrator, beside those of 0003."""

from django.apps import apps as installed
from django.contrib.auth.management import create_permissions
from django.db import migrations

READ = (
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
VIEWS = tuple(("verdicts", f"view_{model}") for model in READ)
WORK = (("verdicts", "ingest_evidence"), ("verdicts", "request_attribution"), ("verdicts", "review_verdict"))
ACCOUNTS = (
    ("auth", "add_user"),
    ("auth", "change_user"),
    ("auth", "view_user"),
    ("auth", "view_group"),
    ("socialaccount", "view_socialaccount"),
    ("socialaccount", "delete_socialaccount"),
)
GROUPS = {"policy admin": VIEWS, "administrator": (*VIEWS, *WORK, *ACCOUNTS)}


def make_roles(apps, schema_editor):
    # Django makes permissions after all migrations; the groups need them now.
    for app in ("verdicts", "auth", "socialaccount"):
        create_permissions(installed.get_app_config(app), apps=apps, using=schema_editor.connection.alias, verbosity=0)
    permissions = apps.get_model("auth", "Permission").objects
    for name, wanted in GROUPS.items():
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        for app, codename in wanted:
            group.permissions.add(permissions.get(content_type__app_label=app, codename=codename))


def remove_roles(apps, schema_editor):
    apps.get_model("auth", "Group").objects.filter(name__in=GROUPS).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("verdicts", "0008_collections"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("socialaccount", "0006_alter_socialaccount_extra_data"),
    ]

    operations = [migrations.RunPython(make_roles, remove_roles)]
