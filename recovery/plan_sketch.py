"""A plan as far as guards read it: for simulations, which freeze nothing and ask nobody."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from recovery.cost import Cost, Figure
from recovery.plan import Plan
from recovery.policy import Rule
from recovery.words import EXCLUDING, PolicyMode

_NONE = Figure(gpu_hours=None, rests_on="not part of a simulation")
_COST = Cost(acting=_NONE, waiting=_NONE)


def sketch(
    rule: Rule,
    *,
    now: datetime,
    cluster: str,
    workload: str,
    job_id: str,
    job_nodes: int,
    nodes: Sequence[str],
    domain: str,
    strength: str,
    symptom: str,
    partition: str = "",
    verdict_sha256: str = "",
) -> Plan:
    """What the rule would propose for a case."""
    return Plan(
        id="",
        action=rule.action,
        cluster=cluster,
        scheduler="",
        job_id=job_id,
        submit_time=None,
        restart_count=0,
        attempt="",
        workload=workload,
        partition=partition,
        job_nodes=job_nodes,
        nodes=list(nodes) if rule.action in EXCLUDING else [],
        cause=symptom,
        verdict="simulated",
        verdict_number=1,
        verdict_sha256=verdict_sha256,
        domain=domain,
        strength=strength,
        symptom=symptom,
        locus=",".join(nodes[:4]),
        policy="simulated",
        policy_number=1,
        mode=PolicyMode.OBSERVE,
        blast={},
        cost=_COST,
        overturn=[],
        evidence=[],
        gaps=[],
        owner="",
        created=now,
        expires=now + timedelta(minutes=rule.expires_minutes),
        approvals_needed=1,
        says="",
        caps=rule.caps,
    )
