"""Plans: from a verdict and a policy, or from a person's wish. Reads only; `propose.py` writes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import msgspec
from django.contrib.auth.models import User
from django.db.models import Count, OuterRef, Subquery
from django.utils import timezone

from recovery import cost, experience, guards, standing
from recovery import plan as plans
from recovery.caps import Caps, bounded
from recovery.case_of import blamed, cause_and_locus, evidence, gaps, overturned_by
from recovery.facts import Facts
from recovery.ledger.entries import Actor
from recovery.models import Anomaly, PolicyVersion
from recovery.plan import Plan, Taken
from recovery.policy import RESTARTS, Case, Rule
from recovery.words import EXCLUDING, ActionKind, PolicyMode
from verdicts.models import Attempt, Collection, Verdict

BY_HAND_GOOD_FOR = timedelta(hours=1)


@dataclass(frozen=True)
class Basis:
    """What every plan for an attempt rests on, whoever proposes it: read once, before the cluster is held.

    `collecting` is the round of collecting that is not over, `anomaly` what was detected of the attempt last.
    """

    attempt: Attempt
    job_nodes: int
    seen: cost.Seen
    collecting: Collection | None
    anomaly: UUID | None


def basis(attempt: Attempt) -> Basis:
    """Read it. The attempt comes with its cluster and workload."""
    last = Anomaly.objects.filter(attempt=OuterRef("pk")).order_by("-detected_at").values("pk")[:1]
    counted = Attempt.objects.annotate(size=Count("nodes"), last=Subquery(last)).values_list("size", "last")
    job_nodes, anomaly = counted.get(pk=attempt.pk)
    return Basis(
        attempt=attempt,
        job_nodes=job_nodes,
        seen=experience.seen(attempt, timezone.now()),
        collecting=attempt.collections.filter(finished_at=None).first(),
        anomaly=anomaly,
    )


def by_policy(known: Basis, verdict: Verdict, case: Case, rule: Rule, version: PolicyVersion, mode: PolicyMode) -> Plan:
    """The plan of a policy for a case; `with_blast` adds what it takes of what."""
    now = timezone.now()
    cause, locus = cause_and_locus(verdict.body)
    nodes = sorted(case.nodes) if rule.action in EXCLUDING else []
    return msgspec.structs.replace(
        _bare(known, rule.action, nodes, now),
        cause=cause,
        verdict=str(verdict.pk),
        verdict_number=verdict.number,
        verdict_sha256=verdict.body_sha256,
        domain=verdict.domain,
        strength=verdict.strength,
        symptom=case.symptom,
        locus=locus,
        policy=version.policy.name,
        policy_number=version.number,
        mode=mode,
        cost=_cost(rule.action, known),
        overturn=overturned_by(verdict.body),
        evidence=evidence(verdict.body),
        gaps=gaps(verdict, known.collecting),
        owner=str(Actor.policy(version)),
        expires=now + timedelta(minutes=rule.expires_minutes),
        approvals_needed=rule.approvals,
        caps=bounded(rule.caps),
        exclusion_hours=rule.exclusion_hours,
        max_restarts=case.opt_in.max_restarts if case.opt_in else None,
    )


def by_hand(known: Basis, verdict: Verdict | None, action: ActionKind, nodes: list[str], by: User, reason: str) -> Plan:
    """The plan of a person, with what the current verdict says beside it."""
    now = timezone.now()
    plan = _bare(known, action, nodes, now)
    plan = msgspec.structs.replace(
        plan,
        cause=f"by hand: {action} {' '.join(nodes)}".strip()[:512],
        owner=str(Actor.user(by)),
        expires=now + BY_HAND_GOOD_FOR,
        cost=_cost(action, known),
        reason=reason,
    )
    if verdict is None:
        return plan
    _, locus = cause_and_locus(verdict.body)
    return msgspec.structs.replace(
        plan,
        verdict=str(verdict.pk),
        verdict_number=verdict.number,
        verdict_sha256=verdict.body_sha256,
        domain=verdict.domain,
        strength=verdict.strength,
        symptom=next((one["symptom"] for one in blamed(verdict.body)), ""),
        locus=locus,
        overturn=overturned_by(verdict.body),
        evidence=evidence(verdict.body),
        gaps=gaps(verdict, known.collecting),
    )


def _bare(known: Basis, action: ActionKind, nodes: list[str], now: datetime) -> Plan:
    """A plan of what is known without a verdict."""
    attempt = known.attempt
    return Plan(
        id=str(uuid4()),
        action=action,
        cluster=attempt.cluster.name,
        scheduler=attempt.scheduler,
        job_id=attempt.job_id,
        submit_time=attempt.submit_time,
        restart_count=attempt.restart_count,
        attempt=str(attempt.pk),
        workload=standing.workload_key(attempt),
        partition=attempt.partition,
        job_nodes=known.job_nodes,
        nodes=nodes,
        cause="",
        verdict=None,
        verdict_number=None,
        verdict_sha256=None,
        domain="",
        strength="",
        symptom="",
        locus="",
        policy="",
        policy_number=None,
        mode=PolicyMode.ADVISORY,
        blast={},
        cost=cost.of_giving_back(cost.Seen()),
        overturn=[],
        evidence=[],
        gaps=[],
        owner="",
        created=now,
        expires=now + BY_HAND_GOOD_FOR,
        approvals_needed=1,
        says=plans.described(action, attempt.job_id, nodes),
        caps=Caps(),
    )


def _cost(action: ActionKind, known: Basis) -> cost.Cost:
    return cost.of_restart(known.seen) if action in RESTARTS else cost.of_stopping(known.seen)


def with_blast(plan: Plan, facts: Facts, rule: Rule | None) -> Plan:
    """The plan with how much of each element it takes, and how many people must approve because of that."""
    blast = {"job": Taken(taken=len(plan.nodes), of=plan.job_nodes or None)} if plan.nodes else {}
    for element in facts.elements:
        taken = Taken(taken=len(element.taken), of=element.of)
        before = blast.get(element.kind)
        # Of several elements of a kind, the one of which the larger share goes.
        if before is None or _share(taken) > _share(before):
            blast[element.kind] = taken
    needed = plans.approvals(plan.action, plan.nodes, blast.get("partition"), rule.approvals if rule else 1)
    doubt = guards.doubt_of_room(plan, facts)
    found = [*plan.gaps, doubt] if doubt else plan.gaps
    return msgspec.structs.replace(plan, blast=blast, approvals_needed=needed, gaps=found)


def _share(taken: Taken) -> float:
    return taken.taken / taken.of if taken.of else 1.0
