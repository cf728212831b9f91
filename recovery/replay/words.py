"""The closed sets of words of replays, shared by code, database, API and screens."""

from enum import StrEnum


class ReplayKind(StrEnum):
    """What is asked."""

    RULES = "rules"  # what would other rules conclude?
    OWN = "own"  # do the rules that were used conclude the same again, byte for byte?
    ABLATION = "ablation"  # what would be concluded with less, later or other evidence?


class ReplayState(StrEnum):
    """How far a replay is."""

    RUNNING = "running"
    CANCELLED = "cancelled"  # what is done is kept; it can be resumed
    DONE = "done"


class ItemOutcome(StrEnum):
    """What came of one attempt; the empty word stands for "not yet"."""

    WAITING = ""
    SAME = "same"
    CHANGED = "changed"
    UNREPLAYABLE = "unreplayable"  # it cannot be concluded again: `why` says the reason
    FAILED = "failed"  # the engine failed at it


class Again(StrEnum):
    """Whether the stored verdict came out of its own rules and evidence once more, byte for byte."""

    UNASKED = ""  # nothing differed, so that nothing hung on it
    SAME = "same"
    EVIDENCE = "evidence"  # other bytes, and evidence came since
    ENGINE = "engine"  # other bytes, and the engine is another
    DIFFERS = "differs"  # other bytes, and nothing that explains it: a finding
    NO_RULES = "no_rules"  # the text of its rules was not kept


class Judgement(StrEnum):
    """What a person says of a change; the empty word stands for "nothing yet"."""

    NONE = ""
    ACCEPTED = "accepted"
    REJECTED = "rejected"
