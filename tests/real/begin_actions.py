"""Begin actions as an approval does: `python -m tests.real.begin_actions NODE JOB@SUBMIT…`; prints one mark a line."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import django

django.setup()

from recovery.caps import Caps  # noqa: E402
from recovery.words import ActionKind  # noqa: E402
from tests.recovery.acting import a_failed_attempt, an_action  # noqa: E402

#: The guards have tests of their own: here many jobs fail at once on four nodes.
CAPS = Caps(
    partition_share=1, cluster_share=1, healthy_share=0.1, cooldown_minutes=0, actions_per_hour=1000,
    nodes_per_hour=1000, nodes_per_day=1000, exclusions_alive=1000, restarts_per_workload=1000,
    restarts_per_cause=1000, restarts_per_locus=1000,
)  # fmt: skip
for given in sys.argv[2:]:
    job, _, submit = given.partition("@")
    at = datetime.fromtimestamp(int(submit), UTC).isoformat()
    attempt = a_failed_attempt(job, submit_time=at, nodes=["gpu-[01-04]"], workload=f"job-{job}")
    action = an_action(ActionKind.RESTART_EXCLUDING, attempt, nodes=[sys.argv[1]], job_nodes=1, caps=CAPS)
    print(action.mark)
