"""Which nodes share what, as far as the site's rules and recent attempts tell."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from rules.attempt import TOPOLOGY_KINDS
from verdicts import conclude
from verdicts.models import Attempt

#: So many of a cluster's latest attempts are asked what they know of it.
RECENT = 500

#: kind → element → nodes.
Topology = dict[str, dict[str, set[str]]]


def of_cluster(cluster_id: UUID, *more: Mapping[str, Mapping[str, Iterable[str]]]) -> Topology:
    """Every known element with its nodes: an attempt tells of its own nodes alone, so many are put together.

    What is known this way is never more than there is, so that shares reckoned from it are on the safe side.
    """
    found: Topology = {}
    site = conclude.current_ruleset().site.topology
    recent = (
        Attempt.objects.filter(cluster=cluster_id, body__has_key="topology")
        .order_by("-created_at")
        .values_list("body__topology", flat=True)[:RECENT]
    )
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
