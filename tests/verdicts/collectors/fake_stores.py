"""Log stores on a loopback port that answer as the documented ones do, from memory, quickly.

`FakeElastic` speaks `_search` with the queries that are asked here, `search_after`, points in time in Elasticsearch's
and in OpenSearch's way, and terms aggregations, as in
https://www.elastic.co/docs/reference/elasticsearch/rest-apis/paginate-search-results and
https://docs.opensearch.org/latest/search-plugins/searching-data/point-in-time-api/ .

`FakeVictoria` speaks `query`, `hits` and `field_values` as in https://docs.victoriametrics.com/victorialogs/querying/ ,
with the filters of LogsQL that are asked for here; entries come in no order.

`FakeLoki` speaks `query_range`, label values and build information; paging, limits, directions and times as in
https://grafana.com/docs/loki/latest/reference/loki-http-api/ . It is a small faithful store for tests of paging
and, with `same_for_all`, a source that answers at once for benchmarks: whatever job is asked for, the same
answers are made once and sent again.
"""

import json
import re
import socket
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from verdicts.collectors.stores import moment, parse_time

_MATCHER = re.compile(r'\s*([\w.]+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")\s*,?')
_FILTER = re.compile(r'\s*(\|=|!=)\s*("(?:[^"\\]|\\.)*")')

#: What a handler gives: a status, a body.
Reply = tuple[int, bytes]


class HttpServer:
    """HTTP/1.1 with connections that stay open, a thread each, and nothing that is not needed."""

    def __init__(self, handle: Callable[[str, dict[str, str], dict[str, str]], Reply]) -> None:
        """`handle` takes the path, the parameters of address and form, and the headers; a body of JSON is `body`."""
        self._handle = handle
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it has gone by itself
        self._thread.join(5)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        self._open.add(connection)
        with connection:
            data = b""
            try:
                while True:
                    while b"\r\n\r\n" not in data:
                        if not (piece := connection.recv(65_536)):
                            return
                        data += piece
                    head, _, data = data.partition(b"\r\n\r\n")
                    line, *rows = head.decode("latin-1").split("\r\n")
                    headers = {name.lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
                    length = int(headers.get("content-length", 0))
                    while len(data) < length:
                        data += connection.recv(65_536)
                    body, data = data[:length], data[length:]
                    target = urlsplit(line.split(" ")[1])
                    form = {"body": body.decode()} if body[:1] == b"{" else dict(parse_qsl(body.decode()))
                    params = {**dict(parse_qsl(target.query)), **form, "method": line.split(" ")[0]}
                    try:
                        status, answer = self._handle(unquote(target.path), params, headers)
                    except (AssertionError, KeyError, ValueError) as error:
                        status, answer = 418, f"not what a fake store knows: {error!r}".encode()
                    told = f"HTTP/1.1 {status} So\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}"
                    connection.sendall(told.encode() + b"\r\n\r\n" + answer)
            except OSError:
                return
            finally:
                self._open.discard(connection)


def matches(selector: str, labels: dict[str, str]) -> bool:
    """Whether a stream's labels are what the matchers between braces say; expressions match the whole value."""
    position = 0
    while position < len(selector.rstrip()):
        found = _MATCHER.match(selector, position)
        assert found, f"no matcher: {selector[position:]!r}"
        name, sign, text = found[1], found[2], json.loads(found[3])
        value = labels.get(name, "")
        hit = bool(re.fullmatch(text, value)) if "~" in sign else value == text
        if hit == sign.startswith("!"):
            return False
        position = found.end()
    return True


@dataclass
class _Held:
    labels: dict[str, str]
    times: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)


