"""Many faults with one cause: one incident, and no node is left out for it."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery import decide, incidents, propose, shared_cause
from recovery.models import Incident, Policy, Proposal
from recovery.shared_cause import Blamed
from recovery.words import ProposalState
from rules.attempt import InputError
from rules.verdict import SharedElement
from rules.words import Domain
from tests.recovery.deciding import a_cluster, a_policy, failed, from_now_on, in_mode, judged
from tests.verdicts.builders import a_finding, a_ruleset, a_user
from verdicts import conclude


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conclude, "current_ruleset", a_ruleset)


def blamed(names: list[str], symptom: str = "nccl_timeout", **more: Any) -> list[Blamed]:
    return [Blamed(node=name, domain="network_fabric", symptom=symptom, **more) for name in names]


def nodes(first: int, last: int) -> list[str]:
    return [f"gpu-{number:02d}" for number in range(first, last + 1)]


EVERYBODY = frozenset(nodes(1, 200))
GROUPS = {
    ("switch", "sw-1"): frozenset(nodes(1, 16)),
    ("switch", "sw-2"): frozenset(nodes(17, 32)),
    ("rack", "r-1"): frozenset(nodes(1, 64)),
    ("image", "torch:25"): EVERYBODY,
}


def test_faults_under_one_switch_point_to_it_and_not_to_the_rack_around_it() -> None:
    (found,) = shared_cause.find(blamed(nodes(2, 13)), GROUPS, EVERYBODY)
    assert (found.element, found.name, len(found.nodes), found.of) == ("switch", "sw-1", 12, 16)
    assert found.said == "12 of 16 nodes of switch sw-1 show nccl_timeout within a short time."


def test_faults_here_and_there_share_nothing_and_an_image_that_all_run_is_no_explanation() -> None:
    assert shared_cause.find(blamed(["gpu-03", "gpu-70", "gpu-120", "gpu-199"]), GROUPS, EVERYBODY) == []


def test_many_with_one_symptom_at_once_are_an_incident_even_where_nothing_is_known_to_be_shared() -> None:
    (found,) = shared_cause.find(blamed(["gpu-70", "gpu-90", "gpu-120", "gpu-150", "gpu-199"]), {}, EVERYBODY)
    assert (found.element, found.name) == ("cluster", "nccl_timeout")


def test_what_their_jobs_ran_with_is_named_where_it_is_the_same() -> None:
    tags = (("driver", "595.10"),)
    (found,) = shared_cause.find(blamed(["a", "b", "c", "d", "e"], tags=tags), {}, EVERYBODY)
    assert (found.element, found.name) == ("driver", "595.10")


@given(st.integers(1, 300), st.data())
@settings(max_examples=100, deadline=None)
def test_chance_is_a_probability_and_falls_with_more_hits(everybody: int, data: st.DataObject) -> None:
    members = data.draw(st.integers(0, everybody))
    drawn = data.draw(st.integers(0, everybody))
    chances = [shared_cause.chance(hits, members, drawn, everybody) for hits in range(min(members, drawn) + 1)]
    assert chances[0] == pytest.approx(1)
    assert all(0 <= later <= earlier + 1e-9 for earlier, later in pairwise(chances))


@pytest.mark.django_db
def test_a_switch_fault_under_12_nodes_is_one_incident_and_excludes_nobody() -> None:
    a_cluster()
    a_policy()
    topology = {"switch": {"sw-1": nodes(1, 16), "sw-2": nodes(17, 32)}}
    from_now_on()
    # The first ones come alone: nothing is shared yet, and their nodes are proposed to be left out.
    for number in (1, 2):
        judged(
            failed(f"job-{number}", workload=f"w{number}", nodes=f"gpu-{number:02d}", topology=topology),
            f"gpu-{number:02d}",
        )
    propose.work()
    assert Proposal.objects.filter(state=ProposalState.OPEN).count() == 2
    for number in range(3, 13):
        judged(failed(f"job-{number}", workload=f"w{number}", nodes=f"gpu-{number:02d}"), f"gpu-{number:02d}")
    propose.work()
    incident = Incident.objects.get()
    assert (incident.element, incident.value, incident.nodes) == ("switch", "sw-1", nodes(1, 12))
    assert not Proposal.objects.exclude(state=ProposalState.WITHDRAWN).exists()
    assert set(Proposal.objects.values_list("incident", flat=True)) == {incident.pk}
    # A late one under the same switch is refused by the guard, one elsewhere is not.
    assert propose.consider(judged(failed("late", workload="w", nodes="gpu-14"), "gpu-14").pk) == []
    assert len(propose.consider(judged(failed("far", workload="v", nodes="gpu-99"), "gpu-99").pk)) == 1
    assert incidents.look(incident.cluster_id) == []


@pytest.mark.django_db
def test_a_bad_image_on_64_nodes_is_one_incident_and_excludes_nobody() -> None:
    a_cluster()
    a_policy(match={"domains": ["host_software"]})
    in_mode(Policy.objects.get(), "automatic", Domain.HOST_SOFTWARE)
    from_now_on()
    for number in range(1, 65):
        name = f"gpu-{number:02d}"
        image = {"image": "registry/torch:26.11-rc1"}
        judged(
            failed(f"job-{number}", workload=f"w{number}", nodes=name, **image),
            name,
            symptom="cuda_driver_mismatch",
            attributed_domain=Domain.HOST_SOFTWARE,
        )
    propose.work()
    incident = Incident.objects.get()
    assert (incident.element, incident.value, len(incident.nodes)) == ("image", "registry/torch:26.11-rc1", 64)
    assert not Proposal.objects.exists()


@pytest.mark.django_db
def test_a_flood_whose_element_is_found_later_stays_one_incident() -> None:
    cluster = a_cluster()
    (flood,) = shared_cause.find(blamed(nodes(1, 5)), {}, EVERYBODY)
    (switch,) = shared_cause.find(blamed(nodes(2, 13)), GROUPS, EVERYBODY)
    first = incidents.open_or_widen(cluster.pk, flood)
    assert incidents.open_or_widen(cluster.pk, flood) is None
    assert incidents.open_or_widen(cluster.pk, switch) == first
    incident = Incident.objects.get()
    assert (incident.element, incident.value, incident.nodes) == ("switch", "sw-1", nodes(1, 13))


@pytest.mark.django_db
def test_a_driver_that_was_rolled_out_is_named() -> None:
    cluster = a_cluster()
    for number in range(1, 7):
        name = f"gpu-{number:02d}"
        told = a_finding(symptom="fm_version", nodes=[name], locus={"node": name}, decoded={"driver": "595.71.05"})
        judged(failed(f"job-{number}", nodes=name), name, causes=[told], attributed_domain=Domain.HOST_SOFTWARE)
    (incident,) = incidents.look(cluster.pk)
    assert (incident.element, incident.value, len(incident.nodes)) == ("driver", "595.71.05", 6)


@pytest.mark.django_db
def test_what_a_verdict_finds_to_be_shared_is_an_incident_at_once_and_a_person_closes_it() -> None:
    a_cluster()
    a_policy()
    shared = SharedElement(kind="rack", name="r-7", nodes=nodes(1, 8))
    verdict = judged(failed(), shared_element=shared, attributed_domain=Domain.FACILITY)
    assert propose.consider(verdict.pk) == []
    incident = Incident.objects.get()
    ada = a_user("ada", "operator")
    with pytest.raises(InputError, match="say why"):
        incidents.close(incident.pk, by=ada, reason="")
    assert incidents.close(incident.pk, by=ada, reason="the power feed was replaced").closed_at is not None
    assert decide.sweep() == 0
