"""How large partitions are: what the dispatcher asked the scheduler, while that is recent, and what guards make of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from recovery import guards, moves, propose, standing
from recovery.acting import sites
from recovery.actuators.slurm import no_use
from recovery.facts import Element
from recovery.models import Action, ActuatorState, Consideration
from recovery.plan import decode
from tests.recovery.acting import acting_on
from tests.recovery.deciding import a_cluster, a_policy, failed, judged
from tests.recovery.fake_slurm import FakeSlurm
from tests.verdicts.builders import a_ruleset
from verdicts import conclude
from verdicts.collectors.slurm_records import NodeState

pytestmark = pytest.mark.django_db

SITE = '[[cluster]]\nname = "alpha"\n[cluster.actuator]\nkind = "slurm"\n'


@pytest.fixture
def slurm(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    file = tmp_path / "recovery.toml"
    file.write_text(SITE)
    settings.INQUEST_RECOVERY_FILE = str(file)
    monkeypatch.setattr(conclude, "current_ruleset", a_ruleset)
    monkeypatch.setattr(moves, "wake", lambda *_: 0)
    sites.current_sites.cache_clear()
    a_cluster()
    fake = FakeSlurm(parts={"batch": frozenset({"gpu-01", "gpu-02"}), "big": frozenset({"gpu-01", "gpu-03", "gpu-04"})})
    with acting_on(fake, monkeypatch):
        yield fake
    sites.current_sites.cache_clear()


def parts(elements: list[Element]) -> dict[str, tuple[int | None, bool]]:
    return {one.name: (one.of, one.exact) for one in elements if one.kind == "partition"}


def test_a_partition_has_the_nodes_that_the_scheduler_told_while_that_is_recent(slurm: FakeSlurm) -> None:
    sites.tell()
    a_policy()
    (proposal,) = propose.consider(judged(failed(partition="batch,big")).pk)
    plan, attempt = decode(proposal.plan_json), proposal.attempt
    world = standing.facts(plan)
    assert parts(list(world.elements)) == {"batch": (2, True), "big": (3, True)}
    assert "batch would be left, and the job needs 2" in guards.in_words(guards.check(plan, world, plan.caps))
    assert not guards.doubt_of_room(plan, world)
    # Nobody told for a while: then they are as far as recent attempts name them, and nothing is exact.
    old = timezone.now() - timedelta(minutes=16)
    ActuatorState.objects.update(partitions_at=old)
    assert parts(list(standing.facts(plan).elements)) == {"batch,big": (2, False)}
    # What cannot be had stays as it was, with its time.
    slurm.parts = {}
    sites.tell()
    state = ActuatorState.objects.get(cluster=attempt.cluster_id)
    assert (state.partitions["batch"], state.partitions_at) == ("gpu-01,gpu-02", old)


def test_a_job_that_fills_its_partition_is_proposed_and_held_up(slurm: FakeSlurm) -> None:
    sites.tell()
    a_policy(mode="automatic")
    verdict = judged(failed())
    (proposal,) = propose.consider(verdict.pk)
    # It acts by itself when there is room, as long as it is good.
    assert proposal.state == "approved" and not Action.objects.exists()
    assert "nodes that must stay: 1 nodes of partition batch would be left" in " ".join(
        Consideration.objects.get().said
    )


def test_nodes_on_which_no_job_can_start_are_no_room(slurm: FakeSlurm) -> None:
    slurm.parts = {"batch": frozenset(f"gpu-0{number}" for number in range(1, 5))}
    sites.tell()
    a_policy()
    (proposal,) = propose.consider(judged(failed()).pk)
    plan = decode(proposal.plan_json)
    assert guards.check(plan, standing.facts(plan), plan.caps) == []
    slurm.states = {
        "gpu-03": NodeState("gpu-03", "IDLE+DRAIN"),
        "gpu-04": NodeState("gpu-04", "DOWN*"),
        "gpu-02": NodeState("gpu-02", "ALLOCATED"),
    }
    sites.tell()
    (refusal,) = guards.check(plan, standing.facts(plan), plan.caps)
    assert (refusal.guard, refusal.clears) == ("capacity", True)
    assert "1 nodes of partition batch would be left, and the job needs 2" in refusal.said


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ("IDLE", False),
        ("MIXED+PLANNED", False),
        ("IDLE~", False),
        ("IDLE+POWERED_DOWN", False),
        ("IDLE+DRAIN", True),
        ("DOWN*+DRAIN", True),
        ("IDLE*", True),
        ("ALLOCATED+NOT_RESPONDING", True),
    ],
)
def test_which_states_of_a_node_let_no_job_start(state: str, wanted: bool) -> None:
    assert no_use(state) is wanted
