"""Unrecognised lines as rows, over attempts: the list, one template, and the draft of a rule for it."""

import hashlib
import tomllib
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import IntegrityError
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import a_verdict, an_attempt, body, evidence
from tests.verdicts.test_pages import text_of
from verdicts import latest
from verdicts.models import UnrecognisedLine, Verdict

pytestmark = pytest.mark.django_db

ADDRESS = "/rules/unrecognised/"
API = "/api/v1/rules/unrecognised"
FLUX = "fluxd[<num>]: fatal: capacitor <num> drained"
Visitor = Callable[..., Client]
Clients = Callable[..., APIClient]


@pytest.fixture
def as_(client: Client) -> Visitor:
    """The client, logged in as somebody of the groups named."""

    def log_in(*groups: str) -> Client:
        client.force_login(a_user("-".join(groups) or "nobody", *groups))
        return client

    return log_in


def digest(template: str) -> str:
    """The name of a template in addresses."""
    return hashlib.sha256(template.encode()).hexdigest()


def item(template: str = FLUX, line: str = "fluxd[71]: fatal: capacitor 3 drained", **more: Any) -> dict[str, Any]:
    """An unrecognised template of a verdict's body."""
    source = more.get("source", "syslog")
    example = evidence(line, f"{source}/gpu-1.log:7", node="gpu-1")
    return {"template": template, "count": 2, "source": source, "near_end": False, "example": example} | more


def with_lines(job: str, *items: dict[str, Any], days_ago: float = 1, **attempt: Any) -> Verdict:
    """A stored verdict with unrecognised lines, whose attempt ended some days ago."""
    end = (timezone.now() - timedelta(days=days_ago)).isoformat()
    return a_verdict(an_attempt(job, end=end, **attempt), body(unrecognised=list(items)))


# --- Rows ---------------------------------------------------------------------------------------


def test_a_verdict_s_unrecognised_lines_become_rows() -> None:
    verdict = with_lines("1", item(near_end=True), item("boom", "boom", source="applog", count=7))
    first, second = verdict.unrecognised.order_by("id")
    assert (first.digest, first.template, first.source, first.count) == (digest(FLUX), FLUX, "syslog", 2)
    assert (first.near_end, first.node, first.ref) == (True, "gpu-1", "syslog/gpu-1.log:7")
    assert first.example == "fluxd[71]: fatal: capacitor 3 drained"
    assert (second.source, second.count) == ("applog", 7)


def test_rows_are_written_once_and_kept() -> None:
    line = with_lines("1", item()).unrecognised.get()
    with pytest.raises(IntegrityError, match="is kept"), transaction.atomic():
        line.delete()
    with pytest.raises(IntegrityError, match="written once"), transaction.atomic():
        UnrecognisedLine.objects.update(count=1)


def test_the_migration_makes_the_same_rows_from_the_bodies_that_are_there() -> None:
    with_lines("1", item(), item("böse <num>", "böse 1"), item("boom", "boom", source="applog", near_end=True))
    with_lines("2")
    fields = ("verdict_id", "digest", "template", "source", "count", "near_end", "node", "ref", "example")
    rows = list(UnrecognisedLine.objects.order_by("id").values_list(*fields))
    assert len(rows) == 3
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL inquest.erase = 'on'")
        cursor.execute("DELETE FROM verdicts_unrecognisedline")
        cursor.execute(import_module("verdicts.migrations.0005_unrecognised_and_drift").FILL)
    assert list(UnrecognisedLine.objects.order_by("id").values_list(*fields)) == rows


# --- The list -----------------------------------------------------------------------------------


def test_an_empty_store_says_so(as_: Visitor) -> None:
    assert "None has been stored yet" in text_of(as_("viewer").get(ADDRESS))


def test_alike_lines_of_many_attempts_are_one_row(as_: Visitor, client_of: Clients) -> None:
    with_lines("1", item(), days_ago=3, image="img:1")
    with_lines("2", item(count=5, near_end=True), days_ago=1, image="img:2")
    with_lines("3", item("boom", "boom", source="applog"))
    page = as_("viewer").get(ADDRESS)
    row, other = page.context["rows"]
    assert (row.text, row.attempts, row.lines, row.near_end, row.sources) == (FLUX, 2, 7, 1, ["syslog"])
    assert row.images == ["img:1", "img:2"]
    assert row.last - row.first == pytest.approx(timedelta(days=2), abs=timedelta(minutes=1))
    assert other.text == "boom"
    said = text_of(page)
    for words in ("fluxd[71]: fatal: capacitor 3 drained", "near the end in 1", "img:1", "Draft a rule"):
        assert words in said, words
    answer = client_of("viewer", "lead").get(API).json()["results"]
    assert [(one["template"], one["attempts"], one["lines"]) for one in answer] == [(FLUX, 2, 7), ("boom", 1, 2)]
    assert answer[0]["digest"] == digest(FLUX)


