"""How the words of the closed sets read on a page: label, tone and shape of each."""

from typing import NamedTuple

from rules.explain import DOMAIN_NAMES
from rules.words import Domain, Maturity, Relation, ReportStatus, Role, Source, State, Strength
from verdicts.choices import FindingStatus, Label


class Look(NamedTuple):
    """The text of a chip, its tone (a CSS class) and its icon: the text alone must be enough."""

    text: str
    tone: str = ""
    icon: str = ""


def _label(domain: Domain) -> str:
    name = DOMAIN_NAMES[domain]
    return name[0].upper() + name[1:]


DOMAINS: dict[str, Look] = {
    Domain.GPU_HARDWARE: Look(_label(Domain.GPU_HARDWARE), "blue"),
    Domain.NVLINK_FABRIC: Look(_label(Domain.NVLINK_FABRIC), "blue"),
    Domain.NETWORK_FABRIC: Look(_label(Domain.NETWORK_FABRIC), "blue"),
    Domain.HOST_HARDWARE: Look(_label(Domain.HOST_HARDWARE), "blue"),
    Domain.HOST_SOFTWARE: Look(_label(Domain.HOST_SOFTWARE), "teal"),
    Domain.STORAGE: Look(_label(Domain.STORAGE), "teal"),
    Domain.SCHEDULER: Look(_label(Domain.SCHEDULER), "teal"),
    Domain.FACILITY: Look(_label(Domain.FACILITY), "teal"),
    Domain.MAINTENANCE: Look(_label(Domain.MAINTENANCE), "teal"),
    Domain.CONTAINER_IMAGE: Look(_label(Domain.CONTAINER_IMAGE), "violet"),
    Domain.APPLICATION_CODE: Look(_label(Domain.APPLICATION_CODE), "violet"),
    Domain.APPLICATION_CONFIG: Look(_label(Domain.APPLICATION_CONFIG), "violet"),
    Domain.RESOURCE_EXHAUSTION: Look(_label(Domain.RESOURCE_EXHAUSTION), "violet"),
    Domain.USER_ACTION: Look(_label(Domain.USER_ACTION), "violet"),
    Domain.AMBIGUOUS: Look(_label(Domain.AMBIGUOUS), "amber open", "several"),
    Domain.UNATTRIBUTED: Look(_label(Domain.UNATTRIBUTED), "dotted", "question"),
    Domain.NO_FAILURE: Look(_label(Domain.NO_FAILURE), "green", "check"),
}

#: How a chart draws a domain, wherever and however often it occurs: a colour, and a pattern for those of one colour.
MARKS: dict[str, tuple[str, str]] = {
    Domain.GPU_HARDWARE: ("var(--blue)", ""),
    Domain.NVLINK_FABRIC: ("var(--blue)", "/"),
    Domain.NETWORK_FABRIC: ("var(--teal)", ""),
    Domain.HOST_HARDWARE: ("var(--red)", ""),
    Domain.HOST_SOFTWARE: ("var(--red)", "/"),
    Domain.STORAGE: ("var(--teal)", "/"),
    Domain.SCHEDULER: ("var(--green)", "/"),
    Domain.CONTAINER_IMAGE: ("var(--violet)", "/"),
    Domain.APPLICATION_CODE: ("var(--violet)", ""),
    Domain.APPLICATION_CONFIG: ("var(--violet)", "."),
    Domain.RESOURCE_EXHAUSTION: ("var(--green)", ""),
    Domain.FACILITY: ("var(--red)", "."),
    Domain.USER_ACTION: ("var(--green)", "."),
    Domain.MAINTENANCE: ("var(--teal)", "."),
    Domain.AMBIGUOUS: ("var(--amber)", ""),
    Domain.UNATTRIBUTED: ("var(--amber)", "/"),
    Domain.NO_FAILURE: ("var(--blue)", "."),
}
#: Attempts without a verdict, and domains that are drawn together.
MARK_OF_OTHERS = ("var(--grey-line)", "")

