"""What Kubernetes says of a run and of nodes, in the words of the steps; and what to change for them. Pure.

A run is named by its object's uid: one that was made again under the same name is another. Two annotations tell where
a restart is: our mark, and, written before it is let go on, that it may.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from recovery.actuators.base import Aim, Look
from recovery.words import ActionKind
from verdicts.collectors.kubernetes_objects import JobId

MARK, RELEASED, EXCLUDED = "inquest/mark", "inquest/released", "inquest/excluded"
QUEUE = "kueue.x-k8s.io/queue-name"
RESTARTS = frozenset({ActionKind.RESTART, ActionKind.RESTART_EXCLUDING})
#: Clocks of the API server and of what told us when the attempt began.
SKEW = timedelta(seconds=10)
_OVER = frozenset({"Complete", "Completed", "Failed"})


@dataclass(frozen=True)
class Run:
    """A Job or JobSet as the server has it, with its Workload where Kueue manages it."""

    named: JobId
    found: dict[str, Any]
    workload: dict[str, Any] | None

    @property
    def notes(self) -> dict[str, str]:
        """Its annotations."""
        return self.found["metadata"].get("annotations") or {}

    @property
    def suspended(self) -> bool:
        """Whether it is kept from running."""
        return bool((self.found.get("spec") or {}).get("suspend"))

    @property
    def active(self) -> bool:
        """Whether Kueue may admit it."""
        return self.workload is None or (self.workload.get("spec") or {}).get("active") is not False

    @property
    def over(self) -> bool:
        """Whether it has ended for good."""
        conditions = (self.found.get("status") or {}).get("conditions") or []
        return any(one.get("type") in _OVER and one.get("status") == "True" for one in conditions)


def queue_of(found: Mapping[str, Any]) -> str:
    """Kueue's queue of a run, "" where it is in none."""
    return str((found["metadata"].get("labels") or {}).get(QUEUE, ""))


def of_run(aim: Aim, run: Run | None, namespaces: frozenset[str]) -> Look:
    """What a run says of the steps of an action."""
    giving_back = {"include", "resume"}
    if run is None:
        lost = "" if aim.action is ActionKind.LIFT_EXCLUSION else "Kubernetes has no such Job or JobSet (any more)"
        done = giving_back | ({"mark", "suspend"} if aim.action is ActionKind.STOP else set())
        return Look(done=frozenset(done), lost=lost, facts={"state": "gone"})
    avoided = avoids(run.found)
    facts = {
        "version": run.found["metadata"]["resourceVersion"],
        "workload": run.workload["metadata"]["name"] if run.workload else "",
        "workload_version": run.workload["metadata"]["resourceVersion"] if run.workload else "",
        "suspended": run.suspended,
        "active": run.active,
        "excluded": sorted(avoided),
        "mark": run.notes.get(MARK, ""),
    }
    marked, released = run.notes.get(MARK) == aim.mark, run.notes.get(RELEASED) == aim.mark
    if aim.action is ActionKind.LIFT_EXCLUSION:
        ours = run.notes.get(MARK) in aim.undoes and run.suspended and avoided & set(aim.nodes)
        return Look(done=frozenset() if ours else frozenset({"include"}), facts=facts)
    held = run.suspended and (run.workload is None or not run.active)
    done = {name for name, there in (("mark", marked), ("exclude", avoided >= set(aim.nodes))) if there}
    if held or released:
        done.add("suspend")
    if not held and (run.workload is None or run.active):
        done.add("resume")
    if released:
        done |= {"finish", "reset"}
    if run.workload is not None or run.named.kind != "job" or not (run.found.get("status") or {}).get("startTime"):
        done.add("reset")
    if not avoided & (set(aim.nodes) - aim.kept) or not run.suspended:
        done.add("include")
    if run.over and aim.action is ActionKind.STOP:
        return Look(done=frozenset({*done, "mark", "suspend"}), facts=facts)
    if lost := _lost(aim, run, namespaces, marked=marked, released=released):
        mine = marked and aim.begun
        return Look(done=frozenset(done if mine else done | giving_back), lost=lost, held=held, facts=facts)
    # Kueue takes a moment to stop what was deactivated.
    settled = run.workload is None or run.active or run.suspended
    if aim.action not in RESTARTS:
        return Look(done=frozenset(done), settled=settled, held=held, facts=facts)
    if not marked:
        done -= {"suspend", "exclude"}
    return Look(done=frozenset(done), settled=settled, held=held, facts=facts)


