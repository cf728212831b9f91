"""Every kind of source made to fail in every way: the verdict comes, and says exactly what was missing.

The sources are the real collectors; what is at the other end is a socket of the test's.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rules.words import Source
from tests.verdicts.builders import an_attempt
from tests.verdicts.collectors.raw_server import RawServer, ok, raw_server, status
from verdicts import clusters, conclude
from verdicts.collecting import discover, gather
from verdicts.collectors.config import Clusters, ClusterSettings
from verdicts.collectors.elasticsearch import Elasticsearch
from verdicts.collectors.files import Files
from verdicts.collectors.loki import Loki
from verdicts.collectors.prometheus import Prometheus
from verdicts.collectors.source import SourceSettings
from verdicts.collectors.victorialogs import VictoriaLogs
from verdicts.models import Attempt, Collection
from verdicts.sources import standing as sources

pytestmark = pytest.mark.django_db

XID = "2026-11-03T02:00:01+00:00 gpu-01 kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=7, GPU has fallen off the bus."
Make = Callable[[RawServer, Source, int], SourceSettings]

MAKERS: dict[str, Make] = {
    "loki": lambda raw, kind, seconds: Loki(
        name="faulty",
        source=kind,
        seconds=seconds,
        megabytes=1,
        server=raw.server(),
        selector='a="b"',
        node_label="host",
    ),
    "victorialogs": lambda raw, kind, seconds: VictoriaLogs(
        name="faulty", source=kind, seconds=seconds, megabytes=1, server=raw.server(), selector="*", node_field="host"
    ),
    "elasticsearch": lambda raw, kind, seconds: Elasticsearch(
        name="faulty", source=kind, seconds=seconds, megabytes=1, server=raw.server(), index="logs-*", node_field="host"
    ),
    "prometheus": lambda raw, _, seconds: Prometheus(
        name="faulty", source=Source.NODE_METRICS, seconds=seconds, megabytes=1, server=raw.server()
    ),
}


def hangs(connection: socket.socket, request: bytes) -> None:
    connection.settimeout(20)
    with suppress(OSError):
        connection.recv(1)


def hangs_in_the_middle(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90000\r\n\r\n{"status":')
    hangs(connection, request)


def is_cut_off(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90000\r\n\r\n{"status":')


def never_ends(connection: socket.socket, request: bytes) -> None:
    connection.sendall(
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10737418240\r\n\r\n{"status":"'
    )
    with suppress(OSError):
        while True:
            connection.sendall(b"x" * 65_536)


FAULTS: dict[str, tuple[Callable[[socket.socket, bytes], None], tuple[str, ...]]] = {
    "hangs": (hangs, ("no answer within", "within its 1 s")),
    "hangs in the middle": (hangs_in_the_middle, ("within its 1 s", "in the middle of an answer")),
    "is cut off": (is_cut_off, ("cut off",)),
    "answers with errors": (status(500, b"ingester is down"), ("ingester is down",)),
    "lets nobody in": (status(401, b"no token"), ("not let in", "no token")),
    "is no such server": (ok(b"<html>hello</html>"), ("a web page instead of data",)),
    "sends ten gigabytes": (never_ends, ("more than 1 MiB",)),
}


@pytest.fixture
def one_source(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> Iterator[Callable[..., Attempt]]:
    """Find an attempt over on a cluster with the sources given."""
    sources.forget()
    clusters.cluster_row.cache_clear()

    def find(*configured: SourceSettings) -> Attempt:
        cluster = ClusterSettings(name="alpha", settle=0, deadline=30, source=list(configured))  # type: ignore[arg-type]
        for module in (gather, discover):
            monkeypatch.setattr(module, "current_clusters", lambda: Clusters(cluster=[cluster]))
        assert discover.store(cluster, [an_attempt()]) == []
        return Attempt.objects.get()

    yield find
    sources.forget()


@pytest.mark.parametrize("system", MAKERS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_source_that_fails_is_told_of_and_the_verdict_comes(
    one_source: Callable[..., Attempt], system: str, fault: str
) -> None:
    answer, words = FAULTS[fault]
    with raw_server(answer) as raw:
        # A busy machine may take its time for what answers; what hangs costs the test its whole budget.
        source = MAKERS[system](raw, Source.SYSLOG, 1 if fault.startswith("hangs") else 20)
        attempt = one_source(source)
        gather.work()
    conclude.work()
    body = attempt.verdicts.current().get().body
    [told] = [one for one in body["coverage"] if one["source"] == source.source]
    assert told["status"] in ("error", "partial")
    assert any(word in told["reason"] for word in words), told["reason"]
    assert Collection.objects.filter(round=1, finished_at__isnull=False).exists()


def test_files_that_cannot_be_read_or_never_end_are_told_of(one_source: Callable[..., Attempt], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gpu-01.log")
    (tmp_path / "gpu-02.log").write_text(XID.replace("gpu-01", "gpu-02") + "\n")
    attempt = one_source(Files(name="logs", source=Source.SYSLOG, seconds=1, root=str(tmp_path), paths=["{node}.log"]))
    gather.work()
    conclude.work()
    verdict = attempt.verdicts.current().get()
    [told] = [one for one in verdict.body["coverage"] if one["source"] == "syslog"]
    assert told["status"] == "partial"
    assert "gpu-01.log: not a regular file" in told["reason"]
    assert verdict.domain == "gpu_hardware"


def test_a_source_that_could_have_said_otherwise_keeps_the_verdict_from_being_strong(
    one_source: Callable[..., Attempt], tmp_path: Path
) -> None:
    (tmp_path / "gpu-01.log").write_text(XID + "\n")
    (tmp_path / "gpu-02.log").write_text(
        "2026-11-03T02:00:00+00:00 gpu-02 systemd[1]: Started Session 4 of User ada.\n"
    )
    (tmp_path / "train.out").write_text(
        "2026-11-03T02:11:00Z [rank0]: RuntimeError: NCCL error: remote process exited or there was a network error\n"
    )
    kernel = Files(name="kernel", source=Source.SYSLOG, root=str(tmp_path), paths=["{node}.log"])
    whole = one_source(kernel, Files(name="train", source=Source.APPLOG, root=str(tmp_path), paths=["train.out"]))
    gather.work()
    conclude.work()
    with_all = whole.verdicts.current().get()
    Attempt.objects.filter(pk=whole.pk).update(job_id="first")
    with raw_server(status(500, b"down")) as raw:
        faulty = one_source_again(one_source, kernel, MAKERS["loki"](raw, Source.APPLOG, 20))
        gather.work()
    conclude.work()
    without = faulty.verdicts.current().get()
    assert with_all.domain == without.domain == "gpu_hardware"
    assert (with_all.strength, without.strength) == ("strong", "moderate")


def one_source_again(find: Callable[..., Attempt], *configured: SourceSettings) -> Attempt:
    """Another attempt, beside the first."""
    before = set(Attempt.objects.values_list("pk", flat=True))
    with suppress(Attempt.MultipleObjectsReturned):
        find(*configured)
    return Attempt.objects.exclude(pk__in=before).get()
