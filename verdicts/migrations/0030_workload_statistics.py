"""That a workload's name nearly says its account and cluster.

To a planner that takes the three for independent hardly any row has all of them: it gathered a workload's rows and
sorted them, where the newest few are found by walking.
"""

from django.db import migrations

STATISTICS = """
CREATE STATISTICS verdicts_listrow_workload (dependencies) ON workload, account, cluster FROM verdicts_listrow;
ANALYZE verdicts_listrow (workload, account, cluster);
"""


class Migration(migrations.Migration):
    dependencies = [("verdicts", "0029_request_not_done")]

    operations = [migrations.RunSQL(STATISTICS, "DROP STATISTICS verdicts_listrow_workload")]
