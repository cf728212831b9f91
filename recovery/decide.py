"""What people decide about proposals, and what time, newer verdicts and vetoes decide. The writers of decisions.

What is approved is a frozen plan, by its hash: whoever approves names what was on the screen, and is refused when the
plan, its verdict or its job is another one now.
"""

from collections.abc import Callable
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from recovery import brakes, exclusions, guards, incidents, permissions, standing, successors
from recovery.facts import Refusal
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.machine import WrongMove
from recovery.models import Action, Decision, Proposal, Veto
from recovery.moves import Guarded, approved, begin, end, held, move, plan_of
from recovery.policy import UNDECIDED
from recovery.surroundings import topology_for
from recovery.words import (
    ENDED_ACTIONS,
    EXCLUDING,
    OPEN_PROPOSALS,
    RELIEF,
    DecisionKind,
    EntryKind,
    PolicyMode,
    ProposalState,
    RejectReason,
)
from rules.attempt import InputError
from verdicts.record import NotPermitted
from verdicts.storable import storable_text

__all__ = [
    "AlreadyDecided",
    "Guarded",
    "NotPermitted",
    "PlanChanged",
    "WrongMove",
    "approve",
    "ask",
    "begin",
    "end",
    "expire_due",
    "reject",
    "sweep",
    "wanting",
    "why_not",
    "withdraw",
    "withdraw_stale",
]

MAX_TEXT = 4000
#: What one sweep takes up of each kind.
AT_ONCE = 200
UNDECIDED_STATES = (ProposalState.OPEN.value, ProposalState.APPROVED.value)
#: Guards that say that the plan is about another world than the one that is.
_ANOTHER_WORLD = frozenset({"verdict", "job", "moving"})
_RELIEF = [kind.value for kind in RELIEF]


class PlanChanged(ValueError):
    """What was approved is not what is there: look again. The message says what differs."""


class AlreadyDecided(ValueError):
    """It was decided already; the message says by whom and when."""


@transaction.atomic
def approve(proposal_id: UUID, *, by: User, seen: str, text: str = "") -> Proposal:
    """Approve a proposal as the person saw it. With the last approval that it needs, its action begins.

    `seen` is the plan's hash on the page. Raises PlanChanged, AlreadyDecided, NotPermitted (with what is missing),
    Guarded (with the guard that stands in the way), InputError for a text that is wanting.
    """
    _require(by, permissions.DECIDE, "Approving needs the role operator, lead or administrator.")
    proposal, text = held(proposal_id), _text(text)
    _require_open(proposal)
    _require_seen(proposal, seen)
    plan = plan_of(proposal)
    if proposal.made_by_id == by.pk:
        raise NotPermitted("You proposed this yourself: another person approves it.")
    people = _approvers(proposal)
    if by.pk in people:
        raise AlreadyDecided("You approved this already: another person is needed too.")
    if plan.domain in UNDECIDED and not text:
        raise InputError(f"text: the verdict is {plan.domain}: say why it is done all the same")
    facts, actor = standing.facts(plan), Actor.user(by)
    _require_unguarded(guards.recheck(plan, facts))
    _decision(proposal, DecisionKind.APPROVE, by, seen, text=text)
    still = _wanting(proposal, people | {by.pk})
    ledger.record(
        EntryKind.PROPOSAL_APPROVED,
        actor=actor,
        subject=proposal,
        attempt=proposal.attempt_id,
        body={"plan_sha256": seen, "needed": proposal.approvals_needed, "complete": not still, "wanting": still},
        erasable={"text": text} if text else None,
    )
    if not still:
        approved(proposal)
        if plan.exclusion is not None:
            exclusions.given_back(int(plan.exclusion), by=by)
        begin(proposal, actor=actor, facts=facts)
    return proposal


@transaction.atomic
def reject(proposal_id: UUID, *, by: User, seen: str, reason: RejectReason | str, text: str = "") -> Proposal:
    """Reject a proposal, with a reason: reasons are labels for the evaluation. Raises as `approve` does."""
    _require(by, permissions.DECIDE, "Rejecting needs the role operator, lead or administrator.")
    proposal, text = held(proposal_id), _text(text)
    _require_open(proposal)
    _require_seen(proposal, seen)
    if reason not in [one.value for one in RejectReason]:
        raise InputError(f"reason: one of {', '.join(RejectReason)}")
    if reason == RejectReason.OTHER and not text:
        raise InputError("text: another reason is told in words")
    _decision(proposal, DecisionKind.REJECT, by, seen, reason=str(reason), text=text)
    move(proposal, ProposalState.REJECTED, actor=Actor.user(by), reason=str(reason), text=text)
    return proposal


