"""Loki by its documented interface: the program itself cannot be had where these tests run.

The wire format is that of https://grafana.com/docs/loki/latest/reference/loki-http-api/#query-logs-within-a-range-of-time
(limit, start included, end not, direction; streams with values), label values and build information from the same
page, the errors of https://grafana.com/docs/loki/latest/operations/troubleshooting/troubleshoot-query/ , and the
strings and matchers of https://grafana.com/docs/loki/latest/query/log_queries/ .
"""

import json
import re
import socket
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote_plus

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.words import ReportStatus, Source
from tests.verdicts.collectors.fake_stores import FakeLoki
from tests.verdicts.collectors.raw_server import ok, raw_server, status
from tests.verdicts.collectors.recorder import (
    BEGIN,
    NANOS,
    SECOND,
    XID,
    Recorder,
    an_ask,
    collected,
    entries,
    the_ruleset,
)
from verdicts.collectors import http
from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.http import Server
from verdicts.collectors.labels import quoted
from verdicts.collectors.loki import Loki
from verdicts.collectors.loki_pages import Answer, Pages
from verdicts.collectors.stores import HOUR, nanoseconds


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.time, "sleep", lambda _: None)


def a_loki(url: str, **given: Any) -> Loki:
    given.setdefault("node_label", "node")
    loki = Loki(name="loki", source=given.pop("source", Source.SYSLOG), server=Server(url=url), **given)
    loki.check()
    return loki


def queries(loki: FakeLoki) -> list[str]:
    return [params["query"] for path, params in loki.requests if path.endswith("/query_range")]


def answer(*streams: dict[str, Any]) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": list(streams)}}).encode()


# --- what is read ---------------------------------------------------------------------------------------------------


def test_the_lines_of_the_attempts_nodes_are_read() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, entries(["one", XID]))
        store.add({"node": "gpu-02"}, entries(["two"]))
        store.add({"node": "gpu-03"}, entries(["another job's"]))
        out, report = collected(a_loki(store.url))
    assert out.lines_of("gpu-01") == ["one", XID]
    assert out.lines_of("gpu-02") == ["two"]
    assert (report.status, report.read, report.reason) == (ReportStatus.OK, 3, "")
    assert (report.first, report.last) == ("2026-11-30T10:00:00.000000+00:00", "2026-11-30T10:00:01.000000+00:00")


def test_a_line_without_a_time_has_the_stores() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, [(NANOS + 123_456_789, XID)])
        out, _ = collected(a_loki(store.url), an_ask(["gpu-01"]))
        (seen,) = [seen for seen in out.stream("", node="gpu-01").observations() if "Xid" in seen.body]
    assert seen.timestamp == "2026-11-30T10:00:00.123456+00:00"
    assert seen.node == "gpu-01"