class FakeLoki:
    """Streams of entries, each with times in order, and the interface over them.

    `max_entries` is Loki's max_entries_limit_per_query. `requests` are the path and parameters of each question.
    With `same_for_all` the answers depend on the time and the page asked for alone.
    """

    def __init__(self, *, max_entries: int = 5_000, same_for_all: bool = False) -> None:
        self.max_entries, self.same_for_all = max_entries, same_for_all
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.headers: list[dict[str, str]] = []
        self._streams: list[_Held] = []
        self._made: dict[tuple[str, ...], Reply] = {}
        self._server: HttpServer | None = None

    @property
    def url(self) -> str:
        """Where it answers, while it is open as a context."""
        assert self._server is not None
        return self._server.url

    def __enter__(self) -> Self:
        self._server = HttpServer(self.handle).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.__exit__(kind, error, trace)

    def add(self, labels: dict[str, str], entries: Iterable[tuple[int, str]]) -> None:
        """Take a stream's entries: nanoseconds since 1970 and lines."""
        held = next((one for one in self._streams if one.labels == labels), None)
        if held is None:
            held = _Held(labels)
            self._streams.append(held)
        both = sorted([*zip(held.times, held.lines, strict=True), *entries], key=lambda entry: entry[0])
        held.times, held.lines = [time for time, _ in both], [line for _, line in both]
        held.written = [json.dumps([str(time), line]).encode() for time, line in both]
        self._made.clear()

    def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> Reply:
        """Answer one question."""
        params = {name: value for name, value in params.items() if name != "method"}
        self.requests.append((path, params))
        self.headers.append(headers)
        if path.endswith("/query_range"):
            names = ("start", "end", "limit", "direction") if self.same_for_all else tuple(params)
            key = tuple(params.get(name, "") for name in names)
            if key not in self._made:
                self._made[key] = self._query_range(params)
            return self._made[key]
        if path.endswith("/buildinfo"):
            return 200, b'{"version":"3.5.1","revision":"abc","branch":"main","goVersion":"go1.24"}'
        if found := re.search(r"/label/(\w+)/values$", path):
            selector = params.get("query", "{}")[1:-1]
            values = {one.labels.get(found[1]) for one in self._streams if matches(selector, one.labels)} - {None}
            return 200, json.dumps({"status": "success", "data": sorted(map(str, values))}).encode()
        if path.endswith("/labels"):
            return 200, b'{"status":"success","data":[]}'
        return 404, b"404 page not found\n"

    def _query_range(self, params: dict[str, str]) -> Reply:
        limit, start, end = int(params.get("limit", 100)), int(params["start"]), int(params["end"])
        if limit > self.max_entries:
            told = "max entries limit per query exceeded, limit > max_entries_limit_per_query"
            return 400, f"{told} ({limit} > {self.max_entries})".encode()
        selector, _, behind = params["query"].rpartition("}")
        found = []
        for held in self._streams:
            if self.same_for_all or matches(selector.strip()[1:], held.labels):
                low, high = bisect_left(held.times, start), bisect_left(held.times, end)
                found += [
                    (held.times[index], held, index) for index in range(low, high) if _passes(behind, held, index)
                ]
        # Of entries with one time, Loki gives those of any stream first.
        found.sort(key=lambda one: one[0], reverse=params.get("direction", "backward") == "backward")
        found = found[:limit]
        streams: dict[int, tuple[_Held, list[bytes]]] = {}
        for _, held, index in found:
            streams.setdefault(id(held), (held, []))[1].append(held.written[index])
        result = b",".join(
            b'{"stream":%s,"values":[%s]}' % (json.dumps(held.labels).encode(), b",".join(rows))
            for held, rows in streams.values()
        )
        stats = b'{"summary":{"totalEntriesReturned":%d,"execTime":0.01}}' % len(found)
        return 200, b'{"status":"success","data":{"resultType":"streams","result":[%s],"stats":%s}}' % (result, stats)


def _passes(behind: str, held: _Held, index: int) -> bool:
    """Whether a line passes the line filters behind a selector."""
    position = 0
    while position < len(behind.rstrip()):
        found = _FILTER.match(behind, position)
        assert found, f"no filter: {behind[position:]!r}"
        if (json.loads(found[2]) in held.lines[index]) != (found[1] == "|="):
            return False
        position = found.end()
    return True


_LOGSQL = re.compile(r"_time:\[(\S+), (\S+)\) (.*?)(?: \| fields (.*))?", re.DOTALL)
_TEXT = r'"(?:[^"\\]|\\.)*"'
_FIELD_IS = re.compile(rf"\s*({_TEXT}):(=|~)({_TEXT})")
_IN_BRACKETS = re.compile(r"\s*\(\{(.*?)\}\)", re.DOTALL)


def _selects(filters: str, entry: dict[str, str]) -> bool:
    """Whether an entry is what a query of ours selects. Expressions match anywhere, as they do there."""
    position = 0
    while position < len(filters.rstrip()):
        if filters[position] == "*":
            position += 1
        elif found := _FIELD_IS.match(filters, position):
            name, sign, text = json.loads(found[1]), found[2], json.loads(found[3])
            value = entry.get(name, "")
            # (?i) may stand behind ^ there, and must be first here.
            text = "(?i)" + text.replace("(?i)", "") if "(?i)" in text else text
            if not (value == text if sign == "=" else re.search(text, value)):
                return False
            position = found.end()
        else:
            found = _IN_BRACKETS.match(filters, position)
            assert found, f"no filter: {filters[position:]!r}"
            if not matches(found[1], entry):
                return False
            position = found.end()
    return True


