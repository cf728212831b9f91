"""The plan of a proposal: what would be done, to what, on which verdict, until when. It is frozen; its hash is what
people approve, so that nobody approves one thing and another is done.
"""

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from recovery.caps import Caps
from recovery.cost import Cost
from recovery.words import EXCLUDING, ActionKind, PolicyMode

SCHEMA = "inquest.plan/1"
#: Above so many nodes, and above this share of a partition, one person's word is not enough.
TWO_PEOPLE_NODES, TWO_PEOPLE_SHARE = 2, 0.01
#: What a node's name may consist of: no list, no range, no wildcard, no option of a command.
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
#: Names that schedulers read as "every node".
EVERY = frozenset({"all", "any", "none", "localhost"})


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes of an element the plan takes, and of how many; None where that is not known."""

    taken: int
    of: int | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done. `cause` is what it is for, `gaps` what was not collected, `caps` the limits that hold.

    `exclusion` is the exclusion that a giving back is about; `job_nodes` is how many nodes the job has.
    """

    id: str
    action: ActionKind
    cluster: str
    scheduler: str
    job_id: str
    submit_time: datetime | None
    restart_count: int
    attempt: str
    workload: str
    partition: str
    job_nodes: int
    nodes: list[str]
    cause: str
    verdict: str | None
    verdict_number: int | None
    verdict_sha256: str | None
    domain: str
    strength: str
    symptom: str
    locus: str
    policy: str
    policy_number: int | None
    mode: PolicyMode
    blast: dict[str, Taken]
    cost: Cost
    overturn: list[str]
    evidence: list[str]
    gaps: list[str]
    owner: str
    created: datetime
    expires: datetime
    approvals_needed: int
    says: str
    caps: Caps
    anomaly: str | None = None
    exclusion: str | None = None
    exclusion_hours: int = 24
    max_restarts: int | None = None
    reason: str = ""
    schema: str = SCHEMA


def canonical(plan: Plan) -> bytes:
    """The plan as JSON with sorted keys: the same bytes for the same plan."""
    return msgspec.json.encode(plan, order="sorted")


def digest(plan: Plan) -> str:
    """What an approver has seen: SHA-256 of the plan's canonical JSON."""
    return hashlib.sha256(canonical(plan)).hexdigest()


def columns(plan: Plan) -> dict[str, Any]:
    """What a proposal's row has of its plan, which stands in it frozen, as it is hashed."""
    raw = canonical(plan)
    return {
        "pk": UUID(plan.id),
        "attempt_id": UUID(plan.attempt),
        "cause": plan.cause,
        "action": plan.action.value,
        "mode": plan.mode.value,
        "nodes": plan.nodes,
        "plan": msgspec.json.decode(raw),
        "plan_json": raw.decode(),
        "plan_sha256": digest(plan),
        "approvals_needed": plan.approvals_needed,
        "expires_at": plan.expires,
    }


def decode(raw: bytes | str) -> Plan:
    """A stored plan. Raises msgspec.ValidationError."""
    return msgspec.json.decode(raw, type=Plan)


def wrong_nodes(action: ActionKind, nodes: Sequence[str]) -> str:
    """Why a plan's nodes name no definite machines for its action; empty where they do."""
    needs = action in EXCLUDING or action in (ActionKind.UNDRAIN, ActionKind.LIFT_EXCLUSION)
    if needs and not nodes:
        return f"{action} names no node"
    if not needs and nodes:
        return f"{action} takes no nodes, and {len(nodes)} are named"
    if len(set(nodes)) != len(nodes):
        return "a node is named twice"
    for node in nodes:
        if node.lower() in EVERY or not NODE_NAME.fullmatch(node):
            return f"{node[:80]!r} is not the name of one node"
    return ""


def approvals(action: ActionKind, nodes: Sequence[str], partition: Taken | None, wanted: int = 1) -> int:
    """How many people must approve: two for draining, for many nodes, and for a noticeable share of a partition.

    One node alone can be a noticeable share of a small partition; it needs one approver. An unknown share counts as
    noticeable.
    """
    needed = max(wanted, 1)
    if action is ActionKind.DRAIN or len(nodes) > TWO_PEOPLE_NODES:
        return max(needed, 2)
    if action in EXCLUDING and len(nodes) > 1:
        share = None if partition is None or not partition.of else partition.taken / partition.of
        if share is None or share > TWO_PEOPLE_SHARE:
            return max(needed, 2)
    return needed


def described(action: ActionKind, job_id: str, nodes: Sequence[str]) -> str:
    """One sentence that says what would be done."""
    names = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
    return {
        ActionKind.RESTART: f"Restart job {job_id}.",
        ActionKind.RESTART_EXCLUDING: f"Restart job {job_id} without {names}.",
        ActionKind.STOP: f"Stop job {job_id}.",
        ActionKind.HOLD: f"Hold job {job_id} so that it does not start again by itself.",
        ActionKind.NOTIFY: f"Tell the owner of job {job_id}.",
        ActionKind.DRAIN: f"Drain {names}: no new job starts there.",
        ActionKind.UNDRAIN: f"Give {names} back to all jobs.",
        ActionKind.LIFT_EXCLUSION: f"Let job {job_id} use {names} again.",
    }[action]
