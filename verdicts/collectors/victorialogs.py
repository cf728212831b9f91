"""VictoriaLogs: log lines of an attempt's nodes or of its job, over `/select/logsql/query`.

The answer is a stream of JSON lines in no order, whose end looks like any other line's. So the store is first asked
how many entries it has and when; they are read in parts of bounded size, the last ones first, put in order here, and
each part's number is held against what came.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from rules.words import Source
from verdicts.collectors.ask import Ask, Budget, BudgetSpent, SourceError, Unreachable
from verdicts.collectors.http import CutOff, Overloaded, Refused, get_json, stream
from verdicts.collectors.labels import Nodes, go_regex, job_value, quoted, rank_of
from verdicts.collectors.log_store import FieldStore, Look
from verdicts.collectors.mend import decode
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import Probe
from verdicts.collectors.stores import (
    HOUR,
    SECOND,
    Batch,
    look_for,
    moment,
    nanoseconds,
    parse_time,
    spans,
    stamp,
)

#: Names of nodes in one query, in characters.
MAX_NAMES = 12_000
#: Parts of a window that the store counts at once.
BUCKETS = 100
#: A part with too many entries is counted more finely, but no more finely than this.
FINEST = SECOND // 1_000
#: No entry that it takes in is as long.
MAX_LINE = 32 << 20
#: Of an answer that breaks off, so much of what was said last is shown.
SHOWN = 300

_VERSION = re.compile(rb'vm_app_version\{[^}\n]*short_version="([^"\n]{1,40})"')
_DECODER = msgspec.json.Decoder(dict[str, str])


class _Series(msgspec.Struct):
    timestamps: list[str] = []
    values: list[int] = []


class _Hits(msgspec.Struct):
    hits: list[_Series] = []


class _Value(msgspec.Struct):
    value: str = ""


class _Values(msgspec.Struct):
    values: list[_Value] | None = None


class VictoriaLogs(FieldStore, frozen=True, kw_only=True, tag="victorialogs"):
    """A VictoriaLogs, single or a cluster's `vlselect`.

    `selector` is LogsQL that all its entries match, best with a stream filter such as {cluster="alpha"}. Entries are
    asked for by `job_field` where it is given, which must then be `job_value`; else by `node_field`; with neither, all
    that `selector` selects is the attempt's. `page` is about how many entries are read at once. The tenant is named
    by the headers AccountID and ProjectID.
    """

    message_field: str = "_msg"
    page: Annotated[int, msgspec.Meta(ge=100, le=500_000)] = 50_000

    def check(self) -> None:
        """What the types cannot. Raises ValueError naming the key."""
        super().check()
        if not self.message_field:
            raise ValueError("message_field: it has the lines and cannot be empty")
        if "#" in self.selector:
            raise ValueError("selector: a comment (#) would hide what is asked for after it")

    def collect(self, ask: Ask, out: Sink) -> None:
        """Read the attempt's entries, the last ones first. Raises SourceError."""
        reading = _Reading(self, ask, out)
        queries = self.queries(ask)
        for query in queries:
            reading.all_of(query)
        if self.node_field and not self.job_field and self.source is not Source.APPLOG:
            what = f"field {self.node_field}"
            look_for(reading.heard, ask, out, what, lambda a, b: self.values(self.node_field, a, b, ask.budget))
        if not out.lines:
            out.note(f"asked for {queries[0][:300]}")

    def probe(self, nodes: Sequence[str], budget: Budget) -> Probe:
        """Its version, its newest entry of the last hour, and which nodes it knows. Raises SourceError."""
        look = Look(self, nodes, budget)
        version = look.version(lambda: self._version(budget))
        server_time = look.clock("/health")
        now = nanoseconds(server_time or datetime.now(UTC))
        query = self._query([])
        form = {"query": f"{self.within(query, now - HOUR, now + SECOND)} | fields _time", "limit": "1"}
        with stream(self.server, "/select/logsql/query", budget, form=form) as pieces:
            lines = _DECODER.decode_lines(b"".join(pieces))
        times = [parse_time(line.get("_time", "")) for line in lines]
        return look.found(
            lambda name: self.values(name, now - HOUR, now, budget),
            version=version,
            server_time=server_time,
            newest=moment(max(times)) if times else None,
            asked=f"for {query}",
        )

    def _version(self, budget: Budget) -> str:
        with stream(self.server, "/metrics", budget) as pieces:
            found = _VERSION.search(b"".join(pieces))
        return found[1].decode("utf-8", "replace") if found else ""

    def values(self, name: str, begin: int, end: int, budget: Budget) -> list[str]:
        """The values that a field has in a window. Raises SourceError."""
        if not name:
            return []
        form = {"query": self.within(self._query([]), begin, end), "field": name}
        found = get_json(self.server, "/select/logsql/field_values", budget, _Values, form=form)
        return [one.value for one in found.values or ()]

    def queries(self, ask: Ask) -> list[str]:
        """What to ask so that each entry of the attempt is in one answer. Raises SourceError."""
        if self.job_field:
            wanted, regex = job_value(self.job_value, ask.attempt, go_regex)
            filters = [_matches(self.job_field, wanted) if regex else _is(self.job_field, wanted)]
            namespace, _ = job_value("{namespace}", ask.attempt, go_regex)
            if self.namespace_field and namespace:
                filters.append(_is(self.namespace_field, namespace))
            return [self._query(filters)]
        if self.node_field:
            if not ask.nodes:
                raise SourceError("it is asked by node, and the attempt's nodes are not known: set job_field")
            alternatives = Nodes(ask.nodes).patterns(go_regex, MAX_NAMES)
            return [self._query([_matches(self.node_field, f"(?i)(?:{names})(?:[.:].*)?")]) for names in alternatives]
        return [self._query([])]

    def _query(self, filters: list[str]) -> str:
        """LogsQL that selects; what the settings say stands in brackets, so that it cannot take in what follows."""
        given = self.selector.strip()
        return " ".join([*filters, *([f"({given})"] if given else [])]) or "*"

    def within(self, query: str, begin: int, end: int) -> str:
        """The query for a window, whose end is not included in any version."""
        return f"_time:[{_written(begin)}, {_written(end)}) {query}"

    def fields(self) -> str:
        """The pipe that leaves what is read here."""
        wanted = [self.message_field, self.node_field, self.rank_field, self.pod_field]
        return " | fields _time, " + ", ".join(quoted(name) for name in dict.fromkeys(wanted) if name)


