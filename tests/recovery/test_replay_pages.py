"""The pages and the API of replays."""

import csv
import io
import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from recovery.ledger.entries import Actor
from recovery.models import Replay
from recovery.replay import begin, rulesets, work
from recovery.replay.begin import Wish
from recovery.replay.words import ReplayKind, ReplayState
from rules.ruleset import Ruleset
from tests.recovery.deciding import a_policy, in_mode
from tests.recovery.replaying import DISK, FAN, a_rule, concluded, in_force, rules
from tests.verdicts.builders import a_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Ruleset:
    monkeypatch.setattr(begin.waking, "wake_task", lambda *_, **__: True)
    return in_force(monkeypatch, rules())


@pytest.fixture
def done() -> Replay:
    """Two attempts, one of which comes out otherwise."""
    concluded("71", FAN)
    concluded("72", DISK)
    in_mode(a_policy().policy, "automatic")
    tried = rulesets.keep(rules(fan=a_rule("fan", "fan [0-9]+ stands quite still")))
    row = begin.begin(Wish(ruleset=tried, reason="<b>to see</b>"), Actor.system("test"))
    work.run(60, alone=True)
    row.refresh_from_db()
    return row


def a_client(*groups: str) -> Client:
    client = Client()
    client.force_login(a_user("ada", *groups))
    return client


def post(client: Client, address: str, **said: Any) -> Any:
    return client.post(address, json.dumps(said), content_type="application/json")


def text_of(response: Any) -> str:
    return str(response.content.decode())


def test_the_page_tells_what_changed_why_and_what_it_means_for_policies(
    done: Replay, django_assert_max_num_queries: Any
) -> None:
    client = a_client("reviewer")
    with django_assert_max_num_queries(26):
        page = client.get(reverse("recovery:replay", args=[done.pk]))
    text = text_of(page)
    assert page.status_code == 200
    for said in ("Host hardware → Unattributed", "test.fan", "job 71", "may not act by itself", "&lt;b&gt;to see"):
        assert said in text, said
    assert "job 72" not in text and 'hx-trigger="every 2s"' not in text
    everything = text_of(client.get(reverse("recovery:replay", args=[done.pk]), {"show": "all"}))
    assert "job 72" in everything
    listed = text_of(client.get(reverse("recovery:replays")))
    assert "2 of 2" in listed


def test_it_polls_only_while_it_runs() -> None:
    concluded("1", FAN)
    row = begin.begin(Wish(), Actor.system("test"))
    client = a_client("viewer")
    assert 'hx-trigger="every 2s"' in text_of(client.get(reverse("recovery:replay", args=[row.pk])))
    assert 'hx-trigger="every 3s"' in text_of(client.get(reverse("recovery:replays")))
    work.run(60, alone=True)
    part = client.get(
        reverse("recovery:replay", args=[row.pk]), headers={"HX-Request": "true", "HX-Target": "progress"}
    )
    assert "every 2s" not in text_of(part) and "<html" not in text_of(part)


def test_a_change_is_accepted_on_the_page(done: Replay) -> None:
    client = a_client("reviewer")
    address = reverse("recovery:replay-judge", args=[done.pk])
    number = done.items.get(outcome="changed").number
    refused = client.post(address, {"which": "chosen", "item": [number], "judgement": "accepted", "reason": ""})
    assert refused.status_code == 400 and "1 to 4000 characters" in text_of(refused)
    client.post(address, {"which": f"group:{number}", "judgement": "rejected", "reason": "it did stand still"})
    item = done.items.get(number=number)
    assert (item.judged, item.judged_by.get_username(), item.judged_why) == ("rejected", "ada", "it did stand still")
    client.post(address, {"which": "chosen", "item": [number], "judgement": "accepted", "reason": "moved by hand"})
    item.refresh_from_db()
    assert item.judged == "accepted"
    assert "moved by hand" in text_of(client.get(reverse("recovery:replay", args=[done.pk])))


def test_who_may_only_look_is_told_so_and_refused(done: Replay) -> None:
    client = a_client("viewer")
    assert "needs the role reviewer" in text_of(client.get(reverse("recovery:replay-new")))
    answer = client.post(reverse("recovery:replay-new"), {"kind": "own"})
    assert answer.status_code == 400 and Replay.objects.count() == 1
    assert client.post(reverse("recovery:replay-cancel", args=[done.pk])).status_code == 403
    address = reverse("api-replay-judgement", args=[done.pk])
    assert post(client, address, judgement="accepted", all=True, reason="x").status_code == 403
    assert post(client, reverse("api-replays"), kind="own").status_code == 403


