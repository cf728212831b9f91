"""How strong one cause is, by the stated rule, and every reason that keeps it from being strong.

`strong`: direct evidence at a named place, before every error of the workload by more than the clocks can
be off, and no source missing whose rules could have overturned it. `moderate`: direct, but order or coverage
leaves room. `weak`: inferred, or what could explain it was not collected.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rules import explain
from rules.case import Case
from rules.events import Event, event_order
from rules.stamp import MICRO, Interval, Order, order, parse_stamp, place
from rules.unseen import Unseen
from rules.verdict import SharedElement
from rules.weigh import WORKLOAD_GROUPS, Graph
from rules.words import ALWAYS, STRENGTHS, Domain, Group, Maturity, Role, Source, Strength

#: How far outside the attempt's window a fault may lie and still belong to it.
BEFORE_START, AFTER_END = 10 * 60 * MICRO, 10 * 60 * MICRO
#: A possible cause this close outside the window is still a doubt: a clock may be off by that much.
NEARBY = 2 * 3600 * MICRO
#: Domains whose findings put the located node itself under suspicion, unless the rule says otherwise.
NODE_DOMAINS = {Domain.GPU_HARDWARE, Domain.NVLINK_FABRIC, Domain.HOST_HARDWARE, Domain.HOST_SOFTWARE}


@dataclass(frozen=True)
class Doubts:
    """What is asked once for all causes of a case: each a reason for caution."""

    uncovered: Sequence[Source]
    unseen: Unseen
    near_window: bool
    near_end: bool
    rivals: frozenset[int]
    workload: tuple[Event, ...]  # the workload's own errors: a cause comes before them
    several_nodes: bool
    shared: SharedElement | None
    confirmed: frozenset[int]


def suspects_node(event: Event) -> bool:
    """Whether the place of an event is itself under suspicion."""
    if "job" in event.locus:
        return False
    if event.rule.node_fault is not None:
        return event.rule.node_fault
    return event.rule.domain in NODE_DOMAINS


def doubts_of(
    case: Case,
    events: Sequence[Event],
    causes: list[int],
    candidates: list[int],
    shared: SharedElement | None,
    *,
    near_end: bool,
) -> Doubts:
    """The doubts that all causes of a case share."""
    eligible = {id(e) for e in events}
    everything = Graph(case.events, case.ruleset.defaults, case.topology)
    places = {e.locus.get("node", "") for e in (events[i] for i in causes) if suspects_node(e)}
    own = needed(case)
    return Doubts(
        uncovered=[s for s in own if not case.covered(s)],
        unseen=Unseen.of(case, {events[i].rule.id: events[i].rule for i in [*causes, *candidates]}, but=own),
        near_window=any(_near_window(case, e) for e in case.events if e.rule.blamable and id(e) not in eligible),
        near_end=near_end,
        rivals=frozenset(candidates),
        workload=tuple(e for e in events if WORKLOAD_GROUPS & set(e.rule.groups)),
        several_nodes=len(places) > 1 and shared is None,
        shared=shared,
        confirmed=frozenset(i for i in [*causes, *candidates] if everything.confirmed(events[i])),
    )


def strength(case: Case, events: Sequence[Event], index: int, doubts: Doubts) -> tuple[Strength, list[str]]:
    """The strength of one cause, and every reason that keeps it from being strong, the gravest first."""
    event = events[index]
    rule = event.rule
    limits: list[tuple[Strength, str]] = []
    if rule.inferred:
        limits.append((Strength.WEAK, "inferred from a pattern of consequences"))
    if rule.role is Role.EITHER:
        limits.append((Strength.MODERATE, "the message can be a cause or a consequence"))
    if rule.maturity is Maturity.DRAFT:
        limits.append((Strength.WEAK, "the rule is a draft"))
    if not any(source in rule.match.sources for source in event.sources):
        limits.append(
            (Strength.MODERATE, f"read from the {explain.SOURCE_NAMES[event.sources[0]]}, where anybody can write it")
        )
    if suspects_node(event) and not event.nodes:
        limits.append((Strength.MODERATE, "the node is not known"))
    if late := _not_before(event, doubts.workload):
        limits.append((Strength.MODERATE, late))
    if doubts.near_window:
        limits.append((Strength.MODERATE, "another possible cause lies just outside the attempt's window"))
    for source in doubts.uncovered:
        status = case.report(source).status
        limits.append((Strength.MODERATE, f"the {explain.SOURCE_NAMES[source]} {explain.STATUS_WORDS[status]}"))
    for source, others in doubts.unseen.against(event).items():
        limits.append((Strength.MODERATE, explain.unseen(case.report(source), others)))
    if (
        rule.role is Role.EITHER
        and index not in doubts.confirmed
        and any(could_explain(case, source, event) for source in doubts.uncovered)
    ):
        limits.append((Strength.WEAK, "what could explain it was not collected"))
    if doubts.rivals - {index}:
        limits.append((Strength.MODERATE, "something else that could be a cause is not explained by it"))
    if doubts.several_nodes:
        limits.append((Strength.MODERATE, "several nodes show it and nothing known is shared by them"))
    if doubts.shared is not None:
        limits.append(
            (Strength.MODERATE, f"inferred from what the nodes share: {doubts.shared.kind} {doubts.shared.name}")
        )
    found = min((s for s, _ in limits), key=STRENGTHS.index, default=Strength.STRONG)
    reasons = [text for _, text in sorted(limits, key=lambda limit: STRENGTHS.index(limit[0]))]
    if doubts.near_end and found is not Strength.WEAK:
        found = STRENGTHS[STRENGTHS.index(found) - 1]
        reasons.append("an error near the end of the log is not recognised")
    return found, reasons


def _near_window(case: Case, event: Event) -> bool:
    """Whether an event set aside for its time lies close enough for a wrong clock to have put it there."""
    edges = window(case)
    if event.when is None or not outside(event, edges):
        return False
    return any(
        edge is not None
        and edge.clock == event.when.clock
        and event.when.earliest - NEARBY <= edge.latest
        and edge.earliest <= event.when.latest + NEARBY
        for edge in edges
    )


def needed(case: Case) -> list[Source]:
    """The sources without which a cause could always be missed: the application, the kernel, the scheduler."""
    scheduler = Source.KUBERNETES if case.attempt.scheduler == "kubernetes" else Source.SCHEDULER
    if case.attempt.scheduler == "" and case.covered(Source.KUBERNETES):
        scheduler = Source.KUBERNETES
    return [Source.APPLOG, Source.SYSLOG, scheduler]


def _not_before(event: Event, workload: Sequence[Event]) -> str:
    """Why the event is not known to come before every error of the workload, or ""."""
    if event.rule.persistent or WORKLOAD_GROUPS & set(event.rule.groups):
        return ""  # it was true long before, or is itself what the workload said
    for other in workload:
        sequence = event_order(event, other)
        if sequence is Order.AFTER:
            return "an error of the workload came before it"
        # A scheduler that ends a job is followed by its errors at once: only an earlier one speaks against it.
        if sequence is Order.UNKNOWN and Group.SCHEDULER_END not in event.rule.groups:
            return "whether it came before the workload's errors is not known"
    return ""


def could_explain(case: Case, source: Source, event: Event) -> bool:
    """Whether a blamable rule of a missing source speaks of the event as its consequence.

    What every attempt leaves something in has no substitute; a metric may be read from one of two sources.
    """
    return any(source in ALWAYS or case.missing(rule) for rule in case.ruleset.speaking(source, event.rule))


def window(case: Case) -> tuple[Interval | None, Interval | None]:
    """The attempt's start and end with their slack; None where it does not state them."""
    edges = []
    for text, before, after in ((case.attempt.start, BEFORE_START, 0), (case.attempt.end, 0, AFTER_END)):
        stamp = place(parsed, near=None, utc_offset=case.zone) if text and (parsed := parse_stamp(text)) else None
        edges.append(Interval(stamp.clock, stamp.micros - before, stamp.micros + after) if stamp else None)
    return edges[0], edges[1]


