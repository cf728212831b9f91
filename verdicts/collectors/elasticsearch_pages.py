"""Reading a window of an Elasticsearch or OpenSearch page by page, with what each answer says of its own gaps.

One page is one search. Where there is more, the others are read of a point in time, so that what comes in meanwhile
moves nothing. Elasticsearch gives each entry there a place of its own among those of one time (`_shard_doc`); where
a store does not, a full page's last moment is left to the next page, which has all of it.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from verdicts.collectors.ask import Ask, Budget, BudgetSpent, SourceError, Unreachable
from verdicts.collectors.http import Overloaded, Refused, Server, TooLong, get_json
from verdicts.collectors.labels import Nodes
from verdicts.collectors.sink import Sink
from verdicts.collectors.stores import Batch, Key, moment, spans, stamp

#: Seconds that closing a point in time may take; it ends by itself too.
CLOSING = 2.0
_WINDOW = re.compile(r"Result window is too large.*?equal to: \[(\d+)\]")
_MILLIS = 10**15


class Hit(msgspec.Struct):
    """One entry: what was asked for of it, and where it stands."""

    source: dict[str, Any] = msgspec.field(name="_source", default_factory=dict)
    sort: list[Any] = []


class _Reason(msgspec.Struct, frozen=True):
    type: str = ""
    reason: str | None = ""


class _Failure(msgspec.Struct):
    index: str | None = ""
    reason: _Reason = _Reason()


class _Shards(msgspec.Struct):
    total: int = 0
    failed: int = 0
    failures: list[_Failure] = []


class _Total(msgspec.Struct):
    value: int
    relation: str = "eq"


class _Hits(msgspec.Struct):
    hits: list[Hit] = []
    total: _Total | int | None = None


class _Bucket(msgspec.Struct):
    key: str | int | float = ""


class _Terms(msgspec.Struct):
    buckets: list[_Bucket] = []
    sum_other_doc_count: int = 0


class Found(msgspec.Struct):
    """What `_search` answers."""

    hits: _Hits
    timed_out: bool = False
    shards: _Shards = msgspec.field(name="_shards", default_factory=_Shards)
    pit_id: str = ""
    aggregations: dict[str, _Terms] = {}


class _Opened(msgspec.Struct):
    id: str = ""
    pit_id: str = ""


def search(server: Server, index: str, body: dict[str, Any], budget: Budget, *, seconds: float | None = None) -> Found:
    """One search. Raises SourceError."""
    # With a point in time the body says what is searched.
    path = "/_search" if "pit" in body else f"/{quote(index, safe='*,-_.')}/_search"
    params = {"allow_partial_search_results": "true"}
    return get_json(server, path, budget, Found, json=body, params=params, seconds=seconds)


def nanos_of(value: object) -> int:
    """A place in time as `numeric_type: date_nanos` gives it; of a store that does not know it, milliseconds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise SourceError(f"time_field: an entry stands at {str(value)[:60]!r}, which is no time; is it a date there?")
    return value if abs(value) >= _MILLIS else value * 10**6


@dataclass
class PointInTime:
    """A view of the index that stays as it is, opened when first needed and closed at the end."""

    server: Server
    index: str
    budget: Budget
    tried: bool = False
    _id: str = ""
    _way: str = ""
    notes: list[str] = field(default_factory=list)

    def open(self) -> None:
        """Open one in Elasticsearch's way, else in OpenSearch's; do without where there is none."""
        if self.tried:
            return
        self.tried = True
        params = {"keep_alive": self._alive()}
        said = ""
        for way in ("_pit", "_search/point_in_time"):
            path = f"/{quote(self.index, safe='*,-_.')}/{way}"
            try:
                # Neither takes a body, but a POST it must be.
                answer = get_json(self.server, path, self.budget, _Opened, params=params, method="POST")
            except Overloaded:
                raise
            except Refused as error:
                said = str(error)
                continue
            self._id, self._way = answer.id or answer.pit_id, way
            if self._id:
                return
        self.notes.append(f"it has no point in time, so that what came in meanwhile may be read or not: {said}")

    def __bool__(self) -> bool:
        return bool(self._id)

    def part(self) -> dict[str, Any]:
        """What of a search names it."""
        return {"pit": {"id": self._id, "keep_alive": self._alive()}} if self._id else {}

    def moved(self, pit_id: str) -> None:
        """A search may answer with another name for it, which is the one to use from then on."""
        if self._id and pit_id:
            self._id = pit_id

    def close(self) -> None:
        """Close it, with a little time of its own: the budget may be spent."""
        if not self._id:
            return
        body = {"id": self._id} if self._way == "_pit" else {"pit_id": [self._id]}
        budget = Budget.of(seconds=CLOSING, megabytes=1)
        try:
            get_json(self.server, f"/{self._way}", budget, dict[str, Any], json=body, method="DELETE")
        except SourceError as error:
            self.notes.append(f"its point in time was left to end by itself: {error}")
        self._id = ""

    def _alive(self) -> str:
        return f"{int(self.budget.seconds) + 30}s"


