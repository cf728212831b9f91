"""Metrics of nodes, networks and GPUs from Prometheus and what speaks its query API: VictoriaMetrics, Thanos, Mimir."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, ClassVar

import msgspec

from rules.words import Source
from verdicts.collectors.ask import Ask, Budget
from verdicts.collectors.labels import Nodes, quoted
from verdicts.collectors.prometheus_api import Api
from verdicts.collectors.prometheus_changes import PASSING
from verdicts.collectors.prometheus_look import Grid, Look, chunks, pattern, window_end
from verdicts.collectors.prometheus_queries import DEFAULTS, Watched
from verdicts.collectors.server import Server
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import Probe, SourceSettings

MetricName = Annotated[str, msgspec.Meta(pattern="^[a-zA-Z_:][a-zA-Z0-9_:]*$", max_length=200)]
LabelName = Annotated[str, msgspec.Meta(pattern="^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=100)]
_MATCHERS = re.compile(r'\s*[a-zA-Z_]\w*\s*(?:=|!=|=~|!~)\s*"(?:[^"\\\n]|\\.)*"\s*(?:,|$)')
#: Labels that may hold a node's name, the commonest first.
NODE_LABELS = ["instance", "Hostname", "node", "nodename", "exported_instance", "host"]
#: Nodes that a check asks for: enough to see whether labels join.
PROBED = 1_000


class Prometheus(SourceSettings, tag="prometheus", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server that answers PromQL.

    `node_labels` are tried one after another until every node of the attempt is found. With `job_label` the series
    are found by the job's id instead. `matchers` (`cluster="a"`) go into every selector. `delay` is how old what an
    exporter tells may be, in seconds. `states`, `events`, `counters` and `conditions` come to the defaults of the
    source, or stand alone with `defaults = false`.
    """

    server: Server
    megabytes: Annotated[int, msgspec.Meta(ge=1, le=16_384)] = 64
    lag: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 60.0  # what ended an attempt is sampled after it
    node_labels: Annotated[list[LabelName], msgspec.Meta(min_length=1)] = msgspec.field(
        default_factory=NODE_LABELS.copy
    )
    job_label: LabelName | str = ""
    matchers: str = ""
    step: Annotated[int, msgspec.Meta(ge=1, le=300)] = 15
    delay: Annotated[int, msgspec.Meta(ge=0, le=600)] = 30
    defaults: bool = True
    states: list[MetricName] = []
    events: list[MetricName] = []
    counters: list[MetricName] = []
    conditions: dict[MetricName, str] = {}
    ignore_labels: list[LabelName] = []

    gives: ClassVar[frozenset[Source]] = frozenset(DEFAULTS)

    def check(self) -> None:
        self.server.check()
        if self.job_label and not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", self.job_label):
            raise ValueError(f"job_label: {self.job_label!r} is no name of a label")
        if self.matchers and not re.fullmatch(f"(?:{_MATCHERS.pattern})+", self.matchers):
            raise ValueError(f"""matchers: {self.matchers!r} is not of the form name="value",other=~"a|b\"""")
        for name, expression in self.conditions.items():
            if "$nodes" not in expression:
                raise ValueError(f"conditions.{name}: $nodes must stand inside the braces of every selector")
        watched = self._watched()
        if not watched.names and not watched.conditions:
            raise ValueError(f"states: there are no defaults for {self.source}; name the metrics to ask for")

    def _watched(self) -> Watched:
        """What is asked for: the defaults of the source with the site's own."""
        base = DEFAULTS[self.source] if self.defaults else Watched()
        own = {*self.states, *self.events, *self.counters}
        return Watched(
            states=(*(name for name in base.states if name not in own), *self.states),
            events=(*(name for name in base.events if name not in own), *self.events),
            counters=(*(name for name in base.counters if name not in own), *self.counters),
            conditions={**base.conditions, **self.conditions},
            matchers=base.matchers,
        )

    def collect(self, ask: Ask, out: Sink) -> None:
        grid = Grid.of(ask.begin.timestamp(), window_end(ask.end.timestamp()), self.step)
        if grid.coarse > 300:
            out.note(f"looked at every {grid.coarse} s but for the last two hours: shorter changes are not seen")
        job = f"{self.job_label}={quoted(ask.attempt.job_id)}" if self.job_label else ""
        self._look(Api(self.server, ask.budget, out), out, Nodes(ask.nodes), grid, job).take()

    def _look(self, api: Api, out: Sink, nodes: Nodes, grid: Grid, job: str) -> Look:
        return Look(
            api=api,
            out=out,
            watched=self._watched(),
            nodes=nodes,
            grid=grid,
            labels=self.node_labels,
            matchers=self.matchers.rstrip(", "),
            ignored=PASSING | frozenset(self.ignore_labels),
            delay=self.delay,
            job=job,
        )

    def probe(self, nodes: Sequence[str], budget: Budget) -> Probe:
        api = Api(self.server, budget)
        now = api.now()
        watched = self._watched()
        wanted = watched.names or ("up",)
        inside = ",".join(filter(None, (f'__name__=~"{"|".join(wanted)}"', self.matchers.rstrip(", "))))
        notes = []
        there = {series.metric.get("__name__", "") for series in api.instant(f"count by (__name__) ({{{inside}}})")}
        if absent := [name for name in wanted if name not in there]:
            notes.append(f"no series of {', '.join(absent)}")
        known: set[str] = set()
        asked = Nodes(nodes[:PROBED])
        for label in self.node_labels:
            rest = [node for node in asked.names if node not in known]
            for part in chunks(rest):
                which = quoted(pattern(part))
                found = api.instant(f"count by ({label}) ({{{inside},{label}=~{which}}})")
                hits = asked.all_known(series.metric.get(label, "") for series in found)
                if hits - known:
                    notes.append(f"label {label} holds nodes' names")
                known |= hits
        # One metric stands for all: without their names, which both functions take off, series are not told apart.
        one = next((f"{{{inside},__name__={quoted(name)}}}" for name in wanted if name in there), "")
        newest = _number(api, f"max(timestamp({one}))") if one else None
        samples = _number(api, f"max(count_over_time({one}[10m]))") if one else None
        if samples:
            notes.append(f"sampled about every {600 / samples:.0f} s")
        jobs = None
        if self.job_label:
            found = api.instant(f"count by ({self.job_label}) ({{{inside}}})")
            jobs = frozenset(series.metric.get(self.job_label, "") for series in found) - {""}
        return Probe(
            version=api.version(),
            newest=datetime.fromtimestamp(newest, UTC) if newest else None,
            server_time=now,
            nodes=frozenset(known),
            jobs=jobs,
            notes=tuple(dict.fromkeys(notes)),
        )


def _number(api: Api, query: str) -> float | None:
    """The one value of a query, None where it has none."""
    values = [float(text) for series in api.instant(query) for _, text in series.points]
    return max((value for value in values if not math.isnan(value)), default=None)