class FakeVictoria:
    """Entries of fields, with times in nanoseconds, and the interface over them."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.entries: list[tuple[int, dict[str, str]]] = []
        self._server: HttpServer | None = None

    @property
    def url(self) -> str:
        """Where it answers, while it is open as a context."""
        assert self._server is not None
        return self._server.url

    def __enter__(self) -> Self:
        self._server = HttpServer(self.handle).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.__exit__(kind, error, trace)

    def add(self, fields: dict[str, str], entries: Iterable[tuple[int, str]]) -> None:
        """Take entries with these fields beside their message."""
        self.entries += [(time, {**fields, "_msg": line}) for time, line in entries]

    def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> Reply:
        """Answer one question."""
        params = {name: value for name, value in params.items() if name != "method"}
        self.requests.append((path, params))
        if path == "/metrics":
            return 200, b'vm_app_version{version="victoria-logs-20260901-v1.32.0", short_version="v1.32.0"} 1\n'
        if path == "/health":
            return 200, b"OK"
        if not path.startswith("/select/logsql/"):
            return 400, b"unsupported path requested: " + path.encode()
        query = _LOGSQL.fullmatch(params["query"])
        assert query, f"no query of ours: {params['query']!r}"
        begin, end = parse_time(query[1]), parse_time(query[2])
        found = [(time, entry) for time, entry in self.entries if begin <= time < end and _selects(query[3], entry)]
        if path.endswith("/hits"):
            step = int(params["step"].removesuffix("ns"))
            counts = Counter(time // step * step for time, _ in found)
            series = {"fields": {}, "timestamps": [written(at) for at in sorted(counts)], "total": len(found)}
            values = [counts[at] for at in sorted(counts)]
            return 200, json.dumps({"hits": [{**series, "values": values}] if found else []}).encode()
        if path.endswith("/field_values"):
            hits = Counter(entry.get(params["field"], "") for _, entry in found)
            values = [{"value": value, "hits": count} for value, count in hits.items() if value]
            return 200, json.dumps({"values": values}).encode()
        if "limit" in params:
            found = sorted(found, key=lambda one: one[0], reverse=True)[: int(params["limit"])]
        else:
            found = found[len(found) // 2 :] + found[: len(found) // 2]
        wanted = [name.strip().strip('"') for name in (query[4] or "").split(",") if name.strip() != "_time"]
        rows = []
        for time, entry in found:
            kept = {name: entry[name] for name in wanted if name in entry}
            rows.append(json.dumps({**kept, "_time": written(time)}) + "\n")
        return 200, "".join(rows).encode()


def written(nanos: int) -> str:
    """A time as VictoriaLogs writes it."""
    return f"{moment(nanos):%Y-%m-%dT%H:%M:%S}.{nanos % 10**9:09d}Z"


class FakeElastic:
    """Entries with their times in nanoseconds, and the interface over them.

    `kind` is "elasticsearch" (points in time with `_shard_doc`), "opensearch" (without), or "old" (no points in time).
    """

    def __init__(self, kind: str = "elasticsearch", *, window: int = 10_000) -> None:
        self.kind, self.window = kind, window
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self.entries: list[tuple[int, dict[str, Any]]] = []
        self.open: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self.opened = 0
        self._server: HttpServer | None = None

    @property
    def url(self) -> str:
        """Where it answers, while it is open as a context."""
        assert self._server is not None
        return self._server.url

    def __enter__(self) -> Self:
        self._server = HttpServer(self.handle).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.__exit__(kind, error, trace)

    def add(self, fields: dict[str, Any], entries: Iterable[tuple[int, str]]) -> None:
        """Take entries with these fields beside their message."""
        self.entries += [(time, {**fields, "message": line}) for time, line in entries]

    def searches(self) -> list[dict[str, Any]]:
        """The bodies of the searches so far."""
        return [body for _, path, body in self.requests if path.endswith("_search")]

    def handle(self, path: str, params: dict[str, str], headers: dict[str, str]) -> Reply:
        """Answer one question."""
        method, body = params["method"], json.loads(params.get("body", "{}"))
        self.requests.append((method, path, body))
        way = {"elasticsearch": "/_pit", "opensearch": "/_search/point_in_time"}.get(self.kind, "/nowhere")
        if path == "/":
            told = (
                {"number": "8.15.0"}
                if self.kind == "elasticsearch"
                else {"number": "2.17.0", "distribution": self.kind}
            )
            return 200, json.dumps({"version": told}).encode()
        if path.endswith(way):
            if method == "DELETE":
                for name in [body["id"]] if "id" in body else body["pit_id"]:
                    del self.open[name]
                return 200, b'{"succeeded":true,"num_freed":1}'
            self.opened += 1
            self.open[f"view{self.opened}"] = list(self.entries)
            return 200, json.dumps({"id" if way == "/_pit" else "pit_id": f"view{self.opened}"}).encode()
        if not path.endswith("/_search"):
            return 400, b'{"error":"no handler found for uri [%s] and method [POST]","status":400}' % path.encode()
        return self.search(body)

    def search(self, body: dict[str, Any]) -> Reply:
        """One search."""
        size, pit = body["size"], body.get("pit")
        if size > self.window:
            told = f"Result window is too large, from + size must be less than or equal to: [{self.window}] but was [{size}]"
            return 400, json.dumps(
                {"error": {"root_cause": [{"reason": told}], "reason": "all shards failed"}}
            ).encode()
        entries = self.open[pit["id"]] if pit else self.entries
        found = [
            (time, place, entry) for place, (time, entry) in enumerate(entries) if _is_hit(body["query"], time, entry)
        ]
        total = len(found)
        down = next(iter(body.get("sort", [{"": {}}])[0].values()), {}).get("order") == "desc"
        found.sort(key=lambda one: one[:2], reverse=down)
        ordered = bool(pit) and self.kind == "elasticsearch"
        after = body.get("search_after")
        if after:
            found = [one for one in found if list(one[: len(after)]) > after]
        hits = [
            {"_source": _kept(entry, body["_source"]), "sort": [time, place] if ordered else [time]}
            for time, place, entry in found[:size]
        ]
        answer: dict[str, Any] = {"timed_out": False, "_shards": {"total": 3, "successful": 3, "failed": 0}}
        answer["hits"] = {"hits": hits}
        if body.get("track_total_hits"):
            answer["hits"]["total"] = {"value": total, "relation": "eq"}
        if pit:
            answer["pit_id"] = pit["id"]
        if "aggs" in body:
            name = body["aggs"]["values"]["terms"]["field"]
            counts = Counter(text for _, _, entry in found if (text := _inner(entry, name)) is not None)
            buckets = [{"key": key, "doc_count": count} for key, count in counts.items()]
            answer["aggregations"] = {"values": {"buckets": buckets, "sum_other_doc_count": 0}}
        return 200, json.dumps(answer).encode()


def _inner(entry: dict[str, Any], name: str) -> Any:
    """A field by its name with dots, whichever way the entry has it."""
    name = name.removesuffix(".keyword")
    if name in entry:
        return entry[name]
    head, _, rest = name.partition(".")
    return _inner(entry[head], rest) if rest and isinstance(entry.get(head), dict) else None


def _kept(entry: dict[str, Any], fields: list[str] | bool) -> dict[str, Any]:
    heads = {name.partition(".")[0] for name in fields} if isinstance(fields, list) else set()
    return {name: value for name, value in entry.items() if name.partition(".")[0] in heads}


def _at(text: str | int) -> int:
    return parse_time(text) if isinstance(text, str) else text * 10**6


def _is_hit(query: dict[str, Any], time: int, entry: dict[str, Any]) -> bool:
    """Whether an entry is what a query of ours finds."""
    ((kind, what),) = query.items()
    if kind == "bool":
        some = any(_is_hit(one, time, entry) for one in what["should"]) if "should" in what else True
        return some and all(_is_hit(one, time, entry) for one in what.get("filter", []))
    if kind == "query_string":
        name, _, text = what["query"].partition(":")
        return str(_inner(entry, name)) == text
    ((name, wanted),) = what.items()
    if kind == "range":
        return _at(wanted["gte"]) <= time < _at(wanted["lt"])
    value = str(_inner(entry, name))
    if kind == "terms":
        return value in wanted
    if kind == "term":
        return value == wanted["value"]
    assert kind == "regexp", kind
    assert len(wanted["value"]) <= 1_000
    flags = re.IGNORECASE if wanted.get("case_insensitive") else re.NOFLAG
    return re.fullmatch(wanted["value"], value, flags) is not None
