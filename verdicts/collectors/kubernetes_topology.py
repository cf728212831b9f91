"""Which switch, rack or other element each node belongs to, by labels that the site, or its cloud, puts on nodes."""

import msgspec

from rules.attempt import Attempt
from verdicts.collectors.ask import SourceError
from verdicts.collectors.kubernetes_client import Connection
from verdicts.collectors.kubernetes_facts import State
from verdicts.collectors.kubernetes_logs import LIST_NODES
from verdicts.collectors.kubernetes_objects import Node
from verdicts.collectors.kubernetes_pods import one_line

#: Labels of nodes seldom change.
PLACES_SECONDS = 600


def learn_places(connection: Connection, state: State, labels: dict[str, str], now: int) -> list[str]:
    """Bring the places of nodes in `state` up to date, seldom, or when there is news of runs. What stood in the way.

    `labels` are kinds of elements with the label of nodes that names the element.
    """
    if not labels or not state.news or now - state.places_at < PLACES_SECONDS:
        return []
    places: dict[str, dict[str, str]] = {}
    try:
        for page in connection.pages("api/v1/nodes", right=LIST_NODES, names_only=True):
            for raw in page.items or []:
                node = msgspec.json.decode(raw, type=Node).metadata
                found = {kind: one_line(node.label(label), 200) for kind, label in labels.items()}
                if found := {kind: element for kind, element in found.items() if element}:
                    places[node.name] = found
    except (SourceError, msgspec.DecodeError) as error:
        return [f"topology: nodes: {error}"]
    state.places, state.places_at = places, now
    return []


def placed(attempt: Attempt, state: State) -> Attempt:
    """The attempt with the elements that its nodes belong to."""
    topology: dict[str, dict[str, list[str]]] = {}
    for node in attempt.nodes:
        for kind, element in sorted(state.places.get(node, {}).items()):
            topology.setdefault(kind, {}).setdefault(element, []).append(node)
    return msgspec.structs.replace(attempt, topology=topology) if topology else attempt
