"""VictoriaLogs by its documented interface: the program itself cannot be had where these tests run.

The wire format is that of https://docs.victoriametrics.com/victorialogs/querying/ (`query`: a stream of JSON lines in no
order, `timeout`, `limit`; `hits`; `field_values`; partial responses) and the filters of
https://docs.victoriametrics.com/victorialogs/logsql/ . An error after the first line is a line of text, after which the
connection is closed in the middle of a chunk, as its server's source has it.
"""

import json
import socket
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.words import ReportStatus, Source
from tests.verdicts.collectors.fake_stores import FakeVictoria, Reply, written
from tests.verdicts.collectors.raw_server import Answer, ok, raw_server, status
from tests.verdicts.collectors.recorder import NANOS, SECOND, XID, Recorder, an_ask, collected, entries, the_ruleset
from verdicts.collectors import http, victorialogs
from verdicts.collectors.ask import Budget
from verdicts.collectors.http import Server
from verdicts.collectors.stores import HOUR, nanoseconds
from verdicts.collectors.victorialogs import VictoriaLogs


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.time, "sleep", lambda _: None)


def a_store(url: str, **given: Any) -> VictoriaLogs:
    given.setdefault("node_field", "node")
    made = VictoriaLogs(name="vl", source=given.pop("source", Source.SYSLOG), server=Server(url=url), **given)
    made.check()
    return made


def asked(store: FakeVictoria, which: str = "query") -> list[str]:
    return [params["query"] for path, params in store.requests if path.endswith(f"/{which}")]


# --- what is read ---------------------------------------------------------------------------------------------------


def test_the_entries_of_the_attempts_nodes_are_read_in_order() -> None:
    with FakeVictoria() as store:
        store.add({"node": "gpu-01"}, entries(["one", "two", XID, "four"]))
        store.add({"node": "gpu-03"}, entries(["another job's"]))
        store.add({"node": "GPU-02.cluster.local"}, entries(["five"]))
        out, report = collected(a_store(store.url))
    assert out.lines_of("gpu-01") == ["one", "two", XID, "four"]
    assert [line for _, line in out.fed["", "gpu-01", None]] == ["one", "two", XID, "four"]
    assert out.lines_of("gpu-02") == ["five"]
    assert (report.status, report.read, report.reason) == (ReportStatus.OK, 5, "")


def test_times_are_read_to_the_nanosecond() -> None:
    with FakeVictoria() as store:
        store.add({"node": "gpu-01"}, [(NANOS + 123_456_789, "one")])
        out, _ = collected(a_store(store.url), an_ask(["gpu-01"]))
    assert out.fed == {("", "gpu-01", None): [(NANOS + 123_456_789, "one")]}


