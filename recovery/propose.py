"""The writers of proposals: what policies make of verdicts, once for each, and what people propose by hand.

A verdict is considered when its evidence is in, or when that was waited for long enough: then the plan says what is
missing. What was made of it, and why nothing was, stays as a `Consideration`.
"""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import msgspec
from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q
from django.utils import timezone

from recovery import exclusions, guards, incidents, permissions, planning, policy, standing
from recovery import plan as plans
from recovery.case_of import case_of, collecting, opt_in
from recovery.facts import Refusal
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Anomaly, Consideration, Intake, Policy, PolicyVersion, Proposal, Scope
from recovery.moves import Guarded, begin, hold_cluster, move
from recovery.plan import Plan
from recovery.planning import Basis
from recovery.policies import record as policies
from recovery.policies.find import rule_of
from recovery.policy import Case, OptIn, Rule
from recovery.surroundings import Surroundings, surroundings
from recovery.words import (
    EXCLUDING,
    OPEN_PROPOSALS,
    RELIEF,
    ActionKind,
    AnomalyKind,
    EntryKind,
    PolicyMode,
    ProposalState,
)
from rules.attempt import InputError
from verdicts.choices import Origin
from verdicts.models import Attempt, Verdict
from verdicts.own import NOT_OWN, own
from verdicts.record import NotPermitted
from verdicts.storable import storable_text

log = logging.getLogger(__name__)

__all__ = ["Guarded", "NotPermitted", "by_policy", "consider", "in_force", "propose_by_hand", "work"]

INTAKE = "proposals"
#: How long a verdict waits for evidence that is being collected, and how far back it is looked for.
EVIDENCE_WAIT, LOOK_BACK = timedelta(minutes=10), timedelta(minutes=15)
#: Verdicts considered by one call.
AT_ONCE = 200
#: Guards that hold acting back, not proposing: a person sees the proposal and the brake.
_BRAKES = frozenset({"kill_switch", "stop", "pace"})
#: Signals that a proposal answers; a straggler slows a job down and ends none.
_FAILURES = [AnomalyKind.CRASH.value, AnomalyKind.HANG.value]
_OPEN = [state.value for state in OPEN_PROPOSALS]
_UNDECIDED = [ProposalState.OPEN.value, ProposalState.APPROVED.value]
_CONSIDERED = Consideration.objects.filter(verdict=OuterRef("pk"))
MAX_TEXT = 4000


def work() -> int:
    """Consider the verdicts that came since the last look; says how many. Any number of workers may do this at once.

    The watermark begins with the installation: what was concluded before leads to nothing.
    """
    now = timezone.now()
    mark, _ = Intake.objects.get_or_create(name=INTAKE, defaults={"read_until": now + LOOK_BACK})
    fresh = list(
        Verdict.objects.current()
        .filter(~Exists(_CONSIDERED), ~_waits(now), own("attempt"))
        .filter(created_at__gte=mark.read_until - LOOK_BACK)
        .order_by("created_at")
        .values_list("pk", "attempt__cluster", "created_at")[:AT_ONCE]
    )
    for cluster in {cluster for _, cluster, _ in fresh}:
        incidents.look(cluster)
    count = 0
    for pk, *_ in fresh:
        try:
            count += _consider(_read(pk)) is not None
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            # The others must not wait for one that cannot be read; it is looked at again while it is recent.
            log.exception("verdict %s could not be considered", pk)
    # Rows become visible when their transaction commits, which may be a while after they were dated.
    until = fresh[-1][2] if len(fresh) == AT_ONCE else now
    Intake.objects.filter(name=INTAKE, read_until__lt=until).update(read_until=until)
    return count


def consider(verdict_id: UUID) -> list[Proposal]:
    """Make of a verdict what policies say, once; later calls answer what was made. Raises Verdict.DoesNotExist.

    Nothing is made of one that is not this site's own: its nodes are another site's, or made up.
    """
    verdict = _read(verdict_id)
    if verdict.attempt.origin != Origin.OWN:
        return []
    incidents.look(verdict.attempt.cluster_id)
    return _consider(verdict) or []


