"""The closed sets of words of recovery, shared by code, database, API and screens."""

from enum import StrEnum


class AnomalyKind(StrEnum):
    """What was detected."""

    CRASH = "crash"
    HANG = "hang"
    STRAGGLER = "straggler"


class Via(StrEnum):
    """How a sign of progress came to us."""

    POST = "post"  # the workload posted it
    LOG = "log"  # read from its log
    PROMETHEUS = "prometheus"


class ActionKind(StrEnum):
    """What can be proposed. Containment acts on the job, the last three on a node or on what was done to one."""

    RESTART = "restart"
    RESTART_EXCLUDING = "restart_excluding"
    STOP = "stop"
    HOLD = "hold"
    NOTIFY = "notify"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    LIFT_EXCLUSION = "lift_exclusion"


#: What only gives back: no brake, cap or kill switch stands in its way.
RELIEF = frozenset({ActionKind.UNDRAIN, ActionKind.LIFT_EXCLUSION})
#: What takes nodes away from a job or from everybody.
EXCLUDING = frozenset({ActionKind.RESTART_EXCLUDING, ActionKind.DRAIN})


class PolicyMode(StrEnum):
    """What a policy may do with a class of verdict on a cluster."""

    OBSERVE = "observe"  # what would have been done is recorded; nothing reaches a scheduler
    ADVISORY = "advisory"  # the proposal waits for a person
    AUTOMATIC = "automatic"  # it acts by itself, inside its caps


class ProposalState(StrEnum):
    """Where a proposal stands; `recovery.machine` has what may follow what."""

    OBSERVED = "observed"  # recorded only: its policy observes
    OPEN = "open"  # waits for a decision
    APPROVED = "approved"  # decided; its action is not begun
    ACTING = "acting"  # its action is begun
    CLOSED = "closed"  # its action ended, however it ended
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"  # its verdict was superseded, its job changed, or its author took it back
    VETOED = "vetoed"


OPEN_PROPOSALS = (ProposalState.OPEN, ProposalState.APPROVED, ProposalState.ACTING)


class DecisionKind(StrEnum):
    """What a person said of a proposal."""

    APPROVE = "approve"
    REJECT = "reject"
    ASK = "ask"  # more evidence is wanted first; it stays open
    WITHDRAW = "withdraw"


class RejectReason(StrEnum):
    """Why a proposal was rejected; reasons are labels for the evaluation."""

    WRONG_NODE = "wrong_node"
    WRONG_CAUSE = "wrong_cause"
    TOO_LITTLE_EVIDENCE = "too_little_evidence"
    NOT_WORTH_CAPACITY = "not_worth_capacity"
    HANDLED_BY_HAND = "handled_by_hand"
    OTHER = "other"


class ActionState(StrEnum):
    """How far an action is, as observed. The last four are ends."""

    INTENDED = "intended"  # written down; nothing was sent
    SENT = "sent"  # something was sent; what came of it was not seen yet
    UNKNOWN = "unknown"  # what came of it cannot be seen: it is looked at again, never repeated blindly
    CONVERGED = "converged"  # a fresh look shows the wanted state
    ALREADY_SO = "already_so"  # a fresh look before the first call showed it
    ABANDONED = "abandoned"  # it can no longer be reached, or was given up before an effect
    FAILED = "failed"


ENDED_ACTIONS = (ActionState.CONVERGED, ActionState.ALREADY_SO, ActionState.ABANDONED, ActionState.FAILED)


class ExclusionState(StrEnum):
    """Whether a node is kept away."""

    STANDING = "standing"
    LIFTED = "lifted"
    EXPIRED = "expired"


class ExclusionKind(StrEnum):
    """What a node is kept away from."""

    JOB = "job"  # this job alone: Slurm's excluded nodes, a node affinity
    NODE = "node"  # everybody: drained or cordoned


class MilestoneKind(StrEnum):
    """What was observed after an action, each at its own time."""

    ACTION_DONE = "action_done"
    ALLOCATION_RESTARTED = "allocation_restarted"
    PROGRESS_RESTORED = "progress_restored"
    COMPLETED = "completed"


class Outcome(StrEnum):
    """What came of a proposal. Whether its diagnosis was right is a separate question: see `CaseLabel`."""

    WORKED = "worked"
    DID_NOT = "did_not"
    NOT_NEEDED = "not_needed"
    CANNOT_TELL = "cannot_tell"