def test_the_windows_end_is_not_part_of_it() -> None:
    with FakeVictoria() as store:
        store.add({"node": "gpu-01"}, [(NANOS - 1, "before"), (NANOS, "first"), (NANOS + 1800 * SECOND, "after")])
        out, _ = collected(a_store(store.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["first"]


def test_entries_are_asked_for_by_job_where_they_carry_it() -> None:
    with FakeVictoria() as store:
        store.add({"job": "4711", "node": "gpu-01", "rank": "3", "pod": "llama-0"}, entries(["one"]))
        store.add({"job": "4712", "node": "gpu-01"}, entries(["another's"]))
        out, _ = collected(
            a_store(store.url, job_field="job", rank_field="rank", pod_field="pod", source=Source.APPLOG)
        )
    assert list(out.fed) == [("llama-0", "gpu-01", 3)]
    assert asked(store)[0].endswith(' "job":="4711" | fields _time, "_msg", "node", "rank", "pod"')


def test_a_kubernetes_job_is_asked_for_by_its_name_and_namespace() -> None:
    with FakeVictoria() as store:
        given = {"job_field": "pod", "job_value": "{name}-worker-[0-9]+", "namespace_field": "k8s.namespace"}
        store.add({"pod": "llama-worker-0", "k8s.namespace": "ml"}, entries(["one"]))
        store.add({"pod": "x-llama-worker-0", "k8s.namespace": "ml"}, entries(["another's"]))
        store.add({"pod": "llama-worker-0", "k8s.namespace": "dev"}, entries(["another's"]))
        out, _ = collected(a_store(store.url, **given), an_ask(job_id="ml/pytorchjob/llama@1f0c9a3e"))
    assert out.lines_of() == ["one"]


def test_the_selector_stands_in_brackets() -> None:
    with FakeVictoria() as store:
        store.add({"node": "gpu-01", "cluster": "alpha"}, entries(["one"]))
        store.add({"node": "gpu-01", "cluster": "beta"}, entries(["two"]))
        out, _ = collected(a_store(store.url, selector='{cluster="alpha"}'))
    assert out.lines_of() == ["one"]
    assert ' ({cluster="alpha"}) | fields' in asked(store)[0]


def test_the_lines_may_be_in_another_field() -> None:
    with FakeVictoria() as store:
        store.entries.append((NANOS, {"node": "gpu-01", "log.body": "one"}))
        store.entries.append((NANOS, {"node": "gpu-01", "_msg": "two"}))
        out, report = collected(a_store(store.url, message_field="log.body"), an_ask(["gpu-01"]))
    assert out.lines_of() == ["one"]
    assert report.reason == "entries without log.body were passed over"


def test_an_entry_of_several_lines_is_several_lines_with_its_time() -> None:
    with FakeVictoria() as store:
        store.add({"node": "gpu-01"}, entries(["Traceback:\n  File\nError: x\n", "next"]))
        out, _ = collected(a_store(store.url), an_ask(["gpu-01"]))
    (fed,) = out.fed.values()
    assert [(time - NANOS) // SECOND for time, _ in fed] == [0, 0, 0, 1]


@pytest.mark.parametrize("job_id", ['x" or "a":="b', "x\\", "x\n| delete a", "日本", "\x00", "$(id)", "a|.*", "#"])
@pytest.mark.parametrize("template", ["{job_id}", "{job_id}-[0-9]"])
def test_a_hostile_job_id_cannot_change_the_question(job_id: str, template: str) -> None:
    end = "-0" if template != "{job_id}" else ""
    with FakeVictoria() as store:
        store.add({"job": job_id + end}, entries(["its own"]))
        store.add({"job": "other" + end}, entries(["another's"]))
        given = {"job_field": "job", "job_value": template, "node_field": ""}
        out, _ = collected(a_store(store.url, **given), an_ask(job_id=job_id))
    assert out.lines_of() == ["its own"]


def test_a_thousand_nodes_are_asked_for_in_bounded_questions() -> None:
    nodes = [f"gpu-{number:05d}" for number in range(2_500)]
    with FakeVictoria() as store:
        store.add({"node": "gpu-02499"}, entries(["one"]))
        out, _ = collected(a_store(store.url, source=Source.APPLOG), an_ask(nodes))
    assert [query.count("|") + 1 for query in asked(store, "hits")] == [1000, 1000, 500]
    assert max(map(len, asked(store, "hits"))) < 16_000
    assert len(asked(store)) == 1
    assert out.lines_of("gpu-02499") == ["one"]


# --- how many there are ---------------------------------------------------------------------------------------------


def test_where_it_has_none_nothing_more_is_asked() -> None:
    with FakeVictoria() as store:
        store.add({"node": "gpu-01"}, [(NANOS - HOUR, "earlier")])
        _, report = collected(a_store(store.url), an_ask(["gpu-01"]))
    assert report.status is ReportStatus.EMPTY
    assert 'asked for "node":~"^(?:(?i)(?:gpu-01)(?:[.:].*)?)$"' in report.reason
    assert asked(store) == []


def test_many_entries_are_read_in_parts_from_the_end() -> None:
    lines = [f"line {number}" for number in range(1_000)]
    with FakeVictoria() as store:
        store.add({"node": "gpu-01"}, entries(lines))
        out, report = collected(a_store(store.url, page=300), an_ask(["gpu-01"]))
    assert out.lines_of() == lines
    assert report.status is ReportStatus.OK
    assert len(asked(store)) >= 4
    assert asked(store)[0] > asked(store)[-1]
    assert len(out.fed) == len(asked(store))


def test_a_burst_is_counted_more_finely() -> None:
    both = [(NANOS + 7 * SECOND + index * 1_000_000, f"line {index}") for index in range(2_000)]
    with FakeVictoria() as store:
        store.add({"node": "gpu-01"}, both)
        out, report = collected(a_store(store.url, page=100), an_ask(["gpu-01"]))
    assert out.lines_of() == [line for _, line in both]
    assert report.status is ReportStatus.OK
    assert len(asked(store, "hits")) > 1
    assert len(asked(store)) >= 10


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 1_800 * SECOND - 1), max_size=40), st.integers(1, 8), st.integers(1, 50))
def test_parts_hold_each_entry_once(moments: list[int], page: int, copies: int) -> None:
    """Wherever entries lie, and however many there are at one time."""
    store = FakeVictoria()
    store.add({"node": "gpu-01"}, [(NANOS + at, f"{at}/{copy}") for at in moments for copy in range(copies)])

    made = a_store("http://x")
    ask = an_ask(["gpu-01"])

    def get_json(server: Server, path: str, budget: Budget, kind: type[Any], form: dict[str, str]) -> Any:
        code, body = store.handle(path, form, {})
        assert code == 200
        return msgspec.json.decode(body, type=kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(victorialogs, "get_json", get_json)
        out = Recorder(collector="vl", source=Source.SYSLOG, ruleset=the_ruleset())
        reading = victorialogs._Reading(msgspec.structs.replace(made, page=page), ask, out)
        parts = list(reading._counted(made.queries(ask)[0], NANOS, NANOS + 1800 * SECOND))
    for begin, end, count in parts:
        assert sum(begin <= time < end for time, _ in store.entries) == count
    assert sum(count or 0 for _, _, count in parts) == len(store.entries)
    assert all(later[0] >= earlier[1] for earlier, later in zip(parts[1:], parts, strict=False))


def test_fewer_entries_than_were_counted_are_a_gap() -> None:
    class Forgetful(FakeVictoria):
        def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> Reply:
            code, body = super().handle(path, params, headers)
            return (code, b"".join(body.splitlines(True)[:7])) if path.endswith("/query") else (code, body)

    with Forgetful() as store:
        store.add({"node": "gpu-01"}, entries([f"line {number}" for number in range(10)]))
        out, report = collected(a_store(store.url), an_ask(["gpu-01"]))
    assert len(out.lines_of()) == 7
    assert report.status is ReportStatus.PARTIAL
    assert report.reason.endswith(": it counted 10 entries, 7 came")


def test_more_entries_than_were_counted_came_in_since() -> None:
    class Growing(FakeVictoria):
        def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> Reply:
            if path.endswith("/query"):
                self.add({"node": "gpu-01"}, [(NANOS + SECOND, "late")])
            return super().handle(path, params, headers)

    with Growing() as store:
        store.add({"node": "gpu-01"}, entries(["one"]))
        out, report = collected(a_store(store.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["one", "late"]
    assert report.status is ReportStatus.OK


def test_where_it_cannot_count_the_window_is_read_in_parts_and_that_is_said() -> None:
    class Old(FakeVictoria):
        def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> Reply:
            if path.endswith("/hits"):
                return 400, b"unsupported path requested"
            return super().handle(path, params, headers)

    with Old() as store:
        store.add({"node": "gpu-01"}, entries([f"hour {hour}" for hour in range(5)], step=HOUR))
        out, report = collected(a_store(store.url), an_ask(["gpu-01"], minutes=300))
    assert out.lines_of() == [f"hour {hour}" for hour in range(5)]
    assert report.status is ReportStatus.OK
    assert report.reason.startswith("how many entries it has was not told, so that what came was not counted: ")


# --- trouble --------------------------------------------------------------------------------------------------------

HITS = ok(json.dumps({"hits": [{"fields": {}, "timestamps": [written(NANOS)], "values": [3], "total": 3}]}).encode())
ROWS = b"".join(
    json.dumps({"_msg": f"line {number}", "_time": written(NANOS + number), "node": "gpu-01"}).encode() + b"\n"
    for number in range(2)
)


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> Answer:
    def answer(connection: socket.socket, request: bytes) -> None:
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/stream+json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for chunk in chunks:
            connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        connection.sendall(end)

    return answer


def test_an_error_in_the_middle_of_an_answer_is_said_in_its_words() -> None:
    aborted = b"\nthe connection has been aborted; see the last line in the response and/or in the server log\n"
    told = b"\ncannot execute query: the query needs more than 285MB of memory\n"
    with raw_server(HITS, chunked(ROWS, told, end=aborted)) as raw:
        out, report = collected(a_store(raw.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["line 0", "line 1"]
    assert report.status is ReportStatus.PARTIAL
    assert report.reason == f"{raw.url}: it broke off: {told.decode().strip()}"
    assert len(raw.requests) == 3


def test_an_answer_that_breaks_off_is_asked_for_once_more() -> None:
    whole = ROWS + b'{"_msg":"line 2","_time":"%s","node":"gpu-01"}\n' % written(NANOS + 2).encode()
    with raw_server(HITS, chunked(ROWS[:-20], end=b""), chunked(whole)) as raw:
        out, report = collected(a_store(raw.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["line 0", "line 1", "line 2"]
    assert report.status is ReportStatus.OK


def test_an_answer_that_breaks_off_twice_keeps_what_came() -> None:
    with raw_server(HITS, chunked(ROWS[:-20], end=b"")) as raw:
        out, report = collected(a_store(raw.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["line 0"]
    assert report.status is ReportStatus.PARTIAL
    assert "the answer was cut off after" in report.reason


def test_a_last_line_that_is_cut_is_seen_where_the_connection_looks_whole() -> None:
    with raw_server(HITS, chunked(ROWS[:-20])) as raw:
        out, report = collected(a_store(raw.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["line 0"]
    assert report.status is ReportStatus.PARTIAL
    assert "it broke off: " in report.reason


def test_a_query_that_it_does_not_understand_is_said() -> None:
    with raw_server(status(400, b"cannot parse query [(]: missing )")) as raw:
        _, report = collected(a_store(raw.url, selector="("))
    assert report.status is ReportStatus.ERROR
    assert "HTTP 400: cannot parse query [(]: missing )" in report.reason


def test_a_refusal_ends_it_at_once() -> None:
    with raw_server(status(401)) as raw:
        _, report = collected(a_store(raw.url))
    assert (report.status, len(raw.requests)) == (ReportStatus.ERROR, 1)
    assert "HTTP 401: not let in: is the token right?" in report.reason


def test_storage_that_is_down_is_a_gap_and_the_rest_is_read() -> None:
    class HalfDown(FakeVictoria):
        def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> Reply:
            if params.get("allow_partial_response") == "0":
                return 502, b"cannot connect to storage node vlstorage-2"
            return super().handle(path, params, headers)

    with HalfDown() as store:
        store.add({"node": "gpu-01"}, entries(["one"]))
        out, report = collected(a_store(store.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["one"]
    assert report.status is ReportStatus.PARTIAL
    assert report.reason.startswith("not all of its storage answers, what the rest has was read: ")
    assert report.reason.endswith("HTTP 502: cannot connect to storage node vlstorage-2")


def test_a_gateway_without_a_store_behind_it_is_an_error() -> None:
    with raw_server(status(502, b"bad gateway")) as raw:
        _, report = collected(a_store(raw.url))
    assert report.status is ReportStatus.ERROR
    assert "HTTP 502: bad gateway" in report.reason


def test_the_store_is_told_how_long_it_may_take() -> None:
    with FakeVictoria() as store:
        store.add({"node": "gpu-01"}, entries(["one"]))
        collected(a_store(store.url), an_ask(seconds=9))
    assert all(
        0 < int(params["timeout"].removesuffix("ms")) <= 9_000 for _, params in store.requests if "step" in params
    )


def test_a_store_that_hangs_ends_with_the_budget() -> None:
    def hang(connection: socket.socket, request: bytes) -> None:
        connection.recv(1)

    with raw_server(HITS, hang) as raw:
        _, report = collected(a_store(raw.url), an_ask(seconds=0.4))
    assert report.status is ReportStatus.ERROR
    assert "no answer within 0.4 s" in report.reason


def test_a_stream_that_stops_keeps_what_came() -> None:
    def stop(connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(ROWS), ROWS))
        connection.recv(1)

    with raw_server(HITS, stop) as raw:
        out, report = collected(a_store(raw.url), an_ask(["gpu-01"], seconds=1))
    assert out.lines_of() == ["line 0", "line 1"]
    assert report.status is ReportStatus.PARTIAL
    assert "stopped answering in the middle of an answer" in report.reason


def test_a_flood_ends_with_the_bytes_and_says_what_was_not_read() -> None:
    with FakeVictoria() as store:
        store.add({"node": "gpu-01"}, entries(["x" * 5_000 for _ in range(1_000)]))
        _, report = collected(a_store(store.url, page=100), an_ask(["gpu-01"], megabytes=1))
    assert 50 < report.read < 250
    assert report.status is ReportStatus.PARTIAL
    assert report.reason.startswith("more than 1 MiB; the rest was not read; of 2026-11-30T10:00:00Z to 2026-11-30T10:")


def test_a_line_that_never_ends_is_not_held_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victorialogs, "MAX_LINE", 1 << 20)

    def flood(connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n" + ROWS)
        for _ in range(10_240):
            connection.sendall(b"x" * (1 << 20))

    with raw_server(HITS, flood) as raw:
        out, report = collected(a_store(raw.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["line 0", "line 1"]
    assert report.status is ReportStatus.PARTIAL
    assert report.reason == "an entry of more than 1 MiB: it is no VictoriaLogs that answers so"


def test_nodes_that_it_does_not_know_are_a_gap() -> None:
    with FakeVictoria() as store:
        store.add({"node": "gpu-01"}, entries(["one"]))
        store.add({"node": "gpu-02"}, [(NANOS - HOUR, "quiet since")])
        _, report = collected(a_store(store.url), an_ask(["gpu-01", "gpu-02", "gpu-03"]))
    assert report.status is ReportStatus.PARTIAL
    assert report.reason == "no field node means gpu-03: no log of theirs comes in here"


def test_an_entry_without_a_time_is_an_error() -> None:
    with raw_server(HITS, ok(b'{"_msg":"one","node":"gpu-01"}\n')) as raw:
        _, report = collected(a_store(raw.url), an_ask(["gpu-01"]))
    assert report.status is ReportStatus.ERROR
    assert "an entry whose time cannot be read" in report.reason


# --- settings and probe ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"node_field": ""}, "selector"),
        ({"selector": '{a="b"} # all'}, "selector"),
        ({"message_field": ""}, "message_field"),
        ({"job_field": "job", "job_value": "4711"}, "job_value"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_key(given: dict[str, Any], key: str) -> None:
    with pytest.raises(ValueError, match=f"^{key}: "):
        a_store("http://x", **given)


def test_a_probe_says_what_there_is() -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    newest = nanoseconds(now - timedelta(minutes=2))
    with FakeVictoria() as store:
        store.add({"node": "gpu-01.cluster.local", "job": "4711"}, [(newest - 5 * SECOND, "one"), (newest, "two")])
        found = a_store(store.url, job_field="job").probe(["gpu-01", "gpu-02"], Budget.of(seconds=5, megabytes=8))
    assert found.version == "v1.32.0"
    assert found.newest == now - timedelta(minutes=2)
    assert found.nodes == {"gpu-01"}
    assert found.jobs == {"4711"}
    assert found.notes == ()


def test_a_probe_of_an_idle_store_says_so() -> None:
    class Guarded(FakeVictoria):
        def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> Reply:
            return (403, b"") if path == "/metrics" else super().handle(path, params, headers)

    with Guarded() as store:
        found = a_store(store.url).probe(["gpu-01"], Budget.of(seconds=5, megabytes=8))
    assert (found.newest, found.version, found.nodes) == (None, "", frozenset())
    assert [note.partition(":")[0] for note in found.notes] == [
        "its version is not told",
        "no line within the last hour for *",
    ]
