"""Elasticsearch and OpenSearch by their documented interfaces: the programs cannot be had where these tests run.

The wire formats are those of https://www.elastic.co/docs/reference/elasticsearch/rest-apis/paginate-search-results
(`search_after`, points in time, `_shard_doc`), https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-search
(`timed_out`, `_shards.failures`, `track_total_hits`), the regular expressions of
https://www.elastic.co/docs/reference/query-languages/query-dsl/query-dsl-regexp-query and, of OpenSearch,
https://docs.opensearch.org/latest/search-plugins/searching-data/point-in-time-api/ .
"""

import json
import re
import socket
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.words import ReportStatus, Source
from tests.verdicts.collectors.fake_stores import FakeElastic, Reply, written
from tests.verdicts.collectors.raw_server import ok, raw_server, status
from tests.verdicts.collectors.recorder import NANOS, SECOND, XID, Recorder, an_ask, collected, entries, the_ruleset
from verdicts.collectors import elasticsearch_pages, http
from verdicts.collectors.ask import Budget
from verdicts.collectors.elasticsearch import Elasticsearch, _value
from verdicts.collectors.http import Server
from verdicts.collectors.stores import HOUR, nanoseconds

KINDS = ["elasticsearch", "opensearch", "old"]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.time, "sleep", lambda _: None)


def a_store(url: str, **given: Any) -> Elasticsearch:
    given.setdefault("node_field", "host.name")
    given.setdefault("index", "logs-*")
    made = Elasticsearch(name="es", source=given.pop("source", Source.SYSLOG), server=Server(url=url), **given)
    made.check()
    return made


def on(node: str) -> dict[str, Any]:
    return {"host": {"name": node}}


# --- what is read ---------------------------------------------------------------------------------------------------


def test_the_entries_of_the_attempts_nodes_are_read() -> None:
    with FakeElastic() as store:
        store.add(on("gpu-01"), entries(["one", XID]))
        store.add(on("GPU-02.cluster.local"), entries(["two"]))
        store.add(on("gpu-02.other.example"), entries(["another machine's"]))
        store.add(on("gpu-03"), entries(["another job's"]))
        out, report = collected(a_store(store.url), an_ask(["gpu-01", "gpu-02.cluster.local"]))
    assert out.lines_of("gpu-01") == ["one", XID]
    assert out.lines_of("gpu-02.cluster.local") == ["two"]
    assert (report.status, report.read, report.reason) == (ReportStatus.OK, 3, "")
    assert [path for _, path, _ in store.requests] == ["/logs-*/_search"]


def test_times_are_read_to_the_nanosecond() -> None:
    with FakeElastic() as store:
        store.add(on("gpu-01"), [(NANOS + 123_456_789, "one")])
        out, _ = collected(a_store(store.url), an_ask(["gpu-01"]))
    assert out.fed == {("", "gpu-01", None): [(NANOS + 123_456_789, "one")]}
    assert store.searches()[0]["sort"][0]["@timestamp"]["numeric_type"] == "date_nanos"


