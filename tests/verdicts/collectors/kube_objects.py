"""Objects as a cluster has them: built from lightkube's models where it has them, else by the published types."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from lightkube.models.batch_v1 import Job, JobCondition, JobSpec, JobStatus
from lightkube.models.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    EnvVar,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ResourceRequirements,
)
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference

START = datetime(2026, 11, 3, 2, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def iso(seconds: float) -> str:
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def uid(*parts: object) -> str:
    """A uid as the API server makes them, the same for the same parts."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def meta(
    name: str,
    created: float = 0,
    *,
    of: str = "",
    owner: tuple[str, str, str] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    deleted: float | None = None,
) -> ObjectMeta:
    references = None
    if owner is not None:
        kind, owner_name, owner_uid = owner
        references = [OwnerReference(apiVersion="x/v1", kind=kind, name=owner_name, uid=owner_uid, controller=True)]
    return ObjectMeta(
        name=name,
        namespace="ml",
        uid=of or uid(name, created),
        creationTimestamp=at(created),
        ownerReferences=references,
        labels=labels,
        annotations=annotations,
        deletionTimestamp=None if deleted is None else at(deleted + 30),
        deletionGracePeriodSeconds=None if deleted is None else 30,
    )


def a_job(
    name: str = "train",
    created: float = 0,
    *,
    of: str = "",
    suspend: bool = False,
    start: float | None = 0,
    ended: str = "",
    end: float = 0,
    reason: str = "",
    message: str = "",
    owner: tuple[str, str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> Job:
    conditions = []
    if ended:
        conditions.append(
            JobCondition(type=ended, status="True", reason=reason, message=message, lastTransitionTime=at(end))
        )
    elif suspend:
        conditions.append(
            JobCondition(type="Suspended", status="True", reason="JobSuspended", lastTransitionTime=at(end))
        )
    return Job(
        metadata=meta(name, created, of=of, owner=owner, labels=labels),
        spec=JobSpec(template=PodTemplateSpec(), suspend=suspend),
        status=JobStatus(
            conditions=conditions or None,
            startTime=None if suspend or start is None else at(start),
            completionTime=at(end) if ended == "Complete" else None,
        ),
    )


def job_ref(name: str = "train", created: float = 0) -> tuple[str, str, str]:
    return ("Job", name, uid(name, created))


def ended_with(code: int, finished: float, reason: str = "", **more: Any) -> ContainerState:
    return ContainerState(
        terminated=ContainerStateTerminated(
            exitCode=code,
            reason=reason or ("Completed" if code == 0 else "Error"),
            startedAt=at(0),
            finishedAt=at(finished),
            **more,
        )
    )


def a_pod(
    name: str,
    created: float = 0,
    *,
    of: str = "",
    owner: tuple[str, str, str] | None = None,
    node: str | None = "gpu-1",
    phase: str = "Running",
    code: int | None = None,
    ended: float | None = None,
    why: str = "",
    restarts: int = 0,
    last: ContainerState | None = None,
    waiting: str = "",
    index: int | None = None,
    labels: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
    gpus: int = 0,
    args: list[str] | None = None,
    status_reason: str | None = None,
    message: str | None = None,
    disrupted: str = "",
    deleted: float | None = None,
) -> Pod:
    state = ContainerState(running=ContainerStateRunning(startedAt=at(created + 2)))
    if code is not None:
        state = ended_with(code, ended if ended is not None else created + 60, why)
    if waiting:
        state = ContainerState(waiting=ContainerStateWaiting(reason=waiting))
    conditions = [
        PodCondition(type="PodScheduled", status="True" if node else "False", reason=None if node else "Unschedulable")
    ]
    if disrupted:
        conditions.append(
            PodCondition(
                type="DisruptionTarget", status="True", reason=disrupted, lastTransitionTime=at(ended or created)
            )
        )
    found = dict(labels or {})
    if index is not None:
        found["batch.kubernetes.io/job-completion-index"] = str(index)
    if owner is not None and owner[0] == "Job":
        found["job-name"] = owner[1]
    return Pod(
        metadata=meta(name, created, of=of, owner=owner, labels=found, deleted=deleted),
        spec=PodSpec(
            nodeName=node,
            containers=[
                Container(
                    name="main",
                    image="registry.example/train:1.2",
                    args=args,
                    env=[EnvVar(name=key, value=value) for key, value in (env or {}).items()] or None,
                    resources=ResourceRequirements(limits={"nvidia.com/gpu": str(gpus)}) if gpus else None,
                )
            ],
        ),
        status=PodStatus(
            phase=phase,
            reason=status_reason,
            message=message,
            startTime=at(created + 1) if node else None,
            conditions=conditions,
            containerStatuses=[
                ContainerStatus(
                    name="main",
                    image="registry.example/train:1.2",
                    imageID="",
                    ready=phase == "Running",
                    restartCount=restarts,
                    state=state,
                    lastState=last,
                )
            ]
            if node
            else None,
        ),
    )


def a_run(
    kind: str,
    name: str = "train",
    created: float = 0,
    *,
    conditions: list[tuple[str, float, str, str]] | None = None,
    suspend: bool = False,
    restarts: int = 0,
    owner: tuple[str, str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A JobSet, PyTorchJob, MPIJob or TrainJob. `conditions` are (type, time, reason, message)."""
    waits = {"runPolicy": {"suspend": suspend}} if kind in ("PyTorchJob", "MPIJob") else {"suspend": suspend}
    status: dict[str, Any] = {"conditions": [_condition(*c) for c in conditions or []]}
    if kind == "JobSet":
        status["restarts"] = restarts
    return {
        "apiVersion": "x/v1",
        "kind": kind,
        "metadata": meta(name, created, owner=owner, labels=labels).to_dict(),
        "spec": {**waits, **spec},
        "status": status,
    }


def _condition(kind: str, when: float, reason: str = "", message: str = "", status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": iso(when), "reason": reason, "message": message}


def a_workload(
    owner: tuple[str, str, str],
    *,
    admitted: float | None = None,
    evicted: tuple[float, str, str] | None = None,
    before: tuple[float, str] | None = None,
    preempted: str = "",
    finished: float | None = None,
    not_admitted: float | None = None,
    evictions: dict[str, int] | None = None,
    queue: str = "team-a",
) -> dict[str, Any]:
    """Kueue's Workload. `evicted` is (time, reason, message); `before` an eviction before this admission."""
    conditions = []
    if admitted is not None:
        conditions.append(_condition("QuotaReserved", admitted, "QuotaReserved", "Quota reserved in ClusterQueue gpu"))
        conditions.append(_condition("Admitted", admitted, "Admitted", "The workload is admitted"))
    elif not_admitted is not None:
        conditions.append(_condition("QuotaReserved", not_admitted, "Pending", "x", "False"))
        conditions.append(
            _condition("Admitted", not_admitted, "NoReservation", "The workload has no reservation", "False")
        )
    if evicted is not None:
        conditions.append(_condition("Evicted", *evicted))
    elif before is not None:
        conditions.append(_condition("Evicted", before[0], "QuotaReserved", f"Previously: {before[1]}", "False"))
    if preempted and evicted is not None:
        conditions.append(_condition("Preempted", evicted[0], preempted, evicted[2]))
    if finished is not None:
        conditions.append(_condition("Finished", finished, "Succeeded", "Job finished successfully"))
    status: dict[str, Any] = {"conditions": conditions}
    if evictions:
        status["schedulingStats"] = {
            "evictions": [{"reason": why, "underlyingCause": "", "count": count} for why, count in evictions.items()]
        }
    kind, name, owner_uid = owner
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": meta(f"{kind.lower()}-{name}-1a2b3", 0, of=uid("wl", owner_uid), owner=owner).to_dict(),
        "spec": {"queueName": queue, "active": True},
        "status": status,
    }
