"""The API: idempotent, bounded, the same for every path in, and silent to those who may not."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from rules.words import Domain
from tests.verdicts.builders import a_report, an_attempt, an_engine_verdict, an_observation
from verdicts import conclude, limits, record
from verdicts.choices import Mode
from verdicts.models import Attempt, Observation, Review, Verdict

pytestmark = pytest.mark.django_db

Clients = Callable[..., APIClient]
ATTEMPTS = "/api/v1/attempts"


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _sent(client: APIClient, job: str = "4711", **more: Any) -> str:
    return client.post(ATTEMPTS, _plain(an_attempt(job, **more)), format="json").json()["id"]


def _judged(job: str = "4711", observations: int = 1, **more: Any) -> Verdict:
    attempt, _ = record.record_attempt(an_attempt(job, **more))
    record.add_observations(attempt.pk, [an_observation(number) for number in range(observations)])
    verdict = conclude.attribute_now(conclude.request_attribution(attempt.pk, Mode.SLOW).pk)
    assert verdict is not None
    return verdict


def test_from_an_attempt_to_its_verdict(client_of: Clients, engine: Any) -> None:
    client = client_of("operator")
    made = client.post(ATTEMPTS, _plain(an_attempt()), format="json")
    assert made.status_code == 201, made.content
    attempt = f"{ATTEMPTS}/{made.json()['id']}"
    assert client.get(f"{attempt}/verdict").status_code == 404
    batch = {"observations": [_plain(an_observation(number)) for number in range(3)]}
    delivered = client.post(f"{attempt}/observations", batch, format="json")
    assert (delivered.status_code, delivered.json()["stored"]) == (201, 3)
    reported = client.post(f"{attempt}/reports", {"reports": [_plain(a_report(kept=3))]}, format="json")
    assert reported.json()["reports"][:1] == [
        {"source": "applog", "status": "ok", "collector": "files", "read": 10, "kept": 3, "delivered": 3}
    ]
    asked = client.post(f"{attempt}/attributions", {"mode": "fast", "wait": 0.2}, format="json")
    assert (asked.status_code, asked.json()["state"]) == (200, "done")
    verdict = client.get(f"{attempt}/verdict").json()
    assert (verdict["id"], verdict["domain"], verdict["body"]["mode"]) == (
        asked.json()["verdict"],
        "gpu_hardware",
        "fast",
    )
    assert client.get(f"/api/v1/attributions/{asked.json()['id']}").json() == asked.json()
    shown = client.get(attempt).json()
    assert (shown["verdict"]["id"], shown["given"]["job_id"]) == (verdict["id"], "4711")


def test_the_same_attempt_again_is_not_made_again(client_of: Clients) -> None:
    client = client_of("operator")
    first = client.post(ATTEMPTS, _plain(an_attempt()), format="json")
    again = client.post(ATTEMPTS, _plain(an_attempt()), format="json")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]


def test_the_body_has_the_hash_that_is_said(client_of: Clients, engine: Any) -> None:
    verdict = _judged()
    client = client_of("viewer")
    raw = client.get(f"/api/v1/verdicts/{verdict.pk}/body")
    shown = client.get(f"/api/v1/verdicts/{verdict.pk}").json()
    assert hashlib.sha256(raw.content).hexdigest() == shown["body_sha256"] == verdict.body_sha256
    assert raw.headers["ETag"] == f'"{verdict.body_sha256}"'
    assert json.dumps(shown["body"], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == raw.content


def test_history_is_kept_and_the_list_has_what_stands(client_of: Clients, engine: Any) -> None:
    verdict = _judged()
    record.add_observations(verdict.attempt_id, [an_observation(9)])
    newer = conclude.attribute_now(conclude.request_attribution(verdict.attempt_id, Mode.SLOW).pk)
    assert newer is not None
    client = client_of("viewer")
    history = client.get(f"{ATTEMPTS}/{verdict.attempt_id}/verdicts").json()["results"]
    assert [(row["number"], row["is_current"]) for row in history] == [(2, True), (1, False)]
    assert [row["id"] for row in client.get("/api/v1/verdicts").json()["results"]] == [str(newer.pk)]
    assert client.get("/api/v1/verdicts?superseded=true").json()["count"] == 2
    assert client.get(f"/api/v1/verdicts/{verdict.pk}").json()["superseded_at"] is not None


def test_a_verdict_says_what_changed_since_the_one_before(client_of: Clients, engine: Any) -> None:
    verdict = _judged()
    engine.append(
        lambda given, *_rest, mode: an_engine_verdict(
            given, attributed_domain=Domain.UNATTRIBUTED, strength=None, causes=[], affected_nodes=[], mode=mode
        )
    )
    newer = conclude.attribute_now(conclude.request_attribution(verdict.attempt_id, Mode.SLOW).pk)
    assert newer is not None
    client = client_of("viewer")
    assert client.get(f"/api/v1/verdicts/{verdict.pk}").json()["changes"] == []
    changes = client.get(f"/api/v1/verdicts/{newer.pk}").json()["changes"]
    assert any(change.startswith("Domain: ") for change in changes)


@pytest.mark.parametrize(
    ("body", "attr"),
    [
        ({}, "non_field_errors"),
        ({"job_id": ""}, "job_id"),
        ({"job_id": "1", "nodes": ["a", 7]}, "nodes[1]"),
        ({"job_id": "1", "nodes": ["gpu-[a-b]"]}, "nodes"),
        ({"job_id": "1", "start": "yesterday"}, "start"),
        ({"job_id": "1", "restart_count": -1}, "restart_count"),
        ({"job_id": "1", "restart_count": 2**40}, "restart_count"),
        ({"job_id": "1", "ranks": {"0": {"node": 3}}}, "ranks[...].node"),
        ({"job_id": "1", "jobid": "2"}, "non_field_errors"),
        ({"job_id": "1", "cluster": "x" * 300}, "cluster"),
        ({"job_id": "1", "topology": {"shelf": {}}}, "topology.shelf"),
        ([], "non_field_errors"),
        ("text", "non_field_errors"),
    ],
)
def test_a_wrong_attempt_is_told_which_field(client_of: Clients, body: Any, attr: str) -> None:
    answer = client_of("operator").post(ATTEMPTS, json.dumps(body), content_type="application/json")
    assert answer.status_code == 400, answer.content
    [error] = answer.json()["errors"]
    assert (answer.json()["type"], error["attr"]) == ("validation_error", attr)
    assert not Attempt.objects.exists()


def test_wrong_observations_are_told_by_index_and_field_and_none_is_stored(client_of: Clients) -> None:
    client = client_of("operator")
    attempt = _sent(client)
    good = _plain(an_observation(1))
    batch = {"observations": [good, good | {"source": "dream"}, good | {"rank": "0"}, good | {"body": "x" * 70_000}]}
    answer = client.post(f"{ATTEMPTS}/{attempt}/observations", batch, format="json")
    assert answer.status_code == 400
    assert [error["attr"] for error in answer.json()["errors"]] == [
        "observations[1].source",
        "observations[2].rank",
        "observations[3].body",
    ]
    assert not Observation.objects.exists()


def test_lines_of_json_are_taken_and_a_bad_line_is_named(client_of: Clients) -> None:
    client = client_of("operator")
    address = f"{ATTEMPTS}/{_sent(client)}/observations"
    lines = [json.dumps(_plain(an_observation(number))) for number in range(3)]
    good = client.post(address, "\n".join([*lines, ""]), content_type="application/x-ndjson")
    bad = client.post(address, "\n".join([lines[0], "{", lines[1]]), content_type="application/x-ndjson")
    assert (good.status_code, good.json()["stored"]) == (201, 3)
    assert bad.status_code == 400
    assert "line 2" in bad.json()["errors"][0]["detail"]


def test_a_batch_key_makes_a_repeat_harmless_and_a_change_a_conflict(client_of: Clients) -> None:
    client = client_of("operator")
    address = f"{ATTEMPTS}/{_sent(client)}/observations"
    batch = {"observations": [_plain(an_observation(1))]}
    first = client.post(address, batch, format="json", headers={"Idempotency-Key": "b1"})
    again = client.post(address, batch, format="json", headers={"Idempotency-Key": "b1"})
    other = client.post(address, {"observations": [_plain(an_observation(2))], "key": "b1"}, format="json")
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert again.json() == first.json() | {"replayed": True}


def test_too_much_is_refused_before_it_is_read(client_of: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of("operator")
    address = f"{ATTEMPTS}/{_sent(client)}/observations"
    monkeypatch.setattr(limits, "MAX_BATCH", 2)
    many = client.post(address, {"observations": [_plain(an_observation(n)) for n in range(3)]}, format="json")
    lines = client.post(address, "1\n2\n3\n", content_type="application/x-ndjson")
    monkeypatch.setattr(limits, "MAX_BATCH_BYTES", 50)
    big = client.post(address, {"observations": [_plain(an_observation(1))]}, format="json")
    assert [many.status_code, lines.status_code, big.status_code] == [413, 413, 413]
    assert "several batches" in many.json()["errors"][0]["detail"]


@pytest.mark.parametrize("raw", [b"{", b"\xff\xfe", b'{"observations": [NaN]}', b"[" * 100_000])
def test_what_is_not_json_is_a_clear_error(client_of: Clients, raw: bytes) -> None:
    client = client_of("operator")
    answer = client.post(f"{ATTEMPTS}/{_sent(client)}/observations", raw, content_type="application/json")
    assert answer.status_code == 400
    assert "not valid JSON" in answer.json()["errors"][0]["detail"]


def test_packed_bodies_are_refused_in_words(client_of: Clients) -> None:
    client = client_of("operator")
    answer = client.post(ATTEMPTS, b"\x1f\x8b", content_type="application/json", headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, "uncompressed" in answer.json()["errors"][0]["detail"]) == (415, True)


def test_a_misspelt_filter_is_an_error_not_everything(client_of: Clients) -> None:
    answer = client_of("viewer").get("/api/v1/verdicts?domian=storage")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["attr"] == "domian"


def test_a_wait_out_of_bounds_is_refused(client_of: Clients) -> None:
    client = client_of("operator")
    answer = client.post(f"{ATTEMPTS}/{_sent(client)}/attributions", {"mode": "fast", "wait": 600}, format="json")
    assert answer.json()["errors"][0]["attr"] == "wait"


def test_a_slow_request_without_a_worker_is_accepted(client_of: Clients, sent: list[str]) -> None:
    client = client_of("operator")
    answer = client.post(f"{ATTEMPTS}/{_sent(client)}/attributions", {}, format="json")
    assert (answer.status_code, answer.json()["state"], answer.json()["mode"]) == (202, "pending", "slow")


def test_a_review_is_recorded_and_listed(client_of: Clients, engine: Any) -> None:
    verdict = _judged()
    client = client_of("reviewer")
    said = {"verdict": str(verdict.pk), "label": "wrong", "actual_domain": "storage", "actual_nodes": ["nfs-1"]}
    made = client.post("/api/v1/reviews", said, format="json")
    unsaid = client.post("/api/v1/reviews", {"verdict": str(verdict.pk), "label": "wrong"}, format="json")
    unknown = client.post("/api/v1/reviews", {"verdict": str(verdict.attempt_id), "label": "right"}, format="json")
    assert made.status_code == 201, made.content
    assert (unsaid.status_code, unsaid.json()["errors"][0]["attr"]) == (400, "actual_domain")
    assert (unknown.status_code, unknown.json()["errors"][0]["attr"]) == (400, "verdict")
    listed = client.get(f"/api/v1/reviews?verdict={verdict.pk}").json()["results"]
    assert [(row["author"], row["actual_domain"]) for row in listed] == [("reviewer", "storage")]


READS = ["attempts", "verdicts", "reviews", "clusters", "nodes", "ruleset"]
OF_ATTEMPT = ["", "/observations", "/reports", "/attributions", "/verdict", "/verdicts"]


@pytest.mark.parametrize("group", ["viewer", "operator", "reviewer", "lead"])
def test_every_group_reads_everything(client_of: Clients, engine: Any, group: str) -> None:
    verdict = _judged()
    client = client_of(group)
    addresses = [f"/api/v1/{name}" for name in READS]
    addresses += [f"{ATTEMPTS}/{verdict.attempt_id}{part}" for part in OF_ATTEMPT]
    addresses += [f"/api/v1/verdicts/{verdict.pk}", f"/api/v1/verdicts/{verdict.pk}/body"]
    assert {address: client.get(address).status_code for address in addresses} == dict.fromkeys(addresses, 200)


@pytest.mark.parametrize("client_kind", ["anonymous", "nobody"])
def test_nobody_else_reads_anything(client_of: Clients, engine: Any, client_kind: str) -> None:
    verdict = _judged()
    client = APIClient() if client_kind == "anonymous" else client_of()
    wanted = 401 if client_kind == "anonymous" else 403
    addresses = [f"/api/v1/{name}" for name in READS]
    addresses += [f"{ATTEMPTS}/{verdict.attempt_id}{part}" for part in OF_ATTEMPT]
    addresses += [f"/api/v1/verdicts/{verdict.pk}", f"/api/v1/verdicts/{verdict.pk}/body"]
    assert {address: client.get(address).status_code for address in addresses} == dict.fromkeys(addresses, wanted)


WRITES = {
    "attempts": ("ingest", lambda _: (ATTEMPTS, _plain(an_attempt("77")))),
    "observations": ("ingest", lambda verdict: (f"{ATTEMPTS}/{verdict.attempt_id}/observations", {"observations": []})),
    "reports": ("ingest", lambda verdict: (f"{ATTEMPTS}/{verdict.attempt_id}/reports", {"reports": []})),
    "attributions": ("ask", lambda verdict: (f"{ATTEMPTS}/{verdict.attempt_id}/attributions", {"mode": "slow"})),
    "reviews": ("review", lambda verdict: ("/api/v1/reviews", {"verdict": str(verdict.pk), "label": "right"})),
}
RIGHTS = {
    "viewer": set(),
    "operator": {"ingest", "ask"},
    "reviewer": {"review"},
    "lead": {"ingest", "ask", "review"},
}


@pytest.mark.parametrize("group", list(RIGHTS))
@pytest.mark.parametrize("write", list(WRITES))
def test_who_may_write_what(client_of: Clients, engine: Any, group: str, write: str) -> None:
    needed, request = WRITES[write]
    address, body = request(_judged())
    answer = client_of(group).post(address, body, format="json")
    assert (answer.status_code in (200, 201, 202)) == (needed in RIGHTS[group]), answer.content
    if needed not in RIGHTS[group]:
        assert answer.status_code == 403
        assert not Review.objects.exists()


def test_every_error_has_one_shape(client_of: Clients) -> None:
    client = client_of("operator")
    attempt = _sent(client)
    answers = [
        APIClient().get(ATTEMPTS),
        client.get(f"{ATTEMPTS}/00000000-0000-0000-0000-000000000000"),
        client.get(f"{ATTEMPTS}/{attempt}/verdict"),
        client.put(ATTEMPTS, {}, format="json"),
        client.post(ATTEMPTS, "x", content_type="text/plain"),
        client.post("/api/v1/reviews", {}, format="json"),
    ]
    assert [answer.status_code for answer in answers] == [401, 404, 404, 405, 415, 403]
    for answer in answers:
        body = answer.json()
        assert body["type"] in ("client_error", "validation_error")
        assert all(set(error) == {"code", "detail", "attr"} for error in body["errors"])


@pytest.mark.parametrize(
    ("address", "budget"),
    [("/api/v1/verdicts", 4), ("/api/v1/attempts", 6), ("/api/v1/nodes", 2), ("/api/v1/reviews", 1)],
)
def test_a_list_costs_the_same_however_long_it_is(
    client_of: Clients,
    engine: Any,
    django_assert_max_num_queries: DjangoAssertNumQueries,
    address: str,
    budget: int,
) -> None:
    client = client_of("viewer")
    for number in range(12):
        _judged(str(number))
    client.get(address)  # permissions of the user are read once
    with django_assert_max_num_queries(budget):
        assert client.get(address).status_code == 200


def test_a_detail_costs_few_queries(client_of: Clients, engine: Any, django_assert_max_num_queries: Any) -> None:
    verdict = _judged()
    client = client_of("viewer")
    client.get(f"/api/v1/verdicts/{verdict.pk}")
    with django_assert_max_num_queries(3):
        client.get(f"/api/v1/verdicts/{verdict.pk}")


def test_the_schema_describes_every_address(client_of: Clients) -> None:
    answer = client_of("viewer").get(reverse("schema"), headers={"accept": "application/json"})
    schema = json.loads(answer.content)
    paths = {path: set(methods) for path, methods in schema["paths"].items()}
    assert paths["/api/v1/attempts"] == {"get", "post"}
    assert paths["/api/v1/attempts/{id}/observations"] == {"get", "post"}
    body = schema["paths"]["/api/v1/attempts"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "job_id" in body["required"]
    names = {parameter["name"] for parameter in schema["paths"]["/api/v1/verdicts"]["get"]["parameters"]}
    assert {"cluster", "domain", "state", "strength", "node", "symptom", "workload", "after", "text", "order"} <= names
