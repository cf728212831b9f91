"""The conclusion: terminal state, domain, strength, nodes, and what would change them."""

from dataclasses import dataclass

from rules import explain, findings, fingerprint, read, shared
from rules.attempt import natural
from rules.case import Case
from rules.events import Event
from rules.findings import Entry
from rules.stamp import Interval
from rules.strength import (
    could_explain,
    doubts_of,
    outside,
    stale,
    strength,
    survived,
    suspects_node,
    window,
)
from rules.terminal import terminal_state
from rules.verdict import (
    AffectedNode,
    BlindSpot,
    Evidence,
    Proof,
    RulesetUsed,
    SharedElement,
    Unrecognised,
    Verdict,
    plain_text,
)
from rules.weigh import Graph, Weighed, weigh
from rules.words import STRENGTHS, Domain, ReportStatus, Role, Source, State, Strength

MAX_UNRECOGNISED = 50
NEAR_END_LINES = 200


@dataclass
class Outcome:
    """The decision before it is put into words."""

    domain: Domain
    causes: list[int]
    candidates: list[int]
    shared: SharedElement | None = None


def conclude(case: Case) -> Verdict:
    """Draw the conclusion from a case."""
    eligible, aside = _sort_out(case)
    graph = Graph(eligible, case.ruleset.defaults, case.topology)
    weighed = weigh(graph)
    unrecognised = _unrecognised(case)
    state = terminal_state(case, [eligible[i] for i in weighed.kept], [eligible[i] for i in weighed.unexplained])
    outcome = _decide(case, eligible, weighed, state, near_end=any(u.near_end for u in unrecognised))
    entries = _entries(case, eligible, weighed, outcome, unrecognised, aside)
    by_status = {
        status: findings.ordered([e for e in entries if e.status == status], lambda event: event.first.sort_key)
        for status in ("cause", "candidate", "demoted", "interesting")
    }
    numbered = [entry for group in by_status.values() for entry in group]
    findings.number(numbered)
    listed = {status: [e.finding for e in group if e.finding] for status, group in by_status.items()}
    blind = _blind_spots(case, by_status["cause"] + by_status["candidate"])
    overall = _overall(outcome, by_status["cause"])
    verdict = Verdict(
        attempt=case.attempt.described(),
        terminal_state=state,
        attributed_domain=outcome.domain,
        strength=overall,
        headline="",
        affected_nodes=_affected(outcome, by_status["cause"]),
        shared_element=outcome.shared,
        causes=listed["cause"],
        candidates=listed["candidate"],
        demoted=listed["demoted"],
        interesting=listed["interesting"],
        unrecognised=unrecognised,
        coverage=[case.report(source) for source in Source if _concerns(case, source)],
        blind_spots=blind,
        discriminating_tests=explain.discriminating_tests(
            by_status["cause"], by_status["candidate"], by_status["interesting"]
        ),
        overturned_by=explain.overturned_by(case, by_status["cause"], blind),
        advice=explain.advice(by_status["cause"], by_status["candidate"], outcome.shared),
        missing=explain.missing(case, outcome.domain, listed["interesting"]),
        proof=[_proof(entry) for entry in numbered],
        ruleset=RulesetUsed(
            digest=case.ruleset.digest, rules=len(case.ruleset.rules), layers=list(case.ruleset.layers)
        ),
        mode=case.mode,
    )
    return explain.with_headline(verdict)


def _concerns(case: Case, source: Source) -> bool:
    """Whether a source is part of an attempt's coverage: it can exist, or something was said of it."""
    return case.applies(source) or case.report(source).status is not ReportStatus.NOT_CONFIGURED


def _sort_out(case: Case) -> tuple[list[Event], list[tuple[Event, str]]]:
    """Events that take part in the weighing, and those kept aside with the reason."""
    edges = window(case)
    eligible, aside = [], []
    everything = Graph(case.events, case.ruleset.defaults, case.topology)
    old = set() if any(edges) else stale(case.events)
    recovered = survived(case, case.events)
    for event in case.events:
        if reason := _aside(case, event, edges):
            aside.append((event, reason))
        elif id(event) in recovered:
            aside.append((event, "the workload went on after it"))
        elif id(event) in old:
            aside.append((event, "long before the last fault that was seen"))
        elif event.rule.blamable and (against := everything.refuted(event)):
            aside.append((event, f"contradicted: {against.rule.title}"))
        elif event.rule.blamable and (end := everything.over(event)):
            aside.append((event, f"it was over before anything failed: {end.rule.title}"))
        else:
            eligible.append(event)
    return eligible, aside