def test_only_the_attempts_window_is_asked_for() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, [(NANOS - 1, "before"), (NANOS, "first"), (NANOS + 1800 * SECOND, "after")])
        out, _ = collected(a_loki(store.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["first"]


def test_names_with_a_domain_and_in_capitals_are_the_same_nodes() -> None:
    with FakeLoki() as store:
        store.add({"node": "GPU-01.cluster.local"}, entries(["one"]))
        store.add({"node": "gpu-02"}, entries(["two"]))
        store.add({"node": "gpu-011"}, entries(["another node's"]))
        store.add({"node": "gpu-02.other.example"}, entries(["another machine's"]))
        out, report = collected(a_loki(store.url), an_ask(["gpu-01", "gpu-02.cluster.local"]))
    assert out.lines_of("gpu-01") == ["one"]
    assert out.lines_of("gpu-02.cluster.local") == ["two"]
    assert report.read == 2


def test_lines_are_asked_for_by_job_where_they_carry_it() -> None:
    with FakeLoki() as store:
        store.add({"job": "4711", "node": "gpu-01", "rank": "3"}, entries(["one"]))
        store.add({"job": "4712", "node": "gpu-01"}, entries(["another's"]))
        out, _ = collected(a_loki(store.url, job_label="job", rank_label="rank", source=Source.APPLOG))
    assert queries(store) == ['{job="4711"}']
    assert list(out.fed) == [("", "gpu-01", 3)]


def test_a_kubernetes_job_is_asked_for_by_its_name_and_namespace() -> None:
    with FakeLoki() as store:
        given = {"job_label": "pod", "job_value": "{name}-worker-[0-9]+", "namespace_label": "namespace"}
        store.add({"pod": "llama.7b-worker-0", "namespace": "ml"}, entries(["one"]))
        store.add({"pod": "llamax7b-worker-0", "namespace": "ml"}, entries(["another's"]))
        loki = a_loki(store.url, pod_label="pod", **given)
        out, _ = collected(loki, an_ask(job_id="ml/pytorchjob/llama.7b@1f0c9a3e"))
    assert queries(store) == ['{pod=~"llama\\\\.7b-worker-[0-9]+", namespace="ml"}']
    assert list(out.fed) == [("llama.7b-worker-0", "", None)]


def test_all_that_is_selected_can_be_the_attempts() -> None:
    with FakeLoki() as store:
        store.add({"app": "opensm"}, entries(["one"]))
        out, _ = collected(a_loki(store.url, node_label="", selector='app="opensm"', source=Source.FABRIC_MANAGER))
    assert out.lines_of() == ["one"]


def test_the_selector_and_the_filter_are_part_of_the_question() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01", "app": "a"}, entries(["healthz", "one"]))
        store.add({"node": "gpu-01", "app": "b"}, entries(["two"]))
        out, _ = collected(a_loki(store.url, selector='app="a",', filter='!= "healthz"'))
    assert out.lines_of() == ["one"]


def test_streams_of_one_node_are_read_each_for_itself() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01", "filename": "/var/log/syslog"}, entries(["one"]))
        store.add({"node": "gpu-01", "filename": "/var/log/kern.log", "level": "info"}, entries(["two"]))
        store.add(
            {"node": "gpu-01", "filename": "/var/log/kern.log", "level": "error"}, entries(["three"], begin=NANOS + 1)
        )
        out, _ = collected(a_loki(store.url), an_ask(["gpu-01"]))
    assert {name: [line for _, line in fed] for (name, _, _), fed in out.fed.items()} == {
        "var/log/syslog": ["one"],
        "var/log/kern.log": ["two", "three"],
    }


def test_an_entry_of_several_lines_is_several_lines_with_its_time() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, entries(["Traceback:\n  File\nError: x\n", "next", "", "last"]))
        out, report = collected(a_loki(store.url), an_ask(["gpu-01"]))
    (fed,) = out.fed.values()
    assert [line for _, line in fed] == ["Traceback:", "  File", "Error: x", "next", "", "last"]
    assert [(time - NANOS) // SECOND for time, _ in fed] == [0, 0, 0, 1, 2, 3]
    assert report.read == 6


def test_an_entry_that_is_json_is_unwrapped() -> None:
    line = json.dumps({"MESSAGE": XID.removeprefix("kernel: "), "_HOSTNAME": "gpu-01", "SYSLOG_IDENTIFIER": "kernel"})
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, entries([line]))
        out, _ = collected(a_loki(store.url), an_ask(["gpu-01"]))
        bodies = [seen.body for seen in out.stream("", node="gpu-01").observations()]
    assert bodies == [XID.removeprefix("kernel: ")]


def test_structured_metadata_can_say_the_node_and_the_rank() -> None:
    streams = answer(
        {
            "stream": {"app": "train"},
            "values": [
                [str(NANOS), "one", {"structuredMetadata": {"host": "gpu-01", "rank": "1"}, "parsed": {}}],
                [str(NANOS + 1), "two", {"host": "gpu-02"}],
                [str(NANOS + 2), "three", {}],
                [str(NANOS + 3), "four"],
            ],
        }
    )
    with raw_server(ok(streams)) as raw:
        loki = a_loki(
            raw.url,
            node_label="host",
            rank_label="rank",
            selector='app="train"',
            metadata=("host",),
            source=Source.APPLOG,
        )
        out, report = collected(loki)
    assert out.fed == {("", "gpu-01", 1): [(NANOS, "one")], ("", "gpu-02", None): [(NANOS + 1, "two")]}
    assert report.status is ReportStatus.OK
    query = '{app="train"} | host=~"(?i)(?:gpu-01|gpu-02)(?:[.:].*)?"'
    assert json.dumps(query)[1:-1].replace("\\", "") in requested(raw.requests[0]).replace("\\", "")


def requested(request: bytes) -> str:
    return unquote_plus(request.decode())


def test_metadata_beside_a_line_does_not_make_streams() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, entries(["one"]))
        collected(a_loki(store.url))
    assert store.headers[0]["x-loki-response-encoding-flags"] == "categorize-labels"


