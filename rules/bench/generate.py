"""A made-up set of logs of a training job: the same bytes for the same size, nodes and rules.

The mix is what such a job writes: training iterations, NCCL's INFO lines, the program's own log, the
chatter of kernel, systemd, scheduler and Fabric Manager, lines that only look like errors, and about
one line in two hundred that some rule knows, taken from the rules' own tests. Lines are made a few
thousand at a time, so memory stays small at any size.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

import msgspec

from rules.rule import Rule
from rules.words import Role, Source

#: One line in this many is a firing line of some rule's test.
ONE_IN = 200
#: Lines that are made at a time.
BATCH = 2_000
START = datetime(2026, 11, 3, 2, 0, tzinfo=UTC)
#: How the bytes are shared out over the kinds of evidence.
SHARES = ((Source.APPLOG, 72), (Source.SYSLOG, 20), (Source.FABRIC_MANAGER, 3), (Source.SCHEDULER, 5))

Line = Callable[[random.Random, str, int, int], str]


@dataclass(frozen=True)
class LogSet:
    """What was written: where, how much, and how many lines were planted."""

    folder: Path
    bytes: int
    lines: int
    planted: int
    files: int
    nodes: int


def firing_lines(rules: list[Rule]) -> dict[Source, list[str]]:
    """By source, the lines of the rules' own tests that fire; progress and noise are in the mix as they are."""
    found: dict[Source, list[str]] = {source: [] for source in Source}
    for rule in rules:
        if rule.role in (Role.PROGRESS, Role.NOISE):
            continue
        for example in rule.test:
            if example.expect.get("matches", 0):
                found[example.source or rule.match.sources[0]] += [line for line in example.lines if len(line) < 1_000]
    return found


def generate(folder: Path, size: int, rules: list[Rule], *, nodes: int = 8, seed: int = 1) -> LogSet:
    """Write an incident folder of about `size` bytes. Raises OSError when it cannot be written."""
    names = [f"gpu-{number:03d}" for number in range(1, nodes + 1)]
    planted = firing_lines(rules)
    everything = [line for lines in planted.values() for line in lines]
    total = lines = hits = files = 0
    for source, share in SHARES:
        pool = planted[source] or everything
        if source is Source.APPLOG:
            pool = [*pool, *planted[Source.KUBERNETES], *planted[Source.NODE_METRICS], *planted[Source.NETWORK_METRICS]]
        places = ["slurmctld"] if source is Source.SCHEDULER else names
        for index, place in enumerate(places):
            rng = random.Random(f"{seed} {source} {place}")
            path = folder / source / f"{place}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            wanted = size * share // 100 // len(places)
            with path.open("wb") as out:
                for text, count, known in _batches(rng, source, place, index, pool, wanted):
                    out.write(text)
                    total, lines, hits = total + len(text), lines + count, hits + known
            files += 1
    attempt = {
        "job_id": "4711",
        "scheduler": "slurm",
        "state": "FAILED",
        "start": START.isoformat(),
        "end": (START + timedelta(days=2)).isoformat(),
        "nodes": names,
    }
    (folder / "attempt.json").write_bytes(msgspec.json.encode(attempt))
    return LogSet(folder, total, lines, hits, files, nodes)


def _batches(
    rng: random.Random, source: Source, node: str, index: int, pool: list[str], wanted: int
) -> Iterator[tuple[bytes, int, int]]:
    """Text of whole lines until `wanted` bytes are there: (text, lines, planted lines)."""
    makers, weights = zip(*_MIX[source], strict=True)
    written = number = 0
    while written < wanted:
        known = 0
        out = []
        for make in rng.choices(makers, weights, k=BATCH):
            number += 1
            if pool and rng.random() * ONE_IN < 1:
                out.append(pool[int(rng.random() * len(pool))])
                known += 1
            else:
                out.append(make(rng, node, index, number))
        text = ("\n".join(out) + "\n").encode()
        written += len(text)
        yield text, len(out), known


@lru_cache(maxsize=8)
def _second(number: int) -> tuple[str, str, str, str]:
    """The second of line `number * 25` as the four kinds of file write it."""
    stamp = START + timedelta(seconds=number % 200_000)
    return (
        f"{stamp:%Y-%m-%d %H:%M:%S}",
        f"{stamp:%b} {stamp.day:2d} {stamp:%H:%M:%S}",
        f"{stamp:%b %d %Y %H:%M:%S}",
        f"{stamp:%Y-%m-%dT%H:%M:%S}",
    )


