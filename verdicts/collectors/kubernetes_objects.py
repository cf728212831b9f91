"""What is read of Kubernetes' objects: the fields that say who ran where, how it ended and why. Nothing else is kept.

The names are those of the API (`node_name` is `nodeName` there); tests check them against lightkube's models.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec


class Object(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an answer. What an older or a newer server leaves out has a default; what it adds is not looked at."""


class Owner(Object, frozen=True):
    """metav1.OwnerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(Object, frozen=True):
    """metav1.ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None

    def owner(self) -> Owner | None:
        """The object that made this one, else the first that it belongs to."""
        owners = self.owner_references or []
        return next((owner for owner in owners if owner.controller), owners[0] if owners else None)

    def label(self, *names: str) -> str:
        """The first of these labels, or annotations, that is set."""
        for name in names:
            if found := (self.labels or {}).get(name) or (self.annotations or {}).get(name):
                return found
        return ""


class Condition(Object, frozen=True):
    """A condition of a Job, a JobSet, a training job, a Workload, a pod or a node: they are all of this shape."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class EnvVar(Object, frozen=True):
    """corev1.EnvVar; a value from elsewhere is not known here."""

    name: str = ""
    value: str | None = None


class Resources(Object, frozen=True):
    """corev1.ResourceRequirements."""

    limits: dict[str, str | int | float] | None = None


class Container(Object, frozen=True):
    """corev1.Container."""

    name: str = ""
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    resources: Resources | None = None

    def variable(self, *names: str) -> str:
        """The first of these environment variables that the pod states outright."""
        for name in names:
            for variable in self.env or []:
                if variable.name == name and variable.value:
                    return variable.value
        return ""


class Terminated(Object, frozen=True):
    """corev1.ContainerStateTerminated."""

    exit_code: int = 0
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


class Waiting(Object, frozen=True):
    """corev1.ContainerStateWaiting."""

    reason: str | None = None
    message: str | None = None


class Running(Object, frozen=True):
    """corev1.ContainerStateRunning."""

    started_at: str | None = None


class ContainerState(Object, frozen=True):
    """corev1.ContainerState: one of the three."""

    running: Running | None = None
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Object, frozen=True):
    """corev1.ContainerStatus."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None

    def ended(self) -> Terminated | None:
        """How the container ended, now or the last time."""
        now = self.state.terminated if self.state else None
        return now or (self.last_state.terminated if self.last_state else None)


class PodSpec(Object, frozen=True):
    """corev1.PodSpec."""

    node_name: str | None = None
    containers: list[Container] | None = None


class PodStatus(Object, frozen=True):
    """corev1.PodStatus."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(Object, frozen=True):
    """corev1.Pod."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class RunSpec(Object, frozen=True):
    """What is read of the spec of a Job, a JobSet, a training job: whether it waits, and MPI's slots of a worker."""

    suspend: bool | None = None
    slots_per_worker: int | None = None
    queue_name: str | None = None
    run_policy: "RunPolicy | None" = None


class RunPolicy(Object, frozen=True):
    """RunPolicy of Kubeflow's training jobs, where they say whether they wait."""

    suspend: bool | None = None


class Eviction(Object, frozen=True):
    """How often a Workload was evicted for one reason (Kueue from 0.12 on)."""

    reason: str = ""
    count: int = 0


class SchedulingStats(Object, frozen=True):
    """Kueue's own count of evictions."""

    evictions: list[Eviction] | None = None


class RunStatus(Object, frozen=True):
    """What is read of the status of a Job, a JobSet, a training job or a Workload."""

    conditions: list[Condition] | None = None
    start_time: str | None = None
    completion_time: str | None = None
    restarts: int = 0
    scheduling_stats: SchedulingStats | None = None


class Run(Object, frozen=True):
    """A Job, JobSet, PyTorchJob, MPIJob, TrainJob or Kueue Workload."""

    metadata: Meta = Meta()
    spec: RunSpec = RunSpec()
    status: RunStatus = RunStatus()

    def condition(self, *types: str) -> Condition | None:
        """The first of these conditions that holds."""
        return holds(self.status.conditions, *types)


class Taint(Object, frozen=True):
    """corev1.Taint."""

    key: str = ""
    effect: str = ""
    value: str | None = None
    time_added: str | None = None


