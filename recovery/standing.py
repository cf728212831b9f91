"""What guards need to know, read from the store at one moment: `facts` for a plan. Reads only."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import JSONObject
from django.utils import timezone

from recovery.facts import Away, BrakeNow, Facts, Shared, Took, VetoNow, WrongExclusion
from recovery.guards import WRONG_MEMORY
from recovery.models import Action, Brake, Decision, Exclusion, Incident, Proposal, RankProgress, Veto
from recovery.plan import Plan
from recovery.policies import record as policies
from recovery.policy import DISTURBING, RESTARTS
from recovery.recurrence import LEAST_WRONG
from recovery.stop_file import killed
from recovery.successors import job_changed, restarts
from recovery.surroundings import Surroundings, surroundings, topology_for
from recovery.topology import Topology, elements_of
from recovery.words import (
    EXCLUDING,
    RELIEF,
    ActionKind,
    BrakeKind,
    DecisionKind,
    ExclusionState,
    PolicyMode,
    ProposalState,
    VetoKind,
)
from verdicts import conclude
from verdicts.models import Attempt, Cluster, Verdict

DAY = timedelta(days=1)
UNDER_WAY = (ProposalState.APPROVED.value, ProposalState.ACTING.value)
#: What does not count for the pace.
_QUIET = [ActionKind.NOTIFY.value, *(kind.value for kind in RELIEF)]
_EXCLUDING = [kind.value for kind in EXCLUDING]


class _OfJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a row says of its job."""

    job_id: str
    account: str | None
    workload: str | None

    @property
    def key(self) -> str:
        return _key(self.job_id, self.account, self.workload)


class _Exclusion(_OfJob, frozen=True, kw_only=True):
    """An exclusion that stands, or that proved wrong lately."""

    node: str
    proposal: UUID
    state: str
    symptom: str
    made_at: datetime
    wrong_since: datetime | None


class _Proposal(_OfJob, frozen=True, kw_only=True):
    """A proposal that is approved or acting, or whose action began in the last day."""

    id: UUID
    state: str
    action: str
    nodes: list[str]
    created_at: datetime
    begun: datetime | None


class _Incident(msgspec.Struct, frozen=True, kw_only=True):
    """An incident that is open."""

    element: str
    value: str
    nodes: list[str]
    said: str


class _ClusterNow(msgspec.Struct, frozen=True, kw_only=True):
    """What recovery does on a cluster and what holds it back, as one statement saw it."""

    brakes: list[BrakeNow]
    vetoes: list[VetoNow]
    incidents: list[_Incident]
    exclusions: list[_Exclusion]
    under_way: list[_Proposal]
    begun: list[_Proposal]


def facts(
    plan: Plan,
    *,
    now: datetime | None = None,
    attempt: Attempt | None = None,
    verdict: Verdict | None = None,
    around: Surroundings | None = None,
) -> Facts:
    """The world as it is for a plan. What the plan itself has under way is left out, or it would refuse itself.

    The plan's attempt and verdict, and what is around its nodes, are read unless the caller just did.
    """
    now = now or timezone.now()
    attempt = attempt or Attempt.objects.select_related("cluster__actuator", "workload").get(pk=plan.attempt)
    if verdict is None and plan.verdict:
        verdict = Verdict.objects.only("is_current", "body_sha256").get(pk=plan.verdict)
    excludes = plan.action in EXCLUDING
    if around is None and excludes:
        around = surroundings(attempt, plan.nodes)
    seen = _cluster_now(attempt.cluster_id, now)
    topology = around.topology if around else topology_for(attempt) if plan.nodes and seen.vetoes else {}
    away = list(_away(seen, plan.id))
    wrong = list(_wrong(seen, now))
    return Facts(
        now=now,
        killed=killed() or "",
        brakes=seen.brakes,
        vetoes=[*_touched(seen.vetoes, attempt, plan.nodes, topology)],
        verdict_current=verdict.is_current if verdict else None,
        verdict_sha256=verdict.body_sha256 if verdict else None,
        job_changed=job_changed(attempt),
        demoted=_demoted(plan),
        moving=moving(plan, attempt),
        # A plan that only gives back does not get too old; of a job that goes on nothing happened yet.
        failed_at=None if plan.action in RELIEF else attempt.ended_at,
        away=away,
        took=[*_took(seen, plan.id)],
        elements=around.elements(plan.nodes, {one.node for one in away}) if around and excludes else [],
        restarts=[*restarts(attempt, plan.caps, now, but=plan.id)] if plan.action in RESTARTS else [],
        wrong=wrong,
        alike=_alike(plan, attempt, wrong, now) if excludes else 0,
        shared=[*_shared(seen, attempt, plan.nodes, topology)] if excludes else [],
        exclusion_ours=plan.action not in RELIEF or _ours(plan),
    )


