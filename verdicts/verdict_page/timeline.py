"""A verdict's findings, the scheduler's words and people's doings as marks on lanes: plain data, no database.

Where a time can lie is reckoned as the engine reckons it: by the clock bound of its source, the lag of its rule and
the resolution of its stamp. Nothing here puts in order what the engine would not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rules.events import interval
from rules.observation import Observation
from rules.ruleset import Ruleset
from rules.stamp import MICRO, Interval, Order, order, parse_stamp
from rules.words import Source
from verdicts import wording
from verdicts.choices import FindingStatus
from verdicts.verdict_page.presentation import Body, findings

#: Lanes of nodes, and of messages of ranks or other nodes, before the rest shares one.
MOST_NODES, MOST_MESSAGES = 8, 8
#: A line that printed no time has that of the last dated line before it, at most so many seconds earlier.
NEAR = 60
#: What began so long before the attempt is left out of the first view of the chart.
LONG_BEFORE = 3600 * MICRO

SCHEDULER, FABRIC, PEOPLE = "Scheduler", "Fabric", "People and verdicts"
_SCHEDULERS = {Source.SCHEDULER.value, Source.KUBERNETES.value}
_FABRIC = {Source.FABRIC_MANAGER.value, Source.NETWORK_METRICS.value}
_BLAMED = (FindingStatus.CAUSE, FindingStatus.CANDIDATE)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Something that happened at a place: from `first` to `last`, each somewhere within its interval."""

    lane: str
    status: str  # a finding's, or "attempt" or "person"
    title: str
    detail: str = ""
    first: str | None = None
    last: str | None = None
    observed: str | None = None
    earliest: Interval | None = None  # where the beginning can lie
    latest: Interval | None = None  # where the end can lie
    link: str = ""
    why: str = ""
    versus: str = ""  # when, against the first cause
    ref: str = ""

    @property
    def micros(self) -> int:
        """The printed time of the beginning."""
        stamp = parse_stamp(self.first) if self.first else None
        return stamp.micros if stamp else 0

    @property
    def end_micros(self) -> int:
        """The printed time of the end."""
        stamp = parse_stamp(self.last) if self.last else None
        return stamp.micros if stamp else self.micros

    @property
    def read_micros(self) -> int | None:
        """When it was read, where that is known: the store's times are UTC."""
        stamp = parse_stamp(self.observed) if self.observed else None
        return stamp.micros if stamp is not None and stamp.clock == "utc" else None

    @property
    def within(self) -> str:
        """By how much the time can be off, either way."""
        if self.earliest is None:
            return ""
        before = (self.micros - self.earliest.earliest) / MICRO
        after = (self.earliest.latest - self.micros) / MICRO
        if abs(before - after) <= 1:  # a stamp in whole seconds lies anywhere in its second
            return f"± {max(before, after):.2g} s" if max(before, after) else ""
        return f"− {before:.2g} s, + {after:.2g} s"


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The marks by time, the lanes in their order, the clock that the chart's axis is of."""

    marks: list[Mark]
    lanes: list[str]
    clock: str
    beside: int = 0  # marks whose times cannot be put on the axis
    views: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def drawn(self) -> list[Mark]:
        """The marks that the axis can hold."""
        return [mark for mark in self.marks if mark.earliest is not None and mark.earliest.clock == self.clock]


@dataclass(frozen=True, kw_only=True)
class Deed:
    """What a person did, or a verdict that was made."""

    at: str
    title: str
    detail: str = ""
    link: str = ""


def timeline(
    body: Body, ruleset: Ruleset, *, deeds: Iterable[Deed] = (), observed: Mapping[str, str] | None = None
) -> Timeline:
    """Arrange a verdict's body. `observed` says of a line's reference when it was read."""
    bounds = _bounds(body, ruleset)
    lags = {rule.id: rule.lag for rule in ruleset.rules}
    told = findings(body)
    lanes = _lanes(body, told)
    marks = [_mark(found, status, lanes[found["id"]], bounds, lags, observed or {}) for found, status in told]
    marks += _attempt_marks(body.get("attempt") or {}, bounds)
    first = _first_cause(marks)
    marks = [replace(mark, versus=_versus(first, mark)) for mark in marks]
    marks += [
        Mark(
            lane=PEOPLE,
            status="person",
            title=deed.title,
            detail=deed.detail,
            first=deed.at,
            earliest=_span(deed.at),
            latest=_span(deed.at),
            link=deed.link,
        )
        for deed in deeds
    ]
    clocks = Counter(mark.earliest.clock for mark in marks if mark.earliest and mark.status != "person")
    drawable = [clock for clock in ("utc", "local") if clocks[clock]] or ["utc"]
    clock = max(drawable, key=lambda name: clocks[name])
    marks.sort(key=lambda mark: _order(mark, clock))
    used = {mark.lane for mark in marks}
    line = Timeline(
        marks=marks,
        lanes=[lane for lane in dict.fromkeys([SCHEDULER, *lanes.values(), PEOPLE]) if lane in used],
        clock=clock,
        beside=sum(1 for mark in marks if mark.earliest is None or mark.earliest.clock != clock),
    )
    return replace(line, lanes=_in_order(line.lanes), views=_views(line))


