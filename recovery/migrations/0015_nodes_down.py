"""What the dispatcher was told of nodes on which no job can start: they are not room for a restart."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("recovery", "0014_blind_entries")]

    operations = [
        migrations.AddField(
            model_name="actuatorstate",
            name="down",
            field=models.JSONField(default=list, help_text="The nodes on which no job can start."),
        ),
        migrations.AlterField(
            model_name="actuatorstate",
            name="partitions_at",
            field=models.DateTimeField(null=True, blank=True, help_text="When partitions and nodes were last told."),
        ),
    ]
