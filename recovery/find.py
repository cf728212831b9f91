"""Reads of recovery for pages and API alike."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from recovery.models import Action, Anomaly, Brake, Decision, Exclusion, LedgerEntry, Proposal
from recovery.words import ENDED_ACTIONS, OPEN_PROPOSALS, DecisionKind, ExclusionState, ProposalState

#: An action that is still open so long after its deadline needs a person.
ESCALATED_AFTER = timedelta(minutes=10)
GOING_ON = (ProposalState.APPROVED, ProposalState.ACTING)
# Of each row by itself: joined, all rows would be grouped by all that is read of them before a page of them is cut.
_APPROVALS = (
    Decision.objects.filter(proposal=OuterRef("pk"), kind=DecisionKind.APPROVE.value)
    .order_by()
    .values("proposal")
    .annotate(number=Count("pk"))
    .values("number")
)


def proposals() -> QuerySet[Proposal]:
    """All proposals with what a list shows of them; without the verdicts' bodies."""
    return (
        Proposal.objects.select_related(
            "attempt__cluster",
            "attempt__workload",
            "verdict",
            "version__policy",
            "scope",
            "incident",
            "made_by",
            "acted",
        )
        .defer("verdict__body", "verdict__body_json", "attempt__body", "plan_json", "acted__calls", "acted__observed")
        .annotate(approvals=Coalesce(Subquery(_APPROVALS), 0))
    )


def waiting() -> QuerySet[Proposal]:
    """The proposals that wait for a person, those that expire first before the others."""
    return proposals().filter(state=ProposalState.OPEN.value).order_by("expires_at", "id")


def of_attempt(attempt_id: UUID) -> QuerySet[Proposal]:
    """What was proposed for an attempt, newest first."""
    return proposals().filter(attempt_id=attempt_id).order_by("-created_at", "id")


def exclusions() -> QuerySet[Exclusion]:
    """All exclusions with what they were made for."""
    return Exclusion.objects.select_related("cluster", "attempt__workload", "proposal").defer(
        "attempt__body", "proposal__plan", "proposal__plan_json"
    )


def actions() -> QuerySet[Action]:
    """What was done, with its milestones."""
    return Action.objects.select_related("cluster", "proposal__attempt").prefetch_related("milestones")


def overdue() -> QuerySet[Action]:
    """Actions that should have ended long ago and have not, the longest overdue first: a person is needed."""
    ended = [state.value for state in ENDED_ACTIONS]
    late = timezone.now() - ESCALATED_AFTER
    return actions().exclude(outcome__in=ended).filter(deadline__lt=late).order_by("deadline", "pk")


def ledger_of(proposal: Proposal) -> QuerySet[LedgerEntry]:
    """The ledger's entries about a proposal, its action and its exclusions, in the order of the chain."""
    about = Q(subject_kind="proposal", subject=str(proposal.pk))
    for kind, rows in (
        ("action", Action.objects.filter(proposal=proposal)),
        ("exclusion", Exclusion.objects.filter(proposal=proposal)),
    ):
        about |= Q(subject_kind=kind, subject__in=[str(pk) for pk in rows.values_list("pk", flat=True)])
    return LedgerEntry.objects.filter(about, link__isnull=False).select_related("link").order_by("link__number")


@dataclass(frozen=True)
class Shared:
    """Something that several waiting proposals have in common, as `kind` and `value`."""

    kind: str
    value: str
    proposals: int
    of: int


def shared(
    rows: Iterable[Proposal], elements_of: "dict[UUID, set[tuple[str, str]]]", *, least: int = 2
) -> list[Shared]:
    """What most of the waiting proposals share: the question to ask before the first approval."""
    counted: dict[tuple[str, str], int] = {}
    total = 0
    for row in rows:
        total += 1
        for element in elements_of.get(row.pk, set()):
            counted[element] = counted.get(element, 0) + 1
    found = [Shared(kind, value, count, total) for (kind, value), count in counted.items()]
    # What one proposal alone has is no pattern, and neither is what less than half of them have.
    return sorted(
        (one for one in found if one.proposals >= least and one.proposals * 2 > one.of),
        key=lambda one: (-one.proposals, one.kind, one.value),
    )


def needs_a_person() -> dict[str, int]:
    """The counts that the overview and the queue's tabs show."""
    states = dict(
        Proposal.objects.filter(state__in=[state.value for state in OPEN_PROPOSALS])
        .order_by()
        .values_list("state")
        .annotate(n=Count("pk"))
    )
    return {
        "waiting": states.get(ProposalState.OPEN.value, 0),
        "going_on": sum(states.get(state.value, 0) for state in GOING_ON),
        "exclusions": Exclusion.objects.filter(state=ExclusionState.STANDING.value).count(),
        "overdue": overdue().count(),
        "brakes": Brake.objects.filter(released_at__isnull=True).count(),
        "anomalies": Anomaly.objects.filter(ended_at__isnull=True).count(),
        "wrong_exclusions": Exclusion.objects.filter(
            state=ExclusionState.STANDING.value, wrong_since__isnull=False
        ).count(),
    }
