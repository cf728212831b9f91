"""Kubernetes inside the pipeline: from what runs in a cluster to one verdict for each attempt.

The API server is an emulator that replays documented behaviour (see collectors/kube.py).
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.verdicts.collectors import kube_objects
from tests.verdicts.collectors.kube import Cluster, api_server
from tests.verdicts.collectors.kube_objects import a_job, a_pod, a_workload, at, iso, job_ref, uid
from tests.verdicts.collectors.test_kubernetes_events import an_event
from verdicts import clusters, conclude
from verdicts.collecting import discover, gather
from verdicts.collectors.config import Clusters, read_clusters
from verdicts.models import Attempt, Discovery, Observation, Verdict
from verdicts.sources import check as source_check
from verdicts.sources import standing as sources

pytestmark = pytest.mark.django_db

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
QUEUED = {"kueue.x-k8s.io/queue-name": "team-a"}

FILE = """
[[cluster]]
name = "k8s"
settle = 0

[[cluster.discovery]]
kind = "kubernetes"
name = "kubernetes"
api  = {{ kubeconfig = "{config}" }}

[[cluster.source]]
kind = "kubernetes-logs"
name = "pods"
api  = {{ kubeconfig = "{config}" }}

[[cluster.source]]
kind = "kubernetes-events"
name = "events"
api  = {{ kubeconfig = "{config}" }}
"""


@pytest.fixture
def k8s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> Iterator[Cluster]:
    """A cluster in the clusters file, ten minutes into its life."""
    monkeypatch.setattr(kube_objects, "START", datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10))
    sources.forget()
    clusters.cluster_row.cache_clear()
    with api_server(tmp_path) as (cluster, api):
        path = tmp_path / "clusters.toml"
        path.write_text(FILE.format(config=api.kubeconfig))
        configured: Clusters = read_clusters(path)
        for module in (gather, discover):
            monkeypatch.setattr(module, "current_clusters", lambda: configured)
        yield cluster


def look() -> None:
    """One turn of everything that a worker does."""
    discover.ensure()
    Discovery.objects.update(due_at=datetime.now(UTC) - timedelta(seconds=1))
    assert discover.work() == 1
    assert Discovery.objects.get().error == ""
    gather.work()
    conclude.work()


def test_a_job_that_failed_gets_a_verdict_from_its_pods_logs(k8s: Cluster) -> None:
    k8s.put("jobs", a_job())
    k8s.put("nodes", {"metadata": {"name": "gpu-1"}})
    k8s.put("pods", a_pod("train-bcdfg", 1, owner=job_ref(), node="gpu-1"))
    look()
    running = Attempt.objects.get()
    assert (running.state, running.ended_at) == ("Running", None)
    assert Verdict.objects.count() == 0
    k8s.logs["train-bcdfg", "main", False] = [f"{iso(30).removesuffix('Z')}.5Z {OOM}"]
    k8s.put("pods", a_pod("train-bcdfg", 1, owner=job_ref(), node="gpu-1", phase="Failed", code=1, ended=40))
    k8s.put("jobs", a_job(ended="Failed", end=45, reason="BackoffLimitExceeded", message="x"))
    look()
    attempt = Attempt.objects.get()
    verdict = attempt.verdicts.current().get()
    assert (verdict.domain, verdict.body["terminal_state"]) == ("resource_exhaustion", "failed")
    assert {(o.node, o.ref) for o in Observation.objects.filter(collector="pods")} == {
        ("gpu-1", "pods/train-bcdfg/main:1")
    }
    coverage = {one["source"]: one["status"] for one in verdict.body["coverage"]}
    assert (coverage["applog"], coverage["kubernetes"]) == ("ok", "ok")


def test_each_admission_gets_its_own_verdict_also_when_its_pods_are_gone(k8s: Cluster) -> None:
    ref = job_ref()
    k8s.put("jobs", a_job(labels=QUEUED, start=10))
    k8s.put("workloads", a_workload(ref, admitted=10))
    k8s.put("pods", a_pod("train-bcdfg", 11, owner=ref, node="gpu-1"))
    look()
    why = (
        60,
        "Preempted",
        "Preempted to accommodate a workload (UID: 1, JobUID: 2) due to prioritization in the ClusterQueue",
    )
    k8s.put("workloads", a_workload(ref, not_admitted=61, evicted=why, preempted="InClusterQueue"))
    k8s.put("jobs", a_job(labels=QUEUED, suspend=True, end=61))
    k8s.remove("pods", "train-bcdfg")
    k8s.put(
        "events",
        an_event(
            "EvictedDueToPreempted", why[2], when=60, of=("Workload", "job-train-1a2b3", uid("wl")), kind="Normal"
        ),
    )
    look()
    k8s.put("workloads", a_workload(ref, admitted=100, before=(100, why[2]), evictions={"Preempted": 1}))
    k8s.put("jobs", a_job(labels=QUEUED, start=100))
    k8s.put("pods", a_pod("train-hjklm", 101, owner=ref, node="gpu-2"))
    look()
    first, second = Attempt.objects.order_by("restart_count")
    assert (first.body["nodes"], first.ended_at, first.state) == (["gpu-1"], at(60), "Preempted")
    assert (second.body["nodes"], second.ended_at, second.restart_count) == (["gpu-2"], None, 1)
    verdict = Verdict.objects.get()
    assert (verdict.attempt_id, verdict.domain, verdict.body["terminal_state"]) == (first.pk, "scheduler", "preempted")
    reasons = {one["source"]: one.get("reason", "") for one in verdict.body["coverage"]}
    assert "keep them with a log store" in reasons["applog"]


def test_an_api_server_that_is_away_for_a_while_loses_and_doubles_nothing(k8s: Cluster) -> None:
    k8s.put("jobs", a_job())
    k8s.put("pods", a_pod("train-bcdfg", 1, owner=job_ref(), node="gpu-1"))
    look()
    cursor = Discovery.objects.get().cursor
    k8s.forbidden |= {"jobs", "jobsets", "pytorchjobs", "mpijobs", "trainjobs", "pods", "workloads"}
    Discovery.objects.update(due_at=datetime.now(UTC) - timedelta(seconds=1))
    discover.work()
    row = Discovery.objects.get()
    assert "not allowed" in row.error and row.cursor == cursor
    k8s.forbidden.clear()
    k8s.remove("pods", "train-bcdfg")
    k8s.put("jobs", a_job(ended="Complete", end=90))
    k8s.forget()
    look()
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.body["nodes"], attempt.ended_at) == ("Complete", ["gpu-1"], at(90))


def test_the_clusters_file_names_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "clusters.toml"
    path.write_text(FILE.format(config=tmp_path / "nothing"))
    with pytest.raises(ValueError, match=r"api\.kubeconfig: Configuration file .* not found"):
        read_clusters(path)


def test_the_contract_check_sees_both_sources_and_names_a_right_that_is_missing(
    k8s: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_check, "current_clusters", gather.current_clusters)
    k8s.put("nodes", {"metadata": {"name": "gpu-1"}})
    k8s.put("pods", a_pod("train-bcdfg", 1, owner=job_ref(), node="gpu-1"))
    k8s.logs["train-bcdfg", "main", False] = [f"{iso(590)} step 1"]
    k8s.put("events", an_event("Started", "Started container main", when=590, kind="Normal"))
    found = {one.name: one for one in source_check.check(nodes=["gpu-1"])}
    assert {name: one.health for name, one in found.items()} == {"pods": "sees", "events": "sees"}
    assert found["pods"].version == "v1.31.2"
    k8s.forbidden.add("pods/log")
    found = {one.name: one for one in source_check.check(nodes=["gpu-1"])}
    assert found["pods"].health == "blind"
    assert 'resources: ["pods/log"], verbs: ["get"]' in found["pods"].fix[0]