def test_a_tenant_is_named_by_a_header() -> None:
    with FakeLoki() as store:
        loki = msgspec.structs.replace(
            a_loki(store.url), server=Server(url=store.url, headers={"X-Scope-OrgID": "hpc|ml"})
        )
        collected(loki)
    assert store.headers[0]["x-scope-orgid"] == "hpc|ml"


# --- hostile names --------------------------------------------------------------------------------------------------

HOSTILE = ['4711", node=~".+', "4711\\", '"} or {a="', "4711\n", "x`y", "日本", "\x00", '\\"', "$(id)", "a|.*"]


@pytest.mark.parametrize("job_id", HOSTILE)
def test_a_hostile_job_id_cannot_change_the_question(job_id: str) -> None:
    with FakeLoki() as store:
        store.add({"job": job_id}, entries(["its own"]))
        store.add({"job": "other"}, entries(["another's"]))
        out, _ = collected(a_loki(store.url, job_label="job"), an_ask(job_id=job_id))
    assert out.lines_of() == ["its own"]


@pytest.mark.parametrize("job_id", HOSTILE)
def test_a_hostile_job_id_in_an_expression_stands_for_itself(job_id: str) -> None:
    with FakeLoki() as store:
        store.add({"job": f"{job_id}-0"}, entries(["its own"]))
        store.add({"job": "other-0"}, entries(["another's"]))
        out, _ = collected(a_loki(store.url, job_label="job", job_value="{job_id}-[0-9]"), an_ask(job_id=job_id))
    assert out.lines_of() == ["its own"]


@pytest.mark.parametrize("node", ['gpu-01", a="', "gpu[01]", "gpu.*", "(", "a|b", "gpu\\d", "+"])
def test_a_hostile_name_of_a_node_matches_itself_alone(node: str) -> None:
    with FakeLoki() as store:
        store.add({"node": node}, entries(["its own"]))
        store.add({"node": "gpu-99"}, entries(["another's"]))
        out, _ = collected(a_loki(store.url), an_ask([node]))
    assert out.lines_of() == ["its own"]


@given(st.text(max_size=30))
def test_any_text_is_one_string_of_the_query_language(text: str) -> None:
    written = quoted(text)
    assert re.fullmatch(r'"(?:[^"\\\n]|\\["\\bfnrt]|\\u[0-9a-f]{4})*"', written)
    assert json.loads(written) == text.encode("utf-8", "replace").decode()


def test_a_thousand_nodes_are_asked_for_in_bounded_questions() -> None:
    nodes = [f"gpu-{number:05d}" for number in range(2_500)]
    with FakeLoki() as store:
        store.add({"node": "gpu-02499"}, entries(["one"]))
        out, _ = collected(a_loki(store.url, source=Source.APPLOG), an_ask(nodes))
    assert [query.count("|") + 1 for query in queries(store)] == [1000, 1000, 500]
    assert all(len(query) < 100_000 for query in queries(store))
    assert out.lines_of("gpu-02499") == ["one"]


def test_names_that_are_long_are_asked_for_in_more_questions() -> None:
    nodes = [f"{'x' * 240}-{number}" for number in range(1_000)]
    with FakeLoki() as store:
        collected(a_loki(store.url, source=Source.APPLOG), an_ask(nodes))
    assert len(queries(store)) == 3
    assert max(map(len, queries(store))) < 128 << 10


# --- paging ---------------------------------------------------------------------------------------------------------


def test_pages_are_read_to_the_end() -> None:
    lines = [f"line {number}" for number in range(101)]
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, entries(lines))
        out, report = collected(a_loki(store.url, page=10), an_ask(["gpu-01"]))
    assert out.lines_of() == lines
    assert report.status is ReportStatus.OK
    assert store.requests[0][1]["direction"] == "forward"