def _bounds(body: Body, ruleset: Ruleset) -> dict[Source, int]:
    """How far each source's clock can be off, as the engine takes it: the attempt's word before the site's."""
    given = (body.get("attempt") or {}).get("clock_bounds") or {}
    said = {source: int(seconds * MICRO) for source, seconds in ruleset.site.clock_bounds.items()}
    return said | {Source(source): int(seconds * MICRO) for source, seconds in given.items()}


def _place(time: str | None, source: str, node: str, bounds: dict[Source, int], lag: str, *, near: bool) -> Any:
    stamp = parse_stamp(time) if time else None
    line = Observation(source=Source(source), body="", attributes={"within": NEAR} if near else {})
    return interval(stamp, line, node, bounds, lag)


def _span(time: str) -> Interval | None:
    """The store's own times are certain."""
    stamp = parse_stamp(time)
    return Interval(stamp.clock, stamp.micros, stamp.micros) if stamp else None


def _mark(
    found: Body,
    status: FindingStatus,
    lane: str,
    bounds: dict[Source, int],
    lags: Mapping[str, str],
    observed: Mapping[str, str],
) -> Mark:
    lines = found.get("evidence") or []
    head: Body = next((line for line in lines if line.get("time") == found.get("first")), lines[0] if lines else {})
    source = str(head.get("source") or (found.get("sources") or [Source.APPLOG.value])[0])
    node = str((found.get("locus") or {}).get("node") or head.get("node") or "")
    lag = lags.get(found.get("rule", ""), "")
    near = bool(head.get("after"))
    explained = found.get("explained_by") or {}
    return Mark(
        lane=lane,
        status=status.value,
        title=found.get("title") or found.get("rule", ""),
        detail=_detail(found),
        first=found.get("first"),
        last=found.get("last") if found.get("last") != found.get("first") else None,
        observed=observed.get(str(head.get("ref") or "")),
        earliest=_place(found.get("first"), source, node, bounds, lag, near=near),
        latest=_place(found.get("last"), source, node, bounds, lag, near=near),
        link=f"#{found['id']}",
        why=f"explained by “{explained['title']}”" if explained else "",
        ref=str(head.get("ref") or ""),
    )


def _detail(found: Body) -> str:
    """How many lines, from where."""
    count = found.get("count") or 1
    said = [f"{count:,} line{'s' if count != 1 else ''}"]
    locus = found.get("locus") or {}
    if (places := found.get("places") or 1) > 1:
        said.append(f"{places:,} places")
    if locus.get("node"):
        said.append(f"node {locus['node']}")
    if locus.get("gpu"):
        said.append(f"GPU {locus['gpu']}")
    ranks = found.get("ranks") or []
    if len(ranks) == 1:
        said.append(f"rank {ranks[0]}")
    elif ranks and not locus.get("node"):
        said.append(f"first ranks {_few(ranks)}")
    return ", ".join(said)