def workload_key(attempt: Attempt) -> str:
    """What a workload is called within its cluster; a job that names none is a workload by itself."""
    workload = attempt.workload
    return _key(attempt.job_id, workload.account if workload else None, workload.name if workload else None)


def _key(job_id: str, account: str | None, workload: str | None) -> str:
    return f"{account}/{workload}" if workload is not None else f"job {job_id}"


def moving(plan: Plan, attempt: Attempt) -> str:
    """How a job that a policy would disturb was seen to get on since the plan was made; empty if it was not."""
    if attempt.ended_at is not None or not plan.policy or plan.action not in DISTURBING:
        return ""
    moved = RankProgress.objects.filter(attempt=attempt, moved_at__gt=plan.created).order_by("-moved_at").first()
    if moved is None:
        return ""
    return f"it moves again: step {moved.step} at {moved.moved_at:%H:%M:%S%z}"


def vetoes_on(attempt: Attempt, nodes: Iterable[str], topology: Topology, now: datetime) -> Iterable[VetoNow]:
    """The standing vetoes that acting on this job, or taking these nodes, would touch."""
    standing = [
        VetoNow(kind=VetoKind(one.kind), value=one.value, reason=one.reason) for one in _vetoes(attempt.cluster_id, now)
    ]
    return _touched(standing, attempt, nodes, topology)


def _cluster_now(cluster_id: UUID, now: datetime) -> _ClusterNow:
    """Read what recovery does on a cluster in one statement: its parts belong to the same moment."""
    job = {
        "job_id": "attempt__job_id",
        "account": "attempt__workload__account",
        "workload": "attempt__workload__name",
    }
    proposal = {
        "id": "pk",
        "state": "state",
        "action": "action",
        "nodes": "nodes",
        "created_at": "created_at",
        "begun": "acted__created_at",
    }
    pulled = Brake.objects.filter(Q(cluster=None) | Q(cluster=cluster_id), released_at=None).filter(
        Q(clears_at=None) | Q(clears_at__gt=now) | ~Q(kind=BrakeKind.PACE.value)
    )
    counted = Q(state=ExclusionState.STANDING.value) | Q(wrong_since__gt=now - WRONG_MEMORY)
    begun = Action.objects.filter(cluster=cluster_id, created_at__gt=now - DAY).values("proposal")
    row = (
        Cluster.objects.filter(pk=cluster_id)
        .values_list(
            JSONObject(
                brakes=_rows(pulled, kind="kind", reason="reason", clears_at="clears_at"),
                vetoes=_rows(_vetoes(cluster_id, now), kind="kind", value="value", reason="reason"),
                incidents=_rows(
                    Incident.objects.filter(cluster=cluster_id, closed_at=None),
                    element="element",
                    value="value",
                    nodes="nodes",
                    said="said",
                ),
                exclusions=_rows(
                    Exclusion.objects.filter(counted, cluster=cluster_id),
                    node="node",
                    proposal="proposal_id",
                    state="state",
                    symptom="symptom",
                    made_at="made_at",
                    wrong_since="wrong_since",
                    **job,
                ),
                under_way=_rows(
                    Proposal.objects.filter(attempt__cluster=cluster_id, state__in=UNDER_WAY), **proposal, **job
                ),
                begun=_rows(Proposal.objects.filter(pk__in=begun), **proposal, **job),
            ),
            flat=True,
        )
        .get()
    )
    return msgspec.convert(row, _ClusterNow, strict=False)


def _rows(queryset: QuerySet[Any], **fields: str) -> ArraySubquery:
    """The rows of a query as a list of JSON objects, in its order."""
    return ArraySubquery(queryset.values_list(JSONObject(**fields)))


def _vetoes(cluster_id: UUID, now: datetime) -> QuerySet[Veto]:
    return Veto.objects.filter(Q(until=None) | Q(until__gt=now), cluster=cluster_id, ended_at=None)


