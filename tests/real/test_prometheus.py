"""Metrics from the real programs: Debian's Prometheus and VictoriaMetrics with an hour of a cluster's history."""

from __future__ import annotations

import http.server
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from rules.attempt import Attempt
from rules.engine import attribute
from rules.ruleset import load_ruleset
from rules.words import ReportStatus, Source
from tests.real.running import free_port
from verdicts.collectors.ask import Ask, Budget
from verdicts.collectors.prometheus import Prometheus
from verdicts.collectors.server import Server
from verdicts.collectors.sink import Sink

#: The whole hour before last.
START = (int(time.time()) // 3600 - 2) * 3600
SCRAPE = 15
LOST, ERROR, DOWN, SILENT = START + 1800, START + 2400, START + 2700, START + 3000
NODES = ("gpu-017", "gpu-018", "gpu-019")


def gpu(node: str, number: int) -> str:
    return f'gpu="{number}",UUID="GPU-{node[-3:]}{number}",device="nvidia{number}",Hostname="{node}",instance="10.0.0.9:9400"'


def history() -> dict[str, Callable[[int], float | None]]:
    """Series and their values: GPU 1 of gpu-017 falls off the bus, gpu-018 has an old Xid, gpu-019 dies."""

    def until(moment: int, value: Callable[[int], float]) -> Callable[[int], float | None]:
        return lambda at: value(at) if at < moment else None

    out: dict[str, Callable[[int], float | None]] = {}
    for node in NODES:
        end = SILENT if node == "gpu-019" else START + 7200
        host = f'instance="{node}:9100",job="node"'
        out[f"node_boot_time_seconds{{{host}}}"] = until(end, lambda _: START - 86400)
        out[f"node_vmstat_oom_kill{{{host}}}"] = until(end, lambda at, n=node: 3 + (n == "gpu-018" and at >= ERROR))
        out[f"node_memory_MemTotal_bytes{{{host}}}"] = until(end, lambda _: 2e12)
        out[f"node_memory_MemAvailable_bytes{{{host}}}"] = until(
            end, lambda at, n=node: 1e11 if n == "gpu-018" and ERROR - 300 <= at < ERROR else 1e12
        )
        for number in range(2):
            lost = LOST + SCRAPE if (node, number) == ("gpu-017", 1) else end
            code = gpu(node, number)
            xid = 31 if node == "gpu-018" else 0
            before = f'DCGM_FI_DEV_XID_ERRORS{{{code},err_code="{xid}"}}'
            if (node, number) == ("gpu-017", 1):
                # The label repeats the value: the old series ends where the new one begins.
                out[before] = until(LOST, lambda _: 0)
                out[f'DCGM_FI_DEV_XID_ERRORS{{{code},err_code="79"}}'] = lambda at: 79 if at >= LOST else None
            else:
                out[before] = until(lost, lambda _, x=xid: x)
            out[f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{code}}}"] = until(
                end, lambda at, n=node, g=number: 2 * (n == "gpu-018" and g == 0 and at >= ERROR)
            )
            out[f"DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{code}}}"] = until(
                end, lambda at: 700 if at < ERROR else 1
            )  # it starts again from nothing
        for port in range(2):
            where = f'device="mlx5_{port}",port="1",{host}'
            slow = 25e9 if (node, port) == ("gpu-019", 0) else 50e9
            out[f"node_infiniband_rate_bytes_per_second{{{where}}}"] = until(end, lambda _, r=slow: r)
            out[f"node_infiniband_state_id{{{where}}}"] = until(
                end, lambda at, n=node, p=port: 1 if p == 1 or (n == "gpu-018" and DOWN <= at < DOWN + 120) else 4
            )
            out[f"node_infiniband_link_downed_total{{{where}}}"] = until(
                end, lambda at, n=node, p=port: 2 + (n == "gpu-018" and p == 0 and at >= DOWN)
            )
    out['up{instance="other:9090",job="self"}'] = lambda _: 1
    return out


def samples(scale: int) -> Iterator[str]:
    """The history as text, series by series, times in seconds (1) or milliseconds (1000)."""
    names: dict[str, list[str]] = {}
    for series, value in history().items():
        for at in range(START - 600, START + 4200, SCRAPE):
            if (found := value(at)) is not None:
                names.setdefault(series.partition("{")[0], []).append(f"{series} {found:g} {at * scale}")
    for name, lines in names.items():
        if scale == 1:
            yield f"# TYPE {name} gauge"
        yield from lines


def eventually(condition: Callable[[], object], what: Callable[[], str], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=2).is_success
    except httpx2.TransportError:
        return False


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="inquest-metrics-") as path:
        yield Path(path)


