"""Finding what the affected nodes share and the other members do not: a switch, a rack, an image, a driver."""

from collections.abc import Sequence

from rules.attempt import TOPOLOGY_KINDS, natural
from rules.case import Case
from rules.events import Event
from rules.verdict import SharedElement
from rules.words import Domain

#: What a shared element of a kind makes of the verdict.
DOMAINS = {
    "switch": Domain.NETWORK_FABRIC,
    "rail": Domain.NETWORK_FABRIC,
    "rack": Domain.FACILITY,
    "power": Domain.FACILITY,
    "image": Domain.CONTAINER_IMAGE,
    "maintenance": Domain.MAINTENANCE,
    "driver": Domain.HOST_SOFTWARE,
}
#: Two nodes that share something may do so by chance; below this a shared element is no explanation.
MIN_NODES = 2


def element(case: Case, causes: Sequence[Event]) -> SharedElement | None:
    """The smallest element that all affected nodes share and some member of the attempt does not.

    Asked only where one kind of symptom shows on several nodes: different symptoms on two nodes of
    one rack are two faults, not a rack's.
    """
    nodes = {node for event in causes for node in event.nodes}
    symptoms = {event.rule.symptom for event in causes}
    if len(nodes) < MIN_NODES or len(symptoms) != 1 or any("job" in event.locus for event in causes):
        return None
    members = set(case.attempt.nodes)
    found = []
    for kind in TOPOLOGY_KINDS:
        for name, listed in case.topology.get(kind, {}).items():
            inside = set(listed) & members if members else set(listed)
            if nodes <= inside and members - inside and 2 * len(nodes) > len(inside):
                found.append((len(inside), TOPOLOGY_KINDS.index(kind), name, kind, inside))
    if not found:
        return None
    _, _, name, kind, inside = min(found)
    return SharedElement(kind=kind, name=name, nodes=sorted(inside, key=natural))
