"""The log viewer: lines in order, around one, filtered, with what is not there said, and hostile text inert."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from rules.attempt import RankPlace
from rules.words import Source
from tests.verdicts.builders import an_observation
from tests.verdicts.incidents import many_ranks
from tests.verdicts.page_bodies import a_verdict, an_attempt, nvlink_attempt, nvlink_body
from tests.verdicts.seen import text_of
from verdicts.logs.order import CLOCKS, place_of
from verdicts.models import Attempt, Observation
from verdicts.record import add_observations, record_attempt

pytestmark = pytest.mark.django_db

Visitor = Callable[..., Client]
BUDGET = 12


def a_log(attempt: Attempt, count: int = 5, *, name: str = "applog/rank0.log", **more: Any) -> list[Observation]:
    """Lines of one file, one second apart, sent in reverse."""
    said = [
        an_observation(
            number,
            ref=f"{name}:{number}",
            body=f"line {number} of {name}",
            timestamp=f"2026-11-03T02:{number // 60:02}:{number % 60:02}+00:00",
            **more,
        )
        for number in range(count, 0, -1)
    ]
    add_observations(attempt.pk, said)
    return list(attempt.observations.filter(file=name).order_by("line"))


def address(attempt: Attempt, query: str = "") -> str:
    return reverse("verdicts:log", args=[attempt.pk]) + query


def numbers(response: Any) -> list[int]:
    """The line numbers that a page shows, in order."""
    found = re.findall(r'class="log-number"[^>]*><span[^>]*>Line </span>(\d+)', response.content.decode())
    return [int(number) for number in found]


def test_lines_stand_in_the_order_of_their_file_whatever_order_they_came_in(as_: Visitor) -> None:
    attempt = an_attempt()
    a_log(attempt, 12)
    assert numbers(as_("viewer").get(address(attempt))) == list(range(1, 13))


def test_by_time_the_lines_of_several_files_lie_between_each_other(as_: Visitor) -> None:
    attempt = an_attempt()
    a_log(attempt, 2, name="applog/a.log")
    a_log(attempt, 2, name="applog/b.log", rank=1)
    page = as_("viewer").get(address(attempt, "?order=time"))
    assert re.findall(r"line (\d) of applog/(\w)", text_of(page)) == [("1", "a"), ("1", "b"), ("2", "a"), ("2", "b")]


def test_times_that_cannot_be_compared_stand_apart_and_the_page_says_so(as_: Visitor) -> None:
    attempt = an_attempt()
    said = [
        an_observation(1, body="dated", timestamp="2026-11-03T02:00:00+00:00"),
        an_observation(2, body="without a zone", timestamp="2020-01-01T00:00:00"),
        an_observation(3, body="since boot", timestamp="boot:12.5"),
        an_observation(4, body="undated", timestamp=None),
    ]
    add_observations(attempt.pk, said[::-1])
    text = text_of(as_("viewer").get(address(attempt, "?order=time")))
    parts = ["dated", "printed no offset", "without a zone", "count seconds since", "since boot", "print no time"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert text.rindex("undated") > places[-1]


@pytest.mark.parametrize(
    ("line", "clock", "micros"),
    [
        ("2026-11-03T02:11:04+01:00", "utc", 1793668264000000),
        ("Nov  3 02:11:04 gpu-1 kernel: x", "utc", 1793671864000000),
        ("2026-11-03 02:11:04,250 ERROR x", "utc", 1793671864250000),
        ("[  12.500000] nvrm: x", "boot", 12500000),
        ("nothing", "", 0),
        ("2026-99-99T02:11:04+01:00", "", 0),
    ],
)
def test_a_line_without_a_given_time_has_the_one_it_prints(line: str, clock: str, micros: int) -> None:
    near = 1793671864000000
    placed = place_of(ref="a:1", timestamp=None, text=line, near=near, zone="+00:00")
    assert (CLOCKS[placed.clock], placed.micros) == (clock, micros)


def test_pages_by_key_neither_overlap_nor_leave_out(as_: Visitor) -> None:
    attempt = an_attempt()
    a_log(attempt, 130, name="applog/a.log")
    a_log(attempt, 130, name="applog/b.log", rank=1)
    client = as_("viewer")
    for order in ("stream", "time"):
        page = client.get(address(attempt, f"?order={order}"))
        seen = []
        while True:
            seen += re.findall(r"line \d+ of applog/\w", text_of(page))
            later = re.search(r'rel="next" href="([^"]*)"', page.content.decode())
            if later is None:
                break
            page = client.get(later[1].replace("&amp;", "&"))
        assert len(seen) == len(set(seen)) == 260
        earlier = re.search(r'rel="prev" href="([^"]*)"', page.content.decode())
        assert earlier is not None
        before = client.get(earlier[1].replace("&amp;", "&"))
        assert re.findall(r"line \d+ of applog/\w", text_of(before)) == seen[100:200]


def test_a_permalink_shows_its_line_with_those_around_it(as_: Visitor) -> None:
    attempt = an_attempt()
    lines = a_log(attempt, 300)
    page = as_("viewer").get(address(attempt, f"?line={lines[149].pk}"))
    assert numbers(page) == list(range(120, 211))
    html = page.content.decode()
    assert re.search(rf'id="L{lines[149].pk}" aria-current="true"', html)
    assert html.count('aria-current="true"') == 1
    assert "Earlier lines" in html
    assert "Later lines" in html


def test_a_reference_of_the_verdict_leads_to_its_line(as_: Visitor) -> None:
    attempt = an_attempt()
    lines = a_log(attempt, 3)
    response = as_("viewer").get(address(attempt, "?ref=applog/rank0.log:2"))
    assert response["Location"] == address(attempt, f"?line={lines[1].pk}#L{lines[1].pk}")


def test_a_line_that_is_not_stored_is_said_to_be_so(as_: Visitor) -> None:
    attempt, other = an_attempt(), an_attempt("2")
    [foreign] = a_log(other, 1)
    client = as_("viewer")
    for query in ("?ref=applog/rank0.log:77", "?line=999999", f"?line={foreign.pk}", "?line=x", "?ref=%00"):
        assert "not stored for this attempt" in text_of(client.get(address(attempt, query)))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?source=syslog", {"kernel"}),
        ("?source=syslog&source=applog", {"kernel", "rank", "prefixed", "bracketed", "hosted"}),
        ("?rank=3", {"rank", "prefixed", "bracketed"}),
        ("?node=gpu-02", {"kernel", "hosted"}),
        ("?text=KERNEL", {"kernel"}),
        ("?text=100%25", {"prefixed"}),
        ("?file=applog/r3.log", {"rank"}),
    ],
)
def test_lines_are_found_by_source_node_rank_file_and_text(as_: Visitor, query: str, expected: set[str]) -> None:
    attempt = an_attempt()
    told = {"node": "", "rank": None, "timestamp": None}
    said = [
        an_observation(1, body="the kernel", **(told | {"node": "gpu-02", "source": Source.SYSLOG, "ref": "s:1"})),
        an_observation(2, body="the rank", **(told | {"rank": 3, "ref": "applog/r3.log:1"})),
        an_observation(3, body=" 3: prefixed 100%", **(told | {"ref": "applog/o:1"})),
        an_observation(4, body="[rank3]: bracketed", **(told | {"ref": "applog/o:2"})),
        an_observation(5, body=" 33: gpu-02:123:456 [3] hosted", **(told | {"ref": "applog/o:3"})),
        an_observation(6, body="13: gpu-022: nothing", **(told | {"ref": "other:1", "source": Source.PROGRESS})),
    ]
    add_observations(attempt.pk, said)
    page = as_("viewer").get(address(attempt, query))
    assert len(re.findall(r'class="log-line', page.content.decode())) == len(expected)
    assert all(word in text_of(page) for word in expected)


def test_a_search_marks_what_it_found_and_wildcards_are_text(as_: Visitor) -> None:
    attempt = an_attempt()
    add_observations(attempt.pk, [an_observation(1, body="<b>Xid</b> 79, xid 79 %_\\"), an_observation(2, body="no")])
    client = as_("viewer")
    html = client.get(address(attempt, "?text=xID")).content.decode()
    assert "&lt;b&gt;<mark>Xid</mark>&lt;/b&gt; 79, <mark>xid</mark> 79" in html
    assert "<mark>%_\\</mark>" in client.get(address(attempt, "?text=%25_%5C")).content.decode()


def test_what_was_folded_and_what_was_not_kept_is_said(as_: Visitor) -> None:
    attempt = an_attempt()
    said = [
        an_observation(1, ref="applog/r.log:1", count=413),
        an_observation(2, ref="applog/r.log:50", body="first\nsecond\nthird"),
        an_observation(3, ref="applog/r.log:53"),
    ]
    add_observations(attempt.pk, said)
    text = text_of(as_("viewer").get(address(attempt)))
    assert "folded: 412 more like it" in text
    assert "48 lines between are not kept" in text
    assert text.count("between") == 1


def test_the_rank_that_says_nothing_is_named(as_: Visitor) -> None:
    attempt, _ = record_attempt(many_ranks(64)[0])
    add_observations(attempt.pk, many_ranks(64)[1])
    client = as_("viewer")
    assert "No line of rank 17 is stored" in text_of(client.get(address(attempt)))
    quiet = an_attempt("2", ranks={str(rank): RankPlace(node="n") for rank in range(8)})
    a_log(quiet, 2)
    assert "is stored, though" not in text_of(client.get(address(quiet)))


def test_the_findings_of_the_standing_verdict_are_marked_on_their_lines(as_: Visitor) -> None:
    attempt = nvlink_attempt()
    verdict = a_verdict(attempt, nvlink_body())
    xid = nvlink_body()["causes"][0]["evidence"][0]
    add_observations(
        attempt.pk, [an_observation(1, source=Source.SYSLOG, ref=xid["ref"], body=xid["text"], node="gpu-017")]
    )
    html = as_("viewer").get(address(attempt)).content.decode()
    assert f'href="{reverse("verdicts:detail", args=[verdict.pk])}#f1"' in html
    assert "cause: An NVLink went down" in html


def test_hostile_lines_are_text(as_: Visitor) -> None:
    attempt = an_attempt()
    hostile = '<script>alert(1)</script>" onload="x\x1b[2J\u202eevil\x00'
    add_observations(
        attempt.pk,
        [an_observation(1, body=hostile, ref='"><img src=x>:1', node='"><b>', attributes={"frame": "<i>f</i>"})],
    )
    html = as_("viewer").get(address(attempt, "?order=time")).content.decode()
    for tag in ("<script>alert", "<img src=x", '"><b>', "<i>f", '" onload="x'):
        assert tag not in html
    assert '<span class="ctl">\\x1b</span>' in html
    assert '<span class="ctl">\\u202e</span>' in html


def test_a_very_long_line_is_cut_in_the_list_and_whole_by_itself(as_: Visitor) -> None:
    attempt = an_attempt()
    add_observations(attempt.pk, [an_observation(1, body="x" * 30_000 + "END")])
    client = as_("viewer")
    page = client.get(address(attempt))
    assert "END" not in page.content.decode()
    assert "All 30,003 characters" in text_of(page)
    line = attempt.observations.get()
    assert "END" in client.get(address(attempt, f"?line={line.pk}")).content.decode()


@pytest.mark.parametrize("query", ["?rank=x", "?rank=-1", "?nonsense=1", "?source=moon", "?order=size", "?node=%00"])
def test_an_address_that_cannot_be_understood_finds_nothing_and_says_so(as_: Visitor, query: str) -> None:
    attempt = an_attempt()
    a_log(attempt, 2)
    page = as_("viewer").get(address(attempt, query))
    assert page.status_code == 200
    assert "Nothing was looked for" in text_of(page)
    assert numbers(page) == []


def test_an_empty_log_and_an_empty_search_are_told_apart(as_: Visitor) -> None:
    attempt = an_attempt()
    client = as_("viewer")
    assert "No line is stored" in text_of(client.get(address(attempt)))
    a_log(attempt, 2)
    assert "No line matches" in text_of(client.get(address(attempt, "?text=nowhere")))


def test_nobody_reads_a_log_without_the_right(client: Client, as_: Visitor) -> None:
    attempt = an_attempt()
    assert client.get(address(attempt)).status_code == 302
    assert as_().get(address(attempt)).status_code == 403
    assert client.get("/attempts/6f1c2b4e-0000-4000-8000-000000000000/log/").status_code == 403


def test_the_log_keeps_its_budget(as_: Visitor, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    attempt = nvlink_attempt()
    a_verdict(attempt, nvlink_body())
    lines = a_log(attempt, 250)
    client = as_("viewer")
    for query in ("", f"?line={lines[100].pk}&node=gpu-01&text=line", f"?after={lines[100].pk}&order=time"):
        with django_assert_max_num_queries(BUDGET):
            client.get(address(attempt, query))


# --- The same over the API ----------------------------------------------------------------------


def test_the_api_has_the_same_filters_and_pages_by_key(client_of: Callable[..., APIClient]) -> None:
    attempt = an_attempt()
    a_log(attempt, 7, name="applog/a.log")
    a_log(attempt, 2, name="syslog/b.log", source=Source.SYSLOG)
    client = client_of("viewer")
    root = reverse("api-observations", args=[attempt.pk])
    assert client.get(root, {"source": "syslog"}).data["count"] == 2
    assert client.get(root, {"text": "LINE 7"}).data["results"][0]["ref"] == "applog/a.log:7"
    seen: list[str] = []
    after: dict[str, str] = {}
    while batch := client.get(root, {"order": "stream", "limit": "4"} | after).data["results"]:
        seen += [line["ref"] for line in batch]
        after = {"after": str(batch[-1]["id"])}
    assert seen == [*(f"applog/a.log:{n}" for n in range(1, 8)), "syslog/b.log:1", "syslog/b.log:2"]
    assert client.get(root, {"after": 10**17}).data["count"] == 0
    wrong: dict[str, str]
    for wrong in ({"order": "size"}, {"rank": "x"}, {"nonsense": "1"}, {"after": "x"}):
        assert client.get(root, wrong).status_code == 400
