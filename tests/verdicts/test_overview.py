"""The landing page: every number is that of the list that it leads to."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as some
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient
from time_machine import travel

from rules.words import Domain, Source
from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import (
    a_verdict,
    ambiguous_body,
    an_attempt,
    body,
    coverage,
    no_failure_body,
    nvlink_body,
)
from verdicts import wording
from verdicts.charts import whole_ticks
from verdicts.choices import Label
from verdicts.collectors.config import Clusters, ClusterSettings
from verdicts.collectors.files import Files
from verdicts.models import AttributionRequest, Cluster, SourceState, Verdict
from verdicts.quality.shares import share
from verdicts.record import record_review
from verdicts.sources import find as source_find

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 25, 10, 30, tzinfo=UTC)
QUERIES = 9


@pytest.fixture
def client_at(client: Client) -> Any:
    """A reader's browser at a known time."""
    with travel(NOW, tick=False):
        client.force_login(a_user("ada", "viewer"))
        yield client


def ended(hours: float, number: int, given_body: dict[str, Any] | None = None, **more: Any) -> Verdict:
    """A verdict of an attempt that ended so many hours ago."""
    return a_verdict(
        an_attempt(str(number), end=(NOW - timedelta(hours=hours)).isoformat(), **more), given_body or body()
    )


def a_fleet() -> None:
    """Some of everything that the overview counts."""
    blamed = {"attributed_domain": "nvlink_fabric", "strength": "weak"}
    node = [{"name": "gpu-017", "gpus": [], "ranks": [], "links": []}]
    switch = {"kind": "switch", "name": "leaf-3", "nodes": ["gpu-017", "gpu-018"]}
    rita = a_user("rita", "reviewer")
    for number in range(3):
        ended(2 + number, number, nvlink_body(), cluster="alpha")
    for number in range(10, 12):
        ended(30 * 24, number, body(**blamed, affected_nodes=node), cluster="alpha")
        ended(3 * 24, number + 10, body(**blamed, affected_nodes=node, shared_element=switch), cluster="beta")
    ambiguous = ended(5, 30, ambiguous_body())
    ended(5, 31, ambiguous_body())
    ended(20 * 24, 32, ambiguous_body())
    ended(1, 33, body(coverage=coverage(applog=("error", "away", 0, 0))))
    ended(1, 34, no_failure_body())
    record_review(ambiguous.pk, by=rita, label=Label.UNDECIDABLE)
    reviewed = [ended(50, 40 + number, nvlink_body()) for number in range(4)]
    for number, verdict in enumerate(reviewed):
        label = Label.WRONG if number == 0 else Label.RIGHT
        domain = {"actual_domain": Domain.STORAGE} if number == 0 else {}
        record_review(verdict.pk, by=rita, label=label, **domain)  # type: ignore[arg-type]
    waiting = an_attempt("50", end=(NOW - timedelta(hours=1)).isoformat())
    AttributionRequest.objects.create(attempt=waiting, mode="slow", state="failed", finished_at=NOW, error="x")


def numbers(html: str) -> list[tuple[str, str]]:
    """Every number that is a link, with the address of its list."""
    return [
        (number, address.replace("&amp;", "&"))
        for address, number in re.findall(r'<a href="(/verdicts/\?[^"]*)">(?:<b>)?([\d,]+\+?)(?:</b>)?<', html)
    ]


def test_every_number_is_that_of_the_list_it_leads_to(client_at: Client) -> None:
    a_fleet()
    found = numbers(client_at.get("/").content.decode())
    assert len(found) > 20
    for number, address in found:
        answer = client_at.get(address).context["answer"]
        assert f"{answer.count:,}" == number, address


def test_no_number_stands_without_a_list(client_at: Client) -> None:
    a_fleet()
    html = client_at.get("/").content.decode()
    cells = re.findall(r'<td class="num">(.*?)</td>', html, flags=re.DOTALL)
    assert all("<a href=" in cell or '<span class="muted">0</span>' in cell for cell in cells)


def test_what_waits_for_a_person_is_counted_until_somebody_reviewed_it(client_at: Client) -> None:
    a_fleet()
    tiles = {tile["name"]: tile["number"].count for tile in client_at.get("/").context["tiles"]}
    assert tiles == {
        "Ambiguous": 1,
        "Unattributed": 1,
        "Degraded coverage": 4,
        "Attributions that failed": 1,
        "Not analysed": 1,
    }


def test_nodes_and_what_they_share_are_named_when_blamed_twice(client_at: Client) -> None:
    a_fleet()
    found = client_at.get("/").context["found"]
    assert [(one.cluster, one.name, one.number.count) for one in found.nodes] == [
        ("", "gpu-017", 4),
        ("alpha", "gpu-017", 3),
        ("", "gpu-031", 2),
        ("beta", "gpu-017", 2),
    ]
    assert [(one.cluster, one.name, one.number.count) for one in found.shared] == [("beta", "switch:leaf-3", 2)]


def test_how_often_verdicts_were_wrong_has_its_interval_and_number(client_at: Client) -> None:
    a_fleet()
    said = re.sub(r"<[^>]*>", "", client_at.get("/").content.decode())
    assert "People called 1 of 4 verdicts wrong: 25.0 %" in said
    assert "from 4.6 % to 69.9 % possible (95 % interval, n = 4)" in said


