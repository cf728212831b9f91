"""The conclusion: terminal state, domain, strength, nodes, and what would change them."""

from dataclasses import dataclass

from rules import explain, findings, fingerprint, read, shared
from rules.attempt import natural
from rules.case import Case
from rules.events import Event, event_order
from rules.findings import Entry
from rules.rule import targets
from rules.stamp import MICRO, Interval, Order, order, parse_stamp, place
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
from rules.words import STRENGTHS, Domain, Group, Maturity, Role, Source, State, Strength

#: What is meant by "the workload's own errors": a direct cause comes before all of them.
WORKLOAD_GROUPS = {Group.COLLECTIVE, Group.CONNECTION, Group.PROCESS_DEATH, Group.CUDA_ERROR, Group.PYTHON_EXCEPTION}
#: How far outside the attempt's window a fault may lie and still belong to it.
BEFORE_START, AFTER_END = 10 * 60 * MICRO, 10 * 60 * MICRO
#: A possible cause this close outside the window is still a doubt: a clock may be off by that much.
NEARBY = 2 * 3600 * MICRO
#: Domains whose findings put the located node itself under suspicion, unless the rule says otherwise.
NODE_DOMAINS = {Domain.GPU_HARDWARE, Domain.NVLINK_FABRIC, Domain.HOST_HARDWARE, Domain.HOST_SOFTWARE}
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
    state = terminal_state(case, [eligible[i] for i in weighed.kept])
    outcome = _decide(case, eligible, weighed, state)
    unrecognised = _unrecognised(case)
    entries = _entries(case, eligible, weighed, outcome, unrecognised, aside)
    by_status = {
        status: findings.ordered([e for e in entries if e.status == status], lambda event: event.first.sort_key)
        for status in ("cause", "candidate", "demoted", "interesting")
    }
    numbered = [entry for group in by_status.values() for entry in group]
    findings.number(numbered)
    listed = {status: [e.finding for e in group if e.finding] for status, group in by_status.items()}
    blind = _blind_spots(case, by_status["cause"] + by_status["candidate"])
    strength = _overall(outcome, by_status["cause"])
    verdict = Verdict(
        attempt=case.attempt.described(),
        terminal_state=state,
        attributed_domain=outcome.domain,
        strength=strength,
        headline="",
        affected_nodes=_affected(outcome, by_status["cause"]),
        shared_element=outcome.shared,
        causes=listed["cause"],
        candidates=listed["candidate"],
        demoted=listed["demoted"],
        interesting=listed["interesting"],
        unrecognised=unrecognised,
        coverage=[case.report(source) for source in Source],
        blind_spots=blind,
        discriminating_tests=explain.discriminating_tests(case, by_status["cause"], by_status["candidate"]),
        overturned_by=explain.overturned_by(case, by_status["cause"], blind),
        advice=explain.advice(case, by_status["cause"], by_status["candidate"], outcome.shared),
        missing=explain.missing(case, outcome.domain, listed["interesting"]),
        proof=[_proof(entry) for entry in numbered],
        ruleset=RulesetUsed(
            digest=case.ruleset.digest, rules=len(case.ruleset.rules), layers=list(case.ruleset.layers)
        ),
        mode=case.mode,
    )
    return explain.with_headline(verdict)


def _sort_out(case: Case) -> tuple[list[Event], list[tuple[Event, str]]]:
    """Events that take part in the weighing, and those kept aside with the reason."""
    window = _window(case)
    eligible, aside = [], []
    for event in case.events:
        if reason := _aside(case, event, window):
            aside.append((event, reason))
        else:
            eligible.append(event)
    return eligible, aside


def _window(case: Case) -> tuple[Interval | None, Interval | None]:
    """The attempt's start and end with their slack: something after the first's latest and before the second's earliest is inside."""
    edges = []
    for text, before, after in ((case.attempt.start, BEFORE_START, 0), (case.attempt.end, 0, AFTER_END)):
        stamp = place(parsed, near=None, utc_offset=case.zone) if text and (parsed := parse_stamp(text)) else None
        edges.append(Interval(stamp.clock, stamp.micros - before, stamp.micros + after) if stamp else None)
    return edges[0], edges[1]


