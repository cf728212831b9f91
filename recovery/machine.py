"""What may follow what. The code asks these tables; the database has them as triggers, and a test compares the two."""

from collections.abc import Mapping

from recovery.words import ActionState, ExclusionState, ProposalState

P, A = ProposalState, ActionState

PROPOSAL_STARTS = frozenset({P.OBSERVED, P.OPEN, P.APPROVED})
PROPOSAL_MOVES: Mapping[ProposalState, frozenset[ProposalState]] = {
    P.OBSERVED: frozenset(),
    P.OPEN: frozenset({P.APPROVED, P.REJECTED, P.EXPIRED, P.WITHDRAWN, P.VETOED}),
    # What was approved and not begun can still be stopped by anybody and by any brake.
    P.APPROVED: frozenset({P.ACTING, P.EXPIRED, P.WITHDRAWN, P.VETOED}),
    # A veto in mid-flight ends the action before its next step; what was begun is undone or converges.
    P.ACTING: frozenset({P.CLOSED, P.VETOED}),
    P.CLOSED: frozenset(),
    P.REJECTED: frozenset(),
    P.EXPIRED: frozenset(),
    P.WITHDRAWN: frozenset(),
    P.VETOED: frozenset(),
}

ACTION_STARTS = frozenset({A.INTENDED})
ACTION_MOVES: Mapping[ActionState, frozenset[ActionState]] = {
    A.INTENDED: frozenset({A.SENT, A.ALREADY_SO, A.ABANDONED, A.FAILED}),
    # FAILED only where a look has shown that nothing was applied, or that it cannot be reached.
    A.SENT: frozenset({A.UNKNOWN, A.CONVERGED, A.ABANDONED, A.FAILED}),
    A.UNKNOWN: frozenset({A.SENT, A.CONVERGED, A.ABANDONED, A.FAILED}),
    A.CONVERGED: frozenset(),
    A.ALREADY_SO: frozenset(),
    A.ABANDONED: frozenset(),
    A.FAILED: frozenset(),
}

EXCLUSION_STARTS = frozenset({ExclusionState.STANDING})
EXCLUSION_MOVES: Mapping[ExclusionState, frozenset[ExclusionState]] = {
    ExclusionState.STANDING: frozenset({ExclusionState.LIFTED, ExclusionState.EXPIRED}),
    ExclusionState.LIFTED: frozenset(),
    ExclusionState.EXPIRED: frozenset(),
}


class WrongMove(ValueError):
    """What was asked for may not follow the present state."""


def require_proposal(before: ProposalState, after: ProposalState) -> None:
    """Raise WrongMove unless a proposal may go from `before` to `after`."""
    if after not in PROPOSAL_MOVES[before]:
        raise WrongMove(f"a proposal that is {before} cannot become {after}")


def require_action(before: ActionState, after: ActionState) -> None:
    """Raise WrongMove unless an action may go from `before` to `after`."""
    if after not in ACTION_MOVES[before]:
        raise WrongMove(f"an action that is {before} cannot become {after}")
