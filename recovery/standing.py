"""What guards need to know, read from the store at one moment: `facts` for a plan. Reads only."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone

from recovery import plan as plans
from recovery.caps import Caps
from recovery.facts import Away, BrakeNow, Element, Facts, Restarted, Shared, Took, VetoNow, WrongExclusion
from recovery.guards import WRONG_MEMORY, gained
from recovery.models import Action, ActuatorState, Brake, Decision, Exclusion, Incident, Proposal, RankProgress, Veto
from recovery.plan import Plan
from recovery.policies import record as policies
from recovery.policy import DISTURBING, RESTARTS
from recovery.progress import record as progress
from recovery.recurrence import LEAST_WRONG
from recovery.stop_file import killed
from recovery.topology import Topology, elements_of, of_cluster, recent_attempts
from recovery.words import (
    EXCLUDING,
    RELIEF,
    ActionKind,
    ActionState,
    BrakeKind,
    DecisionKind,
    ExclusionState,
    MilestoneKind,
    PolicyMode,
    ProposalState,
    VetoKind,
)
from verdicts import conclude
from verdicts.models import Attempt, Node, Verdict

DAY = timedelta(days=1)
#: So many of a cluster's latest attempts say which nodes a partition has.
RECENT_ATTEMPTS = 1_000
#: So long what a scheduler told of its partitions is taken for how they are; it is asked every minute.
TOLD_LATELY = timedelta(minutes=15)
#: So many restarts of a workload are looked at.
RECENT_RESTARTS = 60
UNDER_WAY = (ProposalState.APPROVED.value, ProposalState.ACTING.value)
#: What does not count for the pace.
_QUIET = [ActionKind.NOTIFY.value, *(kind.value for kind in RELIEF)]
_EXCLUDING = [kind.value for kind in EXCLUDING]
_RESTARTS = [kind.value for kind in RESTARTS]
#: What had no effect counts for the pace, and not as a restart.
_WITHOUT_EFFECT = [ActionState.ABANDONED.value, ActionState.FAILED.value]


def facts(
    plan: Plan,
    *,
    now: datetime | None = None,
    attempt: Attempt | None = None,
    verdict: Verdict | None = None,
    topology: Topology | None = None,
) -> Facts:
    """The world as it is for a plan. What the plan itself has under way is left out, or it would refuse itself.

    The plan's attempt and verdict, and the cluster's topology, are read unless the caller just did.
    """
    now = now or timezone.now()
    attempt = attempt or Attempt.objects.select_related("cluster__actuator", "workload").get(pk=plan.attempt)
    if verdict is None and plan.verdict:
        verdict = Verdict.objects.only("is_current", "body_sha256").get(pk=plan.verdict)
    topology = topology_for(attempt) if topology is None else topology
    exclusions, coming = _exclusions(attempt, now), _under_way(attempt, plan.id)
    away = list(_away(exclusions, coming, plan.id))
    wrong = list(_wrong(exclusions, now))
    return Facts(
        now=now,
        killed=killed() or "",
        brakes=[*_brakes(attempt, now)],
        vetoes=[*vetoes_on(attempt, plan.nodes, topology, now)],
        verdict_current=verdict.is_current if verdict else None,
        verdict_sha256=verdict.body_sha256 if verdict else None,
        job_changed=job_changed(attempt),
        demoted=_demoted(plan),
        moving=moving(plan, attempt),
        failed_at=failed_at(attempt, plan),
        away=away,
        took=[*_took(attempt, coming, plan.id, now)],
        elements=elements(plan, attempt, topology, {one.node for one in away}) if plan.action in EXCLUDING else [],
        restarts=[*restarts(attempt, plan.caps, now, but=plan.id)] if plan.action in RESTARTS else [],
        wrong=wrong,
        alike=_alike(plan, attempt, wrong, now) if plan.action in EXCLUDING else 0,
        shared=[*_shared(attempt, plan.nodes, topology)] if plan.action in EXCLUDING else [],
        exclusion_ours=plan.action not in RELIEF or _ours(plan),
    )


def workload_key(attempt: Attempt) -> str:
    """What a workload is called within its cluster; a job that names none is a workload by itself."""
    return f"{attempt.workload.account}/{attempt.workload.name}" if attempt.workload else f"job {attempt.job_id}"


def topology_for(attempt: Attempt) -> Topology:
    """What the nodes of the attempt's cluster share, as far as it is known."""
    return of_cluster(attempt.cluster_id, attempt.body.get("topology") or {})


def failed_at(attempt: Attempt, plan: Plan | None = None) -> datetime | None:
    """When that happened which a plan answers: the attempt's end, or, of one that goes on, nothing yet."""
    if plan is not None and plan.action in RELIEF:
        return None
    return attempt.ended_at