def _waits(now: datetime) -> Q:
    """Whether evidence for a verdict is being collected, and was not waited for long enough."""
    collected = collecting(now).filter(attempt=OuterRef("attempt"))
    return Q(Exists(collected), created_at__gt=now - EVIDENCE_WAIT)


def _read(verdict_id: UUID) -> Verdict:
    """A verdict with what is needed for considering it: whether it `waits`, and whether it was `considered`."""
    waits = ExpressionWrapper(_waits(timezone.now()), BooleanField())
    rows = Verdict.objects.select_related("ruleset", "attempt__cluster__actuator", "attempt__workload")
    return rows.defer("body_json").annotate(waits=waits, considered=Exists(_CONSIDERED)).get(pk=verdict_id)


def _consider(verdict: Verdict) -> list[Proposal] | None:
    """The same without looking for shared causes first; None where it waits for evidence.

    What recovery itself does not change is read before the cluster is held: nobody else decides about it meanwhile.
    """
    attempt = verdict.attempt
    if verdict.considered or not verdict.is_current:  # type: ignore[attr-defined]
        return list(Proposal.objects.filter(verdict=verdict))
    if verdict.waits:  # type: ignore[attr-defined]
        return None
    case = case_of(verdict, attempt)
    about = [rule for rule in map(rule_of, in_force()) if policy.matches(rule, case)[0]]
    basis = planning.basis(attempt) if about else None
    around = surroundings(attempt, case.nodes) if any(rule.action in EXCLUDING for rule in about) else None
    with transaction.atomic():
        hold_cluster(attempt.cluster_id)
        if not Verdict.objects.current().filter(~Exists(_CONSIDERED), pk=verdict.pk).exists():
            return list(Proposal.objects.filter(verdict=verdict))
        _withdraw_superseded(attempt)
        exclusions.mark_wrong_if_repeated(verdict, attempt)
        said: list[str] = []
        made: list[Proposal] = []
        # Read again: what a person changed or retired meanwhile is not in force any more.
        for version in in_force():
            rule = rule_of(version)
            fits, why = policy.matches(rule, case)
            if not fits:
                said.append(f"{version}: not about it: {why}")
                continue
            basis = basis or planning.basis(attempt)
            proposal, word = by_policy(version, rule, case, verdict, basis, around)
            said.append(f"{version}: {word}")
            if proposal is not None:
                made.append(proposal)
        Consideration.objects.create(verdict=verdict, said=said or ["no policy is in force"])
        if any(proposal.state != ProposalState.OBSERVED.value and proposal.anomaly_id for proposal in made):
            Anomaly.objects.filter(attempt=attempt, kind__in=_FAILURES, proposed_at=None).update(
                proposed_at=timezone.now()
            )
    return made


def in_force() -> list[PolicyVersion]:
    """The version in force of each policy, in the order of their names."""
    rows = PolicyVersion.objects.filter(policy__in=Policy.objects.filter(retired_at=None)).select_related("policy")
    newest = rows.order_by("policy__name", "-number").distinct("policy__name")
    return list(newest)


