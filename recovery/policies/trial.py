"""Simulation before a change: what a policy would have done over the last days, against what was done and how it ended.

Asked are the verdicts that stand, by the code that decides in earnest: what matches, and the guards, over what this
policy would have done until then. Not part of it: brakes, vetoes and restart budgets of that time, and what the world
would have been if the policy had acted.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Prefetch, Q
from django.utils import timezone

from recovery import guards, standing, successors
from recovery.caps import bounded
from recovery.case_of import case_of
from recovery.facts import Away, Element, Facts, Shared, Took
from recovery.models import Case, Incident, Proposal
from recovery.plan_sketch import sketch
from recovery.policies import record
from recovery.policy import Rule, matches
from recovery.surroundings import surroundings
from recovery.topology import Topology, of_cluster
from recovery.words import CaseLabel, DecisionKind
from rules.words import Domain
from verdicts.choices import Label
from verdicts.models import Attempt, Review, Verdict
from verdicts.own import own

DAYS, MOST_DAYS = 14, 90
#: Verdicts that are looked at, and how long that may take: the newest come first, and the page says where it stopped.
MOST, SECONDS = 2000, 8.0
#: Rows that are shown; the figures are of all.
MOST_ROWS = 200


@dataclass(frozen=True)
class Row:
    """One attempt that the policy is about."""

    attempt: UUID
    job: str
    workload: str
    cluster: str
    at: datetime
    domain: str
    symptom: str
    strength: str
    nodes: Sequence[str]
    held_up: str  # why the guards would not have let it; "": it would have acted
    done: str  # what was done then
    outcome: str
    ended: str  # how the job's next attempt ended
    right: bool | None  # the diagnosis, by what was found afterwards; None: nobody said


@dataclass
class Trial:
    """What came out, over `looked` verdicts of the days. `cut` is the time before which nothing was looked at."""

    days: int
    looked: int = 0
    rows: list[Row] = field(default_factory=list)
    why_not: dict[str, int] = field(default_factory=dict)
    cut: datetime | None = None

    @property
    def acted(self) -> list[Row]:
        """The attempts on which it would have acted."""
        return [row for row in self.rows if not row.held_up]

    @property
    def figures(self) -> dict[str, int]:
        """The counts that a decision rests on."""
        acted = self.acted
        return {
            "looked": self.looked,
            "matched": len(self.rows),
            "acted": len(acted),
            "held_up": len(self.rows) - len(acted),
            "nodes": sum(len(row.nodes) for row in acted),
            "right": sum(row.right is True for row in acted),
            "wrong": sum(row.right is False for row in acted),
            "unknown": sum(row.right is None for row in acted),
            "done_by_people": sum("approved" in row.done for row in acted),
            "rejected_by_people": sum("rejected" in row.done for row in acted),
        }


def run(body: Mapping[str, Any], *, days: int = DAYS, cluster: str = "") -> Trial:
    """Try a policy's body on the last days. Raises InputError that names the field where the body is none."""
    rule = record.checked(body)
    days = max(1, min(days, MOST_DAYS))
    now, began = timezone.now(), time.monotonic()
    trial = Trial(days)
    matched: list[tuple[Verdict, Any]] = []
    verdicts = _verdicts(rule, now - timedelta(days=days), cluster)
    for verdict in verdicts[: MOST + 1]:
        if trial.looked >= MOST or time.monotonic() - began > SECONDS:
            trial.cut = verdict.happened_at
            break
        trial.looked += 1
        case = case_of(verdict, verdict.attempt)
        fits, why = matches(rule, case)
        if fits:
            matched.append((verdict, case))
        else:
            trial.why_not[why] = trial.why_not.get(why, 0) + 1
    known = _known([verdict.attempt_id for verdict, _ in matched])
    guard = _Guard(rule)
    # The guards need what was done before, so they go from the oldest on.
    for verdict, case in reversed(matched):
        trial.rows.insert(0, _row(verdict, case, guard.why_not(verdict, case), known))
    return trial


def _verdicts(rule: Rule, since: datetime, cluster: str) -> Any:
    """The standing verdicts that can match at all, newest first."""
    wanted = own("attempt") & Q(happened_at__gte=since) & ~Q(domain=Domain.NO_FAILURE.value)
    if rule.match.domains:
        wanted &= Q(domain__in=[domain.value for domain in rule.match.domains])
    if cluster:
        wanted &= Q(attempt__cluster__name=cluster)
    return (
        Verdict.objects.current()
        .filter(wanted)
        .select_related("attempt__cluster", "attempt__workload")
        .defer("body_json", "attempt__body")
        .order_by("-happened_at", "id")
    )