def _touched(
    standing: Iterable[VetoNow], attempt: Attempt, nodes: Iterable[str], topology: Topology
) -> Iterable[VetoNow]:
    """Those of the standing vetoes that are about this job or these nodes.

    A job is meant by its id, also that of its array, and by its workload's name. A group is an element of the topology
    (its name, or "switch:NAME"), a partition or an account.
    """
    named = set(nodes)
    jobs = {attempt.job_id, attempt.job_id.partition("_")[0], workload_key(attempt)}
    jobs |= {attempt.workload.name} if attempt.workload else set()
    groups = {text for kind, name in elements_of(topology, named) for text in (name, f"{kind}:{name}")}
    groups |= {part for part in attempt.partition.split(",") if part} | ({attempt.account} - {""})
    meant = {VetoKind.NODE: named, VetoKind.JOB: jobs, VetoKind.GROUP: groups}
    return (veto for veto in standing if veto.value in meant[veto.kind])


def _demoted(plan: Plan) -> str:
    """Why a policy that was to act by itself may not any more; empty where a person approved, or where it may."""
    if plan.mode is not PolicyMode.AUTOMATIC:
        return ""
    approvals = Decision.objects.filter(proposal=OuterRef("pk"), kind=DecisionKind.APPROVE.value)
    proposal = Proposal.objects.select_related("scope").filter(~Exists(approvals), pk=plan.id).first()
    if proposal is None or proposal.scope is None:
        return ""
    digest = conclude.current_ruleset().digest
    if policies.mode_now(proposal.scope, digest) is PolicyMode.AUTOMATIC:
        return ""
    return f"its policy acts no longer by itself: {proposal.scope.said or 'it was demoted'}"


def _away(seen: _ClusterNow, but: str) -> Iterable[Away]:
    """Nodes that are kept away, and those that approved plans are about to take."""
    known = set()
    for one in seen.exclusions:
        if one.state == ExclusionState.STANDING.value and str(one.proposal) != but:
            known.add((one.proposal, one.node))
            yield Away(node=one.node, workload=one.key, since=one.made_at)
    for proposal in seen.under_way:
        for node in proposal.nodes if proposal.action in _EXCLUDING and str(proposal.id) != but else []:
            if (proposal.id, node) not in known:
                yield Away(node=node, workload=proposal.key, since=proposal.created_at)


def _took(seen: _ClusterNow, but: str) -> Iterable[Took]:
    """What was begun in the last day, and what is approved and about to."""
    waiting = [one for one in seen.under_way if one.state == ProposalState.APPROVED.value and one.begun is None]
    for row in [*seen.begun, *waiting]:
        if row.action not in _QUIET and str(row.id) != but:
            nodes = row.nodes if row.action in _EXCLUDING else []
            yield Took(at=row.begun or row.created_at, workload=row.key, nodes=nodes)


def _wrong(seen: _ClusterNow, now: datetime) -> Iterable[WrongExclusion]:
    for one in seen.exclusions:
        if one.wrong_since is not None and one.wrong_since > now - WRONG_MEMORY:
            yield WrongExclusion(symptom=one.symptom, workload=one.key, node=one.node, since=one.wrong_since)


def _alike(plan: Plan, attempt: Attempt, wrong: list[WrongExclusion], now: datetime) -> int:
    """How many exclusions were made for the plan's symptom; asked only where some of them proved wrong."""
    if sum(one.symptom == plan.symptom for one in wrong) < LEAST_WRONG:
        return 0
    made = Exclusion.objects.filter(cluster=attempt.cluster_id, symptom=plan.symptom, made_at__gt=now - WRONG_MEMORY)
    return made.count()


def _shared(seen: _ClusterNow, attempt: Attempt, nodes: Iterable[str], topology: Topology) -> Iterable[Shared]:
    """The open incidents that the nodes, what they belong to, or the job's image are part of."""
    mine = set(nodes)
    around = elements_of(topology, mine) | {("image", str(attempt.body.get("image", "")))}
    for incident in seen.incidents:
        if mine & set(incident.nodes) or (incident.element, incident.value) in around:
            yield Shared(element=incident.element, name=incident.value, said=incident.said)


def _ours(plan: Plan) -> bool:
    """Whether what a plan gives back was taken by Inquest: an exclusion of that node is on record."""
    if not plan.exclusion:
        return False
    return Exclusion.objects.filter(pk=plan.exclusion, node__in=plan.nodes, cluster__name=plan.cluster).exists()
