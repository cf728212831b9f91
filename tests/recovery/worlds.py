"""Plans and facts for the tests of the pure guards: one node of a cluster with enough room, and nothing in the way."""

from datetime import UTC, datetime, timedelta
from typing import Any

from recovery.caps import Caps
from recovery.cost import Seen, of_restart
from recovery.facts import Element, Facts
from recovery.plan import Plan
from recovery.words import ActionKind, PolicyMode

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
VERDICT = "ab" * 32


def a_plan(*nodes: str, **more: Any) -> Plan:
    """Restart job 4711 without a node."""
    action = more.pop("action", ActionKind.RESTART_EXCLUDING)
    said: dict[str, Any] = {
        "id": "00000000-0000-4000-8000-000000000001",
        "action": action,
        "cluster": "alpha",
        "scheduler": "slurm",
        "job_id": "4711",
        "submit_time": NOW - timedelta(hours=2),
        "restart_count": 0,
        "attempt": "00000000-0000-4000-8000-000000000002",
        "workload": "ml/llm-70b",
        "partition": "batch",
        "job_nodes": 8,
        "nodes": list(nodes),
        "cause": "gpu.off-the-bus@node=gpu-01",
        "verdict": "00000000-0000-4000-8000-000000000003",
        "verdict_number": 1,
        "verdict_sha256": VERDICT,
        "domain": "gpu_hardware",
        "strength": "strong",
        "symptom": "gpu_off_bus",
        "locus": "node=gpu-01",
        "policy": "leave-out",
        "policy_number": 1,
        "mode": PolicyMode.ADVISORY,
        "blast": {},
        "cost": of_restart(Seen()),
        "overturn": [],
        "evidence": [],
        "gaps": [],
        "owner": "policy:leave-out@1",
        "created": NOW - timedelta(minutes=1),
        "expires": NOW + timedelta(hours=1),
        "approvals_needed": 1,
        "says": "Restart job 4711 without gpu-01.",
        "caps": Caps(),
    }
    return Plan(**(said | more))


def facts(*nodes: str, **more: Any) -> Facts:
    """A world of 200 nodes in which the plan's nodes are known."""
    taken = frozenset(nodes)
    said: dict[str, Any] = {
        "now": NOW,
        "verdict_current": True,
        "verdict_sha256": VERDICT,
        "failed_at": NOW - timedelta(minutes=2),
        "elements": [
            Element(kind="cluster", name="alpha", of=200, taken=taken),
            Element(kind="partition", name="batch", of=100, taken=taken),
            Element(kind="rack", name="r1", of=16, taken=taken),
            Element(kind="switch", name="sw1", of=32, taken=taken),
        ],
    }
    return Facts(**(said | more))
