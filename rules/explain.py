"""The verdict in words: the headline, what to do, what would tell causes apart, what would overturn it."""

import msgspec

from rules.attempt import CollectorReport
from rules.case import Case
from rules.findings import Entry
from rules.rule import Rule
from rules.verdict import AffectedNode, BlindSpot, Finding, Note, SharedElement, Verdict
from rules.words import ALWAYS, Domain, ReportStatus, Role, Source, State, Strength

SOURCE_NAMES = {
    Source.APPLOG: "application log",
    Source.SYSLOG: "kernel and system log",
    Source.FABRIC_MANAGER: "Fabric Manager log",
    Source.SCHEDULER: "scheduler's record",
    Source.KUBERNETES: "Kubernetes record",
    Source.NODE_METRICS: "record of node metrics",
    Source.NETWORK_METRICS: "network's own record",
    Source.GPU_EVENTS: "GPU event record",
    Source.PROGRESS: "progress record",
}
#: Within a sentence; pages begin their labels with the same words.
DOMAIN_NAMES = {
    Domain.GPU_HARDWARE: "GPU hardware",
    Domain.NVLINK_FABRIC: "NVLink fabric",
    Domain.NETWORK_FABRIC: "network fabric",
    Domain.HOST_HARDWARE: "host hardware",
    Domain.HOST_SOFTWARE: "host software",
    Domain.STORAGE: "storage",
    Domain.SCHEDULER: "scheduler",
    Domain.CONTAINER_IMAGE: "container image",
    Domain.APPLICATION_CODE: "application code",
    Domain.APPLICATION_CONFIG: "application configuration",
    Domain.RESOURCE_EXHAUSTION: "resource exhaustion",
    Domain.FACILITY: "facility",
    Domain.USER_ACTION: "user action",
    Domain.MAINTENANCE: "maintenance",
    Domain.AMBIGUOUS: "ambiguous",
    Domain.UNATTRIBUTED: "unattributed",
    Domain.NO_FAILURE: "no failure",
}
STATUS_WORDS = {
    ReportStatus.OK: "was read",
    ReportStatus.PARTIAL: "was read only in part",
    ReportStatus.EMPTY: "was empty",
    ReportStatus.ERROR: "could not be read",
    ReportStatus.NOT_CONFIGURED: "was not collected",
}
STATE_WORDS = {
    State.SUCCEEDED: "succeeded",
    State.FAILED: "failed",
    State.CANCELLED: "was cancelled",
    State.TIMED_OUT: "ran out of time",
    State.PREEMPTED: "was preempted",
    State.NODE_FAILED: "lost a node",
    State.OUT_OF_MEMORY: "ran out of memory",
    State.HUNG: "hung",
    State.DEGRADED: "ran slower than it should",
    State.RUNNING: "was running",
    State.UNKNOWN: "ended in a way that is not known",
}
_DOUBT = {Strength.STRONG: "", Strength.MODERATE: "Probably: ", Strength.WEAK: "Perhaps: "}
MAX_NOTES = 8
#: Symptoms that say by name which node stopped answering, and never why.
LOST_SYMPTOMS = frozenset({"node_lost", "node_not_ready"})


def with_headline(verdict: Verdict) -> Verdict:
    """The verdict with its one sentence, the doubt in the same sentence."""
    return msgspec.structs.replace(verdict, headline=_headline(verdict))


def _headline(verdict: Verdict) -> str:
    domain = verdict.attributed_domain
    if domain is Domain.NO_FAILURE:
        end = STATE_WORDS[verdict.terminal_state]
        return f"The attempt {end}; no failure was seen in what was collected."
    if domain is Domain.AMBIGUOUS:
        parts = [f"{f.title} ({DOMAIN_NAMES[f.domain] if f.domain else ''}{where(f)})" for f in verdict.candidates[:3]]
        more = len(verdict.candidates) - len(parts)
        if more:
            parts.append(f"and {more} more")
        return f"Several causes fit and nothing orders or joins them: {'; '.join(parts)}."
    if domain is Domain.UNATTRIBUTED:
        why = verdict.missing[0] if verdict.missing else "what was seen are only consequences"
        return f"No cause found: {why}."
    first = verdict.causes[0]
    doubt = next((f.why.split("; ")[0] for f in verdict.causes if f.strength == verdict.strength and f.why), "")
    if _recorded(verdict, first) and doubt:
        return f"{first.title}; whether a fault made them do it is not known: {doubt}."
    doubt_word = _DOUBT[verdict.strength or Strength.WEAK]
    text = doubt_word + (_lower(first.title) if doubt_word else first.title)
    if verdict.shared_element is not None:
        shared = verdict.shared_element
        return (
            f"{text} on {first.places} nodes that share {shared.kind} {shared.name}; excluding nodes is not the remedy."
        )
    places = blamed(verdict.affected_nodes) or where(first).lstrip(", ")
    text += f": {places}" if places else ""
    others = len(verdict.causes) - 1
    if others and not verdict.affected_nodes:
        text += f", and {others} more of the same domain"
    return text + (f"; {doubt}." if doubt else ".")


