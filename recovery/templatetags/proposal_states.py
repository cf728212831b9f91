"""What was proposed for attempts, for pages that are about verdicts: they know no proposals, their templates may."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django import template
from django.db.models import Case, IntegerField, Value, When

from recovery import wording
from recovery.models import Proposal
from recovery.words import ProposalState
from verdicts.wording import Look, plain

register = template.Library()


@dataclass(frozen=True)
class Proposed:
    """The proposal of an attempt that matters most: one that waits for a person, else the last."""

    pk: UUID
    says: str
    look: Look


@register.simple_tag
def proposals_of(lines: Iterable[object]) -> dict[UUID, Proposed]:
    """What was proposed for the attempts of a list's lines, by attempt."""
    return _proposed([line.row.attempt_id for line in lines])  # type: ignore[attr-defined]


@register.filter
def proposed(found: dict[UUID, Proposed], attempt: UUID) -> Proposed | None:
    """The proposal of one line."""
    return found.get(attempt)


def _proposed(attempts: list[UUID]) -> dict[UUID, Proposed]:
    waits = Case(When(state=ProposalState.OPEN.value, then=Value(0)), default=Value(1), output_field=IntegerField())
    rows = (
        Proposal.objects.filter(attempt__in=attempts)
        .order_by("attempt", waits, "-created_at")
        .distinct("attempt")
        .values_list("attempt", "pk", "state", "plan__says")
    )
    return {
        attempt: Proposed(pk, str(says), wording.PROPOSALS.get(state) or Look(plain(state)))
        for attempt, pk, state, says in rows
    }
