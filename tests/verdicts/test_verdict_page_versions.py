"""Earlier verdicts with what changed and why; other verdicts with the same cause; the page's budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from rules.words import Source
from tests.verdicts.builders import a_user, an_observation
from tests.verdicts.page_bodies import a_verdict, an_attempt, body, coverage, finding, nvlink_attempt, nvlink_body
from tests.verdicts.seen import text_of
from verdicts.models import Attempt, Verdict
from verdicts.people import talk
from verdicts.record import add_observations
from verdicts.verdict_page import related
from verdicts.verdict_page.compare import compare

Visitor = Callable[..., Client]
BUDGET = 12


def cause(rule: str = "gpu.off-the-bus", node: str = "n1", **more: Any) -> dict[str, Any]:
    return finding("f1", rule, "The GPU is gone", domain="gpu_hardware", locus={"node": node}, nodes=[node], **more)


# --- What changed, and why -----------------------------------------------------------------------


def test_evidence_that_arrived_is_the_reason() -> None:
    before = body(coverage=coverage(applog=("ok", "", 10, 1), syslog=("ok", "", 5, 2)))
    after = body(
        coverage=coverage(applog=("ok", "", 10, 1), syslog=("ok", "", 90, 1200)),
        attributed_domain="gpu_hardware",
        causes=[cause()],
    )
    change = compare(before, after)
    assert change.why == ["Evidence arrived: System log: 2 lines delivered before, 1,200 now."]
    assert change.what == [
        "Domain: Unattributed before, GPU hardware now.",
        "New: “The GPU is gone” (n1) is the cause.",
    ]


def test_a_source_that_was_collected_later_is_coverage_and_evidence() -> None:
    change = compare(body(), body(coverage=coverage(syslog=("partial", "full", 5, 3))))
    assert change.why == [
        "Coverage changed: System log: not collected before, in part now.",
        "Evidence arrived: System log: 0 lines delivered before, 3 now.",
    ]


def test_other_rules_another_engine_and_a_longer_look_are_reasons() -> None:
    after = body(mode="slow", engine="2", ruleset={"digest": "ef" * 32, "rules": 321, "layers": ["shipped"]})
    assert compare(body(mode="fast"), after).why == [
        "Rules changed: 5d0c8f6e5d0c before, efefefefefef now.",
        "Engine changed: 1 before, 2 now.",
        "A quick look was followed by the full one.",
    ]


def test_the_attempts_own_record_is_a_reason() -> None:
    before, after = (
        {"job_id": "1", "state": "RUNNING"},
        {"job_id": "1", "state": "FAILED", "end": "2026-11-03T02:00:00Z"},
    )
    assert compare(body(attempt=before), body(attempt=after)).why == [
        "The attempt's own record changed: the scheduler's word, end."
    ]


def test_a_cause_that_is_explained_now_says_so() -> None:
    before = body(causes=[cause()])
    after = body(demoted=[cause()])
    assert compare(before, after).what == ["“The GPU is gone” (n1) was the cause and is now demoted."]
    assert compare(before, body()).what == ["“The GPU is gone” (n1) was the cause and is no longer found."]
    assert compare(before, before).what == []


pages = pytest.mark.django_db


@pages
def test_page_and_api_tell_the_change_with_its_reason(as_: Visitor, client_of: Callable[..., APIClient]) -> None:
    attempt = nvlink_attempt()
    a_verdict(attempt, body())
    verdict = a_verdict(attempt, nvlink_body(), number=2)
    text = text_of(as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk])))
    assert "What changed Domain: Unattributed before, NVLink fabric now." in text
    assert "Why Coverage changed: Application log: not collected before, collected now." in text
    told = client_of("lead").get(reverse("api-verdict", args=[verdict.pk])).data
    assert told["changes"][0] == "Domain: Unattributed before, NVLink fabric now."
    assert told["because"][0] == "Coverage changed: Application log: not collected before, collected now."


@pages
def test_a_change_without_another_reason_is_the_lines_themselves(as_: Visitor) -> None:
    attempt = an_attempt()
    a_verdict(attempt, body())
    verdict = a_verdict(attempt, body(causes=[cause()]), number=2)
    assert "lines of the evidence did" in text_of(as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk])))


# --- The same cause elsewhere --------------------------------------------------------------------


def a_failure(job: str, node: str, **more: Any) -> Attempt:
    """An attempt whose verdict blames a node."""
    attempt = an_attempt(job, end=f"2026-11-03T02:11:0{len(job)}+00:00", **more.pop("fields", {}))
    given: dict[str, Any] = {
        "attributed_domain": "gpu_hardware",
        "causes": [cause(more.pop("rule", "gpu.off-the-bus"), node)],
        "affected_nodes": [{"name": node, "gpus": [], "ranks": [], "links": []}],
    }
    a_verdict(attempt, body(**(given | more)))
    return attempt


def shared(attempt: Attempt) -> dict[str, str]:
    """The jobs with the same cause, and what they share."""
    standing = Verdict.objects.current().get(attempt=attempt)
    return {other.row.job_id: other.shares for other in related.same_cause(attempt, standing.body)}


@pages
def test_the_same_cause_on_the_same_node_is_found() -> None:
    attempt = a_failure("1", "n1")
    a_failure("22", "n1")
    a_failure("333", "n2")
    a_failure("4444", "n1", rule="gpu.ecc")
    assert shared(attempt) == {"22": "node n1"}


@pages
def test_the_same_cause_behind_the_same_switch_is_found_for_a_network_fault() -> None:
    fields = {"topology": {"switch": {"s1": ["n1", "n2"], "s2": ["n3"]}}}
    network = {"attributed_domain": "network_fabric", "rule": "network.link-down"}
    attempt = a_failure("1", "n1", fields=fields, **network)
    a_failure("22", "n2", fields=fields, **network)
    a_failure("333", "n3", fields=fields, **network)
    assert shared(attempt) == {"22": "switch s1"}


@pages
def test_the_same_cause_with_the_same_image_is_found_for_an_image_fault() -> None:
    image = {"attributed_domain": "container_image", "rule": "image.missing", "affected_nodes": []}
    attempt = a_failure("1", "n1", fields={"image": "r/x:1"}, **image)
    a_failure("22", "n2", fields={"image": "r/x:1"}, **image)
    a_failure("333", "n3", fields={"image": "r/x:2"}, **image)
    assert shared(attempt) == {"22": "image r/x:1"}


@pages
def test_a_verdict_without_a_cause_has_no_others(as_: Visitor) -> None:
    attempt = an_attempt()
    verdict = a_verdict(attempt, body())
    assert related.same_cause(attempt, verdict.body) == []
    page = as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk]))
    assert "names no cause to look for" in text_of(page)


@pages
def test_the_page_keeps_its_budget_with_all_there_can_be(
    as_: Visitor, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    attempt = nvlink_attempt()
    for number in range(1, 5):
        verdict = a_verdict(attempt, nvlink_body() if number % 2 == 0 else body(), number=number)
    other = nvlink_attempt(restart_count=5)
    a_verdict(other, nvlink_body())
    xid = nvlink_body()["causes"][0]["evidence"][0]
    add_observations(attempt.pk, [an_observation(1, source=Source.SYSLOG, ref=xid["ref"], body=xid["text"])])
    for number in range(5):
        talk.add_comment(verdict.pk, by=a_user(f"rita-{number}", "reviewer"), text="@vic look")
    client = as_("lead")
    client.post(reverse("verdicts:review", args=[verdict.pk]), {"label": "right"})
    client.get(reverse("verdicts:detail", args=[verdict.pk]))
    with django_assert_max_num_queries(BUDGET):
        page = client.get(reverse("verdicts:detail", args=[verdict.pk]))
    assert "node gpu-017" in text_of(page)


# --- The same over the API -----------------------------------------------------------------------


@pages
def test_the_api_tells_what_the_page_arranges(client_of: Callable[..., APIClient]) -> None:
    attempt = nvlink_attempt()
    verdict = a_verdict(attempt, nvlink_body())
    a_verdict(nvlink_attempt(restart_count=7), nvlink_body())
    client = client_of("viewer")
    short = client.get(reverse("api-verdict-short", args=[verdict.pk])).json()
    assert short["now"][0]["owner"] == "cluster operations"
    assert {group["finding"] for group in short["not_blamed"]} == {"f1"}
    line = client.get(reverse("api-verdict-timeline", args=[verdict.pk])).json()
    cause = next(mark for mark in line["marks"] if mark["finding"] == "f1")
    assert cause["against_first_cause"] == "the first cause"
    assert cause["latest_micros"] - cause["earliest_micros"] > 1_000_000
    assert [mark["lane"] for mark in line["marks"] if mark["status"] == "person"] == ["People and verdicts"]
    near = client.get(reverse("api-verdict-related", args=[verdict.pk])).json()
    assert [one["shares"] for one in near["same_cause"]] == ["node gpu-017"]
    assert len(near["attempts"]) == 1
    nobody = client_of()
    for name in ("short", "timeline", "related"):
        assert nobody.get(reverse(f"api-verdict-{name}", args=[verdict.pk])).status_code == 403
        nowhere = reverse(f"api-verdict-{name}", args=["6f1c2b4e-0000-4000-8000-000000000000"])
        assert client.get(nowhere).status_code == 404
        assert APIClient().get(nowhere).status_code == 401