STATES: dict[str, Look] = {
    State.SUCCEEDED: Look("Succeeded", "green", "check"),
    State.FAILED: Look("Failed", "red", "cross"),
    State.CANCELLED: Look("Cancelled", "", "stop"),
    State.TIMED_OUT: Look("Out of time", "amber", "clock"),
    State.PREEMPTED: Look("Preempted", "", "pause"),
    State.NODE_FAILED: Look("Node failed", "red", "cross"),
    State.OUT_OF_MEMORY: Look("Out of memory", "red", "cross"),
    State.HUNG: Look("Hung", "amber", "pause"),
    State.DEGRADED: Look("Degraded", "amber", "down"),
    State.RUNNING: Look("Running", "blue", "play"),
    State.UNKNOWN: Look("End not known", "dotted", "question"),
}

STRENGTHS: dict[str, str] = {
    Strength.STRONG: "Strong",
    Strength.MODERATE: "Moderate",
    Strength.WEAK: "Weak",
}

#: The stated rule of evidence behind each strength.
STRENGTH_RULES: dict[str, str] = {
    Strength.STRONG: (
        "Strong: direct evidence on a named place, before every error of the workload by more than the clocks "
        "can be off, with the job's own log, the system log and the scheduler's record seen whole."
    ),
    Strength.MODERATE: "Moderate: direct evidence, but its order or the coverage leaves room for another cause.",
    Strength.WEAK: "Weak: inferred from consequences, or seen directly with so much left open that another cause "
    "may be behind it.",
}

SOURCES: dict[str, str] = {
    Source.APPLOG: "Application log",
    Source.SYSLOG: "System log",
    Source.FABRIC_MANAGER: "Fabric Manager",
    Source.SCHEDULER: "Scheduler",
    Source.KUBERNETES: "Kubernetes",
    Source.NODE_METRICS: "Node metrics",
    Source.NETWORK_METRICS: "Network metrics",
    Source.GPU_EVENTS: "GPU events",
    Source.PROGRESS: "Progress",
}

REPORT_STATUSES: dict[str, str] = {
    ReportStatus.OK: "collected",
    ReportStatus.PARTIAL: "in part",
    ReportStatus.EMPTY: "empty",
    ReportStatus.ERROR: "failed",
    ReportStatus.NOT_CONFIGURED: "not collected",
}

#: Sources and what became of them within a sentence: "could not fire: Fabric Manager log not collected".
SOURCES_IN_TEXT: dict[str, str] = {
    Source.APPLOG: "application log",
    Source.SYSLOG: "system log",
    Source.FABRIC_MANAGER: "Fabric Manager log",
    Source.SCHEDULER: "scheduler records",
    Source.KUBERNETES: "Kubernetes events",
    Source.NODE_METRICS: "node metrics",
    Source.NETWORK_METRICS: "network metrics",
    Source.GPU_EVENTS: "GPU events",
    Source.PROGRESS: "progress marks",
}
REPORT_STATUSES_IN_TEXT: dict[str, str] = {
    ReportStatus.OK: "collected",
    ReportStatus.PARTIAL: "collected only in part",
    ReportStatus.EMPTY: "empty",
    ReportStatus.ERROR: "could not be read",
    ReportStatus.NOT_CONFIGURED: "not collected",
}

FINDING_STATUSES: dict[str, str] = {
    FindingStatus.CAUSE: "cause",
    FindingStatus.CANDIDATE: "candidate",
    FindingStatus.DEMOTED: "explained",
    FindingStatus.INTERESTING: "kept",
}

#: What a rule's findings can be in the story of a failure, and what the word means.
ROLES: dict[str, str] = {
    Role.CAUSE: "cause",
    Role.EITHER: "cause or consequence",
    Role.SYMPTOM: "consequence",
    Role.CONFIRMATION: "confirmation",
    Role.TEARDOWN: "teardown",
    Role.STATE: "state",
    Role.NOISE: "harmless",
    Role.PROGRESS: "progress",
    Role.END: "end",
}
ROLE_RULES: dict[str, str] = {
    Role.CAUSE: "It can start a failure.",
    Role.EITHER: "It is blamed when nothing explains it and no plain cause is there.",
    Role.SYMPTOM: "It is only ever a consequence and never blamed.",
    Role.CONFIRMATION: "It raises the strength of another finding.",
    Role.TEARDOWN: "It is the job being ended, and never blamed.",
    Role.STATE: "It is true for a time and kept, never blamed by itself.",
    Role.NOISE: "It looks like an error and is none; verdicts leave it out.",
    Role.PROGRESS: "It says that the workload moved; verdicts leave it out.",
    Role.END: "It says how the attempt ended and nothing about why.",
}

