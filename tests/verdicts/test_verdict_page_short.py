"""What a newcomer finds in a minute: the node, why not the NCCL errors, what was not collected, what to do and who."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from rules.words import CAUSAL_DOMAINS, Domain
from tests.verdicts.incidents import HOSTILE, body_of, many_ranks
from tests.verdicts.page_bodies import (
    a_verdict,
    ambiguous_body,
    an_attempt,
    body,
    coverage,
    finding,
    no_failure_body,
    nvlink_attempt,
    nvlink_body,
)
from tests.verdicts.seen import text_of
from verdicts import conclude, wording
from verdicts.models import Node, Verdict
from verdicts.upload import ingest
from verdicts.verdict_page.short import in_short

Visitor = Callable[..., Client]
SAMPLES = Path(conclude.__file__).parent / "samples"


def explained(identity: str, by: str, title: str, timing: str, **more: Any) -> dict[str, Any]:
    """A demoted finding."""
    by_what = {"finding": by, "rule": "a.b", "title": title, "relation": "job", "timing": timing}
    return finding(identity, more.pop("rule", "nccl.remote-error"), f"Symptom {identity}", explained_by=by_what, **more)


def short_text(page: Any) -> str:
    """The four answers of a page."""
    html = page.content.decode()
    start = html.index('<dl class="short"')
    page.content = html[start : html.index("</dl>", start)].encode()
    return text_of(page)


# --- Arranged ------------------------------------------------------------------------------------


def test_symptoms_are_told_by_what_is_at_the_root_of_them() -> None:
    given = body(
        causes=[finding("f1", "a.b", "The cause")],
        demoted=[
            explained("f2", "f1", "The cause", "6.0 s later", count=10),
            explained("f3", "f2", "Symptom f2", "1.0 s later", count=30),
            explained("f4", "f1", "The cause", "3.5 s later", rule="slurm.step-killed"),
        ],
    )
    [group] = in_short(given).not_blamed
    assert (group.finding, group.title, group.lines, group.number) == ("f1", "The cause", 41, 3)
    assert group.kind == "NCCL"
    assert group.timing == "the first 3.5 s later"
    assert group.through == ["Symptom f2"]


def test_the_errors_of_the_kind_that_is_named_are_named_first_and_an_unknown_order_is_said() -> None:
    unknown = "order not known: 0.4 s apart, within what the clocks can be trusted for"
    given = body(
        causes=[finding("f1", "a.b", "The cause")],
        demoted=[
            explained("f2", "f1", "The cause", "6.0 s later", rule="slurm.oom", count=10),
            explained("f3", "f1", "The cause", unknown, count=3),
        ],
    )
    [group] = in_short(given).not_blamed
    assert (group.kind, group.titles) == ("NCCL", ["Symptom f3", "Symptom f2"])
    assert group.timing == "the first 6.0 s later; the order of 1 of them is not known"


def test_explanations_in_a_circle_end() -> None:
    given = body(demoted=[explained("f2", "f3", "Three", ""), explained("f3", "f2", "Two", "")])
    assert len(in_short(given).not_blamed) == 2


def test_a_source_that_could_change_the_verdict_comes_first_and_says_so() -> None:
    given = body(
        causes=[finding("f1", "a.b", "The cause")],
        coverage=coverage(applog="ok", fabric_manager=("error", "refused", 0, 0)),
        blind_spots=[
            {"source": "syslog", "status": "not_configured", "rules": 9, "could_explain": ["f1"], "examples": []}
        ],
    )
    short = in_short(given)
    assert [gap.source for gap in short.gaps][:2] == ["syslog", "fabric_manager"]
    assert short.gaps[0].matters
    assert not short.harmless_gaps
    assert any("system log" in reason for reason in short.first)


def test_every_domain_has_an_owner_for_now_and_for_later() -> None:
    for domain in CAUSAL_DOMAINS:
        assert wording.CONTAINS[domain]
        assert wording.REPAIRS[domain]
    assert set(wording.CONTAINS) == set(Domain)
    docs = (Path(conclude.__file__).parent.parent / "docs/console.md").read_text(encoding="utf-8")
    for owner in {*wording.CONTAINS.values(), *wording.REPAIRS.values()} - {""}:
        assert owner in docs


def test_a_step_belongs_to_the_domain_of_its_finding() -> None:
    given = body(
        attributed_domain="gpu_hardware",
        causes=[finding("f1", "a.b", "One", domain="gpu_hardware"), finding("f2", "c.d", "Two", domain="storage")],
        advice={
            "now": [{"text": "Move.", "rule": None, "findings": ["f1"]}],
            "later": [{"text": "Ask.", "rule": None, "findings": ["f2"]}, {"text": "Think.", "rule": None}],
        },
    )
    short = in_short(given)
    assert [step.owner for step in short.now] == ["cluster operations"]
    assert [step.owner for step in short.later] == [
        "storage operations",
        "cluster operations with the hardware vendor",
    ]


def test_a_job_that_reached_its_limit_is_its_owners() -> None:
    given = body(
        attributed_domain="scheduler",
        terminal_state="timed_out",
        causes=[finding("f1", "slurm.time-limit", "The job reached its time limit", domain="scheduler")],
        advice={"now": [{"text": "Ask for more.", "rule": None, "findings": ["f1"]}], "later": []},
    )
    assert [step.owner for step in in_short(given).now] == ["job owner"]
    assert [step.owner for step in in_short(given | {"terminal_state": "failed"}).now] == ["cluster operations"]


def test_a_repair_waits_for_what_is_not_known() -> None:
    strong = body(strength="strong", attributed_domain="storage", causes=[finding("f1", "a.b", "One")])
    assert in_short(strong).first == []
    weak = strong | {"strength": "moderate", "causes": [finding("f1", "a.b", "One", maturity="trial")]}
    assert in_short(weak).first == [
        "the evidence is moderate, not strong",
        "the verdict rests on a rule that is still trial",
    ]


# --- On the page ---------------------------------------------------------------------------------

pages = pytest.mark.django_db


@pages
def test_the_four_questions_are_answered_at_the_top(as_: Visitor) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    text = short_text(as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk])))
    assert "What failed Node gpu-017" in text
    assert "NCCL errors: “A collective did not finish in time”" in text
    assert "consequences of An NVLink went down" in text
    assert "the first 5.0 s later" in text
    assert "Fabric Manager log" in text
    assert "cluster operations" in text


@pages
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ambiguous_body, ["Not decided: 2 causes fit.", "operator on duty", "Test: Move the GPU"]),
        (no_failure_body, ["Nothing: the attempt did not fail."]),
        (body, ["Not known, and no node is blamed.", "collect what is missing"]),
    ],
)
def test_a_verdict_that_blames_nobody_says_so(
    as_: Visitor, given: Callable[..., dict[str, Any]], said: list[str]
) -> None:
    verdict = a_verdict(an_attempt(), given())
    text = short_text(as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk])))
    for part in said:
        assert part in text


@pages
def test_a_source_that_every_verdict_needs_is_not_called_harmless(as_: Visitor) -> None:
    given = body(
        causes=[finding("f1", "a.b", "The cause")],
        attributed_domain="application_code",
        strength="moderate",
        coverage=coverage(applog="ok", scheduler="ok"),
    )
    text = short_text(as_("viewer").get(reverse("verdicts:detail", args=[a_verdict(an_attempt(), given).pk])))
    assert "No rule about them could explain this cause; without the system log another could be missed." in text


@pages
def test_consequences_that_nothing_explains_are_no_cause_either(as_: Visitor) -> None:
    attempt, said, reports = many_ranks(64)
    verdict = a_verdict(an_attempt(), body_of(attempt, said[1:], reports))
    text = short_text(as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk])))
    assert "“ A collective did not finish in time ” (63 lines): only ever a consequence" in text


@pages
def test_where_nothing_was_found_the_largest_blind_spot_is_named(as_: Visitor) -> None:
    blind = {"source": "syslog", "status": "not_configured", "rules": 145, "could_explain": [], "examples": []}
    verdict = a_verdict(an_attempt(), body(blind_spots=[blind]))
    text = short_text(as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk])))
    assert "The cause may stand there: 145 rules read the system log alone." in text


@pages
def test_a_node_leads_to_its_page_and_an_unknown_one_to_its_verdicts(as_: Visitor) -> None:
    attempt = nvlink_attempt()
    verdict = a_verdict(attempt, nvlink_body())
    client = as_("viewer")
    address = reverse("verdicts:attempt-node", args=[attempt.pk])
    assert (
        f'href="{address}?name=gpu-017"' in client.get(reverse("verdicts:detail", args=[verdict.pk])).content.decode()
    )
    known = Node.objects.get(name="gpu-017")
    assert client.get(address, {"name": "gpu-017"})["Location"] == reverse("verdicts:node", args=[known.pk])
    assert client.get(address, {"name": "<b>\0&x=1"})["Location"] == "/verdicts/?node=%3Cb%3E%26x%3D1"


@pages
def test_hostile_text_stays_text_in_the_answers(as_: Visitor) -> None:
    given = body(
        causes=[finding("f1", "a.b", HOSTILE, locus={"node": HOSTILE})],
        demoted=[explained("f2", "f1", HOSTILE, HOSTILE) | {"title": HOSTILE}],
        affected_nodes=[{"name": HOSTILE, "gpus": [HOSTILE], "ranks": [1], "links": [HOSTILE]}],
        advice={"now": [{"text": HOSTILE, "rule": None, "findings": ["f1"]}], "later": []},
        shared_element={"kind": "switch", "name": HOSTILE, "nodes": [HOSTILE]},
    )
    verdict = a_verdict(an_attempt(), given)
    html = as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk])).content.decode()
    assert "<img" not in html
    assert "\u202e" not in html
    assert html.count("</script>") == html.count("<script")


@pages
@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir() if path.is_dir()))
def test_every_sample_has_a_page_that_answers(as_: Visitor, sent: list[str], name: str) -> None:
    stored = ingest.ingest_path(SAMPLES / name)
    conclude.attribute_now(stored.request)
    verdict = Verdict.objects.current().get(attempt_id=stored.attempt)
    text = short_text(as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk])))
    for question in ("What failed", "What was not collected", "What to do now"):
        assert question in text
    for node in verdict.body["affected_nodes"][:4]:
        assert node["name"] in text
    if verdict.body["demoted"]:
        assert "What is not the cause" in text


@pages
def test_a_lost_node_is_named_though_nothing_is_blamed(as_: Visitor) -> None:
    lost = finding("f1", "slurm.node-lost", "Slurm lost contact with a node", role="symptom", symptom="node_lost")
    lost |= {"nodes": ["gpu-017"], "why": "only ever a consequence, and nothing found explains it"}
    tests = [{"text": "Look at the console of the node.", "rule": "slurm.node-lost", "findings": ["f1"]}]
    given = body(terminal_state="node_failed", interesting=[lost], discriminating_tests=tests)
    verdict = a_verdict(an_attempt(), given)
    text = short_text(as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk])))
    assert "Node gpu-017 stopped answering and was lost. Why is not known, and no node is blamed." in text
    assert "find out why the node stopped answering" in text