def _clock(number: int, form: int = 0) -> str:
    return _second(number // 25)[form]


def _dashed(number: int) -> str:
    return f"{_clock(number)},{number % 25 * 40:03d}"


def _iteration(rng: random.Random, _node: str, _index: int, number: int) -> str:
    step = number // 5
    return (
        f" [{_clock(number)}] iteration {step:8d}/  500000 | consumed samples: {step * 2048:12d} | "
        f"elapsed time per iteration (ms): {5400 + rng.random() * 90:.1f} | throughput per GPU (TFLOP/s/GPU): "
        f"{410 + rng.random() * 9:.1f} | learning rate: 1.500E-04 | global batch size:  2048 | lm loss: "
        f"{2 + rng.random():.6E} | loss scale: 1.0 | grad norm: {rng.random():.3f} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def _channel(rng: random.Random, node: str, index: int, number: int) -> str:
    gpu, peer = number % 8, int(rng.random() * 64)
    return (
        f"{node}:{4100 + gpu}:{5200 + gpu} [{gpu}] NCCL INFO Channel {number % 16:02d}/0 : "
        f"{index * 8 + gpu}[{gpu}] -> {peer}[{peer % 8}] [send] via NET/IB/{gpu}/GDRDMA"
    )


def _tuning(rng: random.Random, node: str, index: int, number: int) -> str:
    gpu = number % 8
    return (
        f"{node}:{4100 + gpu}:{5200 + gpu} [{gpu}] NCCL INFO AllReduce: opCount {number:x} "
        f"sendbuff 0x7f{int(rng.random() * 2**32):08x} recvbuff 0x7f{int(rng.random() * 2**32):08x} "
        f"count {int(rng.random() * 10**8)} datatype 9 op 0 root 0 comm 0x55d0{index:04x} "
        f"[nranks=64] stream 0x55d1{gpu:04x}"
    )


def _trainer(rng: random.Random, _node: str, index: int, number: int) -> str:
    return (
        f"{_dashed(number)} INFO [trainer.py:{200 + number % 9}] rank={index * 8 + number % 8} step={number // 5} "
        f"loss={2 + rng.random():.4f} lr=1.5e-04 tokens_per_s={int(90_000 + rng.random() * 9_000)} "
        f"mem_gb={60 + rng.random() * 9:.2f}"
    )


def _loader(rng: random.Random, _node: str, index: int, number: int) -> str:
    shard = int(rng.random() * 100_000)
    return (
        f"[rank{index * 8 + number % 8}]: {_dashed(number)} INFO data.loader: "
        f"opened s3://corpus/v7/shard-{shard:06d}.tar, {int(rng.random() * 9000)} samples, "
        f"{rng.random() * 300:.1f} MB, {rng.random() * 2:.2f} s"
    )


def _saved(_rng: random.Random, _node: str, _index: int, number: int) -> str:
    return f"  successfully saved checkpoint at iteration {number // 5:7d} to /ckpt/run-7/iter_{number // 5:07d}"


def _harmless(rng: random.Random, _node: str, index: int, number: int) -> str:
    """Words of trouble in a healthy log."""
    kind = int(rng.random() * 4)
    if kind == 0:
        return (
            f"{_dashed(number)} INFO [metrics.py:88] step={number // 5} error_rate={rng.random() / 1000:.6f} retries=0"
        )
    if kind == 1:
        sample = int(rng.random() * 10**6)
        return f"{_dashed(number)} WARNING [loader.py:31] worker {number % 8}: sample {sample} skipped, decode failed"
    if kind == 2:
        return (
            "/usr/lib/python3/dist-packages/torch/utils/checkpoint.py:31: UserWarning: no input has requires_grad=True"
        )
    return f"{_dashed(number)} INFO [health.py:12] rank {index * 8 + number % 8}: 0 errors in the last 600 s"


def _bsd(text: str) -> Line:
    head, _, tail = text.partition("{")
    form = "{" + tail

    def line(rng: random.Random, node: str, _index: int, number: int) -> str:
        return f"{_clock(number, 1)} {node} {head}{form.format(n=number, r=int(rng.random() * 60_000)) if tail else ''}"

    return line


def _fabric(rng: random.Random, _node: str, _index: int, number: int) -> str:
    return (
        f"[{_clock(number, 2)}] [INFO] [tid {int(rng.random() * 60_000)}] "
        f"request to query NVSwitch {number % 4} link state, port {number % 64} active"
    )


def _slurm(rng: random.Random, _node: str, _index: int, number: int) -> str:
    return (
        f"[{_clock(number, 3)}.{number % 25 * 40:03d}] sched: Allocate JobId={4000 + int(rng.random() * 900)} "
        f"NodeList=gpu-{number % 64:03d} #CPUs=192 Partition=gpu"
    )


def _rpc(rng: random.Random, _node: str, _index: int, number: int) -> str:
    return (
        f"[{_clock(number, 3)}.{number % 25 * 40:03d}] _slurm_rpc_submit_batch_job: JobId={int(rng.random() * 9000)} "
        f"InitPrio=1000 usec={int(rng.random() * 900)}"
    )


_SYSLOG: tuple[tuple[str, float], ...] = (
    ("systemd[1]: Started Session {n} of user root.", 16),
    ("systemd[1]: session-{n}.scope: Deactivated successfully.", 12),
    ("CRON[{r}]: (root) CMD (/usr/local/sbin/node-health --quiet)", 13),
    ("sshd[{r}]: Connection closed by 10.0.0.9 port {r} [preauth]", 11),
    ('kernel: [{n}.{r:06d}] audit: type=1400 audit(17621.{n}:{r}): apparmor="STATUS" operation="profile_load"', 15),
    ("kernel: [{n}.{r:06d}] IPv6: ADDRCONF(NETDEV_CHANGE): veth{r:x}: link becomes ready", 2),
    ("kernel: [{n}.{r:06d}] docker0: port 3(veth{r:x}) entered forwarding state", 6),
    ('containerd[1201]: time="2026-11-03T02:00:00Z" level=info msg="shim disconnected" id={r:x}{n:x}', 11),
    ("slurmd[2210]: launch task StepId={n}.0 request from UID:1001 GID:1001 HOST:10.0.0.{r} PORT:{r}", 8),
    ("node_exporter[1820]: ts=2026-11-03T02:00:00Z caller=collector.go:169 level=debug duration_seconds=0.{r}", 6),
)
_MIX: dict[Source, tuple[tuple[Line, float], ...]] = {
    Source.APPLOG: (
        (_iteration, 18), (_channel, 22), (_tuning, 14), (_trainer, 30), (_loader, 15), (_saved, 0.2), (_harmless, 0.8),
    ),
    Source.SYSLOG: tuple((_bsd(text), weight) for text, weight in _SYSLOG),
    Source.FABRIC_MANAGER: ((_fabric, 1),),
    Source.SCHEDULER: ((_slurm, 3), (_rpc, 2)),
}  # fmt: skip