def _aside(case: Case, event: Event, edges: tuple[Interval | None, Interval | None]) -> str:
    role = event.rule.role
    if event.first.other_job:
        return f"of job {event.first.other_job}, not of this attempt"
    if role is Role.STATE:
        return "a state, not a failure"
    if role is Role.CONFIRMATION:
        return "confirms others and is no cause by itself"
    if role is Role.END:
        return "says how the attempt ended, not why"
    if event.nodes and not any(case.places.member(node) for node in event.nodes):
        return "on a node that is not in this attempt"
    return outside(event, edges)


def _decide(case: Case, events: list[Event], weighed: Weighed, state: State, *, near_end: bool) -> Outcome:
    failure = bool(weighed.kept or weighed.unexplained or weighed.demoted or near_end)
    if state is State.SUCCEEDED or (state is State.RUNNING and not failure):
        return Outcome(Domain.NO_FAILURE, [], [])
    causes = [i for i in weighed.kept if events[i].rule.role is Role.CAUSE]
    eithers = [i for i in weighed.kept if events[i].rule.role is Role.EITHER and not events[i].rule.inferred]
    inferred = [i for i in weighed.kept if events[i].rule.role is Role.EITHER and events[i].rule.inferred]
    causes, leads = [i for i in causes if not events[i].rule.inferred], [i for i in causes if events[i].rule.inferred]
    for tier, rest in (
        (causes, eithers + leads + inferred),
        (eithers, leads + inferred),
        (leads, inferred),
        (inferred, []),
    ):
        if tier:
            return _among(case, events, tier, rest)
    return Outcome(Domain.UNATTRIBUTED, [], [])


def _among(case: Case, events: list[Event], tier: list[int], rest: list[int]) -> Outcome:
    """One domain: the cause. Several: an element that the places share, else ambiguous."""
    element = shared.element(case, [events[i] for i in tier])
    if element is not None:
        return Outcome(shared.DOMAINS[element.kind], tier, rest, element)
    domains = {events[i].rule.domain for i in tier}
    if len(domains) == 1:
        return Outcome(next(d for d in domains if d), tier, rest)
    return Outcome(Domain.AMBIGUOUS, [], tier + rest)


def _entries(
    case: Case,
    events: list[Event],
    weighed: Weighed,
    outcome: Outcome,
    unrecognised: list[Unrecognised],
    aside: list[tuple[Event, str]],
) -> list[Entry]:
    entries: dict[int, Entry] = {}
    doubts = doubts_of(
        case, events, outcome.causes, outcome.candidates, outcome.shared, near_end=any(u.near_end for u in unrecognised)
    )
    for i in outcome.causes:
        found, reasons = strength(case, events, i, doubts)
        entries[i] = Entry("cause", [events[i]], why="; ".join(reasons), strength=found)
    for i in outcome.candidates:
        found, reasons = strength(case, events, i, doubts)
        entries[i] = Entry("candidate", [events[i]], why="; ".join(reasons), strength=found)
    for i in weighed.kept:
        if i not in entries:
            entries[i] = Entry("interesting", [events[i]], why="the attempt did not fail")
    for i in weighed.unexplained:
        entries[i] = Entry("interesting", [events[i]], why="only ever a consequence, and nothing found explains it")
    for i in _by_depth(weighed):
        edge = weighed.demoted[i]
        entries[i] = Entry("demoted", [events[i]], edge=edge, explainer=entries.get(edge.source))
    for i, edge in weighed.demoted.items():
        entries[i].explainer = entries[edge.source]
    tops = findings.join([e for e in entries.values() if e.status in ("cause", "candidate")], by_place=True)
    tops = _join_places(tops)
    home = {id(event): top for top in tops for event in top.events}
    rest = [e for e in entries.values() if e.status not in ("cause", "candidate")]
    for entry in rest:
        if entry.explainer is not None:
            entry.explainer = home.get(id(entry.explainer.events[0]), entry.explainer)
    joined = _join_chain(rest)
    for event, why in aside:
        joined.append(Entry("interesting", [event], why=why))
    kept_aside = findings.join([e for e in joined if e.status == "interesting"], by_place=False)
    return [*tops, *[e for e in joined if e.status != "interesting"], *kept_aside]


def _by_depth(weighed: Weighed) -> list[int]:
    """Demoted events, explainers before what they explain."""
    done: list[int] = []
    seen = set(weighed.kept) | set(weighed.unexplained)
    left = sorted(weighed.demoted)
    while left:
        ready = [i for i in left if weighed.demoted[i].source in seen] or left
        done += ready
        seen.update(ready)
        left = [i for i in left if i not in seen]
    return done


def _join_places(tops: list[Entry]) -> list[Entry]:
    """Causes that put no node under suspicion are one finding wherever they were said."""
    apart = [e for e in tops if suspects_node(e.events[0])]
    return apart + findings.join([e for e in tops if not suspects_node(e.events[0])], by_place=False)


