"""How often recovery was wrong: exclusions and actions that should not have been, among those that were decided on."""

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from recovery.models import Case, Decision, Exclusion, Proposal
from recovery.words import CaseLabel, DecisionKind, ProposalState, RejectReason
from verdicts.fleet.find import Span
from verdicts.intervals import Share, share

#: What says that the node was not the cause. A reasonable precaution is not the cause either.
NOT_THE_CAUSE = (CaseLabel.WRONG.value, CaseLabel.PRECAUTION.value)
DECIDED = (CaseLabel.RIGHT.value, *NOT_THE_CAUSE)
#: Rejections that say that the proposal itself was wrong, not that it was not wanted.
WRONG_REASONS = (RejectReason.WRONG_NODE.value, RejectReason.WRONG_CAUSE.value)


@dataclass(frozen=True)
class RecoveryQuality:
    """Counts of a time. What was planted is left out.

    `wrong_exclusions` is among those that something was found out about: a label, or the same symptom without the node.
    `labelled` says how many those are of all. `wrong_actions` is of the actions that were carried out and have a label.
    `called_wrong` are proposals that people rejected for a wrong node or cause, among those that people decided.
    """

    exclusions: int
    labelled: Share
    wrong_exclusions: Share
    wrong_actions: Share
    called_wrong: Share


def measured(span: Span, cluster: str = "") -> RecoveryQuality:
    """How often recovery was wrong in a time, on one cluster or on all."""
    made = Exclusion.objects.filter(made_at__gte=span.after, made_at__lt=span.before, proposal__injected=False)
    proposed = Proposal.objects.filter(created_at__gte=span.after, created_at__lt=span.before, injected=False)
    if cluster:
        made, proposed = made.filter(cluster__name=cluster), proposed.filter(attempt__cluster__name=cluster)
    said_wrong, said_right = _labelled(NOT_THE_CAUSE, "proposal"), _labelled((CaseLabel.RIGHT.value,), "proposal")
    # A label is what somebody found out; without one, that the symptom came again speaks for itself.
    wrong = made.filter(said_wrong | Q(wrong_since__isnull=False) & ~said_right).count()
    right = made.filter(said_right).count()
    total = made.count()
    return RecoveryQuality(
        exclusions=total,
        labelled=share(wrong + right, total),
        wrong_exclusions=share(wrong, wrong + right),
        wrong_actions=_of_labels(proposed.filter(state=ProposalState.CLOSED.value)),
        called_wrong=_of_decisions(proposed),
    )


def _labelled(words: tuple[str, ...], proposal: str) -> Q:
    return Q(Exists(Case.objects.filter(proposal=OuterRef(proposal), replaced_at__isnull=True, label__in=words)))


def _of_labels(rows: QuerySet[Proposal]) -> Share:
    return share(rows.filter(_labelled(NOT_THE_CAUSE, "pk")).count(), rows.filter(_labelled(DECIDED, "pk")).count())


def _of_decisions(rows: QuerySet[Proposal]) -> Share:
    final = Decision.objects.filter(proposal__in=rows, kind__in=[DecisionKind.APPROVE.value, DecisionKind.REJECT.value])
    wrong = final.filter(kind=DecisionKind.REJECT.value, reason__in=WRONG_REASONS)
    return share(
        wrong.values("proposal").distinct().count(),
        final.values("proposal").distinct().count(),
    )
