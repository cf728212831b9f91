"""Kubernetes: a Job or JobSet is suspended, told which nodes to avoid, and resumed; nodes are cordoned and uncordoned.

Where Kueue manages a run, its Workload is deactivated and activated instead, so that it goes through its queue again.
Every change is a merge patch with the resourceVersion of the look that it follows from: what has changed since is not
touched, and a patch that comes late does nothing. What is ours carries our mark in an annotation.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from recovery.actuators import kubernetes_look
from recovery.actuators.base import (
    Actuator,
    ActuatorSettings,
    Aim,
    Look,
    MaybeApplied,
    NotApplied,
    Refused,
    Unseen,
)
from recovery.actuators.kubernetes_look import EXCLUDED, MARK, RELEASED, Run, templates
from recovery.words import ActionKind
from verdicts.collectors import http
from verdicts.collectors.ask import Budget, SourceError, Unreachable
from verdicts.collectors.kubernetes_client import Api, Connection, NotThere, server_of
from verdicts.collectors.kubernetes_objects import JobId

STEPS = {
    ActionKind.RESTART: ("mark", "suspend", "finish", "resume"),
    ActionKind.RESTART_EXCLUDING: ("mark", "suspend", "reset", "exclude", "finish", "resume"),
    ActionKind.STOP: ("mark", "suspend"),
    ActionKind.HOLD: ("mark", "suspend"),
    ActionKind.DRAIN: ("cordon",),
    ActionKind.UNDRAIN: ("uncordon",),
    ActionKind.LIFT_EXCLUSION: ("include", "uncordon"),
}
UNDO = {
    ActionKind.RESTART: ("resume",),
    ActionKind.RESTART_EXCLUDING: ("include", "resume"),
    ActionKind.HOLD: ("resume",),
    ActionKind.DRAIN: ("uncordon",),
}
#: Where each kind of run is.
PATHS = {"job": "apis/batch/v1/namespaces/{}/jobs", "jobset": "apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"}
WORKLOADS = "apis/kueue.x-k8s.io/v1beta1/namespaces/{}/workloads"
SECONDS, MEGABYTES = 20.0, 64
_CORDON = frozenset({"cordon", "uncordon"})


class Kubernetes(Actuator):
    """One cluster's API server."""

    kind: ClassVar[str] = "kubernetes"

    def __init__(
        self, api: Api, *, can: frozenset[ActionKind], namespaces: frozenset[str], settle: float, deadline: float
    ) -> None:
        super().__init__(can=can & STEPS.keys(), settle=settle, deadline=deadline)
        self._api, self._namespaces = api, namespaces

    def steps(self, action: ActionKind) -> tuple[str, ...]:
        return STEPS[action]

    def undo(self, action: ActionKind) -> tuple[str, ...]:
        return UNDO.get(action, ())

    def probe(self) -> str:
        try:
            return f"Kubernetes {self._connection().version()[0]}"
        except SourceError as error:
            raise Unseen(str(error)) from error

    # Looking

    def look(self, aim: Aim) -> Look:
        wanted = {*self.steps(aim.action), *self.undo(aim.action)}
        try:
            looks = []
            if wanted - _CORDON:
                looks.append(kubernetes_look.of_run(aim, self._run(aim), self._namespaces))
            if wanted & _CORDON:
                looks.append(kubernetes_look.of_nodes(aim, {name: self._object(_node(name)) for name in aim.nodes}))
        except SourceError as error:
            raise Unseen(str(error)) from error
        if len(looks) == 1:
            return looks[0]
        run, nodes = looks
        return Look(
            done=run.done | nodes.done,
            settled=run.settled and nodes.settled,
            lost=run.lost or nodes.lost,
            facts={**run.facts, **nodes.facts},
        )

    def _run(self, aim: Aim) -> Run | None:
        """The run and, where Kueue manages it, its Workload; None where it is not there."""
        named = JobId.parse(aim.job_id)
        if named is None or named.kind not in PATHS:
            return None
        found = self._object(f"{PATHS[named.kind].format(named.namespace)}/{named.name}")
        if found is None:
            return None
        workload = None
        if kubernetes_look.queue_of(found):
            uid = found["metadata"]["uid"]
            for page in self._connection().pages(WORKLOADS.format(named.namespace)):
                for raw in page.items or []:
                    one = msgspec.json.decode(raw, type=dict[str, Any])
                    owners = one.get("metadata", {}).get("ownerReferences") or []
                    if any(owner.get("uid") == uid for owner in owners):
                        workload = one
        return Run(named, found, workload)

    def _object(self, path: str) -> dict[str, Any] | None:
        try:
            return self._connection().get(path, dict[str, Any])
        except NotThere:
            return None

    def _connection(self) -> Connection:
        return Connection(self._api, Budget.of(seconds=SECONDS, megabytes=MEGABYTES))

    # Acting

    def do(self, step: str, aim: Aim, seen: Look) -> None:
        if step in _CORDON:
            for name in seen.facts["to_cordon" if step == "cordon" else "ours"]:
                self._patch(_node(name), seen.facts["versions"][name], kubernetes_look.cordon(aim, on=step == "cordon"))
            return
        named = JobId.parse(aim.job_id)
        if named is None:
            raise Refused(f"{aim.job_id!r} names no run")
        path = f"{PATHS[named.kind].format(named.namespace)}/{named.name}"
        version, workload = seen.facts["version"], seen.facts["workload"]
        match step:
            case "mark":
                self._patch(path, version, _annotated({MARK: aim.mark}))
            case "finish":
                self._patch(path, version, _annotated({RELEASED: aim.mark}))
            case "suspend" | "resume" if workload:
                where = f"{WORKLOADS.format(named.namespace)}/{workload}"
                self._patch(where, seen.facts["workload_version"], {"spec": {"active": step == "resume"}})
            case "suspend" | "resume":
                self._patch(path, version, {"spec": {"suspend": step == "suspend"}})
            case "reset":
                # A Job that ran has to forget when it began before its template's affinity may be changed.
                self._patch(f"{path}/status", version, {"status": {"startTime": None}})
            case "exclude" | "include":
                self._avoid(path, aim, seen, away=step == "exclude")
            case _:
                raise Refused(f"{step} is no step of Kubernetes")

    def _avoid(self, path: str, aim: Aim, seen: Look, *, away: bool) -> None:
        """Have the run's pods avoid nodes, or not any more."""
        try:
            found = self._object(path)
        except SourceError as error:
            raise NotApplied(str(error)) from error
        if found is None or found["metadata"]["resourceVersion"] != seen.facts["version"]:
            raise NotApplied("it was changed since it was looked at")
        add = set(aim.nodes) if away else set()
        drop = aim.ended if away else set(aim.nodes) - aim.kept
        change: dict[str, Any] = {"spec": templates(found, add=add, drop=set(drop))}
        change |= _annotated({EXCLUDED: ",".join(sorted(add)) or None})
        self._patch(path, seen.facts["version"], change)

    def _patch(self, path: str, version: str, change: Mapping[str, Any]) -> None:
        """Change an object that is still as it was looked at. Raises NotApplied, MaybeApplied, Refused."""
        metadata = {**change.get("metadata", {}), "resourceVersion": version}
        budget = Budget.of(seconds=SECONDS, megabytes=MEGABYTES)
        try:
            with http.stream(
                server_of(self._api),
                f"/{path}",
                budget,
                method="PATCH",
                json={**change, "metadata": metadata},
                headers={"Content-Type": "application/merge-patch+json"},
                params={"fieldManager": "inquest"},
                tries=1,
            ) as pieces:
                for _ in pieces:
                    pass
        except http.Refused as error:
            if error.status == 409:
                raise NotApplied("it was changed since it was looked at") from error
            if error.status == 429:
                raise NotApplied(str(error)) from error
            if error.status >= 500:
                raise MaybeApplied(str(error)) from error
            raise Refused(str(error)) from error
        except Unreachable as error:
            raise MaybeApplied(str(error)) from error
        except SourceError as error:
            raise MaybeApplied(str(error)) from error


def _node(name: str) -> str:
    return f"api/v1/nodes/{name}"


def _annotated(values: Mapping[str, str | None]) -> dict[str, Any]:
    return {"metadata": {"annotations": dict(values)}}


class KubernetesSettings(ActuatorSettings, tag="kubernetes", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API server, by a kubeconfig or the pod's own service account; `partitions` are namespaces here."""

    api: Api = Api()

    def check(self) -> None:
        self.api.check()

    def actuator(self) -> Actuator:
        return Kubernetes(
            self.api,
            can=self.may,
            namespaces=frozenset(self.partitions),
            settle=self.settle,
            deadline=self.deadline,
        )
