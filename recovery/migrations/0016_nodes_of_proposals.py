"""Proposals by node: a node's page looks for those that name it."""

import django.contrib.postgres.indexes
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("recovery", "0015_nodes_down")]

    operations = [
        migrations.AddIndex(
            "proposal",
            django.contrib.postgres.indexes.GinIndex(
                fields=["nodes"], name="proposal_nodes", opclasses=["jsonb_path_ops"]
            ),
        ),
    ]
