"""The shipped samples, through the same path that users use, with the real engine."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import verdicts
from rules.attempt import Attempt as GivenAttempt
from rules.collect import collect
from rules.engine import attribute
from rules.incident import open_incident
from rules.observation import Observation as GivenObservation
from rules.verdict import canonical_json
from rules.words import Source
from verdicts import cli, conclude, record
from verdicts.choices import Mode
from verdicts.models import Attempt, AttributionRequest, Verdict
from verdicts.upload.ingest import ingest_path

SAMPLES = Path(verdicts.__file__).parent / "samples"

#: What a person who reads the sample concludes: terminal state, domain, affected nodes.
WANTED: dict[str, tuple[str, str, list[str]]] = {
    "xid149": ("failed", "nvlink_fabric", ["b200-19"]),
    # A job that outgrew its own limit is not the node's fault: none is held to be affected.
    "host-oom": ("out_of_memory", "resource_exhaustion", ["a100-07"]),
    "container-image": ("failed", "container_image", []),
    "python-error": ("failed", "application_code", []),
    "out-of-time": ("timed_out", "scheduler", []),
    "two-causes": ("failed", "ambiguous", ["h100-42", "h100-44"]),
    "killed-without-witness": ("failed", "unattributed", []),
    "clean-success": ("succeeded", "no_failure", []),
}


def _ingested(name: str) -> Verdict:
    stored = ingest_path(SAMPLES / name)
    verdict = conclude.attribute_now(stored.request)
    assert verdict is not None
    return verdict


def test_every_sample_is_expected() -> None:
    assert {path.name for path in SAMPLES.iterdir() if path.is_dir()} == set(WANTED)


@pytest.mark.django_db
@pytest.mark.parametrize("name", list(WANTED))
def test_a_sample_gets_its_verdict(name: str, sent: list[str]) -> None:
    verdict = _ingested(name)
    state, domain, nodes = WANTED[name]
    assert (verdict.state, verdict.domain) == (state, domain), verdict.headline
    named = sorted(node.name for node in verdict.nodes.all())
    assert set(named) <= set(nodes), verdict.headline
    if name == "xid149":
        assert named == nodes
    if name == "host-oom":
        assert {node for cause in verdict.body["causes"] for node in cause["nodes"]} == set(nodes)


@pytest.mark.django_db
@pytest.mark.parametrize("name", list(WANTED))
def test_the_store_says_what_explain_says(name: str, sent: list[str]) -> None:
    ruleset = conclude.current_ruleset()
    incident = open_incident([SAMPLES / name])
    collected = collect(incident, ruleset)
    explained = canonical_json(attribute(incident.attempt, collected.observations, collected.reports, ruleset))
    assert json.loads(_ingested(name).body_json) == json.loads(explained)
    assert Verdict.objects.get().body_json.encode() == explained


@pytest.mark.django_db
def test_the_seed_case_demotes_three_nccl_symptoms_with_their_explanation(sent: list[str]) -> None:
    body = _ingested("xid149").body
    [node] = body["affected_nodes"]
    assert node["name"] == "b200-19"
    assert "0000:c3:00" in node["gpus"]
    demoted = {finding["symptom"]: finding["explained_by"] for finding in body["demoted"]}
    ranks = {rank for finding in body["demoted"] for rank in finding["ranks"]}
    assert {3, 12, 28} <= ranks
    assert all(why["rule"] and why["timing"] for why in demoted.values())


@pytest.mark.django_db
def test_a_sample_ingested_twice_changes_nothing(sent: list[str]) -> None:
    first = _ingested("host-oom")
    again = ingest_path(SAMPLES / "host-oom")
    assert (again.stored, again.attempt) == (0, first.attempt_id)
    assert conclude.attribute_now(again.request) == first
    assert Attempt.objects.count() == 1


def _pieces(name: str) -> tuple[GivenAttempt, list[GivenObservation], list[Any]]:
    incident = open_incident([SAMPLES / name])
    collected = collect(incident, conclude.current_ruleset())
    return incident.attempt, collected.observations, collected.reports


@pytest.mark.django_db
def test_twenty_orders_and_batchings_give_the_same_bytes(sent: list[str]) -> None:
    attempt, observations, reports = _pieces("xid149")
    bodies = set()
    for seed in range(20):
        shuffled = random.Random(seed)
        row, _ = record.record_attempt(msgspec.structs.replace(attempt, job_id="918273", cluster=f"c{seed}"))
        rest = shuffled.sample(observations, k=len(observations)) + shuffled.choices(observations, k=20)
        reported = False
        while rest or not reported:
            if not reported and (not rest or shuffled.random() < 0.2):
                record.record_reports(row.pk, shuffled.sample(reports, k=len(reports)))
                reported = True
            size = shuffled.randint(1, 60)
            record.add_observations(row.pk, rest[:size])
            rest = rest[size:]
        verdict = conclude.attribute_now(conclude.request_attribution(row.pk, Mode.SLOW).pk)
        assert verdict is not None
        bodies.add(verdict.body_json.replace(f'"cluster":"c{seed}"', '"cluster":"c"'))
    assert len(bodies) == 1


_LINES = st.text(alphabet=st.characters(), max_size=200)


@pytest.mark.django_db
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(_LINES, min_size=1, max_size=6), node=_LINES, key=st.text(max_size=8))
def test_any_text_is_stored_and_judged(sent: list[str], lines: list[str], node: str, key: str) -> None:
    row, _ = record.record_attempt(GivenAttempt(job_id="1", workload="w", state="FAILED"))
    given_lines = [
        GivenObservation(source=Source.APPLOG, body=line, ref=f"a:{n}", node=node, attributes={key: line})
        for n, line in enumerate(lines)
    ]
    first = record.add_observations(row.pk, given_lines)
    again = record.add_observations(row.pk, given_lines)
    assert (again.replayed, first.received) == (True, len(lines))
    assert conclude.attribute_now(conclude.request_attribution(row.pk, Mode.SLOW).pk) is not None


@pytest.mark.django_db
def test_the_command_stores_and_says_plainly_that_no_worker_answered(sent: list[str]) -> None:
    done = CliRunner().invoke(cli.ingest, [str(SAMPLES / "host-oom"), "--wait", "0.1"])
    assert done.exit_code == 0, done.output
    attempt = Attempt.objects.get()
    assert str(attempt.pk) in done.output
    assert "no worker took it within 0.1 seconds" in done.output


@pytest.mark.django_db
def test_the_command_prints_the_verdict_and_its_page(
    sent: list[str], monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    asked = conclude.request_attribution

    def at_once(*args: Any, **more: Any) -> AttributionRequest:
        request = asked(*args, **more)
        conclude.attribute_now(request.pk)
        return request

    monkeypatch.setattr(conclude, "request_attribution", at_once)
    done = CliRunner().invoke(cli.ingest, [str(SAMPLES / "clean-success"), "--json"])
    told = json.loads(done.output)
    verdict = Verdict.objects.get()
    assert (told["verdict"], told["domain"], told["headline"]) == (str(verdict.pk), "no_failure", verdict.headline)
    assert told["page"] == f"/verdicts/{verdict.pk}/"


@pytest.mark.django_db
def test_the_command_refuses_what_it_cannot_use_and_goes_on(sent: list[str], tmp_path: Path) -> None:
    (tmp_path / "attempt.json").write_text('{"job_id": 7}')
    done = CliRunner().invoke(cli.ingest, [str(tmp_path), str(SAMPLES / "clean-success"), "--wait", "0"])
    assert done.exit_code == 2
    assert "job_id" in done.output
    assert Attempt.objects.count() == 1


@pytest.mark.django_db
def test_files_without_a_name_are_attempts_of_their_own(sent: list[str], tmp_path: Path) -> None:
    one, two = tmp_path / "one.log", tmp_path / "two.log"
    one.write_text("ValueError: one\n")
    two.write_text("ValueError: two\n")
    first, second, again = ingest_path(one), ingest_path(two), ingest_path(one)
    named = ingest_path(one, job="77", cluster="alpha")
    assert first.attempt == again.attempt
    assert len({first.attempt, second.attempt, named.attempt}) == 3
    assert any("no attempt.json" in note for note in first.notes)
    assert Attempt.objects.get(pk=named.attempt).job_id == "77"
