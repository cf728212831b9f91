"""The few requests that are not done: counted at each look at the metrics, among a million that are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0028_lines_in_order")]

    operations = [
        migrations.AddIndex(
            "attributionrequest",
            models.Index(
                fields=["state"], name="request_not_done", condition=models.Q(("state", "done"), _negated=True)
            ),
        ),
    ]