def test_only_what_stands_counts(as_: Visitor) -> None:
    verdict = with_lines("1", item())
    a_verdict(verdict.attempt, body(unrecognised=[item(count=9)]), number=2)
    (row,) = as_("viewer").get(ADDRESS).context["rows"]
    assert (row.attempts, row.lines) == (1, 9)


FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {FLUX, "boom"}),
    ({"days": "all"}, {FLUX, "boom", "old"}),
    ({"days": "1"}, {"boom"}),
    ({"source": "applog"}, {"boom"}),
    ({"source": ["applog", "syslog"]}, {FLUX, "boom"}),
    ({"near_end": "yes"}, {"boom"}),
    ({"text": "capacitor DRAINED"}, {FLUX}),
    ({"seen": "new"}, {"boom"}),
]


@pytest.mark.parametrize(("query", "wanted"), FILTERS, ids=[str(query) for query, _ in FILTERS])
def test_the_filters_hold_on_page_and_api(
    as_: Visitor, client_of: Clients, query: dict[str, Any], wanted: set[str]
) -> None:
    with_lines("1", item(), days_ago=5)
    with_lines("2", item("boom", "boom", source="applog", near_end=True), days_ago=0.5)
    with_lines("3", item("old", "old"), item(), days_ago=60)
    assert {row.text for row in as_("viewer").get(ADDRESS, query).context["rows"]} == wanted
    answer = client_of("viewer", "lead").get(API, query).json()
    assert {row["template"] for row in answer["results"]} == wanted


def test_a_time_range_takes_the_place_of_the_days(as_: Visitor) -> None:
    with_lines("1", item(), days_ago=60)
    with_lines("2", item("boom", "boom"), days_ago=1)
    before = (timezone.now() - timedelta(days=30)).strftime("%Y-%m-%dT%H:%M")
    assert [row.text for row in as_("viewer").get(ADDRESS, {"before": before}).context["rows"]] == [FLUX]


NOT_UNDERSTOOD = [
    {"days": "3"},
    {"after": "yesterday"},
    {"before": "0001-01-01T00:00"},
    {"before": "9999-12-31T23:59:59-12:00"},
    {"text": "\0"},
    {"nonsense": "1"},
    {"order": "x"},
]


@pytest.mark.parametrize("query", NOT_UNDERSTOOD, ids=str)
def test_what_is_not_understood_finds_nothing_and_says_so(
    as_: Visitor, client_of: Clients, query: dict[str, str]
) -> None:
    with_lines("1", item())
    page = as_("viewer").get(ADDRESS, query)
    assert page.context["rows"] == []
    assert "Nothing was looked for" in text_of(page)
    assert client_of("viewer", "lead").get(API, query).status_code == 400


def test_the_orders_and_the_pages(as_: Visitor) -> None:
    for number in range(30):
        with_lines(str(number), item(f"t{number:02}", "x", count=number + 1), days_ago=1 + number / 10)
    client = as_("viewer")

    def texts(**query: Any) -> list[str]:
        return [row.text for row in client.get(ADDRESS, query).context["rows"]]

    assert texts(order="-lines")[0] == "t29"
    assert texts(order="lines")[0] == "t00"
    assert texts(order="-last")[0] == "t00"
    assert texts(order="first")[0] == "t29"
    assert len(texts()) == 25
    assert len(texts(page=2)) == 5
    assert "26 to 30 shown" in text_of(client.get(ADDRESS, {"page": 2}))


def test_a_line_that_a_rule_of_today_knows_says_so(as_: Visitor) -> None:
    line = "kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus."
    with_lines("1", item("NVRM: Xid <num>", line))
    client = as_("viewer")
    assert "known since as gpu.off-the-bus" in text_of(client.get(ADDRESS))
    assert "The ruleset in force knows such lines" in text_of(client.get(f"{ADDRESS}{digest('NVRM: Xid <num>')}/"))


# --- One template -------------------------------------------------------------------------------


