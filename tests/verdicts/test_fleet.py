"""The fleet: whom standing verdicts blame, for what, how often again, and what the blamed share."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from rules.words import Domain
from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import a_verdict, an_attempt, body, evidence, finding
from verdicts.choices import Label
from verdicts.fleet import elements as fleet_elements
from verdicts.fleet import find as fleet_find
from verdicts.fleet.find import Span
from verdicts.models import Node
from verdicts.record import record_review

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
TOPOLOGY = {"switch": {"leaf-1": ["n1", "n2", "n3"], "leaf-2": ["n4"]}, "rack": {"r1": ["n1", "n2", "n3", "n4"]}}


def a_failure(
    node: str = "n1",
    *,
    days: float = 1,
    rule: str = "gpu.off-the-bus",
    domain: str = "gpu_hardware",
    cluster: str = "alpha",
    job: str = "",
    gpu: str = "0000:65:00",
    **more: Any,
) -> Any:
    """A verdict that blames a node, so many days ago."""
    end = NOW - timedelta(days=days)
    given = {name: more.pop(name) for name in ("image", "topology") if name in more}
    attempt = an_attempt(
        job or f"{node}-{days}",
        cluster=cluster,
        end=end.isoformat(),
        nodes=["n1", "n2", "n3", "n4"],
        workload="llm",
        **{"topology": TOPOLOGY, **given},
    )
    line = evidence("NVRM: Xid (PCI:0000:65:00): 79", f"syslog/{node}.log:3", node=node)
    cause = finding("f1", rule, rule, domain=domain, strength="strong", evidence=[line], nodes=[node])
    cause["locus"] = {"node": node, "gpu": gpu}
    follows = finding("f2", "nccl.remote-error", "NCCL", role="symptom", nodes=["n2"])
    follows["locus"] = {"node": "n2"}
    said = {
        "attributed_domain": domain,
        "strength": "strong",
        "affected_nodes": [{"name": node, "gpus": [gpu], "ranks": [], "links": ["link 5"]}],
        "causes": [cause],
        "demoted": [follows],
    }
    return a_verdict(attempt, body(**(said | more)))


def test_attempts_are_compared_by_the_drivers_that_their_topology_names() -> None:
    for number, driver in enumerate(("550.54.15", "550.54.15", "535.161.08")):
        a_failure(days=1 + number, topology=TOPOLOGY | {"driver": {driver: ["n1", "n2"]}})
    a_failure(days=9, topology=TOPOLOGY | {"driver": {"550.54.15": ["n1"], "535.161.08": ["n2"]}})
    a_failure(days=10)
    found = {one.value: one.attempts for one in fleet_elements.compared("driver", SPAN)}
    assert found == {"550.54.15": 2, "535.161.08": 1, "535.161.08 and 550.54.15": 1, "": 1}


def a_success(days: float) -> Any:
    attempt = an_attempt(f"good-{days}", cluster="alpha", end=(NOW - timedelta(days=days)).isoformat(), nodes=["n1"])
    return a_verdict(attempt, body(attributed_domain="no_failure", terminal_state="succeeded", affected_nodes=[]))


SPAN = Span(NOW - timedelta(days=30), NOW)
AT = {"until": NOW.isoformat()}


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(a_user("ada", "viewer"))
    return client


def text(answer: Any) -> str:
    assert answer.status_code == 200, answer.content
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def test_nodes_are_counted_by_the_verdicts_that_stand_in_the_time() -> None:
    for days in (1, 2, 40):
        a_failure("n1", days=days)
    again = a_failure("n2", days=3)
    a_success(1)
    found = fleet_find.blamed(SPAN)
    assert [(row.name, row.failures) for row in found] == [("n1", 2), ("n2", 1)]
    # A new verdict for the same attempt blames another node: the former one counts no longer.
    a_verdict(again.attempt, body(attributed_domain="storage", affected_nodes=[]), number=2)
    assert [(row.name, row.failures) for row in fleet_find.blamed(SPAN)] == [("n1", 2)]


def test_nodes_of_one_name_in_two_clusters_are_two() -> None:
    a_failure("n1", cluster="alpha")
    a_failure("n1", cluster="beta")
    assert {(row.cluster, row.failures) for row in fleet_find.blamed(SPAN)} == {("alpha", 1), ("beta", 1)}
    assert [row.cluster for row in fleet_find.blamed(SPAN, cluster="beta")] == ["beta"]


def test_a_verdict_that_was_called_wrong_is_counted_and_said() -> None:
    verdict = a_failure("n1")
    record_review(verdict.pk, by=a_user("rita", "reviewer"), label=Label.WRONG, actual_domain=Domain.STORAGE)
    row = fleet_find.blamed(SPAN)[0]
    assert (row.failures, row.wrong) == (1, 1)


def test_a_symptom_that_comes_again_within_a_week_is_told_apart() -> None:
    for days in (1, 3, 25):
        a_failure("n1", days=days)
    node = Node.objects.get(name="n1")
    found = fleet_find.again(list(fleet_find.rows_of(node)))[0]
    assert (found.symptom, found.times, found.soon) == ("gpu_off_the_bus", 3, 1)
    assert found.shortest == timedelta(days=2)


def test_what_ended_on_a_node_since_it_was_last_blamed() -> None:
    a_failure("n1", days=5)
    a_success(4)
    a_success(3)
    a_failure("n2", days=2)
    node = Node.objects.get(name="n1")
    found = fleet_find.since(node, NOW - timedelta(days=5))
    assert (found.attempts, found.failed) == (3, 1)


def test_a_gpu_has_its_own_history() -> None:
    a_failure("n1", days=1, gpu="0000:65:00")
    a_failure("n1", days=2, gpu="0000:65:00", rule="gpu.needs-reset")
    a_failure("n1", days=3, gpu="0000:ca:00")
    node = Node.objects.get(name="n1")
    found = {one["gpu"]: (one["blamed"], one["symptoms"]) for one in fleet_find.gpus_of(node, SPAN)}
    assert found == {"0000:65:00": (2, 2), "0000:ca:00": (1, 1)}
    assert [one["symptom"] for one in fleet_find.findings_on(node, SPAN, gpu="0000:ca:00")] == ["gpu_off_the_bus"]


def test_elements_are_those_that_attempts_describe_with_the_blame_of_their_nodes() -> None:
    a_failure("n1", days=1)
    a_failure("n2", days=2)
    a_failure("n3", days=3, shared_element={"kind": "switch", "name": "leaf-1", "nodes": ["n1", "n2", "n3"]})
    described = fleet_elements.described(cluster="alpha")
    assert {(one.kind, one.name, tuple(one.nodes)) for one in described} == {
        ("switch", "leaf-1", ("n1", "n2", "n3")),
        ("switch", "leaf-2", ("n4",)),
        ("rack", "r1", ("n1", "n2", "n3", "n4")),
    }
    found = fleet_elements.with_blame(described, SPAN, fleet_find.blamed(SPAN))
    first = found[0]
    assert (first.name, first.failures, first.hit) == ("leaf-1", 1, 3)
    assert found[-1].name == "leaf-2"
    assert found[-1].hit == 0


def test_attempts_are_compared_with_an_interval() -> None:
    for number in range(6):
        a_failure("n1", days=number + 1, image="train:2")
    for number in range(4):
        a_failure("n1", days=number + 8, image="train:1", attributed_domain="no_failure", affected_nodes=[])
    old, new = sorted(fleet_elements.compared("image", SPAN), key=lambda row: row.value)
    assert (old.value, old.attempts, old.failed.count) == ("train:1", 4, 0)
    assert (new.value, new.attempts, new.failed.count) == ("train:2", 6, 6)
    assert new.failed.low == pytest.approx(0.5407, abs=1e-4)
    assert new.domains == [("gpu_hardware", 6)]


# --- Pages --------------------------------------------------------------------------------------


def test_the_list_filters_sorts_and_leads_to_the_node(reader: Client) -> None:
    for days in (1, 2):
        a_failure("n1", days=days)
    a_failure("n2", days=1, domain="host_hardware", rule="kernel.mce")
    page = reader.get("/fleet/", AT).content.decode()
    assert page.index(">n1</a>") < page.index(">n2</a>")
    assert str(Node.objects.get(name="n1").pk) in page
    assert "gpu_off_the_bus" in page
    assert ">n1</a>" not in reader.get("/fleet/", AT | {"domain": "host_hardware"}).content.decode()
    assert ">n2</a>" not in reader.get("/fleet/", AT | {"symptom": "gpu_off_the_bus"}).content.decode()
    turned = reader.get("/fleet/", AT | {"order": "failures"}).content.decode()
    assert turned.index(">n2</a>") < turned.index(">n1</a>")
    assert ">n4</a>" not in page
    assert ">n4</a>" in reader.get("/fleet/", AT | {"show": "all"}).content.decode()


def test_a_filter_that_is_not_understood_finds_nothing_and_says_so(reader: Client) -> None:
    a_failure()
    for query in (
        {"days": "3"},
        {"days": "x"},
        {"until": "x"},
        {"colour": "red"},
        {"order": "weight"},
        {"cluster": "nowhere"},
    ):
        page = reader.get("/fleet/", query).content.decode()
        assert 'role="alert"' in page
        assert ">n1</a>" not in page


def test_the_time_shown_can_be_stepped_through(reader: Client) -> None:
    a_failure(days=40)
    a_failure("n2", days=1)
    page = reader.get("/fleet/", AT).content.decode()
    earlier = (NOW - timedelta(days=30)).strftime("until=%Y-%m-%dT%H%%3A%M%%3A%SZ")
    assert f'href="?{earlier}#heat"' in page
    before = reader.get(f"/fleet/?{earlier}").content.decode()
    assert ">n1</a>" in before
    assert ">n2</a>" not in before
    assert 'rel="next"' in before


def test_the_empty_states_differ(reader: Client) -> None:
    assert "No node is known yet" in text(reader.get("/fleet/"))
    a_success(1)
    assert "No node was blamed in this time" in text(reader.get("/fleet/", AT))
    assert "No node matches" in text(reader.get("/fleet/", AT | {"text": "zzz"}))


def test_the_page_of_a_node_tells_its_story(reader: Client) -> None:
    for days in (1, 3):
        a_failure("n1", days=days)
    a_success(0.5)
    node = Node.objects.get(name="n1")
    said = text(reader.get(f"/fleet/nodes/{node.pk}/", AT))
    assert "blame it for 2 failures" in said
    assert "1 attempt ended on it, 0 of them failed" in said
    assert "leaf-1" in said
    assert "link 5" in said
    assert "0000:65:00" in said
    other = text(reader.get(f"/fleet/nodes/{Node.objects.get(name='n2').pk}/", AT))
    assert "No standing verdict blames it" in other
    assert "nccl_remote_error" in other


def test_the_pages_of_a_gpu_an_element_and_a_comparison(reader: Client) -> None:
    a_failure("n1", image="train:1")
    node = Node.objects.get(name="n1")
    assert "gpu_off_the_bus" in text(reader.get(f"/fleet/nodes/{node.pk}/gpu/", AT | {"gpu": "0000:65:00"}))
    assert "Nothing in this time" in text(reader.get(f"/fleet/nodes/{node.pk}/gpu/", AT | {"gpu": "x"}))
    assert "1 of 3 were blamed" in text(reader.get("/fleet/elements/switch/leaf-1/", AT))
    assert reader.get("/fleet/elements/switch/leaf-99/", AT).status_code == 404
    assert "1 of its 3 nodes was blamed" in text(reader.get("/fleet/elements/", AT))
    assert "train:1" in text(reader.get("/fleet/comparison/", AT))


def test_of_a_long_time_the_latest_blames_are_counted_and_the_page_says_since_when(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_find, "MOST_BLAMES", 2)
    for days in (20, 10, 5):
        a_failure(days=days)
    until = {"until": NOW.isoformat()}
    page = reader.get("/fleet/", until)
    assert [row.failures for row in page.context["rows"]] == [2] and "counted is since" in text(page)
    assert "counted is since" not in text(reader.get("/fleet/", {"days": "7", **until}))


def test_hostile_names_are_shown_and_not_obeyed(reader: Client) -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e"
    a_failure(hostile, gpu='"><script>alert(1)</script>')
    node = Node.objects.get(name=hostile)
    for address in ("/fleet/", f"/fleet/nodes/{node.pk}/", "/fleet/elements/"):
        page = reader.get(address, AT).content.decode()
        assert "<img" not in page
        assert "<script>alert" not in page


def test_pages_cost_the_same_for_any_number_of_rows(
    reader: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(8):
        a_failure(f"n{number}", days=1 + number / 10)
    node = Node.objects.get(name="n1")
    for address in (
        "/fleet/",
        "/fleet/?show=all",
        "/fleet/elements/",
        "/fleet/comparison/",
        "/fleet/elements/switch/leaf-1/",
    ):
        with django_assert_max_num_queries(12):
            reader.get(address, AT)
    with django_assert_max_num_queries(18):
        reader.get(f"/fleet/nodes/{node.pk}/", AT)


def test_nobody_without_a_role_reads_it(client: Client) -> None:
    client.force_login(a_user("nobody"))
    assert client.get("/fleet/").status_code == 403
    client.logout()
    assert client.get("/fleet/").status_code == 302


# --- The API ------------------------------------------------------------------------------------


def test_the_api_has_what_the_pages_show(client_of: Callable[..., APIClient]) -> None:
    api = client_of("viewer")
    for days in (1, 2):
        a_failure("n1", days=days, image="train:1")
    rows = api.get("/api/v1/fleet/nodes", AT).json()
    assert rows["count"] == 1
    assert rows["results"][0]["symptoms"] == [["gpu_off_the_bus", 2]]
    node = api.get(f"/api/v1/fleet/nodes/{rows['results'][0]['id']}", AT).json()
    assert node["failures"] == 2
    assert node["again"][0]["shortest"] == 86400.0
    assert sum(node["by_week"]["gpu_off_the_bus"]) == 2
    elements = api.get("/api/v1/fleet/elements", AT | {"kind": "switch", "name": "leaf-1"}).json()
    assert elements["results"][0]["members"] == {"n1": 2}
    assert api.get("/api/v1/fleet/elements", AT | {"kind": "switch", "name": "no"}).status_code == 404
    assert api.get("/api/v1/fleet/comparison", AT | {"by": "image"}).json()["results"][0]["value"] == "train:1"
    for address in ("nodes", "elements", "comparison"):
        assert api.get(f"/api/v1/fleet/{address}", {"nonsense": "1"}).status_code == 400
    assert APIClient().get("/api/v1/fleet/nodes").status_code == 401


def test_without_a_time_the_last_days_count() -> None:
    assert fleet_find.blamed(Span(timezone.now() - timedelta(days=30), timezone.now())) == []
