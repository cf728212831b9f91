"""The verdict list as a signed-in browser without scripts sees it."""

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from rules.words import Source
from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import (
    a_verdict,
    ambiguous_body,
    an_attempt,
    body,
    coverage,
    no_failure_body,
    nvlink_attempt,
    nvlink_body,
)
from verdicts import record
from verdicts.choices import Label
from verdicts.listing import text_search
from verdicts.models import AttributionRequest, Comment, ListRow, Review, SavedView

pytestmark = pytest.mark.django_db

LIST = "/verdicts/"
HTMX = {"HX-Request": "true"}
Visitor = Callable[..., Client]


@pytest.fixture
def as_(client: Client) -> Visitor:
    """The client, logged in as somebody of the groups named."""

    def log_in(*groups: str) -> Client:
        name = "-".join(groups) or "nobody"
        known = get_user_model().objects.filter(username=name).first()
        client.force_login(known or a_user(name, *groups))
        return client

    return log_in


def text_of(response: Any) -> str:
    """The page's words without its markup, white space folded."""
    html = response.content.decode()
    html = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def jobs(response: Any) -> list[str]:
    """The rows of a page by their jobs."""
    return [line.row.job_id for line in response.context["answer"].lines]


def test_an_empty_store_says_how_to_begin(as_: Visitor) -> None:
    assert "inquest ingest" in text_of(as_("viewer").get(LIST))


def test_an_attempt_without_a_verdict_is_a_row_that_says_so(as_: Visitor) -> None:
    attempt = an_attempt("70001", state="FAILED")
    a_verdict(nvlink_attempt(), nvlink_body())
    page = as_("viewer").get(LIST)
    assert "Not analysed scheduler: FAILED" in text_of(page)
    assert reverse("verdicts:attempt", args=[attempt.pk]) in page.content.decode()
    assert jobs(as_("viewer").get(LIST, {"domain": "not_analysed"})) == ["70001"]
    a_verdict(attempt, body())
    assert jobs(as_("viewer").get(LIST, {"domain": "not_analysed"})) == []
    assert len(jobs(as_("viewer").get(LIST))) == 2


def test_a_filter_that_hides_all_offers_to_clear(as_: Visitor) -> None:
    a_verdict(nvlink_attempt(), nvlink_body())
    page = as_("viewer").get(LIST, {"domain": "storage", "order": "-state"})
    assert "No verdict matches" in text_of(page)
    assert 'href="?order=-state"' in page.content.decode()


def test_a_row_says_what_where_how_sure_and_what_was_not_seen(as_: Visitor) -> None:
    verdict = a_verdict(nvlink_attempt(), nvlink_body())
    page = as_("viewer").get(LIST)
    said = text_of(page)
    for words in (
        "pretrain-70b-stage2",
        "job 48213",
        "restart 2",
        "alpha",
        "Failed",
        "NVLink fabric",
        "Strong",
        "gpu-017",
        "3 of 9",
        "without system log and 5 more",
        "02:12:40 +00:00",
        "so the switch side is not excluded",
    ):
        assert words in said, words
    assert reverse("verdicts:detail", args=[verdict.pk]) in page.content.decode()


FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"48213", "51200", "51210"}),
    ({"cluster": "beta"}, {"51200", "51210"}),
    ({"domain": "ambiguous"}, {"51200"}),
    ({"domain": ["ambiguous", "no_failure"]}, {"51200", "51210"}),
    ({"state": "succeeded"}, {"51210"}),
    ({"strength": "strong"}, {"48213"}),
    ({"strength": "none"}, {"51200", "51210"}),
    ({"node": "gpu-031"}, {"51200"}),
    ({"symptom": "nccl_*"}, {"48213"}),
    ({"text": "pretrain"}, {"48213"}),
    ({"workload": "eval-nightly"}, {"51210"}),
    ({"after": "2026-11-12T00:00"}, {"51200", "51210"}),
    ({"after": "2026-11-12T00:00", "before": "2026-11-13T00:00"}, {"51200"}),
    ({"cluster": "beta", "state": "succeeded"}, {"51210"}),
    ({"domain": "", "text": "", "node": "", "after": ""}, {"48213", "51200", "51210"}),
]


