"""Verdicts for the page tests, written as the engine would: each goes through the engine's own types."""

import json
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from rules.attempt import Attempt as GivenAttempt
from rules.ruleset import Ruleset
from rules.verdict import Verdict as EngineVerdict
from rules.verdict import canonical_json
from rules.words import ReportStatus, Source
from verdicts.models import Attempt, Verdict
from verdicts.record import record_attempt
from verdicts.verdict_rows import write_verdict

DIGEST = "5d0c8f6e" * 8


#: What the store wants to know of a ruleset, without three hundred rules.
RULESET = cast("Ruleset", SimpleNamespace(digest=DIGEST, rules=range(320), layers=["shipped"], files=()))


def evidence(text: str, ref: str, **more: Any) -> dict[str, Any]:
    """A line, with where it is."""
    file, _, line = ref.rpartition(":")
    return {
        "source": ref.split("/", maxsplit=1)[0],
        "node": "",
        "rank": None,
        "ref": ref,
        "file": file,
        "line": int(line),
        "time": None,
        "text": text,
        "count": 1,
    } | more


def finding(identity: str, rule: str, title: str, **more: Any) -> dict[str, Any]:
    """A finding of some rule at some place."""
    lines = more.get("evidence", [])
    stamps = [line["time"] for line in lines if line["time"]]
    return {
        "id": identity,
        "rule": rule,
        "title": title,
        "meaning": "",
        "symptom": rule.replace(".", "_").replace("-", "_"),
        "domain": None,
        "role": "cause",
        "maturity": "stable",
        "strength": None,
        "locus": {},
        "nodes": [],
        "ranks": [],
        "peers": [],
        "places": 1,
        "decoded": {},
        "count": sum(line["count"] for line in lines) or 1,
        "sources": sorted({line["source"] for line in lines}),
        "first": stamps[0] if stamps else None,
        "last": stamps[-1] if stamps else None,
        "evidence": [],
    } | more


def coverage(**status: tuple[str, str, int, int] | str) -> list[dict[str, Any]]:
    """All nine reports; those not named were not configured."""
    reports = []
    for source in Source:
        given = status.get(source.value, ReportStatus.NOT_CONFIGURED.value)
        word, reason, read, kept = given if isinstance(given, tuple) else (given, "", 0, 0)
        reports.append(
            {"source": source.value, "status": word, "reason": reason, "read": read, "kept": kept, "delivered": kept}
        )
    return reports


def body(**changes: Any) -> dict[str, Any]:
    """A verdict's JSON: unattributed and empty unless `changes` say otherwise."""
    plain: dict[str, Any] = {
        "schema": "inquest.verdict/1",
        "engine": "1",
        "mode": "slow",
        "attempt": {"job_id": "1"},
        "terminal_state": "failed",
        "attributed_domain": "unattributed",
        "strength": None,
        "headline": "The attempt failed; nothing that was collected says why.",
        "affected_nodes": [],
        "shared_element": None,
        "causes": [],
        "candidates": [],
        "demoted": [],
        "interesting": [],
        "unrecognised": [],
        "coverage": coverage(),
        "blind_spots": [],
        "discriminating_tests": [],
        "overturned_by": [],
        "advice": {"now": [], "later": []},
        "missing": [],
        "proof": [],
        "ruleset": {"digest": DIGEST, "rules": 320, "layers": ["shipped"]},
    }
    return plain | changes


def an_attempt(job_id: str = "48213", **fields: Any) -> Attempt:
    """A stored attempt."""
    attempt, _ = record_attempt(GivenAttempt(job_id=job_id, **fields))
    return attempt


def a_verdict(attempt: Attempt, given: dict[str, Any] | None = None, *, number: int = 1) -> Verdict:
    """Store a verdict as the attempt's current one, the way the worker does."""
    engine = msgspec.convert(given or body(), EngineVerdict)
    at = datetime.fromisoformat("2026-11-03T02:30:00+00:00")
    attempt.verdicts.current().update(is_current=False, superseded_at=at)
    verdict = write_verdict(
        attempt, canonical_json(engine), number=number, ruleset=RULESET, generation=attempt.generation
    )
    assert json.loads(verdict.body_json)["headline"] == engine.headline
    return verdict


def nvlink_attempt(**fields: Any) -> Attempt:
    """The attempt of `nvlink_body`."""
    given: dict[str, Any] = {
        "cluster": "alpha",
        "scheduler": "slurm",
        "workload": "pretrain-70b-stage2",
        "restart_count": 2,
        "submit_time": "2026-11-02T18:00:00+00:00",
        "start": "2026-11-02T19:04:11+00:00",
        "end": "2026-11-03T02:12:40+00:00",
        "state": "FAILED",
        "exit_code": "1:0",
        "user": "m.okafor",
        "account": "foundation",
        "nodes": ["gpu-004", "gpu-011", "gpu-017", "gpu-023"],
    }
    return an_attempt(**(given | fields))