def test_entries_of_one_moment_on_the_border_of_pages_are_read_once() -> None:
    moments = [0] * 9 + [1] * 4 + [2] * 9 + [3]
    both = [(NANOS + moment, f"line {number}") for number, moment in enumerate(moments)]
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, both)
        out, _ = collected(a_loki(store.url, page=10), an_ask(["gpu-01"]))
    assert sorted(out.lines_of()) == sorted(line for _, line in both)


def test_where_one_moment_fills_a_page_more_is_asked_for() -> None:
    both = [(NANOS + 5, f"line {number}") for number in range(95)] + [(NANOS + 6, "last")]
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, both)
        out, report = collected(a_loki(store.url, page=10), an_ask(["gpu-01"]))
    assert sorted(out.lines_of()) == sorted(line for _, line in both)
    assert report.status is ReportStatus.OK
    assert [int(params["limit"]) for path, params in store.requests if path.endswith("range")] == [
        10,
        10,
        20,
        40,
        80,
        160,
    ]


def test_where_loki_gives_no_more_of_one_moment_the_rest_is_said_to_be_missing() -> None:
    both = [(NANOS + 5, f"line {number}") for number in range(95)] + [(NANOS + 6, "last")]
    with FakeLoki(max_entries=30) as store:
        store.add({"node": "gpu-01"}, both)
        out, report = collected(a_loki(store.url, page=10), an_ask(["gpu-01"]))
    assert out.lines_of()[:3] == ["line 0", "line 1", "line 2"]
    assert out.lines_of()[-1] == "last"
    assert len(out.lines_of()) == 31
    assert report.status is ReportStatus.PARTIAL
    assert "more than 30 entries at 2026-11-30T10:00:00Z with one and the same time" in report.reason


def test_a_page_larger_than_loki_allows_is_made_smaller() -> None:
    lines = [f"line {number}" for number in range(101)]
    with FakeLoki(max_entries=30) as store:
        store.add({"node": "gpu-01"}, entries(lines))
        out, report = collected(a_loki(store.url, page=5_000), an_ask(["gpu-01"]))
    assert out.lines_of() == lines
    assert report.status is ReportStatus.OK


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), max_size=60),
    st.integers(2, 12),
    st.integers(2, 12),
)
def test_no_entry_is_lost_or_doubled(rows: list[tuple[int, int]], page: int, most: int) -> None:
    """Whatever shares a nanosecond, wherever pages end, whatever Loki allows."""
    store = FakeLoki(max_entries=most)
    wanted: list[tuple[int, str]] = []
    for number, (moment, stream) in enumerate(rows):
        wanted.append((NANOS + moment, f"line {number}"))
        store.add({"node": f"gpu-{stream}"}, [wanted[-1]])
    ask = an_ask(["gpu-0", "gpu-1", "gpu-2"])
    asked = 0

    def fetch(query: str, begin: int, end: int, limit: int, seconds: float | None) -> Answer:
        nonlocal asked
        asked += 1
        params = {"query": query, "start": str(begin), "end": str(end), "limit": str(limit), "direction": "forward"}
        code, body = store.handle("/loki/api/v1/query_range", params, {})
        if code != 200:
            raise http.Refused(body.decode(), code, body.decode())
        return msgspec.json.decode(body, type=Answer)

    out = Recorder(collector="loki", source=Source.SYSLOG, ruleset=the_ruleset())
    loki = Loki(name="loki", source=Source.SYSLOG, server=Server(url="http://x"), node_label="node", page=10)
    Pages(ask, out, fetch, loki.rows, page=page, only_nodes=True).read(loki.queries(ask))
    got = sorted(entry for fed in out.fed.values() for entry in fed)
    at_once = {moment: sum(1 for time, _ in wanted if time == moment) for moment, _ in wanted}
    if max(at_once.values(), default=0) < min(page, most) or most > 2 * max(at_once.values(), default=0):
        assert got == sorted(wanted)
    assert len(set(got)) == len(got)
    assert set(got) <= set(wanted)
    missing = {time for time, _ in set(wanted) - set(got)}
    assert all(at_once[time] >= most for time in missing)
    _, report = out.close()
    assert not missing or "were not read" in report.reason
    assert asked <= 4 * len(rows) + 20