def _join_chain(rest: list[Entry]) -> list[Entry]:
    """Join demoted entries of one rule and explainer; an explainer that is itself joined takes its place."""
    while True:
        joined = findings.join(rest, by_place=False)
        if len(joined) == len(rest):
            return joined
        home = {id(event): entry for entry in joined for event in entry.events}
        for entry in joined:
            if entry.explainer is not None:
                entry.explainer = home.get(id(entry.explainer.events[0]), entry.explainer)
        rest = joined


def _overall(outcome: Outcome, causes: list[Entry]) -> Strength | None:
    """The strength of the verdict is that of its strongest cause; an open verdict has none."""
    if outcome.domain in (Domain.AMBIGUOUS, Domain.UNATTRIBUTED, Domain.NO_FAILURE):
        return None
    return max((c.strength for c in causes if c.strength), key=STRENGTHS.index, default=None)


def _affected(outcome: Outcome, causes: list[Entry]) -> list[AffectedNode]:
    """The nodes held at fault; none where something shared is, or where the domain blames no node."""
    if outcome.shared is not None:
        return []
    parts: dict[str, dict[str, set[str]]] = {}
    for event in (e for cause in causes for e in cause.events if suspects_node(e)):
        for node in event.nodes:
            spot = parts.setdefault(node, {"gpus": set(), "links": set(), "ranks": set()})
            spot["gpus"] |= {event.locus["gpu"]} if "gpu" in event.locus else set()
            spot["links"] |= {event.locus["link"]} if "link" in event.locus else set()
            spot["ranks"] |= {str(rank) for rank in event.ranks}
    return [
        AffectedNode(
            name=node,
            gpus=sorted(spot["gpus"]),
            ranks=sorted(int(r) for r in spot["ranks"]),
            links=sorted(spot["links"], key=natural),
        )
        for node, spot in sorted(parts.items(), key=lambda item: natural(item[0]))
    ]


def _unrecognised(case: Case) -> list[Unrecognised]:
    groups: dict[tuple[str, str], list] = {}  # type: ignore[type-arg]
    for observation in case.unrecognised:
        message = read.parse(observation.body).message
        groups.setdefault((str(observation.source), fingerprint.template(message)), []).append(observation)
    out = []
    for (source, text), members in groups.items():
        members.sort(key=lambda o: (natural(o.ref), o.body))
        first = members[0]
        file, _, line = first.ref.rpartition(":")
        out.append(
            Unrecognised(
                template=plain_text(text, 300),
                count=sum(o.count for o in members),
                source=Source(source),
                near_end=any(_near_end(o) for o in members),
                example=Evidence(
                    source=first.source, node=first.node, rank=first.rank, ref=first.ref,
                    file=file if line.isdigit() else first.ref, line=int(line) if line.isdigit() else None,
                    time=first.timestamp, text=plain_text(read.clean(first.body)), count=first.count,
                ),
            )
        )  # fmt: skip
    out.sort(key=lambda u: (not u.near_end, -u.count, u.template, u.source))
    return out[:MAX_UNRECOGNISED]


def _near_end(observation: object) -> bool:
    left = observation.attributes.get("from_end")  # type: ignore[attr-defined]
    return isinstance(left, int) and left <= NEAR_END_LINES


def _blind_spots(case: Case, tops: list[Entry]) -> list[BlindSpot]:
    """Per source that was not read in full: how many rules it silences and which findings they could explain."""
    out = []
    for source in Source:
        if case.seen(source) or not case.applies(source):
            continue
        rules = case.ruleset.blamable[source]
        if not rules:
            continue
        could = [t.id for t in tops if any(could_explain(case, source, e) for e in t.events[:1])]
        speakers = {r.id for t in tops for e in t.events[:1] for r in case.ruleset.speaking(source, e.rule)}
        speaking = [r.id for r in rules if r.id in speakers]
        out.append(
            BlindSpot(
                source=source,
                status=str(case.report(source).status),
                rules=len(rules),
                could_explain=could,
                examples=(speaking or [r.id for r in rules])[:5],
            )
        )
    return out


def _proof(entry: Entry) -> Proof:
    finding = entry.finding
    assert finding is not None  # numbered before
    if finding.explained_by is not None:
        by = finding.explained_by
        because = f"explained by {by.finding} ({by.rule}) on the same {by.relation}, {by.timing}"
    elif entry.status == "cause":
        because = "nothing found explains it" + (f"; {entry.why}" if entry.why else "")
    elif entry.status == "candidate":
        because = "could be the cause; nothing orders or joins it with the others"
    else:
        because = entry.why
    refs = [e.ref for e in finding.evidence]
    return Proof(finding=entry.id, status=entry.status, because=because, rule=finding.rule, evidence=refs)
