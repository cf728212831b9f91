"""Kubernetes: attempts of Jobs, JobSets and training jobs with and without Kueue, the logs of pods, events and states.

Pods and where they ran are gone soon after a run: what is looked at in time is kept in the discovery's cursor.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec

from rules.attempt import TOPOLOGY_KINDS
from rules.words import Source
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.kubernetes_attempts import forget, told, unended
from verdicts.collectors.kubernetes_client import Api, Connection
from verdicts.collectors.kubernetes_events import collect_events, newest_event
from verdicts.collectors.kubernetes_facts import Reading, State
from verdicts.collectors.kubernetes_logs import collect_logs, known_nodes, newest_line
from verdicts.collectors.kubernetes_objects import JobId
from verdicts.collectors.kubernetes_topology import learn_places, placed
from verdicts.collectors.kubernetes_watch import look
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import DiscoverySettings, Found, Probe, SourceSettings

_SELECTOR = re.compile(r"[A-Za-z0-9._/!=,() -]{0,1000}")
_NAMESPACE = re.compile("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def _check(api: Api, namespaces: Sequence[str], selector: str = "") -> None:
    """What the types of the settings cannot say. Raises ValueError naming the key."""
    api.check()
    for namespace in namespaces:
        if not _NAMESPACE.fullmatch(namespace):
            raise ValueError(f"namespaces: {namespace[:80]!r} is not the name of a namespace")
    if not _SELECTOR.fullmatch(selector):
        raise ValueError("selector: is not a label selector such as team=llm,tier!=test")


class KubernetesDiscovery(DiscoverySettings, frozen=True, kw_only=True, tag="kubernetes"):
    """Attempts in a cluster: in `namespaces`, or all; of objects and pods that carry what `selector` says, or all.

    `user_label` and `account_label` name labels or annotations of a run; without, the account is the namespace.
    Runs that ended more than `history` seconds before the first look are left out. `topology` names, for each kind of
    element (rack, switch, …), the label of nodes that says which one a node belongs to.
    """

    api: Api = Api()
    namespaces: tuple[str, ...] = ()
    selector: str = ""
    user_label: str = ""
    account_label: str = ""
    topology: dict[str, str] = {}
    history: Annotated[float, msgspec.Meta(ge=0, le=30 * 86_400)] = 86_400.0

    def check(self) -> None:
        _check(self.api, self.namespaces, self.selector)
        for kind in self.topology:
            if kind not in TOPOLOGY_KINDS:
                raise ValueError(f"topology.{kind}: is none of {', '.join(TOPOLOGY_KINDS)}")

    def discover(self, cursor: dict[str, Any], now: datetime, budget: Budget) -> Found:
        state = _state(cursor)
        moment = int(now.timestamp())
        state.first = state.first or moment
        connection = Connection(self.api, budget)
        looked = look(
            connection,
            state,
            namespaces=self.namespaces,
            selector=self.selector,
            now=moment,
            reading=Reading(user_label=self.user_label, account_label=self.account_label),
        )
        notes = [*looked.notes, *learn_places(connection, state, self.topology, moment)]
        since = state.first - int(self.history)
        attempts = told(state, moment, since=since, pods_seen=looked.pods, kueue_seen=looked.kueue)
        attempts = [placed(attempt, state) for attempt in attempts]
        listed = unended(state) if looked.complete else None
        forget(state, moment, complete=looked.complete)
        return Found(attempts, msgspec.to_builtins(state), listed, tuple(notes))


def _state(cursor: dict[str, Any]) -> State:
    """The cursor; of another version than this one's only what can be had again is lost."""
    try:
        return msgspec.convert(cursor, State)
    except msgspec.ValidationError:
        return State()


class PodLogs(SourceSettings, frozen=True, kw_only=True, tag="kubernetes-logs"):
    """The logs of an attempt's pods, of each container and of the one before where it was restarted in its pod.

    `containers` are those to read, all where empty; of each the first lines and the last `lines` are read.
    """

    source: Source = Source.APPLOG
    api: Api = Api()
    namespaces: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    lines: Annotated[int, msgspec.Meta(ge=100, le=1_000_000)] = 50_000

    gives: ClassVar[frozenset[Source]] = frozenset({Source.APPLOG})

    def check(self) -> None:
        _check(self.api, self.namespaces)

    def collect(self, ask: Ask, out: Sink) -> None:
        if (job := _job(ask, out, self.namespaces)) is not None:
            collect_logs(Connection(self.api, ask.budget), job, ask, out, self.containers, self.lines)

    def probe(self, nodes: Sequence[str], budget: Budget) -> Probe:
        connection = Connection(self.api, budget)
        version, clock = connection.version()
        newest, notes = newest_line(connection, self.namespaces)
        known, more = known_nodes(connection, self.namespaces)
        return Probe(
            version=version,
            newest=newest,
            server_time=clock,
            nodes=known,
            notes=(*notes, *more),
        )


class Events(SourceSettings, frozen=True, kw_only=True, tag="kubernetes-events"):
    """What Kubernetes says of an attempt: the events of its run, pods and nodes, and the states of pods and nodes."""

    source: Source = Source.KUBERNETES
    api: Api = Api()
    namespaces: tuple[str, ...] = ()

    gives: ClassVar[frozenset[Source]] = frozenset({Source.KUBERNETES})

    def check(self) -> None:
        _check(self.api, self.namespaces)

    def collect(self, ask: Ask, out: Sink) -> None:
        if (job := _job(ask, out, self.namespaces)) is not None:
            collect_events(Connection(self.api, ask.budget), job, ask, out)

    def probe(self, nodes: Sequence[str], budget: Budget) -> Probe:
        connection = Connection(self.api, budget)
        version, clock = connection.version()
        newest = newest_event(connection, self.namespaces)
        known, notes = known_nodes(connection, self.namespaces)
        return Probe(version=version, newest=newest, server_time=clock, nodes=known, notes=tuple(notes))


def _job(ask: Ask, out: Sink, namespaces: Sequence[str]) -> JobId | None:
    """Which object the attempt is of; None, with a word on it, where it is none of Kubernetes'."""
    job = JobId.parse(ask.attempt.job_id)
    if job is None:
        if ask.attempt.scheduler == "kubernetes":
            raise SourceError(
                f"the job id {ask.attempt.job_id[:80]!r} does not name an object: namespace/kind/name@uid"
            )
        out.note("the attempt is not one of Kubernetes'")
    elif namespaces and job.namespace not in namespaces:
        raise SourceError(f"namespaces: {job.namespace} is not one that is read")
    return job
