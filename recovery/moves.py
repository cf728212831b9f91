"""Proposals from state to state, each with its entry in the ledger, and the beginning of actions.

Whoever moves a proposal holds its cluster first and then its row: two approvals at once would each find room under a
cap that has room for one. `decide.py` has what people do, `propose.py` what policies do.
"""

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from recovery import guards, machine, standing
from recovery import plan as plans
from recovery.facts import Facts, Refusal
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Action, Proposal
from recovery.plan import Plan
from recovery.words import ActionState, EntryKind, ProposalState
from verdicts.models import Cluster
from verdicts.record import NotPermitted
from verdicts.waking import wake

#: When the watchdog gives back or escalates what is half done.
DEADLINE = timedelta(minutes=15)
ENTRIES = {
    ProposalState.OBSERVED: EntryKind.PROPOSAL_OBSERVED,
    ProposalState.REJECTED: EntryKind.PROPOSAL_REJECTED,
    ProposalState.EXPIRED: EntryKind.PROPOSAL_EXPIRED,
    ProposalState.WITHDRAWN: EntryKind.PROPOSAL_WITHDRAWN,
    ProposalState.VETOED: EntryKind.PROPOSAL_VETOED,
    ProposalState.CLOSED: EntryKind.PROPOSAL_CLOSED,
}


class Guarded(NotPermitted):
    """A guard stands in the way, whoever asks. `refusals` say which and whether waiting helps."""

    def __init__(self, refusals: list[Refusal]) -> None:
        super().__init__(guards.in_words(refusals))
        self.refusals = refusals


def plan_of(proposal: Proposal) -> Plan:
    """The frozen plan."""
    return plans.decode(proposal.plan_json)


def hold_cluster(cluster_id: UUID) -> Cluster:
    """The cluster, for deciding about it, until the transaction ends. Rows that refer to it can still be made."""
    return Cluster.objects.select_for_update(no_key=True).get(pk=cluster_id)


def held(proposal_id: UUID) -> Proposal:
    """A proposal and its cluster, locked until the transaction ends. Raises Proposal.DoesNotExist."""
    mine = Proposal.objects.filter(pk=proposal_id).values("attempt__cluster")
    Cluster.objects.select_for_update(no_key=True).filter(pk__in=mine).first()
    return (
        Proposal.objects.select_for_update(of=("self",))
        .select_related("attempt__cluster", "version__policy", "scope", "verdict")
        .defer("attempt__body", "verdict__body", "verdict__body_json")
        .get(pk=proposal_id)
    )


def move(
    proposal: Proposal,
    to: ProposalState,
    *,
    actor: Actor,
    why: str = "",
    reason: str = "",
    text: str = "",
    now: datetime | None = None,
) -> None:
    """Move a held proposal to an end and record it. `why` is the system's sentence, `text` a person's own words.

    Raises WrongMove.
    """
    machine.require_proposal(ProposalState(proposal.state), to)
    before, proposal.state = proposal.state, to.value
    proposal.ended_at, proposal.ended_why = now or timezone.now(), why or text or reason
    proposal.save(update_fields=["state", "ended_at", "ended_why"])
    body = {"before": before, "why": why, "reason": reason, "plan_sha256": proposal.plan_sha256}
    ledger.record(
        ENTRIES[to],
        actor=actor,
        subject=proposal,
        attempt=proposal.attempt_id,
        body=body,
        erasable={"text": text} if text else None,
    )


def end(proposal_id: UUID, to: ProposalState, *, actor: Actor, why: str) -> Proposal:
    """Move a proposal to an end, under its lock: `closed` once its action ended, `vetoed` in mid-flight.

    One that is there already is left as it is. Raises WrongMove.
    """
    with transaction.atomic():
        proposal = held(proposal_id)
        if proposal.state != to.value:
            move(proposal, to, actor=actor, why=why)
    return proposal


def approved(proposal: Proposal) -> None:
    """Move a held proposal that has all its approvals on; the caller records who gave them. Raises WrongMove."""
    machine.require_proposal(ProposalState(proposal.state), ProposalState.APPROVED)
    proposal.state, proposal.decided_at = ProposalState.APPROVED.value, timezone.now()
    proposal.save(update_fields=["state", "decided_at"])


def begin(proposal: Proposal, *, actor: Actor, facts: Facts | None = None) -> Action:
    """Write down the intention of a held, approved proposal; the dispatcher is woken when that is committed.

    `facts` are those that the caller read for this plan since it holds the cluster; without, they are read here.

    Raises Guarded when the world is not any more what the plan is about, WrongMove when it is not approved.
    """
    machine.require_proposal(ProposalState(proposal.state), ProposalState.ACTING)
    plan = plan_of(proposal)
    refusals = guards.recheck(plan, facts or standing.facts(plan))
    if refusals:
        raise Guarded(refusals)
    now = timezone.now()
    proposal.state = ProposalState.ACTING.value
    proposal.save(update_fields=["state"])
    action = Action.objects.create(
        proposal=proposal,
        cluster_id=proposal.attempt.cluster_id,
        kind=proposal.action,
        outcome=ActionState.INTENDED.value,
        mark=f"inquest-{proposal.pk.hex[:16]}",
        deadline=now + DEADLINE,
        sent_at=now,
    )
    ledger.record(
        EntryKind.ACTION_INTENDED,
        actor=actor,
        subject=action,
        attempt=proposal.attempt_id,
        body={
            "proposal": str(proposal.pk),
            "action": proposal.action,
            "nodes": proposal.nodes,
            "mark": action.mark,
            "plan_sha256": proposal.plan_sha256,
            "deadline": action.deadline,
        },
    )
    transaction.on_commit(lambda: wake([action.pk], Action))
    return action
