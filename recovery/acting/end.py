"""How an action ends: in one transaction its outcome, what is kept away because of it, its proposal and the ledger."""

import logging
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from recovery import exclusions, machine, moves
from recovery.acting.milestones import reached
from recovery.actuators.base import Look
from recovery.actuators.stepper import Next
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Action, Proposal
from recovery.words import (
    ActionKind,
    ActionState,
    EntryKind,
    ExclusionKind,
    MilestoneKind,
    ProposalState,
)
from verdicts.choices import RequestState
from verdicts.lease import Lease
from verdicts.redaction import clean_text
from verdicts.storable import storable, storable_text

log = logging.getLogger(__name__)

DISPATCHER = Actor.system("dispatcher")
#: What an action that converged keeps away, and from whom.
KEEPS_AWAY = {ActionKind.RESTART_EXCLUDING: ExclusionKind.JOB, ActionKind.DRAIN: ExclusionKind.NODE}
REACHED = frozenset({ActionState.CONVERGED, ActionState.ALREADY_SO})


def finish(lease: Lease[Action], proposal: Proposal, thing: Next, look: Look | None) -> None:
    """Write down how an action ended, as observed. Raises LeaseLost; then nothing is written."""
    assert thing.outcome is not None
    outcome, why = thing.outcome, storable_text(clean_text(thing.why))[:2000]
    facts = storable(dict(look.facts)) if look is not None else {}
    with transaction.atomic():
        held = moves.held(proposal.pk)
        lease.locked()
        row = Action.objects.get(pk=lease.row.pk)
        machine.require_action(ActionState(row.outcome), outcome)
        seen = {"observed": facts, "observed_at": look.at} if look is not None else {}
        lease.release(RequestState.DONE, outcome=outcome.value, why=why, error="", **seen)
        ledger.record(
            EntryKind.ACTION_OBSERVED,
            actor=DISPATCHER,
            subject=row,
            attempt=held.attempt_id,
            body={
                "outcome": outcome.value,
                "why": why,
                "mark": row.mark,
                "calls": len(row.calls),
                "seen": facts,
                "stuck": thing.stuck,
            },
        )
        if outcome in REACHED:
            reached(row, MilestoneKind.ACTION_DONE, at=_when(row), evidence={"outcome": outcome.value, "seen": facts})
        if outcome is ActionState.CONVERGED and (kind := KEEPS_AWAY.get(ActionKind(row.kind))):
            for node in held.nodes:
                exclusions.make(held, node, kind)
        if held.state in (ProposalState.APPROVED.value, ProposalState.ACTING.value):
            _close(held, outcome, why)
    if thing.stuck:
        log.error("action %s: a person is needed: %s", row.mark, why)


def _when(row: Action) -> datetime:
    """When the last call was made that led there; now, where none was needed."""
    return datetime.fromisoformat(row.calls[-1]["at"]) if row.calls else timezone.now()


def _close(held: Proposal, outcome: ActionState, why: str) -> None:
    said = f"{outcome.value}: {why}" if why else outcome.value
    vetoed = outcome is ActionState.ABANDONED and "veto:" in why
    if held.state == ProposalState.APPROVED.value:
        # Whoever begins an action moves its proposal on; one that was not moved can only be taken back.
        to = ProposalState.VETOED if vetoed else ProposalState.WITHDRAWN
    else:
        to = ProposalState.VETOED if vetoed else ProposalState.CLOSED
    moves.move(held, to, actor=DISPATCHER, why=said[:2000])
