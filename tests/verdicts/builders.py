"""Builders for the tests of the store: small attempts, observations and engine verdicts."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from rules.attempt import Attempt, CollectorReport
from rules.observation import Observation
from rules.ruleset import Ruleset
from rules.verdict import AffectedNode, Evidence, ExplainedBy, Finding, Note, RulesetUsed, Verdict
from rules.words import Domain, Maturity, Relation, ReportStatus, Role, Source, State, Strength

DIGEST = "ab" * 32


def an_attempt(job_id: str = "4711", **more: Any) -> Attempt:
    """An attempt that failed on two nodes."""
    said: dict[str, Any] = {
        "cluster": "alpha",
        "scheduler": "slurm",
        "submit_time": "2026-11-03T01:00:00+00:00",
        "start": "2026-11-03T01:10:00+00:00",
        "end": "2026-11-03T02:11:04+00:00",
        "state": "FAILED",
        "workload": "llm-70b",
        "account": "ml",
        "user": "ada",
        "nodes": ["gpu-[01-02]"],
    }
    return Attempt(job_id=job_id, **(said | more))


def an_observation(number: int = 1, **more: Any) -> Observation:
    """A line of an application log."""
    said: dict[str, Any] = {
        "source": Source.APPLOG,
        "body": f"RuntimeError: it broke ({number})",
        "ref": f"applog/rank0.log:{number}",
        "node": "gpu-01",
        "rank": 0,
        "timestamp": "2026-11-03T02:11:00+00:00",
        "collector": "files",
    }
    return Observation(**(said | more))


def a_report(source: Source = Source.APPLOG, **more: Any) -> CollectorReport:
    """A report of a collector that got all there was."""
    said: dict[str, Any] = {"status": ReportStatus.OK, "read": 10, "kept": 1, "delivered": 1, "collector": "files"}
    return CollectorReport(source=source, **(said | more))


def a_finding(number: int = 1, **more: Any) -> Finding:
    """A finding on one node."""
    said: dict[str, Any] = {
        "id": f"f{number}",
        "rule": "gpu.off-the-bus",
        "title": "The GPU stopped answering on the PCIe bus",
        "meaning": "The driver lost the GPU.",
        "symptom": "gpu_off_bus",
        "domain": Domain.GPU_HARDWARE,
        "role": Role.CAUSE,
        "maturity": Maturity.STABLE,
        "strength": Strength.STRONG,
        "locus": {"node": "gpu-01", "gpu": "0000:65:00"},
        "nodes": ["gpu-01"],
        "ranks": [0],
        "peers": [],
        "places": 1,
        "decoded": {},
        "count": 1,
        "sources": [Source.SYSLOG],
        "first": "2026-11-03T02:11:00+00:00",
        "last": "2026-11-03T02:11:00+00:00",
        "evidence": [
            Evidence(
                source=Source.SYSLOG,
                node="gpu-01",
                rank=None,
                ref="syslog/gpu-01.log:1",
                file="syslog/gpu-01.log",
                line=1,
                time="2026-11-03T02:11:00+00:00",
                text="NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.",
            )
        ],
    }
    return Finding(**(said | more))


def a_demoted_finding(number: int = 2) -> Finding:
    """A finding that the first one explains."""
    return a_finding(
        number,
        rule="nccl.remote-error",
        title="NCCL: a remote process stopped",
        symptom="nccl_remote_error",
        domain=None,
        role=Role.SYMPTOM,
        strength=None,
        locus={"node": "gpu-02", "rank": "8"},
        nodes=["gpu-02"],
        ranks=[8],
        explained_by=ExplainedBy(
            finding="f1",
            rule="gpu.off-the-bus",
            title="The GPU stopped answering on the PCIe bus",
            relation=Relation.JOB,
            timing="4.0 s later",
        ),
    )


def an_engine_verdict(attempt: Attempt | None = None, **more: Any) -> Verdict:
    """What the engine concludes: one cause, one demoted symptom."""
    said: dict[str, Any] = {
        "attempt": (attempt or an_attempt()).described(),
        "terminal_state": State.FAILED,
        "attributed_domain": Domain.GPU_HARDWARE,
        "strength": Strength.STRONG,
        "headline": "GPU 0000:65:00 of gpu-01 fell off the bus.",
        "affected_nodes": [AffectedNode(name="gpu-01", gpus=["0000:65:00"], ranks=[0], links=[])],
        "shared_element": None,
        "causes": [a_finding()],
        "candidates": [],
        "demoted": [a_demoted_finding()],
        "interesting": [],
        "unrecognised": [],
        "coverage": [CollectorReport(source=source, status=ReportStatus.OK) for source in Source],
        "blind_spots": [],
        "discriminating_tests": [],
        "overturned_by": [],
        "advice": {"now": [Note(text="Restart without this node.")], "later": []},
        "missing": [],
        "proof": [],
        "ruleset": RulesetUsed(digest=DIGEST, rules=1, layers=["shipped"]),
    }
    return Verdict(**(said | more))


def a_ruleset(digest: str = DIGEST) -> Ruleset:
    """A ruleset without rules, for engines that are replaced."""
    return Ruleset(rules=(), digest=digest)


def a_user(name: str, *groups: str) -> Any:
    """A user in the groups named."""
    user = get_user_model().objects.create_user(username=name, password="a long pass phrase")
    user.groups.set(Group.objects.filter(name__in=groups))
    assert user.groups.count() == len(groups)
    return user


def headlined(observations: Sequence[Observation]) -> str:
    """A headline that tells which evidence a replaced engine saw."""
    return "saw " + ", ".join(sorted(observation.ref for observation in observations))