def _few(ranks: Sequence[int]) -> str:
    """The first stretches of ranks: a rank that is not there shows."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    said = [str(low) if low == high else f"{low}–{high}" for low, high in runs]
    return ", ".join(said[:4]) + (" …" if len(said) > 4 else "")


def _lanes(body: Body, told: list[tuple[Body, FindingStatus]]) -> dict[str, str]:
    """The lane of each finding, by its id."""
    named = [node["name"] for node in body.get("affected_nodes") or ()]
    named += [
        found["locus"]["node"] for found, status in told if status in _BLAMED and (found.get("locus") or {}).get("node")
    ]
    nodes = list(dict.fromkeys(named))
    implicated = set(nodes)
    kept = set(nodes[:MOST_NODES])
    messages: list[str] = []
    lanes: dict[str, str] = {}
    for found, status in told:
        locus, sources = found.get("locus") or {}, set(found.get("sources") or ())
        node = locus.get("node")
        from_ranks = Source.APPLOG.value in sources
        if node in implicated and (status in _BLAMED or not from_ranks):
            lane = f"Node {node}" if node in kept else "Other implicated nodes"
            if node in kept and locus.get("gpu"):
                lane += f", GPU {locus['gpu']}"
        elif locus.get("switch") or locus.get("port") or sources & _FABRIC:
            lane = f"{FABRIC}, switch {locus['switch']}" if locus.get("switch") else FABRIC
        elif sources and sources <= _SCHEDULERS:
            lane = SCHEDULER
        else:
            who = "Ranks" if from_ranks else "Other nodes"
            lane = f"{who}: {found.get('title') or found.get('rule')}"
            if lane not in messages:
                messages.append(lane)
            if messages.index(lane) >= MOST_MESSAGES:
                lane = f"{who}: other messages"
        lanes.setdefault(found["id"], lane)
    return lanes


_KINDS = (SCHEDULER, "Node ", "Other implicated", FABRIC, "Ranks", "Other nodes", PEOPLE)


def _in_order(lanes: list[str]) -> list[str]:
    """Scheduler, nodes with their GPUs, fabric, ranks, other nodes, people."""
    return sorted(lanes, key=lambda lane: next(i for i, kind in enumerate(_KINDS) if lane.startswith(kind)))


def _attempt_marks(attempt: Body, bounds: dict[Source, int]) -> list[Mark]:
    marks = []
    for name, title in (("submit_time", "Submitted"), ("start", "Started"), ("end", "Ended")):
        if (time := attempt.get(name)) and parse_stamp(time) is not None:
            where = _place(time, Source.SCHEDULER.value, "", bounds, "", near=False)
            said = str(attempt.get("state") or "") if name == "end" else ""
            marks.append(
                Mark(
                    lane=SCHEDULER,
                    status="attempt",
                    title=title + (f": {said}" if said else ""),
                    first=time,
                    earliest=where,
                    latest=where,
                )
            )
    return marks


def _first_cause(marks: list[Mark]) -> Mark | None:
    """The blamed mark whose beginning ends earliest: what the others are told against."""
    for status in (FindingStatus.CAUSE.value, FindingStatus.CANDIDATE.value):
        dated = [mark for mark in marks if mark.status == status and mark.earliest is not None]
        if dated:
            return min(dated, key=lambda mark: (mark.earliest.latest, mark.link) if mark.earliest else (0, ""))
    return None


def _versus(first: Mark | None, mark: Mark) -> str:
    """When a mark was against the first cause: only what the clocks allow to be said."""
    if first is None or mark.earliest is None or first.earliest is None:
        return ""
    if mark is first:
        return "the first cause" if mark.status == FindingStatus.CAUSE else "the first candidate"
    if mark.earliest.clock != first.earliest.clock:
        return "order not known: another clock"
    seconds = abs(mark.micros - first.micros) / MICRO
    match order(first.earliest, mark.earliest):
        case Order.BEFORE:
            return f"{seconds:,.1f} s after it"
        case Order.AFTER:
            return f"{seconds:,.1f} s before it"
    return "order not known: within the clocks' doubt"


def _order(mark: Mark, clock: str) -> tuple[Any, ...]:
    """By time where the axis has it; the rest after, in the order of the verdict."""
    on_axis = mark.earliest is not None and mark.earliest.clock == clock
    return (not on_axis, mark.earliest is None, mark.earliest.clock if mark.earliest else "", mark.micros)


def _views(line: Timeline) -> list[tuple[str, int, int]]:
    """Stretches of time worth looking at, by name: the failure, the attempt, everything."""
    drawn = line.drawn
    start = next((m.micros for m in drawn if m.status == "attempt" and m.title.startswith("Started")), None)
    near = [m for m in drawn if m.status in ("cause", "candidate", "demoted")]
    recent = [m for m in near if start is None or m.end_micros > start - LONG_BEFORE] or near
    recent = recent or [m for m in drawn if m.status == "interesting"]
    stretches = [
        ("The failure", recent + [m for m in drawn if recent and m.title.startswith("Ended")]),
        ("The attempt", [m for m in drawn if m.status != "person"]),
        ("Everything", drawn),
    ]
    views: list[tuple[str, int, int]] = []
    for name, marks in stretches:
        if not marks:
            continue
        low = min(m.earliest.earliest for m in marks if m.earliest)
        high = max(m.latest.latest for m in marks if m.latest)
        if name == "Everything" and line.clock == "utc":
            high = max([high, *(m.read_micros for m in marks if m.read_micros is not None)])
        pad = max((high - low) * 6 // 100, 2 * MICRO)
        if not any((low - pad, high + pad) == view[1:] for view in views):
            views.append((name, low - pad, high + pad))
    return views


def status_word(status: str) -> str:
    """What a mark is, in a word."""
    return {"attempt": "the scheduler's word", "person": "person"}.get(status) or wording.FINDING_STATUSES[status]
