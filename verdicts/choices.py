"""The closed sets of words that belong to the store; those of the engine are in `rules.words`."""

from enum import StrEnum


class Mode(StrEnum):
    """How an attribution is asked for: an answer within a deadline, or the best answer."""

    FAST = "fast"
    SLOW = "slow"


class RequestState(StrEnum):
    """Where an attribution request stands. Pending and running are open, the others final."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


OPEN_STATES = (RequestState.PENDING, RequestState.RUNNING)


class Channel(StrEnum):
    """How somebody is told of a verdict."""

    EMAIL = "email"
    WEBHOOK = "webhook"


class FindingStatus(StrEnum):
    """What a verdict made of a finding."""

    CAUSE = "cause"
    CANDIDATE = "candidate"
    DEMOTED = "demoted"
    INTERESTING = "interesting"


class Label(StrEnum):
    """What a person says of a verdict."""

    RIGHT = "right"
    WRONG = "wrong"
    UNDECIDABLE = "undecidable"


class Scheduler(StrEnum):
    """The systems that can own an attempt; the empty word stands for "not said"."""

    UNSAID = ""
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    STATIC = "static"


class Origin(StrEnum):
    """Where an attempt comes from. Only what is this site's own counts in figures: see `verdicts.own`."""

    OWN = "own"
    IMPORTED = "imported"  # a record of another site
    DRILL = "drill"  # made up for a retention drill, and removed at its end; no list has it


class CollectionReason(StrEnum):
    """Why evidence is collected."""

    ENDED = "ended"  # the attempt ended
    AGAIN = "again"  # a source was late or could not be had
    ASKED = "asked"  # a person or a tool asked


class SourceHealth(StrEnum):
    """What the last check made of a source."""

    UNCHECKED = "unchecked"
    SEES = "sees"  # it answers and what it has joins to nodes
    DEGRADED = "degraded"  # it answers, and something about it should be mended
    BLIND = "blind"  # what it does not say proves nothing