def nvlink_body(**changes: Any) -> dict[str, Any]:
    """One GPU's NVLink fault, with three NCCL errors on other nodes that it explains."""
    xid = evidence(
        "Nov  3 02:11:04 gpu-017 kernel: [412337.118203] NVRM: Xid (PCI:0000:65:00): 149, NETIR_LINK_DOWN Nonfatal "
        "XC0 i0 Link 05 (0x004a4c22 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
        "syslog/gpu-017.log:1204",
        node="gpu-017",
        time="2026-11-03T02:11:04+00:00",
        count=3,
    )
    watchdog = evidence(
        "[rank9]:[E1103 02:21:06.512334 2211 ProcessGroupNCCL.cpp:632] [Rank 9] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=48122, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600011 "
        "milliseconds before timing out.",
        "applog/rank9.log:88213",
        node="gpu-011",
        rank=9,
        time="2026-11-03T02:21:06.512334+00:00",
    )
    remote = evidence(
        "gpu-004:2210:2644 [1] transport/net_ib.cc:1297 NCCL WARN NET/IB : Got completion from peer 10.4.1.17<52344> "
        "with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::ba3f:d203:e1:9a41",
        "applog/rank1.log:88190",
        node="gpu-004",
        rank=1,
        time="2026-11-03T02:11:09.020114+00:00",
    )
    system = evidence(
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, "
        "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5",
        "applog/rank25.log:90377",
        node="gpu-023",
        rank=25,
        time=None,
    )
    given = {
        "attempt": {
            "job_id": "48213",
            "cluster": "alpha",
            "scheduler": "slurm",
            "workload": "pretrain-70b-stage2",
            "state": "FAILED",
            "exit_code": "1:0",
        },
        "attributed_domain": "nvlink_fabric",
        "strength": "strong",
        "headline": "The NVLink 5 of GPU 0000:65:00 on node gpu-017 went down with a signal-integrity fault and the "
        "job failed; the Fabric Manager log was not collected, so the switch side is not excluded.",
        "affected_nodes": [{"name": "gpu-017", "gpus": ["0000:65:00"], "ranks": [17], "links": ["5"]}],
        "causes": [
            finding(
                "f1",
                "nvlink.xid-149-link-down",
                "An NVLink went down",
                meaning="The link could not be kept up at the electrical level; traffic to its peers stops.",
                domain="nvlink_fabric",
                strength="strong",
                locus={"node": "gpu-017", "gpu": "0000:65:00", "link": "5"},
                nodes=["gpu-017"],
                ranks=[17],
                decoded={"unit": "NETIR_LINK_DOWN", "means": "signal integrity, not fatal to the GPU", "link": "5"},
                evidence=[xid],
            )
        ],
        "demoted": [
            finding(
                "f2",
                "nccl.watchdog-timeout",
                "A collective did not finish in time",
                role="symptom",
                locus={"node": "gpu-011", "rank": "9"},
                nodes=["gpu-011"],
                ranks=[9],
                evidence=[watchdog],
                explained_by={
                    "finding": "f1",
                    "rule": "nvlink.xid-149-link-down",
                    "title": "An NVLink went down",
                    "relation": "job",
                    "timing": "602.5 s later",
                },
            ),
            finding(
                "f3",
                "nccl.ib-completion-error",
                "A send to another node was not answered",
                role="symptom",
                locus={"node": "gpu-004", "rank": "1", "peer": "10.4.1.17"},
                nodes=["gpu-004"],
                ranks=[1],
                peers=["gpu-017"],
                evidence=[remote],
                explained_by={
                    "finding": "f1",
                    "rule": "nvlink.xid-149-link-down",
                    "title": "An NVLink went down",
                    "relation": "peer",
                    "timing": "5.0 s later",
                },
            ),
            finding(
                "f4",
                "nccl.unhandled-system-error",
                "NCCL met a system error that it does not name",
                role="symptom",
                locus={"node": "gpu-023", "rank": "25"},
                nodes=["gpu-023"],
                ranks=[25],
                evidence=[system],
                explained_by={
                    "finding": "f1",
                    "rule": "nvlink.xid-149-link-down",
                    "title": "An NVLink went down",
                    "relation": "job",
                    "timing": "order not known: the line prints no time",
                },
            ),
        ],
        "interesting": [
            finding(
                "f5",
                "network.link-width",
                "A network card runs at half its PCIe width",
                role="state",
                locus={"node": "gpu-023"},
                nodes=["gpu-023"],
                why="a state since the node started, not an event of this attempt",
                evidence=[
                    evidence(
                        "kernel: [   14.551203] mlx5_core 0000:c1:00.0: 126.024 Gb/s available PCIe bandwidth, limited "
                        "by 16.0 GT/s PCIe x8 link",
                        "syslog/gpu-023.log:77",
                        node="gpu-023",
                        time="boot:14.551203",
                    )
                ],
            )
        ],
        "unrecognised": [
            {
                "template": "[ERROR] lustre_prefetch: window <num> rejected by allocator <hex>",
                "count": 214,
                "source": "applog",
                "near_end": True,
                "example": evidence(
                    "[ERROR] lustre_prefetch: window 88 rejected by allocator 0x7f21",
                    "applog/rank9.log:88150",
                    node="gpu-011",
                    rank=9,
                    time="2026-11-03T02:10:58.100000+00:00",
                ),
            }
        ],
        "coverage": coverage(
            applog=("ok", "", 1_204_332, 88_120),
            syslog=("partial", "gpu-004 could not be reached", 20_311, 412),
            scheduler=("ok", "", 14, 14),
            gpu_events=("empty", "", 0, 0),
            node_metrics=("error", "HTTP 503 from the metrics store after 3 tries", 0, 0),
        ),
        "blind_spots": [
            {
                "source": "fabric_manager",
                "status": "not_configured",
                "rules": 83,
                "could_explain": ["f1"],
                "examples": ["nvlink.sxid-fatal", "nvlink.fm-port-down"],
            },
            {
                "source": "network_metrics",
                "status": "not_configured",
                "rules": 12,
                "could_explain": ["f3"],
                "examples": ["network.symbol-errors"],
            },
        ],
        "discriminating_tests": [
            {
                "text": "Read the Fabric Manager log of gpu-017 for SXid lines of port 5 before 02:11:04.",
                "findings": ["f1"],
            }
        ],
        "overturned_by": [
            {"text": "An SXid on the switch port that link 5 leads to, before 02:11:04: then the switch is the cause."},
            {"text": "The same link staying up after the GPU was exchanged.", "rule": "nvlink.xid-149-link-down"},
        ],
        "advice": {
            "now": [{"text": "Restart without gpu-017.", "rule": "nvlink.xid-149-link-down", "findings": ["f1"]}],
            "later": [
                {
                    "text": "Reset the GPU, then run the link test.",
                    "rule": "nvlink.xid-149-link-down",
                    "findings": ["f1"],
                },
                {"text": "A second time on the same link: exchange the baseboard.", "findings": ["f1"]},
            ],
        },
        "proof": [
            {
                "finding": "f1",
                "status": "cause",
                "because": "nothing that was found explains it, and it came before every error of the workload",
                "rule": "nvlink.xid-149-link-down",
                "evidence": ["syslog/gpu-017.log:1204"],
            },
            {
                "finding": "f2",
                "status": "demoted",
                "because": "explained by f1 in the same job within 30 minutes",
                "rule": "nvlink.xid-149-link-down",
                "evidence": ["applog/rank9.log:88213"],
            },
        ],
    }
    return body(**(given | changes))


