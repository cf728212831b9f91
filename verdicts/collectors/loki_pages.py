"""Reading a window of a Loki page by page, so that no entry is lost or read twice.

A page holds the first so many entries of a time range, and the next begins where it ends. Where that is, more
entries may have the same nanosecond: those of a full page's last moment are left to the next page, which has all of
them. Where one moment fills a whole page, more is asked for at once.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from verdicts.collectors.ask import Ask, BudgetSpent, SourceError, Unreachable
from verdicts.collectors.http import Refused, TooLong
from verdicts.collectors.labels import Nodes
from verdicts.collectors.sink import Sink
from verdicts.collectors.stores import SECOND, Batch, Key, halves, spans, stamp

#: Entries with one and the same time that are asked for at once, where Loki lets us.
MAX_PAGE = 100_000
#: A part of the window that Loki finds too much is halved down to this.
SMALLEST = 60 * SECOND

#: What Loki says when less of a window may work.
_TOO_MUCH = re.compile(
    r"time range exceeds|too many bytes|too large to execute|max number of chunks|max.{0,20}series"
    r"|deadline exceeded|timed? ?out|limit reached while|cardinality limit",
    re.IGNORECASE,
)
_MAX_ENTRIES = re.compile(r"max entries limit.*\(\d+ > (\d+)\)")
#: What to look at, by what Loki says.
_HINTS = (
    ("time range exceeds", "limits_config.max_query_length"),
    ("too many bytes", "limits_config.max_query_bytes_read"),
    ("too large to execute", "limits_config.max_querier_bytes_read"),
    ("chunks limit", "limits_config.max_chunks_per_query"),
    ("series", "limits_config.max_query_series"),
    ("streams matchers", "limits_config.max_streams_matchers_per_query"),
    ("max_query_lookback", "limits_config.max_query_lookback"),
    ("input size too long", "job_label, which needs no list of nodes"),
    ("no org id", "the header X-Scope-OrgID in server.headers, which names the tenant"),
    ("deadline exceeded", "limits_config.query_timeout"),
    ("timed out", "limits_config.query_timeout"),
    ("parse error", "selector and filter"),
)


class Entry(msgspec.Struct, array_like=True, gc=False):
    """One line: its time in nanoseconds since 1970, and structured metadata where it has any."""

    time: str
    line: str
    more: dict[str, Any] | None = None


class Stream(msgspec.Struct):
    """Entries with the same labels."""

    stream: dict[str, str] = {}
    values: list[Entry] = []


class _Summary(msgspec.Struct, rename="camel"):
    total_entries_returned: int | None = None


class _Stats(msgspec.Struct):
    summary: _Summary | None = None


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[Stream] = []
    stats: _Stats | None = None


class Answer(msgspec.Struct):
    """What `query_range` answers."""

    data: _Data
    warnings: list[str] | None = None


#: Query, begin, end (nanoseconds, the end not included), limit, seconds that it may take.
Fetch = Callable[[str, int, int, int, float | None], Answer]
#: A stream's entries by what they belong to, with their node as its label has it.
Row = tuple[Key, list[Entry]]
Split = Callable[[Stream], Iterable[Row]]


@dataclass
class _Part:
    """A question for a part of the window. `begin` moves on with what was read."""

    query: str
    begin: int
    end: int
    name: str = ""


class Pages:
    """One collection from a Loki. `only_nodes`: lines of other nodes than the attempt's are not its own."""

    def __init__(self, ask: Ask, out: Sink, fetch: Fetch, split: Split, *, page: int, only_nodes: bool) -> None:
        self._ask, self._out, self._fetch, self._split = ask, out, fetch, split
        self._nodes = Nodes(ask.nodes)
        self._only_nodes, self._page, self._most = only_nodes, page, MAX_PAGE
        #: The attempt's nodes that a line came from.
        self.heard: set[str] = set()

    def read(self, queries: list[str]) -> None:
        """Every question for every part of the window. Raises SourceError when nothing more can be had."""
        todo = [(query, *span) for span in reversed(spans(self._ask)) for query in reversed(queries)]
        several, failed = len(todo) > 1, 0
        while todo:
            query, begin, end = todo.pop()
            part = _Part(query, begin, end, f"@{stamp(begin)}" if several else "")
            try:
                self._read(part, last=not todo)
                failed = 0
            except BudgetSpent as error:
                unread = [(start, stop) for _, start, stop in todo] + [(part.begin, end)]
                first, last = stamp(min(start for start, _ in unread)), stamp(max(stop for _, stop in unread))
                raise BudgetSpent(f"{error}; of {first} to {last} not all was read") from error
            except (Refused, Unreachable) as error:
                if _TOO_MUCH.search(str(error)) and end - part.begin >= 2 * SMALLEST:
                    several = True
                    todo += [(query, *half) for half in reversed(list(halves(part.begin, end)))]
                    continue
                failed += 1
                said = _explained(error)
                # One question that fails may be its own fault; the second in a row is the source's.
                if failed > 1 or not todo or getattr(error, "status", 0) in {401, 403, 404}:
                    raise (Unreachable if isinstance(error, Unreachable) else SourceError)(said) from error
                self._out.partial(f"{stamp(part.begin)} to {stamp(end)}: {said}")

    def _read(self, part: _Part, *, last: bool) -> None:
        limit, held = self._page, Batch(self._out)
        while part.begin < part.end:
            try:
                answer, limit = self._get(part, limit, last=last)
            except SourceError:
                held.feed()
                raise
            rows = [row for stream in answer.data.result for row in self._split(stream)]
            count = sum(len(values) for _, values in rows)
            newest, whole, held = self._take(rows, part, full=count >= limit)
            whole.feed()
            if count < limit:
                self._reconcile(answer, count)
                part.begin = part.end
            elif newest > part.begin:
                part.begin, limit = newest, self._page
            elif limit < self._most:
                limit = min(2 * limit, self._most)
            else:
                held.feed()
                self._out.partial(
                    f"more than {limit} entries at {stamp(newest)} with one and the same time, and Loki gives no more"
                    " at once (limits_config.max_entries_limit_per_query): the others of that moment were not read"
                )
                part.begin, limit = newest + 1, self._page

    def _get(self, part: _Part, limit: int, *, last: bool) -> tuple[Answer, int]:
        """The next page, and how many entries it can have at most: Loki may allow less than we ask for."""
        while True:
            seconds = None if last else max(1.0, self._ask.budget.left() / 2)
            try:
                return self._fetch(part.query, part.begin, part.end, limit, seconds), limit
            except TooLong:
                if limit <= 10:
                    raise
                self._most, limit = limit // 2, max(10, limit // 8)
                self._page = limit
                self._out.note(f"its lines are long: pages of {limit} entries were read")
            except Refused as error:
                allowed = _MAX_ENTRIES.search(error.said)
                if not allowed or not 0 < int(allowed[1]) < limit:
                    raise
                limit = self._most = int(allowed[1])
                self._page = min(self._page, limit)

    def _take(self, rows: list[Row], part: _Part, *, full: bool) -> tuple[int, Batch, Batch]:
        """A page's newest time, its entries, and of a full page those of that time by themselves."""
        whole, held = Batch(self._out, part.name), Batch(self._out, part.name)
        try:
            times = [[int(entry.time) for entry in entries] for _, entries in rows]
        except ValueError as error:
            raise SourceError(f"an entry whose time cannot be read: {error}") from error
        newest = max((max(found) for found in times if found), default=0)
        if full and not part.begin <= newest < part.end:
            raise SourceError(f"asked for what is from {stamp(part.begin)} on, it gave what is of {stamp(newest)}")
        end = newest if full else part.end
        for ((name, label, rank), entries), found in zip(rows, times, strict=True):
            node = self._nodes.known(label) if label else ""
            if not found or (self._only_nodes and not node):
                continue
            if node:
                self.heard.add(node)
            key, texts = (name, node or label, rank), [entry.line for entry in entries]
            if min(found) >= part.begin and max(found) < end:
                whole.add(key, found, texts)
                continue
            for batch, first, after in ((whole, part.begin, end), (held, end, part.end)):
                at = [index for index, time in enumerate(found) if first <= time < after]
                batch.add(key, [found[index] for index in at], [texts[index] for index in at])
        return newest, whole, held

    def _reconcile(self, answer: Answer, count: int) -> None:
        """What Loki says that it sent, against what came."""
        for warning in answer.warnings or ():
            self._out.note(f"Loki warns: {warning[:200]}")
        summary = answer.data.stats.summary if answer.data.stats else None
        said = summary.total_entries_returned if summary else None
        if said and said > count:
            self._out.partial(f"Loki says that it sent {said} entries, {count} came")


def _explained(error: SourceError) -> str:
    """Loki's words, and what to look at."""
    said = str(error)
    hint = next((hint for words, hint in _HINTS if words in said), "")
    return f"{said} (look at {hint})" if hint else said
