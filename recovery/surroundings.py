"""What is around the nodes that a plan takes: their cluster, partitions, racks and switches, and how many each has.

Recovery's own decisions change nothing of it, so it is read before a cluster is held for deciding.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Q
from django.utils import timezone

from recovery.facts import Element
from recovery.models import ActuatorState
from recovery.topology import Topology, of_cluster, recent_attempts
from verdicts.models import Attempt, Node

#: So many of a cluster's latest attempts say which nodes a partition has.
RECENT_ATTEMPTS = 1_000
#: So long what a scheduler told of its partitions is taken for how they are; it is asked every minute.
TOLD_LATELY = timedelta(minutes=15)


@dataclass(frozen=True)
class Surroundings:
    """A cluster as far as it matters to some of its nodes.

    `size` counts its nodes, `known` are those asked for that it has. A partition has its nodes, and whether these are
    all of them. No job can start on a node that is `down`.
    """

    cluster: str
    topology: Topology
    size: int
    known: frozenset[str]
    partitions: dict[str, tuple[set[str], bool]]
    down: frozenset[str]

    def elements(self, nodes: Iterable[str], away: set[str]) -> list[Element]:
        """The cluster, the partitions, racks and switches that the nodes are in, with what is away of each."""
        mine = set(nodes)
        found = [
            Element(
                kind="cluster",
                name=self.cluster,
                of=self.size,
                away=frozenset(away),
                taken=self.known & mine,
            )
        ]
        places: list[tuple[str, str, set[str], bool]] = [
            ("partition", part, members, exact) for part, (members, exact) in self.partitions.items()
        ]
        places += [
            (kind, element, members, False)
            for kind in ("rack", "switch")
            for element, members in self.topology.get(kind, {}).items()
            if mine & members
        ]
        for kind, element, members, exact in places:
            # A node that is away has run nothing lately, so it may be missing among those that recent attempts name.
            found.append(
                Element(
                    kind=kind,
                    name=element,
                    of=len(members) if members else None,
                    away=frozenset(away & members),
                    taken=frozenset(mine & members),
                    down=self.down & members,
                    exact=exact,
                )
            )
        return found


def surroundings(attempt: Attempt, nodes: Iterable[str], topology: Topology | None = None) -> Surroundings:
    """What is around the nodes that a plan for the attempt may take. The topology is read unless it is given."""
    counted = (
        Node.objects.own()
        .filter(cluster=attempt.cluster_id)
        .aggregate(size=Count("pk"), known=ArrayAgg("name", filter=Q(name__in=set(nodes))))
    )
    state = _told_lately(attempt)
    return Surroundings(
        cluster=attempt.cluster.name,
        topology=topology_for(attempt) if topology is None else topology,
        size=counted["size"],
        known=frozenset(counted["known"] or ()),
        partitions=_partitions(attempt, state),
        down=frozenset(state.down) if state is not None else frozenset(),
    )


def topology_for(attempt: Attempt) -> Topology:
    """What the nodes of the attempt's cluster share, as far as it is known."""
    return of_cluster(attempt.cluster_id, attempt.body.get("topology") or {})


def _partitions(attempt: Attempt, state: ActuatorState | None) -> dict[str, tuple[set[str], bool]]:
    """The nodes of each partition that the job was sent to, and whether these are all of them.

    They are where the dispatcher asked the scheduler lately; else they are those that recent attempts name.
    """
    found: dict[str, tuple[set[str], bool]] = {}
    parts = {part for part in attempt.partition.split(",") if part}
    lists = state.partitions if state is not None else {}
    told = {part: nodes for part in parts if (nodes := set(lists.get(part, "").split(",")) - {""})}
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


def _told_lately(attempt: Attempt) -> ActuatorState | None:
    """What the scheduler told lately of its nodes; what was told long ago may have changed since."""
    state: ActuatorState | None = getattr(attempt.cluster, "actuator", None)
    if state is None or state.partitions_at is None or state.partitions_at < timezone.now() - TOLD_LATELY:
        return None
    return state
