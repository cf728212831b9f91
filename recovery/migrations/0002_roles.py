"""What the roles may do in recovery."""

from django.apps import apps as installed
from django.contrib.auth.management import create_permissions
from django.db import migrations

MODELS = (
    "action",
    "actuatorstate",
    "anomaly",
    "blindness",
    "brake",
    "case",
    "consideration",
    "decision",
    "exclusion",
    "incident",
    "ledgercheckpoint",
    "ledgerentry",
    "ledgerlink",
    "milestone",
    "policy",
    "policyversion",
    "progresssample",
    "promotion",
    "proposal",
    "rankprogress",
    "scope",
    "veto",
)
READ = tuple(f"view_{model}" for model in MODELS)
#: Whoever is on duty decides, protects and stops; anybody may demote who may decide.
DUTY = (
    "decide_proposal",
    "make_proposal",
    "lift_exclusion",
    "set_veto",
    "pull_brake",
    "demote_policy",
    "post_progress",
)
LABEL = ("label_proposal",)
LEAD = (*DUTY, *LABEL, "release_brake", "promote_policy", "export_ledger")
POLICY = ("add_policy", "change_policy", "promote_policy", "demote_policy", "pull_brake", "release_brake")
GROUPS = {
    "viewer": READ,
    "reviewer": (*READ, *LABEL),
    "operator": (*READ, *DUTY),
    "lead": (*READ, *LEAD),
    "policy admin": (*READ, *POLICY),
    "administrator": (*READ, *LEAD, *POLICY),
}


def make_roles(apps, schema_editor):
    # Django makes permissions after all migrations; the groups need them now.
    create_permissions(
        installed.get_app_config("recovery"), apps=apps, using=schema_editor.connection.alias, verbosity=0
    )
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label="recovery")
    for name, codenames in GROUPS.items():
        group, _ = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        group.permissions.add(*permissions.filter(codename__in=codenames))


def take_away(apps, schema_editor):
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label="recovery")
    for group in apps.get_model("auth", "Group").objects.filter(name__in=GROUPS):
        group.permissions.remove(*permissions)


class Migration(migrations.Migration):
    dependencies = [("recovery", "0001_initial"), ("verdicts", "0012_telling")]

    operations = [migrations.RunPython(make_roles, take_away)]