class CaseLabel(StrEnum):
    """What was found afterwards about the diagnosis. A reasonable precaution is not a right diagnosis."""

    RIGHT = "right"
    WRONG = "wrong"
    PRECAUTION = "precaution"  # not the cause, and reasonable with what was known; counts as wrong in the meter
    UNDECIDABLE = "undecidable"  # counts as wrong in the meter


class LabelBasis(StrEnum):
    """What a label rests on. An approver's agreement is none."""

    DIAGNOSTICS = "diagnostics"
    RECURRENCE = "recurrence"  # the same on the node with another job, or elsewhere without it
    VENDOR = "vendor"
    INSPECTION = "inspection"  # somebody looked at the machine
    INJECTED = "injected"  # the fault was planted, so the truth is known; counted apart


class VetoKind(StrEnum):
    """What a veto protects."""

    NODE = "node"
    JOB = "job"
    GROUP = "group"  # a switch, rack or other shared element


class BrakeKind(StrEnum):
    """The two brakes: neither stops what gives back."""

    PACE = "pace"  # clears itself when the window has passed
    STOP = "stop"  # stands until a person releases it with a reason


class DrillState(StrEnum):
    """How far a retention drill is. The last three are ends; only one of them is good."""

    ASKED = "asked"
    RUNNING = "running"
    PASSED = "passed"  # every check was carried out and passed
    FAILED = "failed"  # a check was carried out and failed
    INCOMPLETE = "incomplete"  # none failed, and something could not be checked


class CheckOutcome(StrEnum):
    """What came of one check of a drill."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not_checked"


class EntryKind(StrEnum):
    """What a ledger entry records."""

    VERDICT_ISSUED = "verdict.issued"
    VERDICT_SUPERSEDED = "verdict.superseded"
    REVIEW_GIVEN = "review.given"
    ANOMALY_DETECTED = "anomaly.detected"
    PROPOSAL_MADE = "proposal.made"
    PROPOSAL_OBSERVED = "proposal.observed"
    PROPOSAL_APPROVED = "proposal.approved"
    PROPOSAL_REJECTED = "proposal.rejected"
    PROPOSAL_ASKED = "proposal.asked"
    PROPOSAL_EXPIRED = "proposal.expired"
    PROPOSAL_WITHDRAWN = "proposal.withdrawn"
    PROPOSAL_VETOED = "proposal.vetoed"
    PROPOSAL_CLOSED = "proposal.closed"
    OUTCOME_GIVEN = "outcome.given"
    LABEL_GIVEN = "label.given"
    ACTION_INTENDED = "action.intended"
    ACTION_SENT = "action.sent"
    ACTION_OBSERVED = "action.observed"
    MILESTONE = "milestone.observed"
    EXCLUSION_MADE = "exclusion.made"
    EXCLUSION_LIFTED = "exclusion.lifted"
    EXCLUSION_EXPIRED = "exclusion.expired"
    EXCLUSION_WRONG = "exclusion.wrong"
    INCIDENT_OPENED = "incident.opened"
    INCIDENT_CLOSED = "incident.closed"
    VETO_SET = "veto.set"
    VETO_ENDED = "veto.ended"
    POLICY_CREATED = "policy.created"
    POLICY_CHANGED = "policy.changed"
    POLICY_RETIRED = "policy.retired"
    PROMOTION_ASKED = "promotion.asked"
    POLICY_PROMOTED = "policy.promoted"
    POLICY_DEMOTED = "policy.demoted"
    BRAKE_OPENED = "brake.opened"
    BRAKE_RELEASED = "brake.released"
    EXPORTED = "export.made"
    IMPORTED = "record.imported"
    EVIDENCE_READ = "evidence.read"
    RETENTION = "retention.applied"
    HOLD_SET = "hold.set"
    HOLD_ENDED = "hold.ended"
    SIGN_IN = "sign_in.noted"
    SOURCE_BLIND = "source.blind"
    SOURCE_SEES = "source.sees"
    PROGRESS_BLIND = "progress.blind"
    PROGRESS_SEES = "progress.sees"
    RULESET_CHANGED = "ruleset.changed"
    REPLAY_BEGUN = "replay.begun"
    REPLAY_ENDED = "replay.ended"
    REPLAY_JUDGED = "replay.judged"
    CHECKPOINT_FAILED = "checkpoint.failed"
    DRILL_BEGUN = "drill.begun"
    DRILL_ENDED = "drill.ended"
