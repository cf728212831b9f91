"""A row of the verdict list is written by a plan that is made once for a connection.

Seven times an attempt the list's row is written anew, by a join of a dozen tables for one attempt: to plan it takes
PostgreSQL ten times as long as to do it. Every step of it finds a few rows by a key, however large the tables are;
without sequential scans the plan that is made while they are small serves when they have grown.
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0013_no_request_collection")]

    operations = [
        migrations.RunSQL(
            "ALTER FUNCTION verdicts_list_rows(uuid[])"
            " SET plan_cache_mode = force_generic_plan SET enable_seqscan = off",
            "ALTER FUNCTION verdicts_list_rows(uuid[]) RESET plan_cache_mode RESET enable_seqscan",
        )
    ]