def test_a_store_that_does_not_page_ends() -> None:
    same = answer({"stream": {"node": "gpu-01"}, "values": [[str(NANOS - 5), "x"]] * 10})
    with raw_server(ok(same)) as raw:
        _, report = collected(a_loki(raw.url, page=10))
    assert report.status is ReportStatus.ERROR
    assert "asked for what is from 2026-11-30T10:00:00Z on, it gave what is of 2026-11-30T09:59:59Z" in report.reason


def test_a_long_window_is_read_from_its_end() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, entries([f"hour {hour}" for hour in range(24)], step=HOUR))
        out, report = collected(a_loki(store.url), an_ask(["gpu-01"], minutes=24 * 60))
    asked = [params for path, params in store.requests if path.endswith("/query_range")]
    lengths = [(int(params["end"]) - int(params["start"])) // HOUR for params in asked]
    assert lengths == [1, 2, 4, 8, 9]
    assert int(asked[0]["end"]) == NANOS + 24 * HOUR
    assert out.lines_of() == [f"hour {hour}" for hour in range(24)]
    assert next(iter(out.fed))[0] == "gpu-01@2026-12-01T09:00:00Z"
    assert report.status is ReportStatus.OK


# --- trouble --------------------------------------------------------------------------------------------------------


def test_nothing_is_said_to_be_nothing_and_what_was_asked_is_told() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, [(NANOS - HOUR, "earlier")])
        _, report = collected(a_loki(store.url), an_ask(["gpu-01"]))
    assert report.status is ReportStatus.EMPTY
    assert 'asked for {node=~"(?i)(?:gpu-01)(?:[.:].*)?"}' in report.reason


def test_nodes_that_the_labels_do_not_know_are_a_gap() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, entries(["one"]))
        store.add({"node": "gpu-02"}, [(NANOS - HOUR, "quiet since")])
        _, report = collected(a_loki(store.url), an_ask(["gpu-01", "gpu-02", "gpu-03"]))
    assert report.status is ReportStatus.PARTIAL
    assert report.reason == "no label node means gpu-03: no log of theirs comes in here"


def test_a_label_that_knows_no_node_is_an_error_not_silence() -> None:
    with FakeLoki() as store:
        store.add({"host": "gpu-01"}, entries(["one"]))
        _, report = collected(a_loki(store.url))
    assert report.status is ReportStatus.ERROR
    assert "no label node means gpu-01, gpu-02" in report.reason


def test_of_an_applog_not_every_node_must_speak() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, entries(["one"]))
        _, report = collected(a_loki(store.url, source=Source.APPLOG), source=Source.APPLOG)
    assert report.status is ReportStatus.OK


def test_without_nodes_it_cannot_be_asked_by_node() -> None:
    with FakeLoki() as store:
        _, report = collected(a_loki(store.url), an_ask([]))
    assert report.status is ReportStatus.ERROR
    assert "the attempt's nodes are not known: set job_label" in report.reason


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("no org id", "look at the header X-Scope-OrgID in server.headers"),
        ("parse error at line 1, col 5: syntax error", "look at selector and filter"),
        (
            "this data is no longer available, it is past now - max_query_lookback (30d)",
            "limits_config.max_query_lookback",
        ),
    ],
)
def test_lokis_own_words_are_shown_with_what_to_look_at(said: str, hint: str) -> None:
    with raw_server(status(400, said.encode())) as raw:
        _, report = collected(a_loki(raw.url))
    assert report.status is ReportStatus.ERROR
    assert f"HTTP 400: {said}" in report.reason
    assert hint in report.reason


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("the query time range exceeds the limit (query length: 30m, limit: 15m)", "limits_config.max_query_length"),
        ("the query would read too many bytes (query: 1TB, limit: 1GB)", "limits_config.max_query_bytes_read"),
        ("maximum number of series (500) reached for a single query", "limits_config.max_query_series"),
        ("context deadline exceeded", "limits_config.query_timeout"),
    ],
)
def test_what_is_too_much_for_loki_is_asked_for_in_smaller_parts(said: str, hint: str) -> None:
    class Limited(FakeLoki):
        longest = 16 * 60 * SECOND

        def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes]:
            if path.endswith("range") and int(params["end"]) - int(params["start"]) > self.longest:
                return 400, said.encode()
            return super().handle(path, params, headers)

    lines = [f"minute {minute}" for minute in range(30)]
    with Limited() as store:
        store.add({"node": "gpu-01"}, entries(lines, step=60 * SECOND))
        out, report = collected(a_loki(store.url), an_ask(["gpu-01"]))
        assert out.lines_of() == lines
        assert report.status is ReportStatus.OK
        store.longest = 0
        _, report = collected(a_loki(store.url), an_ask(["gpu-01"]))
    assert report.status is ReportStatus.ERROR
    assert hint in report.reason