def test_a_replay_is_begun_stopped_and_resumed_on_the_pages() -> None:
    concluded("1", FAN)
    concluded("2", DISK)
    client = a_client("operator")
    new = reverse("recovery:replay-new")
    assert client.get(new, {"query": "domain=storage"}).status_code == 200
    list_address = "http://localhost/verdicts/?domain=storage&order=-job"
    client.post(new, {"kind": "rules", "ruleset": rules().digest[:12], "query": list_address})
    row = Replay.objects.get()
    assert (row.total, row.kind, row.query, row.actor) == (1, ReplayKind.RULES, "domain=storage", "user:ada")
    client.post(reverse("recovery:replay-cancel", args=[row.pk]))
    row.refresh_from_db()
    assert row.state == ReplayState.CANCELLED
    client.post(reverse("recovery:replay-resume", args=[row.pk]))
    row.refresh_from_db()
    assert row.state == ReplayState.RUNNING
    for said, problem in (
        ({"kind": "rules", "ruleset": "abcdef0123"}, "none is known"),
        ({"kind": "ablation"}, "leave a source out"),
        ({"kind": "ablation", "delay": "syslog", "seconds": "soon"}, "no number"),
        ({"kind": "own", "query": "domian=x"}, "domian"),
    ):
        answer = client.post(new, said)
        assert answer.status_code == 400 and problem in text_of(answer), said


def test_the_api_does_and_tells_the_same(done: Replay) -> None:
    client = a_client("lead")
    made = post(client, reverse("api-replays"), kind="ablation", without="syslog", query="job=71")
    assert made.status_code == 201 and made.json()["counts"]["waiting"] == 1
    assert made.json()["asked"] == "What would be concluded without syslog?"
    assert post(client, reverse("api-replay-cancel", args=[made.json()["id"]])).json()["state"] == "cancelled"
    assert post(client, reverse("api-replay-cancel", args=[made.json()["id"]])).status_code == 409
    assert post(client, reverse("api-replay-resume", args=[made.json()["id"]])).json()["state"] == "running"
    told = client.get(reverse("api-replay", args=[done.pk])).json()
    assert told["groups"] == [
        {"move": "host_hardware → unattributed", "rules": ["test.fan"], "tried": True, "weighty": True, "attempts": 1,
         "accepted": 0, "rejected": 0}
    ]  # fmt: skip
    (item,) = client.get(reverse("api-replay-items", args=[done.pk])).json()["results"]
    assert (item["job_id"], item["outcome"], item["rules"]) == ("71", "changed", ["test.fan"])
    address = reverse("api-replay-judgement", args=[done.pk])
    assert post(client, address, judgement="accepted", items=[item["number"]], reason="fine").json() == {"judged": 1}
    assert post(client, address, judgement="accepted", reason="fine").status_code == 400
    assert client.get(reverse("api-replay-items", args=[done.pk]), {"judgd": "x"}).status_code == 400
    assert [one["kind"] for one in client.get(reverse("api-replays"), {"kind": "rules"}).json()["results"]] == ["rules"]
    digests = {one["digest"] for one in client.get(reverse("api-replay-rulesets")).json()}
    assert digests == {rules().digest, done.ruleset_id}
    gate = client.get(reverse("api-replay-gate"), {"ruleset": done.ruleset_id}).json()
    assert [(one["policy"], one["passes"]) for one in gate] == [("leave-out", False)]


def test_the_attempts_are_exported_with_the_filters_of_the_page(done: Replay) -> None:
    client = a_client("viewer")
    answer = client.get(reverse("recovery:replay-export", args=[done.pk, "csv"]), {"show": "all"})
    rows = list(csv.DictReader(io.StringIO(b"".join(answer).decode("utf-8-sig"))))
    assert {row["job_id"]: row["outcome"] for row in rows} == {"71": "changed", "72": "same"}
    assert next(row for row in rows if row["job_id"] == "71")["domain_after"] == "unattributed"
    answer = client.get(reverse("api-replay-file", args=[done.pk, "json"]))
    assert [row["job_id"] for row in json.loads(b"".join(answer))] == ["71"]


@pytest.mark.parametrize("query", ["//[x?a=b", "&".join(f"a{n}=b" for n in range(1200)), "domain=" + "x" * 5000])
def test_filters_that_are_none_are_refused_and_name_the_field(query: str) -> None:
    client = a_client("administrator")
    assert client.get(reverse("recovery:replay-new"), {"query": query}).status_code in (200, 400)
    assert client.post(reverse("recovery:replay-new"), {"kind": "own", "query": query}).status_code == 400
    told = post(client, "/api/v1/recovery/replays", kind="own", query=query)
    assert told.status_code == 400 and "query" in told.content.decode()


def test_a_person_has_only_some_replays_open(done: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begin, "MOST_OPEN", 1)
    client = a_client("reviewer")
    assert post(client, "/api/v1/recovery/replays", kind="own").status_code == 201
    assert post(client, "/api/v1/recovery/replays", kind="own").status_code == 409
    page = client.post(reverse("recovery:replay-new"), {"kind": "own", "reason": "again"})
    assert page.status_code == 400 and "not done" in text_of(page) and "again" in text_of(page)
