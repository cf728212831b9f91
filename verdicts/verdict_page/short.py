"""A verdict in four answers, for who has one minute: what failed, why not the rest, what is not known, what to do."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from rules.explain import LOST_SYMPTOMS
from rules.words import Domain, ReportStatus, Role, Source, State, Strength
from verdicts import wording
from verdicts.verdict_page.presentation import Body, seen_whole

#: Symptoms that are named; the sections below have all.
MOST_NAMED = 3
#: How the engine's words on a consequence that nothing explains begin.
_NO_MORE = "only ever a consequence"
#: How the engine's words on two times that it cannot order begin.
_NO_ORDER = "order not known"
#: Sources without which no verdict is strong: a cause could stand there that no rule ties to what was found.
_NEEDED = (Source.APPLOG, Source.SYSLOG, Source.SCHEDULER)
_LATER = re.compile(r"([0-9,]+(?:\.[0-9]+)?) s later")


@dataclass(frozen=True, kw_only=True)
class NotBlamed:
    """Symptoms with one explanation: their names, how many there are, what explains them and how."""

    titles: list[str]
    number: int
    lines: int
    kind: str  # "NCCL" or "PyTorch" where such errors are among them
    finding: str
    title: str
    relation: str
    timing: str
    through: list[str]  # symptoms that stand between some of them and the root

    @property
    def more(self) -> int:
        """How many are not named."""
        return self.number - len(self.titles)


@dataclass(frozen=True, kw_only=True)
class Unexplained:
    """A consequence that nothing found explains: it is no cause either."""

    finding: str
    title: str
    lines: int
    why: str
    place: str = ""  # where it was seen: "node gpu-03, rank 5"


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A source that was not seen whole; `matters` says that it could have changed this verdict."""

    source: str
    status: str
    reason: str
    rules: int = 0
    matters: bool = False


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something to do, and whose it is."""

    text: str
    owner: str
    findings: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Short:
    """The four answers."""

    not_blamed: list[NotBlamed]
    unexplained: list[Unexplained]
    gaps: list[Gap]
    now: list[Step]
    later: list[Step]
    first: list[str]  # what to find out before a repair
    lost: list[str] = field(default_factory=list)  # nodes that stopped answering, nothing says why
    test: Body | None = None  # where the cause is not sure: the cheapest test

    @property
    def blind(self) -> Gap | None:
        """Where nothing was found: the missing source that most rules read."""
        most = max(self.gaps, key=lambda gap: gap.rules, default=None)
        return most if most is not None and most.rules else None

    @property
    def harmless_gaps(self) -> bool:
        """Whether something is missing, and none of it could have changed the verdict."""
        return bool(self.gaps) and not any(gap.matters for gap in self.gaps)

    @property
    def needed_gaps(self) -> list[str]:
        """The sources missing that every verdict needs."""
        return [gap.source for gap in self.gaps if gap.source in _NEEDED]


def in_short(body: Body) -> Short:
    """The answers out of a verdict's body."""
    return Short(
        not_blamed=_not_blamed(body),
        unexplained=_unexplained(body),
        gaps=_gaps(body),
        now=_steps(body, "now", wording.CONTAINS),
        later=_steps(body, "later", wording.REPAIRS),
        first=_before_repair(body),
        lost=_lost(body),
        test=_test(body),
    )


def _test(body: Body) -> Body | None:
    """The cheapest test, where one decides more than the verdict does."""
    undecided = body.get("attributed_domain") in (Domain.AMBIGUOUS, Domain.UNATTRIBUTED)
    tests = body.get("discriminating_tests") or ()
    if not tests or not (undecided or body.get("strength") == Strength.WEAK):
        return None
    titles = {one["id"]: one.get("title") or one["rule"] for one in [*(body.get("causes") or ()), *_open(body)]}
    about = [(name, titles[name]) for name in tests[0].get("findings") or () if name in titles]
    return {"text": tests[0]["text"], "about": about, "more": len(tests) - 1}


def _open(body: Body) -> list[Body]:
    return [*(body.get("candidates") or ()), *(body.get("interesting") or ())]


def _lost(body: Body) -> list[str]:
    """Where no cause was found: the nodes that are known to have stopped answering."""
    if body.get("attributed_domain") != Domain.UNATTRIBUTED:
        return []
    lost = [one for one in body.get("interesting") or () if one.get("symptom") in LOST_SYMPTOMS]
    told = [one for one in lost if one.get("role") == Role.SYMPTOM and (one.get("why") or "").startswith(_NO_MORE)]
    return list(dict.fromkeys(node for one in told for node in one.get("nodes") or ()))


def _not_blamed(body: Body) -> list[NotBlamed]:
    """Demoted symptoms by what is at the root of their explanation, the most lines first."""
    demoted = {finding["id"]: finding for finding in body.get("demoted") or () if finding.get("explained_by")}
    groups: dict[str, list[Body]] = {}
    for finding in demoted.values():
        groups.setdefault(_root(finding, demoted)["finding"], []).append(finding)
    said = []
    for root, group in groups.items():
        kind = _kind(one["rule"] for one in group)
        # The kind that is named first is what readers look for: its errors are named first too.
        found = sorted(group, key=lambda one: (_kind([one["rule"]]) != kind, -(one.get("count") or 1)))
        titles = list(dict.fromkeys(one.get("title") or one["rule"] for one in found))
        direct = [one["explained_by"] for one in found if one["explained_by"]["finding"] == root]
        between = [one["explained_by"] for one in found if one["explained_by"]["finding"] != root]
        said.append(
            NotBlamed(
                titles=titles[:MOST_NAMED],
                number=len(titles),
                lines=sum(one.get("count") or 1 for one in found),
                kind=kind,
                finding=root,
                title=_root(found[0], demoted)["title"],
                relation=direct[0]["relation"] if len({by["relation"] for by in direct}) == 1 else "",
                timing=_earliest([by["timing"] for by in direct if by.get("timing")]),
                through=list(dict.fromkeys(by["title"] for by in between))[:MOST_NAMED],
            )
        )
    return sorted(said, key=lambda group: -group.lines)


