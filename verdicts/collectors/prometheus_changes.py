"""From the points of series to lines of text that rules read: what something was, each change, each increase.

A line is a sample as exporters print it, `NAME{label="value",…} 79`, or one of
`increase(NAME{…}) 3` a counter grew by so much; its starting again from nothing is no increase,
`before(NAME{…}) 79` the last event is older than the window, nobody knows how much older,
`silent{…} 1` a node, or one of its GPUs, of which samples came no more.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from verdicts.collectors.prometheus_api import Series

#: Labels by which the queries tell metrics apart and say that a series ended.
NAME, GONE = "inquest_metric", "inquest_gone"
#: Labels that say who scraped what for whom, or repeat the value: two series that differ in nothing else are one thing.
PASSING = frozenset(
    "__name__ inquest_metric inquest_gone job instance endpoint service namespace pod container uid pod_uid cluster"
    " prometheus prometheus_replica replica receive tenant_id monitor __replica__ Hostname hostname node nodename"
    " exported_instance exported_job exported_namespace exported_pod exported_container exported_node exported_service"
    " err_code err_msg modelName model_name DCGM_FI_DRIVER_VERSION hpc_job window_size_in_ms".split()
)
#: A series that ended so shortly before the window's end may only have missed a sample.
ENDED = 120.0
MAX_LABEL = 200
#: Of a state's returns to one value, and of a counter's increases, so many are said at the beginning and at the end.
KEEP_FIRST, KEEP_LAST = 8, 4


class Kind(Enum):
    """How the values of a metric are to be read."""

    STATE = "state"
    EVENT = "event"
    COUNTER = "counter"
    CONDITION = "condition"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one node, at nanoseconds since 1970 or up to `within` seconds later."""

    node: str
    at: int
    text: str
    within: int = 0


@dataclass
class Steps:
    """Series as they were at every step, reduced to where they began, changed and ended."""

    _values: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)

    def start(self, series: Series) -> None:
        """Take a series as it was before the first step."""
        for _, value in series.points:
            self._values[tuple(sorted(series.metric.items()))] = value

    def changes(self, found: Iterable[Series], first: float, last: float, step: float) -> Iterator[Series]:
        """What changed from `first` to `last`; called for one range of steps after the other."""
        there = set()
        for series in found:
            key = tuple(sorted(series.metric.items()))
            there.add(key)
            before, reached = self._values.pop(key, None), first - step
            changed, gone = [], []
            for at, value in series.points:
                if at - reached > 1.5 * step:
                    if before is not None:
                        gone.append((reached + step, before))
                    before = None
                if value != before:
                    changed.append((at, value))
                before, reached = value, at
            if before is not None and last - reached > 0.5 * step:
                gone.append((reached + step, before))
            elif before is not None:
                self._values[key] = before
            if changed:
                yield Series(series.metric, None, changed)
            if gone:
                yield Series(series.metric | {GONE: "1"}, None, gone)
        for key in self._values.keys() - there:
            yield Series(dict(key) | {GONE: "1"}, None, [(first, self._values.pop(key))])


@dataclass(slots=True)
class _Said:
    """Moments and numbers, of many the first and the last. `old` is whether the first is from before the window."""

    old: bool = False
    first: list[tuple[float, float]] = field(default_factory=list)
    last: deque[tuple[float, float]] = field(default_factory=deque)
    between: tuple[float, float] | None = None

    def add(self, at: float, number: float) -> None:
        """One more."""
        if len(self.first) < KEEP_FIRST:
            self.first.append((at, number))
            return
        self.last.append((at, number))
        if len(self.last) > KEEP_LAST:
            when, much = self.last.popleft()
            self.between = (when, much + (self.between[1] if self.between else 0))

    def all(self, *, summed: bool) -> Iterator[tuple[float, float]]:
        """What is kept; increases between the first and the last are said as their sum, at the time of their last."""
        yield from self.first
        if summed and self.between:
            yield self.between
        yield from self.last


@dataclass(slots=True)
class _Thing:
    """What one metric says of one thing, over all series that speak of it."""

    kind: Kind
    labels: dict[str, str]
    live: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)
    value: float | None = None
    gone: float | None = None
    #: What is to be said: by the value that it came to, and under None by how much it grew.
    said: dict[float | None, _Said] = field(default_factory=dict)


