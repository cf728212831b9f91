"""Loki: log lines of an attempt's nodes or of its job, over `query_range`.

Which lines those are is the label contract: `job_label` has the attempt's job, or `node_label` its nodes.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, ClassVar

import msgspec

from rules.words import Source
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.http import get_json
from verdicts.collectors.labels import Nodes, go_regex, job_value, quoted, rank_of
from verdicts.collectors.log_store import LogStore, Look
from verdicts.collectors.loki_pages import MAX_PAGE, Answer, Entry, Pages, Row, Stream
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import Probe
from verdicts.collectors.stores import HOUR, SECOND, Key, look_for, moment, nanoseconds

#: A query that is longer goes into the body: what stands between us and Loki may not take so long a line.
LONG_QUERY = 1_500
#: Loki takes no query of 128 KiB.
MAX_NAMES = 100_000

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MATCHER = r"[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:\"(?:[^\"\\\n]|\\.)*\"|`[^`]*`)"
_SELECTOR = re.compile(rf"\s*(?:{_MATCHER}\s*(?:,\s*{_MATCHER}\s*)*,?\s*)?")
#: Labels that set apart streams of one node, which are then read each for itself.
_APART = ("container", "filename", "unit", "systemd_unit", "stream")


class _Values(msgspec.Struct):
    data: list[str] | None = None


class _Build(msgspec.Struct):
    version: str = ""


class Loki(LogStore, frozen=True, kw_only=True, tag="loki"):
    """A Loki.

    `selector` has the label matchers that all its streams share, without braces; `filter` what stands behind it.
    Lines are asked for by `job_label` where it is given, which must then be `job_value`; else by `node_label`; with
    neither, all that `selector` selects is the attempt's. `metadata` names those of these labels that are structured
    metadata and no labels of streams. `page` is how many entries are asked for at once.
    """

    filter: str = ""
    node_label: str = ""
    job_label: str = ""
    namespace_label: str = ""
    rank_label: str = ""
    pod_label: str = ""
    metadata: tuple[str, ...] = ()
    page: Annotated[int, msgspec.Meta(ge=10, le=MAX_PAGE)] = 5_000

    joined_by: ClassVar[tuple[str, str]] = ("node_label", "job_label")

    def check(self) -> None:
        """What the types cannot. Raises ValueError naming the key."""
        super().check()
        for key in ("node_label", "job_label", "namespace_label", "rank_label", "pod_label"):
            if (label := getattr(self, key)) and not _LABEL.fullmatch(label):
                raise ValueError(f"{key}: {label!r} is no name of a label")
        if not _SELECTOR.fullmatch(self.selector):
            raise ValueError(f'selector: {self.selector!r} is no list of matchers such as app="train", env!="dev"')
        if self.filter and not re.match(r"\s*(?:\||!=|!~)", self.filter):
            raise ValueError(f"filter: {self.filter!r} does not begin with |=, |~, !=, !~ or |")
        labels = {self.node_label, self.job_label, self.namespace_label, self.rank_label, self.pod_label}
        if unknown := set(self.metadata) - labels:
            raise ValueError(f"metadata: {min(unknown)!r} is none of the labels that are given here")

    def _selecting(self) -> tuple[str, ...]:
        # Structured metadata selects no stream.
        asked = self.job_label or self.node_label
        return () if asked in self.metadata else (asked,)

    def collect(self, ask: Ask, out: Sink) -> None:
        """Read the attempt's lines, the end of its window first. Raises SourceError."""
        queries = self.queries(ask)
        by_node = bool(self.node_label) and not self.job_label

        def fetch(query: str, begin: int, end: int, limit: int, seconds: float | None) -> Answer:
            return self._ask(query, begin, end, limit, "forward", ask.budget, seconds)

        pages = Pages(ask, out, fetch, self.rows, page=self.page, only_nodes=by_node)
        pages.read(queries)
        if by_node and self.source is not Source.APPLOG and self.node_label not in self.metadata:
            label = f"label {self.node_label}"
            look_for(pages.heard, ask, out, label, lambda a, b: self.values(self.node_label, a, b, ask.budget))
        if not out.lines:
            out.note(f"asked for {queries[0][:300]}")

    def probe(self, nodes: Sequence[str], budget: Budget) -> Probe:
        """Its version, its newest line of the last hour, and which nodes its labels know. Raises SourceError."""
        look = Look(self, nodes, budget)
        version = look.version(lambda: get_json(self.server, "/loki/api/v1/status/buildinfo", budget, _Build).version)
        server_time = look.clock("/loki/api/v1/labels")
        now = nanoseconds(server_time or datetime.now(UTC))
        query = self._query([], broad=True)
        answer = self._ask(query, now - HOUR, now + SECOND, 1, "backward", budget)
        times = [int(entry.time) for stream in answer.data.result for entry in stream.values]
        return look.found(
            lambda label: self.values(label, now - HOUR, now, budget),
            version=version,
            server_time=server_time,
            newest=moment(max(times)) if times else None,
            asked=f"for {query}",
        )

    def values(self, label: str, begin: int, end: int, budget: Budget) -> list[str]:
        """The values that a label has in a window; none where it is structured metadata. Raises SourceError."""
        if not label or label in self.metadata:
            return []
        params: dict[str, str | int] = {"start": begin, "end": end}
        if self.selector.strip():
            params["query"] = "{" + self.selector.strip().rstrip(",") + "}"
        return get_json(self.server, f"/loki/api/v1/label/{label}/values", budget, _Values, params=params).data or []

    def queries(self, ask: Ask) -> list[str]:
        """What to ask so that each line of the attempt is in one answer. Raises SourceError."""
        if self.job_label:
            wanted, regex = job_value(self.job_value, ask.attempt, go_regex)
            matchers = [(self.job_label, "=~" if regex else "=", wanted)]
            namespace, _ = job_value("{namespace}", ask.attempt, go_regex)
            if self.namespace_label and namespace:
                matchers.append((self.namespace_label, "=", namespace))
            return [self._query(matchers)]
        if self.node_label:
            if not ask.nodes:
                raise SourceError("it is asked by node, and the attempt's nodes are not known: set job_label")
            alternatives = Nodes(ask.nodes).patterns(go_regex, MAX_NAMES)
            return [self._query([(self.node_label, "=~", f"(?i)(?:{names})(?:[.:].*)?")]) for names in alternatives]
        return [self._query([])]

    def _query(self, matchers: list[tuple[str, str, str]], *, broad: bool = False) -> str:
        """LogQL. `broad` is without the filter, and with whatever there is where nothing is selected."""
        parts = [self.selector.strip().rstrip(",")] if self.selector.strip() else []
        parts += [f"{label}{sign}{quoted(text)}" for label, sign, text in matchers if label not in self.metadata]
        if broad and not parts:
            parts = [f'{self.job_label or self.node_label}=~".+"']
        behind = [f"| {label}{sign}{quoted(text)}" for label, sign, text in matchers if label in self.metadata]
        return " ".join(["{" + ", ".join(parts) + "}", *behind, *([self.filter.strip()] if not broad else [])]).strip()

    def _ask(
        self, query: str, begin: int, end: int, limit: int, direction: str, budget: Budget, seconds: float | None = None
    ) -> Answer:
        params: dict[str, str | int] = {"query": query, "start": begin, "end": end}
        params |= {"limit": limit, "direction": direction}
        long = len(query) > LONG_QUERY
        answer = get_json(
            self.server,
            "/loki/api/v1/query_range",
            budget,
            Answer,
            params=None if long else params,
            form={name: str(value) for name, value in params.items()} if long else None,
            # Structured metadata stands beside each line then; else every set of it would be a stream of its own.
            headers={"X-Loki-Response-Encoding-Flags": "categorize-labels"},
            seconds=seconds,
        )
        if answer.data.result_type != "streams":
            raise SourceError(f"filter: it makes {answer.data.result_type[:40]!r} of the lines, not lines")
        return answer

    def rows(self, stream: Stream) -> Iterator[Row]:
        """The entries of a stream by what they belong to."""
        if not self.metadata:
            yield self._key(stream.stream), stream.values
            return
        groups: dict[Key, list[Entry]] = {}
        for entry in stream.values:
            groups.setdefault(self._key({**stream.stream, **_metadata(entry)}), []).append(entry)
        yield from groups.items()

    def _key(self, labels: dict[str, str]) -> Key:
        names = [labels.get(label, "").strip("/") for label in (self.pod_label, *_APART)]
        return "/".join(filter(None, names)), labels.get(self.node_label, ""), rank_of(labels.get(self.rank_label))


def _metadata(entry: Entry) -> dict[str, str]:
    """The structured metadata of an entry, as Loki gives it with and without categories."""
    given = entry.more or {}
    nested = given.get("structuredMetadata")
    found = nested if isinstance(nested, dict) else given
    return {name: text for name, text in found.items() if isinstance(text, str)}
