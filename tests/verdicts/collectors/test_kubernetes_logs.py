"""Logs of pods: of both runs of a container, the beginning and the end of long ones, and what is said where none are.

The API server is an emulator that replays documented behaviour (see kube.py).
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kmock
import pytest

from rules.attempt import Attempt, CollectorReport
from rules.observation import Observation
from rules.ruleset import load_ruleset
from rules.words import ReportStatus
from tests.verdicts.collectors.kube import Cluster, api_server
from tests.verdicts.collectors.kube_objects import a_pod, at, ended_with, iso, job_ref, uid
from verdicts.collectors import kubernetes_logs
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.kubernetes import PodLogs
from verdicts.collectors.kubernetes_client import Api
from verdicts.collectors.sink import Sink

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
JOB = f"ml/job/train@{uid('train', 0)[:8]}"


@dataclass
class Reader:
    """A collection of an attempt's logs."""

    cluster: Cluster
    api: Api

    def read(
        self,
        *nodes: str,
        job_id: str = JOB,
        start: float = 0,
        end: float = 1000,
        seconds: float = 10,
        megabytes: int = 64,
        **settings: Any,
    ) -> tuple[list[Observation], CollectorReport]:
        source = PodLogs(name="pods", api=self.api, **settings)
        attempt = Attempt(job_id=job_id, scheduler="kubernetes", start=iso(start), end=iso(end), nodes=list(nodes))
        ruleset = load_ruleset()
        budget = Budget.of(seconds=seconds, megabytes=megabytes)
        ask = Ask("c", attempt, at(start - 300), at(end + 60), tuple(nodes), budget, ruleset)
        sink = Sink("pods", source.source, ruleset)
        error: SourceError | None = None
        try:
            source.collect(ask, sink)
        except SourceError as caught:
            error = caught
        return sink.close(error)

    def log(self, pod: str, lines: Any, *, previous: bool = False, container: str = "main") -> None:
        self.cluster.logs[pod, container, previous] = lines


@pytest.fixture
def k8s(tmp_path: Path) -> Iterator[Reader]:
    with api_server(tmp_path) as (cluster, api):
        yield Reader(cluster, api)


def nano(seconds: float, part: int = 123456789) -> str:
    return iso(seconds).replace("Z", f".{part:09d}Z")


def test_a_pods_log_has_its_node_its_rank_and_the_times_of_the_node(k8s: Reader) -> None:
    for index in (0, 1):
        k8s.cluster.put("pods", a_pod(f"train-{index}-aaaaa", owner=job_ref(), node=f"gpu-{index}", index=index))
        k8s.log(f"train-{index}-aaaaa", [f"{nano(5)} starting"])
    k8s.log("train-1-aaaaa", [f"{nano(5)} starting", f"{nano(60)} {OOM}"])
    observations, report = k8s.read("gpu-0", "gpu-1")
    (found,) = observations
    assert (found.body, found.node, found.rank, found.ref) == (OOM, "gpu-1", 1, "pods/train-1-aaaaa/main:2")
    assert found.timestamp == at(60).isoformat().replace("+00:00", ".123456+00:00")
    assert (report.status, report.read, report.reason) == (ReportStatus.OK, 3, "")


def test_a_container_restarted_in_its_pod_is_read_before_and_after(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref(), restarts=2, last=ended_with(1, 40)))
    k8s.log("train-aaaaa", [f"{nano(30)} {OOM}"], previous=True)
    k8s.log("train-aaaaa", [f"{nano(50)} starting"])
    observations, report = k8s.read("gpu-1")
    assert [found.ref for found in observations] == ["pods/train-aaaaa/main/previous:1"]
    assert report.read == 2
    asked = k8s.cluster.asked("/log")
    assert sorted(params.get("previous", "") for params in asked) == ["", "true"]
    assert all((params["timestamps"], params["sinceTime"]) == ("true", iso(-300)) for params in asked)


def test_a_container_that_crashes_again_and_again_has_only_its_last_run(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref(), restarts=5, waiting="CrashLoopBackOff"))
    k8s.log("train-aaaaa", [f"{nano(30)} {OOM}"], previous=True)
    _, report = k8s.read("gpu-1")
    assert (report.status, report.read) == (ReportStatus.OK, 1)


def test_a_pod_that_is_gone_is_a_gap_with_what_to_do(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-0-aaaaa", owner=job_ref(), node="gpu-0", index=0))
    k8s.log("train-0-aaaaa", [f"{nano(5)} starting"])
    _, report = k8s.read("gpu-0", "gpu-1", "gpu-2")
    assert report.status == ReportStatus.PARTIAL
    assert report.reason == (
        "the pod on gpu-1, gpu-2 is gone; its logs are not in the cluster any more: keep them with a log store"
    )


def test_no_pod_at_all_is_an_error(k8s: Reader) -> None:
    _, report = k8s.read("gpu-1")
    assert report.status == ReportStatus.ERROR
    assert report.reason.startswith("no pod of job/train in ml is there any more; its logs are not in the cluster")


def test_a_pod_that_goes_while_it_is_read_is_a_gap(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref()))
    path = "/api/v1/namespaces/ml/pods/train-aaaaa/log"
    k8s.cluster.answers[path] = lambda _: kmock.Response(status=404, payload={"kind": "Status", "message": "not found"})
    _, report = k8s.read("gpu-1")
    assert "train-aaaaa/main: the pod is gone" in report.reason


