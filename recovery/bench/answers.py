"""Ways to answer a failed job in a made-up fleet: never exclude, always exclude the blamed node, and ours.

Ours asks the code that decides in earnest: `policy.matches`, `guards.check`, `shared_cause.find`, the evidence meter.
People approve whatever is proposed, right or wrong, where a policy may not act by itself.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import msgspec

from recovery import guards, shared_cause
from recovery.bench.faults import HOUR, REPAIR, Fault, Fleet, Said, Verdicts, first_error, verdict
from recovery.caps import bounded
from recovery.facts import Away, Element, Facts, Restarted, Shared, Took, WrongExclusion
from recovery.plan import Plan
from recovery.plan_sketch import sketch
from recovery.policies import meter
from recovery.policy import Case, Rule, matches
from recovery.words import ActionKind, PolicyMode
from rules.words import Domain, Maturity, State

START = datetime(2026, 1, 1, tzinfo=UTC)
#: Hours from a verdict to its answer, where nobody is asked.
AT_ONCE = 1 / 60
#: Restarts without progress after which the ways without a budget of their own leave a job to people.
FUTILE = 5
#: How long it takes until a person has approved: assumed, on average.
APPROVAL = 20 / 60
#: How long it takes until diagnostics have said what was found: assumed; the policy allows 14 days.
LABELLED_AFTER = timedelta(days=7)
#: A policy for a fleet of ten thousand nodes: see docs/recovery-policies.md.
CAPS: dict[str, Any] = {
    "nodes_per_job": 32,
    "nodes_per_hour": 16,
    "nodes_per_day": 128,
    "exclusions_alive": 200,
    "actions_per_hour": 200,
    "cluster_share": 0.02,
    "partition_share": 0.02,
    "cooldown_minutes": 2,
    "settle_seconds": 60,
}
#: Direct evidence of a broken part: what an application cannot bring about by itself.
BROKEN = [
    "gpu_uncorrectable_ecc",
    "gpu_uncorrectable_?ram",
    "gpu_row_remap_failure",
    "gpu_off_bus",
    "gpu_gsp_*",
    "gpu_fatal_timeout",
    "nvlink_link_down",
    "nvlink_link_failed",
    "pcie_fatal",
    "memory_uncorrected",
    "machine_check",
    "nvme_lost",
    "power_supply_failed",
]
EXCLUDE: dict[str, Any] = {
    "match": {
        "domains": ["gpu_hardware", "nvlink_fabric", "host_hardware"],
        "symptoms": BROKEN,
        "strengths": ["strong"],
    },
    "action": "restart_excluding",
    "caps": CAPS,
    "exclusion_hours": 12,
    "label_share": 1.0,
}
#: What is less sure, and what a switch may be to blame for, must come back on the same node. Not a GPU's firmware that
#: timed out: an application can bring that about, again and again.
AGAIN: dict[str, Any] = {
    "match": {
        "domains": ["gpu_hardware", "nvlink_fabric", "host_hardware", "host_software", "network_fabric"],
        "symptoms": [
            *(word for word in BROKEN if "gsp" not in word),
            "kernel_panic",
            "ib_link_down",
            "nic_failed",
            "fabric_port_flapping",
        ],
        "strengths": ["strong", "moderate"],
        "blamed_before": 1,
    },
    "action": "restart_excluding",
    "caps": CAPS,
    "exclusion_hours": 12,
    "label_share": 1.0,
}
RESTART: dict[str, Any] = {
    "match": {"strengths": ["strong", "moderate", "weak"]},
    "action": "restart",
    "caps": {"actions_per_hour": 200, "cooldown_minutes": 2},
}


#: Who is blamed for a fault that ended a job: fault, the job's nodes, rates, chance, what was said of it before.
Judge = Callable[[Fault, tuple[int, ...], Verdicts, random.Random, Said | None], Said]


@dataclass
class Job:
    """A training run of a fixed size that wants to run all the time. Times are hours since the beginning."""

    number: int
    size: int
    nodes: tuple[int, ...]
    state: str = "running"
    ready: float = 0.0  # when its last start is over and steps are made
    epoch: int = 0
    crashes: int = 0
    futile: int = 0
    bug: Any = None
    history: list[Restarted] = field(default_factory=list)
    excluded: tuple[str, tuple[int, ...]] | None = None  # symptom and nodes of the last exclusion


@dataclass(frozen=True)
class Answer:
    """What is done: restart after `delay` hours without `exclude`, leave it to people, or ask again after `delay`."""

    delay: float
    exclude: tuple[int, ...] = ()
    to_people: bool = False
    again: bool = False
    by: int = 0  # which policy


class World(Protocol):
    """What a way to answer may know: how large the fleet is, and which nodes are excluded, since when and for whom."""

    fleet: Fleet
    away: dict[int, tuple[float, int]]


class Way(Protocol):
    """One way to answer. `judge` says who is blamed, `told` returns nodes that people are called for at once.

    `keeps_away` is for how many hours: without an expiry a node comes back when people have looked at it, which takes
    as long as a repair.
    """

    name: str
    judge: Judge
    keeps_away: float

    def told(self, job: Job, said: Said, at: float) -> frozenset[int]: ...

    def answer(self, world: World, job: Job, said: Said, at: float) -> Answer: ...

    def still(self, world: World, job: Job, said: Said, answer: Answer, at: float) -> Sequence[int]: ...

    def acted(self, nodes: Sequence[int], job: Job, said: Said, answer: Answer, at: float) -> None: ...


class Never:
    """Restart on the same nodes, five times without progress at most."""

    name = "never exclude"
    judge: Judge = staticmethod(verdict)
    keeps_away = REPAIR

    def told(self, job: Job, said: Said, at: float) -> frozenset[int]:
        """Nobody is called before a job is stuck."""
        return frozenset()

    def answer(self, world: World, job: Job, said: Said, at: float) -> Answer:
        """As above."""
        return Answer(AT_ONCE, to_people=job.futile >= FUTILE)

    def still(self, world: World, job: Job, said: Said, answer: Answer, at: float) -> Sequence[int]:
        """What was decided is done."""
        return answer.exclude

    def acted(self, nodes: Sequence[int], job: Job, said: Said, answer: Answer, at: float) -> None:
        """Nothing is remembered."""


class Always(Never):
    """Exclude the node that is blamed, every time: the one that the earliest error comes from."""

    name = "always exclude the blamed node"
    judge: Judge = staticmethod(first_error)

    def answer(self, world: World, job: Job, said: Said, at: float) -> Answer:
        """As above, as long as nine nodes in ten are there."""
        blamed = said.nodes if len(world.away) < world.fleet.nodes // 10 else ()
        return Answer(AT_ONCE, blamed, to_people=job.futile >= FUTILE)


class AlwaysAll(Always):
    """Exclude every node that our verdict names, however strong it is and whatever they share."""

    name = "always, all nodes of our verdicts"
    judge: Judge = staticmethod(verdict)


@dataclass
class Scope:
    """A policy for one domain, with its mode and its record."""

    rule: Rule
    mode: PolicyMode
    since: datetime = START
    cases: list[meter.Labelled] = field(default_factory=list)
    looked: float = -1.0
    promoted: int = 0
    demoted: int = 0

    def look(self, at: float) -> None:
        """Once a day, with the labels that are there by then: is the record good enough, or no longer?"""
        day = at // 24
        if day <= self.looked:
            return
        self.looked, now = day, _moment(at)
        known = [case if case.known_at and case.known_at <= now else _unlabelled(case) for case in self.cases]
        if self.mode is PolicyMode.AUTOMATIC:
            if meter.why_demote(known, since=self.since, now=now):
                self.mode, self.since, self.demoted = PolicyMode.ADVISORY, now, self.demoted + 1
        elif meter.read(known, now=now).promotable:
            self.mode, self.since, self.promoted = PolicyMode.AUTOMATIC, now, self.promoted + 1


class Ours:
    """The policies above, with guards, shared causes and a meter for each policy and domain."""

    judge: Judge = staticmethod(verdict)

    def __init__(self, fleet: Fleet, seed: int, start: PolicyMode = PolicyMode.AUTOMATIC):
        self.name = "ours" if start is PolicyMode.AUTOMATIC else "ours, advisory on day one"
        self.fleet, self.start = fleet, start
        self.rules = [msgspec.convert(body, Rule) for body in (EXCLUDE, AGAIN, RESTART)]
        self.keeps_away = float(self.rules[0].exclusion_hours)
        self.scopes: dict[tuple[int, Domain], Scope] = {}
        self.by_itself = 0
        self.took: list[Took] = []
        self.wrong: list[WrongExclusion] = []
        self.blamed: list[tuple[float, shared_cause.Blamed]] = []
        self.before: dict[tuple[Domain, int], list[float]] = {}
        self.open: dict[str, tuple[float, frozenset[str]]] = {}
        self.refused: Counter[str] = Counter()
        self._chance = random.Random(f"people {seed}")
        self._everybody = frozenset(_node(node) for node in range(fleet.nodes))

    def told(self, job: Job, said: Said, at: float) -> frozenset[int]:
        """Remember who was blamed; see whether an earlier exclusion was wrong; look for what is shared.

        People are called when an incident is opened, with the nodes that it is about.
        """
        now = _moment(at)
        if not job.futile:
            # It came farther than it had been: whatever was excluded, this is another fault.
            job.excluded = None
        elif job.excluded and job.excluded[0] == said.symptom:
            self.wrong += [
                WrongExclusion(symptom=said.symptom, workload=str(job.number), node=_node(node), since=now)
                for node in job.excluded[1]
            ]
            job.excluded = None
        self.blamed = [(when, one) for when, one in self.blamed if when > at - HOUR]
        self.blamed += [
            (at, shared_cause.Blamed(node=_node(node), domain=said.domain.value, symptom=said.symptom))
            for node in said.nodes
        ]
        if not said.shared:
            for node in said.nodes:
                times = self.before.setdefault((said.domain, node), [])
                self.before[said.domain, node] = [*(when for when in times if when > at - 7 * 24), at]
        self.open = {name: (last, nodes) for name, (last, nodes) in self.open.items() if last > at - 6 * HOUR}
        before = set(self.open)
        if said.shared:
            self.open[said.shared] = (at, frozenset(map(_node, said.nodes)))
        nodes = [one.node for _, one in self.blamed]
        if len(set(nodes)) >= shared_cause.LEAST_NODES:
            for found in shared_cause.find([one for _, one in self.blamed], self._groups(nodes), self._everybody):
                known = self.open.get(found.name, (at, frozenset()))[1]
                self.open[found.name] = (at, known | set(found.nodes))
        return frozenset(int(node[1:]) for name in set(self.open) - before for node in self.open[name][1])

    def answer(self, world: World, job: Job, said: Said, at: float) -> Answer:
        """What the policies propose and the guards let through, after however long it takes."""
        case = self._case(said, at)
        for place, rule in enumerate(self.rules):
            fits, _ = matches(rule, case)
            if not fits:
                continue
            plan = _plan(rule, job, said, at)
            refused = guards.check(plan, self._facts(world, plan, job, at), bounded(rule.caps))
            self.refused.update(refusal.guard for refusal in refused)
            if not refused and rule.action is ActionKind.RESTART:
                return Answer(AT_ONCE)
            if not refused:
                return Answer(self._delay(self._scope(place, said.domain, at)), said.nodes, by=place)
            if all(refusal.guard in ("cooldown", "actions_per_hour") for refusal in refused):
                return Answer(1 / 60, again=True)
        return Answer(AT_ONCE, to_people=True)

    def still(self, world: World, job: Job, said: Said, answer: Answer, at: float) -> Sequence[int]:
        """The guards are asked again at the moment of acting: what is shared may have shown itself by then."""
        if not answer.exclude:
            return ()
        rule = self.rules[answer.by]
        plan = _plan(rule, job, said, at)
        return () if guards.check(plan, self._facts(world, plan, job, at), bounded(rule.caps)) else answer.exclude

    def acted(self, nodes: Sequence[int], job: Job, said: Said, answer: Answer, at: float) -> None:
        """An action was taken: it counts for pace and budget, and an exclusion is a case for the meter."""
        now = _moment(at)
        self.took = [took for took in self.took if took.at > now - timedelta(days=1)]
        self.took.append(Took(at=now, workload=str(job.number), nodes=[_node(node) for node in nodes]))
        if not nodes:
            return
        job.excluded = (said.symptom, tuple(nodes))
        scope = self._scope(answer.by, said.domain, at)
        self.by_itself += len(nodes) if scope.mode is PolicyMode.AUTOMATIC else 0
        scope.cases.append(
            meter.Labelled(
                key=f"{job.number}.{job.crashes}",
                incident=f"{'+'.join(map(str, nodes))} {at // (14 * 24)}",
                at=now,
                due=now + timedelta(days=14),
                right=set(nodes) <= said.guilty,
                known_at=now + LABELLED_AFTER,
            )
        )

    def _case(self, said: Said, at: float) -> Case:
        before = [[when for when in self.before.get((said.domain, node), []) if when <= at] for node in said.nodes]
        return Case(
            cluster="fleet",
            partition="",
            state=State.FAILED,
            domain=said.domain,
            strength=said.strength,
            symptom=said.symptom,
            maturity=Maturity.STABLE,
            nodes=[_node(node) for node in said.nodes],
            shared=said.shared,
            # The failure at hand is among them, unless what it shares is seen.
            blamed_before=max(min((len(times) for times in before), default=0) - 1, 0),
        )

    def _scope(self, place: int, domain: Domain, at: float) -> Scope:
        scope = self.scopes.setdefault((place, domain), Scope(self.rules[place], self.start))
        scope.look(at)
        return scope

    def _delay(self, scope: Scope) -> float:
        """What takes nodes away waits for people, or for neighbours that fail for the same cause to show it."""
        if scope.mode is PolicyMode.AUTOMATIC:
            return AT_ONCE + scope.rule.caps.settle_seconds / 3600
        return AT_ONCE + self._chance.expovariate(1 / APPROVAL)

    def _facts(self, world: World, plan: Plan, job: Job, at: float) -> Facts:
        taken = frozenset(plan.nodes)
        away = frozenset(_node(node) for node in world.away)
        shared = [Shared(element="element", name=name) for name, (_, nodes) in self.open.items() if nodes & taken]
        return Facts(
            now=_moment(at),
            verdict_current=True,
            verdict_sha256="",
            failed_at=_moment(at),
            away=[Away(node=_node(n), workload=str(w), since=_moment(s)) for n, (s, w) in world.away.items()],
            took=self.took,
            elements=list(self._elements(taken, away)),
            restarts=job.history,
            wrong=self.wrong[-50:],
            shared=shared,
        )

    def _elements(self, taken: frozenset[str], away: frozenset[str]) -> Iterable[Element]:
        whole = self.fleet.nodes
        yield Element(kind="cluster", name="fleet", of=whole, away=away, taken=taken)
        yield Element(kind="partition", name="all", of=whole, away=away, taken=taken)
        for kind, width in (("switch", self.fleet.switch), ("rack", self.fleet.rack)):
            for number in {int(node[1:]) // width for node in taken}:
                members = frozenset(_node(node) for node in range(number * width, min((number + 1) * width, whole)))
                yield Element(kind=kind, name=str(number), of=len(members), away=away & members, taken=taken & members)

    def _groups(self, nodes: Iterable[str]) -> dict[tuple[str, str], frozenset[str]]:
        """The switches and racks that several of the nodes are in: no others can be what is shared."""
        counted: dict[tuple[str, int, int], set[str]] = {}
        for node in nodes:
            for kind, width in (("switch", self.fleet.switch), ("rack", self.fleet.rack)):
                counted.setdefault((kind, width, int(node[1:]) // width), set()).add(node)
        return {
            (kind, f"{kind} {number}"): frozenset(
                _node(node) for node in range(number * width, min((number + 1) * width, self.fleet.nodes))
            )
            for (kind, width, number), inside in counted.items()
            if len(inside) >= shared_cause.LEAST_NODES
        }


def _plan(rule: Rule, job: Job, said: Said, at: float) -> Plan:
    """The plan as far as guards read it."""
    return sketch(
        rule,
        now=_moment(at),
        cluster="fleet",
        workload=str(job.number),
        job_id=str(job.number),
        job_nodes=job.size,
        nodes=[_node(node) for node in said.nodes],
        domain=said.domain.value,
        strength=said.strength.value if said.strength else "",
        symptom=said.symptom,
    )


def _unlabelled(case: meter.Labelled) -> meter.Labelled:
    """The case as it is known before its label has come."""
    return meter.Labelled(key=case.key, incident=case.incident, at=case.at, due=case.due)


def _node(number: int) -> str:
    return f"n{number}"


def _moment(at: float) -> datetime:
    return START + timedelta(hours=at)
