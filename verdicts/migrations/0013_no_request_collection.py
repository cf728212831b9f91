"""Who may ask for an attribution may ask for evidence: the permission of its own was never asked for."""

from django.db import migrations


def remove(apps, schema_editor):
    apps.get_model("auth", "Permission").objects.filter(
        content_type__app_label="verdicts", codename="request_collection"
    ).delete()


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0012_telling"), ("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        migrations.AlterModelOptions(name="collection", options={"ordering": ["-created_at", "id"]}),
        # Django makes it again where the migration is undone.
        migrations.RunPython(remove, migrations.RunPython.noop),
    ]