def _recorded(verdict: Verdict, first: Finding) -> bool:
    """Whether somebody ended the attempt on the scheduler's own record: that they did is certain, why is the doubt."""
    return (
        verdict.terminal_state is State.CANCELLED
        and verdict.attributed_domain in (Domain.USER_ACTION, Domain.MAINTENANCE)
        and len(verdict.causes) == 1
        and Source.SCHEDULER in first.sources
    )


def _lower(title: str) -> str:
    """A title inside a sentence: its first letter small, unless it is a name ("NCCL …", "GPUs …")."""
    head = title.partition(" ")[0]
    return title if len(head) > 1 and not head[1:].islower() else title[0].lower() + title[1:]


def blamed(nodes: list[AffectedNode]) -> str:
    """ "node gpu-017, GPU 0000:65:00" or "nodes a, b and 3 more"."""
    if not nodes:
        return ""
    if len(nodes) == 1:
        one = nodes[0]
        gpus = f", GPU {', '.join(one.gpus[:3])}" if one.gpus else ""
        links = f", link {', '.join(one.links[:3])}" if one.links else ""
        return f"node {one.name}{gpus}{links}"
    return named([node.name for node in nodes])


def named(nodes: list[str]) -> str:
    """ "node gpu-017" or "nodes a, b, c and 3 more"."""
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(nodes[:3])}{more}"


def where(finding: Finding) -> str:
    """The place of a finding as ", node n1, GPU …" or ""."""
    words = {
        "node": "node",
        "gpu": "GPU",
        "link": "link",
        "device": "device",
        "port": "port",
        "switch": "switch",
        "image": "image",
        "rank": "rank",
        "peer": "names peer",
    }
    parts = [f"{words[k]} {finding.locus[k]}" for k in words if k in finding.locus]
    if not parts and len(finding.ranks) > 1:
        shown = ", ".join(map(str, finding.ranks[:4]))
        parts = [f"ranks {shown}" + (f" and {len(finding.ranks) - 4} more" if len(finding.ranks) > 4 else "")]
    return "".join(f", {p}" for p in parts)


def _rules(entries: list[Entry]) -> list[tuple[Rule, Entry]]:
    return [(min((e.rule for e in entry.events), key=lambda r: r.id), entry) for entry in entries]


#: A sentence, the rule and the finding that it comes from.
Said = tuple[str, str | None, str]


def _notes(pairs: list[Said]) -> list[Note]:
    """Notes of equal text joined, in their first order: (text, rule, finding)."""
    joined: dict[str, tuple[str | None, list[str]]] = {}
    for text, rule, finding in pairs:
        if text:
            joined.setdefault(text, (rule, []))[1].append(finding)
    notes = [Note(text=t, rule=rule, findings=[f for f in found if f]) for t, (rule, found) in joined.items()]
    return notes[:MAX_NOTES]


def advice(causes: list[Entry], candidates: list[Entry], shared: SharedElement | None) -> dict[str, list[Note]]:
    """What to do now and later, as the blamed rules say; nothing where nothing is blamed."""
    pairs = _rules(causes)
    now: list[Said] = [(rule.now, rule.id, entry.id) for rule, entry in pairs]
    if shared is not None:
        now = [
            (f"Do not exclude the nodes: look at {shared.kind} {shared.name}, which they share.", None, causes[0].id)
        ]
    later: list[Said] = [(rule.later, rule.id, entry.id) for rule, entry in pairs]
    if not causes and candidates:
        now = [("Exclude nothing yet: run the discriminating tests first.", None, "")]
    return {"now": _notes(now), "later": _notes(later)}