@dataclass
class _Part:
    """A search for a part of the window, and how far it has come."""

    query: dict[str, Any]
    begin: int
    end: int
    name: str
    after: list[Any] = field(default_factory=list)
    got: int = 0
    total: int | None = None
    #: A moment that filled a page in a store that has no order for the entries of one time.
    blurred: int = 0


#: An entry's stream with its node as it is called there, and its line.
Line = tuple[Key, str]


class Pages:
    """One collection. `only_nodes`: entries of other nodes than the attempt's are not its own."""

    def __init__(
        self,
        ask: Ask,
        out: Sink,
        server: Server,
        index: str,
        *,
        size: int,
        time_field: str,
        fields: list[str],
        line: Callable[[dict[str, Any]], Line],
        only_nodes: bool,
    ) -> None:
        self._ask, self._out, self._server, self._index = ask, out, server, index
        self._size, self._time_field, self._fields, self._line = size, time_field, fields, line
        self._only_nodes, self._nodes = only_nodes, Nodes(ask.nodes)
        self._view = PointInTime(server, index, ask.budget)
        #: The attempt's nodes that an entry came from.
        self.heard: set[str] = set()

    def read(self, queries: Iterable[dict[str, Any]]) -> None:
        """Every query for every part of the window, the last part first. Raises SourceError."""
        wanted = list(queries)
        todo = [(query, *span) for span in spans(self._ask) for query in wanted]
        failed = 0
        try:
            for number, (query, begin, end) in enumerate(todo):
                part = _Part(query, begin, end, f"@{stamp(begin)}" if len(todo) > 1 else "")
                try:
                    self._read(part, last=number == len(todo) - 1)
                    failed = 0
                except BudgetSpent as error:
                    first = min(begin for _, begin, _ in todo[number:])
                    raise BudgetSpent(f"{error}; of {stamp(first)} to {stamp(end)} not all was read") from error
                except (Refused, Unreachable) as error:
                    failed += 1
                    lost = isinstance(error, Refused) and error.status in {400, 401, 403, 404}
                    if lost or failed > 1 or number == len(todo) - 1:
                        raise
                    self._out.partial(f"{stamp(begin)} to {stamp(end)}: {error}")
        finally:
            self._view.close()
            for note in self._view.notes:
                self._out.note(note)

    def _read(self, part: _Part, *, last: bool) -> None:
        start, held, more = part.begin, Batch(self._out), False
        while True:
            try:
                if more:
                    self._view.open()
                found, size = self._get(part, last=last)
            except SourceError:
                held.feed()
                raise
            if part.total is None:
                part.total = _count(found)
            self._gaps(found)
            self._view.moved(found.pit_id)
            hits = found.hits.hits
            times = _times(hits)
            more = len(hits) >= size
            ordered = more and len(hits[-1].sort) > 1
            # Where nothing orders entries of one time, those of a full page's last moment come again.
            count = bisect_left(times, times[-1]) if more and not ordered else len(hits)
            self._batch(part, hits[:count], times[:count]).feed()
            part.got += count
            if not more:
                break
            held = self._batch(part, hits[count:], times[count:])
            if ordered:
                part.after = hits[-1].sort
            elif count:
                part.begin, part.after = times[-1], []
            elif self._view.tried:
                held.feed()
                held = Batch(self._out)
                part.got, part.blurred, part.after = part.got + len(hits), times[-1], hits[-1].sort
        self._reconcile(part, start)

    def _reconcile(self, part: _Part, start: int) -> None:
        """What the store said it had, against what came."""
        if part.got < (part.total or 0):
            self._out.partial(f"{stamp(start)} to {stamp(part.end)}: it has {part.total} entries, {part.got} came")
        elif part.blurred and not part.total:
            self._out.partial(
                f"a page was full of entries of {stamp(part.blurred)}: whether there are more is not told"
            )

    def _get(self, part: _Part, *, last: bool) -> tuple[Found, int]:
        """The next page and how many entries it could have had."""
        budget = self._ask.budget
        while True:
            seconds = budget.left() if last else max(1.0, budget.left() / 2)
            window = {
                "gte": _written(part.begin),
                "lt": _written(part.end),
                "format": "strict_date_optional_time_nanos",
            }
            order: list[dict[str, Any]] = [
                {self._time_field: {"order": "asc", "numeric_type": "date_nanos", "unmapped_type": "date"}}
            ]
            body = {
                "query": {"bool": {"filter": [{"range": {self._time_field: window}}, part.query]}},
                "sort": order,
                "size": self._size,
                "_source": self._fields,
                # It stops in time to say what it has, rather than to be left.
                "timeout": f"{max(1, int(seconds * 800))}ms",
                "track_total_hits": part.total is None,
                **({"search_after": part.after} if part.after else {}),
                **self._view.part(),
            }
            try:
                return search(self._server, self._index, body, budget, seconds=seconds), self._size
            except TooLong:
                if self._size <= 10:
                    raise
                self._size = max(10, self._size // 8)
                self._out.note(f"its entries are long: pages of {self._size} were read")
            except Refused as error:
                allowed = _WINDOW.search(error.said)
                if not allowed or not 0 < int(allowed[1]) < self._size:
                    raise
                self._size = int(allowed[1])

    def _gaps(self, found: Found) -> None:
        """What an answer says that it does not have."""
        if found.timed_out:
            self._out.partial("a search was not finished in its time; what it had by then was read")
        if found.shards.failed:
            reasons = dict.fromkeys(
                f"{failure.index}: {failure.reason.reason or failure.reason.type}"[:200]
                for failure in found.shards.failures
            )
            told = "; ".join(list(reasons)[:3]) or "no reason is given"
            self._out.partial(f"{found.shards.failed} of {found.shards.total} shards failed: {told}")

    def _batch(self, part: _Part, hits: list[Hit], times: list[int]) -> Batch:
        """Entries by the stream that they belong to."""
        streams: dict[Key, tuple[list[int], list[str]]] = {}
        for hit, time in zip(hits, times, strict=True):
            key, text = self._line(hit.source)
            if not text:
                self._out.note("entries without a message were passed over")
                continue
            stream = streams.setdefault(key, ([], []))
            stream[0].append(time)
            stream[1].append(text)
        batch = Batch(self._out, part.name)
        for (name, label, rank), (moments, texts) in streams.items():
            node = self._nodes.known(label) if label else ""
            if self._only_nodes and not node:
                continue
            if node:
                self.heard.add(node)
            batch.add((name, node or label, rank), moments, texts)
        return batch


def _times(hits: list[Hit]) -> list[int]:
    """Where entries stand in time, which must be in order. Raises SourceError."""
    try:
        times = [nanos_of(hit.sort[0]) for hit in hits]
    except IndexError as error:
        raise SourceError("an entry that does not say where it stands") from error
    if times != sorted(times):
        raise SourceError("its entries are not in the order that was asked for")
    return times


def _count(found: Found) -> int:
    """How many entries there are, where the store says so; 0 where it does not."""
    if found.shards.total == 0:
        raise SourceError("index: no index of that name or pattern is there")
    total = found.hits.total
    if isinstance(total, _Total):
        return total.value if total.relation == "eq" else 0
    return total or 0


def _written(nanos: int) -> str:
    return f"{moment(nanos):%Y-%m-%dT%H:%M:%S}.{nanos % 10**9:09d}Z"