#: A workload that still makes progress this long after a fault was not ended by it.
WENT_ON = 2 * 60 * MICRO
_ENDINGS = {Domain.SCHEDULER, Domain.USER_ACTION, Domain.MAINTENANCE}


def survived(case: Case, events: Sequence[Event]) -> set[int]:
    """The ids of events after which the workload went on, as far as its progress lines have times of their own.

    Lines without a time are no measure: buffered output comes after the traceback that ended the program.
    """
    last: dict[str, Interval] = {}
    for seen in case.progress:
        if seen.when and "within" not in seen.observation.attributes:
            known = last.get(seen.when.clock)
            last[seen.when.clock] = seen.when if known is None or seen.when.earliest > known.earliest else known
    return {
        id(e)
        for e in events
        if e.rule.role in (Role.CAUSE, Role.EITHER, Role.SYMPTOM)
        and not e.rule.persistent
        and e.rule.domain not in _ENDINGS
        and (end := max((s.when for s in e.seen if s.when), key=lambda w: w.latest, default=None))
        and order(Interval(end.clock, end.earliest, end.latest + WENT_ON), last.get(end.clock)) is Order.BEFORE
    }


#: Without a window, a possible cause this long before the last one belongs to an earlier incident.
STALE = 12 * 3600 * MICRO


def stale(events: Sequence[Event]) -> set[int]:
    """Of an attempt without a window: the ids of events that lie long before the last possible cause."""
    last: dict[str, int] = {}
    for event in events:
        if event.rule.blamable and event.when:
            last[event.when.clock] = max(last.get(event.when.clock, 0), event.when.latest)
    return {
        id(e)
        for e in events
        if e.rule.blamable and not e.rule.persistent and e.when and _ended(e) + STALE < last[e.when.clock]
    }


def _ended(event: Event) -> int:
    return max(s.when.latest for s in event.seen if s.when)


def outside(event: Event, edges: tuple[Interval | None, Interval | None]) -> str:
    """Why an event lies outside the attempt's window, or ""; a lasting state may have begun before it."""
    start, end = edges
    point = event.when
    if (
        point
        and start
        and not event.rule.persistent
        and order(point, Interval(start.clock, start.earliest, start.earliest)) is Order.BEFORE
    ):
        return "before the attempt began"
    if point and end and order(point, Interval(end.clock, end.latest, end.latest)) is Order.AFTER:
        return "after the attempt had ended"
    return ""
