"""The way of this project to answer a failed job in a made-up fleet.

What decides is asked, not copied: `policy.matches`, `guards.check`, `shared_cause.find`, `recurrence`, the evidence
meter, with their times. What the store does around them is told here as it is there, and a test holds the two together
(tests/recovery/test_same_answer.py; docs/recovery-simulation.md). People approve whatever is proposed to them, right or
wrong.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec

from recovery import guards, recurrence, shared_cause
from recovery.bench.answers import AT_ONCE, Answer, Job, Judge, World
from recovery.bench.faults import Fleet, Said, verdict
from recovery.bench.policies import AGAIN, EXCLUDE, RESTART, Made, Scope, hours, moment
from recovery.caps import bounded
from recovery.facts import Away, BrakeNow, Element, Facts, Restarted, Shared, Took, WrongExclusion
from recovery.plan import Plan
from recovery.plan_sketch import sketch
from recovery.policies import meter
from recovery.policy import BLAMED_WITHIN, Case, Rule, capped_mode, matches
from recovery.words import ActionKind, BrakeKind, PolicyMode
from rules.words import Domain, Maturity, State

#: How long it takes until a person has approved: assumed, on average.
APPROVAL = 20 / 60
#: How long it takes until diagnostics have said what was found: assumed; the policy allows 14 days.
LABELLED_AFTER = timedelta(days=7)


class Ours:
    """The policies above, with guards, shared causes and a meter for each policy and domain."""

    judge: Judge = staticmethod(verdict)

    def __init__(self, fleet: Fleet, seed: int, start: PolicyMode = PolicyMode.AUTOMATIC):
        self.name = "ours" if start is PolicyMode.AUTOMATIC else "ours, advisory on day one"
        self.fleet, self.start, self.seed = fleet, start, seed
        self.rules = [msgspec.convert(body, Rule) for body in (AGAIN, EXCLUDE, RESTART)]
        self.keeps_away = float(self.rules[0].exclusion_hours)
        self.scopes: dict[tuple[int, Domain], Scope] = {}
        self.by_itself = self.marked = self.paced = 0
        self.made: list[Made] = []
        self.pace_until = 0.0
        self.took: list[Took] = []
        self.wrong: list[WrongExclusion] = []
        self.blamed: list[tuple[float, shared_cause.Blamed]] = []
        self.before: dict[tuple[Domain, int], list[float]] = {}
        self.open: dict[str, tuple[float, frozenset[str]]] = {}
        self.refused: Counter[str] = Counter()
        self._everybody = frozenset(_node(node) for node in range(fleet.nodes))

    def told(self, job: Job, said: Said, at: float) -> frozenset[int]:
        """Remember who was blamed; see whether an earlier exclusion was wrong; look for what is shared.

        People are called when an incident is opened, with the nodes that it is about.
        """
        self._came_again(job, said, at)
        self.blamed = [(when, one) for when, one in self.blamed if when > at - hours(shared_cause.WINDOW)]
        self.blamed += [
            (at, shared_cause.Blamed(node=_node(node), domain=said.domain.value, symptom=said.symptom))
            for node in said.nodes
        ]
        if not said.shared:
            for node in said.nodes:
                times = self.before.setdefault((said.domain, node), [])
                self.before[said.domain, node] = [*(when for when in times if when > at - hours(BLAMED_WITHIN)), at]
        self.open = {
            name: (last, nodes) for name, (last, nodes) in self.open.items() if last > at - hours(shared_cause.QUIET)
        }
        before = set(self.open)
        if said.shared:
            self.open[said.shared] = (at, frozenset(map(_node, said.nodes)))
        nodes = [one.node for _, one in self.blamed]
        if len(set(nodes)) >= shared_cause.LEAST_NODES:
            for found in shared_cause.find([one for _, one in self.blamed], self._groups(nodes), self._everybody):
                known = self.open.get(found.name, (at, frozenset()))[1]
                self.open[found.name] = (at, known | set(found.nodes))
        return frozenset(int(node[1:]) for name in set(self.open) - before for node in self.open[name][1])

    def answer(self, world: World, job: Job, said: Said, since: float, at: float) -> Answer:
        """What the policies propose and the guards let through, after however long it takes."""
        case = self._case(said, at)
        for place, rule in enumerate(self.rules):
            if not matches(rule, case)[0]:
                continue
            plan = _plan(rule, job, said, at)
            refused = guards.check(plan, self._facts(world, plan, job, at), bounded(rule.caps))
            self.refused.update(refusal.guard for refusal in refused)
            if guards.stands(refused):
                continue
            if refused:
                # An exclusion waits for its guard, and keeps the policies after it from proposing, as long as it may.
                waits = rule.waits_minutes if rule.waits_minutes is not None else rule.expires_minutes
                if rule.action is ActionKind.RESTART or at - since < waits / 60:
                    return Answer(1 / 60, again=True)
                if rule.waits_minutes is None:
                    break
                continue
            if rule.action is ActionKind.RESTART:
                # Of what nobody can be blamed for a person decides, whatever the policy's mode.
                mode, _ = capped_mode(PolicyMode.AUTOMATIC, case)
                return Answer(AT_ONCE if mode is PolicyMode.AUTOMATIC else self._approval(job), by=place)
            return self._exclude(place, world, case, job, said, at)
        return Answer(AT_ONCE, to_people=True)

    def _exclude(self, place: int, world: World, case: Case, job: Job, said: Said, at: float) -> Answer:
        """At once where the policy acts by itself, after time for neighbours to fail too; else when a person approves.

        Where that takes longer than the policy waits, and another may restart by itself, the job is restarted.
        """
        rule, scope = self.rules[place], self._scope(place, said.domain, at)
        if scope.mode is PolicyMode.AUTOMATIC:
            return Answer(AT_ONCE + rule.caps.settle_seconds / 3600, said.nodes, by=place)
        takes = self._approval(job)
        if (
            rule.waits_minutes is not None
            and takes > rule.waits_minutes / 60
            and self._restarts(world, case, job, said, at)
        ):
            return Answer(rule.waits_minutes / 60, by=len(self.rules) - 1)
        return Answer(takes, said.nodes, by=place)

    def _approval(self, job: Job) -> float:
        """How long it takes until a person has approved."""
        chance = random.Random(f"approval {self.seed} {job.number} {job.crashes}")
        return AT_ONCE + chance.expovariate(1 / APPROVAL)

    def _restarts(self, world: World, case: Case, job: Job, said: Said, at: float) -> bool:
        """Whether the job may be restarted by itself: where its budget is used up, it waits for its person."""
        rule = self.rules[-1]
        if not matches(rule, case)[0]:
            return False
        plan = _plan(rule, job, said, at)
        return not guards.stands(guards.check(plan, self._facts(world, plan, job, at), bounded(rule.caps)))

    def still(self, world: World, job: Job, said: Said, answer: Answer, at: float) -> Sequence[int]:
        """The guards are asked again at the moment of acting: what is shared may have shown itself by then."""
        if not answer.exclude:
            return ()
        rule = self.rules[answer.by]
        plan = _plan(rule, job, said, at)
        return () if guards.check(plan, self._facts(world, plan, job, at), bounded(rule.caps)) else answer.exclude

    def acted(self, nodes: Sequence[int], job: Job, said: Said, answer: Answer, at: float) -> None:
        """An action was taken: it counts for pace and budget, and an exclusion is a case for the meter."""
        now = moment(at)
        self.took = [took for took in self.took if took.at > now - timedelta(days=1)]
        self.took.append(Took(at=now, workload=str(job.number), nodes=[_node(node) for node in nodes]))
        if not nodes:
            return
        scope, key = self._scope(answer.by, said.domain, at), f"{job.number}.{job.crashes}"
        self.by_itself += len(nodes) if scope.mode is PolicyMode.AUTOMATIC else 0
        over = at - hours(recurrence.COUNTED_OVER)
        self.made = [one for one in self.made if one.at > over]
        self.made += [Made(at, job.number, said.symptom, node, scope, key) for node in nodes]
        scope.cases[key] = meter.Labelled(
            key=key,
            incident=f"{'+'.join(map(str, nodes))} {at // hours(meter.SAME_CAUSE)}",
            at=now,
            due=now + meter.DUE,
            right=set(nodes) <= said.guilty,
            known_at=now + LABELLED_AFTER,
        )

    def _came_again(self, job: Job, said: Said, at: float) -> None:
        """As `exclusions.mark_wrong_if_repeated`: a job that came no farther, and the symptom of its exclusions."""
        within = at - hours(recurrence.REPEATED_WITHIN)
        if job.futile == 0 or not said.symptom:
            return
        suspects = [
            one
            for one in self.made
            if one.job == job.number
            and one.symptom == said.symptom
            and one.at >= max(within, job.gained)
            and not one.wrong
        ]
        if not recurrence.speaks_against(
            [(one.key, moment(one.at)) for one in suspects],
            at=moment(at),
            alike=len({one.key for one in self.made if one.symptom == said.symptom and one.job != job.number}),
            nodes=job.size,
            of=self.fleet.nodes,
        ):
            return
        for one in suspects:
            one.wrong = True
            self.marked += 1
            self.wrong.append(
                WrongExclusion(symptom=one.symptom, workload=str(job.number), node=_node(one.node), since=moment(at))
            )
            one.scope.said_wrong.setdefault(one.key, moment(at))
            one.scope.look_now(at)
        lately = [one for one in self.made if one.at > at - hours(recurrence.WRONG_WITHIN)]
        wrong = sum(moment(at) - one.since < recurrence.WRONG_WITHIN for one in self.wrong)
        if recurrence.too_many(wrong, len(lately)):
            self.paced += 1
            self.pace_until = at + hours(recurrence.SLOWED_FOR)

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

    def _facts(self, world: World, plan: Plan, job: Job, at: float) -> Facts:
        taken = frozenset(plan.nodes)
        away = frozenset(_node(node) for node in world.away)
        shared = [Shared(element="element", name=name) for name, (_, nodes) in self.open.items() if nodes & taken]
        week = at - hours(guards.WRONG_MEMORY)
        clears = moment(self.pace_until)
        paces = [BrakeNow(kind=BrakeKind.PACE, reason="wrong exclusions", clears_at=clears)]
        return Facts(
            now=moment(at),
            brakes=paces if self.pace_until > at else (),
            verdict_current=True,
            verdict_sha256="",
            failed_at=moment(at),
            away=[Away(node=_node(n), workload=str(w), since=moment(s)) for n, (s, w) in world.away.items()],
            took=self.took,
            elements=list(self._elements(taken, away)),
            restarts=job.history,
            wrong=self.wrong[-50:],
            alike=sum(one.symptom == plan.symptom and one.at > week for one in self.made) if self.wrong else 0,
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


def restarted(said: Said, at: float) -> Restarted:
    """A restart as the budget counts it."""
    return Restarted(at=moment(at), symptom=said.symptom, locus=_locus(said), progressed=None)


def _locus(said: Said) -> str:
    return ",".join(f"n{node}" for node in said.nodes[:4])


def _plan(rule: Rule, job: Job, said: Said, at: float) -> Plan:
    """The plan as far as guards read it."""
    return sketch(
        rule,
        now=moment(at),
        cluster="fleet",
        workload=str(job.number),
        job_id=str(job.number),
        job_nodes=job.size,
        nodes=[_node(node) for node in said.nodes],
        domain=said.domain.value,
        strength=said.strength.value if said.strength else "",
        symptom=said.symptom,
    )


def _node(number: int) -> str:
    return f"n{number}"