def _is(name: str, text: str) -> str:
    return f"{quoted(name)}:={quoted(text)}"


def _matches(name: str, regex: str) -> str:
    return f"{quoted(name)}:~{quoted(f'^(?:{regex})$')}"


def _written(nanos: int) -> str:
    return f"{moment(nanos):%Y-%m-%dT%H:%M:%S}.{nanos % SECOND:09d}Z"


class _Reading:
    """One collection from a VictoriaLogs."""

    def __init__(self, store: VictoriaLogs, ask: Ask, out: Sink) -> None:
        self._store, self._ask, self._out = store, ask, out
        self._nodes = Nodes(ask.nodes)
        self._by_node = bool(store.node_field) and not store.job_field
        self._partial_allowed = "0"
        #: The attempt's nodes that an entry came from.
        self.heard: set[str] = set()

    def all_of(self, query: str) -> None:
        """Every entry that a query selects in the attempt's window. Raises SourceError when no more can be had."""
        begin, end = nanoseconds(self._ask.begin), nanoseconds(self._ask.end)
        try:
            parts = list(self._counted(query, begin, end))
        except Refused as error:
            if isinstance(error, Overloaded) or error.status in {401, 403}:
                raise
            self._out.note(f"how many entries it has was not told, so that what came was not counted: {error}")
            parts = [(start, stop, None) for start, stop in spans(self._ask)]
        failed = 0
        for number, (start, stop, count) in enumerate(parts):
            try:
                part = _Part(query, start, stop, f"@{stamp(start)}" if len(parts) > 1 else "")
                self._read(part, count, last=number == len(parts) - 1)
                failed = 0
            except BudgetSpent as error:
                raise BudgetSpent(f"{error}; of {stamp(begin)} to {stamp(stop)} not all was read") from error
            except (Refused, Unreachable) as error:
                failed += 1
                if failed > 1 or number == len(parts) - 1:
                    raise
                self._out.partial(f"{stamp(start)} to {stamp(stop)}: {error}")

    def _counted(self, query: str, begin: int, end: int) -> Iterator[tuple[int, int, int | None]]:
        """Parts of a window with how many entries the store has in each, the last first; none without entries."""
        step = max(FINEST, -(-(end - begin) // BUCKETS))
        if step > SECOND:
            step = -(-step // SECOND) * SECOND
        form = {"query": self._store.within(query, begin, end), "step": f"{step}ns", "fields_limit": "1"}
        answer = self._get_json("/select/logsql/hits", form)
        counts: dict[int, int] = {}
        for series in answer.hits:
            for text, count in zip(series.timestamps, series.values, strict=False):
                at = parse_time(text)
                counts[at] = counts.get(at, 0) + count
        yield from self._grouped(query, sorted(counts.items(), reverse=True), step, begin, end)

    def _grouped(
        self, query: str, counts: list[tuple[int, int]], step: int, begin: int, end: int
    ) -> Iterator[tuple[int, int, int | None]]:
        stop, size, start = end, 0, end
        for at, count in counts:
            if not count:
                continue
            if size and size + count > self._store.page:
                yield start, stop, size
                stop, size = start, 0
            start = max(begin, at)
            if count > 4 * self._store.page and step >= 4 * FINEST:
                # More than should be held at once: this part is looked at more closely.
                yield from self._counted(query, start, min(stop, at + step))
                stop, size = start, 0
            else:
                size += count
        if size:
            yield start, stop, size

    def _get_json(self, path: str, form: dict[str, str]) -> _Hits:
        try:
            return get_json(self._store.server, path, self._ask.budget, _Hits, form=self._form(form))
        except Overloaded as error:
            self._allow_partial(error)
            return get_json(self._store.server, path, self._ask.budget, _Hits, form=self._form(form))

    def _form(self, form: dict[str, str]) -> dict[str, str]:
        # What a cluster's nodes that are down had would be missing without a word: that is asked for in words only.
        left = max(1, int(self._ask.budget.left() * 1000))
        return {**form, "timeout": f"{left}ms", "allow_partial_response": self._partial_allowed}

    def _allow_partial(self, error: Overloaded) -> None:
        """Go on with the storage nodes that answer, and say so; or not, where that is not what is wrong."""
        if error.status != 502 or self._partial_allowed == "1":
            raise error
        self._partial_allowed = "1"
        self._out.partial(f"not all of its storage answers, what the rest has was read: {error}")

    def _read(self, part: "_Part", count: int | None, *, last: bool) -> None:
        """One part of the window."""
        got, batch, broken = self._fetch(part, last=last)
        if isinstance(broken, CutOff):
            # Nothing of it was read as lines yet, so that it can be asked for once more as a whole.
            got, batch, broken = self._fetch(part, last=last)
        batch.feed()
        if broken is not None:
            raise broken
        if count is not None and got < count:
            self._out.partial(f"{stamp(part.begin)} to {stamp(part.end)}: it counted {count} entries, {got} came")

    def _fetch(self, part: "_Part", *, last: bool) -> tuple[int, Batch, SourceError | None]:
        """What came of a part, and what it ended with where that is not its end."""
        store, budget = self._store, self._ask.budget
        answer = _Lines(Batch(self._out, part.name))
        form = self._form({"query": store.within(part.query, part.begin, part.end) + store.fields()})
        seconds = None if last else max(1.0, budget.left() / 2)
        broken: SourceError | None = None
        try:
            with stream(store.server, "/select/logsql/query", budget, form=form, seconds=seconds) as pieces:
                for piece in pieces:
                    self._take(answer, piece)
                self._take(answer, b"\n")
        except Overloaded as error:
            self._allow_partial(error)
            return self._fetch(part, last=last)
        except SourceError as error:
            broken = error
        if answer.words and (broken is None or isinstance(broken, CutOff)):
            # What is no entry is the store's own word of why no more come; then it cuts the answer off.
            broken = CutOff(f"{store.server.url}: it broke off: {' '.join(answer.words)[:SHOWN]}")
        return answer.got, answer.batch, broken

    def _take(self, answer: "_Lines", piece: bytes) -> None:
        """Whole lines of an answer as entries."""
        store, groups = self._store, _Groups()
        message, node, rank, pod = store.message_field, store.node_field, store.rank_field, store.pod_field
        for row in answer.rows(piece):
            get = row.get
            text = get(message)
            if text is None:
                self._out.note(f"entries without {message} were passed over")
                continue
            times, texts = groups.setdefault((get(pod, ""), get(node, ""), get(rank, "")), ([], []))
            try:
                times.append(parse_time(get("_time", "")))
            except ValueError as error:
                raise SourceError(f"an entry whose time cannot be read: {error}") from error
            texts.append(text)
        for (name, label, number), (times, texts) in groups.items():
            known = self._nodes.known(label) if label else ""
            if self._by_node and not known:
                continue
            if known:
                self.heard.add(known)
            answer.batch.add((name, known or label, rank_of(number)), times, texts)


_Groups = dict[tuple[str, str, str], tuple[list[int], list[str]]]


@dataclass
class _Part:
    """A query for a part of the window."""

    query: str
    begin: int
    end: int
    name: str


@dataclass
class _Lines:
    """An answer as it comes: `got` entries so far, and `words` that are none."""

    batch: Batch
    got: int = 0
    words: list[str] = field(default_factory=list)
    _rest: bytearray = field(default_factory=bytearray)

    def rows(self, piece: bytes) -> list[dict[str, str]]:
        """The entries whose lines end in this piece."""
        cut = piece.rfind(b"\n") + 1
        if not cut:
            self._rest += piece
            if len(self._rest) > MAX_LINE:
                raise SourceError(f"an entry of more than {MAX_LINE >> 20} MiB: it is no VictoriaLogs that answers so")
            return []
        data = bytes(self._rest) + piece[:cut] if self._rest else piece[:cut]
        self._rest = bytearray(piece[cut:])
        try:
            rows = _DECODER.decode_lines(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            rows = []
            for line in filter(None, data.splitlines()):
                try:
                    rows.append(decode(line, dict[str, str]))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    self.words.append(line[:SHOWN].decode("utf-8", "replace"))
        self.got += len(rows)
        return rows