def by_policy(
    version: PolicyVersion,
    rule: Rule,
    case: Case,
    verdict: Verdict,
    basis: Basis,
    around: Surroundings | None = None,
) -> tuple[Proposal | None, str]:
    """The proposal of one policy for a case, and what came of it in words. The caller holds the cluster.

    What is `around` the case's nodes is read unless it is given.

    What waiting clears holds a policy that acts by itself up for as long as its proposal is good.
    """
    scope = policies.scope_for(version, case.cluster, case.domain.value)
    mode, capped = policy.capped_mode(policies.mode_now(scope, verdict.ruleset.digest), case)
    plan = planning.by_policy(basis, verdict, case, rule, version, mode)
    facts = standing.facts(plan, attempt=basis.attempt, verdict=verdict, around=around)
    plan = planning.with_blast(plan, facts, rule)
    refusals = guards.check(plan, facts, plan.caps)
    lasting = [refusal for refusal in guards.stands(refusals) if refusal.guard not in _BRAKES]
    if lasting:
        if mode is not PolicyMode.OBSERVE and any(one.guard.startswith("budget") for one in lasting):
            return _tell_of_budget(plan, lasting, version, scope, verdict, basis)
        return None, f"nothing was proposed: {guards.in_words(lasting)}"
    known = Proposal.objects.filter(attempt=basis.attempt, cause=plan.cause)
    if mode is PolicyMode.OBSERVE:
        if known.filter(version=version, state=ProposalState.OBSERVED.value, nodes=plan.nodes).exists():
            return None, "the same was recorded before"
        proposal = _write(plan, ProposalState.OBSERVED, version, scope, verdict, basis, case.opt_in)
        return proposal, "it observes: what it would do was recorded"
    if known.filter(state__in=_OPEN).exists():
        return None, "another proposal for the same cause is open"
    by_itself = mode is PolicyMode.AUTOMATIC and not guards.stands(refusals)
    state = ProposalState.APPROVED if by_itself else ProposalState.OPEN
    proposal = _write(plan, state, version, scope, verdict, basis, case.opt_in)
    held_up = f"; for now held up: {guards.in_words(refusals)}" if refusals else ""
    if not by_itself:
        return proposal, f"proposed for a person to decide{f' ({capped})' if capped else ''}{held_up}"
    if refusals:
        return proposal, f"it acts by itself{held_up}"
    if plan.action in EXCLUDING and plan.caps.settle_seconds:
        return proposal, f"it acts by itself, in {plan.caps.settle_seconds} s if nothing speaks against it"
    begin(proposal, actor=Actor.policy(version), facts=facts)
    return proposal, "it acts by itself"


def _tell_of_budget(
    plan: Plan,
    refusals: Sequence[Refusal],
    version: PolicyVersion,
    scope: Scope,
    verdict: Verdict,
    basis: Basis,
) -> tuple[Proposal | None, str]:
    """Where restarts are used up, a person is offered to tell the owner instead: silence would look like a gap."""
    why = guards.in_words(refusals)
    cause = f"budget:{plan.cause}"[:512]
    word = f"not restarted: {why}"
    if Proposal.objects.filter(attempt=basis.attempt, cause=cause).exists():
        return None, word
    says = f"Tell the owner of job {plan.job_id} that it is not restarted any more: {why}"
    plan = msgspec.structs.replace(
        plan,
        id=str(uuid4()),
        action=ActionKind.NOTIFY,
        nodes=[],
        cause=cause,
        mode=PolicyMode.ADVISORY,
        blast={},
        approvals_needed=1,
        says=says,
        reason=why,
    )
    return _write(plan, ProposalState.OPEN, version, scope, verdict, basis, None, drawn=False), word