def _unexplained(body: Body) -> list[Unexplained]:
    """Consequences without an explanation, where no cause was found: a reader may take them for one."""
    if body.get("attributed_domain") != Domain.UNATTRIBUTED:
        return []
    seen = [one for one in body.get("interesting") or () if one.get("role") in (Role.SYMPTOM, Role.TEARDOWN)]
    return [
        Unexplained(
            finding=one["id"],
            title=one.get("title") or one["rule"],
            lines=one.get("count") or 1,
            why=one.get("why") or _NO_MORE,
            place=_place(one),
        )
        for one in sorted(seen, key=lambda one: -(one.get("count") or 1))[:MOST_NAMED]
    ]


def _place(finding: Body) -> str:
    """The node and rank of a finding, where there is one of each."""
    node, ranks = (finding.get("locus") or {}).get("node") or "", list(finding.get("ranks") or ())
    parts = [f"node {node}" if node else "", f"rank {ranks[0]}" if len(ranks) == 1 else ""]
    return ", ".join(part for part in parts if part)


def _root(finding: Body, demoted: dict[str, Body]) -> Body:
    """What explains a symptom and is itself explained by nothing."""
    by: Body = finding["explained_by"]
    seen = {finding["id"]}
    while by["finding"] in demoted and by["finding"] not in seen:
        seen.add(by["finding"])
        by = demoted[by["finding"]]["explained_by"]
    return by


def _kind(rules: Iterable[str]) -> str:
    """The kind of errors that a reader is likely to have seen first, if any rule is about it."""
    subjects = {rule.partition(".")[0] for rule in rules}
    return "NCCL" if "nccl" in subjects else "PyTorch" if "pytorch" in subjects else ""


def _earliest(timings: list[str]) -> str:
    """When the first of several came: "6.0 s later" of the engine's words; else its first words."""
    later = sorted((float(match[1].replace(",", "")), match[0]) for match in map(_LATER.fullmatch, timings) if match)
    unknown = sum(timing.startswith(_NO_ORDER) for timing in timings)
    if later:
        said = later[0][1] if len(timings) == 1 else f"the first {later[0][1]}"
        return f"{said}; the order of {unknown} of them is not known" if unknown else said
    return timings[0] if timings else ""


def _gaps(body: Body) -> list[Gap]:
    """Sources that were not seen whole, those first that could have changed the verdict."""
    blind = {spot["source"]: spot for spot in body.get("blind_spots") or ()}
    said = []
    for cell in body.get("coverage") or ():
        if seen_whole(cell):
            continue
        spot = blind.get(cell["source"]) or {}
        said.append(
            Gap(
                source=cell["source"],
                status=cell["status"],
                reason=cell.get("reason") or "",
                rules=spot.get("rules") or 0,
                matters=bool(spot.get("could_explain")),
            )
        )
    return sorted(said, key=lambda gap: (not gap.matters, gap.status == ReportStatus.NOT_CONFIGURED, -gap.rules))


def _steps(body: Body, when: str, owners: dict[str, str]) -> list[Step]:
    """The advice for now or later, each step with who does it: the owner of the domain that it is about."""
    domains = {
        finding["id"]: finding.get("domain")
        for part in ("causes", "candidates", "demoted", "interesting")
        for finding in body.get(part) or ()
    }
    verdict = str(body.get("attributed_domain") or Domain.UNATTRIBUTED)
    said = []
    for step in (body.get("advice") or {}).get(when) or ():
        about = [str(domains[name]) for name in step.get("findings") or () if domains.get(name)]
        domain = about[0] if about else verdict
        owner = owners.get(domain, "")
        if domain == Domain.SCHEDULER and body.get("terminal_state") in (State.TIMED_OUT, State.PREEMPTED):
            owner = wording.JOB_OWNER  # the scheduler did what it was asked to
        said.append(Step(text=step["text"], owner=owner, findings=list(step.get("findings") or ())))
    return said


def _before_repair(body: Body) -> list[str]:
    """Why a repair should wait: what a repair needs and this verdict does not have."""
    causes = body.get("causes") or ()
    said = []
    if body.get("attributed_domain") == Domain.AMBIGUOUS:
        said.append("several causes fit: the tests decide which of them is repaired")
    elif causes and body.get("strength") != "strong":
        said.append(f"the evidence is {body.get('strength') or 'weak'}, not strong")
    young = sorted({str(finding.get("maturity")) for finding in causes} - {"stable"})
    if young:
        said.append(f"the verdict rests on a rule that is still {' and '.join(young)}")
    missing = [wording.SOURCES_IN_TEXT.get(gap.source, gap.source) for gap in _gaps(body) if gap.matters]
    if missing:
        could = "hold an earlier cause" if body.get("strength") == Strength.STRONG else "change it"
        said.append(f"what was not seen could {could}: {', '.join(missing)}")
    return said
