"""Events and states as lines: whose they are, when they were, and what the rules make of them.

The API server is an emulator that replays documented behaviour (see kube.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kmock
import pytest
from lightkube.models.core_v1 import (
    Event,
    EventSeries,
    EventSource,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectReference,
    Taint,
)
from lightkube.models.meta_v1 import ObjectMeta

from rules.attempt import Attempt, CollectorReport
from rules.engine import attribute
from rules.observation import Observation
from rules.ruleset import load_ruleset
from rules.verdict import Verdict
from rules.words import ReportStatus
from tests.verdicts.collectors import kube_objects
from tests.verdicts.collectors.kube import Cluster, api_server
from tests.verdicts.collectors.kube_objects import a_pod, at, ended_with, iso, job_ref, uid
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.kubernetes import Events
from verdicts.collectors.kubernetes_client import Api
from verdicts.collectors.sink import Sink

JOB = f"ml/job/train@{uid('train', 0)[:8]}"
POD = "train-bcdfg"


def an_event(
    reason: str,
    message: str,
    *,
    when: float | None = 30,
    of: tuple[str, str, str] = ("Pod", POD, uid(POD, 0)),
    kind: str = "Warning",
    first: float | None = None,
    count: int | None = None,
    component: str = "kubelet",
    host: str | None = None,
    namespace: str = "ml",
    series: EventSeries | None = None,
    event_time: float | None = None,
) -> Event:
    object_kind, name, object_uid = of
    last = None if when is None else at(when)
    return Event(
        metadata=ObjectMeta(name=f"{name}.{reason}.{when}", namespace=namespace, uid=uid(name, reason, when, message)),
        involvedObject=ObjectReference(kind=object_kind, namespace=namespace, name=name, uid=object_uid),
        type=kind,
        reason=reason,
        message=message,
        count=count,
        firstTimestamp=at(first) if first is not None else last,
        lastTimestamp=last,
        eventTime=None if event_time is None else at(event_time),
        series=series,
        source=EventSource(component=component, host=host) if component else None,
        reportingComponent=component,
    )


@dataclass
class Teller:
    """A collection of what Kubernetes says of an attempt."""

    cluster: Cluster
    api: Api

    def event(self, event: Event) -> None:
        self.cluster.put("events", event)

    def tell(
        self, *nodes: str, state: str = "", start: float = 0, end: float = 1000, seconds: float = 10, **more: Any
    ) -> tuple[list[Observation], CollectorReport]:
        source = Events(name="events", api=self.api, namespaces=more.get("namespaces", ()))
        self.attempt = Attempt(
            job_id=more.get("job_id", JOB),
            scheduler="kubernetes",
            start=iso(start),
            end=iso(end),
            nodes=list(nodes),
            state=state,
        )
        ruleset = load_ruleset()
        budget = Budget.of(seconds=seconds, megabytes=more.get("megabytes", 64))
        ask = Ask("c", self.attempt, at(start - 300), at(end + 60), tuple(nodes), budget, ruleset)
        sink = Sink("events", source.source, ruleset)
        error: SourceError | None = None
        try:
            source.collect(ask, sink)
        except SourceError as caught:
            error = caught
        return sink.close(error)

    def judged(self, *nodes: str, state: str = "Failed") -> Verdict:
        observations, report = self.tell(*nodes, state=state)
        return attribute(self.attempt, observations, [report], load_ruleset())


@pytest.fixture
def k8s(tmp_path: Path) -> Iterator[Teller]:
    with api_server(tmp_path) as (cluster, api):
        yield Teller(cluster, api)


def lines(observations: list[Observation]) -> list[tuple[str, str]]:
    return sorted((found.node, found.body) for found in observations)


def test_an_event_of_a_pod_is_a_line_with_its_time_and_node(k8s: Teller) -> None:
    k8s.cluster.put("pods", a_pod(POD, owner=job_ref(), node="gpu-1"))
    k8s.event(an_event("Evicted", "The node was low on resource: memory.", when=42))
    observations, report = k8s.tell()
    (found,) = observations
    assert found.body == f"Warning  Evicted  kubelet  The node was low on resource: memory.  [pod/{POD}]"
    assert (found.node, found.timestamp) == ("gpu-1", at(42).isoformat().replace("+00:00", ".000000+00:00"))
    assert report.read == 1


def test_events_of_pods_that_are_gone_are_known_by_their_names(k8s: Teller) -> None:
    for name in ("train-bcdfg", "train-7-bcdfg", "train-big-bcdfg", "trainer-bcdfg", "train-abcde"):
        k8s.event(
            an_event("BackOff", f"Back-off restarting failed container main in pod {name}", of=("Pod", name, uid(name)))
        )
    observations, _ = k8s.tell()
    # "train-big" is another job; "a" and "e" are not in the names that controllers make.
    assert {found.body.split("[")[1] for found in observations} == {"pod/train-bcdfg]", "pod/train-7-bcdfg]"}


@pytest.mark.parametrize(
    ("job_id", "kind", "name", "ours"),
    [
        ("ml/jobset/js@00000000", "Pod", "js-workers-0-0-bcdfg", True),
        ("ml/jobset/js@00000000", "Job", "js-workers-0", True),
        ("ml/jobset/js@00000000", "Workload", "jobset-js-1a2b3", True),
        ("ml/jobset/js@00000000", "Workload", "jobset-js-big-1a2b3", False),
        ("ml/pytorchjob/p@00000000", "Pod", "p-worker-12", True),
        ("ml/pytorchjob/p@00000000", "Pod", "p-2-worker-12", False),
        ("ml/mpijob/m@00000000", "Pod", "m-launcher-bcdfg", True),
        ("ml/job/train@00000000", "Job", "train-2", False),
    ],
)
def test_what_controllers_make_for_a_run_is_known_by_its_name(
    k8s: Teller, job_id: str, kind: str, name: str, ours: bool
) -> None:
    k8s.event(an_event("BackOff", "Back-off restarting failed container", of=(kind, name, uid(name))))
    observations, _ = k8s.tell(job_id=job_id)
    assert bool(observations) is ours


def test_an_earlier_object_of_the_same_name_is_not_the_run(k8s: Teller) -> None:
    why = "Job has reached the specified backoff limit"
    k8s.event(an_event("BackoffLimitExceeded", why, of=("Job", "train", uid("train", 0)), when=10))
    k8s.event(an_event("BackoffLimitExceeded", why, of=("Job", "train", uid("another")), when=20))
    observations, _ = k8s.tell()
    assert len(observations) == 1


def test_an_event_that_came_several_times_stands_at_its_first_and_its_last(k8s: Teller) -> None:
    k8s.event(an_event("BackOff", "Back-off restarting failed container", first=10, when=400, count=9))
    observations, _ = k8s.tell()
    assert [found.timestamp for found in observations] == [
        at(when).isoformat().replace("+00:00", ".000000+00:00") for when in (10, 400)
    ]
    assert "(x9)" in observations[0].body


def test_the_newer_form_of_an_event_is_read_too(k8s: Teller) -> None:
    series = EventSeries(count=4, lastObservedTime=at(200))
    k8s.event(an_event("BackOff", "Back-off restarting failed container", when=None, event_time=100, series=series))
    observations, _ = k8s.tell()
    assert len(observations) == 2 and "(x4)" in observations[0].body


def test_events_from_outside_the_window_are_left_out(k8s: Teller) -> None:
    k8s.event(an_event("BackOff", "Back-off restarting failed container", when=-4000))
    k8s.event(an_event("BackOff", "Back-off restarting failed container", when=4000))
    observations, _ = k8s.tell()
    assert observations == []


def annotated(thing: Any, name: str, value: str, **labels: str) -> dict[str, Any]:
    made: dict[str, Any] = thing if isinstance(thing, dict) else thing.to_dict()
    meta = made["metadata"]
    meta["annotations"] = {name: value}
    meta["labels"] = (meta.get("labels") or {}) | {key.replace("__", "/"): text for key, text in labels.items()}
    return made


@pytest.mark.parametrize(("kind", "plural"), [("Job", "jobs"), ("JobSet", "jobsets"), ("PyTorchJob", "pytorchjobs")])
def test_what_a_run_says_of_recovery_is_kept_as_a_line(k8s: Teller, kind: str, plural: str) -> None:
    run = kube_objects.a_job() if kind == "Job" else kube_objects.a_run(kind)
    k8s.cluster.put(plural, annotated(run, "inquest/recovery", " restart, Exclude,max = 3"))
    other = kube_objects.a_job("other") if kind == "Job" else kube_objects.a_run(kind, "other")
    k8s.cluster.put(plural, annotated(other, "inquest/recovery", "off"))
    job_id = f"ml/{kind.lower()}/train@{uid('train', 0)[:8]}"
    observations, _ = k8s.tell(job_id=job_id)
    assert lines(observations) == [("", "Annotation inquest/recovery=restart,Exclude,max=3")]
    # What was made again under the same name says nothing of this one.
    again = f"ml/{kind.lower()}/train@00000000"
    assert k8s.tell(job_id=again)[0] == []


def test_a_runs_workload_can_say_it_too_and_what_is_no_word_stays_unknown(k8s: Teller) -> None:
    run = kube_objects.a_run("PyTorchJob", labels={"kueue.x-k8s.io/queue-name": "team-a"})
    owner = ("PyTorchJob", "train", uid("train", 0))
    label = {"kueue.x-k8s.io__job-uid": uid("train", 0)}
    k8s.cluster.put("pytorchjobs", annotated(run, "inquest/recovery", "x" * 300))
    k8s.cluster.put("workloads", annotated(kube_objects.a_workload(owner), "inquest/recovery", "off; please!", **label))
    job_id = f"ml/pytorchjob/train@{uid('train', 0)[:8]}"
    said = ["Annotation inquest/recovery=off,please_", "Annotation inquest/recovery=too-long"]
    assert [text for _, text in lines(k8s.tell(job_id=job_id)[0])] == said
    k8s.cluster.forbidden.add("pytorchjobs")
    _, report = k8s.tell(job_id=job_id)
    assert "annotations: not allowed" in report.reason


def test_a_window_that_is_older_than_events_live_is_a_gap(k8s: Teller) -> None:
    k8s.event(an_event("BackOff", "Back-off restarting failed container"))
    _, report = k8s.tell()
    assert report.status == ReportStatus.PARTIAL
    assert "UTC are not in the cluster any more: it keeps them for an hour" in report.reason


def test_events_come_in_pages_and_a_list_that_expired_is_begun_again(
    k8s: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verdicts.collectors.kubernetes_client.PAGE", 10)
    k8s.cluster.expire_continue = 1
    for number in range(35):
        k8s.event(an_event("BackOff", "Back-off restarting failed container", when=number))
    _, report = k8s.tell()
    assert report.read == 35


def test_a_nodes_events_come_from_the_default_namespace(k8s: Teller) -> None:
    for name in ("gpu-1", "gpu-2"):
        k8s.event(
            an_event(
                "NodeNotReady",
                f"Node {name} status is now: NodeNotReady",
                of=("Node", name, name),
                namespace="default",
                component="node-controller",
            )
        )
    k8s.cluster.put("nodes", Node(metadata=ObjectMeta(name="gpu-1")))
    observations, _ = k8s.tell("gpu-1")
    assert [found.node for found in observations] == ["gpu-1"]
    assert k8s.cluster.asked("/namespaces/default/events")[0]["fieldSelector"] == "involvedObject.kind=Node"


def a_node(name: str, *conditions: NodeCondition, taints: list[Taint] | None = None, closed: bool = False) -> Node:
    return Node(
        metadata=ObjectMeta(name=name),
        spec=NodeSpec(taints=taints, unschedulable=closed or None),
        status=NodeStatus(conditions=list(conditions)),
    )


def test_what_is_not_well_with_a_node_is_a_line_at_the_time_it_became_so(k8s: Teller) -> None:
    lost = NodeCondition(
        type="Ready",
        status="Unknown",
        reason="NodeStatusUnknown",
        message="Kubelet stopped posting node status.",
        lastTransitionTime=at(70),
    )
    well = NodeCondition(
        type="MemoryPressure", status="False", reason="KubeletHasSufficientMemory", lastTransitionTime=at(1)
    )
    k8s.cluster.put("nodes", a_node("gpu-1", lost, well))
    k8s.cluster.put(
        "nodes",
        a_node(
            "gpu-2", well, NodeCondition(type="Ready", status="True", reason="KubeletReady", lastTransitionTime=at(1))
        ),
    )
    k8s.cluster.put(
        "nodes",
        a_node(
            "gpu-3",
            NodeCondition(
                type="DiskPressure", status="True", reason="KubeletHasDiskPressure", lastTransitionTime=at(9)
            ),
        ),
    )
    k8s.cluster.put("nodes", a_node("gpu-4", closed=True))
    observations, _ = k8s.tell("gpu-1", "gpu-2", "gpu-3", "gpu-4")
    assert lines(observations) == [
        ("gpu-1", "gpu-1   NotReady   Ready  Unknown  NodeStatusUnknown  Kubelet stopped posting node status."),
        ("gpu-3", "gpu-3   DiskPressure   True   KubeletHasDiskPressure"),
        ("gpu-4", "gpu-4   Ready,SchedulingDisabled"),
    ]


def test_what_became_of_a_node_after_the_attempt_is_left_out(k8s: Teller) -> None:
    lost = NodeCondition(type="Ready", status="Unknown", reason="NodeStatusUnknown", lastTransitionTime=at(5000))
    k8s.cluster.put("nodes", a_node("gpu-1", lost))
    observations, _ = k8s.tell("gpu-1")
    assert observations == []


def test_a_node_that_is_gone_is_a_gap(k8s: Teller) -> None:
    _, report = k8s.tell("gpu-1")
    assert "the nodes gpu-1 are not in the cluster any more" in report.reason


def test_many_nodes_are_listed_instead_of_asked_for_one_by_one(k8s: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verdicts.collectors.kubernetes_client.PAGE", 50)
    lost = NodeCondition(type="Ready", status="False", reason="KubeletNotReady", lastTransitionTime=at(5))
    for number in range(120):
        k8s.cluster.put("nodes", a_node(f"gpu-{number}", lost))
    observations, _ = k8s.tell(*(f"gpu-{number}" for number in range(100)))
    assert len({found.node for found in observations}) == 100
    assert len(k8s.cluster.asked("/nodes")) == 3


def test_how_containers_ended_is_a_line_each(k8s: Teller) -> None:
    k8s.cluster.put(
        "pods",
        a_pod(
            POD,
            owner=job_ref(),
            node="gpu-1",
            restarts=1,
            phase="Failed",
            code=1,
            ended=90,
            last=ended_with(137, 50, "OOMKilled"),
        ),
    )
    observations, _ = k8s.tell()
    assert [(found.node, found.body) for found in observations] == [
        ("gpu-1", f"pod/{POD}  main  State: Terminated  Reason: OOMKilled  Exit Code: 137"),
        ("gpu-1", f"pod/{POD}  main  State: Terminated  Reason: Error  Exit Code: 1"),
    ]


# --- what the rules make of it --------------------------------------------------------------------------------------


def domain_and_nodes(verdict: Verdict) -> tuple[str, list[str]]:
    return str(verdict.attributed_domain), list(verdict.affected_nodes)


def test_an_oom_kill_is_laid_to_the_memory_limit_of_its_pod(k8s: Teller) -> None:
    k8s.cluster.put(
        "pods", a_pod(POD, owner=job_ref(), node="gpu-1", phase="Failed", code=137, ended=90, why="OOMKilled")
    )
    k8s.cluster.put("nodes", a_node("gpu-1"))
    verdict = k8s.judged("gpu-1")
    assert domain_and_nodes(verdict)[0] == "resource_exhaustion"
    assert str(verdict.terminal_state) == "out_of_memory"


def test_a_pod_that_was_preempted_is_laid_to_the_scheduler(k8s: Teller) -> None:
    k8s.cluster.put(
        "pods", a_pod(POD, owner=job_ref(), phase="Failed", code=143, ended=90, disrupted="PreemptionByScheduler")
    )
    k8s.event(an_event("Preempted", "Preempted by pod 1f2e on node gpu-1", component="default-scheduler", when=60))
    assert domain_and_nodes(k8s.judged())[0] == "scheduler"


def test_kueues_eviction_is_laid_to_the_scheduler(k8s: Teller) -> None:
    k8s.event(
        an_event(
            "EvictedDueToPreempted",
            "Preempted to accommodate a workload (UID: 1)",
            kind="Normal",
            of=("Workload", "job-train-1a2b3", uid("wl")),
            component="kueue-admission",
        )
    )
    verdict = k8s.judged(state="Preempted")
    assert (domain_and_nodes(verdict)[0], str(verdict.terminal_state)) == ("scheduler", "preempted")


def test_an_image_that_cannot_be_pulled_is_laid_to_the_image(k8s: Teller) -> None:
    k8s.cluster.put("pods", a_pod(POD, owner=job_ref(), phase="Pending", waiting="ImagePullBackOff"))
    k8s.event(
        an_event(
            "Failed",
            'Failed to pull image "reg/train:9": rpc error: code = NotFound desc = failed to resolve reference "reg/train:9": not found',
        )
    )
    assert domain_and_nodes(k8s.judged())[0] == "container_image"


# --- gaps -----------------------------------------------------------------------------------------------------------


def test_a_kind_that_may_not_be_listed_is_a_gap_and_the_others_are_read(k8s: Teller) -> None:
    k8s.cluster.forbidden.add("nodes")
    k8s.event(an_event("BackOff", "Back-off restarting failed container"))
    observations, report = k8s.tell("gpu-1")
    assert len(observations) == 1
    assert report.status == ReportStatus.PARTIAL
    assert 'resources: ["nodes"], verbs: ["get", "list"]' in report.reason


def test_an_api_server_that_says_nothing_is_an_error_within_the_budget(k8s: Teller) -> None:
    k8s.cluster.hang |= {"pods", "events", "nodes"}
    _, report = k8s.tell("gpu-1", seconds=0.5)
    assert report.status == ReportStatus.ERROR and report.reason.startswith("pods: ")


def test_pages_that_came_before_the_budget_was_spent_are_kept(k8s: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verdicts.collectors.kubernetes_client.PAGE", 10)
    for number in range(30):
        k8s.event(an_event("BackOff", "Back-off restarting failed container", when=number))
    path = "/api/v1/namespaces/ml/events"

    def answer(request: Any) -> Any:
        if "continue" in request.params:
            return kmock.Response(status=200, payload=b"[" + b" " * (3 << 20))
        return k8s.cluster._list("events", "ml", dict(request.params))

    k8s.cluster.answers[path] = answer
    _, report = k8s.tell(megabytes=2)
    assert report.status == ReportStatus.PARTIAL
    assert report.read == 10
    assert "events: more than 2 MiB" in report.reason


def test_a_damaged_answer_is_a_gap(k8s: Teller) -> None:
    path = "/api/v1/namespaces/ml/events"
    k8s.cluster.answers[path] = lambda _: kmock.Response(status=200, payload=b'{"items": [{"metadata": 3}]}')
    k8s.cluster.put("pods", a_pod(POD, owner=job_ref(), node="gpu-1", phase="Failed", code=1, ended=90))
    observations, report = k8s.tell()
    assert len(observations) == 1
    assert "events: an event that cannot be read" in report.reason


@pytest.mark.parametrize(
    "message",
    [
        "a\nWarning  OOMKilled  b",
        "\x1b[31mred\x00",
        "x" * 100_000,
        "\u202eevil\u2028 ",
        "token=ghp_0123456789abcdefghijABCDEFGHIJ012345",
    ],
)
def test_hostile_messages_stay_one_line(k8s: Teller, message: str) -> None:
    k8s.event(an_event("BackOff", f"Back-off restarting failed container {message}"))
    observations, report = k8s.tell()
    assert report.read == 1
    assert all("\n" not in found.body and "ghp_" not in found.body for found in observations)


def test_a_probe_says_the_newest_event_and_the_nodes(k8s: Teller) -> None:
    k8s.event(an_event("BackOff", "x", when=10))
    k8s.event(an_event("BackOff", "x", when=90))
    k8s.cluster.put("nodes", a_node("gpu-1"))
    probe = Events(name="e", api=k8s.api).probe(["gpu-1", "gpu-9"], Budget.of(seconds=5, megabytes=1))
    assert (probe.newest, probe.nodes, probe.version) == (at(90), frozenset({"gpu-1"}), "v1.31.2")
    k8s.cluster.forbidden.add("events")
    with pytest.raises(SourceError, match=r'resources: \["events"\], verbs: \["list"\]'):
        Events(name="e", api=k8s.api).probe([], Budget.of(seconds=5, megabytes=1))


def test_of_a_long_attempt_the_last_hour_is_enough(k8s: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    monkeypatch.setattr(kube_objects, "START", now - timedelta(hours=5))
    k8s.event(an_event("BackOff", "Back-off restarting failed container", when=4.9 * 3600))
    _, report = k8s.tell(end=4.95 * 3600)
    assert report.status == ReportStatus.OK
    assert "it keeps them for an hour" in report.reason


@pytest.mark.parametrize("job_id", ["../job/train@00000000", "ml/job/a,b=c@00000000", "ml/job/../x@00000000", "a/b"])
def test_a_job_id_cannot_lead_anywhere_else(k8s: Teller, job_id: str) -> None:
    _, report = k8s.tell(job_id=job_id)
    assert "does not name an object" in report.reason
    assert k8s.cluster.requests == []


def test_a_namespace_that_is_not_configured_is_not_read(k8s: Teller) -> None:
    _, report = k8s.tell(namespaces=("other",))
    assert report.reason == "namespaces: ml is not one that is read"
    assert k8s.cluster.requests == []