def test_a_part_that_fails_is_a_gap_and_the_others_are_read() -> None:
    class Broken(FakeLoki):
        def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes]:
            if params.get("end") == str(NANOS + 3 * HOUR):
                return 500, b"a chunk is missing"
            return super().handle(path, params, headers)

    with Broken() as store:
        store.add({"node": "gpu-01"}, entries([f"hour {hour}" for hour in range(3)], step=HOUR))
        out, report = collected(a_loki(store.url), an_ask(["gpu-01"], minutes=180))
    assert out.lines_of() == ["hour 0", "hour 1"]
    assert report.status is ReportStatus.PARTIAL
    assert report.reason.startswith("2026-11-30T12:00:00Z to 2026-11-30T13:00:00Z: http")
    assert report.reason.endswith("HTTP 500: a chunk is missing")


def test_a_refusal_ends_it_at_once() -> None:
    with raw_server(status(401, b"Unauthorized")) as raw:
        _, report = collected(a_loki(raw.url), an_ask(minutes=600))
    assert report.status is ReportStatus.ERROR
    assert (
        report.reason == f"{raw.url}/loki/api/v1/query_range: HTTP 401: not let in: is the token right?: Unauthorized"
    )
    assert len(raw.requests) == 1


def test_a_second_failure_in_a_row_ends_it() -> None:
    with raw_server(status(500, b"no")) as raw:
        _, report = collected(a_loki(raw.url), an_ask(minutes=600))
    assert report.status is ReportStatus.ERROR
    assert len(raw.requests) == 2 * http.TRIES


def test_a_loki_that_hangs_ends_with_the_budget() -> None:
    def hang(connection: socket.socket, request: bytes) -> None:
        connection.recv(1)

    with raw_server(hang) as raw:
        _, report = collected(a_loki(raw.url), an_ask(seconds=0.3))
    assert (report.status, report.reason) == (ReportStatus.ERROR, f"{raw.url}: no answer within 0.3 s")


def test_what_came_before_it_hung_is_kept() -> None:
    first = answer({"stream": {"node": "gpu-01"}, "values": [[str(NANOS + n), f"line {n}"] for n in range(10)]})

    def hang(connection: socket.socket, request: bytes) -> None:
        connection.recv(1)

    with raw_server(ok(first), hang) as raw:
        out, report = collected(a_loki(raw.url, page=10), an_ask(["gpu-01"], seconds=1))
    assert out.lines_of() == [f"line {n}" for n in range(10)]
    assert report.status is ReportStatus.PARTIAL
    assert "no answer within" in report.reason


def test_an_answer_that_is_cut_off_is_said_to_be() -> None:
    def cut(connection: socket.socket, request: bytes) -> None:
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"status":"success","data":{"resu')

    with raw_server(cut) as raw:
        _, report = collected(a_loki(raw.url))
    assert report.status is ReportStatus.ERROR
    assert "the answer was cut off after 33 bytes" in report.reason


def test_a_flood_ends_with_the_bytes_and_says_what_was_not_read() -> None:
    lines = ["x" * 5_000 for _ in range(1_000)]
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, entries(lines))
        _, report = collected(a_loki(store.url, page=100), an_ask(["gpu-01"], megabytes=1))
    assert 100 < report.read < 250
    assert report.status is ReportStatus.PARTIAL
    assert report.reason.startswith("more than 1 MiB; the rest was not read; of 2026-11-30T10:0")
    assert report.reason.endswith("to 2026-11-30T10:30:00Z not all was read")


def test_lines_too_long_for_one_answer_are_asked_for_in_smaller_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.get_json, "__kwdefaults__", {**http.get_json.__kwdefaults__, "most": 100_000})
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, entries(["x" * 5_000 for _ in range(100)]))
        _, report = collected(a_loki(store.url, page=80), an_ask(["gpu-01"]))
    assert (report.status, report.read) == (ReportStatus.OK, 100)
    assert "its lines are long: pages of 10 entries were read" in report.reason