def job_changed(attempt: Attempt) -> str:
    """What became of the job since: it runs again, or its id was given to another one. Empty if nothing did."""
    later = (
        Attempt.objects.filter(cluster=attempt.cluster_id, scheduler=attempt.scheduler, job_id=attempt.job_id)
        .exclude(pk=attempt.pk)
        .filter(_after(attempt))
        .order_by("-submit_time", "-restart_count")
        .first()
    )
    if later is None:
        return ""
    if later.restart_count > attempt.restart_count:
        return f"job {attempt.job_id} was restarted meanwhile: it is at restart {later.restart_count}"
    return f"job id {attempt.job_id} belongs to a later submission"


def moving(plan: Plan, attempt: Attempt) -> str:
    """How a job that a policy would disturb was seen to get on since the plan was made; empty if it was not."""
    if attempt.ended_at is not None or not plan.policy or plan.action not in DISTURBING:
        return ""
    moved = RankProgress.objects.filter(attempt=attempt, moved_at__gt=plan.created).order_by("-moved_at").first()
    if moved is None:
        return ""
    return f"it moves again: step {moved.step} at {moved.moved_at:%H:%M:%S%z}"


def _after(attempt: Attempt) -> Q:
    """Attempts of the same job id that came later. Where times are not known, the restart count tells."""
    count = Q(restart_count__gt=attempt.restart_count)
    if attempt.submit_time is None:
        return count | Q(created_at__gt=attempt.created_at, submit_time__isnull=False)
    same = Q(submit_time=attempt.submit_time) | Q(submit_time__isnull=True)
    return Q(submit_time__gt=attempt.submit_time) | same & count


def successor(attempt: Attempt) -> Attempt | None:
    """The attempt that came next of the same job, or of the same workload where the job ended for good."""
    same_job = Attempt.objects.filter(cluster=attempt.cluster_id, scheduler=attempt.scheduler, job_id=attempt.job_id)
    return same_job.exclude(pk=attempt.pk).filter(_after(attempt)).order_by("submit_time", "restart_count").first()


def _brakes(attempt: Attempt, now: datetime) -> Iterable[BrakeNow]:
    pulled = Brake.objects.filter(Q(cluster=None) | Q(cluster=attempt.cluster_id), released_at=None)
    for brake in pulled.filter(Q(clears_at=None) | Q(clears_at__gt=now) | ~Q(kind=BrakeKind.PACE.value)):
        yield BrakeNow(kind=BrakeKind(brake.kind), reason=brake.reason, clears_at=brake.clears_at)


def vetoes_on(attempt: Attempt, nodes: Iterable[str], topology: Topology, now: datetime) -> Iterable[VetoNow]:
    """The standing vetoes that acting on this job, or taking these nodes, would touch.

    A job is meant by its id, also that of its array, and by its workload's name. A group is an element of the topology
    (its name, or "switch:NAME"), a partition or an account.
    """
    named = set(nodes)
    jobs = {attempt.job_id, attempt.job_id.partition("_")[0], workload_key(attempt)}
    jobs |= {attempt.workload.name} if attempt.workload else set()
    groups = {text for kind, name in elements_of(topology, named) for text in (name, f"{kind}:{name}")}
    groups |= {part for part in attempt.partition.split(",") if part} | ({attempt.account} - {""})
    standing = Veto.objects.filter(Q(until=None) | Q(until__gt=now), cluster=attempt.cluster_id, ended_at=None)
    for veto in standing:
        kind = VetoKind(veto.kind)
        if veto.value in {VetoKind.NODE: named, VetoKind.JOB: jobs, VetoKind.GROUP: groups}[kind]:
            yield VetoNow(kind=kind, value=veto.value, reason=veto.reason)


def _demoted(plan: Plan) -> str:
    """Why a policy that was to act by itself may not any more; empty where a person approved, or where it may."""
    if plan.mode is not PolicyMode.AUTOMATIC:
        return ""
    proposal = Proposal.objects.select_related("scope").filter(pk=plan.id).first()
    if proposal is None or proposal.scope is None:
        return ""
    if Decision.objects.filter(proposal=proposal, kind=DecisionKind.APPROVE.value).exists():
        return ""
    digest = conclude.current_ruleset().digest
    if policies.mode_now(proposal.scope, digest) is PolicyMode.AUTOMATIC:
        return ""
    return f"its policy acts no longer by itself: {proposal.scope.said or 'it was demoted'}"