def test_a_template_says_where_it_was_seen_and_with_what(as_: Visitor, client_of: Clients) -> None:
    with_lines("71001", item(), days_ago=3, image="registry/train:1", workload="llm")
    with_lines("71002", item(), image="registry/train:2")
    page = as_("viewer").get(f"{ADDRESS}{digest(FLUX)}/")
    said = text_of(page)
    for words in ("job 71001", "job 71002", "llm", "registry/train:1", "registry/train:2", "syslog/gpu-1.log:7"):
        assert words in said, words
    answer = client_of("viewer", "lead").get(f"{API}/{digest(FLUX)}").json()
    assert [seen["job_id"] for seen in answer["seen"]] == ["71002", "71001"]
    assert [one["name"] for one in answer["images"]] == ["registry/train:2", "registry/train:1"]
    assert answer["attempts"] == 2


def test_an_unknown_template_is_not_there(as_: Visitor, client_of: Clients) -> None:
    assert as_("viewer").get(f"{ADDRESS}{'0' * 64}/").status_code == 404
    assert client_of("viewer", "lead").get(f"{API}/{'0' * 64}").status_code == 404


def test_the_draft_is_the_rule_that_the_command_would_write(as_: Visitor) -> None:
    with_lines("1", item())
    page = as_("viewer").get(f"{ADDRESS}{digest(FLUX)}/")
    draft = page.context["draft"]
    rule = tomllib.loads(draft.text)
    assert rule["match"]["sources"] == ["syslog"]
    assert rule["test"][0]["lines"] == ["fluxd[71]: fatal: capacitor 3 drained"]
    assert "inquest rules new --source syslog" in text_of(page)
    assert page.context["command"].endswith("-- 'fluxd[71]: fatal: capacitor 3 drained'")


def test_the_draft_takes_what_the_form_says(as_: Visitor, client_of: Clients) -> None:
    with_lines("1", item())
    said = {"id": "site.capacitor", "title": "It's drained", "role": "cause", "domain": "facility"}
    page = as_("viewer").get(f"{ADDRESS}{digest(FLUX)}/", said)
    rule = tomllib.loads(page.context["draft"].text)
    assert {key: rule[key] for key in said} == said
    assert "--role cause --domain facility" in page.context["command"]
    answer = client_of("viewer", "lead").get(f"{API}/{digest(FLUX)}", said).json()
    assert answer["draft"]["toml"] == page.context["draft"].text


@pytest.mark.parametrize(
    "query", [{"id": "../../etc/passwd"}, {"id": "No Id"}, {"role": "cause"}, {"role": "king"}, {"x": "1"}], ids=str
)
def test_a_draft_that_cannot_be_made_says_why(as_: Visitor, query: dict[str, str]) -> None:
    with_lines("1", item())
    page = as_("viewer").get(f"{ADDRESS}{digest(FLUX)}/", query)
    assert page.status_code == 200
    assert "draft" not in page.context
    assert page.context["refused"]


def test_hostile_lines_are_text_on_every_page(as_: Visitor) -> None:
    line = "fatal: <script>alert(1)</script>'; rm -rf / #\u202eevil"
    template = "fatal: <script>alert(<num>)</script>'; rm -rf / #\u202eevil"
    with_lines("1", item(template, line))
    client = as_("viewer")
    for address in (ADDRESS, f"{ADDRESS}{digest(template)}/"):
        html = client.get(address).content.decode()
        assert "<script>alert" not in html
        assert "\u202e" not in html
        assert "&lt;script&gt;" in html


def test_a_line_that_gives_no_pattern_says_so(as_: Visitor) -> None:
    with_lines("1", item("<num>", "123"))
    assert "no rule can be made of" in text_of(as_("viewer").get(f"{ADDRESS}{digest('<num>')}/"))


# --- Budgets: they may only shrink --------------------------------------------------------------


def test_of_a_long_time_the_latest_attempts_are_counted_and_the_page_says_since_when(
    as_: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "MOST_ATTEMPTS", 2)
    for days_ago in (9, 5, 2):
        with_lines(str(days_ago), item(), days_ago=days_ago)
    client = as_("viewer")
    page = client.get(ADDRESS)
    (row,) = page.context["rows"]
    assert row.attempts == 2 and row.ever < row.first and "counted is since" in text_of(page)
    assert "counted is since" not in text_of(client.get(ADDRESS, {"days": "7"}))


LIST_QUERIES = 10
TEMPLATE_QUERIES = 10


def test_the_pages_cost_the_same_for_one_row_and_for_many(
    as_: Visitor, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client = as_("viewer")
    for number in range(20):
        with_lines(str(number), item(), item(f"t{number}", "boom"))
        if number in (0, 19):
            for address, queries in ((ADDRESS, LIST_QUERIES), (f"{ADDRESS}{digest(FLUX)}/", TEMPLATE_QUERIES)):
                client.get(address)
                with django_assert_num_queries(queries):
                    client.get(address)