@pytest.mark.parametrize(("query", "jobs"), FILTERS, ids=[str(query) for query, _ in FILTERS])
def test_the_filters_of_the_address_hold(as_: Visitor, query: dict[str, Any], jobs: set[str]) -> None:
    a_verdict(nvlink_attempt(), nvlink_body())
    beta: dict[str, Any] = {"cluster": "beta", "scheduler": "slurm"}
    a_verdict(an_attempt("51200", end="2026-11-12T11:03:00+00:00", **beta), ambiguous_body())
    a_verdict(an_attempt("51210", workload="eval-nightly", end="2026-11-13T04:00:00+00:00", **beta), no_failure_body())
    response = as_("viewer").get(LIST, query)
    assert {line.row.job_id for line in response.context["answer"].lines} == jobs


def test_the_form_shows_the_filters_of_the_address(as_: Visitor) -> None:
    a_verdict(nvlink_attempt(), nvlink_body())
    page = as_("viewer").get(
        LIST,
        {"domain": ["nvlink_fabric", "storage"], "node": "gpu-017", "after": "2026-11-03T00:00:00Z", "mode": "slow"},
    )
    html = page.content.decode()
    assert 'name="domain" value="nvlink_fabric" checked' in html
    assert 'name="domain" value="storage" checked' in html
    assert 'name="node" value="gpu-017" checked' in html
    assert 'name="after" value="2026-11-03T00:00"' in html
    assert '<input type="hidden" name="mode" value="slow" form="filters">' in html
    assert "Ended from: 2026-11-03 00:00 +00:00" in text_of(page)
    without_storage = "?domain=nvlink_fabric&amp;node=gpu-017&amp;after=2026-11-03T00%3A00%3A00Z&amp;mode=slow"
    assert f'href="{without_storage}"' in html


@pytest.mark.parametrize("query", [{"domain": "nonsense"}, {"after": "yesterday"}, {"nonsense": "1"}], ids=str)
def test_a_filter_that_is_not_understood_finds_nothing_and_says_so(as_: Visitor, query: dict[str, str]) -> None:
    a_verdict(nvlink_attempt(), nvlink_body())
    page = as_("viewer").get(LIST, query)
    assert "Nothing was looked for" in text_of(page)
    assert not page.context["answer"].lines


def test_headings_sort_and_turn_round(as_: Visitor) -> None:
    for number, domain in enumerate(("storage", "facility", "scheduler")):
        a_verdict(an_attempt(str(number)), body(attributed_domain=domain, strength="weak"))
    client = as_("viewer")
    page = client.get(LIST, {"order": "domain", "strength": "weak"})
    assert [line.row.domain for line in page.context["answer"].lines] == ["facility", "scheduler", "storage"]
    assert 'aria-sort="ascending"' in page.content.decode()
    turned = page.context["form"].headings["domain"].address
    assert turned == "?order=-domain&strength=weak"
    page = client.get(LIST + turned)
    assert [line.row.domain for line in page.context["answer"].lines] == ["storage", "scheduler", "facility"]


