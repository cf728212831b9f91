"""Reads of policies: what counts as their record, and what is wanting for more."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.contrib.auth.models import User
from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet
from django.utils import timezone

from recovery import permissions
from recovery.models import Case, Policy, PolicyVersion, Promotion, Proposal, Scope
from recovery.policies import meter
from recovery.policies.diff import tightened
from recovery.policies.meter import DUE, SAME_CAUSE, Labelled, Reading
from recovery.policy import BLAMED_WITHIN, Rule
from recovery.words import CaseLabel, PolicyMode
from verdicts import conclude
from verdicts.models import Verdict
from verdicts.own import own

#: `automatic` may be asked for again so long before it expires.
RENEW = timedelta(days=14)
NEXT = {PolicyMode.OBSERVE: PolicyMode.ADVISORY, PolicyMode.ADVISORY: PolicyMode.AUTOMATIC}


def policies() -> QuerySet[Policy]:
    """All policies with their versions and scopes, those in force first."""
    versions = PolicyVersion.objects.select_related("author").order_by("-number")
    return Policy.objects.prefetch_related(Prefetch("versions", versions), "scopes").order_by("retired_at", "name")


def rule_of(version: PolicyVersion) -> Rule:
    """What a version says."""
    return msgspec.convert(version.body, Rule)


def present(policy: Policy) -> PolicyVersion:
    """The version in force: the last one."""
    return max(policy.versions.all(), key=lambda version: version.number)


def line(policy: Policy) -> list[PolicyVersion]:
    """The versions whose record speaks for the present one, newest first: back to a change of more than its caps."""
    versions = sorted(policy.versions.all(), key=lambda version: -version.number)
    counted = versions[:1]
    for older in versions[1:]:
        if not tightened(older.body, counted[-1].body):
            break
        counted.append(older)
    return counted


def cases_of(scope: Scope, *, found_wrong: bool = False) -> list[Labelled]:
    """The cases of one scope."""
    return cases_by_scope([scope], found_wrong=found_wrong)[scope.pk]


def cases_by_scope(scopes: Sequence[Scope], *, found_wrong: bool = False) -> dict[UUID, list[Labelled]]:
    """The cases of scopes under the present versions: those for which a label was drawn when they were proposed.

    With `found_wrong` also those that nobody had to label, and somebody found wrong: never for promotion, where they
    would depend on what people looked at, and always for demotion.
    """
    standing = Case.objects.filter(replaced_at__isnull=True)
    drawn = Q(must_label=True)
    if found_wrong:
        drawn |= Q(Exists(standing.filter(proposal=OuterRef("pk"), label=CaseLabel.WRONG.value)))
    # A version is of one policy, as a scope is: the versions of all of them are those of each.
    versions = {version.pk for scope in scopes for version in line(scope.policy)}
    proposals = (
        Proposal.objects.filter(drawn, scope__in=[scope.pk for scope in scopes], version__in=versions)
        .only("id", "created_at", "cause", "nodes", "incident_id", "attempt__workload_id", "injected", "scope_id")
        .select_related("attempt")
        .prefetch_related(Prefetch("labels", standing, to_attr="standing"))
        .order_by("created_at", "id")
    )
    found: dict[UUID, list[Proposal]] = {scope.pk: [] for scope in scopes}
    for proposal in proposals:
        assert proposal.scope_id is not None  # by the filter
        found[proposal.scope_id].append(proposal)
    return {scope: list(labelled(rows)) for scope, rows in found.items()}


def labelled(proposals: Iterable[Proposal]) -> Iterable[Labelled]:
    """Proposals, oldest first, as cases for the meter. Each needs `standing`, its labels that stand."""
    seen: dict[tuple[str, ...], tuple[str, datetime]] = {}
    for proposal in proposals:
        keys = _shared(proposal)
        known = [seen[key] for key in keys if key in seen]
        near = [incident for incident, at in known if proposal.created_at - at <= SAME_CAUSE]
        incident = near[0] if near else str(proposal.pk)
        for key in keys:
            seen[key] = (incident, proposal.created_at)
        label: Case | None = next(iter(proposal.standing), None)  # type: ignore[attr-defined]
        yield Labelled(
            key=str(proposal.pk),
            incident=incident,
            at=proposal.created_at,
            due=proposal.created_at + DUE,
            right=None if label is None else label.label == CaseLabel.RIGHT.value,
            known_at=label.at if label else None,
            injected=proposal.injected,
        )


def _shared(proposal: Proposal) -> list[tuple[str, ...]]:
    """What makes two cases one: their incident, a node, or the same cause of the same workload."""
    keys: list[tuple[str, ...]] = [("node", node) for node in proposal.nodes]
    if proposal.incident_id:
        keys.insert(0, ("incident", str(proposal.incident_id)))
    workload = proposal.attempt.workload_id or proposal.attempt_id
    keys.append(("cause", proposal.cause, str(workload)))
    return keys


def reading_of(scope: Scope, now: datetime | None = None) -> Reading:
    """The meter of a scope."""
    return meter.read(cases_of(scope), now=now or timezone.now())


def ruleset_of(scope: Scope) -> str:
    """The digest of the ruleset that concludes for this class now: its newest verdict's, else this process's."""
    newest = (
        Verdict.objects.filter(
            own("attempt"), attempt__cluster__name=scope.cluster, domain=scope.domain, is_current=True
        )
        .order_by("-created_at")
        .values_list("ruleset__digest", flat=True)
        .first()
    )
    return newest or conclude.current_ruleset().digest


def authors(policy: Policy) -> set[int]:
    """Who wrote what is in force: the authors of the versions whose record counts."""
    return {version.author_id for version in line(policy) if version.author_id}


@dataclass(frozen=True)
class Step:
    """A change of mode that may be asked for, and what stands in its way for one person; nothing: they may."""

    to: PolicyMode
    wanting: list[str]


def step_up(scope: Scope, reading: Reading, by: User, now: datetime | None = None) -> Step | None:
    """The next step of a scope, with all that is wanting; None where there is none."""
    now = now or timezone.now()
    mode = PolicyMode(scope.mode)
    renewal = mode is PolicyMode.AUTOMATIC and scope.mode_until is not None and scope.mode_until - RENEW <= now
    to = PolicyMode.AUTOMATIC if renewal else NEXT.get(mode)
    if to is None:
        return None
    wanting = _permission_wanting(by)
    if scope.policy.retired_at:
        wanting.append("The policy is retired.")
    if to is PolicyMode.AUTOMATIC:
        wanting += record_wanting(reading)
    if asked := open_promotion(scope):
        wanting.append(f"{asked.asked_by} has asked for it already: a second person is wanted.")
    return Step(to, wanting)


def record_wanting(reading: Reading) -> list[str]:
    """What is wanting in the record before a policy may act by itself."""
    if reading.promotable:
        return []
    time = ""
    if reading.days_to_go is not None:
        time = f", about {reading.days_to_go:.0f} days at today's rate of {reading.a_day:.1f} a day"
    have = f"The record is not enough: {reading.wealth:.2f} of {meter.ENOUGH:.0f}"
    what = "1 right incident is" if reading.needed == 1 else f"{reading.needed} right incidents in a row are"
    return [f"{have}; {what} wanting{time}."]


def second_wanting(promotion: Promotion, by: User) -> list[str]:
    """Why this person cannot be the second; nothing: they can."""
    wanting = _permission_wanting(by)
    if promotion.asked_by_id == by.pk:
        wanting.append("You asked for it: somebody else has to agree.")
    wrote = authors(promotion.scope.policy)
    if promotion.asked_by_id != by.pk and {promotion.asked_by_id, by.pk} <= wrote:
        wanting.append("You and who asked both wrote the policy: one of the two must not have.")
    return wanting


def _permission_wanting(by: User) -> list[str]:
    return [] if by.has_perm(permissions.PROMOTE) else ["Promoting needs the role lead or policy admin."]


def with_promotions() -> Prefetch[Any]:
    """What `open_promotion` asks of each of several scopes, newest first."""
    return Prefetch("promotions", Promotion.objects.select_related("asked_by", "seconded_by", "version"))


def open_promotion(scope: Scope) -> Promotion | None:
    """The promotion of a scope that waits for a second person."""
    return next((one for one in scope.promotions.all() if one.ended_at is None), None)


def scope_row(scope_id: UUID) -> Scope:
    """A scope with its policy. Raises Scope.DoesNotExist."""
    return Scope.objects.select_related("policy").prefetch_related("policy__versions").get(pk=scope_id)


def blamed_before(verdict: Verdict) -> int:
    """How many other attempts of the last days were blamed on each of a verdict's nodes, at least."""
    since = verdict.happened_at - BLAMED_WITHIN
    others = (
        Verdict.objects.filter(own("attempt"), is_current=True, domain=verdict.domain)
        .filter(happened_at__range=(since, verdict.happened_at))
        .exclude(attempt=verdict.attempt_id)
        .values("nodes")
        .annotate(attempts=Count("attempt", distinct=True))
        .filter(nodes__in=verdict.nodes.values("pk"))
        .values_list("nodes", "attempts")
    )
    found = dict(others)
    if not found:
        return 0
    return min((found.get(node, 0) for node in verdict.nodes.values_list("pk", flat=True)), default=0)


def snapshot(reading: Reading) -> dict[str, Any]:
    """A reading as plain data, for the promotion's row and the ledger."""
    return msgspec.to_builtins(reading)
