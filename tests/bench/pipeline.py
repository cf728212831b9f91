"""How many attempts a second go from discovery to a stored verdict: `python -m tests.bench.pipeline`.

A whole site runs beside it: PostgreSQL, Valkey, and so many worker processes as are asked for, with a Loki on a loopback
port that answers at once from memory. Each attempt is one of many that discovery finds over: its nodes' application
logs and kernel logs are read, scanned, stored and attributed. Printed are attempts a second, the CPU time of each
part, the statements of each stage, and, with --compare, the ratio of twice the workers to once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from tests.real.running import Site, a_site
from tests.verdicts.collectors.fake_stores import FakeLoki

END = datetime(2026, 11, 30, 2, 11, 4, tzinfo=UTC)
#: Text of a healthy training between the failure's lines.
STEP = "[{rank}]: step {step}/50000 loss {loss:.4f} lr 3.0e-04 grad_norm {norm:.3f} tokens/s {speed} mfu 0.412"
KERNEL = "{host} systemd[1]: Started Session {number} of User ada."


def a_loki(nodes: int, lines: int) -> FakeLoki:
    """A store that has one failed attempt: most lines say that all is well, the last that a GPU was lost."""
    loki = FakeLoki(max_entries=50_000, same_for_all=True)
    random.seed(4)
    names = [f"gpu-{number:03d}" for number in range(1, nodes + 1)]
    start = END - timedelta(minutes=50)
    each = lines * 9 // 10 // nodes
    for index, name in enumerate(names):
        entries = []
        for step in range(each):
            at = start + (END - start) * step / each
            text = STEP.format(
                rank=f"rank{index * 8}",
                step=step,
                loss=2 + random.random(),
                norm=random.random(),
                speed=random.randint(9000, 9999),
            )
            entries.append((int(at.timestamp() * 1e9) + index, text))
        at = int(END.timestamp() * 1e9)
        entries += [
            (
                at + 5,
                f"[rank{index * 8}]: [E1130 02:11:04.120 ProcessGroupNCCL.cpp:616] [Rank {index * 8}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=91, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds before timing out.",
            ),
            (
                at + 9,
                f"[rank{index * 8}]: RuntimeError: NCCL error: remote process exited or there was a network error",
            ),
        ]
        loki.add({"app": "train", "host": name}, entries)
    return loki


def a_kernel_loki(nodes: int, lines: int) -> FakeLoki:
    """The kernel logs of the same nodes; on one of them a GPU fell off the bus ten minutes before."""
    loki = FakeLoki(max_entries=50_000, same_for_all=True)
    start = END - timedelta(minutes=50)
    each = lines // 10 // nodes
    for index in range(1, nodes + 1):
        name = f"gpu-{index:03d}"
        entries = []
        for number in range(each):
            at = start + (END - start) * number / each
            entries.append(
                (int(at.timestamp() * 1e9) + index, f"{at:%b %d %H:%M:%S} " + KERNEL.format(host=name, number=number))
            )
        if index == 7:
            at = END - timedelta(minutes=10, seconds=4)
            entries.append(
                (
                    int(at.timestamp() * 1e9),
                    f"{at:%b %d %H:%M:%S} {name} kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=4711, GPU has fallen off the bus.",
                )
            )
        loki.add({"job": "systemd-journal", "host": name}, sorted(entries))
    return loki


def configure(site: Site, app: str, kernel: str) -> Path:
    """Write the clusters file and the folder in which attempts appear; say where the folder is."""
    folder = site.home / "attempts"
    folder.mkdir()
    config = site.home / "clusters.toml"
    config.write_text(f"""
