"""One look at a metrics store for one attempt: which labels hold the nodes' names, what changed, what stopped."""

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rules.words import Source
from verdicts.collectors.ask import SourceError, Unreachable
from verdicts.collectors.http import Refused, TooLong
from verdicts.collectors.labels import Nodes, go_regex, quoted, some
from verdicts.collectors.prometheus_api import MAX_POINTS, Api, Series
from verdicts.collectors.prometheus_changes import ENDED, NAME, Changes, Kind, Steps, by_node
from verdicts.collectors.prometheus_queries import Watched
from verdicts.collectors.sink import Sink

#: Nodes in one query, and the length of their names: the pattern stands in it some twenty times, and VictoriaMetrics
#: takes no query of more than 16 KiB.
CHUNK, CHUNK_LENGTH = 100, 350
#: The end of an attempt is looked at closely, what lies before it at coarser steps.
CLOSELY, COARSE = 7200, 60
#: A series counts as there for so many seconds after its last sample.
LOOKBACK = 300


def pattern(nodes: Sequence[str]) -> str:
    """A pattern for the values that may mean these nodes: in any case, with or without a domain and a port."""
    (names,) = Nodes(nodes).patterns(go_regex, 1 << 24)
    return f"(?i:(?:{names})(?:[.:].*)?)"


@dataclass(frozen=True)
class Grid:
    """The moments that are looked at: `coarse` steps up to `turn`, then every `step` up to `end`."""

    begin: int
    turn: int
    end: int
    step: int
    coarse: int

    @classmethod
    def of(cls, begin: float, end: float, step: int) -> "Grid":
        """The grid of a window, on whole multiples of its steps, so that no server needs to move it."""
        span = max(end - begin, 0)
        coarse = math.ceil(max(COARSE, step, span / (MAX_POINTS - 1_000)) / step) * step
        first = math.floor(begin / coarse) * coarse
        last = max(math.ceil(end / step) * step, first + step)
        closely = max(CLOSELY, coarse)
        turn = first + max(0, math.floor((last - closely - first) / coarse)) * coarse
        return cls(first, turn, last, step, coarse)

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """(first, last, step); each step is compared with the one before it, so that no change falls between."""
        if self.turn > self.begin:
            yield self.begin + self.coarse, self.turn, self.coarse
        yield self.turn + self.step, self.end, self.step


