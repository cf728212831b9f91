"""What a plan's costs rest on: restarts that were seen before, and the training since the last checkpoint."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from recovery import cost, experience, moves, propose
from recovery.models import Action, Milestone, ProgressSample
from recovery.words import MilestoneKind
from tests.recovery.deciding import a_cluster, a_policy, failed, judged
from tests.verdicts.builders import a_ruleset
from verdicts import conclude
from verdicts.models import Attempt

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conclude, "current_ruleset", a_ruleset)
    monkeypatch.setattr(moves, "wake", lambda *_: 0)
    a_cluster()


def restarted(attempt: Attempt, *, queue: int, restore: int | None) -> None:
    """A restart of the attempt's job that waited and was restored for so many seconds."""
    (proposal,) = propose.consider(judged(attempt).pk)
    action = Action.objects.create(
        proposal=proposal,
        cluster=attempt.cluster,
        kind=proposal.action,
        mark=f"inquest-{proposal.pk.hex[:12]}",
        deadline=timezone.now(),
    )
    done = timezone.now() - timedelta(hours=2)
    times: dict[MilestoneKind, Any] = {
        MilestoneKind.ACTION_DONE: done,
        MilestoneKind.ALLOCATION_RESTARTED: done + timedelta(seconds=queue),
    }
    if restore is not None:
        times[MilestoneKind.PROGRESS_RESTORED] = done + timedelta(seconds=queue + restore)
    for kind, at in times.items():
        Milestone.objects.create(action=action, kind=kind.value, at=at)


def test_costs_rest_on_this_workloads_restarts_else_on_the_clusters_and_on_its_checkpoint() -> None:
    a_policy()
    ranks = {str(rank): {"node": "gpu-01"} for rank in range(8)}
    attempt = failed(workload="llm-70b", ranks=ranks)
    restarted(failed("5001", workload="another"), queue=60, restore=600)
    now = timezone.now()
    seen = experience.seen(attempt, now)
    assert (seen.restarts, seen.queues, seen.restarts_of) == ([600.0], [60.0], "this cluster")
    restarted(failed("5002", workload="llm-70b", ranks=ranks), queue=30, restore=300)
    # One that never progressed tells only how long it waited.
    restarted(failed("5003", workload="llm-70b", ranks=ranks), queue=90, restore=None)
    seen = experience.seen(attempt, now)
    assert (seen.restarts, sorted(seen.queues), seen.restarts_of) == ([300.0], [30.0, 90.0], "this workload")
    assert (seen.gpus, seen.since_checkpoint) == (8, None)
    assert attempt.ended_at is not None
    for minutes, saved in ((40, 100), (25, 200), (10, 200)):
        at = attempt.ended_at - timedelta(minutes=minutes)
        ProgressSample.objects.create(
            attempt=attempt, at=at, least_step=saved, most_step=saved, checkpoint_step=saved, ranks=8
        )
    seen = experience.seen(attempt, now)
    assert seen.since_checkpoint == 25 * 60
    # 8 GPUs for 300 s of restoring, 60 s of waiting and 25 min of training that is done again.
    assert cost.of_restart(seen).acting.gpu_hours == pytest.approx(8 * (300 + 60 + 1500) / 3600, abs=0.1)