def ambiguous_body(**changes: Any) -> dict[str, Any]:
    """Two causes that fit, and a test that would tell them apart."""
    aer = evidence(
        "Nov 12 11:02:10 gpu-031 kernel: pcieport 0000:60:01.0: AER: Uncorrected (Fatal) error received: 0000:60:01.0",
        "syslog/gpu-031.log:201",
        node="gpu-031",
        time="2026-11-12T11:02:10+00:00",
    )
    off = evidence(
        "Nov 12 11:02:10 gpu-031 kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.",
        "syslog/gpu-031.log:202",
        node="gpu-031",
        time="2026-11-12T11:02:10+00:00",
    )
    given = {
        "attributed_domain": "ambiguous",
        "headline": "Either the GPU 0000:65:00 of gpu-031 or the slot it sits in failed; both were reported in the "
        "same second and nothing orders them.",
        "affected_nodes": [{"name": "gpu-031", "gpus": ["0000:65:00"], "ranks": [], "links": []}],
        "candidates": [
            finding(
                "f1",
                "gpu.off-the-bus",
                "The GPU stopped answering on the PCIe bus",
                meaning="The driver lost the GPU: reads over PCIe return nothing.",
                domain="gpu_hardware",
                strength="moderate",
                locus={"node": "gpu-031", "gpu": "0000:65:00"},
                nodes=["gpu-031"],
                evidence=[off],
            ),
            finding(
                "f2",
                "kernel.aer-fatal",
                "A PCIe port reported a fatal error",
                meaning="The port above the GPU gave up the link.",
                domain="host_hardware",
                strength="moderate",
                locus={"node": "gpu-031"},
                nodes=["gpu-031"],
                evidence=[aer],
            ),
        ],
        "discriminating_tests": [
            {
                "text": "Move the GPU to another slot and run for a day: what fails again moves with the GPU or stays.",
                "rule": "gpu.off-the-bus",
                "findings": ["f1", "f2"],
            }
        ],
        "coverage": coverage(applog=("ok", "", 9000, 12), syslog=("ok", "", 3000, 40), scheduler=("ok", "", 3, 3)),
    }
    return body(**(given | changes))


def no_failure_body(**changes: Any) -> dict[str, Any]:
    """A clean end."""
    given = {
        "terminal_state": "succeeded",
        "attributed_domain": "no_failure",
        "headline": "The attempt ended well; nothing that was collected says otherwise.",
        "coverage": coverage(applog=("ok", "", 50_000, 20), scheduler=("ok", "", 4, 4)),
    }
    return body(**(given | changes))