@dataclass
class Changes:
    """Points of one chunk of series, taken in any order and read off in that of their times."""

    kinds: dict[str, Kind]
    begin: float
    end: float
    #: How long before it is seen at a moment something may have happened, in seconds.
    unseen: Callable[[float, Kind], int]
    ignored: frozenset[str] = PASSING
    _points: list[tuple[float, bool, str, str, tuple[tuple[str, str], ...], float]] = field(default_factory=list)
    _things: dict[tuple[str, str, tuple[tuple[str, str], ...]], _Thing] = field(default_factory=dict)
    _of_series: dict[tuple[str, str, tuple[tuple[str, str], ...]], _Thing] = field(default_factory=dict)

    def add(self, series: Series, node: str, *, since_before: bool = False) -> int:
        """Take the points of a series; how many there were. Values that are no numbers are passed over."""
        name = series.metric.get(NAME, "") or series.metric.get("__name__", "")
        if name not in self.kinds:
            return 0
        gone = GONE in series.metric
        key = tuple(sorted((k, v) for k, v in series.metric.items() if k != GONE))
        taken = 0
        for at, text in series.points:
            value = _number(text)
            if value is not None:
                # At one moment an old series ends after the new one began: the thing was never gone.
                self._points.append((self.begin if since_before else at, gone, name, node, key, value))
                taken += 1
        return taken

    def lines(self) -> Iterator[Line]:
        """The lines, those of one thing by time."""
        self._points.sort()
        for at, gone, name, node, key, value in self._points:
            thing = self._thing(name, node, key)
            if gone:
                thing.live.pop(key, None)
                if not thing.live:
                    thing.gone = at
                continue
            thing.live[key] = value
            # Two scrapers see a counter a moment apart: the one that is behind has not gone back.
            current = max(thing.live.values()) if thing.kind is Kind.COUNTER else value
            before, thing.value, thing.gone = thing.value, current, None
            if thing.kind is Kind.COUNTER and before is not None:
                if current > before:  # else it started again from nothing
                    thing.said.setdefault(None, _Said()).add(at, current - before)
            elif before is None or (current != before and thing.kind is not Kind.CONDITION):
                thing.said.setdefault(current, _Said(old=before is None and thing.kind is Kind.EVENT)).add(at, current)
        for (name, node, _), thing in self._things.items():
            sample = f"{name}{_labels(thing.labels)}"
            for stated, said in thing.said.items():
                text = f"increase({sample})" if stated is None else sample
                for at, number in said.all(summed=stated is None):
                    old, said.old = said.old, False
                    yield self._line(node, at, thing.kind, f"{f'before({text})' if old else text} {_written(number)}")

    def _thing(self, name: str, node: str, key: tuple[tuple[str, str], ...]) -> _Thing:
        thing = self._of_series.get((name, node, key))
        if thing is None:
            kept = {k: v for k, v in key if k not in self.ignored or (k == "job" and name == "up")}
            identity = (name, node, tuple(sorted(kept.items())))
            thing = self._things.get(identity)
            if thing is None:
                thing = _Thing(self.kinds[name], kept | ({"Hostname": node} if node else {}))
                self._things[identity] = thing
            self._of_series[name, node, key] = thing
        return thing

    def _line(self, node: str, at: float, kind: Kind, text: str) -> Line:
        """A line at the earliest moment that it may tell of; what was there when the window began stays at that."""
        within = self.unseen(at, kind) if at > self.begin else 0
        return Line(node, _nanos(at - within), text, within)

    def silent(self) -> Iterator[Line]:
        """Nodes and GPUs of which every series ended well before the end and did not come back; after `lines`."""
        parts: dict[tuple[str, tuple[tuple[str, str], ...]], list[_Thing]] = {}
        for (name, node, _), thing in self._things.items():
            if node and name != "up" and thing.kind is not Kind.CONDITION:
                gpu: tuple[tuple[str, str], ...] = tuple(
                    (k, thing.labels[k]) for k in ("UUID", "gpu") if k in thing.labels
                )
                parts.setdefault((node, ()), []).append(thing)
                if gpu:
                    parts.setdefault((node, gpu), []).append(thing)
        whole = set()
        for (node, gpu), things in sorted(parts.items()):
            last = max((t.gone if t.gone is not None else self.end) for t in things)
            if last > self.end - ENDED or (gpu and node in whole):
                continue
            if not gpu:
                whole.add(node)
            yield self._line(node, last, Kind.STATE, f"silent{_labels(dict(gpu) | {'Hostname': node})} 1")


def _labels(labels: dict[str, str]) -> str:
    """Labels as exporters print them. Their values are anybody's text: nothing in them ends the braces or the line."""
    order = sorted(labels, key=lambda k: (k == "Hostname", k not in ("gpu", "UUID", "device", "port"), k))
    return "{" + ",".join(f'{k}="{_plain(labels[k])}"' for k in order) + "}"


def _plain(text: str) -> str:
    shown = "".join(c if c.isprintable() else " " for c in text[:MAX_LABEL])
    return shown.replace('"', "'").replace("{", "(").replace("}", ")").replace("\\", "/")


def _number(text: str) -> float | None:
    """A sample's value; None for NaN and for what is no number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def _written(value: float) -> str:
    """A value as exporters write it: whole numbers without a point."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


def _nanos(at: float) -> int:
    return round(at * 1000) * 1_000_000


def by_node(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Lines by their node, each in the order of time."""
    out: dict[str, list[Line]] = {}
    for line in sorted(lines, key=lambda one: (one.node, one.at, one.text)):
        out.setdefault(line.node, []).append(line)
    return out