@transaction.atomic
def propose_by_hand(
    attempt: Attempt | UUID, action: ActionKind, nodes: Sequence[str], *, by: User, reason: str
) -> Proposal:
    """Propose an action as a person. Another person approves it; the guards hold for it as for any other.

    Raises NotPermitted, Guarded, InputError that names the field, Attempt.DoesNotExist.
    """
    if not by.has_perm(permissions.PROPOSE):
        raise NotPermitted("Proposing needs the role operator, lead or administrator.")
    reason = storable_text(reason).strip()
    if not reason or len(reason) > MAX_TEXT:
        raise InputError(f"reason: say why, in 1 to {MAX_TEXT} characters")
    if action in RELIEF:
        raise InputError("action: a node is given back by lifting its exclusion")
    pk = attempt if isinstance(attempt, UUID) else attempt.pk
    cluster, origin = Attempt.objects.values_list("cluster", "origin").get(pk=pk)
    if origin != Origin.OWN:
        raise InputError(f"attempt: {NOT_OWN[Origin(origin)]}: nothing can be done about it here")
    if why := plans.wrong_nodes(action, nodes):
        raise InputError(f"nodes: {why}")
    hold_cluster(cluster)
    row = Attempt.objects.select_related("cluster__actuator", "workload").get(pk=pk)
    verdict = row.verdicts.current().first()
    basis = planning.basis(row)
    plan = planning.by_hand(basis, verdict, action, sorted(nodes), by, reason)
    if Proposal.objects.filter(attempt=row, cause=plan.cause, state__in=_OPEN).exists():
        raise InputError("action: the same is proposed already and open")
    facts = standing.facts(plan, attempt=row)
    plan = planning.with_blast(plan, facts, None)
    lasting = [one for one in guards.stands(guards.recheck(plan, facts)) if one.guard not in _BRAKES]
    if lasting:
        raise Guarded(lasting)
    return _write(plan, ProposalState.OPEN, None, None, verdict, basis, opt_in(row), by=by, drawn=False)


def _is_drawn(proposal_id: str, what: str, share: float) -> bool:
    """Whether a proposal is among the share that is drawn: told by its id alone, so that nobody can choose."""
    number = int.from_bytes(hashlib.sha256(f"{what}:{proposal_id}".encode()).digest()[:8], "big")
    return number < share * 2**64


def _write(
    plan: Plan,
    state: ProposalState,
    version: PolicyVersion | None,
    scope: Scope | None,
    verdict: Verdict | None,
    basis: Basis,
    asked: OptIn | None,
    *,
    by: User | None = None,
    drawn: bool = True,
) -> Proposal:
    """Write a proposal with its frozen plan, and its entry in the ledger."""
    rule = rule_of(version) if version is not None and drawn else None
    automatic = plan.mode is PolicyMode.AUTOMATIC
    proposal = Proposal.objects.create(
        **plans.columns(plan),
        verdict=verdict,
        anomaly_id=basis.anomaly,
        scope=scope,
        version=version,
        made_by=by,
        state=state.value,
        decided_at=timezone.now() if state is ProposalState.APPROVED else None,
        must_label=rule is not None and _is_drawn(plan.id, "label", rule.label_share),
        sampled=rule is not None and automatic and _is_drawn(plan.id, "sample", rule.sample_share),
        injected=bool(asked and asked.drill),
    )
    ledger.record(
        EntryKind.PROPOSAL_OBSERVED if state is ProposalState.OBSERVED else EntryKind.PROPOSAL_MADE,
        actor=Actor.user(by) if by else Actor.policy(version) if version else Actor.system("propose"),
        subject=proposal,
        attempt=proposal.attempt_id,
        body={
            "action": plan.action.value,
            "mode": plan.mode.value,
            "state": state.value,
            "nodes": plan.nodes,
            "cause": plan.cause,
            "plan_sha256": proposal.plan_sha256,
            "verdict": plan.verdict,
            "verdict_sha256": plan.verdict_sha256,
            "must_label": proposal.must_label,
            "injected": proposal.injected,
            "approvals_needed": plan.approvals_needed,
            "expires": plan.expires,
        },
        erasable={"reason": plan.reason} if by else None,
    )
    return proposal


def _withdraw_superseded(attempt: Attempt) -> None:
    """Make room for what the current verdict leads to: what rests on an older one is over."""
    stale: Iterable[Proposal] = (
        Proposal.objects.select_for_update(of=("self",))
        .filter(attempt=attempt, state__in=_UNDECIDED, verdict__is_current=False)
        .exclude(action__in=[kind.value for kind in RELIEF])
    )
    for proposal in stale:
        why = "its verdict was superseded by a newer one"
        move(proposal, ProposalState.WITHDRAWN, actor=Actor.system("propose"), why=why)