def lost_nodes(interesting: list[Finding]) -> list[str]:
    """The nodes that stopped answering for a reason that nothing found explains."""
    lost = [f for f in interesting if f.role is Role.SYMPTOM and f.symptom in LOST_SYMPTOMS and _unexplained(f)]
    return list(dict.fromkeys(node for finding in lost for node in finding.nodes))


def _unexplained(finding: Finding) -> bool:
    return finding.why.startswith("only ever a consequence")


def discriminating_tests(causes: list[Entry], candidates: list[Entry], others: list[Entry]) -> list[Note]:
    """The cheapest tests that would tell the competing causes apart; for a single cause, its own check.

    Where nothing is blamed and a node was lost (one of the `others`), what would say why it was.
    """
    blamed_or_lost = [*causes, *candidates] or [e for e in others if e.finding and lost_nodes([e.finding])]
    pairs = _rules(blamed_or_lost)
    return _notes([(text, rule.id, entry.id) for rule, entry in pairs for text in [rule.check, *rule.apart]])


def overturned_by(case: Case, causes: list[Entry], blind: list[BlindSpot]) -> list[Note]:
    """What would show that the verdict is wrong: the rule's own words, and what the missing sources could hold."""
    found: list[Said] = []
    asked: dict[tuple[Source, str], list[Rule]] = {}
    for rule, entry in _rules(causes):
        found += [(text, rule.id, entry.id) for text in rule.overturn]
        for spot in blind:
            if (spot.source, rule.id) not in asked:
                others = case.ruleset.speaking(spot.source, rule)
                asked[spot.source, rule.id] = [o for o in others if spot.source in ALWAYS or case.missing(o)]
            if explaining := asked[spot.source, rule.id]:
                titles = "; ".join(r.title for r in explaining[:3])
                gap = SOURCE_NAMES[spot.source] + _there(entry, " of")
                status = STATUS_WORDS[ReportStatus(spot.status)]
                found.append((f"In the {gap}, which {status}: {titles}.", explaining[0].id, entry.id))
        if not rule.overturn and not any(f[2] == entry.id for f in found):
            found.append((f"Earlier evidence of another fault{_there(entry, ' on')}.", None, entry.id))
    return _notes(found)


def _there(entry: Entry, word: str) -> str:
    node = entry.finding.locus.get("node") if entry.finding else None
    return f"{word} {node}" if node else ""


def unseen(report: CollectorReport, rules: list[Rule]) -> str:
    """Why a missing source limits a finding: how it is missing, and what of it could have overturned the finding."""
    gap = f"the {SOURCE_NAMES[report.source]} {STATUS_WORDS[report.status]}"
    more = f" or one of {len(rules) - 1} more" if len(rules) > 1 else ""
    return f"{gap} and could overturn this: {_lower(rules[0].title)}{more}"


def missing(case: Case, domain: Domain, interesting: list[Finding]) -> list[str]:
    """For an unattributed verdict, what was looked for and not there."""
    if domain is not Domain.UNATTRIBUTED:
        return []
    out = []
    symptoms = [f for f in interesting if f.role in (Role.SYMPTOM, Role.TEARDOWN)]
    lost = lost_nodes(interesting)
    if lost:
        were = "was" if len(lost) == 1 else "were"
        out.append(f"{named(lost)} stopped answering and {were} lost; nothing that was seen says why")
    if others := [f for f in symptoms if not lost or f.symptom not in LOST_SYMPTOMS]:
        seen = "; ".join(f.title + where(f) for f in others[:2])
        out.append(f"what was seen ({seen}) is only ever a consequence")
    out += [f"{f.title}, but {f.why}" for f in interesting if f.why.startswith("contradicted")][:2]
    gaps = [s for s in (Source.APPLOG, Source.SYSLOG, Source.SCHEDULER) if not case.covered(s)]
    if case.covered(Source.KUBERNETES):
        gaps = [s for s in gaps if s is not Source.SCHEDULER]
    for source in gaps:
        status = case.report(source).status
        count = len(case.ruleset.blamable[source])
        out.append(f"the {SOURCE_NAMES[source]} {STATUS_WORDS[status]}, so {count} rules could not fire")
    if not symptoms and not gaps:
        out.append("nothing in what was collected matches a rule that names a cause")
    return out
