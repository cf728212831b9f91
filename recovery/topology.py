"""Which nodes share what, as far as the site's rules and recent attempts tell."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.db.models import F, QuerySet

from rules.attempt import TOPOLOGY_KINDS
from verdicts import conclude
from verdicts.models import Attempt
from verdicts.own import own

#: So many of a cluster's latest attempts are asked what they know of it, among so many latest ones of all clusters.
RECENT, LATEST = 500, 20_000

#: kind → element → nodes.
Topology = dict[str, dict[str, set[str]]]


def recent_attempts(cluster_id: UUID) -> QuerySet[Attempt]:
    """A cluster's latest attempts, those that go on first: read from an index, however many there are in all."""
    order = F("ended_at").desc(nulls_first=True)
    latest = Attempt.objects.order_by(order, "created_at").values("pk")[:LATEST]
    return Attempt.objects.filter(own(), cluster=cluster_id, pk__in=latest).order_by(order, "created_at")


def of_cluster(cluster_id: UUID, *more: Mapping[str, Mapping[str, Iterable[str]]]) -> Topology:
    """Every known element with its nodes: an attempt tells of its own nodes alone, so many are put together.

    What is known this way is never more than there is, so that shares reckoned from it are on the safe side.
    """
    found: Topology = {}
    site = conclude.current_ruleset().site.topology
    told_of = recent_attempts(cluster_id).filter(body__has_key="topology")
    recent = told_of.values_list("body__topology", flat=True)[:RECENT]
    for told in (site, *recent, *more):
        for kind, elements in told.items():
            if kind in TOPOLOGY_KINDS:
                for name, nodes in elements.items():
                    found.setdefault(kind, {}).setdefault(name, set()).update(nodes)
    return found


def elements_of(topology: Topology, nodes: Iterable[str]) -> set[tuple[str, str]]:
    """The elements, as kind and name, that any of the nodes belongs to."""
    asked = set(nodes)
    return {
        (kind, name)
        for kind, elements in topology.items()
        for name, members in elements.items()
        if not asked.isdisjoint(members)
    }