def _aside(case: Case, event: Event, window: tuple[Interval | None, Interval | None]) -> str:
    role = event.rule.role
    if role is Role.STATE:
        return "a state, not a failure"
    if role is Role.CONFIRMATION:
        return "confirms others and is no cause by itself"
    if role is Role.END:
        return "says how the attempt ended, not why"
    if event.nodes and not any(case.places.member(node) for node in event.nodes):
        return "on a node that is not in this attempt"
    start, end = window
    point = event.when
    if point and start and not event.rule.persistent and order(point, Interval(start.clock, start.earliest, start.earliest)) is Order.BEFORE:
        return "before the attempt began"
    if point and end and order(point, Interval(end.clock, end.latest, end.latest)) is Order.AFTER:
        return "after the attempt had ended"
    return ""


_SCHEDULER_STATES = {
    "COMPLETED": State.SUCCEEDED, "SUCCEEDED": State.SUCCEEDED, "COMPLETE": State.SUCCEEDED, "FINISHED": State.SUCCEEDED,
    "FAILED": State.FAILED, "BOOT_FAIL": State.NODE_FAILED, "NODE_FAIL": State.NODE_FAILED,
    "CANCELLED": State.CANCELLED, "CANCELED": State.CANCELLED, "TIMEOUT": State.TIMED_OUT, "DEADLINE": State.TIMED_OUT,
    "DEADLINEEXCEEDED": State.TIMED_OUT, "PREEMPTED": State.PREEMPTED, "EVICTED": State.PREEMPTED,
    "OUT_OF_MEMORY": State.OUT_OF_MEMORY, "OOMKILLED": State.OUT_OF_MEMORY, "RUNNING": State.RUNNING,
    "HUNG": State.HUNG, "DEGRADED": State.DEGRADED, "ERROR": State.FAILED, "REQUEUED": State.PREEMPTED,
}  # fmt: skip


def terminal_state(case: Case, kept: list[Event]) -> State:
    """How the attempt ended: the scheduler's word, sharpened by a cause that says more; else what the logs say."""
    word = case.attempt.state.strip().upper().split(" ")[0].rstrip("+")
    known = _SCHEDULER_STATES.get(word)
    stated = {e.rule.state for e in kept if e.rule.state and e.rule.role is Role.CAUSE}
    if known is State.FAILED and stated == {State.OUT_OF_MEMORY}:
        return State.OUT_OF_MEMORY
    if known:
        return known
    if case.attempt.exit_code in (0, "0", "0:0") and not case.attempt.signal and not kept:
        return State.SUCCEEDED
    if len(stated) == 1:
        return next(s for s in stated if s)
    if stated:
        return State.FAILED
    ends = {e.rule.state for e in case.events if e.rule.state and not e.rule.blamable}
    for state in (State.HUNG, State.OUT_OF_MEMORY, State.TIMED_OUT, State.NODE_FAILED, State.PREEMPTED, State.CANCELLED, State.FAILED, State.SUCCEEDED):
        if state in ends and not (state is State.SUCCEEDED and any(e.rule.role is Role.CAUSE for e in kept)):
            return state
    if any(e.rule.role not in (Role.STATE, Role.CONFIRMATION, Role.END) for e in case.events):
        return State.FAILED
    return State.RUNNING if case.progressed else State.UNKNOWN


def _decide(case: Case, events: list[Event], weighed: Weighed, state: State) -> Outcome:
    failure = bool(weighed.kept or weighed.unexplained or weighed.demoted)
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
    near_end = any(u.near_end for u in unrecognised)
    for i in outcome.causes:
        strength, doubts = _strength(case, events, i, outcome, near_end)
        entries[i] = Entry("cause", [events[i]], why="; ".join(doubts), strength=strength)
    for i in outcome.candidates:
        strength, doubts = _strength(case, events, i, outcome, near_end)
        entries[i] = Entry("candidate", [events[i]], why="; ".join(doubts), strength=strength)
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


def suspects_node(event: Event) -> bool:
    """Whether the place of an event is itself under suspicion."""
    if "job" in event.locus:
        return False
    if event.rule.node_fault is not None:
        return event.rule.node_fault
    return event.rule.domain in NODE_DOMAINS


