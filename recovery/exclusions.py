"""The writers of exclusions: made when a node was seen to be kept away, lifted by people, ended by time, found wrong.

Every end gives the node back through a proposal of its own that needs no approval: what gives back is held up by no
cap, brake or veto.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from recovery import brakes, permissions, recurrence, successors
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Exclusion, Proposal
from recovery.moves import begin, hold_cluster, plan_of
from recovery.relief import propose_relief
from recovery.words import BrakeKind, EntryKind, ExclusionKind, ExclusionState, ProposalState
from rules.attempt import InputError
from verdicts.models import Attempt, Node, Verdict
from verdicts.record import NotPermitted
from verdicts.storable import storable_text

__all__ = ["NotPermitted", "expire_due", "lift", "make", "mark_wrong_if_repeated"]

MAX_TEXT = 4000
AT_ONCE = 200


@transaction.atomic
def make(proposal: Proposal, node: str, kind: ExclusionKind, *, actor: Actor | None = None) -> Exclusion:
    """Record that a node is kept away since now, as a fresh look showed. Making it twice makes one."""
    plan = plan_of(proposal)
    attempt = Attempt.objects.only("cluster", "job_id").get(pk=proposal.attempt_id)
    standing_one, made = Exclusion.objects.get_or_create(
        cluster_id=attempt.cluster_id,
        node=node,
        kind=kind.value,
        proposal=proposal,
        state=ExclusionState.STANDING.value,
        defaults={
            "attempt_id": proposal.attempt_id,
            "symptom": plan.symptom,
            "expires_at": timezone.now() + timedelta(hours=plan.exclusion_hours),
        },
    )
    if made:
        ledger.record(
            EntryKind.EXCLUSION_MADE,
            actor=actor or Actor.system("dispatcher"),
            subject=standing_one,
            attempt=proposal.attempt_id,
            body={
                "proposal": str(proposal.pk),
                "node": node,
                "kind": kind.value,
                "symptom": plan.symptom,
                "expires_at": standing_one.expires_at,
            },
        )
    return standing_one


@transaction.atomic
def lift(exclusion_id: int, *, by: User, reason: str) -> Exclusion:
    """Give a node back, with a reason. Lifting what is over already changes nothing.

    Raises NotPermitted, InputError, Exclusion.DoesNotExist.
    """
    if not by.has_perm(permissions.LIFT):
        raise NotPermitted("Lifting an exclusion needs the role operator, lead or administrator.")
    reason = storable_text(reason).strip()
    if not reason or len(reason) > MAX_TEXT:
        raise InputError(f"reason: say why, in 1 to {MAX_TEXT} characters")
    exclusion = _held(exclusion_id)
    if exclusion.state == ExclusionState.STANDING.value:
        _end(exclusion, ExclusionState.LIFTED, actor=Actor.user(by), by=by, reason=reason)
    return exclusion


def expire_due() -> int:
    """End exclusions whose time is over and give their nodes back; says how many."""
    due = Exclusion.objects.filter(state=ExclusionState.STANDING.value, expires_at__lte=timezone.now())
    ended = 0
    for pk in list(due.order_by("expires_at").values_list("pk", flat=True)[:AT_ONCE]):
        with transaction.atomic():
            exclusion = _held(pk)
            if exclusion.state == ExclusionState.STANDING.value and exclusion.expires_at <= timezone.now():
                _end(exclusion, ExclusionState.EXPIRED, actor=Actor.system("clock"), reason="its time is over")
                ended += 1
    return ended


def mark_wrong_if_repeated(verdict: Verdict, attempt: Attempt) -> list[Exclusion]:
    """Mark exclusions as wrong where a verdict's symptom came again in its attempt, which ran without the node.

    Not where the workload came farther meanwhile than it had been: then the fault was gone, and this is another one.
    Nor where another fault of the kind was to be expected: a large job meets one every few days (`recurrence`).
    A person is offered to lift what proved wrong, and several of them slow recovery down by themselves.
    """
    symptoms = {cause["symptom"] for cause in verdict.body.get("causes", [])}
    symptoms |= {cause["symptom"] for cause in verdict.body.get("candidates", [])}
    began = attempt.started_at or attempt.submit_time
    if not symptoms or began is None:
        return []
    same = {"attempt__workload": attempt.workload_id} if attempt.workload_id else {"attempt__job_id": attempt.job_id}
    suspects = (
        Exclusion.objects.filter(
            cluster=attempt.cluster_id,
            symptom__in=symptoms,
            wrong_since=None,
            made_at__lte=attempt.ended_at or timezone.now(),
            made_at__gte=began - recurrence.REPEATED_WITHIN,
            **same,
        )
        .exclude(attempt=attempt)
        .exclude(node__in=attempt.nodes.values("name"))
        .values_list("pk", "proposal", "symptom", "made_at")
    )
    rows = list(suspects)
    if not rows or not _speaks_against(rows, attempt, same):
        return []
    found = []
    for pk, *_ in rows:
        with transaction.atomic():
            exclusion = _held(pk)
            earlier = exclusion.attempt
            # It must have run after the node was taken away: the job that was restarted, or one that began later.
            after = attempt.job_id == earlier.job_id or began >= exclusion.made_at
            if exclusion.wrong_since is None and after and successors.farther(earlier, attempt) is not True:
                _mark_wrong(exclusion, attempt)
                found.append(exclusion)
    return found


def _speaks_against(
    rows: Sequence[tuple[int, UUID, str, datetime]], attempt: Attempt, same: Mapping[str, object]
) -> bool:
    """Whether chance does not explain that other nodes of so large a job failed in the same way."""
    now = timezone.now()
    elsewhere = Exclusion.objects.filter(
        cluster=attempt.cluster_id,
        symptom__in={symptom for _, _, symptom, _ in rows},
        made_at__gt=now - recurrence.COUNTED_OVER,
    )
    return recurrence.speaks_against(
        [(proposal, made) for _, proposal, _, made in rows],
        at=attempt.ended_at or now,
        alike=elsewhere.exclude(**same).values("proposal").distinct().count(),
        nodes=attempt.nodes.count(),
        of=Node.objects.own().filter(cluster=attempt.cluster_id).count(),
    )


def _mark_wrong(exclusion: Exclusion, attempt: Attempt) -> None:
    now = timezone.now()
    why = f"{exclusion.symptom} came again in job {attempt.job_id} (restart {attempt.restart_count}) without the node"
    exclusion.wrong_since, exclusion.wrong_why = now, why
    exclusion.save(update_fields=["wrong_since", "wrong_why"])
    ledger.record(
        EntryKind.EXCLUSION_WRONG,
        actor=Actor.system("verifier"),
        subject=exclusion,
        attempt=attempt.pk,
        body={"node": exclusion.node, "symptom": exclusion.symptom, "why": why, "proposal": str(exclusion.proposal_id)},
    )
    if exclusion.state == ExclusionState.STANDING.value:
        propose_relief(exclusion, state=ProposalState.OPEN, actor=Actor.system("verifier"), reason=why)
    of_cluster = Exclusion.objects.filter(cluster=exclusion.cluster_id)
    since = now - recurrence.WRONG_WITHIN
    lately = of_cluster.filter(wrong_since__gt=since).count()
    if recurrence.too_many(lately, of_cluster.filter(made_at__gt=since).count()):
        reason = f"{lately} exclusions of the last 24 h were wrong"
        brakes.pull(exclusion.cluster, BrakeKind.PACE, reason, part="verifier", lasts=recurrence.SLOWED_FOR)


def _held(exclusion_id: int) -> Exclusion:
    """An exclusion and its cluster, locked until the transaction ends."""
    hold_cluster(Exclusion.objects.values_list("cluster", flat=True).get(pk=exclusion_id))
    return (
        Exclusion.objects.select_for_update(of=("self",))
        .select_related("cluster", "proposal", "attempt__cluster", "attempt__workload")
        .get(pk=exclusion_id)
    )


def given_back(exclusion_id: int, *, by: User) -> None:
    """End an exclusion whose giving back a person approves: the caller begins that one."""
    exclusion = _held(exclusion_id)
    if exclusion.state == ExclusionState.STANDING.value:
        _close(exclusion, ExclusionState.LIFTED, actor=Actor.user(by), reason="its lifting was approved", by=by)


def _end(exclusion: Exclusion, to: ExclusionState, *, actor: Actor, reason: str, by: User | None = None) -> None:
    """End an exclusion, record it, and give the node back."""
    _close(exclusion, to, actor=actor, reason=reason, by=by)
    proposal = propose_relief(exclusion, state=ProposalState.APPROVED, actor=actor, reason=reason, by=by)
    if proposal is not None:
        begin(proposal, actor=actor)


def _close(exclusion: Exclusion, to: ExclusionState, *, actor: Actor, reason: str, by: User | None) -> None:
    exclusion.state, exclusion.ended_at, exclusion.ended_why = to.value, timezone.now(), reason
    exclusion.save(update_fields=["state", "ended_at", "ended_why"])
    ledger.record(
        EntryKind.EXCLUSION_LIFTED if to is ExclusionState.LIFTED else EntryKind.EXCLUSION_EXPIRED,
        actor=actor,
        subject=exclusion,
        attempt=exclusion.attempt_id,
        body={"node": exclusion.node, "kind": exclusion.kind, "proposal": str(exclusion.proposal_id)},
        erasable={"reason": reason} if by else None,
    )
