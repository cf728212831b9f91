"""Builders for the tests of proposals and decisions: attempts that failed just now, their verdicts, policies, people."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from recovery.models import Intake, Proposal, Scope
from recovery.policies import record as policies
from recovery.propose import INTAKE, LOOK_BACK
from recovery.words import PolicyMode
from rules.verdict import AffectedNode, canonical_json
from rules.words import Domain
from tests.verdicts.builders import a_finding, a_ruleset, a_user, an_attempt, an_engine_verdict
from verdicts.models import Attempt, Cluster, Node, Verdict
from verdicts.record import record_attempt
from verdicts.verdict_rows import write_verdict

#: Caps under which a small test cluster can do something; single guards are tested with their own.
WIDE = {"cooldown_minutes": 1, "settle_seconds": 0}


def a_cluster(nodes: int = 200) -> Cluster:
    """A cluster of that many nodes, all in use."""
    cluster, _ = Cluster.objects.get_or_create(name="alpha")
    names = [f"gpu-{number:02d}" for number in range(1, nodes + 1)]
    Node.objects.bulk_create([Node(cluster=cluster, name=name) for name in names], ignore_conflicts=True)
    return cluster


def failed(job_id: str = "4711", *, ago: int = 60, nodes: str = "gpu-[01-02]", **more: Any) -> Attempt:
    """An attempt that failed a minute ago, and whose scheduler was read whole."""
    now = timezone.now()
    said: dict[str, Any] = {
        "submit_time": (now - timedelta(hours=3)).isoformat(),
        "start": (now - timedelta(hours=2)).isoformat(),
        "end": (now - timedelta(seconds=ago)).isoformat(),
        "nodes": [nodes],
        "partition": "batch",
    }
    attempt, _ = record_attempt(an_attempt(job_id, **(said | more)))
    attempt.reports.get_or_create(
        source="scheduler",
        collector="slurm",
        defaults={"status": "ok", "body": {"source": "scheduler", "collector": "slurm", "status": "ok"}},
    )
    return attempt


def judged(attempt: Attempt, node: str = "gpu-01", symptom: str = "gpu_off_bus", **more: Any) -> Verdict:
    """The current verdict of an attempt: one strong cause on one node."""
    attempt.verdicts.current().update(is_current=False, superseded_at=timezone.now())
    finding = a_finding(symptom=symptom, locus={"node": node, "gpu": "0000:65:00"}, nodes=[node])
    said: dict[str, Any] = {
        "causes": [finding],
        "affected_nodes": [AffectedNode(name=node, gpus=[], ranks=[], links=[])],
    }
    raw = canonical_json(an_engine_verdict(**(said | more)))
    number = attempt.verdicts.count() + 1
    return write_verdict(attempt, raw, number=number, ruleset=a_ruleset(), generation=0)


def a_policy(name: str = "leave-out", action: str = "restart_excluding", mode: str = "advisory", **more: Any) -> Scope:
    """A policy about GPUs on the cluster, in that mode."""
    author = a_user(f"author of {name}", "policy admin")
    caps = WIDE | more.pop("caps", {})
    body = {"action": action, "caps": caps, "match": {}} | more
    policy = policies.create(name, body, by=author, reason="for a test")
    return in_mode(policy, mode)


def in_mode(policy: Any, mode: str, domain: Domain = Domain.GPU_HARDWARE) -> Scope:
    scope = policies.scope_for(policy.versions.first(), "alpha", domain.value)
    until = timezone.now() + timedelta(days=30) if mode == PolicyMode.AUTOMATIC else None
    Scope.objects.filter(pk=scope.pk).update(mode=mode, mode_until=until, ruleset=a_ruleset().digest)
    scope.refresh_from_db()
    return scope


def from_now_on() -> None:
    """As if recovery had been installed a while ago: verdicts of this test are new."""
    Intake.objects.update_or_create(name=INTAKE, defaults={"read_until": timezone.now() + LOOK_BACK})
    Intake.objects.filter(name=INTAKE).update(read_until=timezone.now() - timedelta(minutes=1))


def the_proposal(**more: Any) -> Proposal:
    return Proposal.objects.get(**more)
