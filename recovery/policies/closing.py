"""What came of proposals that are over, where it can be seen: nobody has to say what the scheduler says already.

A person's word stands above it. It does not tell whether the diagnosis was right: most faults go away with any restart.
"""

from datetime import timedelta
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from recovery import successors
from recovery.models import Proposal
from recovery.policies import labels
from recovery.words import OPEN_PROPOSALS, ActionState, MilestoneKind, Outcome, ProposalState
from rules.terminal import scheduler_state
from rules.words import State

#: An action shows within so long whether it helped, and a job without one whether it went on all the same.
ACTED, NOT_ACTED = timedelta(days=30), timedelta(days=7)
#: Proposals that one sweep closes.
AT_ONCE = 200
_HELPED = {
    MilestoneKind.PROGRESS_RESTORED.value: "the job got past its checkpoint",
    MilestoneKind.COMPLETED.value: "the job completed",
}
_NO_EFFECT = (ActionState.FAILED.value, ActionState.ABANDONED.value)


def sweep() -> int:
    """Say what came of what is over, as far as it is seen; says of how many."""
    return sum(_close(pk) for pk in _due())


def _due() -> list[UUID]:
    now = timezone.now()
    acted = Q(state=ProposalState.CLOSED.value)
    seen = Q(acted__milestones__kind__in=list(_HELPED)) | Q(acted__outcome__in=_NO_EFFECT)
    late = Q(ended_at__lt=now - ACTED) | ~acted & Q(ended_at__lt=now - NOT_ACTED)
    recorded = Q(state=ProposalState.OBSERVED.value, created_at__lt=now - NOT_ACTED)
    # What was drawn for a person to look at waits for that person.
    rows = Proposal.objects.filter(acted & seen | late | recorded, outcome="", sampled=False)
    rows = rows.exclude(state__in=[state.value for state in OPEN_PROPOSALS]).order_by("created_at", "pk")
    return list(rows.values_list("pk", flat=True).distinct()[:AT_ONCE])


def _close(proposal_id: UUID) -> bool:
    proposal = Proposal.objects.select_related("attempt", "acted").get(pk=proposal_id)
    outcome, why = _seen(proposal)
    return labels.outcome_seen(proposal_id, outcome, why)


def _seen(proposal: Proposal) -> tuple[Outcome, str]:
    """What is seen of a proposal that is due, and in words by what."""
    action = getattr(proposal, "acted", None)
    if action is not None:
        for milestone in action.milestones.order_by("-at"):
            if milestone.kind in _HELPED:
                return Outcome.WORKED, _HELPED[milestone.kind]
        if action.outcome in _NO_EFFECT:
            return Outcome.DID_NOT, action.why or f"its action is {action.outcome}"
        return Outcome.CANNOT_TELL, f"nothing was seen of it within {ACTED.days} days"
    after = successors.successor(proposal.attempt)
    if after is not None and scheduler_state(after.state) is State.SUCCEEDED:
        return Outcome.NOT_NEEDED, "the job completed without it"
    return Outcome.CANNOT_TELL, "nothing was done, and nothing tells whether it would have helped"
