"""Shared-cause incidents: opened when many faults have one cause, closed by people or when it is quiet again.

While one is open, the nodes that it is about are not taken away (a guard), and what was proposed is taken back.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from recovery import permissions
from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Exclusion, Incident, Proposal
from recovery.moves import held, hold_cluster, move
from recovery.policy import NODE_DOMAINS
from recovery.relief import propose_relief
from recovery.shared_cause import LEAST_NODES, QUIET, UNKNOWN, WINDOW, Blamed, Found, find
from recovery.topology import of_cluster, recent_attempts
from recovery.words import EXCLUDING, EntryKind, ExclusionState, ProposalState
from rules.attempt import InputError
from rules.words import Domain
from verdicts.models import Attempt, Node, Verdict
from verdicts.own import own
from verdicts.record import NotPermitted
from verdicts.storable import storable_text

#: Verdicts that came together are looked at together, if what they are about is not older than this.
HAPPENED = timedelta(hours=3)
#: No more verdicts than this are looked at; the latest come first.
MOST = 5_000
#: So many of a cluster's latest attempts say which nodes ran which image.
RECENT = 1_000
MAX_TEXT = 4000
#: Faults that can show on many nodes for one cause.
SHARED_DOMAINS = NODE_DOMAINS | {Domain.CONTAINER_IMAGE, Domain.FACILITY, Domain.MAINTENANCE}
_WAITING = (ProposalState.OPEN.value, ProposalState.APPROVED.value)
_EXCLUDING = [kind.value for kind in EXCLUDING]


def look(cluster_id: UUID, *, now: datetime | None = None) -> list[Incident]:
    """Look whether the latest verdicts of a cluster have causes in common, and open or widen incidents for them."""
    now = now or timezone.now()
    blamed, direct = _blamed(cluster_id, now)
    if not direct and len({one.node for one in blamed}) < LEAST_NODES:
        return []
    groups = {
        (kind, name): frozenset(nodes)
        for kind, elements in of_cluster(cluster_id).items()
        for name, nodes in elements.items()
    }
    groups |= {("image", image): frozenset(nodes) for image, nodes in _images(cluster_id).items()}
    everybody = frozenset(Node.objects.own().filter(cluster=cluster_id).values_list("name", flat=True))
    found = [*direct, *find(blamed, groups, everybody)]
    return [incident for one in found if (incident := open_or_widen(cluster_id, one)) is not None]


@transaction.atomic
def open_or_widen(cluster_id: UUID, found: Found) -> Incident | None:
    """Open an incident, or add nodes to the open one about the same; None where nothing is new.

    Proposals to take its nodes away are taken back, and exclusions that were made for it are offered to be lifted.
    """
    cluster = hold_cluster(cluster_id)
    open_ones = Incident.objects.select_for_update(of=("self",)).filter(cluster=cluster, closed_at=None)
    incident = open_ones.filter(element=found.element, value=found.name).first()
    # What was first seen as a flood without a name, or in another element, is the same when it has the same nodes.
    same = [
        one
        for one in open_ones.filter(symptom=found.symptom)
        if 2 * len({*one.nodes} & {*found.nodes}) > len(one.nodes)
    ]
    incident = incident or next(iter(same), None)
    new = incident is None
    if incident is None:
        incident = Incident.objects.create(
            cluster=cluster,
            element=found.element,
            value=found.name[:1024],
            symptom=found.symptom,
            nodes=sorted(found.nodes),
            said=found.said,
        )
    else:
        # What they share was not known at first, or is known better now.
        named = incident.element == UNKNOWN and found.element != UNKNOWN
        if not named and set(found.nodes) <= set(incident.nodes):
            return None
        if named:
            incident.element, incident.value = found.element, found.name[:1024]
        incident.nodes = sorted({*incident.nodes, *found.nodes})
        incident.said = found.said
        incident.save(update_fields=["element", "value", "nodes", "said"])
    ledger.record(
        EntryKind.INCIDENT_OPENED,
        actor=Actor.system("incidents"),
        subject=incident,
        body={
            "element": incident.element,
            "value": incident.value,
            "symptom": incident.symptom,
            "nodes": incident.nodes,
            "widened": not new,
            "said": incident.said,
        },
    )
    _take_back(incident)
    return incident


@transaction.atomic
def close(incident_id: UUID, *, by: User, reason: str) -> Incident:
    """Close an incident, with a reason: its nodes can be taken away again. Raises NotPermitted, InputError."""
    if not by.has_perm(permissions.DECIDE):
        raise NotPermitted("Closing an incident needs the role operator, lead or administrator.")
    reason = storable_text(reason).strip()
    if not reason or len(reason) > MAX_TEXT:
        raise InputError(f"reason: say why, in 1 to {MAX_TEXT} characters")
    incident = Incident.objects.select_for_update(of=("self",)).get(pk=incident_id)
    if incident.closed_at is None:
        _close(incident, Actor.user(by), reason, by_person=True)
    return incident


def sweep() -> int:
    """Close incidents that nothing was added to for long; says how many."""
    now, closed = timezone.now(), 0
    for pk in list(Incident.objects.filter(closed_at=None, opened_at__lt=now - QUIET).values_list("pk", flat=True)):
        with transaction.atomic():
            incident = Incident.objects.select_for_update(of=("self",)).get(pk=pk)
            last = Verdict.objects.filter(
                own("attempt"),
                attempt__cluster=incident.cluster_id,
                nodes__name__in=incident.nodes,
                created_at__gt=now - QUIET,
                domain__in=[domain.value for domain in SHARED_DOMAINS],
            ).aggregate(last=Max("created_at"))["last"]
            if incident.closed_at is None and last is None:
                _close(incident, Actor.system("incidents"), f"nothing was added for {QUIET.seconds // 3600} h")
                closed += 1
    return closed


def _close(incident: Incident, actor: Actor, reason: str, *, by_person: bool = False) -> None:
    incident.closed_at = timezone.now()
    incident.save(update_fields=["closed_at"])
    ledger.record(
        EntryKind.INCIDENT_CLOSED,
        actor=actor,
        subject=incident,
        body={"element": incident.element, "value": incident.value} | ({} if by_person else {"why": reason}),
        erasable={"reason": reason} if by_person else None,
    )


def _take_back(incident: Incident) -> None:
    """Take back proposals to leave its nodes out, and offer to lift what was excluded for it lately."""
    nodes = set(incident.nodes)
    waiting = Proposal.objects.filter(
        attempt__cluster=incident.cluster_id, state__in=_WAITING, action__in=_EXCLUDING
    ).values_list("pk", "nodes")
    for pk in [pk for pk, named in waiting if nodes & set(named)]:
        proposal = held(pk)
        if proposal.state in _WAITING:
            Proposal.objects.filter(pk=pk).update(incident=incident)
            why = f"{incident.element} {incident.value} is a shared cause: leaving nodes out is no remedy"
            move(proposal, ProposalState.WITHDRAWN, actor=Actor.system("incidents"), why=why)
    made = Exclusion.objects.filter(
        cluster=incident.cluster_id,
        state=ExclusionState.STANDING.value,
        node__in=incident.nodes,
        made_at__gt=timezone.now() - HAPPENED,
    )
    for exclusion in made.select_related("cluster", "proposal", "attempt"):
        reason = f"its fault has a shared cause: {incident.element} {incident.value}"
        propose_relief(exclusion, state=ProposalState.OPEN, actor=Actor.system("incidents"), reason=reason)


def _blamed(cluster_id: UUID, now: datetime) -> tuple[list[Blamed], list[Found]]:
    """Whom the latest verdicts blame, and what verdicts found to be shared themselves."""
    rows = list(
        Verdict.objects.current()
        .filter(
            own("attempt"),
            attempt__cluster=cluster_id,
            created_at__gt=now - WINDOW,
            happened_at__gt=now - HAPPENED,
            domain__in=[domain.value for domain in SHARED_DOMAINS],
        )
        .order_by("-created_at")
        .values_list("pk", "domain", "attempt_id", "attempt__body__image", "body__shared_element", "body__causes")[
            :MOST
        ]
    )
    nodes = _pairs(
        Verdict.nodes.through.objects.filter(verdict__in=[row[0] for row in rows]).values_list(
            "verdict_id", "node__name"
        )
    )
    # An image's fault names no node: then all nodes of the attempt ran it.
    all_of = [attempt for _, domain, attempt, *_ in rows if domain == Domain.CONTAINER_IMAGE]
    ran = _pairs(Attempt.nodes.through.objects.filter(attempt__in=all_of).values_list("attempt_id", "node__name"))
    blamed: list[Blamed] = []
    direct: list[Found] = []
    for pk, domain, attempt, image, shared, causes in rows:
        symptom = causes[0]["symptom"] if causes else domain
        if shared:
            direct.append(_of_verdict(shared, symptom))
            continue
        here = nodes.get(pk) or ran.get(attempt, set())
        drivers = {cause["decoded"].get("driver", "") for cause in causes or []} - {""}
        tags = (*([("image", str(image))] if image else []), *(("driver", name) for name in sorted(drivers)))
        blamed += [Blamed(node=name, domain=domain, symptom=symptom, tags=tags) for name in sorted(here)]
    return blamed, direct


def _images(cluster_id: UUID) -> dict[str, set[str]]:
    """Which nodes ran which image lately, also where nothing failed: an image that all run is no explanation."""
    told = dict(recent_attempts(cluster_id).values_list("pk", "body__image")[:RECENT])
    ran = _pairs(
        Attempt.nodes.through.objects.filter(attempt__in=[pk for pk, image in told.items() if image]).values_list(
            "attempt_id", "node__name"
        )
    )
    images: dict[str, set[str]] = {}
    for pk, nodes in ran.items():
        images.setdefault(str(told[pk]), set()).update(nodes)
    return images


def _of_verdict(shared: dict[str, object], symptom: str) -> Found:
    nodes = tuple(str(node) for node in shared.get("nodes") or [])  # type: ignore[attr-defined]
    kind, name = str(shared["kind"]), str(shared["name"])
    said = f"The verdict finds that the affected nodes share {kind} {name}."
    return Found(element=kind, name=name, symptom=symptom, nodes=nodes, of=len(nodes), said=said)


def _pairs(rows: Iterable[tuple[UUID, str]]) -> dict[UUID, set[str]]:
    found: dict[UUID, set[str]] = {}
    for key, name in rows:
        found.setdefault(key, set()).add(name)
    return found