@pytest.mark.parametrize("why", ["ContainerCreating", "ImagePullBackOff"])
def test_a_container_that_never_started_says_why(k8s: Reader, why: str) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref(), phase="Pending", waiting=why))
    _, report = k8s.read("gpu-1")
    assert report.reason == f"pod train-aaaaa: container main has not started: {why}"
    assert k8s.cluster.asked("/log") == []


def test_a_pod_without_a_node_says_why(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref(), phase="Pending", node=None))
    _, report = k8s.read()
    assert report.reason == "pod train-aaaaa has started no container: Unschedulable"


def test_pods_of_other_attempts_are_not_read(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", 0, owner=job_ref(), phase="Failed", code=1, ended=100))
    k8s.cluster.put("pods", a_pod("train-bbbbb", 110, owner=job_ref(), phase="Failed", code=1, ended=200))
    k8s.cluster.put("pods", a_pod("train-ccccc", 210, owner=job_ref()))
    for pod in "abc":
        k8s.log(f"train-{pod * 5}", [f"{nano(150)} {OOM}"])
    observations, _ = k8s.read("gpu-1", start=110, end=210)
    assert {found.ref for found in observations} == {"pods/train-bbbbb/main:1"}


def test_lines_after_the_attempt_are_left_out(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref()))
    k8s.log("train-aaaaa", [f"{nano(30)} {OOM}", f"{nano(5000)} {OOM}"])
    _, report = k8s.read("gpu-1")
    assert report.read == 1


def test_of_a_long_log_the_beginning_and_the_end_are_read(k8s: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_logs, "HEAD_BYTES", 2000)
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref()))
    lines = [f"{nano(number / 10, number)} step {number}" for number in range(5000)]
    k8s.log("train-aaaaa", [f"{nano(0, 0)} first", *lines, f"{nano(900)} {OOM}"])
    observations, report = k8s.read("gpu-1", lines=200)
    assert [found.body for found in observations if "Memory" in found.body] == [OOM]
    assert report.status == ReportStatus.PARTIAL
    assert (
        report.reason == "train-aaaaa/main: longer than what is read of it: its beginning and its last 200 lines were"
    )
    assert 200 < report.read < 300


def test_a_log_that_is_only_a_little_longer_is_read_once_and_whole(
    k8s: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_logs, "HEAD_BYTES", 2000)
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref()))
    k8s.log("train-aaaaa", [f"{nano(number)} step {number}" for number in range(150)])
    _, report = k8s.read("gpu-1", lines=200)
    assert (report.status, report.read, report.reason) == (ReportStatus.OK, 150, "")


def test_where_so_many_lines_do_not_fit_the_last_ones_are_read(k8s: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_logs, "HEAD_BYTES", 2000)
    monkeypatch.setattr(kubernetes_logs, "MIN_SHARE", 20_000)
    monkeypatch.setattr(kubernetes_logs, "MAX_SHARE", 20_000)
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref()))
    lines = [f"{nano(number)} step {number} {'x' * 200}" for number in range(900)]
    k8s.log("train-aaaaa", [*lines, f"{nano(950)} {OOM}"])
    observations, report = k8s.read("gpu-1", lines=150)
    assert [found.body for found in observations if "Memory" in found.body] == [OOM]
    assert report.status == ReportStatus.PARTIAL and "its last " in report.reason


async def _flood(params: Any) -> AsyncIterator[bytes]:
    line = f"{nano(30)} step {'x' * 1000}\n".encode() * 64
    for _ in range((10 << 30) // len(line)):
        yield line
        await asyncio.sleep(0)


def test_ten_gigabytes_end_within_the_budget(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref()))
    k8s.log("train-aaaaa", lambda params, _: kmock.Response(status=200, payload=_flood(params)))
    _, report = k8s.read("gpu-1", megabytes=8, seconds=30)
    assert report.status == ReportStatus.PARTIAL
    assert "train-aaaaa/main: its end was not read" in report.reason or "more than 8 MiB" in report.reason
    assert report.bytes <= 9 << 20


async def _slow() -> AsyncIterator[bytes]:
    yield f"{nano(30)} {OOM}\n".encode()
    await asyncio.Event().wait()


def test_a_log_that_hangs_keeps_what_came_and_the_others(k8s: Reader) -> None:
    for index in (0, 1):
        k8s.cluster.put("pods", a_pod(f"train-{index}-aaaaa", owner=job_ref(), node=f"gpu-{index}", index=index))
    k8s.log("train-0-aaaaa", lambda *_: kmock.Response(status=200, payload=_slow()))
    k8s.log("train-1-aaaaa", [f"{nano(30)} {OOM}"])
    observations, report = k8s.read("gpu-0", "gpu-1", seconds=0.7)
    assert len(observations) == 2
    assert report.status == ReportStatus.PARTIAL