def _exclusions(attempt: Attempt, now: datetime) -> list[Exclusion]:
    """The exclusions of the cluster that stand, and those that proved wrong lately."""
    counted = Q(state=ExclusionState.STANDING.value) | Q(wrong_since__gt=now - WRONG_MEMORY)
    rows = Exclusion.objects.filter(counted, cluster=attempt.cluster_id)
    return list(rows.select_related("attempt__workload").defer("attempt__body"))


def _under_way(attempt: Attempt, but: str) -> list[Proposal]:
    """The proposals of the cluster, of whatever action, that are approved or acting."""
    rows = Proposal.objects.filter(attempt__cluster=attempt.cluster_id, state__in=UNDER_WAY).exclude(pk=but)
    return list(_with_beginning(rows))


def _with_beginning(rows: QuerySet[Proposal]) -> QuerySet[Proposal]:
    rows = rows.select_related("attempt__workload").defer("attempt__body", "plan", "plan_json")
    return rows.annotate(begun=F("acted__created_at"))


def _away(exclusions: Iterable[Exclusion], coming: Iterable[Proposal], but: str) -> Iterable[Away]:
    """Nodes that are kept away, and those that approved plans are about to take."""
    seen = set()
    for one in exclusions:
        if one.state == ExclusionState.STANDING.value and str(one.proposal_id) != but:
            seen.add((one.proposal_id, one.node))
            yield Away(node=one.node, workload=workload_key(one.attempt), since=one.made_at)
    for proposal in coming:
        for node in proposal.nodes if proposal.action in _EXCLUDING else []:
            if (proposal.pk, node) not in seen:
                yield Away(node=node, workload=workload_key(proposal.attempt), since=proposal.created_at)


def _took(attempt: Attempt, coming: Iterable[Proposal], but: str, now: datetime) -> Iterable[Took]:
    """What was begun in the last day, and what is approved and about to."""
    begun = _with_beginning(
        Proposal.objects.filter(
            pk__in=Action.objects.filter(cluster=attempt.cluster_id, created_at__gt=now - DAY).values("proposal")
        ).exclude(pk=but)
    )
    waiting = [one for one in coming if one.state == ProposalState.APPROVED.value and one.begun is None]  # type: ignore[attr-defined]
    for row in [*begun, *waiting]:
        if row.action not in _QUIET:
            nodes = row.nodes if row.action in _EXCLUDING else []
            at = row.begun or row.created_at  # type: ignore[attr-defined]
            yield Took(at=at, workload=workload_key(row.attempt), nodes=nodes)


def elements(plan: Plan, attempt: Attempt, topology: Topology, away: set[str]) -> list[Element]:
    """The cluster, the partitions, racks and switches that the plan's nodes are in, with what is away of each."""
    mine = set(plan.nodes)
    counted = (
        Node.objects.own()
        .filter(cluster=attempt.cluster_id)
        .aggregate(size=Count("pk"), known=ArrayAgg("name", filter=Q(name__in=mine)))
    )
    name, known = attempt.cluster.name, frozenset(counted["known"] or ())
    found = [Element(kind="cluster", name=name, of=counted["size"], away=frozenset(away), taken=known)]
    places: list[tuple[str, str, set[str], bool]] = [
        ("partition", part, nodes, exact) for part, (nodes, exact) in partitions(attempt).items()
    ]
    places += [
        (kind, element, members, False)
        for kind in ("rack", "switch")
        for element, members in topology.get(kind, {}).items()
        if mine & members
    ]
    down = _down(attempt)
    for kind, element, members, exact in places:
        taken = frozenset(mine & members)
        # A node that is away has run nothing lately, so it may be missing among those that recent attempts name.
        found.append(
            Element(
                kind=kind,
                name=element,
                of=len(members) if members else None,
                away=frozenset(away & members),
                taken=taken,
                down=frozenset(down & members),
                exact=exact,
            )
        )
    return found


def partitions(attempt: Attempt) -> dict[str, tuple[set[str], bool]]:
    """The nodes of each partition that the job was sent to, and whether these are all of them.

    They are where the dispatcher asked the scheduler lately; else they are those that recent attempts name.
    """
    found: dict[str, tuple[set[str], bool]] = {}
    parts = {part for part in attempt.partition.split(",") if part}
    told = _told(attempt, parts)
    for part in {attempt.partition, *parts} - {""}:
        if part in told:
            found[part] = told[part], True
            continue
        if parts <= told.keys():
            # Of several partitions each is told by itself.
            continue
        recent = recent_attempts(attempt.cluster_id).filter(partition=part)
        ids = list(recent.values_list("pk", flat=True)[:RECENT_ATTEMPTS])
        if ids or part == attempt.partition:
            nodes = set(Node.objects.filter(attempts__in=ids).values_list("name", flat=True).distinct())
            found[part] = nodes, False
    return found


