"""Acting on Kubernetes, against an emulator of its API server: objects of lightkube's models, merge patches, 409 and 403.

No real API server can be had where these tests run; see `tests/verdicts/collectors/kube.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import kmock
import msgspec
import pytest
from lightkube.models.batch_v1 import Job, JobSpec, JobStatus, JobTemplateSpec
from lightkube.models.core_v1 import Affinity, Container, Node, NodeSpec, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta

from recovery.actuators.kubernetes import Kubernetes
from recovery.actuators.kubernetes_look import EXCLUDED, MARK, avoids
from recovery.words import ActionKind, ActionState
from tests.recovery.test_stepper import Run, an_aim
from tests.verdicts.collectors.kube import Cluster, api_server
from tests.verdicts.collectors.kube_objects import START, at, meta, uid
from verdicts.collectors.kubernetes_client import Api
from verdicts.collectors.kubernetes_objects import JobId

JOB_PATH = "/apis/batch/v1/namespaces/ml/jobs/train"
SET_PATH = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets/train"
LOAD_PATH = "/apis/kueue.x-k8s.io/v1beta1/namespaces/ml/workloads/w1"


def merged(old: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return change
    kept = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), value)
    return kept


def accepted(plural: str, thing: dict[str, Any]) -> None:
    """What is there after a change is what the API's own types can hold: no field unknown, none of another type.

    The emulator would take anything; a real server refuses the type and drops the field. JobSet and Kueue have no
    types in lightkube: of these the templates of jobs are looked at, which are the API's own.
    """
    if plural == "jobsets":
        for job in thing["spec"]["replicatedJobs"]:
            _held(JobTemplateSpec, job["template"])
    elif plural in ("jobs", "nodes"):
        _held(Job if plural == "jobs" else Node, thing)


def _held(model: Any, thing: dict[str, Any]) -> None:
    kept = model.from_dict(thing).to_dict()
    lost = _paths(thing) - _paths(kept)
    assert not lost, f"{model.__name__} has no {', '.join(sorted(lost))}"


def _paths(thing: Any, before: str = "") -> set[str]:
    if isinstance(thing, dict):
        return {path for key, value in thing.items() for path in _paths(value, f"{before}.{key}")}
    if isinstance(thing, list):
        return {path for place, value in enumerate(thing) for path in _paths(value, f"{before}[{place}]")}
    return set() if thing is None else {before}


@dataclass
class Server:
    """The emulator, with objects that can be patched. `fates` are "409", "403", "500" or "timeout" for the next ones."""

    cluster: Cluster
    api: Api
    patches: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    fates: list[str] = field(default_factory=list)
    after: Callable[[str, dict[str, Any]], None] = lambda _path, _made: None

    def put(self, plural: str, path: str, thing: Any) -> None:
        self.cluster.put(plural, thing)
        for one in (path, f"{path}/status"):
            self.cluster.answers[one] = lambda request: self._answer(plural, path, request)

    def get(self, plural: str, name: str, namespace: str = "ml") -> dict[str, Any]:
        return self.cluster.objects[plural, namespace, name]

    def _answer(self, plural: str, path: str, request: Any) -> kmock.Response:
        name, namespace = path.rpartition("/")[2], "" if plural == "nodes" else "ml"
        found = self.cluster.objects.get((plural, namespace, name))
        if found is None:
            return kmock.Response(status=404, payload={"message": "not found"})
        if str(request.method).upper().rpartition(".")[2] != "PATCH":
            return kmock.Response(status=200, payload=found)
        change = json.loads(request.body)
        fate = self.fates.pop(0) if self.fates else ""
        if fate in ("403", "500"):
            return kmock.Response(status=int(fate), payload={"message": "no"})
        if fate == "409" or change["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            return kmock.Response(status=409, payload={"message": "the object has been modified"})
        assert {k.lower(): v for k, v in request.headers.items()}["content-type"] == "application/merge-patch+json"
        status = str(request.url.path).endswith("/status")
        assert status == ("status" in change), "the status has a path of its own"
        self.patches.append((path, change))
        made = self.cluster.put(plural, merged(found, change))
        accepted(plural, made)
        self.after(plural, made)
        if fate == "timeout":
            return kmock.Response(status=504, payload={"message": "timed out"})
        return kmock.Response(status=200, payload=made)

    def way(self) -> Kubernetes:
        return Kubernetes(self.api, can=frozenset(ActionKind), namespaces=frozenset({"ml"}), settle=30, deadline=300)

    def run(self, action: ActionKind = ActionKind.RESTART_EXCLUDING, **changes: Any) -> Run:
        made = Run(way=self.way())
        made.aim = an_aim(action, job_id=job_id(), started=at(0), submitted=START, **changes)
        return made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with api_server(tmp_path) as (cluster, api):
        yield Server(cluster, api)


def job_id(kind: str = "job") -> str:
    return str(JobId.of(kind, "ml", "train", uid("train", 0)))


def a_job(*, labels: dict[str, str] | None = None, suspend: bool = False, affinity: Affinity | None = None) -> Job:
    return Job(
        metadata=meta("train", 0, labels=labels),
        spec=JobSpec(
            template=PodTemplateSpec(spec=PodSpec(containers=[Container(name="main")], affinity=affinity)),
            suspend=suspend,
        ),
        status=JobStatus(startTime=at(0)),
    )


def test_the_check_of_types_sees_a_field_and_a_type_that_the_api_does_not_have() -> None:
    job = a_job().to_dict()
    accepted("jobs", job)
    with pytest.raises(AssertionError, match=r"Job has no \.spec\.suspended"):
        accepted("jobs", merged(job, {"spec": {"suspended": True}}))
    with pytest.raises(msgspec.ValidationError):
        accepted("jobs", merged(job, {"spec": {"suspend": "yes"}}))


def test_a_job_is_suspended_told_what_to_avoid_and_resumed(server: Server) -> None:
    server.put("jobs", JOB_PATH, a_job())
    assert server.run().to_the_end().outcome is ActionState.CONVERGED
    changes = [change for _, change in server.patches]
    assert [sorted(change) for change in changes] == [
        ["metadata"],
        ["metadata", "spec"],
        ["metadata", "status"],
        ["metadata", "spec"],
        ["metadata"],
        ["metadata", "spec"],
    ]
    job = server.get("jobs", "train")
    assert avoids(job) == {"gpu-01"} and job["spec"]["suspend"] is False
    assert job["metadata"]["annotations"].items() >= {MARK: "inquest-1234abcd", EXCLUDED: "gpu-01"}.items()
    # The change is one that the API's own types take.
    assert Job.from_dict(job).spec.template.spec.affinity.nodeAffinity is not None  # type: ignore[union-attr]


@pytest.mark.parametrize("fate", ["409", "timeout", "500"])
@pytest.mark.parametrize("place", range(6))
def test_a_conflict_or_a_timeout_at_any_step_doubles_nothing(server: Server, place: int, fate: str) -> None:
    server.put("jobs", JOB_PATH, a_job())
    server.fates = [""] * place + [fate]
    assert server.run().to_the_end().outcome is ActionState.CONVERGED
    assert sum(change.get("spec", {}).get("suspend") is True for _, change in server.patches) == 1
    assert server.get("jobs", "train")["spec"]["suspend"] is False


def test_a_refusal_in_the_middle_resumes_it_as_it_was(server: Server) -> None:
    server.put("jobs", JOB_PATH, a_job())
    server.fates = ["", "", "", "403"]
    end = server.run().to_the_end()
    assert end.outcome is ActionState.FAILED and "403" in end.why
    job = server.get("jobs", "train")
    assert job["spec"]["suspend"] is False and avoids(job) == frozenset()


def test_a_stop_in_mid_flight_takes_the_avoided_node_back_and_resumes(server: Server) -> None:
    server.put("jobs", JOB_PATH, a_job())
    run = server.run()
    for _ in range(4):
        run.turn()
    assert avoids(server.get("jobs", "train")) == {"gpu-01"}
    run.stop = "veto: node gpu-01 is left alone"
    assert run.to_the_end().outcome is ActionState.ABANDONED
    job = server.get("jobs", "train")
    assert job["spec"]["suspend"] is False and avoids(job) == frozenset()


def test_what_the_user_asked_of_nodes_stays_beside_what_is_avoided(server: Server) -> None:
    term = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100"]}]}
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    server.put("jobs", JOB_PATH, a_job(affinity=Affinity.from_dict(wanted)))
    assert server.run().to_the_end().outcome is ActionState.CONVERGED
    affinity = server.get("jobs", "train")["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    [found] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert found["matchExpressions"] == term["matchExpressions"]
    assert found["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["gpu-01"]}]


def test_a_jobset_is_changed_in_all_of_its_jobs(server: Server) -> None:
    job = {"template": {"spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}}}
    server.put(
        "jobsets",
        SET_PATH,
        {
            "metadata": meta("train", 0).to_dict(),
            "spec": {"suspend": False, "replicatedJobs": [{"name": name, **job} for name in ("leader", "worker")]},
            "status": {"restarts": 0},
        },
    )
    run = server.run()
    run.aim = an_aim(job_id=job_id("jobset"), started=at(0))
    assert run.to_the_end().outcome is ActionState.CONVERGED
    found = server.get("jobsets", "train")
    assert avoids(found) == {"gpu-01"} and [one["name"] for one in found["spec"]["replicatedJobs"]] == [
        "leader",
        "worker",
    ]


def test_with_kueue_the_workload_goes_through_its_queue_again(server: Server) -> None:
    server.put("jobs", JOB_PATH, a_job(labels={"kueue.x-k8s.io/queue-name": "research"}))
    workload = {"metadata": meta("w1", 0, owner=("Job", "train", uid("train", 0))).to_dict(), "spec": {"active": True}}
    server.put("workloads", LOAD_PATH, workload)

    def kueue(plural: str, made: dict[str, Any]) -> None:
        if plural == "workloads":
            job = server.get("jobs", "train")
            server.cluster.put("jobs", merged(job, {"spec": {"suspend": not made["spec"]["active"]}}))

    server.after = kueue
    assert server.run().to_the_end().outcome is ActionState.CONVERGED
    actives = [change["spec"]["active"] for path, change in server.patches if path == LOAD_PATH]
    assert actives == [False, True]
    assert not any("suspend" in change.get("spec", {}) for path, change in server.patches if path == JOB_PATH)
    assert avoids(server.get("jobs", "train")) == {"gpu-01"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"metadata": {"uid": uid("another", 9)}}, "another object"),
        ({"spec": {"suspend": True}}, "suspended already"),
        ({"status": {"startTime": (START + timedelta(hours=1)).isoformat()}}, "started again"),
        ({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, "has ended"),
    ],
)
def test_a_run_that_is_not_the_plans_is_never_touched(server: Server, change: dict[str, Any], why: str) -> None:
    server.put("jobs", JOB_PATH, merged(a_job().to_dict(), change))
    end = server.run().to_the_end()
    assert end.outcome is ActionState.ABANDONED and why in end.why
    assert server.patches == []


def test_a_node_is_cordoned_with_our_mark_and_uncordoned_only_where_it_is_ours(server: Server) -> None:
    for name, off in (("gpu-01", False), ("gpu-02", True)):
        node = Node(metadata=ObjectMeta(name=name), spec=NodeSpec(unschedulable=off or None))
        server.put("nodes", f"/api/v1/nodes/{name}", node)
    nodes = ("gpu-01", "gpu-02")
    run = server.run(ActionKind.DRAIN, nodes=nodes, reason="gpu.off-the-bus")
    assert run.to_the_end().outcome is ActionState.CONVERGED
    assert [path for path, _ in server.patches] == ["/api/v1/nodes/gpu-01"], "what somebody else cordoned stays theirs"
    back = server.run(ActionKind.UNDRAIN, nodes=nodes, mark="inquest-9999", undoes=frozenset({"inquest-1234abcd"}))
    assert back.to_the_end().outcome is ActionState.CONVERGED
    assert not server.get("nodes", "gpu-01", "")["spec"].get("unschedulable")
    assert server.get("nodes", "gpu-02", "")["spec"]["unschedulable"] is True