def test_times_in_milliseconds_are_understood() -> None:
    hit = {"_source": {"message": "one", "host": {"name": "gpu-01"}}, "sort": [NANOS // 10**6]}
    with raw_server(ok(json.dumps({"_shards": {"total": 1}, "hits": {"hits": [hit], "total": 1}}).encode())) as raw:
        out, _ = collected(a_store(raw.url), an_ask(["gpu-01"]))
    assert out.fed == {("", "gpu-01", None): [(NANOS, "one")]}


def test_the_windows_end_is_not_part_of_it() -> None:
    with FakeElastic() as store:
        store.add(on("gpu-01"), [(NANOS - 1, "before"), (NANOS, "first"), (NANOS + 1800 * SECOND, "after")])
        out, _ = collected(a_store(store.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["first"]


def test_entries_are_asked_for_by_job_where_they_carry_it() -> None:
    with FakeElastic() as store:
        fields = {"slurm": {"job_id": 4711}, "rank": 3, "kubernetes.pod.name": "llama-0", **on("gpu-01")}
        store.add(fields, entries(["one"]))
        store.add({"slurm": {"job_id": 4712}}, entries(["another's"]))
        made = a_store(store.url, job_field="slurm.job_id", rank_field="rank", pod_field="kubernetes.pod.name")
        out, _ = collected(made)
    assert list(out.fed) == [("llama-0", "gpu-01", 3)]


def test_a_kubernetes_job_is_asked_for_by_its_name_and_namespace() -> None:
    given = {"job_field": "pod", "job_value": "{name}-worker-[0-9]+", "namespace_field": "ns.keyword", "node_field": ""}
    with FakeElastic() as store:
        store.add({"pod": "llama.7b-worker-0", "ns": "ml"}, entries(["one"]))
        store.add({"pod": "llamax7b-worker-0", "ns": "ml"}, entries(["another's"]))
        store.add({"pod": "llama.7b-worker-0", "ns": "dev"}, entries(["another's"]))
        out, _ = collected(a_store(store.url, **given), an_ask(job_id="ml/pytorchjob/llama.7b@1f0c9a3e"))
    assert out.lines_of() == ["one"]


def test_the_selector_is_part_of_the_question() -> None:
    with FakeElastic() as store:
        store.add({"cluster": "alpha", **on("gpu-01")}, entries(["one"]))
        store.add({"cluster": "beta", **on("gpu-01")}, entries(["two"]))
        out, _ = collected(a_store(store.url, selector="cluster:alpha"))
    assert out.lines_of() == ["one"]


@pytest.mark.parametrize(
    ("source", "name", "wanted"),
    [
        ({"a": {"b": {"c": "x"}}}, "a.b.c", "x"),
        ({"a.b.c": "x"}, "a.b.c", "x"),
        ({"a": {"b.c": "x"}}, "a.b.c", "x"),
        ({"a.b": {"c": "x"}}, "a.b.c", "x"),
        ({"a": {"b": 1}, "a.b": {"c": "x"}}, "a.b.c", "x"),
        ({"a": ["x", "y"]}, "a", "x"),
        ({"a": []}, "a", ""),
        ({"a": 3}, "a", "3"),
        ({"a": None}, "a", ""),
        ({"a": {"b": "x"}}, "a", ""),
        ({"a": "x"}, "a.b", ""),
        ({}, "a.b.c", ""),
    ],
)
def test_a_field_is_found_however_its_entry_has_it(source: dict[str, Any], name: str, wanted: str) -> None:
    assert _value(source, name) == wanted


def test_an_entry_without_a_message_is_passed_over() -> None:
    with FakeElastic() as store:
        store.entries.append((NANOS, on("gpu-01")))
        store.add(on("gpu-01"), entries(["Traceback:\n  File\nError: x"]))
        out, report = collected(a_store(store.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["Traceback:", "  File", "Error: x"]
    assert (report.status, report.reason) == (ReportStatus.OK, "entries without a message were passed over")


@pytest.mark.parametrize("node", ["gpu[01]", "gpu.*", "(", "a|b", "~gpu", "gpu&1", "<1-9>", '"', "gpu#", "@", "gpu\\d"])
def test_a_hostile_name_of_a_node_matches_itself_alone(node: str) -> None:
    with FakeElastic() as store:
        store.add(on(node), entries(["its own"]))
        store.add(on("gpu-99"), entries(["another's"]))
        out, _ = collected(a_store(store.url), an_ask([node]))
    assert out.lines_of() == ["its own"]
    (clause,) = store.searches()[0]["query"]["bool"]["filter"][1]["bool"]["filter"][0]["bool"]["should"]
    assert clause["regexp"]["host.name"]["flags"] == "NONE"


def test_many_nodes_are_asked_for_in_bounded_expressions() -> None:
    nodes = [f"gpu-{number:05d}" for number in range(2_500)]
    with FakeElastic() as store:
        store.add(on("gpu-02499"), entries(["one"]))
        out, _ = collected(a_store(store.url, source=Source.APPLOG), an_ask(nodes))
    assert out.lines_of("gpu-02499") == ["one"]
    (asked,) = store.searches()
    expressions = [one["regexp"]["host.name"]["value"] for one in re_find(asked)]
    assert max(map(len, expressions)) <= 1_000
    assert len(expressions) < 100


def re_find(body: dict[str, Any]) -> list[dict[str, Any]]:
    return body["query"]["bool"]["filter"][1]["bool"]["filter"][0]["bool"]["should"]


@pytest.mark.parametrize(
    "said",
    [
        "[regexp] queries cannot be executed when 'search.allow_expensive_queries' is set to false.",
        "[regexp] query does not support [case_insensitive]",
    ],
)
def test_where_expressions_are_refused_plain_names_are_asked_for(said: str) -> None:
    class Strict(FakeElastic):
        def search(self, body: dict[str, Any]) -> Reply:
            if "regexp" in json.dumps(body):
                return 400, json.dumps({"error": {"reason": said}}).encode()
            return super().search(body)

    with Strict() as store:
        store.add(on("gpu-01"), entries(["one"]))
        store.add(on("gpu-03"), entries(["another's"]))
        out, report = collected(a_store(store.url, source=Source.APPLOG), an_ask(["GPU-01.cluster.local"]))
        store.entries.clear()
        store.add(on("gpu-01"), entries(["two"]))
        short, _ = collected(a_store(store.url, source=Source.APPLOG), an_ask(["gpu-01.cluster.local"]))
    assert out.lines_of() == []
    assert "nodes are found by their plain names alone" in report.reason
    assert short.lines_of("gpu-01.cluster.local") == ["two"]


# --- paging ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_read_to_the_end(kind: str) -> None:
    lines = [f"line {number}" for number in range(101)]
    with FakeElastic(kind) as store:
        store.add(on("gpu-01"), entries(lines))
        out, report = collected(a_store(store.url, page=10), an_ask(["gpu-01"]))
    assert out.lines_of() == lines
    assert report.status is ReportStatus.OK
    assert store.open == {}
    assert store.opened == (kind != "old")
    assert ("it has no point in time" in report.reason) == (kind == "old")


def test_entries_of_one_moment_have_an_order_in_a_point_in_time() -> None:
    both = [(NANOS + 5, f"line {number}") for number in range(95)]
    with FakeElastic() as store:
        store.add(on("gpu-01"), both)
        out, report = collected(a_store(store.url, page=10), an_ask(["gpu-01"]))
    assert out.lines_of() == [line for _, line in both]
    assert report.status is ReportStatus.OK


@pytest.mark.parametrize("kind", ["opensearch", "old"])
def test_where_they_have_none_a_moment_that_fills_a_page_is_a_gap(kind: str) -> None:
    both = [(NANOS + 5, f"line {number}") for number in range(95)] + [(NANOS + 6, "last")]
    with FakeElastic(kind) as store:
        store.add(on("gpu-01"), both)
        out, report = collected(a_store(store.url, page=10), an_ask(["gpu-01"]))
    assert len(out.lines_of()) == 11
    assert out.lines_of()[-1] == "last"
    assert report.status is ReportStatus.PARTIAL
    assert "2026-11-30T10:00:00Z to 2026-11-30T10:30:00Z: it has 96 entries, 11 came" in report.reason


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), max_size=60),
    st.integers(2, 12),
)
def test_no_entry_is_lost_or_doubled(kind: str, rows: list[tuple[int, int]], page: int) -> None:
    """Whatever shares a moment and wherever pages end; what cannot be had is said."""
    store = FakeElastic(kind)
    for number, (at, node) in enumerate(rows):
        store.add(on(f"gpu-{node}"), [(NANOS + at, f"line {number}")])
    ask = an_ask(["gpu-0", "gpu-1", "gpu-2"])
    made = msgspec.structs.replace(a_store("http://x"), page=page)
    asked = 0

    def get_json(server: Server, path: str, budget: Budget, answer: type[Any], **given: Any) -> Any:
        nonlocal asked
        asked += 1
        params = {"method": given.get("method", "POST"), "body": json.dumps(given.get("json") or {})}
        code, body = store.handle(path, params, {})
        if code != 200:
            raise http.Refused(body.decode(), code, body.decode())
        return msgspec.json.decode(body, type=answer)

    out = Recorder(collector="es", source=Source.SYSLOG, ruleset=the_ruleset())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elasticsearch_pages, "get_json", get_json)
        made._pages(ask, out).read(made.queries(ask))
    got = sorted(entry for fed in out.fed.values() for entry in fed)
    wanted = sorted((time, entry["message"]) for time, entry in store.entries)
    at_once = [sum(1 for time, _ in wanted if time == moment) for moment, _ in wanted]
    assert len(set(got)) == len(got)
    assert set(got) <= set(wanted)
    if kind == "elasticsearch" or max(at_once, default=0) < page:
        assert got == wanted
    _, report = out.close()
    assert got == wanted or f"it has {len(wanted)} entries, {len(got)} came" in report.reason
    assert store.open == {}
    assert asked <= 4 * len(rows) + 10


def test_a_page_larger_than_an_index_allows_is_made_smaller() -> None:
    lines = [f"line {number}" for number in range(101)]
    with FakeElastic(window=30) as store:
        store.add(on("gpu-01"), entries(lines))
        out, report = collected(a_store(store.url), an_ask(["gpu-01"]))
    assert out.lines_of() == lines
    assert report.status is ReportStatus.OK


def test_entries_too_long_for_one_answer_are_asked_for_in_smaller_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.get_json, "__kwdefaults__", {**http.get_json.__kwdefaults__, "most": 100_000})
    with FakeElastic() as store:
        store.add(on("gpu-01"), entries(["x" * 5_000 for _ in range(100)]))
        _, report = collected(a_store(store.url, page=80), an_ask(["gpu-01"]))
    assert (report.status, report.read) == (ReportStatus.OK, 100)
    assert "its entries are long: pages of 10 were read" in report.reason


def test_a_long_window_is_read_from_its_end() -> None:
    with FakeElastic() as store:
        store.add(on("gpu-01"), entries([f"hour {hour}" for hour in range(24)], step=HOUR))
        out, report = collected(a_store(store.url), an_ask(["gpu-01"], minutes=24 * 60))
    assert out.lines_of() == [f"hour {hour}" for hour in range(24)]
    assert next(iter(out.fed))[0] == "gpu-01@2026-12-01T09:00:00Z"
    assert len(store.searches()) == 5
    assert report.status is ReportStatus.OK


def test_what_comes_in_meanwhile_moves_nothing() -> None:
    class Growing(FakeElastic):
        def search(self, body: dict[str, Any]) -> Reply:
            reply = super().search(body)
            self.add(on("gpu-01"), [(NANOS + 1, "late")])
            return reply

    lines = [f"line {number}" for number in range(55)]
    with Growing() as store:
        store.add(on("gpu-01"), entries(lines))
        out, _ = collected(a_store(store.url, page=10), an_ask(["gpu-01"]))
    assert out.lines_of() == lines


def test_the_point_in_time_that_was_named_last_is_used() -> None:
    class Renaming(FakeElastic):
        def search(self, body: dict[str, Any]) -> Reply:
            code, raw = super().search(body)
            answer = json.loads(raw)
            if "pit_id" in answer:
                self.open[answer["pit_id"] + "x"] = self.open.pop(answer["pit_id"])
                answer["pit_id"] += "x"
            return code, json.dumps(answer).encode()

    with Renaming() as store:
        store.add(on("gpu-01"), entries([f"line {number}" for number in range(35)]))
        out, report = collected(a_store(store.url, page=10), an_ask(["gpu-01"]))
    assert (len(out.lines_of()), report.status, store.open) == (35, ReportStatus.OK, {})


# --- gaps -----------------------------------------------------------------------------------------------------------


def an_answer(**given: Any) -> bytes:
    hit = {"_source": {"message": "one", "host": {"name": "gpu-01"}}, "sort": [NANOS]}
    plain = {"timed_out": False, "_shards": {"total": 3, "failed": 0}, "hits": {"hits": [hit], "total": {"value": 1}}}
    return json.dumps({**plain, **given}).encode()


def test_shards_that_failed_are_a_gap_with_their_reasons() -> None:
    failures = [
        {
            "shard": 1,
            "index": "logs-1",
            "node": "x",
            "reason": {"type": "circuit", "reason": "[parent] Data too large"},
        },
        {"shard": 2, "index": "logs-1", "reason": {"type": "circuit", "reason": "[parent] Data too large"}},
        {"shard": 0, "index": None, "reason": {"type": "no_shard_available_action_exception", "reason": None}},
    ]
    shards = {"total": 5, "successful": 2, "skipped": 0, "failed": 3, "failures": failures}
    with raw_server(ok(an_answer(_shards=shards))) as raw:
        out, report = collected(a_store(raw.url), an_ask(["gpu-01"]))
    assert out.lines_of() == ["one"]
    assert report.status is ReportStatus.PARTIAL
    assert report.reason == (
        "3 of 5 shards failed: logs-1: [parent] Data too large; None: no_shard_available_action_exception"
    )


def test_a_search_that_ran_out_of_time_is_a_gap() -> None:
    with raw_server(ok(an_answer(timed_out=True))) as raw:
        _, report = collected(a_store(raw.url), an_ask(["gpu-01"]))
    assert (report.status, report.read) == (ReportStatus.PARTIAL, 1)
    assert "a search was not finished in its time" in report.reason


def test_fewer_entries_than_it_has_are_a_gap() -> None:
    hits = json.loads(an_answer())["hits"]
    with raw_server(ok(an_answer(hits={**hits, "total": {"value": 7, "relation": "eq"}}))) as raw:
        _, report = collected(a_store(raw.url), an_ask(["gpu-01"]))
    assert report.status is ReportStatus.PARTIAL
    assert report.reason.endswith("it has 7 entries, 1 came")


def test_an_index_that_is_not_there_is_an_error_not_silence() -> None:
    nothing = an_answer(_shards={"total": 0, "failed": 0}, hits={"hits": [], "total": {"value": 0}})
    with raw_server(ok(nothing)) as raw:
        _, report = collected(a_store(raw.url))
    assert (report.status, report.reason) == (
        ReportStatus.ERROR,
        "index: no index of that name or pattern is there",
    )


def test_nothing_is_said_to_be_nothing() -> None:
    with FakeElastic() as store:
        store.add(on("gpu-01"), [(NANOS - HOUR, "earlier")])
        _, report = collected(a_store(store.url), an_ask(["gpu-01"]))
    assert report.status is ReportStatus.EMPTY
    assert "asked logs-* for host.name" in report.reason


def test_nodes_that_it_does_not_know_are_a_gap() -> None:
    with FakeElastic() as store:
        store.add(on("gpu-01"), entries(["one"]))
        store.add(on("gpu-02"), [(NANOS - HOUR, "quiet since")])
        _, report = collected(a_store(store.url), an_ask(["gpu-01", "gpu-02", "gpu-03"]))
    assert report.status is ReportStatus.PARTIAL
    assert report.reason == "no field host.name means gpu-03: no log of theirs comes in here"


# --- trouble --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [400, 401, 403, 404])
def test_a_refusal_ends_it_at_once_with_its_reason(code: int) -> None:
    body = {"error": {"root_cause": [{"type": "x", "reason": "no such index [logs]"}], "reason": "it failed"}}
    with raw_server(status(code, json.dumps(body).encode())) as raw:
        _, report = collected(a_store(raw.url), an_ask(minutes=600))
    assert (report.status, len(raw.requests)) == (ReportStatus.ERROR, 1)
    assert f"HTTP {code}: " in report.reason
    assert "it failed: no such index [logs]" in report.reason


def test_a_part_that_fails_is_a_gap_and_the_others_are_read() -> None:
    class Broken(FakeElastic):
        def search(self, body: dict[str, Any]) -> Reply:
            window = body["query"]["bool"]["filter"][0]["range"]["@timestamp"]
            if window["lt"] == written(NANOS + 3 * HOUR):
                return 503, b'{"error":{"reason":"no master"}}'
            return super().search(body)

    with Broken() as store:
        store.add(on("gpu-01"), entries([f"hour {hour}" for hour in range(3)], step=HOUR))
        out, report = collected(a_store(store.url), an_ask(["gpu-01"], minutes=180))
    assert out.lines_of() == ["hour 0", "hour 1"]
    assert report.status is ReportStatus.PARTIAL
    assert report.reason.endswith("HTTP 503: no master")


def test_a_store_that_hangs_ends_with_the_budget() -> None:
    def hang(connection: socket.socket, request: bytes) -> None:
        connection.recv(1)

    with raw_server(hang) as raw:
        _, report = collected(a_store(raw.url), an_ask(seconds=0.3))
    assert (report.status, report.reason) == (ReportStatus.ERROR, f"{raw.url}: no answer within 0.3 s")


def test_what_came_before_it_hung_is_kept_and_the_point_in_time_is_closed() -> None:
    class Tired(FakeElastic):
        left = 3

        def search(self, body: dict[str, Any]) -> Reply:
            self.left -= 1
            return super().search(body) if self.left > 0 else (503, b"tired")

    with Tired() as store:
        store.add(on("gpu-01"), entries([f"line {number}" for number in range(55)]))
        out, report = collected(a_store(store.url, page=10), an_ask(["gpu-01"]))
    assert out.lines_of() == [f"line {number}" for number in range(19)]
    assert report.status is ReportStatus.PARTIAL
    assert report.reason.endswith("HTTP 503: tired")
    assert store.open == {}


def test_a_point_in_time_that_cannot_be_closed_is_left_to_end() -> None:
    class Stuck(FakeElastic):
        def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> Reply:
            return (403, b"no") if params["method"] == "DELETE" else super().handle(path, params, headers)

    with Stuck() as store:
        store.add(on("gpu-01"), entries([f"line {number}" for number in range(25)]))
        out, report = collected(a_store(store.url, page=10), an_ask(["gpu-01"]))
    assert (len(out.lines_of()), report.status) == (25, ReportStatus.OK)
    assert "its point in time was left to end by itself" in report.reason


def test_a_flood_ends_with_the_bytes_and_says_what_was_not_read() -> None:
    with FakeElastic() as store:
        store.add(on("gpu-01"), entries(["x" * 5_000 for _ in range(1_000)]))
        _, report = collected(a_store(store.url, page=100), an_ask(["gpu-01"], megabytes=1))
    assert 50 < report.read < 250
    assert report.status is ReportStatus.PARTIAL
    assert report.reason.startswith("more than 1 MiB; the rest was not read; of 2026-11-30T10:00:00Z to")


def test_an_answer_that_is_cut_off_is_said_to_be() -> None:
    def cut(connection: socket.socket, request: bytes) -> None:
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"hits":{"hits":[')

    with raw_server(cut) as raw:
        _, report = collected(a_store(raw.url))
    assert report.status is ReportStatus.ERROR
    assert "the answer was cut off after 17 bytes" in report.reason


@pytest.mark.parametrize(
    ("sort", "said"),
    [
        ([["2026-11-30"]], "an entry stands at '2026-11-30', which is no time"),
        ([[1.5]], "which is no time"),
        ([[]], "an entry that does not say where it stands"),
        ([[NANOS + 1], [NANOS]], "its entries are not in the order that was asked for"),
    ],
)
def test_entries_that_do_not_stand_in_time_are_an_error(sort: list[list[Any]], said: str) -> None:
    hits = [{"_source": {"message": "x"}, "sort": one} for one in sort]
    with raw_server(ok(an_answer(hits={"hits": hits, "total": {"value": 1}}))) as raw:
        _, report = collected(a_store(raw.url))
    assert report.status is ReportStatus.ERROR
    assert said in report.reason


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"hits": 1}', b'{"hits":{"hits":[{"_source":3}]}}'])
def test_answers_that_are_none_are_said(body: bytes) -> None:
    with raw_server(ok(body)) as raw:
        _, report = collected(a_store(raw.url))
    assert report.status is ReportStatus.ERROR
    assert "the answer is not what was expected" in report.reason


# --- settings and probe ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"node_field": ""}, "selector"),
        ({"message_field": ""}, "message_field"),
        ({"time_field": ""}, "time_field"),
        ({"job_field": "job", "job_value": "4711"}, "job_value"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_key(given: dict[str, Any], key: str) -> None:
    with pytest.raises(ValueError, match=f"^{key}: "):
        a_store("http://x", **given)


@pytest.mark.parametrize("index", ["", "a b", "../_cluster/settings", "a?b", "a/_delete_by_query"])
def test_an_index_that_is_none_is_refused(index: str) -> None:
    plain = {"name": "es", "kind": "elasticsearch", "source": "syslog", "server": {"url": "http://x"}, "index": index}
    with pytest.raises(msgspec.ValidationError, match=re.escape("$.index")):
        msgspec.convert(plain, Elasticsearch)


def test_an_api_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ES_KEY", "aWQ6a2V5")
    with raw_server(ok(an_answer())) as raw:
        server = Server(url=raw.url, token_env="ES_KEY", auth_scheme="ApiKey")
        collected(msgspec.structs.replace(a_store(raw.url), server=server))
    assert b"\r\nAuthorization: ApiKey aWQ6a2V5\r\n" in raw.requests[0]


@pytest.mark.parametrize(("kind", "version"), [("elasticsearch", "8.15.0"), ("opensearch", "opensearch 2.17.0")])
def test_a_probe_says_what_there_is(kind: str, version: str) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    newest = nanoseconds(now - timedelta(minutes=2))
    with FakeElastic(kind) as store:
        fields = {"job": "4711", "event": {"ingested": f"{now - timedelta(minutes=1):%Y-%m-%dT%H:%M:%S.000Z}"}}
        store.add({**fields, **on("gpu-01.cluster.local")}, [(newest - 5 * SECOND, "one"), (newest, "two")])
        found = a_store(store.url, job_field="job").probe(["gpu-01", "gpu-02"], Budget.of(seconds=5, megabytes=8))
    assert found.version == version
    assert found.newest == now - timedelta(minutes=2)
    assert found.arrived == now - timedelta(minutes=1)
    assert (found.nodes, found.jobs, found.notes) == ({"gpu-01"}, {"4711"}, ())


def test_a_probe_says_what_a_text_field_cannot() -> None:
    class Text(FakeElastic):
        def search(self, body: dict[str, Any]) -> Reply:
            if "aggs" in body:
                return 400, b'{"error":{"reason":"Text fields are not optimised for aggregations"}}'
            return super().search(body)

    with Text() as store:
        found = a_store(store.url).probe(["gpu-01"], Budget.of(seconds=5, megabytes=8))
    assert (found.newest, found.nodes) == (None, frozenset())
    assert found.notes[0] == "no line within the last hour in logs-* for host.name"
    assert found.notes[1].startswith("host.name cannot be counted (a text field? then name its .keyword): ")
