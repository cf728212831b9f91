"""The list over the API: pages by key, refusals that name the parameter, bulk, views and export."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.verdicts.page_bodies import a_verdict, ambiguous_body, an_attempt, body, nvlink_attempt, nvlink_body
from verdicts.models import ListRow, Review, SavedView

pytestmark = pytest.mark.django_db

LIST = "/api/v1/verdicts"
ClientOf = Callable[..., APIClient]


def some(number: int) -> None:
    """So many verdicts, the last the newest; pairs of them ended in the same second."""
    for index in range(number):
        a_verdict(an_attempt(str(index), end=f"2026-11-03T{index // 2:02}:00:00+00:00"), body())


def test_pages_are_followed_by_their_links_to_the_end_and_back(client_of: ClientOf) -> None:
    some(7)
    client = client_of("viewer")
    seen, address = [], f"{LIST}?limit=3&order=ended"
    pages = []
    while address:
        answer = client.get(address).json()
        assert (answer["count"], answer["more"]) == (7, False)
        pages.append([row["job_id"] for row in answer["results"]])
        seen += pages[-1]
        before, address = answer["previous"], answer["next"]
    assert sorted(seen) == [str(index) for index in range(7)]
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [row["job_id"] for row in client.get(before).json()["results"]] == pages[1]


@pytest.mark.parametrize(
    ("address", "parameter"),
    [
        (f"{LIST}?limit=x", "limit"),
        (f"{LIST}?limit=0", "limit"),
        (f"{LIST}?limit=-1", "limit"),
        (f"{LIST}?superseded=maybe", "superseded"),
        (f"{LIST}?status=cause", "status"),
        (f"{LIST}?cursor=x", "cursor"),
        (f"{LIST}?offset=3", "offset"),
        (f"{LIST}?domian=storage", "domian"),
        (f"{LIST}?domain=not_analysed", "domain"),
        ("/api/v1/attempts?limit=x", "limit"),
        ("/api/v1/attempts?offset=-1", "offset"),
        ("/api/v1/attempts?judged=maybe", "judged"),
        (f"{LIST}/export.csv?domain=nowhere", "domain"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(client_of: ClientOf, address: str, parameter: str) -> None:
    answer = client_of("viewer").get(address)
    assert answer.status_code == 400
    assert [error["attr"].split(".")[0] for error in answer.json()["errors"]] == [parameter]


def test_a_status_goes_with_a_symptom_or_a_rule(client_of: ClientOf) -> None:
    a_verdict(nvlink_attempt(), nvlink_body())
    client = client_of("viewer")
    assert client.get(f"{LIST}?status=cause&rule=nvlink.*").json()["count"] == 1
    assert client.get(f"{LIST}?status=demoted&rule=nvlink.*").json()["count"] == 0


def test_superseded_verdicts_come_when_asked_for(client_of: ClientOf) -> None:
    attempt = nvlink_attempt()
    a_verdict(attempt, body())
    a_verdict(attempt, nvlink_body(), number=2)
    client = client_of("viewer")
    assert client.get(LIST).json()["count"] == 1
    assert client.get(f"{LIST}?superseded=true").json()["count"] == 2
    assert client.get(f"{LIST}?attempt={attempt.pk}").json()["count"] == 2
    assert client.get(f"{LIST}?superseded=false").json()["count"] == 1


def test_many_are_labelled_and_each_refusal_is_told(client_of: ClientOf) -> None:
    a_verdict(nvlink_attempt(), nvlink_body())
    an_attempt("70001")
    rows = [str(row.pk) for row in ListRow.objects.all()] + ["6f1c2b4e-0000-4000-8000-000000000000"]
    order = {"rows": rows, "action": "right", "note": "seen"}
    answer = client_of("reviewer").post(f"{LIST}/bulk", order)
    assert answer.status_code == 200
    told = answer.json()
    assert (told["done"], told["refused"]) == (1, 2)
    assert Review.objects.get().note == "seen"
    assert client_of("viewer").post(f"{LIST}/bulk", order).status_code == 403
    for wrong in ({"rows": []}, {"action": "wrong"}, {"action": "delete"}, {"rows": ["x"]}, {"rows": rows * 100}):
        assert client_of("lead").post(f"{LIST}/bulk", order | wrong).status_code == 400
        client_of = _again(client_of)


def _again(client_of: ClientOf) -> ClientOf:
    """The same maker for another user of the same group."""
    from django.contrib.auth import get_user_model

    get_user_model().objects.filter(username="lead").update(username=f"lead-{get_user_model().objects.count()}")
    return client_of


def test_views_are_kept_shared_and_deleted(client_of: ClientOf) -> None:
    lead, viewer = client_of("lead"), client_of("viewer")
    made = lead.post("/api/v1/views", {"name": "storage", "query": "domain=storage", "shared": True})
    assert made.status_code == 201
    assert made.json()["page"] == "/verdicts/?domain=storage"
    assert [view["name"] for view in viewer.get("/api/v1/views").json()] == ["storage"]
    assert viewer.delete(f"/api/v1/views/{made.json()['id']}").status_code == 404
    assert viewer.post("/api/v1/views", {"name": "x", "query": "", "shared": True}).status_code == 403
    assert viewer.post("/api/v1/views", {"name": "x", "query": "a=b"}).status_code == 400
    assert viewer.post("/api/v1/views", {"name": " ", "query": ""}).status_code == 400
    assert lead.delete(f"/api/v1/views/{made.json()['id']}").status_code == 204
    assert not SavedView.objects.exists()


def test_keys_are_set_for_oneself(client_of: ClientOf) -> None:
    viewer = client_of("viewer")
    assert viewer.get("/api/v1/preferences").json() == {"shortcuts": True}
    assert viewer.put("/api/v1/preferences", {"shortcuts": False}).json() == {"shortcuts": False}
    assert client_of("lead").get("/api/v1/preferences").json() == {"shortcuts": True}


def test_the_export_is_a_stream_of_what_is_filtered(client_of: ClientOf) -> None:
    some(3)
    a_verdict(an_attempt("51200"), ambiguous_body())
    answer: Any = client_of("viewer").get(f"{LIST}/export.json?domain=ambiguous")
    assert [row["job_id"] for row in json.loads(b"".join(answer.streaming_content))] == ["51200"]


@pytest.mark.parametrize("address", [LIST, f"{LIST}/export.csv", "/api/v1/views", "/api/v1/preferences"])
def test_nobody_without_a_role_gets_in(client_of: ClientOf, address: str) -> None:
    assert APIClient().get(address).status_code == 401
    assert client_of().get(address).status_code == 403
