"""From sightings to events: one symptom at one place over one stretch of time, however often it was said.

An Xid in the kernel log and in a metric, or a line that 4,096 ranks repeat, is one event with a count.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from rules.attempt import expand_hostlist, natural
from rules.extract import Sighting
from rules.observation import Observation
from rules.place import Places
from rules.rule import Rule
from rules.ruleset import CLOCK_BOUNDS
from rules.stamp import MICRO, Interval, Order, Stamp, duration, order
from rules.words import Source

#: A new stretch of the same symptom at the same place begins after this pause.
PAUSE = 10 * 60 * MICRO
#: At most this many stretches are told apart; a symptom that comes and goes more often is one.
MAX_STRETCHES = 20
KEPT_FIRST, KEPT_LAST = 5, 2

#: Parts of a locus that tell one event from another. A rank counts only where no node is known.
PLACE = ("node", "gpu", "link", "device", "switch", "port", "image", "job")


@dataclass(frozen=True)
class Seen:
    """A sighting placed in space and time."""

    sighting: Sighting
    observation: Observation
    locus: tuple[tuple[str, str], ...]
    rank: int | None
    peer: str
    when: Interval | None
    stamp: Stamp | None
    file: str
    line: int
    other_job: str = ""

    @cached_property
    def sort_key(self) -> tuple[object, ...]:
        """A total order that no arrival order can change: clock, time, file, line, text."""
        clock = (self.when.clock, self.when.earliest, self.when.latest) if self.when else ("~", 0, 0)
        return (*clock, natural(self.file), self.line, self.observation.body, self.observation.digest())


#: The fixed order of the kinds of evidence.
_PLACE = {source: place for place, source in enumerate(Source)}


@dataclass(eq=False)
class Event:
    """Findings of one symptom at one place over one stretch of time. `key` is its identity in the verdict."""

    rule: Rule
    locus: dict[str, str]
    seen: list[Seen]
    key: tuple[object, ...] = ()
    nodes: frozenset[str] = field(default=frozenset())
    ranks: frozenset[int] = field(default=frozenset())
    peers: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        self.seen.sort(key=lambda s: s.sort_key)
        self.nodes = frozenset([self.locus["node"]] if "node" in self.locus else [])
        self.ranks = frozenset(s.rank for s in self.seen if s.rank is not None)
        self.peers = frozenset(s.peer for s in self.seen if s.peer)
        first = self.seen[0]
        self.key = (self.rule.symptom, tuple(sorted(self.locus.items())), first.sort_key)

    @property
    def count(self) -> int:
        """How often it was said, folded repeats included."""
        return sum(s.observation.count for s in self.seen)

    @property
    def first(self) -> Seen:
        """The first sighting in the order of the clock, then of the files."""
        return self.seen[0]

    @property
    def when(self) -> Interval | None:
        """When it began."""
        return self.first.when

    @property
    def sources(self) -> list[Source]:
        """The kinds of evidence that carry it, in the fixed order."""
        return sorted({s.observation.source for s in self.seen}, key=_PLACE.__getitem__)

    @property
    def kept(self) -> list[Seen]:
        """The evidence shown: the first few and the last."""
        if len(self.seen) <= KEPT_FIRST + KEPT_LAST:
            return self.seen
        return [*self.seen[:KEPT_FIRST], *self.seen[-KEPT_LAST:]]


def event_order(a: Event, b: Event) -> Order:
    """Whether `a` began before `b`: by time where clocks allow, else by place in one file."""
    by_time = order(a.when, b.when)
    if by_time is not Order.UNKNOWN:
        return by_time
    if a.rule.lag or b.rule.lag:
        return Order.UNKNOWN  # a message that trails its fault says nothing by its place in a file
    x, y = a.first, b.first
    if x.file and x.file == y.file and x.line and y.line and x.line != y.line:
        return Order.BEFORE if x.line < y.line else Order.AFTER
    return Order.UNKNOWN


def gap(a: Event, b: Event) -> int | None:
    """Microseconds from the beginning of `a` to that of `b`, where one clock measured both."""
    if a.when is None or b.when is None or a.when.clock != b.when.clock:
        return None
    x = a.first.stamp
    y = b.first.stamp
    return y.micros - x.micros if x and y and x.clock == y.clock else b.when.earliest - a.when.earliest


def build(seen: Iterable[Seen]) -> list[Event]:
    """Fold placed sightings into events, in an order that does not depend on theirs."""
    groups: dict[tuple[str, str, tuple[tuple[str, str], ...], str], list[Seen]] = {}
    for one in seen:
        locus = dict(one.locus)
        if "node" not in locus and one.rank is not None and "job" not in locus:
            locus["rank"] = str(one.rank)
        key = (one.sighting.rule.symptom, str(one.sighting.rule.role), tuple(sorted(locus.items())), one.other_job)
        groups.setdefault(key, []).append(one)
    events = []
    for (_, _, locus_items, _), members in groups.items():
        for stretch in _stretches(members):
            rule = min((s.sighting.rule for s in stretch), key=lambda r: (_TRUST[str(r.maturity)], r.id))
            events.append(Event(rule, dict(locus_items), stretch))
    return sorted(events, key=lambda e: (e.first.sort_key, e.rule.id, e.key[1]))


_TRUST = {"stable": 0, "trial": 1, "draft": 2}


def _stretches(members: list[Seen]) -> list[list[Seen]]:
    """Split the sightings of one place where they pause; undated ones join the first stretch of their file."""
    members.sort(key=lambda s: s.sort_key)
    pause = PAUSE
    while True:
        stretches: list[list[Seen]] = []
        for one in members:
            last = stretches[-1][-1] if stretches else None
            if last is None or (
                one.when
                and last.when
                and (one.when.clock != last.when.clock or one.when.earliest - last.when.latest > pause)
            ):
                stretches.append([one])
            else:
                stretches[-1].append(one)
        if len(stretches) <= MAX_STRETCHES:
            return stretches
        pause *= 4


def interval(
    stamp: Stamp | None, observation: Observation, node: str, bounds: dict[Source, int], lag: str
) -> Interval | None:
    """Where the event's time can lie: stamp ± clock bound, earlier by the rule's lag, later when only approximate.

    Seconds since boot compare within one node only; a date without a zone or year only with its like.
    """
    if stamp is None:
        return None
    bound = bounds.get(observation.source, CLOCK_BOUNDS[observation.source])
    within = observation.attributes.get("within", 0)
    later = int(within) * MICRO if isinstance(within, int) else 0
    clock = f"boot:{node}" if stamp.clock == "boot" else stamp.clock
    if stamp.clock == "boot":
        bound = 0
    return Interval(
        clock,
        stamp.micros - bound - duration(lag or "0s"),
        stamp.micros + max(stamp.step - 1, 0) + bound + later,
    )


def seen_of(
    sighting: Sighting, observation: Observation, places: Places, bounds: dict[Source, int], near: int | None, zone: str
) -> list[Seen]:
    """Place one sighting: its node, GPU, rank and peer by the maps, its time by the attempt's window and zone.

    A line that names a host list ("Nodes gpu-[01-04] not responding") is one sighting on each of them.
    """
    return [
        _seen(sighting, observation, places.locate(locus), places, bounds, near, zone)
        for locus in _each_node(sighting.locus)
    ]


def _each_node(locus: dict[str, str]) -> list[dict[str, str]]:
    node = locus.get("node", "")
    if "[" not in node and "," not in node:
        return [locus]
    try:
        return [locus | {"node": name} for name in expand_hostlist(node)]
    except ValueError:  # not a host list after all: the text stands as it is
        return [locus]


def _seen(
    sighting: Sighting,
    observation: Observation,
    locus: dict[str, str],
    places: Places,
    bounds: dict[Source, int],
    near: int | None,
    zone: str,
) -> Seen:
    node = locus.get("node", observation.node)
    stamp = places.stamp(sighting, near=near, zone=zone)
    rank = locus.pop("rank", "")
    peer = locus.pop("peer", "")
    file, _, line = observation.ref.rpartition(":")
    return Seen(
        sighting=sighting,
        observation=observation,
        locus=tuple(sorted((k, v) for k, v in locus.items() if k in PLACE)),
        rank=int(rank) if rank.isdigit() else None,
        peer=peer,
        when=interval(stamp, observation, node, bounds, sighting.rule.lag),
        stamp=stamp,
        file=file if line.isdigit() else observation.ref,
        line=int(line) if line.isdigit() else 0,
        other_job=places.other_job(observation),
    )
