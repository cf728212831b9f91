"""`/metrics`: who may read it, and that its numbers are those of the store."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoAssertNumQueries

from attribution_site import metrics
from tests.verdicts.page_bodies import a_verdict, an_attempt, body, nvlink_attempt, nvlink_body
from tests.verdicts.test_unrecognised import item, with_lines
from verdicts.models import AttributionRequest, DriftCheck

pytestmark = pytest.mark.django_db

TOKEN = "a token for tests"


@pytest.fixture(autouse=True)
def counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is told what another one counted."""
    monkeypatch.setattr(metrics, "answer", metrics.Answer(0))


def numbers(client: Client) -> dict[tuple[str, ...], float]:
    """The samples by name and label values."""
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain")
    families = text_string_to_metric_families(response.content.decode())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


# --- Who may read -------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1"])
def test_this_machine_may_read_whatever_host_name_it_asks_for(client: Client, address: str) -> None:
    response = client.get("/metrics", REMOTE_ADDR=address, HTTP_HOST="10.1.2.3:8000")
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"


@pytest.mark.parametrize("address", ["10.0.0.7", "192.168.1.1", "2001:db8::1", "", "nonsense"])
def test_another_machine_may_not(client: Client, address: str) -> None:
    response = client.get("/metrics", REMOTE_ADDR=address)
    assert response.status_code == 403
    assert b"inquest_" not in response.content


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Forwarded", "Via"])
def test_what_a_proxy_on_this_machine_passes_on_is_not_of_this_machine(client: Client, header: str) -> None:
    assert client.get("/metrics", headers={header: "127.0.0.1"}).status_code == 403


def test_a_token_opens_it_from_anywhere(client: Client, settings: Any) -> None:
    settings.INQUEST_METRICS_TOKEN = TOKEN
    far: dict[str, Any] = {"REMOTE_ADDR": "10.0.0.7", "HTTP_X_FORWARDED_FOR": "192.0.2.1"}
    assert client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, **far).status_code == 200
    for wrong in ("", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer tökén"):
        assert client.get("/metrics", headers={"Authorization": wrong}, **far).status_code == 403, wrong


def test_without_a_token_set_an_empty_one_opens_nothing(client: Client) -> None:
    for given in ("Bearer ", "Bearer"):
        assert client.get("/metrics", headers={"Authorization": given}, REMOTE_ADDR="10.0.0.7").status_code == 403


# --- What it says -------------------------------------------------------------------------------


def test_an_empty_store_has_zeros(client: Client) -> None:
    said = numbers(client)
    assert said["inquest_attribution_requests", "pending"] == 0
    assert said["inquest_attribution_oldest_due_seconds",] == 0
    assert said["inquest_unrecognised_templates", "any"] == 0
    assert not [name for name in said if name[0].startswith("inquest_rules_drift")]


def test_the_queue_and_the_verdicts_are_counted(client: Client) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    a_verdict(verdict.attempt, body(), number=2)
    AttributionRequest.objects.create(attempt=verdict.attempt, mode="slow")
    AttributionRequest.objects.create(attempt=an_attempt("2"), mode="fast", state="failed")
    said = numbers(client)
    assert said["inquest_attribution_requests", "pending"] == 1
    assert said["inquest_attribution_requests", "running"] == 0
    assert said["inquest_attribution_requests", "failed"] == 1
    assert said["inquest_attribution_oldest_due_seconds",] >= 0
    assert said["inquest_verdicts_total", "nvlink_fabric", "strong"] == 1
    assert said["inquest_standing_verdicts", "nvlink_fabric", "strong"] == 0
    assert said["inquest_verdicts_total", "unattributed", "none"] == 1
    assert said["inquest_standing_verdicts", "unattributed", "none"] == 1


def test_unrecognised_templates_and_silent_rules_are_counted(client: Client) -> None:
    with_lines("1", item(), item("boom", "boom", near_end=True))
    with_lines("2", item())
    with_lines("3", item("long ago", "long ago"), days_ago=30)
    sign = {"kind": "silent", "rule": "gpu.off-the-bus"}
    given: dict[str, Any] = {"days": 7, "attempts_before": 5, "attempts_after": 6, "ruleset": "ab" * 32}
    until = "2026-11-03T05:17:00+00:00"
    DriftCheck.objects.create(until=until, signs=[sign, sign | {"rule": "old"}], checked_at=until, **given)
    DriftCheck.objects.create(until=until, signs=[sign], **given)
    said = numbers(client)
    assert said["inquest_unrecognised_templates", "any"] == 2
    assert said["inquest_unrecognised_templates", "yes"] == 1
    assert said["inquest_rules_drift_signs", "silent"] == 1
    assert said["inquest_rules_drift_signs", "near_miss"] == 0
    assert said["inquest_rule_silent", "gpu.off-the-bus"] == 1
    assert ("inquest_rule_silent", "old") not in said
    assert said["inquest_rules_drift_checked_timestamp_seconds",] > 1_700_000_000


def test_a_database_that_is_away_is_said_and_not_why(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise DatabaseError("at 10.9.8.7")

    monkeypatch.setattr(metrics.measure, "queue", away)
    monkeypatch.setattr(metrics.connection, "close", lambda: None)
    response = client.get("/metrics")
    assert response.status_code == 503
    assert b"10.9.8.7" not in response.content


def test_scrapes_close_together_are_counted_once(
    client: Client, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    monkeypatch.setattr(metrics, "answer", metrics.Answer(60))
    with django_assert_num_queries(21):
        first = client.get("/metrics").content
    with django_assert_num_queries(0):
        assert client.get("/metrics").content == first