def test_what_loki_said_it_sent_is_held_against_what_came() -> None:
    body = json.loads(answer({"stream": {"node": "gpu-01"}, "values": [[str(NANOS), "one"]]}))
    body["data"]["stats"] = {"summary": {"totalEntriesReturned": 7}}
    body["warnings"] = ["some of the ingesters did not answer"]
    with raw_server(ok(json.dumps(body).encode())) as raw:
        _, report = collected(a_loki(raw.url, source=Source.APPLOG), an_ask(["gpu-01"]))
    assert report.status is ReportStatus.PARTIAL
    assert "Loki says that it sent 7 entries, 1 came" in report.reason
    assert "Loki warns: some of the ingesters did not answer" in report.reason


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
            "it makes 'matrix' of the lines, not lines",
        ),
        (answer({"stream": {}, "values": [["soon", "x"]]}), "an entry whose time cannot be read"),
        (answer({"stream": {}, "values": [["1"]]}), "the answer is not what was expected"),
        (answer({"stream": {"a": 1}, "values": []}), "the answer is not what was expected"),
        (b"{}", "the answer is not what was expected"),
        (b"null", "the answer is not what was expected"),
    ],
)
def test_answers_that_are_none_are_said(body: bytes, said: str) -> None:
    with raw_server(ok(body)) as raw:
        _, report = collected(a_loki(raw.url))
    assert report.status is ReportStatus.ERROR
    assert said in report.reason


# --- settings and probe ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"node_label": "k8s.node"}, "node_label"),
        ({"job_label": 'a="b'}, "job_label"),
        ({"selector": 'app="a'}, "selector"),
        ({"selector": 'app="a"} |= "x" or {b="c"'}, "selector"),
        ({"filter": "Xid"}, "filter"),
        ({"metadata": ("other",)}, "metadata"),
        ({"node_label": ""}, "selector"),
        ({"node_label": "node", "metadata": ("node",)}, "selector"),
        ({"job_label": "job", "job_value": "4711"}, "job_value"),
        ({"job_label": "job", "job_value": "{name}-("}, "job_value"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_key(given: dict[str, Any], key: str) -> None:
    with pytest.raises(ValueError, match=f"^{key}: "):
        a_loki("http://x", **given)


@pytest.mark.parametrize("selector", ["", 'a="b"', 'a="b", c!~"d\\"}", ', "a=~`x\\d+`", ' cluster = "alpha" '])
def test_selectors_are_lists_of_matchers(selector: str) -> None:
    a_loki("http://x", selector=selector)


def test_a_probe_says_what_there_is() -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    newest = nanoseconds(now - timedelta(minutes=2))
    with FakeLoki() as store:
        store.add({"node": "gpu-01.cluster.local", "job": "4711"}, [(newest - 5 * SECOND, "one"), (newest, "two")])
        found = a_loki(store.url, job_label="job").probe(["gpu-01", "gpu-02"], Budget.of(seconds=5, megabytes=8))
    assert found.version == "3.5.1"
    assert found.newest == now - timedelta(minutes=2)
    assert found.nodes == {"gpu-01"}
    assert found.jobs == {"4711"}
    assert found.notes == ()


def test_a_probe_of_an_idle_loki_says_so() -> None:
    with FakeLoki() as store:
        store.add({"node": "gpu-01"}, [(nanoseconds(BEGIN), "long ago")])
        found = a_loki(store.url, selector='app="x"').probe(["gpu-01"], Budget.of(seconds=5, megabytes=8))
    assert found.newest is None
    assert found.jobs is None
    assert found.notes == ('no line within the last hour for {app="x"}',)


def test_a_probe_goes_on_where_no_version_is_told() -> None:
    class Gateway(FakeLoki):
        def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes]:
            return (403, b"no") if "status" in path else super().handle(path, params, headers)

    with Gateway() as store:
        found = a_loki(store.url).probe([], Budget.of(seconds=5, megabytes=8))
    assert found.version == ""
    assert "its version is not told" in found.notes[0]


def test_a_probe_of_what_does_not_answer_is_an_error() -> None:
    with raw_server(status(404)) as raw, pytest.raises(SourceError):
        a_loki(raw.url).probe([], Budget.of(seconds=2, megabytes=8))