def test_sources_that_went_blind_are_named_with_why(client_at: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    a_fleet()
    cluster = Cluster.objects.first()
    assert cluster is not None
    said = [
        Files(name=name, source=kind, root="/", paths=["x"])
        for name, kind in (("loki", Source.SYSLOG), ("well", Source.APPLOG))
    ]
    configured = Clusters(cluster=[ClusterSettings(name=cluster.name, source=[*said])])
    monkeypatch.setattr(source_find, "current_clusters", lambda: configured)
    SourceState.objects.create(
        cluster=cluster,
        name="loki",
        kind="loki",
        source="syslog",
        blind_since=NOW - timedelta(hours=3),
        check_body={"summary": "it cannot be asked", "fix": ["HTTP 502"]},
    )
    SourceState.objects.create(cluster=cluster, name="well", kind="loki", source="applog")
    SourceState.objects.create(
        cluster=cluster, name="former", kind="loki", source="applog", blind_since=NOW - timedelta(days=3)
    )
    html = client_at.get("/").content.decode()
    assert "it cannot be asked" in html
    assert "HTTP 502" in html
    assert "former" not in html, "what is no longer in the clusters file is nobody's trouble"
    assert "well" not in re.findall(r"<th scope=\"row\">(.*?) <span", html)


def test_an_empty_store_and_a_quiet_one_say_so(client_at: Client) -> None:
    assert "No attempt has been sent yet" in client_at.get("/").content.decode()
    ended(3, 1, no_failure_body())
    html = client_at.get("/").content.decode()
    for words in ("Nothing failed.", "Nothing was blamed twice.", "Nobody has said", "Nothing failed in this time."):
        assert words in html


def test_the_chart_has_the_numbers_of_the_table(client_at: Client) -> None:
    a_fleet()
    page = client_at.get("/")
    weeks = page.context["found"].weeks
    bars = page.context["figure"]["data"]
    assert [sum(bar["y"][place] for bar in bars) for place in range(len(weeks))] == [week.total.count for week in weeks]
    assert sum(week.total.count for week in weeks) > 10


def test_a_domain_looks_the_same_whatever_its_share(client_at: Client) -> None:
    assert len(set(wording.MARKS.values())) == len(wording.MARKS) == len(Domain)
    a_fleet()
    figure = client_at.get("/").context["figure"]
    named = {bar["name"]: bar["marker"] for bar in figure["data"]}
    colour, pattern = wording.MARKS["nvlink_fabric"]
    assert named["NVLink fabric"] == {"color": colour, "pattern": {"shape": pattern}}
    assert figure["layout"]["yaxis"]["dtick"] == int(figure["layout"]["yaxis"]["dtick"]) >= 1
    assert [whole_ticks(most)["dtick"] for most in (0, 6, 7, 13, 100, 99_999)] == [1, 1, 2, 5, 20, 20_000]


def test_samples_of_weeks_ago_are_not_taken_for_peace(client_at: Client) -> None:
    ended(24 * 30, 1)
    page = client_at.get("/").content.decode()
    assert "Nothing has ended for more than 7 days" in page
    # What does not say when it ended is counted by when it began or became known.
    a_verdict(an_attempt("2", start=(NOW - timedelta(hours=3)).isoformat(), end=None), body())
    assert "Nothing has ended" not in client_at.get("/").content.decode()


def test_the_api_says_the_same(client_at: Client, client_of: Callable[..., APIClient]) -> None:
    a_fleet()
    told = client_of("viewer").get("/api/v1/overview").json()
    assert told["needs_a_person"]["ambiguous"]["count"] == 1
    listed = client_of("operator").get(f"/api/v1/verdicts?{told['failed_today']['total']['query']}").json()
    assert listed["count"] == told["failed_today"]["total"]["count"]


def test_the_api_begins_with_its_addresses(client_of: Callable[..., APIClient]) -> None:
    told = client_of("viewer").get("/api/v1/").json()
    assert told["verdicts"] == "http://testserver/api/v1/verdicts"
    assert {"attempts", "overview", "reviews", "rules", "schema"} <= set(told)
    for address in told.values():
        assert client_of is not None and "{" not in address and "<" not in address
    assert APIClient().get("/api/v1/").status_code == 401


def test_the_overview_costs_the_same_however_much_there_is(
    client_at: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ended(3, 100, nvlink_body())
    client_at.get("/")
    with django_assert_num_queries(QUERIES):
        client_at.get("/")
    a_fleet()
    with django_assert_num_queries(QUERIES):
        client_at.get("/")


@given(some.integers(0, 500).flatmap(lambda whole: some.tuples(some.integers(0, whole), some.just(whole))))
def test_a_share_lies_within_its_interval(counted: tuple[int, int]) -> None:
    part, whole = counted
    found = share(part, whole)
    assert 0 <= found.low <= found.high <= 1
    if whole:
        assert found.low <= part / whole <= found.high
        assert found.high - found.low > 0


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [(0, 10, 0.0, 0.2775), (1, 4, 0.0456, 0.6994), (10, 10, 0.7225, 1.0), (0, 0, 0.0, 1.0)],
)
def test_intervals_are_wilsons(part: int, whole: int, low: float, high: float) -> None:
    assert share(part, whole)[2:] == pytest.approx((low, high), abs=5e-4)
