"""Switches and ports: what findings name, counted, and the page of one."""

from __future__ import annotations

import re
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from rules.words import Domain
from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import finding
from tests.verdicts.test_fleet import NOW, a_failure
from verdicts.choices import Label
from verdicts.fleet import ports as fleet_ports
from verdicts.fleet.find import Span
from verdicts.models import NamedPort
from verdicts.record import record_review

pytestmark = pytest.mark.django_db

AT = {"until": NOW.isoformat()}
MONTH = Span(NOW - timedelta(days=30), NOW)


def a_port_down(days: float, port: str = "Ethernet5/1", *, status: str = "causes", **locus: str) -> Any:
    """A verdict with a finding at a port of leaf-3."""
    one = finding("f9", "network.switch-port-down", "A switch port went down", domain="network_fabric", role="either")
    one["locus"] = {"switch": "leaf-3", "port": port} | locus
    more: dict[str, Any] = {status: [one]}
    if status == "demoted":
        by = {"finding": "f1", "rule": "a.b", "title": "Another", "relation": "job", "timing": ""}
        more = {"demoted": [one | {"explained_by": by}]}
    return a_failure(days=days, domain="network_fabric", job=f"{port}-{days}", **more)


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(a_user("vera", "viewer"))
    return client


def test_ports_are_counted_as_named_and_as_a_cause() -> None:
    a_port_down(1)
    verdict = a_port_down(3)
    a_port_down(5, status="demoted")
    a_port_down(2, "Ethernet6", status="demoted")
    record_review(verdict.pk, by=a_user("rita", "reviewer"), label=Label.WRONG, actual_domain=Domain.STORAGE)
    first, second = fleet_ports.ports(MONTH)
    assert (first.cluster, first.of, first.owner, first.port) == ("alpha", "switch", "leaf-3", "Ethernet5/1")
    assert (first.verdicts, first.blamed, first.wrong) == (3, 2, 1)
    assert (second.port, second.verdicts, second.blamed) == ("Ethernet6", 1, 0)
    assert [one.port for one in fleet_ports.ports(MONTH, text="ETHERNET6")] == ["Ethernet6"]
    assert fleet_ports.ports(MONTH, owner="leaf-4") == []


def test_a_port_of_a_node_has_its_device_where_it_is_a_number() -> None:
    a_port_down(1, "45", switch="", node="n1", device="0000:05:00.0")
    a_port_down(2, "ib0", switch="", node="n1", device="0000:0c:00.0")
    assert {(one.of, one.owner, one.port) for one in fleet_ports.ports(MONTH)} == {
        ("node", "n1", "0000:05:00.0 port 45"),
        ("node", "n1", "ib0"),
    }


def test_what_was_stored_before_is_read_as_what_is_stored_now() -> None:
    a_port_down(1)
    a_port_down(2, "45", switch="", node="n1", device="0000:05:00.0", status="demoted")
    columns = ("verdict_id", "finding", "status", "symptom", "of", "owner", "port")
    now = set(NamedPort.objects.values_list(*columns))
    NamedPort.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute(import_module("verdicts.migrations.0021_named_ports").THERE)
    assert set(NamedPort.objects.values_list(*columns)) == now
    assert len(now) == 2


def test_a_port_has_a_page_with_its_history(
    reader: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    verdicts = [a_port_down(1), a_port_down(3), a_port_down(20)]
    a_port_down(2, "Ethernet6")
    record_review(verdicts[0].pk, by=a_user("rita", "reviewer"), label=Label.RIGHT, note="cable replaced")
    with django_assert_max_num_queries(12):
        listed = reader.get("/fleet/ports/", AT).content.decode()
    link = "/fleet/ports/one/?cluster=alpha&amp;owner=leaf-3&amp;port=Ethernet5%2F1"
    assert link in listed
    with django_assert_max_num_queries(15):
        page = reader.get(
            "/fleet/ports/one/", AT | {"cluster": "alpha", "owner": "leaf-3", "port": "Ethernet5/1"}
        ).content.decode()
    for verdict in verdicts:
        assert str(verdict.pk) in page
    for words in ("What came again", "cable replaced", "called right", "Ethernet6", "over-time-figure"):
        assert words in page
    assert reader.get("/fleet/ports/one/", {"owner": "leaf-9"}).status_code == 404


def test_the_api_says_the_same(reader: Client) -> None:
    a_port_down(1)
    a_port_down(3)
    client = APIClient()
    client.force_authenticate(a_user("ada", "viewer"))
    (one,) = client.get("/api/v1/fleet/ports", AT).json()["results"]
    assert (one["owner"], one["port"], one["blamed"]) == ("leaf-3", "Ethernet5/1", 2)
    told = client.get("/api/v1/fleet/ports/one", AT | {"owner": "leaf-3", "port": "Ethernet5/1"}).json()
    assert told["again"][0]["times"] == 2
    assert client.get("/api/v1/fleet/ports/one", {"owner": "leaf-9"}).status_code == 404
    assert client.get("/api/v1/fleet/ports/one").status_code == 400


def test_hostile_names_stay_text(reader: Client) -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e&port="
    a_port_down(1, hostile, switch=hostile)
    listed = reader.get("/fleet/ports/", AT).content.decode()
    page = reader.get("/fleet/ports/one/", AT | {"owner": hostile, "port": hostile})
    assert page.status_code == 200
    for text in (listed, page.content.decode()):
        assert "<img" not in text
        # What a form carries on is sent back as it is, and not seen.
        assert "\u202e" not in re.sub("<input type=.hidden.[^>]*>", "", text)