@transaction.atomic
def ask(proposal_id: UUID, *, by: User, seen: str, text: str) -> Proposal:
    """Say that more evidence is wanted first; the proposal stays open, and its time runs on."""
    _require(by, permissions.DECIDE, "Asking for more evidence needs the role operator, lead or administrator.")
    proposal, text = held(proposal_id), _text(text)
    _require_open(proposal)
    _require_seen(proposal, seen)
    if not text:
        raise InputError("text: say what evidence is wanted")
    asked = proposal.decisions.filter(kind=DecisionKind.ASK.value, seen_sha256=seen, text=text)
    if asked.filter(by=by).exists():
        return proposal  # the button was pressed twice
    _decision(proposal, DecisionKind.ASK, by, seen, text=text)
    ledger.record(
        EntryKind.PROPOSAL_ASKED,
        actor=Actor.user(by),
        subject=proposal,
        attempt=proposal.attempt_id,
        body={"plan_sha256": seen},
        erasable={"text": text},
    )
    return proposal


@transaction.atomic
def withdraw(proposal_id: UUID, *, by: User, text: str, seen: str = "") -> Proposal:
    """Take a proposal back before its action begins: who made it may, and whoever may decide."""
    proposal, text = held(proposal_id), _text(text)
    if proposal.made_by_id != by.pk:
        _require(
            by, permissions.DECIDE, "Withdrawing another's proposal needs the role operator, lead or administrator."
        )
    if proposal.state not in UNDECIDED_STATES:
        _require_open(proposal)
    if not text:
        raise InputError("text: say why it is taken back")
    _decision(proposal, DecisionKind.WITHDRAW, by, seen or proposal.plan_sha256, text=text)
    move(proposal, ProposalState.WITHDRAWN, actor=Actor.user(by), text=text)
    return proposal


def wanting(proposal: Proposal) -> str:
    """What a proposal still lacks of approvals, in words; empty if it has them all.

    Who made it does not count, and the author of the policy is not enough alone.
    """
    return _wanting(proposal, _approvers(proposal))


def _approvers(proposal: Proposal) -> set[int]:
    """The people, by their keys, who approved it."""
    return set(proposal.decisions.filter(kind=DecisionKind.APPROVE.value).values_list("by", flat=True))


def _wanting(proposal: Proposal, approvers: set[int]) -> str:
    people = approvers - {proposal.made_by_id}
    missing = proposal.approvals_needed - len(people)
    if missing > 0:
        one = "another person approves" if people or proposal.made_by_id else "a person approves"
        return one if missing == 1 else f"{missing} more people approve"
    author = proposal.version.author_id if proposal.version else None
    if author is not None and not people - {author}:
        return "somebody approves who did not write the policy"
    return ""


def why_not(proposal: Proposal, by: User) -> str:
    """Why it is not for this person to approve now, whatever guards say; empty if it is."""
    if not by.has_perm(permissions.DECIDE):
        return "Approving needs the role operator, lead or administrator."
    if proposal.state != ProposalState.OPEN.value:
        return f"It is {proposal.state}."
    if proposal.made_by_id == by.pk:
        return "You proposed this yourself: another person approves it."
    if proposal.decisions.filter(kind=DecisionKind.APPROVE.value, by=by).exists():
        return "You approved this already: another person is needed too."
    return ""


def expire_due() -> int:
    """End proposals whose time is over; says how many. Any number of sweeps may run at once."""
    due = Proposal.objects.filter(state__in=UNDECIDED_STATES, expires_at__lte=timezone.now())

    def expire(proposal: Proposal) -> bool:
        if proposal.expires_at > timezone.now():
            return False
        why = "nobody decided in time" if proposal.state == ProposalState.OPEN.value else "it could not begin in time"
        move(proposal, ProposalState.EXPIRED, actor=Actor.system("clock"), why=why)
        return True

    return _each(due, expire)


def withdraw_stale() -> int:
    """Take back what rests on a superseded verdict or a changed job, or what a veto protects; says how many.

    This is for the queue to show what is so. What holds acting back is the guards, which look again at every step.
    """
    now = timezone.now()
    open_ones = Proposal.objects.filter(state__in=UNDECIDED_STATES).exclude(action__in=_RELIEF)
    vetoes = Veto.objects.filter(Q(until=None) | Q(until__gt=now), ended_at=None)
    guarded = set(vetoes.values_list("cluster", flat=True))
    rows = open_ones.select_related("attempt__cluster", "attempt__workload", "verdict").defer(
        "verdict__body", "verdict__body_json", "plan"
    )
    done = 0
    for row in rows.order_by("created_at")[:AT_ONCE]:
        if _stale(row, guarded=row.attempt.cluster_id in guarded) is None:
            continue
        with transaction.atomic():
            proposal = held(row.pk)
            if proposal.state not in UNDECIDED_STATES:
                continue
            if found := _stale(proposal, guarded=proposal.attempt.cluster_id in guarded):
                to, why = found
                move(proposal, to, actor=Actor.system("veto" if to is ProposalState.VETOED else "guards"), why=why)
                done += 1
    return done


