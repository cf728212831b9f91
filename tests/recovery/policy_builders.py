"""Builders for the tests of policies: a policy, its scope, and proposals that wait for labels."""

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from recovery.models import Case, Policy, Proposal, Scope
from recovery.policies import find as policy_find
from recovery.policies import record as policies
from recovery.words import CaseLabel, LabelBasis, PolicyMode, ProposalState
from rules.words import Domain
from verdicts.models import Attempt, Cluster

BODY: dict[str, Any] = {"match": {"domains": ["gpu_hardware"]}, "action": "restart_excluding"}


def a_policy(by: Any, name: str = "leave-out-gpus", **more: Any) -> Policy:
    return policies.create(name, BODY | more, by=by, reason="to see how it does")


def a_scope(policy: Policy, cluster: str = "alpha") -> Scope:
    return policies.scope_for(policy_find.present(policy), cluster, Domain.GPU_HARDWARE.value)


def proposed(scope: Scope, number: int, *, ago: timedelta = timedelta(days=1), **more: Any) -> Proposal:
    """A proposal on a node and an attempt of its own."""
    cluster, _ = Cluster.objects.get_or_create(name=scope.cluster)
    attempt, _ = Attempt.objects.get_or_create(cluster=cluster, job_id=str(number), defaults={"body": {}})
    closed = more.get("state") == ProposalState.CLOSED.value
    proposal = Proposal.objects.create(
        **_row(scope, attempt, number, ago) | more | ({"state": ProposalState.APPROVED.value} if closed else {})
    )
    # The database refuses a proposal that begins at its end.
    for state in (ProposalState.ACTING, ProposalState.CLOSED) if closed else ():
        proposal.state = state.value
        proposal.save(update_fields=["state"])
    return proposal


def many_right(scope: Scope, count: int, *, ago: timedelta = timedelta(days=20)) -> list[Proposal]:
    """So many cases that proved right, each an incident of its own."""
    cluster, _ = Cluster.objects.get_or_create(name=scope.cluster)
    attempts = Attempt.objects.bulk_create(
        [Attempt(cluster=cluster, job_id=f"m{number}", body={}) for number in range(count)]
    )
    version = policy_find.present(scope.policy)
    rows = Proposal.objects.bulk_create(
        [
            Proposal(**_row(scope, attempt, number, ago, version=version), must_label=True)
            for number, attempt in enumerate(attempts, start=1_000_000)
        ]
    )
    label(rows)
    return rows


def label(proposals: Sequence[Proposal], word: CaseLabel = CaseLabel.RIGHT) -> None:
    Case.objects.bulk_create(
        [Case(proposal=one, label=word.value, basis=LabelBasis.DIAGNOSTICS.value) for one in proposals]
    )


def _row(scope: Scope, attempt: Attempt, number: int, ago: timedelta, version: Any = None) -> dict[str, Any]:
    at = timezone.now() - ago
    return {
        "attempt": attempt,
        "scope": scope,
        "version": version or policy_find.present(scope.policy),
        "cause": f"gpu.off-the-bus at node gpu-{number}",
        "action": "restart_excluding",
        "mode": PolicyMode.OBSERVE.value,
        "state": ProposalState.OBSERVED.value,
        "nodes": [f"gpu-{number}"],
        "plan": {},
        "plan_json": "{}",
        "plan_sha256": hashlib.sha256(b"{}").hexdigest(),
        "created_at": at,
        "expires_at": at + timedelta(hours=1),
    }
