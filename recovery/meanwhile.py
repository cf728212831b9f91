"""What becomes of a job whose proposal to leave nodes out waits, or was taken back: it is restarted on all its nodes.

Most faults go away with a restart, and a job that waits for a person trains nothing. The verdict stays: if the fault
comes back on the same node, a policy with `blamed_before` has one more reason to leave it out.
"""

from datetime import datetime, timedelta

import msgspec
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from recovery import guards, planning, policy, standing
from recovery.case_of import case_of
from recovery.facts import Refusal
from recovery.ledger.entries import Actor
from recovery.models import Action, Decision, PolicyVersion, Proposal
from recovery.moves import held, move
from recovery.policies import record as policies
from recovery.policy import Case, Rule
from recovery.propose import by_policy, in_force
from recovery.successors import job_changed
from recovery.words import OPEN_PROPOSALS, ActionKind, PolicyMode, ProposalState
from verdicts.models import Attempt, Verdict

#: How long after it was taken back a proposal leads to a restart, and what one sweep takes up.
TAKEN_BACK, AT_ONCE = timedelta(hours=1), 200
_OPEN = [state.value for state in OPEN_PROPOSALS]
_EXCLUDING = ActionKind.RESTART_EXCLUDING.value


def sweep(*, now: datetime | None = None) -> int:
    """Restart what waited long enough, and what lost its proposal to a guard or a shared cause; says how many."""
    now = now or timezone.now()
    begun = Exists(Action.objects.filter(proposal=OuterRef("pk")))
    waiting = Proposal.objects.filter(
        ~begun,
        state__in=[ProposalState.OPEN.value, ProposalState.APPROVED.value],
        action=_EXCLUDING,
        version__body__waits_minutes__gte=1,
    )
    others = Proposal.objects.filter(attempt=OuterRef("attempt"), created_at__gte=OuterRef("created_at")).exclude(
        pk=OuterRef("pk")
    )
    lost = Proposal.objects.filter(
        ~Exists(Decision.objects.filter(proposal=OuterRef("pk"))),
        ~Exists(others),
        state=ProposalState.WITHDRAWN.value,
        action=_EXCLUDING,
        ended_at__gt=now - TAKEN_BACK,
        version__isnull=False,
        verdict__is_current=True,
    )
    done = 0
    for pk in list(waiting.order_by("created_at").values_list("pk", flat=True)[:AT_ONCE]):
        with transaction.atomic():
            done += _instead(held(pk), now)
    for pk in list(lost.order_by("ended_at").values_list("pk", flat=True)[:AT_ONCE]):
        with transaction.atomic():
            proposal = held(pk)
            if lost.filter(pk=pk).exists():
                done += _restart(proposal, by_itself=False)
    return done


def _instead(proposal: Proposal, now: datetime) -> bool:
    """Take a waiting proposal back and restart its job, where a policy may do that by itself."""
    if proposal.state not in (ProposalState.OPEN.value, ProposalState.APPROVED.value) or proposal.version is None:
        return False
    rule = msgspec.convert(proposal.version.body, Rule)
    if rule.waits_minutes is None or now - proposal.created_at < timedelta(minutes=rule.waits_minutes):
        return False
    if not _restarting(proposal, by_itself=True):
        return False
    why = f"nothing came of it in {rule.waits_minutes} min: restarted on all its nodes instead"
    move(proposal, ProposalState.WITHDRAWN, actor=Actor.system("meanwhile"), why=why)
    return _restart(proposal, by_itself=True)


def _restart(proposal: Proposal, *, by_itself: bool) -> bool:
    """Let the policies that restart propose, or do, what they say of the case. The proposal's cluster is held."""
    attempt = Attempt.objects.select_related("cluster__actuator", "workload").get(pk=proposal.attempt_id)
    verdict = Verdict.objects.select_related("ruleset").get(proposals=proposal)
    basis = planning.basis(attempt)
    for version, rule, case in _restarting(proposal, by_itself=by_itself):
        made, _ = by_policy(version, rule, case, verdict, basis)
        if made is not None and made.state in _OPEN:
            return True
    return False


def _restarting(proposal: Proposal, *, by_itself: bool) -> list[tuple[PolicyVersion, Rule, Case]]:
    """The policies that would restart the job, none where it moved on; with `by_itself` those that can at once."""
    verdict = Verdict.objects.select_related("ruleset").filter(is_current=True, proposals=proposal).first()
    attempt = Attempt.objects.select_related("cluster__actuator", "workload").get(pk=proposal.attempt_id)
    if verdict is None or job_changed(attempt):
        return []
    case, found = case_of(verdict, attempt), []
    for version in in_force():
        rule = msgspec.convert(version.body, Rule)
        if rule.action is not ActionKind.RESTART or not policy.matches(rule, case)[0]:
            continue
        scope = policies.scope_for(version, case.cluster, case.domain.value)
        mode, _ = policy.capped_mode(policies.mode_now(scope, verdict.ruleset.digest), case)
        if not by_itself or (mode is PolicyMode.AUTOMATIC and not _refused(version, rule, case, verdict, attempt)):
            found.append((version, rule, case))
    return found


def _refused(version: PolicyVersion, rule: Rule, case: Case, verdict: Verdict, attempt: Attempt) -> list[Refusal]:
    """What speaks against a restart now: where its budget is used up, the exclusion goes on waiting for a person."""
    plan = planning.by_policy(planning.basis(attempt), verdict, case, rule, version, PolicyMode.AUTOMATIC)
    return guards.check(plan, standing.facts(plan, attempt=attempt, verdict=verdict), plan.caps)