def _lately(attempt: Attempt) -> ActuatorState | None:
    """What the scheduler told lately of its nodes; what was told long ago may have changed since."""
    state: ActuatorState | None = getattr(attempt.cluster, "actuator", None)
    if state is None or state.partitions_at is None or state.partitions_at < timezone.now() - TOLD_LATELY:
        return None
    return state


def _down(attempt: Attempt) -> set[str]:
    """The nodes on which no job can start, as the scheduler told lately: they are no room for anybody."""
    state = _lately(attempt)
    return set(state.down) if state is not None else set()


def _told(attempt: Attempt, parts: set[str]) -> dict[str, set[str]]:
    """The nodes of partitions as the scheduler told them lately."""
    state = _lately(attempt)
    lists = state.partitions if state is not None else {}
    return {part: nodes for part in parts if (nodes := set(lists.get(part, "").split(",")) - {""})}


def restarts(attempt: Attempt, caps: Caps, now: datetime, *, but: str = "") -> Iterable[Restarted]:
    """The restarts that we did of the attempt's workload, and whether each came farther than what it restarted."""
    mine = (
        Q(proposal__attempt__workload=attempt.workload)
        if attempt.workload_id
        else Q(proposal__attempt__cluster=attempt.cluster_id, proposal__attempt__job_id=attempt.job_id)
    )
    rows = (
        Action.objects.filter(mine, kind__in=_RESTARTS, created_at__gt=now - timedelta(hours=caps.budget_hours))
        .exclude(outcome__in=_WITHOUT_EFFECT)
        .exclude(proposal=UUID(but) if but else None)
        .select_related("proposal__attempt")
        .prefetch_related("milestones")
        .order_by("-created_at")[:RECENT_RESTARTS]
    )
    for row in rows:
        plan = plans.decode(row.proposal.plan_json)
        seen = {milestone.kind for milestone in row.milestones.all()}
        yield Restarted(at=row.created_at, symptom=plan.symptom, locus=plan.locus, progressed=_came(row, seen))


def _came(row: Action, seen: set[str]) -> bool | None:
    """Whether a restart got farther: by its milestones, else by what both attempts posted."""
    if MilestoneKind.COMPLETED.value in seen:
        return True
    before = row.proposal.attempt
    after = successor(before)
    return farther(before, after) if after is not None else None


def farther(before: Attempt, after: Attempt) -> bool | None:
    """Whether a later attempt came farther than an earlier one, by what both posted; None where that is not known."""
    was, became = progress.latest(before.pk), progress.latest(after.pk)
    found = gained(
        checkpoint=was.checkpoint_step if was else None,
        step=was.step_max if was else None,
        new_checkpoint=became.checkpoint_step if became else None,
        new_step=became.step_max if became else None,
    )
    # One that goes on may come farther yet: that it did not so far says nothing.
    return None if found is False and after.ended_at is None else found


def _wrong(exclusions: Iterable[Exclusion], now: datetime) -> Iterable[WrongExclusion]:
    for one in exclusions:
        if one.wrong_since is not None and one.wrong_since > now - WRONG_MEMORY:
            workload = workload_key(one.attempt)
            yield WrongExclusion(symptom=one.symptom, workload=workload, node=one.node, since=one.wrong_since)


def _alike(plan: Plan, attempt: Attempt, wrong: list[WrongExclusion], now: datetime) -> int:
    """How many exclusions were made for the plan's symptom; asked only where some of them proved wrong."""
    if sum(one.symptom == plan.symptom for one in wrong) < LEAST_WRONG:
        return 0
    made = Exclusion.objects.filter(cluster=attempt.cluster_id, symptom=plan.symptom, made_at__gt=now - WRONG_MEMORY)
    return made.count()


def _shared(attempt: Attempt, nodes: Iterable[str], topology: Topology) -> Iterable[Shared]:
    """The open incidents that the nodes, what they belong to, or the job's image are part of."""
    mine = set(nodes)
    around = elements_of(topology, mine) | {("image", str(attempt.body.get("image", "")))}
    for incident in Incident.objects.filter(cluster=attempt.cluster_id, closed_at=None):
        if mine & set(incident.nodes) or (incident.element, incident.value) in around:
            yield Shared(element=incident.element, name=incident.value, said=incident.said)


def _ours(plan: Plan) -> bool:
    """Whether what a plan gives back was taken by Inquest: an exclusion of that node is on record."""
    if not plan.exclusion:
        return False
    return Exclusion.objects.filter(pk=plan.exclusion, node__in=plan.nodes, cluster__name=plan.cluster).exists()
