"""The ledger's pages and API: who sees what, filters, pages, proof and export."""

import re
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings
from rest_framework.test import APIClient

from recovery.ledger import checkpoints, find
from recovery.ledger import entries as ledger
from recovery.ledger import keys as ledger_keys
from recovery.ledger.chain import verify
from recovery.models import LedgerEntry, LedgerLink
from recovery.words import EntryKind
from tests.verdicts.builders import a_user

ATTEMPT = uuid4()


def chained() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


@pytest.fixture
def written(db: None, settings: Settings, tmp_path: Any) -> None:
    """Twelve entries with a checkpoint after the tenth."""
    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path / "key")
    settings.INQUEST_LEDGER_CHECKPOINT_FILE = str(tmp_path / "checkpoints")
    settings.INQUEST_LEDGER_CHECKPOINT_WEBHOOK = ""
    ada = ledger.Actor.user(a_user("ada", "operator"))
    for number in range(1, 13):
        if number % 2:
            ledger.record(
                EntryKind.PROPOSAL_REJECTED,
                actor=ada,
                subject=("proposal", str(number)),
                attempt=ATTEMPT,
                body={"reason": "wrong_node", "nodes": ["gpu-017"]},
                erasable={"text": "<b>not</b> that node"},
            )
        else:
            ledger.record(EntryKind.SOURCE_BLIND, actor=ledger.Actor.system("sources"), subject=("sourcestate", "7"))
        chained()
        if number == 10:
            checkpoints.make()


@pytest.fixture
def reader(written: None, client: Client) -> Client:
    client.force_login(a_user("reader", "viewer"))
    return client


@pytest.fixture
def api(written: None) -> APIClient:
    client = APIClient()
    client.force_authenticate(a_user("tool", "lead"))
    return client


def numbers(page: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb'row-title" href="/ledger/(\d+)/"', page)]


def test_the_list_is_filtered_by_kind_actor_subject_and_attempt(reader: Client) -> None:
    assert numbers(reader.get("/ledger/").content) == list(range(12, 0, -1))
    assert numbers(reader.get("/ledger/?order=number").content) == list(range(1, 13))
    assert numbers(reader.get("/ledger/?kind=source.blind").content) == [12, 10, 8, 6, 4, 2]
    assert numbers(reader.get("/ledger/?actor=ada&subject=proposal:3").content) == [3]
    assert numbers(reader.get(f"/ledger/?attempt={ATTEMPT}&actor=system:").content) == []
    page = reader.get("/ledger/?kind=nonsense").content.decode()
    assert "Nothing was looked for" in page
    assert numbers(page.encode()) == []
    assert "is no attempt" in reader.get("/ledger/?attempt=zz").content.decode()
    assert "page cannot be understood" in reader.get("/ledger/?cursor=zz").content.decode()
    assert (
        "facet-kind" in reader.get("/ledger/", headers={"HX-Request": "true", "HX-Target": "results"}).content.decode()
    )


def test_the_list_costs_few_queries(reader: Client, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_max_num_queries(12):
        reader.get("/ledger/")


def test_an_entry_is_shown_with_its_proof(reader: Client) -> None:
    page = reader.get("/ledger/3/").content.decode()
    assert "&lt;b&gt;not&lt;/b&gt; that node" in page
    assert "its signature is right" in page
    assert "roles then: operator" in page
    assert "No checkpoint covers it yet" in reader.get("/ledger/12/").content.decode()
    assert reader.get("/ledger/99/").status_code == 404
    proof = b"".join(reader.get("/ledger/3/proof/").streaming_content)  # type: ignore[attr-defined]
    report = verify(proof.splitlines(keepends=True), ledger_keys.check)
    assert (report.bad, report.entries, report.sealed, report.signed_to) == (None, 1, 7, 10)


def test_what_was_changed_behind_the_triggers_is_told_on_the_page(reader: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE recovery_ledgerlink DISABLE TRIGGER appended_only")
        cursor.execute("UPDATE recovery_ledgerlink SET hash = repeat('a', 64) WHERE number = 6")
    assert "text and its hash do not agree" in reader.get("/ledger/6/").content.decode()
    assert "The chain is broken at entry 6" in reader.get("/ledger/5/").content.decode()
    assert "verified" in reader.get("/ledger/8/").content.decode()


def test_looking_writes_nothing_and_an_export_is_an_entry(reader: Client) -> None:
    reader.get("/ledger/")
    reader.get("/ledger/3/")
    reader.get("/ledger/3/proof/")
    assert LedgerEntry.objects.count() == 12
    assert reader.get("/ledger/export/").status_code == 405
    assert reader.post("/ledger/export/").status_code == 403
    reader.force_login(a_user("head", "lead"))
    some = b"".join(reader.post("/ledger/export/?kind=proposal.rejected").streaming_content)  # type: ignore[attr-defined]
    report = verify(some.splitlines(keepends=True), ledger_keys.check)
    assert (report.bad, report.entries, report.sealed, report.last) == (None, 6, 5, 11)
    chained()
    told = LedgerEntry.objects.get(kind=EntryKind.EXPORTED.value)
    assert (told.actor, told.body["facts"]) == ("user:head", {"filters": {"kind": ["proposal.rejected"]}})
    assert LedgerLink.objects.count() == 13


def test_the_api_has_the_same_filters_and_reads_on_by_cursor(api: APIClient) -> None:
    seen: list[int] = []
    address = "/api/v1/ledger?order=number&limit=5"
    while address:
        page = api.get(address).json()
        seen += [entry["number"] for entry in page["results"]]
        address = page["next"]
    assert seen == list(range(1, 13))
    back = api.get("/api/v1/ledger?order=number&limit=5&cursor=b11").json()
    assert [entry["number"] for entry in back["results"]] == [6, 7, 8, 9, 10]
    assert back["previous"]
    later = api.get("/api/v1/ledger?order=number&since_number=10").json()
    assert [entry["number"] for entry in later["results"]] == [11, 12]
    assert api.get("/api/v1/ledger?since_number=-1").status_code == 400
    entry = api.get("/api/v1/ledger?subject=proposal:3").json()["results"][0]
    assert entry["contents"] == {"text": "<b>not</b> that node"}
    assert entry["facts"]["nodes"] == ["gpu-017"]
    proved = api.get("/api/v1/ledger/3").json()
    assert proved["proof"]["wrong"] == []
    assert (proved["proof"]["walked"], proved["proof"]["checkpoint"]["number"]) == (7, 10)
    assert api.get("/api/v1/ledger?kind=zz").status_code == 400
    assert api.get("/api/v1/ledger?cursor=zz").status_code == 400
    assert api.get("/api/v1/ledger/checkpoints").json()["results"][0]["number"] == 10
    whole = b"".join(api.post("/api/v1/ledger/export").streaming_content)  # type: ignore[attr-defined]
    assert verify(whole.splitlines(keepends=True), ledger_keys.check).bad is None
    api.force_authenticate(a_user("other", "viewer"))
    assert api.post("/api/v1/ledger/export").status_code == 403
    api.force_authenticate(a_user("none"))
    assert api.get("/api/v1/ledger").status_code == 403


def test_a_line_says_moments_and_yes_or_no_as_people_read_them() -> None:
    facts = {
        "hour": "2026-11-30T21:00:00.000000Z",
        "stuck": False,
        "nodes": ["n1", "n2"],
        "sha256": "a" * 64,
        "none": None,
    }
    assert find.gist(facts) == "hour 2026-11-30 21:00Z; stuck no; nodes n1, n2"