def serve(folder: Path, name: str, ready: str, *command: str) -> Iterator[None]:
    """Run a server until the tests are over."""
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        eventually(lambda: process.poll() is not None or answers(ready), lambda: log.read_text()[-2000:])
        assert process.poll() is None, log.read_text()[-2000:]
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.fixture(scope="module")
def exporter() -> Iterator[http.server.ThreadingHTTPServer]:
    """A node's exporter, to be scraped and to be lost."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(b"node_boot_time_seconds 1.79e9\nnode_vmstat_oom_kill NaN\n")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def prometheus(folder: Path, exporter: http.server.ThreadingHTTPServer) -> Iterator[str]:
    text = folder / "history.om"
    text.write_text("\n".join(samples(1)) + "\n# EOF\n")
    make = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    subprocess.run(make, check=True, capture_output=True, timeout=120)
    target = f"127.0.0.1:{exporter.server_address[1]}"
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        f"scrape_configs: [{{job_name: node, static_configs: [{{targets: ['{target}']}}],"
        " relabel_configs: [{target_label: instance, replacement: 'live-01:9100'}]}]\n"
    )
    port = free_port()
    yield from (
        f"http://127.0.0.1:{port}"
        for _ in serve(
            folder,
            "prometheus",
            f"http://127.0.0.1:{port}/-/ready",
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address=127.0.0.1:{port}",
        )
    )


@pytest.fixture(scope="module")
def victoria(folder: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        "victoria-metrics",
        f"-storageDataPath={folder}/victoria",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-retentionPeriod=10y",
    ]
    for _ in serve(folder, "victoria", f"{url}/health", *command):
        body = "\n".join(samples(1000)).encode()
        httpx2.post(f"{url}/api/v1/import/prometheus", content=body, timeout=30).raise_for_status()
        httpx2.get(f"{url}/internal/force_flush", timeout=30).raise_for_status()
        yield url


@pytest.fixture(params=["prometheus", "victoria"])
def store(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


def look(url: str, source: Source, nodes: tuple[str, ...] = NODES, begin: int = START, end: int = START + 3600, **more):
    """What a source gives for an attempt: the lines as rules are shown them, and the report."""
    lines: list[str] = []

    class Heard(Sink):
        def stream(self, name: str = "", *, node: str = "", rank: int | None = None):
            reader = super().stream(name, node=node, rank=rank)
            inner = reader.feed

            def feed(data: bytes, times=None, *, within=0) -> None:
                stamps = [f"{(t // 10**9) - begin + within:+d}" for t in times]
                lines.extend(f"{node} {s} {text}" for s, text in zip(stamps, data.decode().split("\n"), strict=True))
                inner(data, times, within=within)

            reader.feed = feed
            return reader

    moment = [datetime.fromtimestamp(at, UTC) for at in (begin, end)]
    budget = Budget.of(seconds=30, megabytes=64)
    ruleset = load_ruleset()
    ask = Ask("a", Attempt(job_id="1", nodes=list(nodes)), moment[0], moment[1], nodes, budget, ruleset)
    sink = Heard(collector="metrics", source=source, ruleset=ruleset)
    Prometheus(name="metrics", source=source, server=Server(url=url), **more).collect(ask, sink)
    observations, report = sink.close()
    return lines, observations, report


def said(lines: list[str], *words: str) -> list[str]:
    return [line for line in lines if all(word in line for word in words)]


def test_gpu_metrics_tell_events_of_the_attempt_from_what_was_before(store: str) -> None:
    lines, observations, report = look(store, Source.GPU_EVENTS)
    assert report.status is ReportStatus.OK, report.reason
    # The change of the last Xid is an event at its time, though a label made it another series.
    assert said(lines, " DCGM_FI_DEV_XID_ERRORS{") == [
        'gpu-017 +1800 DCGM_FI_DEV_XID_ERRORS{UUID="GPU-0171",device="nvidia1",gpu="1",Hostname="gpu-017"} 79'
    ]
    assert [one.timestamp for one in observations if "} 79" in one.body] == [
        datetime.fromtimestamp(LOST - 45, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")
    ]
    # Xids that stand since before are none.
    assert len(said(lines, "gpu-018", "+0 before(DCGM_FI_DEV_XID_ERRORS", ") 31")) == 2
    where = '{UUID="GPU-0180",device="nvidia0",gpu="0",Hostname="gpu-018"}'
    assert said(lines, "increase(") == [f"gpu-018 +2400 increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{where}) 2"]


def test_gpu_metrics_alone_lead_to_the_gpu_and_not_to_the_old_xids(store: str) -> None:
    _, observations, report = look(store, Source.GPU_EVENTS)
    start, end = (datetime.fromtimestamp(at, UTC).isoformat() for at in (START, START + 3600))
    attempt = Attempt(job_id="1", state="FAILED", nodes=list(NODES), start=start, end=end)
    verdict = attribute(attempt, observations, [report], load_ruleset())
    assert [(one.rule, one.nodes) for one in verdict.causes] == [("gpu.off-the-bus", ["gpu-017"])]
    assert {"gpu.xid-before", "host.metrics-stopped"} <= {one.rule for one in verdict.interesting}


def test_node_metrics_say_kills_full_memory_and_who_fell_silent(store: str) -> None:
    lines, _, report = look(store, Source.NODE_METRICS)
    assert report.status is ReportStatus.OK, report.reason
    assert said(lines, "increase(") == ['gpu-018 +2400 increase(node_vmstat_oom_kill{Hostname="gpu-018"}) 1']
    assert said(lines, "almost_full") == ['gpu-018 +2100 node_memory_almost_full{Hostname="gpu-018"} 0.05']
    (silent,) = said(lines, "silent{")
    assert silent.endswith('silent{Hostname="gpu-019"} 1')
    # Where nothing marks its end, a series counts as there for five minutes more.
    assert SILENT - START <= int(silent.split()[1]) <= SILENT - START + 300 + SCRAPE


def test_network_metrics_say_a_link_that_went_down_and_a_port_that_was_slow_before(store: str) -> None:
    lines, _, report = look(store, Source.NETWORK_METRICS)
    assert report.status is ReportStatus.OK, report.reason
    port = 'device="mlx5_0",port="1",Hostname="gpu-018"'
    assert said(lines, "gpu-018", "mlx5_0")[-3:] == [
        f"gpu-018 +2700 increase(node_infiniband_link_downed_total{{{port}}}) 1",
        f"gpu-018 +2700 node_infiniband_state_id{{{port}}} 1",
        f"gpu-018 +2820 node_infiniband_state_id{{{port}}} 4",
    ]
    assert said(lines, "below_siblings") == [
        'gpu-019 +0 node_infiniband_rate_below_siblings{device="mlx5_0",port="1",Hostname="gpu-019"} 25000000000'
    ]
    assert len(said(lines, "before(", "mlx5_1", ") 1")) == 3  # ports that nobody uses


def test_a_long_attempt_is_looked_at_in_coarse_steps_but_for_its_end(store: str) -> None:
    lines, _, _ = look(store, Source.GPU_EVENTS, begin=START - 3600 * 72, end=START + 3600)
    assert said(lines, " DCGM_FI_DEV_XID_ERRORS{", "} 79") and said(lines, "increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL")


def test_a_look_before_the_history_is_empty(store: str) -> None:
    _, observations, report = look(store, Source.GPU_EVENTS, begin=START - 7200, end=START - 3600)
    assert (report.status, observations) == (ReportStatus.EMPTY, [])


def test_an_expression_that_the_store_refuses_is_named(store: str) -> None:
    bad = "node_boot_time_seconds{$nodes} * on (job) node_vmstat_oom_kill{$nodes}"
    _, _, report = look(store, Source.NODE_METRICS, conditions={"twice": bad})
    assert report.status is ReportStatus.PARTIAL
    assert "condition twice" in report.reason and "HTTP 422" in report.reason


def test_a_probe_finds_the_clock_and_says_the_version_where_the_store_does(store: str) -> None:
    source = Prometheus(name="metrics", source=Source.NODE_METRICS, server=Server(url=store))
    found = source.probe(["live-01", "gpu-017"], Budget.of(seconds=10, megabytes=8))
    told = httpx2.get(f"{store}/api/v1/status/buildinfo").json().get("data", {})  # an old VictoriaMetrics says nothing
    assert found.version == told.get("version", "")
    assert found.server_time is not None
    assert abs(found.server_time - datetime.now(UTC)) < timedelta(minutes=1)


def test_an_exporter_that_is_lost_is_seen_by_a_running_server(
    prometheus: str, exporter: http.server.ThreadingHTTPServer
) -> None:
    source = Prometheus(name="metrics", source=Source.NODE_METRICS, server=Server(url=prometheus))

    def known() -> frozenset[str]:
        return source.probe(["live-01"], Budget.of(seconds=10, megabytes=8)).nodes

    def up() -> str:
        return httpx2.get(f"{prometheus}/api/v1/query", params={"query": "up"}, timeout=5).text

    eventually(lambda: known() == {"live-01"}, lambda: "the exporter was never scraped")
    found = source.probe(["live-01"], Budget.of(seconds=10, megabytes=8))
    assert found.newest is not None and datetime.now(UTC) - found.newest < timedelta(minutes=1)
    assert "label instance holds nodes' names" in found.notes
    assert any(note.startswith("no series of node_edac") for note in found.notes)
    began = int(time.time())
    exporter.shutdown()
    exporter.server_close()
    eventually(lambda: ',"0"]' in up(), lambda: f"the exporter still answers: {up()}")
    lines, _, _ = look(prometheus, Source.NODE_METRICS, ("live-01",), began - 2, int(time.time()) + 2, step=1)
    # On a busy machine a scrape before it may have been too slow.
    assert said(lines, "up{")[-1].split(" ", 2)[2] == 'up{job="node",Hostname="live-01"} 0'