@dataclass
class Look:
    """What one collection asks and has found."""

    api: Api
    out: Sink
    watched: Watched
    nodes: Nodes
    grid: Grid
    labels: Sequence[str]
    matchers: str
    ignored: frozenset[str]
    delay: int
    job: str = ""

    def take(self) -> None:
        """Ask for everything and give the lines to the sink. Raises SourceError; what was obtained is kept."""
        if self.job:
            self._part("", (), self._first("", (), self.grid.begin))
            return
        if not self.nodes.names:
            self.out.note("the attempt names no nodes to ask for")
        missing = dict.fromkeys(self.nodes.names)
        for at in (self.grid.begin, self.grid.end):
            for label in self.labels:
                for nodes in chunks(list(missing)):
                    found = self._first(label, nodes, at)
                    there = tuple(dict.fromkeys(node for node, _ in found))
                    for node in there:
                        del missing[node]
                    if there:
                        self._part(label, there, found if at == self.grid.begin else [])
                if not missing:
                    return
        count, names = len(missing), some(list(missing))
        if count < len(self.nodes.names):
            self.out.partial(f"no samples of {count} of {len(self.nodes.names)} nodes: {names}")
        elif count:
            self.out.note(
                f"no label {', '.join(self.labels)} of the metrics asked for holds a node's name such as {names}"
            )

    def _first(self, label: str, nodes: Sequence[str], at: float) -> list[tuple[str, Series]]:
        """The series of some nodes as they were at a moment, each with its node."""
        found = self.api.instant(self._selector(self._who(label, nodes), self.watched.names or ("up",)), at)
        each = [(self._node(series.metric, label), series) for series in found]
        return [(node, series) for node, series in each if node in nodes or not nodes]

    def _part(self, label: str, nodes: tuple[str, ...], first: list[tuple[str, Series]]) -> None:
        """What happened on some nodes. Too much for one answer is asked for in halves."""
        changes = Changes(self._kinds(), self.grid.begin, self.grid.end, self._unseen, self.ignored)
        for node, series in first:
            changes.add(series, node, since_before=True)
        try:
            for series in self._changed(label, nodes, first):
                changes.add(series, self._node(series.metric, label))
            for series in self._holding(self._who(label, nodes)):
                changes.add(series, self._node(series.metric, label))
        except SourceError as error:
            if not _too_much(error):
                self._give(changes, last=False)
                raise
            if len(nodes) > 1:
                half = len(nodes) // 2
                for part in (nodes[:half], nodes[half:]):
                    self._part(label, part, [(node, series) for node, series in first if node in part])
                return
            self.out.partial(f"{nodes[0]}: {error}" if nodes else str(error))
        self._give(changes)

    def _give(self, changes: Changes, *, last: bool = True) -> None:
        lines = list(changes.lines())
        silent = list(changes.silent()) if last else []
        if silent and self._store_is_fresh():
            lines += silent
        for node, its in by_node(lines).items():
            reader = self.out.stream(node, node=node)
            for within, part in groupby(its, key=lambda line: line.within):
                alike = list(part)
                reader.feed("\n".join(line.text for line in alike).encode(), [line.at for line in alike], within=within)

    def _unseen(self, at: float, kind: Kind) -> int:
        """How long before a step something that is seen at it may have happened.

        Progress is the measure of what a fault was survived by: it stands at the step itself.
        """
        if self.out.source is Source.PROGRESS:
            return 0
        coarse = kind is Kind.CONDITION or at <= self.grid.turn
        return self.delay + (self.grid.coarse if coarse else self.grid.step)

    def _store_is_fresh(self) -> bool:
        """Whether the store itself had samples at the end: where it lags, silence says nothing of a node."""
        newest = self.api.instant("max(timestamp(up))", self.grid.end)
        values = [float(text) for series in newest for _, text in series.points]
        if values and max(values) > self.grid.end - ENDED:
            return True
        self.out.partial("the store has no samples of the attempt's end: it lags, or nothing is scraped any more")
        return False

    def _changed(self, label: str, nodes: Sequence[str], first: list[tuple[str, Series]]) -> Iterator[Series]:
        """Every point where a series begins, changes or ends.

        The store says which series moved at all; of these, and only these, the values are read. The events come
        first, the states last: some of those change with every sample and may use up what is left of the budget.
        """
        if not self.watched.names:
            return
        moved = self._moved(self._who(label, nodes))
        kinds = self._kinds()
        for kind in (Kind.EVENT, Kind.COUNTER, Kind.STATE):
            its = [series.metric for series in moved if kinds.get(series.metric.get(NAME, "")) is kind]
            if not its:
                continue
            names = sorted({metric[NAME] for metric in its})
            where = sorted({self._node(metric, label) for metric in its} & set(nodes))
            selector = self._selector(self._who(label, where or nodes), names)
            steps = Steps()
            for node, series in first:
                if series.metric.get("__name__") in names and (node in where or not where):
                    steps.start(series)
            for start, end, step in self.grid.ranges():
                yield from steps.changes(self.api.between(selector, start, end, step), start, end, step)

    def _moved(self, who: str) -> list[Series]:
        """The series that began, ended or changed in the window, each with its name in a label."""
        span = self.grid.end - self.grid.begin
        every = self._selector(who, self.watched.names)
        ever, then, now = (
            _with_name(text) for text in (f"last_over_time({every}[{span}s])", f"{every} offset {span}s", every)
        )
        # What changed just at the beginning differs from a sample before it.
        changed = (
            f'label_replace(changes({self._selector(who, [name])}[{span + LOOKBACK}s]) > 0, "{NAME}", "{name}", "", "")'
            for name in self.watched.names
        )
        query = " or ".join((f"({ever} unless {then})", f"({then} unless {now})", *changed))
        return self.api.instant(query, self.grid.end)

    def _holding(self, who: str) -> Iterator[Series]:
        """The conditions that held, at coarse steps. One that the store cannot evaluate does not stop the others."""
        every = {
            name: f'label_replace({expression.replace("$nodes", who)}, "{NAME}", "{name}", "", "")'
            for name, expression in self.watched.conditions.items()
        }
        if not every:
            return
        grid = self.grid
        try:
            yield from self.api.between(" or ".join(every.values()), grid.begin, grid.end, grid.coarse)
        except Refused as error:
            if isinstance(error, Unreachable) or len(every) == 1:
                raise
            for name, expression in every.items():
                try:
                    yield from self.api.between(expression, grid.begin, grid.end, grid.coarse)
                except Refused as refused:
                    self.out.partial(f"condition {name}: {refused}")

    def _selector(self, who: str, names: Sequence[str]) -> str:
        inside = ",".join(filter(None, (f'__name__=~"{"|".join(names)}"', who, self.watched.matchers)))
        return f"{{{inside}}}"

    def _who(self, label: str, nodes: Sequence[str]) -> str:
        """The matchers for some nodes, or for the job."""
        which = self.job or f"{label}=~{quoted(pattern(nodes))}"
        return ",".join(filter(None, (which, self.matchers)))

    def _node(self, metric: Mapping[str, str], label: str) -> str:
        labels = (label,) if label else self.labels
        return next((node for name in labels if (node := self.nodes.known(metric.get(name, "")))), "")

    def _kinds(self) -> dict[str, Kind]:
        kinds = dict.fromkeys(self.watched.conditions, Kind.CONDITION)
        kinds |= dict.fromkeys(self.watched.states, Kind.STATE)
        kinds |= dict.fromkeys(self.watched.events, Kind.EVENT)
        return kinds | dict.fromkeys(self.watched.counters, Kind.COUNTER)


def _with_name(query: str) -> str:
    """Series with their metric's name in a label too: sets of series are compared by their labels only."""
    return f'label_replace({query}, "{NAME}", "$1", "__name__", "(.+)")'


def _too_much(error: SourceError) -> bool:
    """Whether less may be had where this could not: too many samples, too long an answer, too long a query."""
    if isinstance(error, Refused) and not isinstance(error, Unreachable):
        return error.status in (413, 414) or (error.status in (400, 422) and bool(_LIMIT.search(error.said)))
    return isinstance(error, TooLong)


#: What servers say of a query that asks for too much, in their several words.
_LIMIT = re.compile(r"too (?:many|long|large|much)|exceed|limit|maximum|memory", re.IGNORECASE)


def chunks(nodes: Sequence[str]) -> Iterator[list[str]]:
    """Nodes in parts that one query may name."""
    part: list[str] = []
    length = 0
    for node in nodes:
        if part and (len(part) >= CHUNK or length + len(node) > CHUNK_LENGTH):
            yield part
            part, length = [], 0
        part.append(node)
        length += len(node) + 1
    if part:
        yield part


def window_end(end: float) -> float:
    """The end of what can have been sampled: not beyond now, where a series would only seem to stop."""
    return min(end, time.time())
