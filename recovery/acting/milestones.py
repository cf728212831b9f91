"""The writer of milestones: what was observed after an action, once, with when it happened and when it was seen."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Action, Milestone
from recovery.words import EntryKind, MilestoneKind
from verdicts.models import Attempt

VERIFIER = Actor.system("verifier")


def reached(
    action: Action,
    kind: MilestoneKind,
    *,
    at: datetime,
    attempt: Attempt | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> bool:
    """Write down that a milestone was observed; False where that was known."""
    with transaction.atomic():
        _, made = Milestone.objects.get_or_create(
            action=action, kind=kind.value, defaults={"at": at, "attempt": attempt, "evidence": dict(evidence or {})}
        )
        if not made:
            return False
        ledger.record(
            EntryKind.MILESTONE,
            actor=VERIFIER,
            subject=action,
            attempt=attempt.pk if attempt else action.proposal.attempt_id,
            body={"milestone": kind.value, "at": at, "evidence": dict(evidence or {})},
        )
    return True
