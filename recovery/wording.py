"""How the words of recovery read on a page: label, tone and shape of each."""

from recovery.words import (
    ActionKind,
    ActionState,
    CaseLabel,
    DecisionKind,
    ExclusionState,
    LabelBasis,
    MilestoneKind,
    Outcome,
    PolicyMode,
    ProposalState,
    RejectReason,
)
from verdicts.wording import Look

ACTIONS: dict[str, str] = {
    ActionKind.RESTART: "Restart",
    ActionKind.RESTART_EXCLUDING: "Restart without nodes",
    ActionKind.STOP: "Stop",
    ActionKind.HOLD: "Hold",
    ActionKind.NOTIFY: "Tell somebody",
    ActionKind.DRAIN: "Drain nodes",
    ActionKind.UNDRAIN: "Give nodes back",
    ActionKind.LIFT_EXCLUSION: "Lift an exclusion",
}

MODES: dict[str, Look] = {
    PolicyMode.OBSERVE: Look("Observes", "dotted"),
    PolicyMode.ADVISORY: Look("Advisory", "blue"),
    PolicyMode.AUTOMATIC: Look("Automatic", "violet"),
}

PROPOSALS: dict[str, Look] = {
    ProposalState.OBSERVED: Look("Recorded only", "dotted"),
    ProposalState.OPEN: Look("Waits for a decision", "amber", "clock"),
    ProposalState.APPROVED: Look("Approved", "blue", "check"),
    ProposalState.ACTING: Look("Being carried out", "blue", "play"),
    # What came of it is the action's to say: it may have been given up.
    ProposalState.CLOSED: Look("Over", "", "stop"),
    ProposalState.REJECTED: Look("Rejected", "", "cross"),
    ProposalState.EXPIRED: Look("Expired", "dotted", "clock"),
    ProposalState.WITHDRAWN: Look("Withdrawn", "dotted", "stop"),
    ProposalState.VETOED: Look("Vetoed", "", "stop"),
}

ACTION_STATES: dict[str, Look] = {
    ActionState.INTENDED: Look("Intended, nothing sent", "dotted", "clock"),
    ActionState.SENT: Look("Sent, not seen yet", "amber", "clock"),
    ActionState.UNKNOWN: Look("Unknown: looked at again", "amber", "question"),
    ActionState.CONVERGED: Look("Seen to be so", "green", "check"),
    ActionState.ALREADY_SO: Look("Was so already", "green", "check"),
    ActionState.ABANDONED: Look("Given up", "", "stop"),
    ActionState.FAILED: Look("Failed", "red", "cross"),
}

EXCLUSIONS: dict[str, Look] = {
    ExclusionState.STANDING: Look("Stands", "amber", "pause"),
    ExclusionState.LIFTED: Look("Lifted", "green", "check"),
    ExclusionState.EXPIRED: Look("Expired", "dotted", "clock"),
}

DECISIONS: dict[str, str] = {
    DecisionKind.APPROVE: "approved",
    DecisionKind.REJECT: "rejected",
    DecisionKind.ASK: "asked for more",
    DecisionKind.WITHDRAW: "withdrew it",
}

REASONS: dict[str, str] = {
    RejectReason.WRONG_NODE: "Wrong node",
    RejectReason.WRONG_CAUSE: "Wrong cause",
    RejectReason.TOO_LITTLE_EVIDENCE: "Too little evidence",
    RejectReason.NOT_WORTH_CAPACITY: "Not worth the capacity",
    RejectReason.HANDLED_BY_HAND: "Handled by hand",
    RejectReason.OTHER: "Another reason",
}

MILESTONES: dict[str, str] = {
    MilestoneKind.ACTION_DONE: "Action done",
    MilestoneKind.ALLOCATION_RESTARTED: "Running again",
    MilestoneKind.PROGRESS_RESTORED: "Past the last checkpoint",
    MilestoneKind.COMPLETED: "Completed",
}

OUTCOMES: dict[str, Look] = {
    Outcome.WORKED: Look("Worked", "green", "check"),
    Outcome.DID_NOT: Look("Did not work", "red", "cross"),
    Outcome.NOT_NEEDED: Look("Was not needed", "amber"),
    Outcome.CANNOT_TELL: Look("Cannot tell", "dotted", "question"),
}

LABELS: dict[str, Look] = {
    CaseLabel.RIGHT: Look("Right cause", "green", "check"),
    CaseLabel.WRONG: Look("Wrong cause", "red", "cross"),
    CaseLabel.PRECAUTION: Look("Not the cause, a reasonable precaution", "amber"),
    CaseLabel.UNDECIDABLE: Look("Cannot be decided", "dotted", "question"),
}

BASES: dict[str, str] = {
    LabelBasis.DIAGNOSTICS: "Diagnostics of the part",
    LabelBasis.RECURRENCE: "It came again there, or did not come again elsewhere",
    LabelBasis.VENDOR: "The vendor's word",
    LabelBasis.INSPECTION: "Somebody looked at the machine",
    LabelBasis.INJECTED: "The fault was planted",
}

#: What each guard looks after, as it begins a sentence or heads a line.
GUARDS: dict[str, str] = {
    "actions_per_hour": "actions per hour",
    "age": "time since the failure",
    "budget": "restarts of the workload",
    "budget_cause": "restarts for this cause",
    "budget_locus": "restarts for this place",
    "budget_unknown": "restarts without known progress",
    "capacity": "nodes that must stay",
    "clock": "clock",
    "cluster_share": "share of the cluster",
    "common_cause": "shared cause",
    "cooldown": "time between actions",
    "domain": "domain",
    "exclusions_alive": "nodes away at once",
    "expired": "expired",
    "job": "job",
    "kill_switch": "kill switch",
    "mode": "mode of the policy",
    "moving": "on its way",
    "nodes": "nodes",
    "nodes_per_action": "nodes per action",
    "nodes_per_day": "nodes per day",
    "nodes_per_hour": "nodes per hour",
    "nodes_per_job": "nodes per job",
    "ours": "not ours",
    "pace": "slowed down",
    "partition_share": "share of the partition",
    "rack_share": "share of the rack",
    "stop": "stopped",
    "switch_share": "share of the switch",
    "verdict": "verdict",
    "veto": "veto",
    "wrong_exclusion": "wrong exclusion before",
}