class _Guard:
    """The guards over what the policy would have done until then."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.caps = rule, bounded(rule.caps)
        self.took: list[tuple[str, Took]] = []
        self.away: list[tuple[str, Away]] = []
        self.incidents = list(Incident.objects.select_related("cluster"))
        self.topologies: dict[UUID, Topology] = {}

    def why_not(self, verdict: Verdict, case: Any) -> str:
        """Why the guards would not have let it act; "": it acts, and that counts from then on."""
        attempt, at, cluster = verdict.attempt, verdict.happened_at, case.cluster
        workload = standing.workload_key(attempt)
        plan = sketch(
            self.rule,
            now=at,
            cluster=cluster,
            workload=workload,
            job_id=attempt.job_id,
            job_nodes=attempt.nodes.count(),
            nodes=case.nodes,
            domain=case.domain.value,
            strength=verdict.strength,
            symptom=case.symptom,
            partition=attempt.partition,
        )
        lasts = timedelta(hours=self.rule.exclusion_hours)
        self.away = [(where, one) for where, one in self.away if one.since > at - lasts]
        away = [one for where, one in self.away if where == cluster]
        if attempt.cluster_id not in self.topologies:
            self.topologies[attempt.cluster_id] = of_cluster(attempt.cluster_id)
        topology = self.topologies[attempt.cluster_id]
        facts = Facts(
            now=at,
            verdict_current=True,
            verdict_sha256="",
            failed_at=at,
            away=away,
            took=[one for where, one in self.took if where == cluster and one.at > at - timedelta(days=1)],
            elements=self._elements(attempt, topology, plan.nodes, away),
            shared=list(self._shared(cluster, at, plan.nodes)),
        )
        refused = guards.check(plan, facts, self.caps)
        if refused:
            return guards.in_words(refused)
        self.took.append((cluster, Took(at=at, workload=workload, nodes=plan.nodes)))
        self.away += [(cluster, Away(node=node, workload=workload, since=at)) for node in plan.nodes]
        return ""

    def _elements(
        self, attempt: Attempt, topology: Topology, nodes: Sequence[str], away: Sequence[Away]
    ) -> list[Element]:
        if not nodes:
            return []
        return surroundings(attempt, nodes, topology).elements(nodes, {one.node for one in away})

    def _shared(self, cluster: str, at: datetime, nodes: Iterable[str]) -> Iterable[Shared]:
        for incident in self.incidents:
            stood = incident.opened_at <= at and (incident.closed_at is None or incident.closed_at > at)
            if stood and incident.cluster.name == cluster and set(incident.nodes) & set(nodes):
                yield Shared(element=incident.element, name=incident.value)


@dataclass(frozen=True)
class _Known:
    """What is known of some attempts: what was proposed and decided, and what people said of the verdict."""

    proposals: Mapping[UUID, list[Proposal]]
    reviews: Mapping[UUID, list[str]]


def _known(attempts: Sequence[UUID]) -> _Known:
    proposals: dict[UUID, list[Proposal]] = {}
    standing_labels = Prefetch("labels", Case.objects.filter(replaced_at__isnull=True), to_attr="standing")
    rows = Proposal.objects.filter(attempt__in=attempts).prefetch_related("decisions__by", standing_labels)
    for row in rows.defer("plan", "plan_json").order_by("created_at"):
        proposals.setdefault(row.attempt_id, []).append(row)
    reviews: dict[UUID, list[str]] = {}
    said = Review.objects.filter(verdict__attempt__in=attempts, verdict__is_current=True, replaced_at__isnull=True)
    for attempt, label in said.values_list("verdict__attempt", "label"):
        reviews.setdefault(attempt, []).append(label)
    return _Known(proposals, reviews)


def _row(verdict: Verdict, case: Any, held_up: str, known: _Known) -> Row:
    attempt = verdict.attempt
    proposals = known.proposals.get(attempt.pk, [])
    return Row(
        attempt=attempt.pk,
        job=str(attempt),
        workload=attempt.workload.name if attempt.workload else "",
        cluster=case.cluster,
        at=verdict.happened_at,
        domain=verdict.domain,
        symptom=case.symptom,
        strength=verdict.strength,
        nodes=list(case.nodes),
        held_up=held_up,
        done=_done(proposals),
        outcome=next((one.outcome for one in reversed(proposals) if one.outcome), ""),
        ended=_ended(attempt),
        right=_right(proposals, known.reviews.get(attempt.pk, [])),
    )


def _done(proposals: Sequence[Proposal]) -> str:
    """What was proposed then and what became of it, the last words first."""
    said = []
    for one in reversed(proposals):
        words = [f"{d.kind}d by {d.by}" for d in one.decisions.all() if d.kind == DecisionKind.APPROVE.value]
        words += [f"rejected by {d.by}" for d in one.decisions.all() if d.kind == DecisionKind.REJECT.value]
        said.append(f"{one.action.replace('_', ' ')}: {', '.join(words) or one.state}")
    return "; ".join(said[:3])


def _ended(attempt: Attempt) -> str:
    """How the workload's next attempt ended, as the scheduler says; "" where there was none."""
    after = successors.successor(attempt)
    return (after.state or "is going on") if after is not None else ""


def _right(proposals: Sequence[Proposal], reviews: Sequence[str]) -> bool | None:
    """By labels of what was found afterwards; where there is none, by reviews of the verdict, if they agree."""
    labels = [label.label for one in proposals for label in one.standing]  # type: ignore[attr-defined]
    if labels:
        return all(label == CaseLabel.RIGHT.value for label in labels)
    decided = {label for label in reviews if label != Label.UNDECIDABLE.value}
    return decided == {Label.RIGHT.value} if len(decided) == 1 else None
