"""Other verdicts and attempts that a reader of one wants beside it."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q

from rules.words import Domain
from verdicts.models import Attempt, ListRow
from verdicts.verdict_page.presentation import Body

MOST_SIBLINGS = 8
MOST_RELATED = 8
#: Rules and nodes by which others are looked for.
MOST_RULES, MOST_NODES = 5, 200


@dataclass(frozen=True, kw_only=True)
class Related:
    """A standing verdict of another attempt with the same cause, and what the two share."""

    row: ListRow
    shares: str


def siblings(attempt: Attempt) -> list[ListRow]:
    """Other attempts of the same workload as rows of the list, the latest first, with or without a verdict."""
    if attempt.workload is None:
        return []
    # Its names rather than its id: by them the list is indexed in the order that is wanted.
    rows = ListRow.objects.filter(
        is_current=True,
        workload=attempt.workload.name,
        account=attempt.workload.account,
        cluster=attempt.cluster.name,
    )
    return list(
        rows.exclude(attempt_id=attempt.pk)
        .select_related("attempt")
        .only("job_id", "domain", "strength", "origin", "attempt__restart_count", "attempt__ended_at")
        .order_by("-happened_at", "-id")[:MOST_SIBLINGS]
    )


def same_cause(attempt: Attempt, body: Body) -> list[Related]:
    """Standing verdicts of other attempts that blame the same rule on the same node, switch or image."""
    rules = list(dict.fromkeys(finding["rule"] for finding in body.get("causes") or ()))[:MOST_RULES]
    if not rules:
        return []
    nodes = _blamed(body)
    switches = _switches(attempt, body, nodes)
    mates = {name for members in switches.values() for name in members}
    image = _image(attempt, body)
    where = Q(nodes__overlap=sorted(nodes | mates)[:MOST_NODES]) if nodes or mates else Q()
    if image:
        where |= Q(attempt__body__image=image)
    if not where:
        return []
    rows = (
        ListRow.objects.filter(where, is_current=True, tags__overlap=[f"r:{rule}:cause" for rule in rules])
        .exclude(attempt_id=attempt.pk)
        .only("job_id", "workload", "happened_at", "nodes", "domain", "strength", "origin", "verdict_id")
        .order_by("-happened_at", "-id")[:MOST_RELATED]
    )
    return [Related(row=row, shares=_shares(row, nodes, switches, image)) for row in rows]


def _blamed(body: Body) -> set[str]:
    """The nodes that the verdict holds at fault, or where its causes are."""
    named = {node["name"] for node in body.get("affected_nodes") or ()}
    return named | {f["locus"]["node"] for f in body.get("causes") or () if (f.get("locus") or {}).get("node")}


def _switches(attempt: Attempt, body: Body, nodes: Iterable[str]) -> dict[str, list[str]]:
    """The switches that the verdict is about, with the nodes behind each: none for a fault of one node."""
    named = {str(f["locus"]["switch"]) for f in body.get("causes") or () if (f.get("locus") or {}).get("switch")}
    element = body.get("shared_element") or {}
    if element.get("kind") == "switch":
        named.add(str(element["name"]))
    known = (attempt.body.get("topology") or {}).get("switch") or {}
    if body.get("attributed_domain") == Domain.NETWORK_FABRIC:
        named |= {name for name, members in known.items() if set(members) & set(nodes)}
    return {name: list(known.get(name) or ()) for name in sorted(named)}


def _image(attempt: Attempt, body: Body) -> str:
    """The container image, where the verdict is about it."""
    element = body.get("shared_element") or {}
    about = body.get("attributed_domain") == Domain.CONTAINER_IMAGE or element.get("kind") == "image"
    return str(attempt.body.get("image") or "") if about else ""


def _shares(row: ListRow, nodes: set[str], switches: dict[str, list[str]], image: str) -> str:
    """What the other has in common, the nearest first."""
    if common := sorted(nodes & set(row.nodes)):
        return f"node {common[0]}" + (f" and {len(common) - 1} more" if len(common) > 1 else "")
    for name, members in switches.items():
        if set(members) & set(row.nodes):
            return f"switch {name}"
    return f"image {image}" if image else ""
