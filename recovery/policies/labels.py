"""The writers of what was found afterwards: whether a diagnosis was right, and whether what was done worked.

Two questions. The first feeds the meter; the second does not, for most faults go away with any restart.
"""

from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from recovery import permissions
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Case, Exclusion, Proposal
from recovery.policies import meter
from recovery.policies.promote import look
from recovery.words import OPEN_PROPOSALS, CaseLabel, EntryKind, LabelBasis, Outcome
from rules.attempt import InputError
from verdicts.record import NotPermitted
from verdicts.storable import storable_text

LONGEST_TEXT = 4000
#: Labels from wrong exclusions that one sweep gives.
AT_ONCE = 200
_STANDING = Case.objects.filter(proposal=OuterRef("pk"), replaced_at__isnull=True)
_OF_EXCLUSION = Case.objects.filter(proposal=OuterRef("proposal"), replaced_at__isnull=True)


def due_at(proposal: Proposal) -> datetime:
    """Until when a proposal must have its label; later it counts as wrong without one."""
    return proposal.created_at + meter.DUE


def awaiting() -> QuerySet[Proposal]:
    """The cases that were drawn for a label and have none, the most urgent first."""
    return (
        Proposal.objects.filter(~Exists(_STANDING), must_label=True, scope__isnull=False)
        .select_related(
            "attempt__cluster", "attempt__workload", "scope__policy", "version__policy", "verdict", "incident"
        )
        .defer("verdict__body", "verdict__body_json", "attempt__body", "plan_json", "plan")
        .order_by("created_at", "id")
    )


def sampled() -> QuerySet[Proposal]:
    """Automatic actions that were drawn for a person to look at afterwards, and that nobody has said a word of."""
    return (
        Proposal.objects.filter(sampled=True, outcome="")
        .exclude(state__in=[state.value for state in OPEN_PROPOSALS])
        .select_related(
            "attempt__cluster", "attempt__workload", "scope__policy", "version__policy", "verdict", "incident"
        )
        .defer("verdict__body", "verdict__body_json", "attempt__body", "plan_json", "plan")
        .order_by("created_at", "id")
    )


def standing(proposal: Proposal) -> Case | None:
    """The label of a proposal that counts."""
    return proposal.labels.filter(replaced_at__isnull=True).select_related("by").first()


@transaction.atomic
def give(proposal_id: UUID, label: CaseLabel, basis: LabelBasis, *, by: User, text: str) -> Case:
    """Say what was found afterwards about the diagnosis under a proposal; a newer label replaces an older one.

    Raises NotPermitted, and InputError that names the field. The record of its policy is looked at at once.
    """
    if not by.has_perm(permissions.LABEL):
        raise NotPermitted("Labels need the role reviewer, lead or administrator.")
    text = storable_text(text).strip()
    if not text or len(text) > LONGEST_TEXT:
        raise InputError(f"text: say what was found and by whom, in 1 to {LONGEST_TEXT} characters")
    proposal = _held(proposal_id)
    if (basis is LabelBasis.INJECTED) != proposal.injected:
        said = "was" if proposal.injected else "was not"
        raise InputError(f"basis: this fault {said} marked as planted when it was proposed; that is not changed later")
    return _write(proposal, label, basis, text, by=by, actor=Actor.user(by))


@transaction.atomic
def give_outcome(proposal_id: UUID, outcome: Outcome, *, by: User, text: str = "") -> Proposal:
    """Say what came of a proposal that is over: whether what was done helped. It is no label of the diagnosis."""
    if not by.has_perm(permissions.LABEL) and not by.has_perm(permissions.DECIDE):
        raise NotPermitted("Saying what came of it needs the role reviewer, operator, lead or administrator.")
    text = storable_text(text).strip()
    if len(text) > LONGEST_TEXT:
        raise InputError(f"text: at most {LONGEST_TEXT} characters")
    proposal = _held(proposal_id)
    if proposal.state in [state.value for state in OPEN_PROPOSALS]:
        raise InputError("outcome: it is not over yet; what comes of it is to be seen")
    _told(proposal, outcome, text, by=by, actor=Actor.user(by))
    return proposal


@transaction.atomic
def outcome_seen(proposal_id: UUID, outcome: Outcome, why: str) -> bool:
    """Say what was seen to come of a proposal, where nobody has said anything; False where somebody has."""
    proposal = _held(proposal_id)
    if proposal.outcome:
        return False
    _told(proposal, outcome, why, by=None, actor=Actor.system("verifier"))
    return True


def _told(proposal: Proposal, outcome: Outcome, text: str, *, by: User | None, actor: Actor) -> None:
    before = proposal.outcome
    proposal.outcome, proposal.outcome_at, proposal.outcome_why = outcome.value, timezone.now(), text
    proposal.outcome_by = by
    proposal.save(update_fields=["outcome", "outcome_at", "outcome_why", "outcome_by"])
    ledger.record(
        EntryKind.OUTCOME_GIVEN,
        actor=actor,
        subject=proposal,
        attempt=proposal.attempt_id,
        body={"outcome": outcome.value, "before": before},
        erasable={"text": text} if text else None,
    )


@transaction.atomic
def found_wrong(exclusion: Exclusion) -> Case | None:
    """Label the proposal of an exclusion after which the same symptom came again, where nobody has yet.

    The node was away and the fault was there: it was not the node's.
    """
    proposal = _held(exclusion.proposal_id)
    if exclusion.wrong_since is None or proposal.injected or standing(proposal) is not None:
        return None
    text = exclusion.wrong_why or "the same symptom came again without the node"
    return _write(proposal, CaseLabel.WRONG, LabelBasis.RECURRENCE, text, by=None, actor=Actor.system("verifier"))


def sweep() -> int:
    """Label what exclusions that proved wrong say; says how many."""
    unlabelled = Exclusion.objects.filter(
        ~Exists(_OF_EXCLUSION), wrong_since__isnull=False, proposal__injected=False
    ).order_by("wrong_since")[:AT_ONCE]
    return sum(found_wrong(exclusion) is not None for exclusion in unlabelled)


def _write(
    proposal: Proposal, label: CaseLabel, basis: LabelBasis, text: str, *, by: User | None, actor: Actor
) -> Case:
    before = standing(proposal)
    if before is not None:
        before.replaced_at = timezone.now()
        before.save(update_fields=["replaced_at"])
    case = Case.objects.create(proposal=proposal, label=label.value, basis=basis.value, text=text, by=by)
    case.refresh_from_db()
    ledger.record(
        EntryKind.LABEL_GIVEN,
        actor=actor,
        subject=proposal,
        attempt=proposal.attempt_id,
        body={
            "label": label.value,
            "basis": basis.value,
            "before": before.label if before else "",
            "drawn": proposal.must_label,
            "late": timezone.now() > due_at(proposal),
        },
        erasable={"text": text},
    )
    if proposal.scope is not None:
        look(proposal.scope)
    return case


def _held(proposal_id: UUID) -> Proposal:
    """The proposal, locked. Raises Proposal.DoesNotExist."""
    return Proposal.objects.select_for_update(of=("self",)).select_related("scope__policy").get(pk=proposal_id)