def _lost(aim: Aim, run: Run, namespaces: frozenset[str], *, marked: bool, released: bool) -> str:
    """Why a run is none that may be acted on, "" where it is."""
    if not str(run.found["metadata"]["uid"]).replace("-", "").startswith(run.named.uid):
        return "another object has this name now"
    if namespaces and run.named.namespace not in namespaces:
        return f"namespace {run.named.namespace} is none of those that may be acted on"
    if run.over:
        return "it has ended, and Kubernetes cannot start it again"
    if queue_of(run.found) and run.workload is None and not marked:
        return "Kueue manages it, and its Workload is not there"
    if marked or released or aim.begun:
        return ""
    if run.suspended:
        return "it is suspended already, by its queue or by somebody"
    status = run.found.get("status") or {}
    if run.named.kind == "jobset" and int(status.get("restarts") or 0) > aim.restart_count:
        return f"it is at restart {status['restarts']} already, and the plan is about restart {aim.restart_count}"
    if aim.started is None:
        return "the plan does not say when the attempt began: it could be at another"
    began = status.get("startTime")
    if began and datetime.fromisoformat(str(began)) > aim.started + SKEW:
        return "it was started again meanwhile"
    return ""


# Nodes that a run's pods avoid


def _pod_specs(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pod specs in a Job's or a JobSet's spec, to be changed in place."""
    if "replicatedJobs" in spec:
        for job in spec["replicatedJobs"]:
            yield job["template"]["spec"]["template"]["spec"]
    else:
        yield spec["template"]["spec"]


def _terms(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or [])


def _names(term: Mapping[str, Any]) -> set[str]:
    """The nodes that one term keeps out."""
    fields = term.get("matchFields") or []
    return {
        value
        for one in fields
        if one.get("key") == "metadata.name" and one.get("operator") == "NotIn"
        for value in one.get("values") or []
    }


def avoids(found: Mapping[str, Any]) -> frozenset[str]:
    """The nodes that none of a run's pods may be put on. The terms of an affinity are alternatives: all must say so."""
    sets = []
    for pod in _pod_specs(found["spec"]):
        terms = _terms(pod)
        sets.append(set.intersection(*map(_names, terms)) if terms else set())
    return frozenset(set.intersection(*sets)) if sets else frozenset()


def templates(found: Mapping[str, Any], *, add: Collection[str], drop: Collection[str]) -> dict[str, Any]:
    """The part of a run's spec that has its pods avoid some nodes more and others no more, for a merge patch."""
    spec = copy.deepcopy(found["spec"])
    for pod in _pod_specs(spec):
        terms = _terms(pod) or [{}]
        for term in terms:
            fields = [
                one
                for one in term.get("matchFields") or []
                if not (one.get("key") == "metadata.name" and one.get("operator") == "NotIn")
            ]
            # The API takes one name in each of these; all of a term's must hold.
            names = sorted((_names(term) - set(drop)) | set(add))
            fields += [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in names]
            term["matchFields"] = fields
            if not fields:
                del term["matchFields"]
        terms = [term for term in terms if term]
        node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms} if terms else None}
        pod["affinity"] = {
            **(pod.get("affinity") or {}),
            "nodeAffinity": {**((pod.get("affinity") or {}).get("nodeAffinity") or {}), **node},
        }
    if "replicatedJobs" in spec:
        return {"replicatedJobs": spec["replicatedJobs"]}
    return {"template": {"spec": {"affinity": spec["template"]["spec"]["affinity"]}}}


# Cordoning


def of_nodes(aim: Aim, nodes: Mapping[str, dict[str, Any] | None]) -> Look:
    """What nodes say of a cordon. One that somebody else set counts as there, and is never ours."""
    marks = aim.undoes | {aim.mark}
    there = {name: node for name, node in nodes.items() if node is not None}
    off = {name for name, node in there.items() if (node.get("spec") or {}).get("unschedulable")}
    ours = sorted(name for name in off if (there[name]["metadata"].get("annotations") or {}).get(MARK) in marks)
    missing = sorted(set(aim.nodes) - there.keys())
    done = set() if ours else {"uncordon"}
    if not missing and off == set(aim.nodes):
        done.add("cordon")
    return Look(
        done=frozenset(done),
        lost=f"there is no node {', '.join(missing)}" if missing and aim.action is ActionKind.DRAIN else "",
        facts={
            "versions": {name: node["metadata"]["resourceVersion"] for name, node in there.items()},
            "ours": ours,
            "to_cordon": sorted(there.keys() - off),
        },
    )


def cordon(aim: Aim, *, on: bool) -> dict[str, Any]:
    """The change that cordons a node with our mark on it, or takes both away."""
    if not on:
        return {"spec": {"unschedulable": None}, "metadata": {"annotations": {MARK: None, "inquest/reason": None}}}
    notes = {MARK: aim.mark, "inquest/reason": aim.reason or None}
    return {"spec": {"unschedulable": True}, "metadata": {"annotations": notes}}
