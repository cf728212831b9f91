"""The timeline: lanes, bands as the engine reckons them, no order where the clocks give none, a table that is equal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from rules.observation import Observation
from rules.ruleset import Ruleset, Site
from rules.words import Source
from tests.verdicts.builders import a_ruleset, an_observation
from tests.verdicts.incidents import HOSTILE, body_of, many_ranks, shipped
from tests.verdicts.page_bodies import a_verdict, ambiguous_body, body, evidence, finding, nvlink_attempt, nvlink_body
from tests.verdicts.seen import text_of
from verdicts.models import Verdict
from verdicts.record import add_observations, record_attempt
from verdicts.verdict_page.timeline import FABRIC, PEOPLE, SCHEDULER, Deed, Mark, Timeline, timeline
from verdicts.verdict_page.timeline_chart import figure, view_steps

Visitor = Callable[..., Client]
AT = "2026-11-03T02:11:04+00:00"


def line_of(given: dict[str, Any], **more: Any) -> Timeline:
    return timeline(given, more.pop("ruleset", None) or a_ruleset(), **more)


def a_mark(line: Timeline, title: str) -> Mark:
    return next(mark for mark in line.marks if mark.title == title)


def found(identity: str, time: str | None, *, source: str = "syslog", **more: Any) -> dict[str, Any]:
    """A finding with one line."""
    line = evidence(f"text {identity}", f"{source}/a.log:{identity[1:]}", time=time, **more.pop("line", {}))
    return finding(identity, "a.b", f"Title {identity}", evidence=[line], **more)


# --- Lanes ---------------------------------------------------------------------------------------


def test_scheduler_nodes_with_their_gpus_fabric_ranks_and_people_have_lanes_in_that_order() -> None:
    given = body(
        attempt={"job_id": "1", "end": "2026-11-03T02:12:00+00:00"},
        affected_nodes=[{"name": "n1", "gpus": ["0000:65:00"], "ranks": [], "links": []}],
        causes=[found("f1", AT, locus={"node": "n1", "gpu": "0000:65:00"})],
        demoted=[
            found("f2", AT, source="applog", ranks=[1, 2, 3]),
            found("f3", AT, source="network_metrics", locus={"switch": "s7"}),
            found("f4", AT, locus={"node": "n9"}),
        ],
    )
    line = line_of(given, deeds=[Deed(at=AT, title="rita: right")])
    assert line.lanes == [
        SCHEDULER,
        "Node n1, GPU 0000:65:00",
        f"{FABRIC}, switch s7",
        "Ranks: Title f2",
        "Other nodes: Title f4",
        PEOPLE,
    ]


def test_a_thousand_ranks_are_one_mark_of_their_message() -> None:
    line = line_of(body_of(*many_ranks()), ruleset=shipped())
    ranks = [mark for mark in line.marks if mark.lane.startswith("Ranks")]
    assert [mark.detail for mark in ranks] == ["999 lines, 125 places, first ranks 0–16, 18–64"]
    assert ranks[0].last == "2026-11-03T02:21:25.999000+00:00"
    assert ranks[0].versus == "602.0 s after it"
    assert len(line.lanes) < 6
    drawn = figure(line)
    assert drawn is not None
    assert sum(len(trace["x"]) for trace in drawn["data"]) < 60


def test_many_messages_and_many_nodes_share_lanes() -> None:
    given = body(
        causes=[found(f"f{n}", AT, locus={"node": f"n{n:02}"}) for n in range(1, 21)],
        demoted=[found(f"f{n}", AT, source="applog") for n in range(21, 61)],
    )
    line = line_of(given)
    assert "Other implicated nodes" in line.lanes
    assert "Ranks: other messages" in line.lanes
    assert len(line.lanes) == 8 + 1 + 8 + 1


# --- Time ----------------------------------------------------------------------------------------


def test_a_band_is_the_clock_bound_of_its_source_and_the_attempt_may_say_another() -> None:
    given = body(causes=[found("f1", "2026-11-03T02:11:04.500000+00:00", source="scheduler")])
    assert a_mark(line_of(given), "Title f1").within == "± 5 s"
    given["attempt"]["clock_bounds"] = {"scheduler": 0.25}
    assert a_mark(line_of(given), "Title f1").within == "± 0.25 s"


def test_a_site_may_trust_its_clocks_otherwise() -> None:
    ruleset = Ruleset(rules=(), digest="ab" * 32, site=Site(clock_bounds={Source.SYSLOG: 0.1}))
    given = body(causes=[found("f1", "2026-11-03T02:11:04.500000+00:00")])
    assert a_mark(line_of(given, ruleset=ruleset), "Title f1").within == "± 0.1 s"


def test_a_line_without_a_time_of_its_own_may_be_a_minute_later() -> None:
    given = body(causes=[found("f1", "2026-11-03T02:11:04.500000+00:00", line={"after": True})])
    assert a_mark(line_of(given), "Title f1").within == "− 1 s, + 61 s"


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("2026-11-03T02:11:10+00:00", "6.0 s after it"),
        ("2026-11-03T02:10:58+00:00", "6.0 s before it"),
        ("2026-11-03T02:11:05+00:00", "order not known: within the clocks' doubt"),
        ("2026-11-03T03:11:05+01:00", "order not known: within the clocks' doubt"),
        ("2026-11-03T02:11:30", "order not known: another clock"),
        ("boot:17.5", "order not known: another clock"),
        (None, ""),
    ],
)
def test_what_is_said_against_the_first_cause_is_what_the_clocks_allow(second: str | None, said: str) -> None:
    given = body(causes=[found("f1", AT)], demoted=[found("f2", second)])
    line = line_of(given)
    assert a_mark(line, "Title f1").versus == "the first cause"
    assert a_mark(line, "Title f2").versus == said


def test_what_cannot_be_drawn_is_in_the_table_and_counted() -> None:
    given = body(
        causes=[found("f1", AT)],
        demoted=[found("f2", None), found("f3", "boot:17.5"), found("f4", "2026-11-03T02:11:30")],
    )
    line = line_of(given)
    assert line.beside == 3
    assert len(line.marks) == 4
    assert [mark.title for mark in line.drawn] == ["Title f1"]


def test_logs_without_any_offset_have_an_axis_of_their_own_time() -> None:
    line = line_of(body(causes=[found("f1", "2026-11-03T02:11:04")], demoted=[found("f2", "2026-11-03T02:11:30")]))
    drawn = figure(line)
    assert drawn is not None
    assert "without an offset" in drawn["layout"]["xaxis"]["title"]["text"]


def test_the_first_view_is_the_failure_and_what_people_did_days_later_is_one_click_away() -> None:
    given = nvlink_body()
    given["attempt"] |= {"start": "2026-11-02T19:04:11+00:00", "end": "2026-11-03T02:12:40+00:00"}
    line = line_of(given, deeds=[Deed(at="2026-11-09T08:00:00+00:00", title="rita: right")])
    assert [name for name, _ in view_steps(line)] == ["The failure", "The attempt", "Everything"]
    (_, failure), (_, attempt), (_, everything) = view_steps(line)
    assert failure["xaxis.range"][0].startswith("2026-11-03 02:10")
    assert attempt["xaxis.range"][0] < "2026-11-02 19"
    assert everything["xaxis.range"][1] > "2026-11-09 08"


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59.999999+00:00"])
def test_the_ends_of_the_calendar_are_drawn(time: str) -> None:
    assert figure(line_of(body(causes=[found("f1", time)]))) is not None


def test_a_verdict_without_any_time_has_a_table_and_no_chart() -> None:
    assert figure(line_of(body(causes=[found("f1", None)]))) is None


def test_hostile_text_is_no_markup_in_a_figure() -> None:
    given = body(causes=[found("f1", AT, locus={"node": HOSTILE, "gpu": "<b>g</b>"}) | {"title": HOSTILE}])
    text = json.dumps(figure(line_of(given, deeds=[Deed(at=AT, title=HOSTILE)])), ensure_ascii=False)
    assert "<img" not in text
    assert "<b>" not in text
    assert "\u202e" not in text
    assert "&lt;img src=x" in text


# --- On the page ---------------------------------------------------------------------------------

pages = pytest.mark.django_db


@pages
@pytest.mark.parametrize("given", [nvlink_body, ambiguous_body])
def test_the_table_has_what_the_chart_has(as_: Visitor, given: Callable[..., dict[str, Any]]) -> None:
    verdict = a_verdict(nvlink_attempt(), given())
    html = as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk])).content.decode()
    source = re.search(r'<script id="timeline-figure" type="application/json">(.*?)</script>', html)
    assert source is not None
    drawn = json.loads(source[1])
    hovers = [text for trace in drawn["data"] for text in trace.get("hovertext", ())]
    assert hovers
    table = html[html.index('<details class="fold timeline-table"') :]
    table = table[: table.index("</details>")]
    for hover in hovers:
        title = hover.split("<br>")[0].partition(": ")[2]
        assert title.replace("'", "&#x27;") in table
    for part in ("causes", "candidates", "demoted", "interesting"):
        for one in given()[part]:
            assert f'href="#{one["id"]}"' in table


@pages
def test_a_mark_says_when_its_line_was_read_and_leads_to_it(as_: Visitor) -> None:
    attempt = nvlink_attempt()
    verdict = a_verdict(attempt, nvlink_body())
    xid = nvlink_body()["causes"][0]["evidence"][0]
    read = "2026-11-03T02:40:00+00:00"
    add_observations(
        attempt.pk,
        [an_observation(1, source=Source.SYSLOG, ref=xid["ref"], body=xid["text"], observed_timestamp=read)],
    )
    page = as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk]))
    assert "2026-11-03 02:40:00" in text_of(page)
    assert reverse("verdicts:log", args=[attempt.pk]) + "?ref=syslog%2Fgpu-017.log%3A1204" in page.content.decode()
    assert "Read by a collector" in page.content.decode()


@pages
def test_a_huge_verdict_has_a_page_of_bounded_size(as_: Visitor) -> None:
    given, said, reports = many_ranks()
    # Each node prints a message of its own kind too, so that nothing folds them into one finding.
    noise = [
        Observation(
            source=Source.SYSLOG,
            body=f"Nov  3 02:1{n % 10}:0{n % 7} {node} kernel: [412337.1] NVRM: Xid (PCI:0000:{n % 90 + 10}:00): 79, "
            "GPU has fallen off the bus.",
            ref=f"syslog/{node}.log:{n}",
            node=node,
            timestamp=f"2026-11-03T02:1{n % 10}:0{n % 7}+00:00",
        )
        for n, node in enumerate(given.nodes)
    ]
    attempt, _ = record_attempt(given)
    verdict = a_verdict(attempt, body_of(given, said + noise, reports))
    page = as_("viewer").get(reverse("verdicts:detail", args=[verdict.pk]))
    assert page.status_code == 200
    assert len(page.content) < 900_000
    assert Verdict.objects.count() == 1
