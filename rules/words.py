"""The closed sets of words that rules, verdicts, the API and the screens share."""

from enum import StrEnum


class Source(StrEnum):
    """A kind of evidence. The order is the order of the coverage strip."""

    APPLOG = "applog"
    SYSLOG = "syslog"
    FABRIC_MANAGER = "fabric_manager"
    SCHEDULER = "scheduler"
    KUBERNETES = "kubernetes"
    NODE_METRICS = "node_metrics"
    NETWORK_METRICS = "network_metrics"
    GPU_EVENTS = "gpu_events"
    PROGRESS = "progress"


#: What every attempt leaves something in.
ALWAYS = frozenset({Source.APPLOG, Source.SYSLOG, Source.SCHEDULER, Source.KUBERNETES})


class Domain(StrEnum):
    """Where a cause lies; the last three are verdicts about the evidence, not about a part."""

    GPU_HARDWARE = "gpu_hardware"
    NVLINK_FABRIC = "nvlink_fabric"
    NETWORK_FABRIC = "network_fabric"
    HOST_HARDWARE = "host_hardware"
    HOST_SOFTWARE = "host_software"
    STORAGE = "storage"
    SCHEDULER = "scheduler"
    CONTAINER_IMAGE = "container_image"
    APPLICATION_CODE = "application_code"
    APPLICATION_CONFIG = "application_config"
    RESOURCE_EXHAUSTION = "resource_exhaustion"
    FACILITY = "facility"
    USER_ACTION = "user_action"
    MAINTENANCE = "maintenance"
    AMBIGUOUS = "ambiguous"
    UNATTRIBUTED = "unattributed"
    NO_FAILURE = "no_failure"


#: Domains that a rule may name; the other three are conclusions of the engine.
CAUSAL_DOMAINS = frozenset(Domain) - {Domain.AMBIGUOUS, Domain.UNATTRIBUTED, Domain.NO_FAILURE}


class Role(StrEnum):
    """What a symptom can be in the story of a failure."""

    CAUSE = "cause"  # can start a failure
    EITHER = "either"  # a cause when nothing explains it and no plain cause is there
    SYMPTOM = "symptom"  # only ever a consequence
    CONFIRMATION = "confirmation"  # raises another's strength
    TEARDOWN = "teardown"  # the job being ended
    STATE = "state"  # true for a time, kept as interesting, never blamed by itself
    NOISE = "noise"  # looks like an error and is none: kept out of the unrecognised
    PROGRESS = "progress"  # the workload moved
    END = "end"  # says how the attempt ended and nothing about why


class State(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    PREEMPTED = "preempted"
    NODE_FAILED = "node_failed"
    OUT_OF_MEMORY = "out_of_memory"
    HUNG = "hung"
    DEGRADED = "degraded"
    RUNNING = "running"
    UNKNOWN = "unknown"


class Strength(StrEnum):
    """A stated rule of evidence, see docs/engine.md; weakest first in `STRENGTHS`."""

    STRONG = "strong"
    MODERATE = "moderate"
    WEAK = "weak"


STRENGTHS = (Strength.WEAK, Strength.MODERATE, Strength.STRONG)


class Maturity(StrEnum):
    """How far a rule may be trusted: draft is shown, trial may propose, stable may act under a policy."""

    DRAFT = "draft"
    TRIAL = "trial"
    STABLE = "stable"


class ReportStatus(StrEnum):
    """What a collector says of its source."""

    OK = "ok"
    PARTIAL = "partial"
    EMPTY = "empty"
    ERROR = "error"
    NOT_CONFIGURED = "not_configured"


class Relation(StrEnum):
    """Where a consequence may lie, seen from its cause."""

    JOB = "job"  # anywhere in the attempt
    NODE = "node"  # same node
    GPU = "gpu"  # same GPU of the same node
    RANK = "rank"  # same rank
    LINK = "link"  # same link of the same GPU
    PEER = "peer"  # the consequence names the cause's node as its peer
    SWITCH = "switch"  # nodes that share a switch in the given topology


class Group(StrEnum):
    """Families of consequences that rules refer to as "@name" in `explains`."""

    COLLECTIVE = "collective"  # NCCL and watchdog reports of a collective that did not complete
    CONNECTION = "connection"  # sockets, stores and rendezvous that lost a peer
    PROCESS_DEATH = "process_death"  # exit codes and signals of ranks
    TEARDOWN = "teardown"  # the launcher or scheduler ending what is left
    CUDA_ERROR = "cuda_error"  # CUDA errors as the application saw them
    GPU_FOLLOWON = "gpu_followon"  # Xids that follow another fault
    NVLINK_FOLLOWON = "nvlink_followon"  # link reports that follow another link's fault
    LINK_REPORT = "link_report"  # the network's own reports of a link
    NODE_LOST = "node_lost"  # a node stopped answering
    STORAGE_ERROR = "storage_error"  # I/O errors as applications and kernels saw them
    MEMORY_KILL = "memory_kill"  # kills and failures that memory exhaustion leads to
    HANG = "hang"  # nothing moved any more
    CONTAINER_START = "container_start"  # a container that did not start
    SCHEDULER_END = "scheduler_end"  # the scheduler's own closing records
    PYTHON_EXCEPTION = "python_exception"  # an exception that names no layer below
    ADMISSION = "admission"  # pods or jobs that were not admitted, placed or kept
