"""Attempts of runs in Kubernetes, over the watch's own protocol.

The API server is an emulator that replays documented behaviour (see kube.py), since no real one can be had here.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rules.attempt import Attempt, checked
from tests.verdicts.collectors.kube import Cluster, api_server
from tests.verdicts.collectors.kube_objects import (
    a_job,
    a_pod,
    a_run,
    a_workload,
    at,
    iso,
    job_ref,
    uid,
)
from verdicts.collectors import kubernetes_watch
from verdicts.collectors.ask import Budget, SourceError, Unreachable
from verdicts.collectors.kubernetes import KubernetesDiscovery
from verdicts.collectors.kubernetes_client import Api
from verdicts.collectors.source import Found


@dataclass
class Looker:
    """A discovery that is looked with again and again, each time by another worker: only the stored cursor goes on."""

    cluster: Cluster
    api: Api
    settings: dict[str, Any] = field(default_factory=dict)
    cursor: str = "{}"
    found: dict[tuple[str, int], Attempt] = field(default_factory=dict)
    last: Found | None = None

    def look(self, now: float = 3600, *, seconds: float = 20) -> list[Attempt]:
        discovery = KubernetesDiscovery(name="k8s", api=self.api, **self.settings)
        budget = Budget.of(seconds=seconds, megabytes=64)
        self.last = discovery.discover(json.loads(self.cursor), at(now), budget)
        self.cursor = json.dumps(self.last.cursor)
        for attempt in self.last.attempts:
            self.found[attempt.job_id, attempt.restart_count] = checked(attempt)
        return list(self.last.attempts)

    def attempts(self) -> list[Attempt]:
        return [self.found[key] for key in sorted(self.found)]

    def one(self) -> Attempt:
        (attempt,) = self.attempts()
        return attempt


@pytest.fixture
def k8s(tmp_path: Path) -> Iterator[Looker]:
    with api_server(tmp_path) as (cluster, api):
        yield Looker(cluster, api)


# --- Jobs -----------------------------------------------------------------------------------------------------------


def test_a_job_that_runs_is_an_attempt_with_its_nodes(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    for index in range(3):
        k8s.cluster.put("pods", a_pod(f"train-{index}-abcde", owner=job_ref(), node=f"gpu-{index}", index=index))
    k8s.look()
    attempt = k8s.one()
    assert attempt.job_id == f"ml/job/train@{uid('train', 0)[:8]}"
    assert (attempt.scheduler, attempt.state, attempt.restart_count) == ("kubernetes", "Running", 0)
    assert attempt.nodes == ["gpu-0", "gpu-1", "gpu-2"]
    assert {rank: place.node for rank, place in attempt.ranks.items()} == {"0": "gpu-0", "1": "gpu-1", "2": "gpu-2"}
    assert (attempt.workload, attempt.account, attempt.image) == ("train", "ml", "registry.example/train:1.2")
    assert (attempt.submit_time, attempt.end) == (at(0).isoformat(), None)
    assert k8s.last is not None and k8s.last.listed == {attempt.job_id}


def test_nothing_new_is_not_told_again(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    assert len(k8s.look()) == 1
    assert k8s.look() == []


def test_how_a_job_failed_is_told_with_the_pod_that_failed_first(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.cluster.put("pods", a_pod("train-0-abcde", owner=job_ref(), node="gpu-0", index=0))
    k8s.cluster.put("pods", a_pod("train-1-abcde", owner=job_ref(), node="gpu-1", index=1))
    k8s.look()
    k8s.cluster.put(
        "pods",
        a_pod(
            "train-1-abcde", owner=job_ref(), node="gpu-1", index=1, phase="Failed", code=137, ended=50, why="OOMKilled"
        ),
    )
    k8s.cluster.put(
        "pods", a_pod("train-0-abcde", owner=job_ref(), node="gpu-0", index=0, phase="Failed", code=1, ended=90)
    )
    why = "Job has reached the specified backoff limit"
    k8s.cluster.put("jobs", a_job(ended="Failed", end=100, reason="BackoffLimitExceeded", message=why))
    k8s.look()
    attempt = k8s.one()
    assert (attempt.state, attempt.exit_code, attempt.end) == ("OOMKilled", 137, at(100).isoformat())
    assert attempt.reason == f"BackoffLimitExceeded: {why}; OOMKilled: pod train-1-abcde on gpu-1 exit code 137"
    assert k8s.last is not None and k8s.last.listed == frozenset()


@pytest.mark.parametrize(
    ("ended", "reason", "state"),
    [
        ("Complete", "", "Complete"),
        ("Failed", "DeadlineExceeded", "DeadlineExceeded"),
        ("Failed", "PodFailurePolicy", "Failed"),
    ],
)
def test_the_end_of_a_job_is_its_condition(k8s: Looker, ended: str, reason: str, state: str) -> None:
    k8s.cluster.put("jobs", a_job(ended=ended, end=500, reason=reason))
    k8s.look()
    assert (k8s.one().state, k8s.one().end) == (state, at(500).isoformat())


@pytest.mark.parametrize(
    ("why", "state"),
    [
        ("PreemptionByScheduler", "Preempted"),
        ("EvictionByEvictionAPI", "Evicted"),
        ("DeletionByTaintManager", "Failed"),
    ],
)
def test_a_pod_that_was_taken_away_says_by_whom(k8s: Looker, why: str, state: str) -> None:
    k8s.cluster.put("jobs", a_job(ended="Failed", end=100, reason="BackoffLimitExceeded"))
    k8s.cluster.put("pods", a_pod("train-abcde", owner=job_ref(), phase="Failed", code=143, ended=90, disrupted=why))
    k8s.look()
    assert k8s.one().state == state
    assert f"{why}: pod train-abcde" in k8s.one().reason


def test_a_pod_made_in_place_of_a_failed_one_begins_another_attempt(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.cluster.put("pods", a_pod("train-abcde", 1, owner=job_ref(), node="gpu-1"))
    k8s.look()
    k8s.cluster.put("pods", a_pod("train-abcde", 1, owner=job_ref(), node="gpu-1", phase="Failed", code=1, ended=60))
    k8s.cluster.put("pods", a_pod("train-fghij", 70, owner=job_ref(), node="gpu-2"))
    k8s.look()
    first, second = k8s.attempts()
    assert (first.state, first.nodes, first.exit_code, first.end) == ("Failed", ["gpu-1"], 1, at(70).isoformat())
    assert (second.state, second.nodes, second.end) == ("Running", ["gpu-2"], None)
    assert (second.restart_count, second.submit_time) == (1, at(70).isoformat())


def test_ranks_that_follow_the_first_into_the_next_attempt_are_one_attempt_with_it(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    for index in (0, 1, 2):
        k8s.cluster.put("pods", a_pod(f"train-{index}-aaaaa", 1, owner=job_ref(), node=f"gpu-{index}", index=index))
    k8s.look()
    for index, failed in ((1, 50), (0, 60)):
        of, node = f"train-{index}-aaaaa", f"gpu-{index}"
        k8s.cluster.put(
            "pods", a_pod(of, 1, owner=job_ref(), node=node, index=index, phase="Failed", code=1, ended=failed)
        )
        again = f"train-{index}-bbbbb"
        k8s.cluster.put("pods", a_pod(again, failed + 5, owner=job_ref(), node=f"gpu-1{index}", index=index))
        k8s.look()
    first, second = k8s.attempts()
    assert first.nodes == ["gpu-0", "gpu-1", "gpu-2"]
    # The third pod went on running, and is in both.
    assert second.nodes == ["gpu-2", "gpu-10", "gpu-11"]


def test_a_pod_that_the_kubelet_evicted_has_no_containers_and_is_over_all_the_same(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.cluster.put("pods", a_pod("train-bcdfg", 1, owner=job_ref(), node="gpu-1"))
    k8s.look(now=10)
    gone = a_pod("train-bcdfg", 1, owner=job_ref(), node="gpu-1", phase="Failed", status_reason="Evicted").to_dict()
    gone["status"]["message"] = "The node was low on resource: memory."
    del gone["status"]["containerStatuses"]
    k8s.cluster.put("pods", gone)
    k8s.look(now=60)
    k8s.cluster.put("pods", a_pod("train-hjklm", 70, owner=job_ref(), node="gpu-2"))
    k8s.look(now=80)
    first, second = k8s.attempts()
    assert (first.nodes, second.nodes) == (["gpu-1"], ["gpu-2"])
    assert first.reason == "Evicted: pod train-bcdfg on gpu-1 (The node was low on resource: memory.)"


def test_a_pod_deleted_from_a_lost_node_ends_its_attempt_with_the_taint(k8s: Looker) -> None:
    ref = ("PyTorchJob", "ptj", uid("ptj", 0))
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}
    k8s.cluster.put("pytorchjobs", a_run("PyTorchJob", "ptj"))
    k8s.cluster.put("pods", a_pod("ptj-worker-0", 1, owner=ref, labels=labels))
    k8s.look()
    k8s.cluster.put(
        "pods", a_pod("ptj-worker-0", 1, owner=ref, labels=labels, disrupted="DeletionByTaintManager", deleted=400)
    )
    k8s.cluster.remove("pods", "ptj-worker-0")
    k8s.cluster.put("pods", a_pod("ptj-worker-0", 410, owner=ref, node="gpu-2", labels=labels))
    k8s.look()
    first, _ = k8s.attempts()
    assert first.reason == "DeletionByTaintManager: pod ptj-worker-0 on gpu-1"


def test_a_second_workload_of_a_run_that_is_finished_changes_nothing(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job(labels=QUEUED))
    k8s.cluster.put("workloads", a_workload(job_ref(), admitted=100))
    k8s.look(now=110)
    old = a_workload(job_ref(), admitted=50, finished=90)
    old["metadata"]["name"], old["metadata"]["uid"] = "job-train-00000", uid("old")
    k8s.cluster.put("workloads", old)
    k8s.look(now=120)
    assert len(k8s.attempts()) == 1


def test_containers_restarted_in_their_pods_stay_one_attempt(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    for restarts in range(3):
        k8s.cluster.put("pods", a_pod("train-abcde", owner=job_ref(), restarts=restarts))
        k8s.look()
    assert len(k8s.attempts()) == 1


def test_a_job_made_again_under_its_name_is_another_job(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job(ended="Failed", end=50))
    k8s.look()
    k8s.cluster.remove("jobs", "train")
    k8s.cluster.put("jobs", a_job(created=100, start=100))
    k8s.look()
    first, second = sorted(k8s.attempts(), key=lambda attempt: str(attempt.submit_time))
    assert first.job_id != second.job_id
    assert (first.restart_count, second.restart_count) == (0, 0)


def test_a_job_deleted_while_it_ran_was_cancelled(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.cluster.put("pods", a_pod("train-abcde", owner=job_ref()))
    k8s.look()
    k8s.cluster.remove("jobs", "train")
    k8s.look(now=400)
    assert (k8s.one().state, k8s.one().end, k8s.one().nodes) == ("Cancelled", at(400).isoformat(), ["gpu-1"])


def test_a_job_missing_from_a_list_ended_in_a_way_nobody_saw(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.cluster.put("pods", a_pod("train-abcde", owner=job_ref()))
    k8s.look()
    k8s.cluster.remove("jobs", "train")
    k8s.cluster.forget()
    k8s.look(now=400)
    assert (k8s.one().state, k8s.one().nodes) == ("Gone", ["gpu-1"])
    assert "its end was not seen" in k8s.one().reason


def test_suspending_a_job_ends_its_attempt_and_resuming_it_begins_another(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.cluster.put("pods", a_pod("train-abcde", 1, owner=job_ref()))
    k8s.look()
    k8s.cluster.put("jobs", a_job(suspend=True, end=200))
    k8s.cluster.remove("pods", "train-abcde")
    k8s.look(now=210)
    assert (k8s.one().state, k8s.one().end) == ("Cancelled", at(200).isoformat())
    k8s.cluster.put("jobs", a_job(start=300))
    k8s.cluster.put("pods", a_pod("train-fghij", 301, owner=job_ref(), node="gpu-9"))
    k8s.look(now=310)
    assert [(a.nodes, a.start) for a in k8s.attempts()] == [
        (["gpu-1"], at(0).isoformat()),
        (["gpu-9"], at(300).isoformat()),
    ]


def test_pods_of_web_servers_are_nobodys_run(k8s: Looker) -> None:
    k8s.cluster.put("pods", a_pod("web-abcde", owner=("ReplicaSet", "web", uid("web"))))
    k8s.cluster.put("pods", a_pod("alone"))
    assert k8s.look() == []


def test_a_jobs_workload_is_the_cron_job_that_makes_it(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job("nightly-2931", owner=("CronJob", "nightly", uid("cron"))))
    k8s.look()
    assert k8s.one().workload == "nightly"


# --- Kueue ----------------------------------------------------------------------------------------------------------

QUEUED = {"kueue.x-k8s.io/queue-name": "team-a"}


def test_a_workload_that_waits_for_its_admission_is_no_attempt(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job(suspend=True, labels=QUEUED))
    k8s.cluster.put("workloads", a_workload(job_ref()))
    assert k8s.look() == []
    assert k8s.last is not None and len(k8s.last.listed or ()) == 1


def test_each_admission_is_an_attempt_and_an_eviction_ends_it_with_its_reason(k8s: Looker) -> None:
    ref = job_ref()
    k8s.cluster.put("jobs", a_job(suspend=True, labels=QUEUED))
    k8s.cluster.put("workloads", a_workload(ref, admitted=100))
    k8s.cluster.put("jobs", a_job(labels=QUEUED, start=100))
    k8s.cluster.put("pods", a_pod("train-abcde", 101, owner=ref, node="gpu-1"))
    k8s.look(now=110)
    why = "Preempted to accommodate a workload (UID: 1, JobUID: 2) due to prioritization in the ClusterQueue"
    k8s.cluster.put(
        "workloads", a_workload(ref, admitted=100, evicted=(200, "Preempted", why), preempted="InClusterQueue")
    )
    k8s.cluster.put("jobs", a_job(suspend=True, labels=QUEUED, end=201))
    k8s.cluster.remove("pods", "train-abcde")
    k8s.cluster.put(
        "workloads", a_workload(ref, not_admitted=202, evicted=(200, "Preempted", why), preempted="InClusterQueue")
    )
    k8s.look(now=210)
    k8s.cluster.put("workloads", a_workload(ref, admitted=300, before=(300, why), evictions={"Preempted": 1}))
    k8s.cluster.put("jobs", a_job(labels=QUEUED, start=301))
    k8s.cluster.put("pods", a_pod("train-fghij", 301, owner=ref, node="gpu-2"))
    k8s.look(now=310)
    first, second = k8s.attempts()
    assert (first.state, first.nodes, first.partition) == ("Preempted", ["gpu-1"], "team-a")
    assert (first.start, first.end) == (at(100).isoformat(), at(200).isoformat())
    assert first.reason.startswith(f"EvictedDueToPreempted: InClusterQueue: {why}")
    assert (second.state, second.nodes, second.restart_count) == ("Running", ["gpu-2"], 1)
    assert (second.submit_time, second.start) == (at(300).isoformat(), at(300).isoformat())


@pytest.mark.parametrize(
    ("why", "state"),
    [
        ("PodsReadyTimeout", "Evicted"),
        ("AdmissionCheck", "Evicted"),
        ("ClusterQueueStopped", "Evicted"),
        ("Deactivated", "Cancelled"),
        ("DeactivatedDueToRequeuingLimitExceeded", "Evicted"),
        ("DeactivatedDueToMaximumExecutionTimeExceeded", "DeadlineExceeded"),
        ("NodeFailures", "NODE_FAIL"),
    ],
)
def test_what_an_eviction_means(k8s: Looker, why: str, state: str) -> None:
    k8s.cluster.put("jobs", a_job(labels=QUEUED))
    k8s.cluster.put("workloads", a_workload(job_ref(), admitted=100))
    k8s.look(now=110)
    k8s.cluster.put("workloads", a_workload(job_ref(), not_admitted=200, evicted=(199, why, "said so")))
    k8s.look(now=210)
    assert (k8s.one().state, k8s.one().end) == (state, at(199).isoformat())
    assert k8s.one().reason == f"EvictedDueTo{why}: said so"


def test_an_eviction_that_nobody_saw_still_ends_its_attempt(k8s: Looker) -> None:
    ref = job_ref()
    k8s.cluster.put("jobs", a_job(labels=QUEUED))
    k8s.cluster.put("workloads", a_workload(ref, admitted=100))
    k8s.cluster.put("pods", a_pod("train-abcde", 101, owner=ref, node="gpu-1"))
    k8s.look(now=110)
    k8s.cluster.remove("pods", "train-abcde")
    k8s.cluster.put(
        "workloads",
        a_workload(
            ref, admitted=900, before=(900, "Exceeded the PodsReady timeout"), evictions={"PodsReadyTimeout": 3}
        ),
    )
    k8s.cluster.put("pods", a_pod("train-fghij", 901, owner=ref, node="gpu-2"))
    k8s.cluster.forget()
    k8s.look(now=910)
    first, second = k8s.attempts()
    assert (first.state, first.nodes) == ("Evicted", ["gpu-1"])
    assert "Previously: Exceeded the PodsReady timeout" in first.reason
    # Kueue counts three evictions: two admissions came and went between the looks.
    assert (second.restart_count, second.nodes) == (3, ["gpu-2"])


def test_a_run_is_not_told_before_its_workload_is_seen(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job(labels=QUEUED))
    k8s.cluster.put("pods", a_pod("train-abcde", 101, owner=job_ref()))
    k8s.cluster.answers["/apis/kueue.x-k8s.io/v1beta1/workloads"] = lambda _: _error()
    assert k8s.look(now=105) == []
    k8s.cluster.answers.clear()
    k8s.cluster.put("workloads", a_workload(job_ref(), admitted=100))
    k8s.look(now=110)
    assert (k8s.one().start, k8s.one().restart_count) == (at(100).isoformat(), 0)


def _error() -> Any:
    import kmock

    return kmock.Response(status=501, payload={"message": "not now"})


# --- JobSet, PyTorchJob, MPIJob, TrainJob ---------------------------------------------------------------------------


def a_jobset_pod(lap: int, job: int, created: float, *, node: str, parent: str = "js", **more: Any) -> tuple[Any, Any]:
    child = f"{parent}-workers-{job}"
    ref = ("JobSet", parent, uid(parent, 0))
    labels = {
        "jobset.sigs.k8s.io/jobset-name": parent,
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        "jobset.sigs.k8s.io/job-index": str(job),
        "jobset.sigs.k8s.io/restart-attempt": str(lap),
    }
    made = a_job(child, created, owner=ref)
    pod = a_pod(
        f"{child}-0-{lap}aaaa", created + 1, owner=job_ref(child, created), node=node, index=0, labels=labels, **more
    )
    return made, pod


def test_each_restart_of_a_jobset_is_an_attempt(k8s: Looker) -> None:
    k8s.cluster.put("jobsets", a_run("JobSet", "js"))
    for job in (0, 1):
        made, pod = a_jobset_pod(0, job, 5, node=f"gpu-{job}")
        k8s.cluster.put("jobs", made)
        k8s.cluster.put("pods", pod)
    k8s.look()
    k8s.cluster.put("jobsets", a_run("JobSet", "js", restarts=1))
    for job in (0, 1):
        k8s.cluster.remove("jobs", f"js-workers-{job}")
        k8s.cluster.remove("pods", f"js-workers-{job}-0-0aaaa")
        made, pod = a_jobset_pod(1, job, 100, node=f"gpu-1{job}")
        k8s.cluster.put("jobs", made)
        k8s.cluster.put("pods", pod)
    k8s.look()
    first, second = k8s.attempts()
    assert (first.nodes, first.end) == (["gpu-0", "gpu-1"], at(101).isoformat())
    assert (second.nodes, second.restart_count) == (["gpu-10", "gpu-11"], 1)
    assert {rank: place.node for rank, place in second.ranks.items()} == {"0": "gpu-10", "1": "gpu-11"}
    assert second.job_id.startswith("ml/jobset/js@")


def test_a_jobset_in_a_queue_counts_its_restarts_and_its_evictions(k8s: Looker) -> None:
    ref = ("JobSet", "js", uid("js", 0))
    k8s.cluster.put("jobsets", a_run("JobSet", "js", labels=QUEUED))
    k8s.cluster.put("workloads", a_workload(ref, admitted=5))
    laps = [(0, 6, "gpu-0"), (1, 100, "gpu-1"), (1, 300, "gpu-2")]
    for number, (lap, created, node) in enumerate(laps):
        k8s.cluster.put("jobsets", a_run("JobSet", "js", labels=QUEUED, restarts=lap))
        if number == 2:
            why = "Preempted to accommodate another"
            evicted = a_workload(ref, not_admitted=201, evicted=(200, "Preempted", why))
            k8s.cluster.put("workloads", evicted)
            k8s.look(now=210)
            k8s.cluster.put("workloads", a_workload(ref, admitted=299, before=(299, why), evictions={"Preempted": 1}))
        made, pod = a_jobset_pod(lap, 0, created, node=node)
        if number:
            k8s.cluster.remove("pods", f"js-workers-0-0-{laps[number - 1][0]}aaaa")
        k8s.cluster.put("jobs", made)
        k8s.cluster.put("pods", pod)
        k8s.look(now=created + 5)
        k8s.look(now=created + 6)
    told = [(a.nodes, a.state, a.restart_count) for a in k8s.attempts()]
    assert told == [(["gpu-0"], "Failed", 0), (["gpu-1"], "Preempted", 1), (["gpu-2"], "Running", 2)]


def test_the_jobset_of_a_trainjob_is_the_trainjobs(k8s: Looker) -> None:
    k8s.cluster.put("trainjobs", a_run("TrainJob", "tj"))
    k8s.cluster.put("jobsets", a_run("JobSet", "tj", 1, owner=("TrainJob", "tj", uid("tj", 0))))
    child = ("JobSet", "tj", uid("tj", 1))
    k8s.cluster.put("jobs", a_job("tj-node-0", 2, owner=child))
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "node", "jobset.sigs.k8s.io/job-index": "0"}
    for index in range(2):
        pod = a_pod(
            f"tj-node-0-{index}-aaaaa", 3, owner=job_ref("tj-node-0", 2), node=f"gpu-{index}", index=index, labels=labels,
            env={"PET_NPROC_PER_NODE": "auto"}, gpus=2,
        )  # fmt: skip
        k8s.cluster.put("pods", pod)
    k8s.look()
    attempt = k8s.one()
    assert attempt.job_id.startswith("ml/trainjob/tj@")
    assert {rank: place.node for rank, place in attempt.ranks.items()} == {
        "0": "gpu-0",
        "1": "gpu-0",
        "2": "gpu-1",
        "3": "gpu-1",
    }


def test_a_pytorchjob_has_the_ranks_that_its_operator_gave(k8s: Looker) -> None:
    ref = ("PyTorchJob", "ptj", uid("ptj", 0))
    k8s.cluster.put("pytorchjobs", a_run("PyTorchJob", "ptj", conditions=[("Created", 0, "PyTorchJobCreated", "")]))
    for rank, (role, index) in enumerate([("master", 0), ("worker", 0), ("worker", 1)]):
        labels = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": str(index)}
        name = f"ptj-{role}-{index}"
        k8s.cluster.put(
            "pods",
            a_pod(name, 1, owner=ref, node=f"gpu-{rank}", labels=labels, env={"RANK": str(rank), "WORLD_SIZE": "3"}),
        )
    k8s.look()
    assert {rank: place.node for rank, place in k8s.one().ranks.items()} == {"0": "gpu-0", "1": "gpu-1", "2": "gpu-2"}
    end = [("Failed", 80, "PyTorchJobFailed", "PyTorchJob ptj is failed because 1 Worker replica(s) failed.")]
    k8s.cluster.put("pytorchjobs", a_run("PyTorchJob", "ptj", conditions=end))
    k8s.look()
    assert (k8s.one().state, k8s.one().end) == ("Failed", at(80).isoformat())


def test_a_pytorchjobs_pod_made_anew_under_its_name_begins_another_attempt(k8s: Looker) -> None:
    ref = ("PyTorchJob", "ptj", uid("ptj", 0))
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}
    k8s.cluster.put("pytorchjobs", a_run("PyTorchJob", "ptj"))
    k8s.cluster.put("pods", a_pod("ptj-worker-0", 1, owner=ref, node="gpu-1", labels=labels))
    k8s.look()
    k8s.cluster.remove("pods", "ptj-worker-0")
    k8s.cluster.put("pods", a_pod("ptj-worker-0", 50, owner=ref, node="gpu-2", labels=labels))
    k8s.look()
    assert [attempt.nodes for attempt in k8s.attempts()] == [["gpu-1"], ["gpu-2"]]


def test_an_mpijobs_ranks_come_from_its_slots_and_its_launcher_has_none(k8s: Looker) -> None:
    ref = ("MPIJob", "mpi", uid("mpi", 0))
    k8s.cluster.put("mpijobs", a_run("MPIJob", "mpi", slotsPerWorker=2))
    k8s.cluster.put("jobs", a_job("mpi-launcher", 1, owner=ref))
    k8s.cluster.put(
        "pods",
        a_pod(
            "mpi-launcher-abcde",
            1,
            owner=job_ref("mpi-launcher", 1),
            node="cpu-1",
            labels={"training.kubeflow.org/job-role": "launcher"},
        ),
    )
    for index in range(2):
        labels = {"training.kubeflow.org/job-role": "worker", "training.kubeflow.org/replica-index": str(index)}
        k8s.cluster.put("pods", a_pod(f"mpi-worker-{index}", 1, owner=ref, node=f"gpu-{index}", labels=labels))
    k8s.look()
    attempt = k8s.one()
    assert attempt.nodes == ["cpu-1", "gpu-0", "gpu-1"]
    assert {rank: place.node for rank, place in attempt.ranks.items()} == {
        "0": "gpu-0",
        "1": "gpu-0",
        "2": "gpu-1",
        "3": "gpu-1",
    }


def test_ranks_that_cannot_be_known_are_left_to_the_logs(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.cluster.put("pods", a_pod("train-0-aaaaa", owner=job_ref(), index=0, gpus=8))
    k8s.look()
    assert k8s.one().ranks == {}


def test_the_launchers_arguments_say_how_many_ranks_a_pod_has(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.cluster.put(
        "pods",
        a_pod("train-0-aaaaa", owner=job_ref(), index=0, gpus=8, args=["torchrun", "--nproc-per-node", "4", "t.py"]),
    )
    k8s.look()
    assert sorted(k8s.one().ranks) == ["0", "1", "2", "3"]


# --- the watch ------------------------------------------------------------------------------------------------------


def test_the_second_look_watches_from_where_the_first_ended(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.look()
    version = str(k8s.cluster.version)
    k8s.cluster.requests.clear()
    k8s.look()
    (params,) = k8s.cluster.asked("/pods")
    assert params["resourceVersion"] == version
    assert (params["watch"], params["allowWatchBookmarks"]) == ("true", "true")
    assert int(params["timeoutSeconds"]) == kubernetes_watch.WATCH_SECONDS


def test_bookmarks_move_a_quiet_watch_on(k8s: Looker) -> None:
    k8s.look()
    for number in range(5):
        k8s.cluster.put("nodes", {"metadata": {"name": f"gpu-{number}"}})
    k8s.look()
    assert json.loads(k8s.cursor)["versions"]["pods/"] == str(k8s.cluster.version)


def test_without_bookmarks_a_watch_goes_on_from_its_last_event(k8s: Looker) -> None:
    k8s.cluster.bookmarks = False
    k8s.look()
    k8s.cluster.put("jobs", a_job())
    k8s.look()
    version = k8s.cluster.version
    k8s.cluster.put("nodes", {"metadata": {"name": "gpu-1"}})
    k8s.look()
    assert json.loads(k8s.cursor)["versions"]["jobs/"] == str(version)
    assert len(k8s.attempts()) == 1


@pytest.mark.parametrize("as_status", [False, True])
def test_a_history_that_is_gone_is_listed_again(k8s: Looker, as_status: bool) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.cluster.put("pods", a_pod("train-abcde", owner=job_ref()))
    k8s.look()
    k8s.cluster.gone_as_status = as_status
    k8s.cluster.put("jobs", a_job(ended="Complete", end=60))
    k8s.cluster.remove("pods", "train-abcde")
    k8s.cluster.forget()
    k8s.look()
    assert (k8s.one().state, k8s.one().nodes) == ("Complete", ["gpu-1"])
    assert k8s.last is not None and k8s.last.notes == ()


def test_a_watch_that_is_cut_off_keeps_what_came_and_goes_on_from_there(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.look()
    for number in range(4):
        k8s.cluster.put("pods", a_pod(f"train-{number}-aaaaa", owner=job_ref(), node=f"gpu-{number}", index=number))
    k8s.cluster.cut["pods"] = 2
    k8s.look()
    assert k8s.one().nodes == ["gpu-0", "gpu-1"]
    assert k8s.last is not None and k8s.last.listed is None
    assert "pods: " in k8s.last.notes[0] and "cut off" in k8s.last.notes[0]
    k8s.cluster.cut.clear()
    k8s.look()
    assert k8s.one().nodes == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]


def test_a_watch_that_hangs_ends_and_the_others_are_taken(k8s: Looker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_watch, "WATCH_SECONDS", 0.2)
    monkeypatch.setattr(kubernetes_watch, "WATCH_GRACE", 0.2)
    k8s.look()
    k8s.cluster.hang.add("pods")
    k8s.cluster.put("jobs", a_job())
    k8s.look()
    assert k8s.one().nodes == []
    assert k8s.last is not None and k8s.last.listed is None and k8s.last.notes[0].startswith("pods: ")


def test_an_api_server_that_is_away_leaves_the_cursor(k8s: Looker, monkeypatch: pytest.MonkeyPatch) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.look()
    before = k8s.cursor
    for plural in ("jobs", "jobsets", "pytorchjobs", "mpijobs", "trainjobs", "pods", "workloads"):
        k8s.cluster.hang.add(plural)
    monkeypatch.setattr(kubernetes_watch, "WATCH_SECONDS", 0.2)
    monkeypatch.setattr(kubernetes_watch, "WATCH_GRACE", 0.1)
    with pytest.raises(Unreachable):
        k8s.look()
    assert k8s.cursor == before
    k8s.cluster.hang.clear()
    k8s.cluster.put("jobs", a_job(ended="Complete", end=10))
    k8s.look()
    assert k8s.one().state == "Complete"


def test_a_refused_connection_is_an_error(tmp_path: Path) -> None:
    from tests.verdicts.collectors.kube import kubeconfig

    api = Api(kubeconfig=str(kubeconfig(tmp_path, "http://127.0.0.1:9")))
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:9"):
        KubernetesDiscovery(name="k8s", api=api).discover({}, at(0), Budget.of(seconds=5, megabytes=1))


def test_long_lists_come_in_pages(k8s: Looker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verdicts.collectors.kubernetes_client.PAGE", 7)
    for number in range(20):
        k8s.cluster.put("jobs", a_job(f"job-{number}"))
    k8s.look()
    assert len(k8s.attempts()) == 20
    assert [params.get("continue") for params in k8s.cluster.asked("/batch/v1/jobs")] == [None, "7", "14"]


def test_a_list_that_takes_too_long_is_begun_again(k8s: Looker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verdicts.collectors.kubernetes_client.PAGE", 7)
    k8s.cluster.expire_continue = 1
    for number in range(10):
        k8s.cluster.put("jobs", a_job(f"job-{number}"))
    k8s.look()
    assert len(k8s.attempts()) == 10


def test_a_kind_that_may_not_be_listed_is_said_with_the_line_to_add(k8s: Looker) -> None:
    k8s.cluster.forbidden.add("jobsets")
    k8s.cluster.put("jobs", a_job())
    k8s.look()
    assert k8s.last is not None
    (note,) = k8s.last.notes
    assert 'User "inquest" cannot list' in note
    assert 'apiGroups: ["jobset.x-k8s.io"], resources: ["jobsets"], verbs: ["list", "watch"]' in note
    assert len(k8s.attempts()) == 1


def test_without_any_right_nothing_is_found_and_that_is_an_error(k8s: Looker) -> None:
    k8s.cluster.forbidden |= {"jobs", "jobsets", "pytorchjobs", "mpijobs", "trainjobs", "pods", "workloads"}
    with pytest.raises(SourceError, match="not allowed"):
        k8s.look()


def test_kinds_that_the_server_does_not_have_are_not_asked_for(k8s: Looker) -> None:
    k8s.cluster.groups = {"batch": ("v1", ["jobs"]), "kubeflow.org": ("v1", ["pytorchjobs"])}
    k8s.look()
    asked = {path.rsplit("/", 1)[-1] for path, _ in k8s.cluster.requests}
    assert asked == {"apis", "v1", "pods", "jobs", "pytorchjobs"}


def test_only_the_named_namespaces_are_looked_into(k8s: Looker) -> None:
    k8s.settings = {"namespaces": ("ml",)}
    k8s.cluster.put("jobs", a_job())
    other = a_job("theirs").to_dict()
    other["metadata"]["namespace"] = "other"
    k8s.cluster.put("jobs", other)
    k8s.look()
    assert [attempt.workload for attempt in k8s.attempts()] == ["train"]


def test_a_namespace_that_may_not_be_seen_does_not_hide_another(k8s: Looker) -> None:
    k8s.settings = {"namespaces": ("closed", "ml")}
    k8s.cluster.forbidden |= {"closed/jobs", "closed/pods"}
    k8s.cluster.put("jobs", a_job())
    k8s.cluster.put("pods", a_pod("train-abcde", owner=job_ref()))
    k8s.look()
    assert k8s.one().nodes == ["gpu-1"]
    assert k8s.last is not None and [note[:16] for note in k8s.last.notes] == ["pods in closed: ", "jobs in closed: "]


def test_a_selector_is_sent_for_all_but_workloads(k8s: Looker) -> None:
    k8s.settings = {"selector": "team=llm"}
    k8s.look()
    assert k8s.cluster.asked("/pods")[0]["labelSelector"] == "team=llm"
    assert "labelSelector" not in k8s.cluster.asked("/workloads")[0]


def test_a_pod_seen_before_its_job_is_not_lost(k8s: Looker) -> None:
    k8s.cluster.put("pods", a_pod("train-abcde", owner=job_ref()))
    assert k8s.look() == []
    k8s.cluster.put("jobs", a_job())
    k8s.look()
    assert k8s.one().nodes == ["gpu-1"]


# --- topology -------------------------------------------------------------------------------------------------------


def a_labelled_node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {f"site.example/{key}": value for key, value in labels.items()}}}


def test_the_elements_that_nodes_belong_to_come_from_their_labels(k8s: Looker) -> None:
    k8s.settings = {"topology": {"rack": "site.example/rack", "switch": "site.example/leaf"}}
    k8s.cluster.put("nodes", a_labelled_node("gpu-0", rack="r1", leaf="s1"))
    k8s.cluster.put("nodes", a_labelled_node("gpu-1", rack="r1", leaf="s2"))
    k8s.cluster.put("nodes", a_labelled_node("gpu-2"))
    k8s.cluster.put("jobs", a_job())
    for index in range(3):
        k8s.cluster.put("pods", a_pod(f"train-{index}-bcdfg", owner=job_ref(), node=f"gpu-{index}", index=index))
    k8s.look()
    assert k8s.one().topology == {"rack": {"r1": ["gpu-0", "gpu-1"]}, "switch": {"s1": ["gpu-0"], "s2": ["gpu-1"]}}
    k8s.cluster.requests.clear()
    k8s.look()
    assert k8s.cluster.asked("/nodes") == []


def test_nodes_that_may_not_be_listed_leave_the_topology_out_and_say_so(k8s: Looker) -> None:
    k8s.settings = {"topology": {"rack": "site.example/rack"}}
    k8s.cluster.forbidden.add("nodes")
    k8s.cluster.put("jobs", a_job())
    k8s.look()
    assert k8s.one().topology == {}
    assert k8s.last is not None and k8s.last.notes[0].startswith("topology: nodes: not allowed")


def test_a_kind_of_element_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"topology\.row: is none of switch, rail, rack"):
        KubernetesDiscovery(name="k", topology={"row": "x"}).check()


# --- what is kept ---------------------------------------------------------------------------------------------------


def test_a_run_that_is_over_leaves_the_cursor_and_is_not_told_again(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job(ended="Complete", end=60))
    k8s.look(now=70)
    k8s.look(now=2000)
    assert json.loads(k8s.cursor).get("runs", {}) == {}
    k8s.cluster.forget()
    assert k8s.look(now=2100) == []
    k8s.cluster.remove("jobs", "train")
    k8s.look(now=2200)
    assert json.loads(k8s.cursor).get("done", {}) == {}


def test_runs_from_long_before_the_first_look_are_left_out(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job(ended="Complete", end=60))
    assert k8s.look(now=200_000) == []


def test_a_job_that_retries_for_ever_stays_small(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    for number in range(60):
        k8s.cluster.put("pods", a_pod(f"train-{number:05d}", 10 * number + 1, owner=job_ref(), node=f"gpu-{number}"))
        if number:
            before = f"train-{number - 1:05d}"
            k8s.cluster.put(
                "pods",
                a_pod(
                    before,
                    10 * number - 9,
                    owner=job_ref(),
                    node=f"gpu-{number - 1}",
                    phase="Failed",
                    code=1,
                    ended=10 * number - 1,
                ),
            )
        k8s.look(now=10 * number + 5)
    assert [attempt.nodes for attempt in k8s.attempts()] == [[f"gpu-{number}"] for number in range(60)]
    (run,) = json.loads(k8s.cursor)["runs"].values()
    assert len(run["pods"]) <= 6
    k8s.cluster.forget()
    assert k8s.look(now=700) == []


def test_a_cursor_of_another_version_is_begun_anew(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.cursor = '{"runs": {"a": {"kind": 3}}}'
    k8s.look()
    assert len(k8s.attempts()) == 1


def test_hostile_objects_make_no_trouble(k8s: Looker) -> None:
    job = a_job("train\n\x00rm", labels={"team": "x"}).to_dict()
    job["metadata"]["name"] = "../../tr ain\n"
    k8s.settings = {"user_label": "team", "account_label": "nobody"}
    job["status"]["conditions"] = [
        {
            "type": "Failed",
            "status": "True",
            "reason": "A\nB\x1b[31m",
            "message": "x" * 100_000,
            "lastTransitionTime": "yesterday",
        }
    ]
    k8s.cluster.put("jobs", job)
    pod = a_pod("train-abcde", owner=("Job", "x", job["metadata"]["uid"]), node="gpu-[1-9999999]").to_dict()
    k8s.cluster.put("pods", pod)
    k8s.cluster.put("pods", {"metadata": {"name": "broken", "namespace": "ml", "uid": 3}, "spec": [], "status": "?"})
    k8s.look()
    attempt = k8s.one()
    assert attempt.nodes == []
    assert "\n" not in attempt.job_id + attempt.reason and len(attempt.reason) <= 800
    assert attempt.state == "Failed"
    assert k8s.last is not None and k8s.last.notes == ("pods: 1 could not be read and were left out",)


def test_what_cannot_be_read_is_not_held_to_be_gone(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.look()
    k8s.cluster.put("jobs", {"metadata": {**a_job().to_dict()["metadata"]}, "status": "?"})
    k8s.cluster.forget()
    k8s.look()
    assert k8s.one().state == "Pending"


def test_times_are_told_in_utc(k8s: Looker) -> None:
    k8s.cluster.put("jobs", a_job())
    k8s.look()
    assert k8s.one().submit_time == iso(0).replace("Z", "+00:00")