MATURITIES: dict[str, Look] = {
    Maturity.STABLE: Look("stable", "green", "check"),
    Maturity.TRIAL: Look("trial", "amber"),
    Maturity.DRAFT: Look("draft", "dotted", "question"),
}
MATURITY_RULES: dict[str, str] = {
    Maturity.STABLE: "It may act under a policy.",
    Maturity.TRIAL: "It may propose, not act.",
    Maturity.DRAFT: "It is shown, and what rests on it is never more than weak.",
}

#: Signs of parser drift: the name of each, and what it says.
DRIFT: dict[str, tuple[str, str]] = {
    "silent": (
        "Rules gone silent",
        (
            "They matched before and do not any more, while others of their family still do: the message may have "
            "changed its wording."
        ),
    ),
    "near_miss": (
        "Near-misses",
        "The fixed text of a rule comes in lines that neither it nor another rule matches.",
    ),
    "healthy_missing": (
        "Missing on a healthy fleet",
        "The rule says how often it matches on a healthy fleet, and it did not at all.",
    ),
    "unknown": (
        "Unknown errors after a version change",
        (
            "Templates of error lines that no rule knows, that were never seen before, and that only attempts with a "
            "new image or verdicts with new rules have."
        ),
    ),
    "too_often": (
        "More often than on a healthy fleet",
        (
            "The rule matches far more often than it says of a healthy fleet: it has become too broad, or the fleet "
            "has changed."
        ),
    ),
}

LABELS: dict[str, Look] = {
    Label.RIGHT: Look("Right", "green", "check"),
    Label.WRONG: Look("Wrong", "red", "cross"),
    Label.UNDECIDABLE: Look("Cannot tell", "dotted", "question"),
}

RELATIONS: dict[str, str] = {
    Relation.JOB: "in the same job",
    Relation.NODE: "on the same node",
    Relation.GPU: "on the same GPU",
    Relation.RANK: "on the same rank",
    Relation.LINK: "on the same link",
    Relation.PEER: "on the node that it names as its peer",
    Relation.SWITCH: "behind the same switch",
}


def plain(word: str) -> str:
    """A word of no known set, readable: underscores become spaces."""
    return word.replace("_", " ")


JOB_OWNER = "job owner"
#: Who contains a failure and who repairs its cause, by domain; docs/console.md has the table for people.
CONTAINS: dict[str, str] = {
    Domain.GPU_HARDWARE: "cluster operations",
    Domain.NVLINK_FABRIC: "cluster operations",
    Domain.NETWORK_FABRIC: "network operations",
    Domain.HOST_HARDWARE: "cluster operations",
    Domain.HOST_SOFTWARE: "cluster operations",
    Domain.STORAGE: "storage operations",
    Domain.SCHEDULER: "cluster operations",
    Domain.FACILITY: "facility operations",
    Domain.MAINTENANCE: "cluster operations",
    Domain.CONTAINER_IMAGE: JOB_OWNER,
    Domain.APPLICATION_CODE: JOB_OWNER,
    Domain.APPLICATION_CONFIG: JOB_OWNER,
    Domain.RESOURCE_EXHAUSTION: JOB_OWNER,
    Domain.USER_ACTION: JOB_OWNER,
    Domain.AMBIGUOUS: "operator on duty",
    Domain.UNATTRIBUTED: "operator on duty",
    Domain.NO_FAILURE: "",
}
REPAIRS: dict[str, str] = CONTAINS | {
    Domain.GPU_HARDWARE: "cluster operations with the hardware vendor",
    Domain.NVLINK_FABRIC: "cluster operations with the hardware vendor",
    Domain.HOST_HARDWARE: "cluster operations with the hardware vendor",
    Domain.HOST_SOFTWARE: "owner of the node image",
    Domain.CONTAINER_IMAGE: "owner of the image",
    Domain.SCHEDULER: "owner of the scheduler",
    Domain.RESOURCE_EXHAUSTION: "job owner with cluster operations",
}
