"""Elasticsearch and OpenSearch: log lines of an attempt's nodes or of its job, over `_search`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from rules.words import Source
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.elasticsearch_pages import Line, Pages, nanos_of, search
from verdicts.collectors.http import Refused, get_json
from verdicts.collectors.labels import Nodes, job_value, lucene_regex, rank_of
from verdicts.collectors.log_store import FieldStore, Look
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import Probe
from verdicts.collectors.stores import HOUR, look_for, moment, nanoseconds, parse_time

#: A regular expression of an index is no longer than 1,000 characters where nobody allows more.
MAX_REGEX = 900
#: Such expressions in one search: a bool query of long ago has at most 1,024 parts.
MAX_PARTS = 400
#: Names of nodes that are counted.
MAX_VALUES = 10_000


class _Version(msgspec.Struct, frozen=True):
    number: str = ""
    distribution: str = ""

    @property
    def shown(self) -> str:
        """As it is shown: "opensearch 2.4.0", or the number alone."""
        return " ".join(filter(None, (self.distribution, self.number)))


class _Root(msgspec.Struct):
    version: _Version = _Version()


class Elasticsearch(FieldStore, frozen=True, kw_only=True, tag="elasticsearch"):
    """An Elasticsearch or an OpenSearch.

    `index` is an index, a data stream or a pattern, or several with commas. `selector` is a query in Lucene's syntax
    that all its entries match. Entries are asked for by `job_field` where it is given, which must then be
    `job_value`; else by `node_field`; with neither, all that `selector` selects is the attempt's. Fields to search in
    are keywords: of a text field its `.keyword`. `page` is how many entries are asked for at once.
    """

    index: Annotated[str, msgspec.Meta(min_length=1, pattern=r"^[^\s/?#\\]+$")]
    time_field: str = "@timestamp"
    message_field: str = "message"
    ingested_field: str = "event.ingested"
    page: Annotated[int, msgspec.Meta(ge=10, le=10_000)] = 5_000

    def check(self) -> None:
        """What the types cannot. Raises ValueError naming the key."""
        super().check()
        for key in ("time_field", "message_field"):
            if not getattr(self, key):
                raise ValueError(f"{key}: it cannot be empty")

    def collect(self, ask: Ask, out: Sink) -> None:
        """Read the attempt's entries, the end of its window first. Raises SourceError."""
        by_node = bool(self.node_field) and not self.job_field
        pages = self._pages(ask, out)
        try:
            pages.read(self.queries(ask))
        except Refused as error:
            if not by_node or "regexp" not in error.said or out.lines:
                raise
            out.note(f"it takes no regular expressions, so that nodes are found by their plain names alone: {error}")
            pages = self._pages(ask, out)
            pages.read(self.queries(ask, plain=True))
        if by_node and self.source is not Source.APPLOG:
            what = f"field {self.node_field}"
            look_for(pages.heard, ask, out, what, lambda a, b: self.values(self.node_field, a, b, ask.budget))
        if not out.lines:
            out.note(f"asked {self.index} for {self._asked()}")

    def _pages(self, ask: Ask, out: Sink) -> Pages:
        wanted = [self.message_field, self.node_field, self.rank_field, self.pod_field]
        return Pages(
            ask,
            out,
            self.server,
            self.index,
            size=self.page,
            time_field=self.time_field,
            fields=[_stored(name) for name in wanted if name],
            line=_Lines(self).of,
            only_nodes=bool(self.node_field) and not self.job_field,
        )

    def probe(self, nodes: Sequence[str], budget: Budget) -> Probe:
        """Its version, its newest entry of the last hour, and which nodes it knows. Raises SourceError."""
        look = Look(self, nodes, budget)
        version = look.version(lambda: get_json(self.server, "/", budget, _Root).version.shown)
        server_time = look.clock("/")
        now = nanoseconds(server_time or datetime.now(UTC))
        body = {
            "query": self._within(now - HOUR, now + HOUR),
            "sort": [{self.time_field: {"order": "desc", "numeric_type": "date_nanos", "unmapped_type": "date"}}],
            "size": 1,
            "_source": [_stored(self.ingested_field)] if self.ingested_field else False,
        }
        hits = search(self.server, self.index, body, budget).hits.hits

        def counted(name: str) -> list[str] | None:
            try:
                return self.values(name, now - HOUR, now + HOUR, budget)
            except Refused as error:
                look.note(f"{name} cannot be counted (a text field? then name its .keyword): {error}")
                return None

        return look.found(
            counted,
            version=version,
            server_time=server_time,
            newest=moment(nanos_of(hits[0].sort[0])) if hits and hits[0].sort else None,
            arrived=_arrived(hits[0].source, self.ingested_field) if hits else None,
            asked=f"in {self.index} for {self._asked()}",
        )

    def values(self, name: str, begin: int, end: int, budget: Budget) -> list[str]:
        """The values that a field has in a window. Raises SourceError, also where they are too many to count."""
        body = {
            "query": self._within(begin, end),
            "size": 0,
            "aggs": {"values": {"terms": {"field": name, "size": MAX_VALUES}}},
        }
        counted = search(self.server, self.index, body, budget).aggregations.get("values")
        if counted and counted.sum_other_doc_count:
            raise SourceError(f"{name} has more than {MAX_VALUES} values")
        return [str(bucket.key) for bucket in counted.buckets] if counted else []

    def queries(self, ask: Ask, *, plain: bool = False) -> Iterator[dict[str, Any]]:
        """What to ask so that each entry of the attempt is in one answer. Raises SourceError.

        `plain` is without regular expressions: names as the attempt has them, and their short forms.
        """
        given = [self._selector()] if self.selector.strip() else []
        if self.job_field:
            wanted, regex = job_value(self.job_value, ask.attempt, lucene_regex)
            clauses = [_regexp(self.job_field, wanted, any_case=False) if regex else _term(self.job_field, wanted)]
            namespace, _ = job_value("{namespace}", ask.attempt, lucene_regex)
            if self.namespace_field and namespace:
                clauses.append(_term(self.namespace_field, namespace))
            yield {"bool": {"filter": [*clauses, *given]}}
        elif not self.node_field:
            yield {"bool": {"filter": given}}
        elif not ask.nodes:
            raise SourceError("it is asked by node, and the attempt's nodes are not known: set job_field")
        elif plain:
            names = {form for node in ask.nodes for form in (node, node.lower(), node.partition(".")[0])}
            yield {"bool": {"filter": [{"terms": {self.node_field: sorted(names)}}, *given]}}
        else:
            parts = [
                _regexp(self.node_field, f"({names})([.:].*)?", any_case=True)
                for names in Nodes(ask.nodes).patterns(lucene_regex, MAX_REGEX)
            ]
            for first in range(0, len(parts), MAX_PARTS):
                either = {"bool": {"should": parts[first : first + MAX_PARTS], "minimum_should_match": 1}}
                yield {"bool": {"filter": [either, *given]}}

    def _selector(self) -> dict[str, Any]:
        return {"query_string": {"query": self.selector, "analyze_wildcard": True}}

    def _within(self, begin: int, end: int) -> dict[str, Any]:
        millis = {"gte": begin // 10**6, "lt": end // 10**6, "format": "epoch_millis"}
        given = [self._selector()] if self.selector.strip() else []
        return {"bool": {"filter": [{"range": {self.time_field: millis}}, *given]}}

    def _asked(self) -> str:
        return ", ".join(filter(None, (self.job_field or self.node_field, self.selector)))[:200] or "anything"


def _term(name: str, text: str) -> dict[str, Any]:
    return {"term": {name: {"value": text}}}


def _regexp(name: str, regex: str, *, any_case: bool) -> dict[str, Any]:
    # Without flags: what is special in Lucene's own additions stands for itself.
    return {"regexp": {name: {"value": regex, "flags": "NONE", **({"case_insensitive": True} if any_case else {})}}}


def _stored(name: str) -> str:
    """The field as the entry has it; its .keyword is only another way to search in it."""
    return name.removesuffix(".keyword")


def _value(source: dict[str, Any], name: str) -> str:
    """A field's text, whether its name's parts are keys one in another or one key with dots; "" where it has none."""
    found: Any = source.get(name)
    if found is None and "." in name:
        head, _, rest = name.partition(".")
        while rest and found is None:
            inner = source.get(head)
            if isinstance(inner, dict):
                found = _value(inner, rest) or None
            more, _, rest = rest.partition(".")
            head = f"{head}.{more}"
    if isinstance(found, list):
        found = found[0] if found else None
    return "" if found is None or isinstance(found, dict) else str(found)


def _arrived(source: dict[str, Any], name: str) -> datetime | None:
    """When the store had an entry, where that is in it."""
    try:
        return moment(parse_time(_value(source, _stored(name)))) if name else None
    except ValueError:
        return None


class _Lines:
    """What an entry says of itself."""

    def __init__(self, store: Elasticsearch) -> None:
        names = (store.message_field, store.pod_field, store.node_field, store.rank_field)
        self._message, self._pod, self._node, self._rank = map(_stored, names)

    def of(self, source: dict[str, Any]) -> Line:
        """Its stream, with its node as it is called there, and its line."""
        node = _value(source, self._node) if self._node else ""
        pod = _value(source, self._pod) if self._pod else ""
        return (pod, node, rank_of(_value(source, self._rank)) if self._rank else None), _value(source, self._message)