async def _cut(request: Any) -> AsyncIterator[bytes]:
    yield f"{nano(30)} {OOM}\n{nano(31)} hal".encode()
    await asyncio.sleep(0.05)
    request._raw_request.transport.abort()
    yield b"x"


def test_a_log_that_is_cut_off_keeps_what_came(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref()))
    k8s.log("train-aaaaa", lambda _, request: kmock.Response(status=200, payload=_cut(request)))
    observations, report = k8s.read("gpu-1")
    assert len(observations) == 1
    assert report.status == ReportStatus.PARTIAL and "was cut off" in report.reason


def test_five_hundred_pods_are_read_a_few_at_a_time(k8s: Reader) -> None:
    for index in range(500):
        name = f"train-{index}-aaaaa"
        k8s.cluster.put("pods", a_pod(name, owner=job_ref(), node=f"gpu-{index % 60}", index=index))
        k8s.log(name, [f"{nano(5)} starting", f"{nano(6)} {OOM}"])
    observations, report = k8s.read(*(f"gpu-{n}" for n in range(60)), seconds=60)
    assert (report.status, report.read, len(observations)) == (ReportStatus.OK, 1000, 500)


def test_logs_that_may_not_be_read_are_said_once_with_the_line_to_add(k8s: Reader) -> None:
    for index in range(7):
        k8s.cluster.put("pods", a_pod(f"train-{index}-aaaaa", owner=job_ref(), node=f"gpu-{index}", index=index))
    k8s.cluster.forbidden.add("pods/log")
    _, report = k8s.read()
    assert report.status == ReportStatus.ERROR
    assert report.reason.count("not allowed") == 1 and "and 2 more: not allowed" in report.reason
    assert 'resources: ["pods/log"], verbs: ["get"]' in report.reason


def test_an_earlier_run_whose_log_is_gone_is_a_gap(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref(), restarts=1))
    k8s.log("train-aaaaa", [f"{nano(50)} starting"])
    _, report = k8s.read("gpu-1")
    assert report.status == ReportStatus.PARTIAL
    assert (
        'train-aaaaa/main/previous: it cannot be read: BadRequest: previous terminated container "main"'
        in report.reason
    )


def test_only_the_named_containers_are_read(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref()))
    k8s.log("train-aaaaa", [f"{nano(50)} starting"])
    k8s.read("gpu-1", containers=("sidecar",))
    assert k8s.cluster.asked("/log") == []


@pytest.mark.parametrize(
    "line",
    [
        b"no stamp at all",
        b"2026-99-99T99:99:99Z bad",
        b"\xff\xfe\x00binary",
        b"x" * 3_000_000,
        b"2026-11-03T02:00:30.1Z",
        b"9999-12-31T23:59:59.999999999+00:00 far",
    ],
)
def test_hostile_lines_make_no_trouble(k8s: Reader, line: bytes) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref()))
    data = f"{nano(30)} {OOM}\n".encode() + line + b"\n" + f"{nano(31)} {OOM}".encode()
    k8s.log("train-aaaaa", lambda *_: kmock.Response(status=200, payload=data))
    observations, _ = k8s.read("gpu-1")
    assert observations


def test_an_attempt_of_another_scheduler_is_left_alone(k8s: Reader) -> None:
    _, report = k8s.read("gpu-1", job_id="4242")
    assert report.status == ReportStatus.ERROR and "does not name an object" in report.reason


def test_a_probe_says_what_is_there(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref()))
    k8s.cluster.put("nodes", {"metadata": {"name": "gpu-1"}})
    k8s.log("train-aaaaa", [f"{nano(30)} one", f"{nano(77)} two"])
    probe = PodLogs(name="pods", api=k8s.api).probe(["gpu-1", "gpu-2"], Budget.of(seconds=5, megabytes=1))
    assert (probe.version, probe.newest, probe.nodes, probe.notes) == ("v1.31.2", at(77), frozenset({"gpu-1"}), ())
    assert probe.server_time is not None


def test_a_probe_names_the_rights_that_are_missing(k8s: Reader) -> None:
    k8s.cluster.put("pods", a_pod("train-aaaaa", owner=job_ref()))
    k8s.log("train-aaaaa", [f"{nano(30)} one"])
    k8s.cluster.forbidden |= {"nodes"}
    source = PodLogs(name="pods", api=k8s.api)
    probe = source.probe(["gpu-1"], Budget.of(seconds=5, megabytes=1))
    assert probe.nodes == {"gpu-1"}
    assert 'resources: ["nodes"]' in probe.notes[0]
    k8s.cluster.forbidden |= {"pods/log"}
    with pytest.raises(SourceError, match=r'resources: \["pods/log"\], verbs: \["get"\]'):
        source.probe(["gpu-1"], Budget.of(seconds=5, megabytes=1))
