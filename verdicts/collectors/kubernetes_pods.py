"""What is kept of a pod: where it was, its place among its run's pods, and how it ended."""

import re
from datetime import UTC, datetime

import msgspec

from verdicts.collectors.kubernetes_objects import Container, ContainerStatus, Pod, Terminated, holds

#: Characters kept of what a controller says.
SAID = 400
ROLE_LABELS = (
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "jobset.sigs.k8s.io/replicatedjob-name",
)


class Fact(msgspec.Struct, omit_defaults=True):
    """A part of the cursor."""


class PodFact(Fact):
    """One pod. `seen` is when it first was; `slot` its place among its run's pods, which a pod that replaces it
    takes over, "" where it has none.

    `lap` is the JobSet restart that made it; `dying` when its deletion was asked for; `gone` when it was found gone;
    `role`, `job` and `index` its place, `rank` the one that its environment states; `per` the processes in it.
    """

    name: str
    created: int
    seen: int = 0
    slot: str = ""
    node: str = ""
    phase: str = ""
    started: int | None = None
    dying: int | None = None
    ended: int | None = None
    gone: int | None = None
    lap: int | None = None
    code: int | None = None
    signal: int | None = None
    why: str = ""
    said: str = ""
    image: str = ""
    restarts: int = 0
    role: str = ""
    job: int | None = None
    index: int | None = None
    rank: int | None = None
    per: int | None = None

    def over(self) -> int | None:
        """When it stopped counting as there: it ended, its deletion was asked for, or it was found gone."""
        known = [moment for moment in (self.ended, self.dying) if moment is not None]
        return min(known) if known else self.gone

    def failed(self) -> bool:
        """Whether it ended badly."""
        return self.phase == "Failed" or self.code not in (None, 0)


def seconds(text: str | None) -> int | None:
    """Whole seconds since 1970 of the API's time; None where it is none."""
    try:
        return int(datetime.fromisoformat(text or "").timestamp())
    except (ValueError, OverflowError):
        return None


def written(moment: int) -> str:
    """RFC 3339 of seconds since 1970."""
    return datetime.fromtimestamp(moment, UTC).isoformat()


def one_line(text: str | None, longest: int = SAID) -> str:
    """A controller's words on one line, cut."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f\u2028\u2029]+", " ", text or "").split())[:longest]


def pod_fact(pod: Pod, owner: str, now: int) -> PodFact:
    """What is kept of a pod."""
    meta, status = pod.metadata, pod.status
    main = _main(pod.spec.containers or [])
    role = meta.label(*ROLE_LABELS)
    index = _number(meta.label("training.kubeflow.org/replica-index", "batch.kubernetes.io/job-completion-index"))
    asked = seconds(meta.deletion_timestamp)
    statuses = status.container_statuses or []
    fact = PodFact(
        name=meta.name,
        created=seconds(meta.creation_timestamp) or now,
        seen=now,
        node=_name(pod.spec.node_name),
        phase=status.phase or "",
        started=seconds(status.start_time),
        dying=None if asked is None else asked - (meta.deletion_grace_period_seconds or 0),
        lap=_number(meta.label("jobset.sigs.k8s.io/restart-attempt")),
        image=one_line(main.image, 1024) if main else "",
        restarts=sum(container.restart_count for container in statuses),
        role=role,
        job=_number(meta.label("jobset.sigs.k8s.io/job-index")),
        index=index,
        rank=_number(main.variable("PET_NODE_RANK", "NODE_RANK", "GROUP_RANK", "RANK")) if main else None,
        per=processes(main) if main else None,
    )
    if index is not None:
        fact.slot = f"{owner}/{role}/{index}"
    elif not meta.name.startswith(f"{owner}-") or role:
        fact.slot = meta.name
    _ending(fact, pod, statuses)
    return fact


def _ending(fact: PodFact, pod: Pod, statuses: list[ContainerStatus]) -> None:
    """How the pod, or the first of its containers to fail, ended."""
    ends = [end for status in statuses if (end := status.ended()) is not None]
    ends += [
        end
        for status in pod.status.init_container_statuses or []
        if (end := status.ended()) is not None and end.exit_code != 0
    ]
    over = fact.phase in ("Succeeded", "Failed")
    if over:
        finished = [moment for end in ends if (moment := seconds(end.finished_at)) is not None]
        # A pod that the kubelet evicted, or whose node was lost, may have no containers' states.
        unready = [seconds(c.last_transition_time) for c in pod.status.conditions or [] if c.type in _UNREADY]
        known = max(finished, default=None) or max(filter(None, unready), default=None)
        fact.ended = known or fact.dying or fact.seen
    bad = sorted((end for end in ends if end.exit_code != 0), key=_first_bad)
    if bad and (over or fact.restarts):
        fact.code, fact.signal = bad[0].exit_code, bad[0].signal
        fact.why, fact.said = one_line(bad[0].reason), one_line(bad[0].message)
    elif over and fact.phase == "Succeeded":
        fact.code = 0
    disrupted = holds(pod.status.conditions, "DisruptionTarget")
    if pod.status.reason or disrupted:
        # Evicted, NodeLost, DeadlineExceeded, PreemptionByScheduler: says more than how the process then ended.
        if not (fact.why == "OOMKilled" and over):
            fact.why = one_line((disrupted.reason if disrupted else None) or pod.status.reason)
            fact.said = one_line(pod.status.message or (disrupted.message if disrupted else None))


_UNREADY = ("Ready", "ContainersReady", "DisruptionTarget")


def _first_bad(end: Terminated) -> tuple[int, bool, int]:
    return (seconds(end.finished_at) or 0, end.reason != "OOMKilled", end.exit_code)


def _main(containers: list[Container]) -> Container | None:
    """The container that has the GPUs, else the first."""
    return next((c for c in containers if gpus(c)), containers[0] if containers else None)


def gpus(container: Container) -> int:
    """How many GPUs a container asks for."""
    limits = (container.resources.limits if container.resources else None) or {}
    return sum(_number(str(count)) or 0 for name, count in limits.items() if name.endswith("/gpu"))


_PER_NODE = re.compile(r"--nproc[_-]per[_-]node[= ]+(\w+)")


def processes(container: Container) -> int | None:
    """How many processes the launcher in a container starts; None where nothing says it."""
    said = container.variable("PET_NPROC_PER_NODE", "NPROC_PER_NODE")
    if not said:
        match = _PER_NODE.search(" ".join([*(container.command or []), *(container.args or [])])[:100_000])
        said = match[1] if match else ""
    count = gpus(container)
    if said in ("auto", "gpu"):
        return count or None
    if said:
        return _number(said) or None
    return 1 if count <= 1 else None


def _name(text: str | None) -> str:
    """A node's name; "" for what is none."""
    return text if text and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", text) else ""


def _number(text: str) -> int | None:
    """A label's or a variable's small whole number."""
    return int(text) if re.fullmatch("[0-9]{1,6}", text) else None