class NodeSpec(Object, frozen=True):
    """corev1.NodeSpec."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(Object, frozen=True):
    """corev1.NodeStatus."""

    conditions: list[Condition] | None = None


class Node(Object, frozen=True):
    """corev1.Node."""

    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Reference(Object, frozen=True):
    """corev1.ObjectReference."""

    kind: str = ""
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class Series(Object, frozen=True):
    """corev1.EventSeries."""

    count: int | None = None
    last_observed_time: str | None = None


class EventSource(Object, frozen=True):
    """corev1.EventSource."""

    component: str | None = None
    host: str | None = None


class Event(Object, frozen=True):
    """corev1.Event: every event, also one written through events.k8s.io, can be read in this form."""

    metadata: Meta = Meta()
    involved_object: Reference = Reference()
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: Series | None = None
    source: EventSource | None = None
    reporting_component: str | None = None


def holds(conditions: Iterable[Condition] | None, *types: str) -> Condition | None:
    """The first of these conditions, in the order asked, that is "True"."""
    for wanted in types:
        for condition in conditions or []:
            if condition.type == wanted and condition.status == "True":
                return condition
    return None


@dataclass(frozen=True)
class Resource:
    """A kind of object as it is asked for. `versions` are those whose fields are known here, the best first."""

    plural: str
    kind: str
    group: str
    versions: tuple[str, ...]

    def path(self, version: str, namespace: str) -> str:
        """Where its objects are listed; in all namespaces where none is named."""
        root = f"apis/{self.group}/{version}" if self.group else f"api/{version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"


PODS = Resource("pods", "Pod", "", ("v1",))
WORKLOADS = Resource("workloads", "Workload", "kueue.x-k8s.io", ("v1", "v1beta2", "v1beta1"))
#: What starts pods by itself. Each is looked for where the server has it.
RUNS = (
    Resource("jobs", "Job", "batch", ("v1",)),
    Resource("jobsets", "JobSet", "jobset.x-k8s.io", ("v1", "v1beta1", "v1alpha2")),
    Resource("pytorchjobs", "PyTorchJob", "kubeflow.org", ("v1",)),
    Resource("mpijobs", "MPIJob", "kubeflow.org", ("v2beta1", "v1")),
    Resource("trainjobs", "TrainJob", "trainer.kubeflow.org", ("v1", "v1alpha1")),
)
RESOURCES = (PODS, *RUNS, WORKLOADS)
#: Kinds whose pods are runs. A Job that one of the others made belongs to that one.
RUN_KINDS = frozenset(resource.kind for resource in RUNS)

#: How long a name in a job id may be: the id holds 256 characters.
MAX_NAME = 160
#: A job id can come from anybody, and its parts go into a path and a selector.
_JOB_ID = re.compile(
    r"(?P<namespace>[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/(?P<kind>[a-z]{1,40})"
    r"/(?P<name>[a-z0-9][a-z0-9.-]{0,252})@(?P<uid>[0-9a-f]{8})"
)


@dataclass(frozen=True)
class JobId:
    """The parts of a job id: "ml/pytorchjob/llama-7b@1f0c9a3e"; what `kubectl -n ml get pytorchjob/llama-7b` names.

    The end is the start of the object's uid: an object made again under the same name is another job.
    """

    namespace: str
    kind: str
    name: str
    uid: str

    @classmethod
    def of(cls, kind: str, namespace: str, name: str, uid: str) -> "JobId":
        """The job id of an object."""
        start = re.sub("[^0-9a-f]", "", uid.lower())[:8].ljust(8, "0")
        space = re.sub("[^a-z0-9.-]", "-", namespace.lower())[:63] or "default"
        return cls(space, kind.lower(), re.sub("[^a-z0-9.-]", "-", name.lower())[:MAX_NAME] or "-", start)

    @classmethod
    def parse(cls, text: str) -> "JobId | None":
        """The parts of a job id that was made here, else None."""
        match = _JOB_ID.fullmatch(text)
        return cls(**match.groupdict()) if match else None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind}/{self.name}@{self.uid}"

    def selector(self) -> str:
        """The label selector of its pods."""
        return f"{_NAMED_BY.get(self.kind, 'training.kubeflow.org/job-name')}={self.name}"


_NAMED_BY = {
    "job": "job-name",
    "jobset": "jobset.sigs.k8s.io/jobset-name",
    "trainjob": "jobset.sigs.k8s.io/jobset-name",
}
