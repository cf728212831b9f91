"""Proposals that give a node back. They need no approval and no guard but that the node is one that Inquest took."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from recovery import cost
from recovery import plan as plans
from recovery.caps import Caps
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Exclusion, Proposal
from recovery.plan import Plan
from recovery.words import (
    OPEN_PROPOSALS,
    ActionKind,
    EntryKind,
    ExclusionKind,
    PolicyMode,
    ProposalState,
)

#: Giving back stays right for long; it is tried until the scheduler answers.
GOOD_FOR = timedelta(days=7)


def cause_of(exclusion: Exclusion) -> str:
    """What a proposal to give back is for: one exclusion never has two open ones."""
    return f"exclusion:{exclusion.pk}"


def propose_relief(
    exclusion: Exclusion,
    *,
    state: ProposalState,
    actor: Actor,
    reason: str,
    by: User | None = None,
) -> Proposal | None:
    """Propose to give the node of a held exclusion back; None where that is under way already.

    In state `approved` the caller begins it. One that waits for a person becomes that: a person lifts it herself.
    """
    open_ones = [one.value for one in OPEN_PROPOSALS]
    known = Proposal.objects.filter(
        attempt=exclusion.attempt_id, cause=cause_of(exclusion), state__in=open_ones
    ).first()
    if known is not None:
        if state is ProposalState.APPROVED and known.state == ProposalState.OPEN.value:
            known.state, known.decided_at = state.value, timezone.now()
            known.save(update_fields=["state", "decided_at"])
            return known
        return None
    plan = _plan(exclusion, actor, reason)
    proposal = Proposal.objects.create(
        **plans.columns(plan),
        made_by=by,
        state=state.value,
        decided_at=timezone.now() if state is ProposalState.APPROVED else None,
    )
    ledger.record(
        EntryKind.PROPOSAL_MADE,
        actor=actor,
        subject=proposal,
        attempt=exclusion.attempt_id,
        body={
            "action": plan.action.value,
            "nodes": plan.nodes,
            "plan_sha256": proposal.plan_sha256,
            "cause": plan.cause,
        },
    )
    return proposal


def _plan(exclusion: Exclusion, actor: Actor, reason: str) -> Plan:
    # A node that was drained is given back to everybody, one that a job was kept from to that job.
    action = ActionKind.UNDRAIN if exclusion.kind == ExclusionKind.NODE.value else ActionKind.LIFT_EXCLUSION
    before = plans.decode(exclusion.proposal.plan_json)
    now = timezone.now()
    fresh = Proposal(attempt_id=exclusion.attempt_id)
    return Plan(
        id=str(fresh.pk),
        action=action,
        cluster=before.cluster,
        scheduler=before.scheduler,
        job_id=before.job_id,
        submit_time=before.submit_time,
        restart_count=before.restart_count,
        attempt=str(exclusion.attempt_id),
        workload=before.workload,
        partition=before.partition,
        job_nodes=before.job_nodes,
        nodes=[exclusion.node],
        cause=cause_of(exclusion),
        verdict=None,
        verdict_number=None,
        verdict_sha256=None,
        domain=before.domain,
        strength="",
        symptom=before.symptom,
        locus=before.locus,
        policy="",
        policy_number=None,
        mode=PolicyMode.ADVISORY,
        blast={},
        cost=cost.of_giving_back(cost.Seen()),
        overturn=[],
        evidence=[],
        gaps=[],
        owner=str(actor),
        created=now,
        expires=now + GOOD_FOR,
        approvals_needed=1,
        says=plans.described(action, before.job_id, [exclusion.node]),
        caps=Caps(),
        exclusion=str(exclusion.pk),
        reason=reason,
    )
