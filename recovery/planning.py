"""Plans: from a verdict and a policy, or from a person's wish. Reads only; `propose.py` writes."""

from datetime import datetime, timedelta
from uuid import uuid4

import msgspec
from django.contrib.auth.models import User
from django.utils import timezone

from recovery import cost, experience, guards, standing
from recovery import plan as plans
from recovery.caps import Caps, bounded
from recovery.case_of import blamed, cause_and_locus, evidence, gaps, overturned_by
from recovery.facts import Facts
from recovery.ledger.entries import Actor
from recovery.models import PolicyVersion
from recovery.plan import Plan, Taken
from recovery.policy import RESTARTS, Case, Rule
from recovery.words import EXCLUDING, ActionKind, PolicyMode
from verdicts.models import Attempt, Verdict

BY_HAND_GOOD_FOR = timedelta(hours=1)


def by_policy(
    attempt: Attempt, verdict: Verdict, case: Case, rule: Rule, version: PolicyVersion, mode: PolicyMode
) -> Plan:
    """The plan of a policy for a case; `with_blast` adds what it takes of what."""
    now = timezone.now()
    cause, locus = cause_and_locus(verdict.body)
    nodes = sorted(case.nodes) if rule.action in EXCLUDING else []
    return msgspec.structs.replace(
        _bare(attempt, rule.action, nodes, now),
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
        cost=_cost(rule.action, attempt, now),
        overturn=overturned_by(verdict.body),
        evidence=evidence(verdict.body),
        gaps=gaps(verdict, attempt),
        owner=str(Actor.policy(version)),
        expires=now + timedelta(minutes=rule.expires_minutes),
        approvals_needed=rule.approvals,
        caps=bounded(rule.caps),
        exclusion_hours=rule.exclusion_hours,
        max_restarts=case.opt_in.max_restarts if case.opt_in else None,
    )


def by_hand(
    attempt: Attempt, verdict: Verdict | None, action: ActionKind, nodes: list[str], by: User, reason: str
) -> Plan:
    """The plan of a person, with what the current verdict says beside it."""
    now = timezone.now()
    plan = _bare(attempt, action, nodes, now)
    plan = msgspec.structs.replace(
        plan,
        cause=f"by hand: {action} {' '.join(nodes)}".strip()[:512],
        owner=str(Actor.user(by)),
        expires=now + BY_HAND_GOOD_FOR,
        cost=_cost(action, attempt, now),
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
        gaps=gaps(verdict, attempt),
    )


def _bare(attempt: Attempt, action: ActionKind, nodes: list[str], now: datetime) -> Plan:
    """A plan of what is known without a verdict."""
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
        job_nodes=attempt.nodes.count(),
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


def _cost(action: ActionKind, attempt: Attempt, now: datetime) -> cost.Cost:
    seen = experience.seen(attempt, now)
    return cost.of_restart(seen) if action in RESTARTS else cost.of_stopping(seen)


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
    known = [*plan.gaps, doubt] if doubt else plan.gaps
    return msgspec.structs.replace(plan, blast=blast, approvals_needed=needed, gaps=known)


def _share(taken: Taken) -> float:
    return taken.taken / taken.of if taken.of else 1.0