def _strength(case: Case, events: list[Event], index: int, outcome: Outcome, near_end: bool) -> tuple[Strength, list[str]]:
    """The strength of one cause by the stated rule, and every reason that keeps it from being strong."""
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
        limits.append((Strength.MODERATE, f"read from the {event.sources[0]}, where anybody can write it"))
    if suspects_node(event) and not event.nodes:
        limits.append((Strength.MODERATE, "the node is not known"))
    if late := _not_before(events, index):
        limits.append((Strength.MODERATE, late))
    if any(_near_window(case, e) for e in case.events if e.rule.blamable and e not in events):
        limits.append((Strength.MODERATE, "another possible cause lies just outside the attempt's window"))
    uncovered = [s for s in _needed(case) if not case.covered(s)]
    for source in uncovered:
        status = case.report(source).status
        limits.append((Strength.MODERATE, f"the {explain.SOURCE_NAMES[source]} {explain.STATUS_WORDS[status]}"))
    if rule.role is Role.EITHER and any(_could_explain(case, source, event) for source in uncovered):
        limits.append((Strength.WEAK, "what could explain it was not collected"))
    rivals = [i for i in outcome.candidates if i != index]
    if rivals:
        limits.append((Strength.MODERATE, "something else that could be a cause is not explained by it"))
    places = {e.locus.get("node", "") for e in (events[i] for i in outcome.causes) if suspects_node(e)}
    if len(places) > 1 and outcome.shared is None:
        limits.append((Strength.MODERATE, "several nodes show it and nothing known is shared by them"))
    if outcome.shared is not None:
        limits.append((Strength.MODERATE, f"inferred from what the nodes share: {outcome.shared.kind} {outcome.shared.name}"))
    strength = min((s for s, _ in limits), key=STRENGTHS.index, default=Strength.STRONG)
    reasons = [text for _, text in sorted(limits, key=lambda limit: STRENGTHS.index(limit[0]))]
    if near_end and strength is not Strength.WEAK:
        strength = STRENGTHS[STRENGTHS.index(strength) - 1]
        reasons.append("an error near the end of the log is not recognised")
    return strength, reasons


def _near_window(case: Case, event: Event) -> bool:
    """Whether an event set aside for its time lies close enough for a wrong clock to have put it there."""
    if event.when is None or not _aside(case, event, _window(case)).endswith(("began", "ended")):
        return False
    return any(
        edge is not None and edge.clock == event.when.clock
        and event.when.earliest - NEARBY <= edge.latest and edge.earliest <= event.when.latest + NEARBY
        for edge in _window(case)
    )  # fmt: skip


def _needed(case: Case) -> list[Source]:
    """The sources without which a cause could always be missed: the application, the kernel, the scheduler."""
    scheduler = Source.KUBERNETES if case.attempt.scheduler == "kubernetes" else Source.SCHEDULER
    if case.attempt.scheduler == "" and case.covered(Source.KUBERNETES):
        scheduler = Source.KUBERNETES
    return [Source.APPLOG, Source.SYSLOG, scheduler]


def _not_before(events: list[Event], index: int) -> str:
    """Why the event is not known to come before every error of the workload, or ""."""
    event = events[index]
    if WORKLOAD_GROUPS & set(event.rule.groups):
        return ""  # it is itself what the workload said
    for other in events:
        if other is event or not WORKLOAD_GROUPS & set(other.rule.groups):
            continue
        if event.rule.persistent:
            continue
        sequence = event_order(event, other)
        if sequence is Order.AFTER:
            return "an error of the workload came before it"
        if sequence is Order.UNKNOWN:
            return "whether it came before the workload's errors is not known"
    return ""


def _could_explain(case: Case, source: Source, event: Event) -> bool:
    return any(
        rule.match.sources[0] == source and _speaks_of(rule, event) for rule in case.ruleset.rules if rule.blamable
    )


def _speaks_of(rule: object, event: Event) -> bool:
    return any(targets(p, event.rule) for entry in rule.explains for p in entry.symptoms)  # type: ignore[attr-defined]


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
        if case.covered(source):
            continue
        rules = [r for r in case.ruleset.rules if r.match.sources[0] == source and r.blamable]
        if not rules:
            continue
        could = [t.id for t in tops if any(_could_explain(case, source, e) for e in t.events[:1])]
        speaking = [r.id for r in rules if any(_speaks_of(r, e) for t in tops for e in t.events[:1])]
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
