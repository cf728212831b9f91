"""Builders for the tests of the dispatcher: an approved proposal on a job that failed, and its action."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.db import transaction
from django.utils import timezone

from recovery import moves
from recovery import plan as plans
from recovery.acting import dispatch as act
from recovery.acting import sites
from recovery.actuators.base import Actuator
from recovery.actuators.slurm import Slurm
from recovery.caps import Caps
from recovery.cost import Cost, Figure
from recovery.ledger.entries import Actor
from recovery.models import Action, Proposal
from recovery.plan import Plan
from recovery.words import ActionKind, PolicyMode, ProposalState
from tests.recovery.fake_slurm import FakeSlurm, a_job
from tests.verdicts.builders import an_attempt
from verdicts.models import Attempt
from verdicts.record import record_attempt

UNKNOWN = Figure(gpu_hours=None, rests_on="not measured")


def a_failed_attempt(job_id: str = "4711", **more: Any) -> Attempt:
    """An attempt on eight nodes that failed a minute ago."""
    now = timezone.now().replace(microsecond=0)
    said = {
        "submit_time": (now - timedelta(hours=2)).isoformat(),
        "start": (now - timedelta(hours=1)).isoformat(),
        "end": (now - timedelta(minutes=1)).isoformat(),
        "nodes": ["gpu-[01-08]"],
        "partition": "train",
    }
    row, _ = record_attempt(an_attempt(job_id, **(said | more)))
    return row


def an_action(kind: ActionKind = ActionKind.RESTART_EXCLUDING, attempt: Attempt | None = None, **more: Any) -> Action:
    """An action that was just begun, as a person's approval begins it."""
    attempt = attempt or a_failed_attempt()
    nodes = [] if kind in (ActionKind.RESTART, ActionKind.STOP, ActionKind.HOLD) else ["gpu-01"]
    now = timezone.now()
    said: dict[str, Any] = {
        "id": str(uuid.uuid4()),
        "action": kind,
        "cluster": "alpha",
        "scheduler": "slurm",
        "job_id": attempt.job_id,
        "submit_time": attempt.submit_time,
        "restart_count": attempt.restart_count,
        "attempt": str(attempt.pk),
        "workload": "llm-70b",
        "partition": "train",
        "job_nodes": 2,
        "nodes": nodes,
        "cause": f"gpu_off_bus at node gpu-01 {uuid.uuid4()}",
        "verdict": None,
        "verdict_number": None,
        "verdict_sha256": None,
        "domain": "gpu_hardware",
        "strength": "strong",
        "symptom": "gpu_off_bus",
        "locus": "node gpu-01",
        "policy": "",
        "policy_number": None,
        "mode": PolicyMode.ADVISORY,
        "blast": {},
        "cost": Cost(acting=UNKNOWN, waiting=UNKNOWN),
        "overturn": [],
        "evidence": [],
        "gaps": [],
        "owner": "ada",
        "created": now,
        "expires": now + timedelta(hours=1),
        "approvals_needed": 1,
        "says": "Restart job 4711 without gpu-01.",
        "caps": Caps(partition_share=1, cluster_share=1, healthy_share=0.1, cooldown_minutes=0, actions_per_hour=1000),
    }
    plan = Plan(**(said | more))
    raw = plans.canonical(plan)
    Proposal.objects.create(
        pk=plan.id,
        attempt=attempt,
        cause=plan.cause,
        action=kind.value,
        mode=PolicyMode.ADVISORY.value,
        state=ProposalState.APPROVED.value,
        nodes=plan.nodes,
        plan=msgspec.json.decode(raw),
        plan_json=raw.decode(),
        plan_sha256=plans.digest(plan),
        expires_at=plan.expires,
    )
    with transaction.atomic():
        return moves.begin(moves.held(uuid.UUID(plan.id)), actor=Actor.system("test"))


def the_job(attempt: Attempt, **more: Any) -> FakeSlurm:
    """A Slurm that has the attempt's job, which just failed."""
    assert attempt.submit_time is not None
    submit = int(attempt.submit_time.timestamp())
    return FakeSlurm(a_job(id=attempt.job_id, submit=submit, state="FAILED", **more))


@contextmanager
def acting_on(fake: FakeSlurm, monkeypatch: Any, *, settle: float = 0.0, **more: Any) -> Iterator[Actuator]:
    """Have the dispatcher act on that Slurm."""
    way = Slurm(fake, can=frozenset(ActionKind), partitions=frozenset(), settle=settle, deadline=300.0)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr(sites, "actuator", lambda _: way)
        yield way


def dispatch(turns: int = 20) -> None:
    """Run the dispatcher, as often as a worker would be woken."""
    for _ in range(turns):
        Action.objects.open().update(due_at=timezone.now() - timedelta(seconds=1), turn_at=timezone.now())
        if not act.work(pause=lambda _: None):
            return


def lose_worker() -> None:
    """The worker that held the row is dead, and its lease has run out."""
    past = datetime(2020, 1, 1, tzinfo=UTC)
    Action.objects.filter(state="running").update(lease_until=past)
