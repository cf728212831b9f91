"""From weighed events to the findings of a verdict: alike ones joined, numbered, with their evidence."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rules import read
from rules.attempt import natural
from rules.events import Event, Seen
from rules.verdict import Evidence, ExplainedBy, Finding, plain_text
from rules.weigh import Edge
from rules.words import Strength

MAX_LISTED = 64
MAX_EVIDENCE = 7
#: Fields of a sighting that are its locus or only its text again.
_NOT_DECODED = {"node", "rank", "gpu", "pci", "peer", "host", "rest"}


@dataclass
class Entry:
    """One finding before it is numbered: the events that it joins and what became of them."""

    status: str  # cause, candidate, demoted or interesting
    events: list[Event]
    why: str = ""
    strength: Strength | None = None
    edge: Edge | None = None
    explainer: "Entry | None" = None
    id: str = ""
    finding: Finding | None = field(default=None, repr=False)


def join(entries: list[Entry], *, by_place: bool) -> list[Entry]:
    """Join entries of one rule that share their fate; with `by_place` different places stay apart."""
    groups: dict[tuple[object, ...], Entry] = {}
    for entry in entries:
        event = entry.events[0]
        place = tuple(sorted(event.locus.items())) if by_place else ()
        key = (event.rule.symptom, entry.status, entry.why, entry.strength, id(entry.explainer), place)
        if key in groups:
            groups[key].events += entry.events
        else:
            groups[key] = entry
    return list(groups.values())


def number(entries: list[Entry]) -> None:
    """Give every entry its id, in the order of causes, candidates, demoted, interesting and of their time."""
    for index, entry in enumerate(entries, 1):
        entry.id = f"f{index}"
    for entry in entries:
        entry.finding = _finding(entry)


def _finding(entry: Entry) -> Finding:
    events = entry.events
    rule = min((e.rule for e in events), key=lambda r: r.id)
    seen = sorted((s for e in events for s in e.seen), key=lambda s: s.sort_key)
    shown = _shown(events)
    nodes = sorted({n for e in events for n in e.nodes}, key=natural)
    sources = [s for s in type(seen[0].observation.source) if any(s in e.sources for e in events)]
    dated = [s.stamp for s in seen if s.stamp is not None]
    same_clock = dated and len({stamp.clock for stamp in dated}) == 1
    first = dated[0] if dated else None
    return Finding(
        id=entry.id,
        rule=rule.id,
        title=rule.title,
        meaning=rule.meaning,
        symptom=rule.symptom,
        domain=rule.domain,
        role=rule.role,
        maturity=rule.maturity,
        strength=entry.strength,
        locus=_common(events),
        nodes=nodes[:MAX_LISTED],
        ranks=sorted({r for e in events for r in e.ranks})[:MAX_LISTED],
        peers=sorted({p for e in events for p in e.peers}, key=natural)[:MAX_LISTED],
        places=len({tuple(sorted(e.locus.items())) for e in events}),
        decoded=_decoded(seen[0]),
        count=sum(e.count for e in events),
        sources=sources,
        first=str(first) if first else None,
        last=str(max(dated, key=lambda s: s.micros)) if same_clock else (str(first) if first else None),
        evidence=[evidence(s) for s in shown],
        explained_by=_explained(entry),
        why=entry.why,
    )


def _shown(events: list[Event]) -> list[Seen]:
    """The first line of each place before a second one of any."""
    kept = [e.kept for e in events]
    rounds = max(len(k) for k in kept)
    order = [k[i] for i in range(rounds) for k in kept if i < len(k)]
    return sorted(order[:MAX_EVIDENCE], key=lambda s: s.sort_key)


def _common(events: list[Event]) -> dict[str, str]:
    first, *rest = [dict(e.locus) for e in events]
    common = {k: v for k, v in first.items() if all(other.get(k) == v for other in rest)}
    ranks = {r for e in events for r in e.ranks}
    if len(ranks) == 1:
        common["rank"] = str(next(iter(ranks)))
    peers = {p for e in events for p in e.peers}
    if len(peers) == 1:
        common["peer"] = next(iter(peers))
    return common


def _decoded(seen: Seen) -> dict[str, str]:
    fields = seen.sighting.fields
    return {
        k: plain_text(v, 300)
        for k, v in sorted(fields.items())
        if k not in _NOT_DECODED and v not in seen.sighting.locus.values()
    }


def _explained(entry: Entry) -> ExplainedBy | None:
    if entry.edge is None or entry.explainer is None:
        return None
    rule = min((e.rule for e in entry.explainer.events), key=lambda r: r.id)
    return ExplainedBy(
        finding=entry.explainer.id,
        rule=rule.id,
        title=rule.title,
        relation=entry.edge.relation,
        timing=entry.edge.timing,
    )


def evidence(seen: Seen) -> Evidence:
    """The line as it is shown: its message, where it stands, when."""
    observation = seen.observation
    frame = observation.attributes.get("frame", "")
    return Evidence(
        source=observation.source,
        node=dict(seen.locus).get("node", observation.node),
        rank=seen.rank,
        ref=observation.ref,
        file=seen.file,
        line=seen.line or None,
        time=str(seen.stamp) if seen.stamp else None,
        text=plain_text(read.clean(observation.body)),
        count=observation.count,
        frame=plain_text(str(frame), 300),
        after="within" in observation.attributes,
    )


def ordered(entries: list[Entry], order_key: Callable[[Event], tuple[object, ...]]) -> list[Entry]:
    """Entries by their first event."""
    for entry in entries:
        entry.events.sort(key=order_key)
    return sorted(entries, key=lambda e: order_key(e.events[0]))
