"""Whole incidents through the real engine and the real rules: large ones, and ones whose text is hostile."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from rules.attempt import Attempt, CollectorReport, RankPlace
from rules.engine import attribute
from rules.observation import Observation
from rules.ruleset import Ruleset, load_ruleset
from rules.verdict import canonical_json
from rules.words import ReportStatus, Source

#: Text that must stay text wherever it is shown: markup, an attribute's end, an escape sequence, reordering marks.
HOSTILE = '</script><img src=x onerror=alert(1)> "onload="alert(2) {{ 7*7 }} %{x} \x1b[31m \u202eevil\u2066'


@cache
def shipped() -> Ruleset:
    """The rules that come with the product."""
    return load_ruleset()


def body_of(attempt: Attempt, observations: list[Observation], reports: list[CollectorReport]) -> dict[str, Any]:
    """What the engine concludes, as stored."""
    return dict(json.loads(canonical_json(attribute(attempt, observations, reports, shipped()))))


def many_ranks(ranks: int = 1000, per_node: int = 8) -> tuple[Attempt, list[Observation], list[CollectorReport]]:
    """A GPU that falls off the bus on one of many nodes, and a NCCL timeout of every rank but its own."""
    nodes = [f"gpu-{number:03}" for number in range(1, ranks // per_node + 1)]
    attempt = Attempt(
        job_id="90210",
        cluster="alpha",
        scheduler="slurm",
        workload="pretrain-400b",
        submit_time="2026-11-03T01:00:00+00:00",
        start="2026-11-03T01:10:00+00:00",
        end="2026-11-03T02:21:30+00:00",
        state="FAILED",
        exit_code="1:0",
        user="ada",
        nodes=nodes,
        ranks={str(rank): RankPlace(node=nodes[rank // per_node], gpu=str(rank % per_node)) for rank in range(ranks)},
    )
    lost = 17
    said = [
        Observation(
            source=Source.SYSLOG,
            body="Nov  3 02:11:04 gpu-003 kernel: [412337.118203] NVRM: Xid (PCI:0000:65:00): 79, pid=4711, "
            "GPU has fallen off the bus.",
            ref="syslog/gpu-003.log:1204",
            node="gpu-003",
            timestamp="2026-11-03T02:11:04+00:00",
            observed_timestamp="2026-11-03T02:40:00+00:00",
            collector="files",
        )
    ]
    for rank in range(ranks):
        if rank == lost:
            continue
        at = f"2026-11-03T02:21:{6 + rank % 20:02}.{rank % 1000:03}000+00:00"
        said.append(
            Observation(
                source=Source.APPLOG,
                body=f"[rank{rank}]:[E1103 02:21:06.512334 2211 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
                "collective operation timeout: WorkNCCL(SeqNum=48122, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
                "Timeout(ms)=600000) ran for 600011 milliseconds before timing out.",
                ref=f"applog/rank{rank}.log:88213",
                node=nodes[rank // per_node],
                rank=rank,
                timestamp=at,
                collector="files",
            )
        )
    reports = [
        CollectorReport(source=Source.APPLOG, status=ReportStatus.OK, read=90_000, kept=ranks - 1, delivered=ranks - 1),
        CollectorReport(source=Source.SYSLOG, status=ReportStatus.OK, read=4_000, kept=1, delivered=1),
        CollectorReport(source=Source.FABRIC_MANAGER, status=ReportStatus.ERROR, reason="connection refused"),
    ]
    return attempt, said, reports