def _stale(proposal: Proposal, *, guarded: bool) -> tuple[ProposalState, str] | None:
    """What a proposal becomes, and why, where it is not about the world as it is; None where it still is."""
    attempt = proposal.attempt
    if guarded:
        topology = topology_for(attempt)
        for veto in standing.vetoes_on(attempt, proposal.nodes, topology, timezone.now()):
            return ProposalState.VETOED, f"{veto.kind} {veto.value} is left alone: {veto.reason}"
    if proposal.verdict is not None and not proposal.verdict.is_current:
        return ProposalState.WITHDRAWN, "its verdict was superseded by a newer one"
    why = successors.job_changed(attempt) or standing.moving(plan_of(proposal), attempt)
    return (ProposalState.WITHDRAWN, why) if why else None


def begin_due() -> int:
    """Begin what policies approved by themselves, after the time in which neighbours may show a shared cause.

    What a guard holds up for now stays approved until it expires; what a guard refuses for good is taken back.
    """
    waiting = Proposal.objects.filter(state=ProposalState.APPROVED.value, mode=PolicyMode.AUTOMATIC.value)

    def start(proposal: Proposal) -> bool:
        plan = plan_of(proposal)
        age = (timezone.now() - proposal.created_at).total_seconds()
        if plan.action in EXCLUDING and age < plan.caps.settle_seconds:
            return False
        actor = Actor.policy(proposal.version) if proposal.version else Actor.system("policy")
        try:
            begin(proposal, actor=actor)
        except Guarded as error:
            lasting = guards.stands(error.refusals)
            if any(refusal.guard == "veto" for refusal in lasting):
                move(proposal, ProposalState.VETOED, actor=Actor.system("veto"), why=str(error))
            elif lasting and not any(refusal.guard in ("stop", "kill_switch", "expired") for refusal in lasting):
                move(proposal, ProposalState.WITHDRAWN, actor=Actor.system("guards"), why=str(error))
            return False
        return True

    return _each(waiting, start)


def close_ended() -> int:
    """Close proposals whose action ended, where whoever ended it died before doing so; says how many."""
    ended = Proposal.objects.filter(
        state=ProposalState.ACTING.value, acted__outcome__in=[state.value for state in ENDED_ACTIONS]
    )

    def close(proposal: Proposal) -> bool:
        action = Action.objects.get(proposal=proposal)
        why = f"its action ended: {action.outcome}" + (f" ({action.why})" if action.why else "")
        move(proposal, ProposalState.CLOSED, actor=Actor.system("auditor"), why=why)
        return True

    return _each(ended, close)


def sweep() -> int:
    """Everything that comes with time: expiry, stale plans, vetoes, incidents, waiting beginnings. Says how much."""
    return (
        brakes.clear_due()
        + expire_due()
        + incidents.sweep()
        + withdraw_stale()
        + begin_due()
        + close_ended()
        + exclusions.expire_due()
    )


def _each(rows: QuerySet[Proposal], act: Callable[[Proposal], bool]) -> int:
    """Do it to each row, in a transaction of its own, under its locks, if it is still one of them."""
    done = 0
    for pk in list(rows.order_by("created_at").values_list("pk", flat=True)[:AT_ONCE]):
        with transaction.atomic():
            proposal = held(pk)
            if rows.filter(pk=pk).exists():
                done += act(proposal)
    return done


def _require(by: User, permission: str, said: str) -> None:
    if not by.has_perm(permission):
        raise NotPermitted(said)


def _require_open(proposal: Proposal) -> None:
    """Raise AlreadyDecided with by whom, or WrongMove with why it is over, unless the proposal waits for a decision."""
    if proposal.state == ProposalState.OPEN.value:
        return
    final = Q(kind=DecisionKind.APPROVE.value) | Q(kind=DecisionKind.REJECT.value)
    last = proposal.decisions.filter(final).select_related("by").last()
    if last is not None and proposal.state in (*OPEN_PROPOSALS, ProposalState.REJECTED, ProposalState.CLOSED):
        raise AlreadyDecided(
            f"It was decided: {last.kind} by {last.by.get_username()} at {last.at:%Y-%m-%d %H:%M:%S%z}."
        )
    why = f": {proposal.ended_why}" if proposal.ended_why else ""
    raise WrongMove(f"It is {proposal.state}{why}.")


def _require_seen(proposal: Proposal, seen: str) -> None:
    if seen != proposal.plan_sha256:
        raise PlanChanged("The plan is another one than the one you saw: look at it again.")


def _require_unguarded(refusals: list[Refusal]) -> None:
    changed = [refusal for refusal in refusals if refusal.guard in _ANOTHER_WORLD]
    if changed:
        raise PlanChanged(f"Since the plan was made, something changed. {guards.in_words(changed)}")
    if refusals:
        raise Guarded(refusals)


def _text(text: str) -> str:
    text = storable_text(text).strip()
    if len(text) > MAX_TEXT:
        raise InputError(f"text: at most {MAX_TEXT} characters")
    return text


def _decision(
    proposal: Proposal, kind: DecisionKind, by: User, seen: str, *, reason: str = "", text: str = ""
) -> Decision:
    roles = list(by.groups.order_by("name").values_list("name", flat=True))
    return Decision.objects.create(
        proposal=proposal, kind=kind.value, by=by, roles=roles, seen_sha256=seen, reason=reason, text=text
    )
