"""Metrics: what counts as an event, which queries are sent, and what a bad answer leads to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from rules.attempt import Attempt, CollectorReport
from rules.observation import Observation
from rules.ruleset import load_ruleset
from rules.words import ReportStatus, Source
from tests.verdicts.collectors.raw_server import raw_server
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.labels import quoted
from verdicts.collectors.prometheus import Prometheus
from verdicts.collectors.prometheus_api import MAX_POINTS, Series
from verdicts.collectors.prometheus_changes import Changes, Kind
from verdicts.collectors.prometheus_look import Grid, pattern
from verdicts.collectors.server import Server
from verdicts.collectors.sink import Sink

catalogue = cache(load_ruleset)
BEGIN, END = 1_700_000_040, 1_700_003_640
XID, ECC, REMAP = "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ROW_REMAP_PENDING"
KINDS = {XID: Kind.EVENT, ECC: Kind.COUNTER, REMAP: Kind.STATE, "up": Kind.EVENT, "full": Kind.CONDITION}


def series(name: str, *points: tuple[float, object], gone: bool = False, **labels: str) -> Series:
    metric = {"inquest_metric": name, "gpu": "3", "UUID": "GPU-aa11", **labels}
    return Series(metric | ({"inquest_gone": "1"} if gone else {}), None, [(BEGIN + t, str(v)) for t, v in points])


def told(*given: Series, first: Sequence[Series] = (), node: str = "gpu-017") -> list[str]:
    """The lines made of series, each with its second of the window."""
    changes = Changes(KINDS, BEGIN, END, lambda _, __: 0)
    for one in first:
        changes.add(one, node, since_before=True)
    for one in given:
        changes.add(one, node)
    lines = sorted(changes.lines(), key=lambda line: line.at) + list(changes.silent())
    return [f"{line.at // 10**9 - BEGIN} {line.text}" for line in lines]


WHERE = '{UUID="GPU-aa11",gpu="3",Hostname="gpu-017"}'


class TestWhatIsSaid:
    def test_an_xid_from_before_the_window_is_no_event_in_it(self) -> None:
        assert told(first=[series(XID, (0, 79))]) == [f"0 before({XID}{WHERE}) 79"]

    def test_a_change_of_the_xid_is_an_event_at_its_time(self) -> None:
        lines = told(series(XID, (600, 79)), first=[series(XID, (0, 31))])
        assert lines == [f"0 before({XID}{WHERE}) 31", f"600 {XID}{WHERE} 79"]

    def test_a_label_that_repeats_the_xid_does_not_hide_its_change(self) -> None:
        lines = told(
            series(XID, (600, 79), err_code="79"),
            series(XID, (600, 0), err_code="0", gone=True),
            first=[series(XID, (0, 0), err_code="0")],
        )
        assert lines == [f"0 before({XID}{WHERE}) 0", f"600 {XID}{WHERE} 79"]

    def test_an_exporter_that_comes_back_with_the_same_xid_reports_nothing_new(self) -> None:
        lines = told(series(XID, (600, 79), gone=True), series(XID, (900, 79)), first=[series(XID, (0, 79))])
        assert lines == [f"0 before({XID}{WHERE}) 79"]

    def test_a_counter_says_by_how_much_it_grew(self) -> None:
        lines = told(series(ECC, (300, 4), (600, 9)), first=[series(ECC, (0, 4))])
        assert lines == [f"0 {ECC}{WHERE} 4", f"600 increase({ECC}{WHERE}) 5"]

    def test_a_counter_that_starts_again_has_not_grown(self) -> None:
        lines = told(series(ECC, (300, 0), (600, 1)), first=[series(ECC, (0, 4))])
        assert lines == [f"0 {ECC}{WHERE} 4", f"600 increase({ECC}{WHERE}) 1"]

    def test_a_counter_that_appears_has_not_grown(self) -> None:
        assert told(series(ECC, (300, 7))) == [f"300 {ECC}{WHERE} 7"]

    def test_growth_in_a_pause_of_the_samples_stands_at_its_end(self) -> None:
        lines = told(series(ECC, (300, 4), gone=True), series(ECC, (1500, 5)), first=[series(ECC, (0, 4))])
        assert lines[1:] == [f"1500 increase({ECC}{WHERE}) 1"]

    def test_two_scrapers_of_one_counter_are_one(self) -> None:
        lines = told(
            series(ECC, (300, 5), replica="a"),
            series(ECC, (315, 5), replica="b"),
            first=[series(ECC, (0, 4), replica="a"), series(ECC, (0, 4), replica="b")],
        )
        assert lines == [f"0 {ECC}{WHERE} 4", f"300 increase({ECC}{WHERE}) 1"]

    def test_a_state_that_never_moves_is_one_line(self) -> None:
        assert told(first=[series(REMAP, (0, 1))]) == [f"0 {REMAP}{WHERE} 1"]

    def test_a_state_that_flaps_is_said_a_few_times_and_a_rare_value_is_not_lost(self) -> None:
        points = [(15 * n, 64 if n == 100 else n % 2 * 4) for n in range(200)]
        lines = told(series(REMAP, *points))
        assert sum(line.endswith("} 4") for line in lines) == sum(line.endswith("} 0") for line in lines) == 12
        assert f"1500 {REMAP}{WHERE} 64" in lines and lines[-1].startswith("2985 ")

    def test_a_counter_that_grows_all_the_time_loses_nothing_of_its_sum(self) -> None:
        lines = told(series(ECC, *((15 * n, 3 * n) for n in range(100))))
        assert sum(int(line.split()[-1]) for line in lines[1:]) == 3 * 99
        assert len(lines) == 14 and lines[-1].startswith("1485 increase(")

    def test_a_condition_is_said_once_when_it_first_held(self) -> None:
        assert told(series("full", (300, 0.02), (360, 0.01), (900, 0))) == [f"300 full{WHERE} 0.02"]

    def test_values_that_are_no_numbers_are_passed_over(self) -> None:
        assert told(series(REMAP, (0, "NaN"), (15, "+Inf"), (30, "abc"), (45, "1e3"))) == [
            f"15 {REMAP}{WHERE} +Inf",
            f"45 {REMAP}{WHERE} 1000",
        ]

    def test_a_gpu_of_which_everything_stops_is_silent_while_its_node_goes_on(self) -> None:
        lines = told(
            series(XID, (600, 0), gone=True),
            series(ECC, (615, 0), gone=True),
            first=[series(XID, (0, 0)), series(ECC, (0, 0)), series(ECC, (0, 0), gpu="0", UUID="GPU-bb22")],
        )
        assert lines[-1] == f"615 silent{WHERE} 1"
        assert sum("silent" in line for line in lines) == 1

    def test_a_node_of_which_everything_stops_is_silent_once(self) -> None:
        lines = told(series(XID, (600, 0), gone=True), first=[series(XID, (0, 0))])
        assert lines[-1] == '600 silent{Hostname="gpu-017"} 1'

    def test_a_series_that_ends_with_the_window_may_only_have_missed_a_sample(self) -> None:
        lines = told(series(XID, (3540, 0), gone=True), first=[series(XID, (0, 0))])
        assert not any("silent" in line for line in lines)

    @given(st.text(max_size=300), st.text(max_size=300))
    def test_a_label_cannot_forge_a_line(self, value: str, other: str) -> None:
        (line,) = told(first=[series(REMAP, (0, 0), mountpoint=value, path=other)])
        assert "\n" not in line and line.count("{") == line.count("}") == 1
        assert line.endswith("} 0")
        assert line.count('"') == 2 * 5


class TestTheGrid:
    @given(
        st.integers(0, 4_000_000_000),
        st.floats(0, 400 * 86_400, allow_nan=False),
        st.integers(1, 300),
    )
    def test_no_answer_has_too_many_points_and_no_step_is_left_out(self, begin: int, span: float, step: int) -> None:
        grid = Grid.of(begin, begin + span, step)
        reached = grid.begin
        for first, last, every in grid.ranges():
            assert first == reached + every
            assert (last - first) % every == 0 and first % every == 0
            assert (last - first) // every < MAX_POINTS
            reached = last
        assert grid.begin <= begin and reached == grid.end >= begin + span

    def test_the_end_is_looked_at_closely(self) -> None:
        assert list(Grid.of(0, 86_400, 15).ranges()) == [(60, 79_200, 60), (79_215, 86_400, 15)]


class TestNames:
    @pytest.mark.parametrize(
        "value", ["gpu-017", "GPU-017:9100", "gpu-017.cluster.example", "gpu-017.cluster.example:9100"]
    )
    def test_a_label_may_have_a_port_and_a_domain(self, value: str) -> None:
        assert re.fullmatch(pattern(["gpu-018.cluster.example", "gpu-017"]), value)

    @pytest.mark.parametrize("value", ["gpu-0170", "gpu-01", "", "xgpu-017", ":9100"])
    def test_another_name_means_nobody(self, value: str) -> None:
        assert not re.fullmatch(pattern(["gpu-017"]), value)

    def test_a_hostile_name_stays_inside_its_string(self, httpserver: HTTPServer) -> None:
        name = 'a"} or up{x="|*\n'
        asked = serve(httpserver, lambda *_: answer([]))
        collect(httpserver, (name,))
        assert asked and all(query.count(quoted(pattern([name]))) == 1 for query in asked)
        assert not any("or up" in query.replace(quoted(pattern([name])), "") or "\n" in query for query in asked)


# Against a server that answers what it is told to.


def answer(result: list[dict[str, Any]], **more: Any) -> Response:
    kind = "matrix" if any("values" in one for one in result) else "vector"
    body = {"status": "success", "data": {"resultType": kind, "result": result}, **more}
    return Response(json.dumps(body), content_type="application/json")


def sample(node: str, value: object = 0, name: str = XID) -> dict[str, Any]:
    metric = {"__name__": name, "gpu": "3", "UUID": "GPU-aa11", "instance": f"{node}:9400"}
    return {"metric": metric, "value": [BEGIN, str(value)]}


def moved(node: str, *points: tuple[int, object], name: str = XID) -> dict[str, Any]:
    """A series at every step: 0, or what the last of the points says; None is no sample."""
    values, now, left = [], "0", list(points)
    for at in range(15, END - BEGIN + 1, 15):
        while left and left[0][0] <= at:
            now = left.pop(0)[1]
        if now is not None:
            values.append([BEGIN + at, str(now)])
    return {"metric": sample(node, name=name)["metric"], "values": values}


def serve(httpserver: HTTPServer, reply: Callable[[str, Request], Response]) -> list[str]:
    """Answer every query by what `reply` makes of its kind: first, changes, holding or fresh. The queries asked.

    What moved at all is what `changes` has.
    """
    asked: list[str] = []

    def handler(request: Request) -> Response:
        query = request.form["query"]
        asked.append(query)
        if query == "max(timestamp(up))":
            return reply("fresh", request)
        if " unless " in query:
            given = reply("changes", request)
            if given.status_code != 200:
                return given
            return answer([as_moved(one) for one in json.loads(given.data)["data"]["result"]])
        if request.path.endswith("query"):
            return reply("first", request)
        return reply("changes" if query.startswith("{") else "holding", request)

    httpserver.expect_request("/api/v1/query").respond_with_handler(handler)
    httpserver.expect_request("/api/v1/query_range").respond_with_handler(handler)
    return asked


def as_moved(series: dict[str, Any]) -> dict[str, Any]:
    labels = {name: value for name, value in series["metric"].items() if name != "__name__"}
    return {"metric": labels | {"inquest_metric": series["metric"]["__name__"]}, "value": [END, "1"]}


def collect(
    httpserver: HTTPServer, nodes: tuple[str, ...] = ("gpu-017",), **more: Any
) -> tuple[list[str], CollectorReport]:
    observations, report = observed(httpserver, nodes, **more)
    return [f"{one.node} {one.body}" for one in observations], report


def observed(
    httpserver: HTTPServer, nodes: tuple[str, ...] = ("gpu-017",), seconds: float = 20, **more: Any
) -> tuple[list[Observation], CollectorReport]:
    ruleset = catalogue()
    begin, end = (datetime.fromtimestamp(at, UTC) for at in (BEGIN, END))
    attempt = Attempt(job_id="123_4", nodes=list(nodes))
    ask = Ask("a", attempt, begin, end, nodes, Budget.of(seconds=seconds, megabytes=1), ruleset)
    source = Prometheus(**{"name": "dcgm", "source": Source.GPU_EVENTS, "server": at(httpserver), **more})
    source.check()
    sink = Sink(collector="dcgm", source=Source.GPU_EVENTS, ruleset=ruleset)
    error = None
    try:
        source.collect(ask, sink)
    except SourceError as raised:
        error = raised
    return sink.close(error)


def at(httpserver: HTTPServer) -> Server:
    return Server(url=httpserver.url_for("").rstrip("/"))


def test_an_event_becomes_an_observation_at_its_node(httpserver: HTTPServer) -> None:
    replies = {"first": [sample("gpu-017")], "changes": [moved("gpu-017", (600, 79))]}
    serve(httpserver, lambda kind, _: answer(replies.get(kind, [])))
    lines, report = collect(httpserver)
    assert lines == [f"gpu-017 {XID}{WHERE} 79"]
    assert (report.status, report.read) == (ReportStatus.OK, 2)


def test_what_is_seen_at_a_step_may_have_happened_since_the_one_before(httpserver: HTTPServer) -> None:
    replies = {"first": [sample("gpu-017")], "changes": [moved("gpu-017", (600, 79))]}
    serve(httpserver, lambda kind, _: answer(replies.get(kind, [])))
    observations, _ = observed(httpserver)
    (found,) = observations
    assert found.timestamp == datetime.fromtimestamp(BEGIN + 600 - 45, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")
    assert found.attributes == {"within": 45}


def test_labels_are_tried_until_every_node_is_found(httpserver: HTTPServer) -> None:
    def reply(kind: str, request: Request) -> Response:
        node = {"metric": {"__name__": XID, "inquest_metric": XID, "Hostname": "gpu-018"}, "value": [BEGIN, "0"]}
        if kind != "first":
            return answer([])
        return answer([sample("gpu-017")] if "instance=~" in request.form["query"] else [node])

    asked = serve(httpserver, reply)
    _, report = collect(httpserver, ("gpu-017", "gpu-018"))
    assert (report.status, report.read) == (ReportStatus.OK, 2)
    (second,) = [query for query in asked if query.startswith("{") and "Hostname=~" in query]
    assert "gpu-018" in second and "gpu-017" not in second


def test_a_node_without_samples_is_said(httpserver: HTTPServer) -> None:
    serve(httpserver, lambda kind, _: answer([sample("gpu-017")] if kind == "first" else []))
    _, report = collect(httpserver, ("gpu-017", "gpu-018"))
    assert report.status is ReportStatus.PARTIAL
    assert report.reason == "no samples of 1 of 2 nodes: gpu-018"


def test_labels_that_hold_no_node_leave_the_source_empty_and_say_what_was_looked_for(httpserver: HTTPServer) -> None:
    serve(httpserver, lambda *_: answer([]))
    _, report = collect(httpserver)
    assert report.status is ReportStatus.EMPTY
    assert "no label instance, Hostname" in report.reason and "gpu-017" in report.reason


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"isPartial": True}, "the store says that its answer is partial"),
        (
            {"warnings": ["No StoreAPIs matched\nfor this query"]},
            "the store warns: No StoreAPIs matched for this query",
        ),
    ],
)
def test_an_answer_that_admits_a_gap_is_partial(httpserver: HTTPServer, more: dict[str, Any], said: str) -> None:
    serve(httpserver, lambda kind, _: answer([sample("gpu-017")] if kind == "first" else [], **more))
    _, report = collect(httpserver)
    assert report.status is ReportStatus.PARTIAL
    assert said in report.reason


def test_what_a_server_only_notes_is_no_gap(httpserver: HTTPServer) -> None:
    serve(httpserver, lambda kind, _: answer([sample("gpu-017")] if kind == "first" else [], infos=["not a counter"]))
    _, report = collect(httpserver)
    assert (report.status, report.reason) == (ReportStatus.OK, "the store notes: not a counter")


def test_a_query_that_is_too_much_is_asked_in_halves(httpserver: HTTPServer) -> None:
    def reply(kind: str, request: Request) -> Response:
        query = request.form["query"]
        if kind == "changes" and "gpu-017" in query and "gpu-018" in query:
            return Response('{"status":"error","errorType":"execution","error":"too many samples"}', 422)
        if kind == "changes":
            return answer([moved("gpu-018", (600, 79))] if "gpu-018" in query else [])
        return answer([sample("gpu-017"), sample("gpu-018")] if kind == "first" else [])

    serve(httpserver, reply)
    lines, report = collect(httpserver, ("gpu-017", "gpu-018"))
    assert report.status is ReportStatus.OK
    assert lines == [f"gpu-018 {XID}{WHERE.replace('gpu-017', 'gpu-018')} 79"]


def test_a_query_that_is_too_much_for_one_node_is_a_gap_and_the_others_stay(httpserver: HTTPServer) -> None:
    def reply(kind: str, request: Request) -> Response:
        if kind == "changes" and "gpu-017" in request.form["query"]:
            return Response('{"status":"error","errorType":"execution","error":"too many samples"}', 422)
        found = [sample("gpu-017"), sample("gpu-018")] if kind == "first" else []
        return answer([moved("gpu-018", (600, 79))] if kind == "changes" else found)

    serve(httpserver, reply)
    lines, report = collect(httpserver, ("gpu-017", "gpu-018"))
    assert report.status is ReportStatus.PARTIAL
    assert "gpu-017: " in report.reason and "HTTP 422" in report.reason and "too many samples" in report.reason
    assert len(lines) == 1 and lines[0].startswith("gpu-018")


def test_a_query_that_is_wrong_is_not_asked_again_and_again(httpserver: HTTPServer) -> None:
    def reply(kind: str, _: Request) -> Response:
        if kind == "changes":
            return Response('{"status":"error","errorType":"bad_data","error":"parse error: unexpected <eof>"}', 400)
        return answer([sample("gpu-017"), sample("gpu-018")] if kind == "first" else [])

    asked = serve(httpserver, reply)
    _, report = collect(httpserver, ("gpu-017", "gpu-018"))
    assert report.status is ReportStatus.PARTIAL and "parse error" in report.reason
    assert len(asked) == 2


def test_no_query_is_longer_than_a_store_takes(httpserver: HTTPServer) -> None:
    nodes = tuple(f"rack7-gpu-{n:04d}.cluster.example" for n in range(300))

    def reply(kind: str, request: Request) -> Response:
        named = [node for node in nodes if node.partition(".")[0] in request.form["query"]]
        return answer([sample(node) for node in named] if kind == "first" else [])

    asked = serve(httpserver, reply)
    _, report = collect(httpserver, nodes)
    assert (report.status, report.read) == (ReportStatus.OK, 300)
    assert max(map(len, asked)) < 16_384


def test_a_condition_that_cannot_be_evaluated_does_not_stop_the_others(httpserver: HTTPServer) -> None:
    def reply(kind: str, request: Request) -> Response:
        if kind == "holding" and "bad{" in request.form["query"]:
            return Response('{"status":"error","errorType":"execution","error":"many-to-many"}', 422)
        hot = {"metric": {"inquest_metric": "gpu_hot", "instance": "gpu-017"}, "values": [[BEGIN, "91"]]}
        return answer({"first": [sample("gpu-017")], "holding": [hot]}.get(kind, []))

    serve(httpserver, reply)
    _, report = collect(httpserver, conditions={"gpu_hot": "temp{$nodes} > 90", "worse": "bad{$nodes} > 1"})
    assert report.status is ReportStatus.PARTIAL
    assert "condition worse" in report.reason and report.read == 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"status":"success","data":{"resultType":"vector","resu', "the answer is not what was expected"),
        (b'{"status":"error","errorType":"bad_data","error":"parse error"}', "bad_data: parse error"),
        (b'{"status":"success"}', "an answer without data"),
        (b"<html>login</html>", "login"),
        (b'{"status":"success","data":{"result":[{"metric":{"a":1},"value":[1,"2"]}]}}', "not what was expected"),
        (b"[" * 100_000, "not what was expected"),
    ],
)
def test_an_answer_that_is_none_is_an_error_with_the_reason(httpserver: HTTPServer, body: bytes, said: str) -> None:
    serve(httpserver, lambda *_: Response(body, content_type="application/json"))
    _, report = collect(httpserver)
    assert report.status is ReportStatus.ERROR
    assert said in report.reason


def test_what_came_before_a_later_query_failed_is_kept(httpserver: HTTPServer) -> None:
    def reply(kind: str, _: Request) -> Response:
        if kind == "changes":
            return Response("no", 403)
        return answer([sample("gpu-017", 3, name=ECC)] if kind == "first" else [])

    serve(httpserver, reply)
    lines, report = collect(httpserver)
    assert report.status is ReportStatus.PARTIAL and "HTTP 403" in report.reason
    assert lines == [f"gpu-017 {ECC}{WHERE} 3"]


def test_a_flood_of_states_ends_with_the_budget_and_the_events_were_first(httpserver: HTTPServer) -> None:
    def reply(kind: str, request: Request) -> Response:
        if kind != "changes":
            return answer([sample("gpu-017"), sample("gpu-017", name=REMAP)] if kind == "first" else [])
        query = request.form["query"]
        event, states = [moved("gpu-017", (600, 79))], [moved("gpu-017", (900, 1), name=REMAP)] * 400
        return answer([*event, states[0]] if " unless " in query else event if XID in query else states)

    serve(httpserver, reply)
    lines, report = collect(httpserver)
    assert report.status is ReportStatus.PARTIAL and "more than 1 MiB" in report.reason
    assert lines == [f"gpu-017 {XID}{WHERE} 79"]


def test_a_server_that_hangs_ends_with_the_budget() -> None:
    catalogue()
    with raw_server(lambda _, __: raw.over.wait(20)) as raw:
        ruleset = catalogue()
        budget = Budget.of(seconds=0.3, megabytes=1)
        begin, end = (datetime.fromtimestamp(at, UTC) for at in (BEGIN, END))
        ask = Ask("a", Attempt(job_id="1"), begin, end, ("gpu-017",), budget, ruleset)
        sink = Sink(collector="dcgm", source=Source.GPU_EVENTS, ruleset=ruleset)
        with pytest.raises(SourceError) as raised:
            Prometheus(name="dcgm", source=Source.GPU_EVENTS, server=raw.server()).collect(ask, sink)
        _, report = sink.close(raised.value)
    assert report.status is ReportStatus.ERROR and "no answer within" in report.reason


def test_histograms_are_passed_over(httpserver: HTTPServer) -> None:
    histogram = {"metric": sample("gpu-017", name=ECC)["metric"], "histograms": [[BEGIN, {"count": "1", "sum": "2"}]]}
    serve(httpserver, lambda kind, _: answer([sample("gpu-017")] if kind == "first" else [histogram]))
    _, report = collect(httpserver)
    assert (report.status, report.read) == (ReportStatus.OK, 1)


def test_silence_at_the_end_is_not_believed_of_a_store_that_lags(httpserver: HTTPServer) -> None:
    gone = moved("gpu-017", (600, None))
    old = {"metric": {}, "value": [END, str(END - 900)]}
    replies = {"first": [sample("gpu-017")], "changes": [gone], "fresh": [old]}
    serve(httpserver, lambda kind, _: answer(replies.get(kind, [])))
    _, report = collect(httpserver)
    assert report.read == 1
    assert report.status is ReportStatus.PARTIAL and "the store has no samples of the attempt's end" in report.reason


def test_a_job_label_finds_the_series_of_the_job(httpserver: HTTPServer) -> None:
    asked = serve(httpserver, lambda kind, _: answer([moved("gpu-017", (600, 79))] if kind == "changes" else []))
    lines, _ = collect(httpserver, job_label="hpc_job", matchers='cluster="a"')
    assert lines == [f"gpu-017 {XID}{WHERE} 79"]
    assert len(asked) == 3 and all('hpc_job="123_4",cluster="a"' in query for query in asked)


def test_the_sites_own_names_take_the_place_of_defaults(httpserver: HTTPServer) -> None:
    asked = serve(httpserver, lambda *_: answer([]))
    collect(httpserver, defaults=False, states=["my_state"], counters=["my_total"])
    assert all('__name__=~"my_state|my_total"' in query for query in asked)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"conditions": {"x": "up == 0"}}, "conditions.x"),
        ({"matchers": 'a="b"} or up{c="d"'}, "matchers"),
        ({"job_label": "a b"}, "job_label"),
        ({"source": Source.PROGRESS}, "states"),
    ],
)
def test_settings_that_cannot_work_name_their_key(more: dict[str, Any], said: str) -> None:
    source = Prometheus(**{"name": "m", "source": Source.GPU_EVENTS, "server": Server(url="http://h"), **more})
    with pytest.raises(ValueError, match=said):
        source.check()


def test_a_probe_says_what_is_there_and_what_is_not(httpserver: HTTPServer) -> None:
    def reply(request: Request) -> Response:
        query = request.form["query"]
        if query == "vector(time())":
            return answer([{"metric": {}, "value": [END + 10.5, str(END + 10.5)]}])
        if "by (__name__)" in query:
            return answer([{"metric": {"__name__": XID}, "value": [END, "2"]}])
        if "by (Hostname)" in query:
            return answer([{"metric": {"Hostname": "gpu-017"}, "value": [END, "2"]}])
        if "count_over_time" in query:
            return answer([{"metric": {}, "value": [END, "20"]}])
        if "timestamp" in query:
            return answer([{"metric": {}, "value": [END, str(END - 8)]}])
        return answer([])

    httpserver.expect_request("/api/v1/query").respond_with_handler(reply)
    httpserver.expect_request("/api/v1/status/buildinfo").respond_with_json({"data": {"version": "2.42.0"}})
    source = Prometheus(name="m", source=Source.GPU_EVENTS, server=at(httpserver))
    found = source.probe(["gpu-017", "gpu-018"], Budget.of(seconds=10, megabytes=1))
    assert found.version == "2.42.0" and found.nodes == {"gpu-017"}
    assert found.newest == datetime.fromtimestamp(END - 8, UTC)
    assert found.server_time == datetime.fromtimestamp(END + 10.5, UTC)
    assert any(note.startswith(f"no series of {REMAP[:20]}") for note in found.notes)
    assert "label Hostname holds nodes' names" in found.notes and "sampled about every 30 s" in found.notes