def test_pages_follow_each_other_both_ways_without_gap_or_overlap(as_: Visitor) -> None:
    end = datetime(2026, 11, 3, tzinfo=UTC)
    for number in range(60):
        a_verdict(an_attempt(str(number), end=(end - timedelta(hours=number // 7)).isoformat()), body())
    client = as_("viewer")
    first = client.get(LIST)
    second = client.get(LIST + first.context["next"])
    third = client.get(LIST + second.context["next"])
    assert "26 to 50 shown" in text_of(second)
    assert "51 to 60 shown" in text_of(third)
    seen = [*jobs(first), *jobs(second), *jobs(third)]
    assert len(seen) == len(set(seen)) == 60
    assert not third.context["next"]
    back = client.get(LIST + third.context["previous"])
    assert jobs(back) == jobs(second)
    assert jobs(client.get(LIST + back.context["previous"])) == jobs(first)
    assert "1 to 25 shown" in text_of(client.get(LIST + back.context["previous"]))


@pytest.mark.parametrize("cursor", ["x", "WzAsMV0", "%00", "a" * 5000, "W10", "bnVsbA"])
def test_a_cursor_that_was_not_given_is_refused(as_: Visitor, cursor: str) -> None:
    a_verdict(nvlink_attempt(), nvlink_body())
    assert "Nothing was looked for" in text_of(as_("viewer").get(LIST, {"cursor": cursor}))


def test_a_partial_update_is_the_results_alone(as_: Visitor) -> None:
    a_verdict(nvlink_attempt(), nvlink_body())
    client = as_("viewer")
    part = client.get(LIST, headers=HTMX | {"HX-Target": "results"})
    assert part.content.decode().strip().startswith('<section id="results"')
    assert "<html" not in part.content.decode()
    assert {"HX-Request", "HX-Target"} <= {word.strip() for word in part["Vary"].split(",")}
    whole = client.get(LIST, headers=HTMX | {"HX-Target": "results", "HX-History-Restore-Request": "true"})
    assert "<html" in whole.content.decode()


def test_superseded_verdicts_are_not_rows(as_: Visitor) -> None:
    attempt = nvlink_attempt()
    a_verdict(attempt, body())
    current = a_verdict(attempt, nvlink_body(), number=2)
    assert [line.verdict.pk for line in as_("viewer").get(LIST).context["answer"].lines] == [current.pk]


# --- Facets -------------------------------------------------------------------------------------


def facet(response: Any, name: str) -> dict[str, int]:
    """A facet's words with their counts."""
    return {
        word.value: word.count
        for found, _ in response.context["form"].facets
        if found.name == name
        for word in found.words
    }


def several() -> None:
    """Four attempts that differ."""
    a_verdict(nvlink_attempt(), nvlink_body())
    beta: dict[str, Any] = {"cluster": "beta", "user": "ada", "account": "vision"}
    a_verdict(an_attempt("51200", end="2026-11-12T11:03:00+00:00", **beta), ambiguous_body())
    a_verdict(an_attempt("51210", workload="eval-nightly", end="2026-11-13T04:00:00+00:00", **beta), no_failure_body())
    an_attempt("51220", **beta)


def test_facets_count_what_is_found_and_lead_to_as_many_rows(as_: Visitor) -> None:
    several()
    client = as_("viewer")
    page = client.get(LIST)
    assert facet(page, "domain") == {"nvlink_fabric": 1, "ambiguous": 1, "no_failure": 1, "not_analysed": 1}
    assert facet(page, "cluster") == {"beta": 3, "alpha": 1}
    assert facet(page, "user") == {"ada": 3, "m.okafor": 1}
    assert facet(page, "coverage") == {"degraded": 1, "narrow": 2}
    assert facet(page, "node") == {"gpu-017": 1, "gpu-031": 1}
    for found, _ in page.context["form"].facets:
        for word in found.words:
            rows = jobs(client.get(LIST, {found.name: word.value}))
            assert len(rows) == word.count, (found.name, word.value)


def test_a_facet_in_force_still_counts_its_other_words(as_: Visitor) -> None:
    several()
    page = as_("viewer").get(LIST, {"cluster": "beta", "domain": "ambiguous"})
    assert facet(page, "domain") == {"ambiguous": 1, "no_failure": 1, "not_analysed": 1}
    assert facet(page, "cluster") == {"beta": 1}
    assert facet(page, "state") == {"failed": 1}


def test_facet_counts_are_lower_bounds_where_more_match(as_: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verdicts.listing.facets.LOOKED_AT", 2)
    several()
    page = as_("viewer").get(LIST)
    assert re.search(r'class="facet-count">\d+\+<', page.content.decode())
    assert sum(facet(page, "cluster").values()) == 2


# --- Free text ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("PRETRAIN", ["48213"]),
        ("okafor nvlink", ["48213"]),
        ("gpu-0", ["51200", "48213"]),
        ("9", []),
        ("48", ["48213"]),
        ("8213", ["48213"]),
        ("50%", []),
        ("_____", []),
        ("stopped answering", ["51200"]),
    ],
)
def test_words_are_found_in_headline_cause_workload_job_user_and_node(
    as_: Visitor, text: str, found: list[str]
) -> None:
    several()
    assert jobs(as_("viewer").get(LIST, {"text": text})) == found


def test_without_trigrams_the_newest_rows_are_looked_through_and_that_is_said(
    as_: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    several()
    monkeypatch.setattr(text_search, "has_trigrams", lambda: False)
    monkeypatch.setattr("verdicts.listing.pages.has_trigrams", lambda: False)
    monkeypatch.setattr(text_search, "NEWEST", 3)
    page = as_("viewer").get(LIST, {"text": "okafor"})
    assert jobs(page) == []
    assert "this database has no index for text" in text_of(page)
    assert jobs(as_("viewer").get(LIST, {"text": "eval"})) == ["51210"]


def test_a_text_that_is_everywhere_is_found_in_the_newest_rows_without_losing_any(
    as_: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(70):
        end = (datetime(2026, 11, 3, tzinfo=UTC) - timedelta(hours=number)).isoformat()
        a_verdict(an_attempt(str(number), workload="common" if number % 3 else "rare-once", end=end), body())
    client = as_("viewer")
    wanted = jobs(client.get(LIST, {"text": "common"}))
    assert len(wanted) == 25
    monkeypatch.setattr("verdicts.listing.read.READ_THROUGH", 45)
    monkeypatch.setattr("verdicts.listing.facets.READ_THROUGH", 45)
    page = client.get(LIST, {"text": "common"})
    assert jobs(page) == wanted
    assert page.context["answer"].everywhere
    assert "30+ match" in text_of(page)
    assert facet(page, "domain") == {"unattributed": 30}
    seen = jobs(page)
    while page.context["next"]:
        page = client.get(LIST + page.context["next"])
        seen += jobs(page)
    assert len(seen) == len(set(seen)) == sum(1 for number in range(70) if number % 3)
    rare = client.get(LIST, {"text": "rare-once"})
    assert "24 match" in text_of(rare)


# --- Many rows at once --------------------------------------------------------------------------


def bulk(client: Client, action: str, *rows: Any, **more: str) -> Any:
    """Do something to rows, each named by what its row is of."""
    return client.post("/verdicts/bulk/", {"action": action, "row": [str(row.pk) for row in rows], **more})


def test_many_rows_are_labelled_and_each_that_cannot_be_says_why(as_: Visitor) -> None:
    several()
    rows = list(ListRow.objects.filter(is_current=True))
    said = text_of(bulk(as_("reviewer"), "right", *rows, note="looked at together"))
    assert "3 of 4 rows: labelled." in said
    assert "job 51220: it has no verdict yet that could be right or wrong." in said
    assert {review.note for review in Review.objects.all()} == {"looked at together"}
    assert Review.objects.count() == 3


def test_wrong_needs_what_it_really_was_and_nothing_is_done_without(as_: Visitor) -> None:
    several()
    row = ListRow.objects.get(job_id="48213")
    client = as_("reviewer")
    assert "names what it really was" in text_of(bulk(client, "wrong", row))
    assert not Review.objects.exists()
    bulk(client, "wrong", row, actual_domain="storage")
    assert Review.objects.get().actual_domain == "storage"


def test_attempts_are_asked_about_again_also_those_that_were_not_analysed(as_: Visitor, sent: list[str]) -> None:
    several()
    said = text_of(bulk(as_("operator"), "attribute", *ListRow.objects.filter(is_current=True)))
    assert "4 of 4 rows: asked for a new attribution." in said
    assert AttributionRequest.objects.filter(state="pending").count() == 4
    assert "being attributed" in text_of(as_("operator").get(LIST))


def test_many_are_commented_on_at_once(as_: Visitor) -> None:
    several()
    client = as_("operator")
    said = text_of(bulk(client, "comment", *ListRow.objects.filter(is_current=True), note="Rack 7 lost its power."))
    assert "3 of 4 rows: commented on." in said
    assert set(Comment.objects.values_list("text", flat=True)) == {"Rack 7 lost its power."}
    assert "A comment needs some text. Nothing was done." in text_of(bulk(client, "comment", *ListRow.objects.all()))


@pytest.mark.parametrize(
    ("group", "action"), [("viewer", "comment"), ("viewer", "right"), ("operator", "right"), ("reviewer", "attribute")]
)
def test_a_role_that_may_not_is_told_so_and_nothing_is_done(as_: Visitor, group: str, action: str) -> None:
    several()
    said = text_of(bulk(as_(group), action, *ListRow.objects.all()))
    assert "Nothing was done" in said
    assert not Review.objects.exists()
    assert not AttributionRequest.objects.exists()


def test_what_names_no_row_changes_nothing(as_: Visitor) -> None:
    client = as_("lead")
    assert "None is chosen. Nothing was done." in text_of(
        client.post("/verdicts/bulk/", {"action": "right", "row": "x"})
    )
    assert "Choose what to do" in text_of(client.post("/verdicts/bulk/", {"action": "", "row": "x"}))
    gone = client.post("/verdicts/bulk/", {"action": "right", "row": "6f1c2b4e-0000-4000-8000-000000000000"})
    assert "None of 1 rows was done." in text_of(gone)


def test_only_who_may_do_something_is_offered_to_choose(as_: Visitor) -> None:
    several()
    assert 'name="row"' not in as_("viewer").get(LIST).content.decode()
    assert 'name="row"' in as_("operator").get(LIST).content.decode()


def test_the_way_back_is_to_the_list_and_nowhere_else(as_: Visitor) -> None:
    client = as_("lead")
    for back, wanted in (("/verdicts/?domain=storage", "/verdicts/?domain=storage"), ("//evil.example/", LIST)):
        page = client.post("/verdicts/bulk/", {"action": "right", "back": back})
        assert f'href="{wanted}"' in page.content.decode()


# --- Rows that change ---------------------------------------------------------------------------


def test_rows_are_asked_for_by_attempt_and_come_as_they_are_now(as_: Visitor) -> None:
    attempt = an_attempt("70001")
    client = as_("viewer")
    assert "data-live" in client.get("/verdicts/rows/", {"attempt": attempt.pk}).content.decode()
    a_verdict(attempt, no_failure_body())
    now = client.get("/verdicts/rows/", {"attempt": [attempt.pk, "x"]}).content.decode()
    assert "No failure" in now
    assert "data-live" not in now


# --- Export -------------------------------------------------------------------------------------


def exported(client: Client, form: str, query: dict[str, Any] | None = None) -> str:
    """The whole of a file."""
    answer: Any = client.get(f"/verdicts/export/{form}/", query or {})
    return b"".join(answer.streaming_content).decode("utf-8-sig")


def test_an_export_holds_exactly_what_is_filtered(as_: Visitor) -> None:
    several()
    client = as_("viewer")
    rows = list(csv.DictReader(io.StringIO(exported(client, "csv", {"cluster": "beta"}))))
    assert [row["job_id"] for row in rows] == jobs(client.get(LIST, {"cluster": "beta"}))
    told = json.loads(exported(client, "json", {"domain": "ambiguous"}))
    assert [row["nodes"] for row in told] == [["gpu-031"]]
    assert json.loads(exported(client, "json", {"node": "gpu-999"})) == []
    name = client.get("/verdicts/export/csv/")["Content-Disposition"]
    assert re.fullmatch(r'attachment; filename="inquest-verdicts-\d{8}T\d{6}Z\.csv"', name)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", " =", "＝"])
def test_no_cell_begins_a_formula_and_json_stays_exact(as_: Visitor, start: str) -> None:
    hostile = f"{start}HYPERLINK(1)"
    a_verdict(an_attempt("1", workload="w"), body(headline=hostile))
    client = as_("viewer")
    (row,) = csv.DictReader(io.StringIO(exported(client, "csv")))
    assert row["headline"].startswith("'")
    assert json.loads(exported(client, "json"))[0]["headline"] == hostile


def test_an_export_reads_on_beyond_what_it_reads_at_once(as_: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        a_verdict(an_attempt(str(number), end="2026-11-03T00:00:00+00:00"), body())
    monkeypatch.setattr("verdicts.listing.keyset.Keyset.every.__defaults__", (2,))
    rows = list(csv.DictReader(io.StringIO(exported(as_("viewer"), "csv"))))
    assert sorted(row["job_id"] for row in rows) == [str(number) for number in range(7)]


def test_an_export_of_what_is_not_understood_leads_to_the_list_that_says_so(as_: Visitor) -> None:
    several()
    answer = as_("viewer").get("/verdicts/export/csv/", {"domain": "nonsense"}, follow=True)
    assert "Nothing was looked for" in text_of(answer)
    assert as_("viewer").get("/verdicts/export/xls/").status_code == 404


# --- Saved views and keys -----------------------------------------------------------------------


def test_a_view_is_saved_opened_replaced_and_deleted(as_: Visitor) -> None:
    several()
    client = as_("viewer")
    saved = client.post("/verdicts/views/", {"name": " My  list ", "query": "domain=storage&order=-state&cursor=x"})
    assert saved["Location"] == "/verdicts/?domain=storage&order=-state"
    assert "My list" in text_of(client.get(LIST))
    client.post("/verdicts/views/", {"name": "My list", "query": "domain=facility"})
    view = SavedView.objects.get()
    assert view.query == "domain=facility"
    client.post(f"/verdicts/views/{view.pk}/delete/")
    assert not SavedView.objects.exists()


def test_a_private_view_is_its_owners_and_a_shared_one_everybodys(as_: Visitor) -> None:
    several()
    client = as_("lead")
    client.post("/verdicts/views/", {"name": "for me only", "query": ""})
    client.post("/verdicts/views/", {"name": "ours", "query": "", "shared": "on"})
    assert "for me only" in text_of(client.get(LIST))
    said = text_of(as_("viewer").get(LIST))
    assert "ours of lead" in said
    assert "for me only" not in said
    for view in SavedView.objects.all():
        assert as_("viewer").post(f"/verdicts/views/{view.pk}/delete/").status_code == 404


def test_who_only_reads_cannot_share_and_nonsense_is_not_saved(as_: Visitor) -> None:
    several()
    client = as_("viewer")
    said = text_of(client.post("/verdicts/views/", {"name": "x", "query": "", "shared": "on"}, follow=True))
    assert "Sharing a view needs" in said
    said = text_of(client.post("/verdicts/views/", {"name": "x", "query": "domain=nonsense"}, follow=True))
    assert "Nothing was looked for" in said
    assert not SavedView.objects.exists()


def test_the_keys_are_switched_off_for_a_person_and_stay_off(as_: Visitor) -> None:
    several()
    client = as_("viewer")
    assert 'data-keys="on"' in client.get(LIST).content.decode()
    client.post("/verdicts/keys/", {"on": "false"})
    assert 'data-keys="off"' in client.get(LIST).content.decode()
    assert 'data-keys="on"' in as_("lead").get(LIST).content.decode()


def test_a_source_that_is_never_empty_and_was_is_not_seen_whole(as_: Visitor) -> None:
    all_but = {source.value: "empty" for source in Source} | {"syslog": "ok", "scheduler": "ok", "kubernetes": "ok"}
    a_verdict(an_attempt("1"), body(coverage=coverage(**all_but | {"applog": "ok"})))
    a_verdict(an_attempt("2"), body(coverage=coverage(**all_but)))
    client = as_("viewer")
    assert "job 1" in client.get(LIST, {"coverage": "whole"}).content.decode()
    assert "job 2" not in client.get(LIST, {"coverage": "whole"}).content.decode()
    assert "job 2" in client.get(LIST, {"coverage": "degraded", "missing": "applog"}).content.decode()


# --- Budgets: they may only shrink --------------------------------------------------------------

LIST_QUERIES = 11
#: Two facets in force, each counted as if it were not.
FILTERED_QUERIES = 12


def test_the_list_costs_the_same_for_one_row_and_for_a_page(
    as_: Visitor, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client = as_("viewer")
    a_verdict(nvlink_attempt(), nvlink_body())
    client.get(LIST)
    with django_assert_num_queries(LIST_QUERIES - 1):  # a list of one page needs no counting
        client.get(LIST)
    for number in range(27):
        a_verdict(nvlink_attempt(job_id=str(number)), nvlink_body())
    with django_assert_num_queries(LIST_QUERIES):
        client.get(LIST)


@pytest.mark.parametrize(
    "query",
    [
        {"cluster": "alpha", "domain": "nvlink_fabric"},
        {"cluster": "alpha", "domain": "nvlink_fabric", "state": "failed", "user": "m.okafor", "node": "gpu-017"},
        {"text": "nvlink", "symptom": "nccl_watchdog_timeout"},
        {"after": "2026-11-01T00:00Z", "before": "2026-12-01T00:00Z"},
    ],
    ids=str,
)
def test_no_filter_costs_more_than_the_budget(
    as_: Visitor, django_assert_max_num_queries: DjangoAssertNumQueries, query: dict[str, str]
) -> None:
    for number in range(28):
        a_verdict(nvlink_attempt(job_id=str(number)), nvlink_body())
    record.record_review(ListRow.objects.latest("id").verdict_id, by=a_user("rita", "reviewer"), label=Label.RIGHT)
    client = as_("lead")
    text_search.has_trigrams()
    client.get(LIST, query)
    with django_assert_max_num_queries(FILTERED_QUERIES):
        client.get(LIST, query)