[[cluster]]
name = "bench"
settle = 0
[[cluster.discovery]]
kind = "static"
name = "folder"
folder = "{folder}"
every = 1
[[cluster.source]]
kind = "loki"
name = "app"
source = "applog"
selector = 'app="train"'
node_label = "host"
page = 5000
server = {{ url = "{app}" }}
[[cluster.source]]
kind = "loki"
name = "kernel"
source = "syslog"
selector = 'job="systemd-journal"'
node_label = "host"
server = {{ url = "{kernel}" }}
""")
    site.settings["INQUEST_CLUSTERS_FILE"] = str(config)
    return folder


def write_attempts(folder: Path, first: int, count: int, nodes: int) -> None:
    """Let so many attempts be found over, at once."""
    for number in range(first, first + count):
        said = {
            "job_id": str(100_000 + number),
            "scheduler": "slurm",
            "workload": f"run-{number % 40}",
            "account": "ml",
            "submit_time": (END - timedelta(hours=2)).isoformat(),
            "start": (END - timedelta(minutes=55)).isoformat(),
            "end": (END + timedelta(seconds=5)).isoformat(),
            "state": "FAILED",
            "exit_code": "1:0",
            "nodes": [f"gpu-[001-{nodes:03d}]"],
        }
        fresh = folder / f"{number}.new"
        fresh.write_text(json.dumps(said))
        fresh.rename(folder / f"{number}.json")


def measured(site: Site, folder: Path, first: int, count: int, nodes: int) -> float:
    """Seconds from the first attempt's file to the last one's verdict."""
    began = time.monotonic()
    write_attempts(folder, first, count, nodes)
    query = "SELECT count(*) FROM verdicts_verdict WHERE is_current AND mode = 'slow'"
    deadline = began + 60 + count * 2
    # One connection: to make one takes PostgreSQL as long as an attempt does.
    with psycopg.connect(site.postgres.url("inquest"), autocommit=True) as connection:
        while (done := connection.execute(query).fetchall()[0][0]) < first + count:
            if time.monotonic() > deadline:
                raise SystemExit(f"only {done} verdicts of {first + count}\n{site.logs()}")
            time.sleep(0.1)
    return time.monotonic() - began


def cpu_seconds(site: Site) -> dict[str, float]:
    """CPU time so far of each of the site's process trees, and of this process, which plays the stores."""
    tick = os.sysconf("SC_CLK_TCK")
    known = {process.pid: name for name, process in site.running.items()}
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        pid = int(path.parent.name)
        # Its own and that of children that have ended: connections and workers are replaced now and then.
        parents[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:15])) / tick
    used = dict.fromkeys([*site.running, "stores"], 0.0)
    for pid, seconds in spent.items():
        above = pid
        while above in parents and above not in known:
            above = parents[above]
        if above in known:
            used[known[above]] += seconds
    own = os.times()
    used["stores"] = own.user + own.system
    return used


def run(workers: int, count: int, nodes: int, lines: int) -> float:
    """One site with so many worker processes; prints what it did, returns attempts a second."""
    with ExitStack() as stack:
        app = stack.enter_context(a_loki(nodes, lines))
        kernel = stack.enter_context(a_kernel_loki(nodes, lines))
        site = stack.enter_context(a_site())
        folder = configure(site, app.url, kernel.url)
        for number in range(workers):
            site.start_celery(
                f"worker{number}", "worker", "--concurrency", "1", "-Q", "inquest,inquest-collect",
                "--without-mingle", "--without-gossip", "-n", f"worker{number}@%h",
            )  # fmt: skip
        site.start_beat()
        measured(site, folder, 0, 2 * workers, nodes)
        before = cpu_seconds(site)
        seconds = measured(site, folder, 2 * workers, count, nodes)
        after = cpu_seconds(site)
        domains = site.ask("SELECT domain, count(*) FROM verdicts_verdict WHERE is_current GROUP BY 1")
        kept = site.ask("SELECT count(*), sum(count) FROM verdicts_observation")[0]
        rate = count / seconds
        print(
            f"{workers} worker processes: {count} attempts of {nodes} nodes and {lines} lines in {seconds:.1f} s: {rate:.1f}/s"
        )
        print(f"  verdicts by domain: {dict(domains)}; records kept: {kept[0]} for {kept[1]} lines")
        for name in before:
            print(f"  CPU {name:10} {(after[name] - before[name]) / count * 1000:6.1f} ms an attempt")
        workers_spent = sum(after[name] - before[name] for name in before if name.startswith("worker"))
        print(f"  CPU of the workers together {workers_spent / count * 1000:.1f} ms an attempt")
        return rate


def stages(count: int, nodes: int, lines: int) -> None:
    """Print how one attempt's CPU time and statements are shared among the stages, in one process without a queue."""
    with a_loki(nodes, lines) as app, a_kernel_loki(nodes, lines) as kernel, a_site() as site:
        folder = configure(site, app.url, kernel.url)
        write_attempts(folder, 0, count, nodes)
        spent = json.loads(site.run(sys.executable, "-m", "tests.bench.stages").splitlines()[-1])
        whole, statements = (sum(part) for part in zip(*spent.values(), strict=True))
        shares = (
            f"{name} {part:.0f} ms ({part / whole:.0%}, {asked:.0f} statements)"
            for name, (part, asked) in spent.items()
        )
        print(f"an attempt takes {whole:.0f} ms CPU and {statements:.0f} statements: {', '.join(shares)}")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--attempts", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--compare", action="store_true", help="run with half the workers too and print the ratio")
    options = parser.parse_args()
    stages(options.attempts, options.nodes, options.lines)
    rates = [run(options.workers, options.attempts, options.nodes, options.lines) for _ in range(options.repeat)]
    print(f"attempts/s: {min(rates):.1f} to {max(rates):.1f}, median {statistics.median(rates):.1f}")
    if options.compare:
        half = run(max(options.workers // 2, 1), options.attempts, options.nodes, options.lines)
        print(f"ratio to half the workers: {statistics.median(rates) / half:.2f}")


if __name__ == "__main__":
    main()
