"""What explains what: the graph of explanations, and what is left when every consequence is demoted."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rules.events import Event, event_order, gap
from rules.rule import Explains, Rule, targets
from rules.ruleset import Default
from rules.stamp import MICRO, Interval, Order, duration, order
from rules.words import Group, Relation, Role

#: What is meant by "the workload's own errors": a direct cause comes before all of them.
WORKLOAD_GROUPS = {Group.COLLECTIVE, Group.CONNECTION, Group.PROCESS_DEATH, Group.CUDA_ERROR, Group.PYTHON_EXCEPTION}
#: A state that ended this long before the first of them had nothing to do with it.
QUIET = 10 * 60 * MICRO


@dataclass(frozen=True, slots=True)
class Edge:
    """`source` explains `target`. `specific` edges stand in the rule itself, others in the catalogue's defaults."""

    source: int
    target: int
    relation: Relation
    specific: bool
    timing: str
    ordered: bool


@dataclass
class Graph:
    """The explanations among the eligible events; indexes are into `events`."""

    events: Sequence[Event]
    defaults: Sequence[Default]
    topology: dict[str, dict[str, list[str]]]
    _entries: dict[tuple[str, str], list[tuple[Explains, bool]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Few rules have these, and they are asked for of every event.
        self._refuting = [e for e in self.events if e.rule.refutes]
        self._confirming = [e for e in self.events if e.rule.confirms]
        self._ending = [e for e in self.events if e.rule.ends]

    def entries(self, a: Rule, b: Rule) -> list[tuple[Explains, bool]]:
        """The explains-entries by which rule `a` speaks of rule `b`: (entry, whether it is the rule's own)."""
        key = (a.id, b.id)
        if key not in self._entries:
            own = [(e, True) for e in a.explains if any(targets(pattern, b) for pattern in e.symptoms)]
            common: list[tuple[Explains, bool]] = [
                (entry, False)
                for entry in self.defaults
                if a.role in entry.roles and any(targets(pattern, b) for pattern in entry.symptoms)
            ]
            self._entries[key] = own + common
        return self._entries[key]

    def link(self, i: int, j: int) -> Edge | None:
        """The best explanation of event `j` by event `i` alone, or None."""
        a, b = self.events[i], self.events[j]
        if a.rule.id == b.rule.id or a.rule.symptom == b.rule.symptom:
            return None
        entries = self.entries(a.rule, b.rule)
        if not entries:
            return None
        sequence = event_order(a, b)
        if sequence is Order.AFTER:
            return None
        distance = gap(a, b)
        for entry, specific in entries:
            if entry.only_if_earlier and sequence is not Order.BEFORE:
                continue
            if distance is not None and not a.rule.persistent and distance > duration(entry.within):
                continue
            if self._related(entry.on, a, b):
                return Edge(
                    i, j, _shown(entry.on, a, b), specific, _timing(a, b, distance, sequence), sequence is Order.BEFORE
                )
        return None

    def edge(self, i: int, j: int) -> Edge | None:
        """The explanation of `j` by `i`, unless `j` explains `i` as well: then only the more specific one holds."""
        forward = self.link(i, j)
        if forward is None:
            return None
        back = self.link(j, i)
        if back is None or forward.ordered or (forward.specific and not back.specific):
            return forward
        return None

    def refuted(self, event: Event) -> Event | None:
        """Another event that says the first cannot be true where it was seen, or None."""
        for other in self._refuting:
            for entry in other.rule.refutes:
                if any(targets(pattern, event.rule) for pattern in entry.symptoms) and self._related(
                    entry.on, other, event
                ):
                    return other
        return None

    def confirmed(self, event: Event) -> bool:
        """Whether another event at the place of this one says that it is so."""
        return any(
            any(targets(pattern, event.rule) for pattern in entry.symptoms) and self._related(entry.on, other, event)
            for other in self._confirming
            for entry in other.rule.confirms
        )

    def over(self, event: Event) -> Event | None:
        """The event that ended another long before the workload's first error, or None.

        A server that answered again, and a link that came up, ten minutes before anything failed did not fail it.
        """
        for other in self._ending:
            for entry in other.rule.ends:
                if any(targets(pattern, event.rule) for pattern in entry.symptoms) and self._related(
                    entry.on, other, event
                ):
                    if self._long_before_errors(event, other):
                        return other
        return None

    def _long_before_errors(self, event: Event, end: Event) -> bool:
        last, over = event.seen[-1].when, end.first.when
        if order(last, over) is not Order.BEFORE:
            return False
        errors = [e.when for e in self.events if WORKLOAD_GROUPS & set(e.rule.groups)]
        quiet = Interval(over.clock, over.earliest, over.latest + QUIET) if over else None
        return bool(errors) and all(order(quiet, when) is Order.BEFORE for when in errors)

    def _related(self, relation: Relation, a: Event, b: Event) -> bool:
        """Whether the two places stand in the relation; a place that is not known is not held against it."""
        if relation is Relation.JOB:
            return True
        if relation is Relation.PEER:
            return bool(a.nodes & b.peers)
        if relation is Relation.RANK:
            return not a.ranks or not b.ranks or bool(a.ranks & b.ranks)
        if relation is Relation.SWITCH:
            return a.nodes == b.nodes or any(
                a.nodes & set(members) and b.nodes & set(members)
                for members in self.topology.get("switch", {}).values()
            )
        if a.nodes and b.nodes and not a.nodes & b.nodes:
            return False
        if relation is Relation.NODE:
            return True
        if not _same(a, b, "gpu"):
            return False
        return relation is Relation.GPU or _same(a, b, "link")


def _shown(relation: Relation, a: Event, b: Event) -> Relation:
    """The relation as it can be claimed: "same node" only where both nodes are known."""
    if relation in (Relation.NODE, Relation.GPU, Relation.LINK) and not (a.nodes and b.nodes):
        return Relation.JOB
    return relation


def _same(a: Event, b: Event, part: str) -> bool:
    x, y = a.locus.get(part), b.locus.get(part)
    return x is None or y is None or x == y


def _timing(a: Event, b: Event, distance: int | None, sequence: Order) -> str:
    one_file = a.first.file == b.first.file
    if sequence is Order.BEFORE and distance == 0 and one_file and a.first.line < b.first.line:
        distance = None  # one time for both, often that of a line before them: the lines say more
    if sequence is Order.BEFORE and distance is not None:
        return f"{distance / MICRO:.1f} s later"
    if sequence is Order.BEFORE and one_file:
        lines = b.first.line - a.first.line
        return f"{lines} line{'' if lines == 1 else 's'} later in the same file"
    if distance is not None:
        return f"order not known: {abs(distance) / MICRO:.1f} s apart, within what the clocks can be trusted for"
    if a.when is None or b.when is None:
        return "order not known: no time on " + ("either" if a.when is b.when is None else "one of them")
    return "order not known: their clocks cannot be compared"


@dataclass(frozen=True)
class Weighed:
    """The outcome: which events nothing explains, and for every other one the edge that demotes it."""

    kept: list[int]
    demoted: dict[int, Edge]
    unexplained: list[int]


def weigh(graph: Graph) -> Weighed:
    """Demote every event that another one explains, transitively.

    Blamable events that nothing explains are the roots; what they reach is demoted. Blamable events
    that only explain each other in a circle stay: none of them is picked. Events that cannot be
    blamed and that nothing explains are `unexplained`.
    """
    events = graph.events
    explainers: dict[str, list[int]] = {}
    for i, event in enumerate(events):
        if event.rule.blamable or event.rule.explains:
            explainers.setdefault(event.rule.id, []).append(i)
    rules = {event.rule.id: event.rule for event in events}
    may: dict[str, list[int]] = {
        target.id: sorted(
            i for rule_id, found in explainers.items() if graph.entries(rules[rule_id], target) for i in found
        )
        for target in rules.values()
    }
    incoming = {j: _incoming(graph, may[event.rule.id], j) for j, event in enumerate(events)}
    roots = {i for i, e in enumerate(events) if e.rule.blamable and not incoming[i]}
    reached = _reach(incoming, roots)
    circle = {i for i, e in enumerate(events) if e.rule.blamable and i not in reached and i not in roots}
    kept = sorted(roots | circle)
    reached = _reach(incoming, set(kept)) - set(kept)
    demoted = {
        j: _best(events, [e for e in incoming[j] if e.source in reached or e.source in set(kept)])
        for j in sorted(reached)
    }
    unexplained = [i for i in range(len(events)) if i not in demoted and i not in set(kept)]
    return Weighed(kept, demoted, unexplained)


#: Enough explanations of one event to choose the best from; more would only cost time on large jobs.
MAX_EDGES = 24


def _incoming(graph: Graph, explainers: list[int], j: int) -> list[Edge]:
    edges: list[Edge] = []
    for i in explainers:
        if i != j and (edge := graph.edge(i, j)) is not None:
            edges.append(edge)
            if len(edges) >= MAX_EDGES:
                break
    return edges


def _reach(incoming: dict[int, list[Edge]], roots: set[int]) -> set[int]:
    outgoing: dict[int, list[int]] = {}
    for j, edges in incoming.items():
        for edge in edges:
            outgoing.setdefault(edge.source, []).append(j)
    reached: set[int] = set()
    stack = sorted(roots)
    while stack:
        for j in outgoing.get(stack.pop(), []):
            if j not in reached:
                reached.add(j)
                stack.append(j)
    return reached


def _best(events: Sequence[Event], edges: list[Edge]) -> Edge:
    """The explanation to show: a cause before a middle link, the rule's own before a default, ordered before not."""
    rank = {Relation.LINK: 0, Relation.GPU: 1, Relation.RANK: 2, Relation.PEER: 3, Relation.NODE: 4, Relation.SWITCH: 5}
    return min(
        edges,
        key=lambda e: (
            not events[e.source].rule.blamable,
            events[e.source].rule.role is not Role.CAUSE,
            not e.specific,
            not e.ordered,
            rank.get(e.relation, 9),
            e.source,
        ),
    )
