"""Do many faults have one cause? Pure: who was blamed for what, who belongs to what, and what chance would do.

One switch, rack, power feed, image, driver or maintenance window can make many nodes look bad at once. Leaving them out
then helps nobody and takes capacity from everybody.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from math import comb

import msgspec

#: Faults within this time are looked at together. After so long without another one of it, an incident closes.
WINDOW, QUIET = timedelta(hours=1), timedelta(hours=6)
#: So many nodes of one element, with faults of one domain, are asked whether chance would put them there.
LEAST_NODES = 3
#: A gathering that chance makes more often than this is none.
CHANCE = 0.01
#: So many nodes with the same symptom in the window have something in common, known or not.
FLOOD = 5
#: The element of an incident of which nobody knows what its nodes share.
UNKNOWN = "cluster"
#: What is more precise comes first, where two elements explain the same nodes.
ORDER = ("switch", "rail", "rack", "power", "maintenance", "image", "driver", UNKNOWN)


class Blamed(msgspec.Struct, frozen=True, kw_only=True):
    """A node that a verdict holds at fault; `tags` are what its job ran with: "image", "driver"."""

    node: str
    domain: str
    symptom: str
    tags: tuple[tuple[str, str], ...] = ()


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An element that the faults share. `nodes` are the blamed ones, `of` how many it is known to have."""

    element: str
    name: str
    symptom: str
    nodes: tuple[str, ...]
    of: int | None
    said: str


Groups = Mapping[tuple[str, str], frozenset[str]]


def find(blamed: Sequence[Blamed], groups: Groups, everybody: frozenset[str]) -> list[Found]:
    """What the blamed nodes share that the others do not. `groups` are elements (kind, name) with their nodes."""
    found: list[Found] = []
    by_domain: dict[str, set[str]] = {}
    for one in blamed:
        by_domain.setdefault(one.domain, set()).add(one.node)
    for domain, nodes in sorted(by_domain.items()):
        found += _gathered(nodes, domain, blamed, groups, everybody)
    explained = {node for one in found for node in one.nodes}
    by_symptom: dict[str, list[Blamed]] = {}
    for one in blamed:
        if one.node not in explained:
            by_symptom.setdefault(one.symptom, []).append(one)
    for symptom, ones in sorted(by_symptom.items()):
        if len({one.node for one in ones}) >= FLOOD:
            found.append(_flood(symptom, ones, groups))
    return found


def chance(inside: int, members: int, drawn: int, everybody: int) -> float:
    """How probable it is that of `drawn` nodes at least `inside` are among the `members` of an element, by chance."""
    if inside > members or drawn > everybody or members > everybody:
        return 1.0
    most = min(members, drawn)
    ways = sum(comb(members, hit) * comb(everybody - members, drawn - hit) for hit in range(inside, most + 1))
    return ways / comb(everybody, drawn)


def _gathered(
    nodes: set[str], domain: str, blamed: Sequence[Blamed], groups: Groups, everybody: frozenset[str]
) -> Iterable[Found]:
    """Elements in which faults of a domain gather more than chance explains, the one with most of them first."""
    left = set(nodes)
    while len(left) >= LEAST_NODES:
        ranked = []
        for (kind, name), members in groups.items():
            inside = left & members
            # Most of them must be in it: a fault of an element does not show at many places outside.
            if len(inside) < LEAST_NODES or 2 * len(inside) < len(left):
                continue
            known = len(everybody | members | left)
            if chance(len(inside), len(members | inside), len(left), known) <= CHANCE:
                ranked.append((-len(inside), len(members), _rank(kind), name, kind, inside))
        if not ranked:
            return
        _, of, _, name, kind, inside = min(ranked)
        yield _said(kind, name, _symptom(inside, domain, blamed), inside, of)
        left -= inside


def _flood(symptom: str, ones: Sequence[Blamed], groups: Groups) -> Found:
    """The smallest element that has all of them, by its nodes or by what their jobs ran with; else the cluster."""
    nodes = {one.node for one in ones}
    ranked = [(len(members), _rank(kind), name, kind) for (kind, name), members in groups.items() if nodes <= members]
    tags = set.intersection(*({tag for one in ones if one.node == node for tag in one.tags} for node in nodes))
    ranked += [(len(nodes), _rank(kind), name, kind) for kind, name in tags]
    if not ranked:
        return _said(UNKNOWN, symptom, symptom, nodes, None)
    of, _, name, kind = min(ranked)
    return _said(kind, name, symptom, nodes, of)


def _said(kind: str, name: str, symptom: str, nodes: set[str], of: int | None) -> Found:
    if kind == UNKNOWN:
        said = f"{len(nodes)} nodes of the cluster show {symptom} within a short time; what they share is not known."
    else:
        total = f" of {of}" if of and of > len(nodes) else ""
        said = f"{len(nodes)}{total} nodes of {kind} {name} show {symptom} within a short time."
    return Found(element=kind, name=name, symptom=symptom, nodes=tuple(sorted(nodes)), of=of, said=said)


def _symptom(nodes: set[str], domain: str, blamed: Sequence[Blamed]) -> str:
    """The symptom that most of the nodes show; the first by name where several do."""
    counted: dict[str, int] = {}
    for one in blamed:
        if one.domain == domain and one.node in nodes:
            counted[one.symptom] = counted.get(one.symptom, 0) + 1
    return min(counted, key=lambda name: (-counted[name], name))


def _rank(kind: str) -> int:
    return ORDER.index(kind) if kind in ORDER else len(ORDER)
