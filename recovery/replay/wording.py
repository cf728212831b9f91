"""How the words of replays read on a page: label, tone and shape of each."""

from recovery.replay.words import Again, ItemOutcome, Judgement, ReplayKind, ReplayState
from verdicts.wording import Look

KINDS: dict[str, str] = {
    ReplayKind.RULES: "other rules",
    ReplayKind.OWN: "the same rules once more",
    ReplayKind.ABLATION: "other evidence",
}

STATES: dict[str, Look] = {
    ReplayState.RUNNING: Look("Running", "blue", "play"),
    ReplayState.CANCELLED: Look("Cancelled", "dotted", "pause"),
    ReplayState.DONE: Look("Done", "green", "check"),
}

OUTCOMES: dict[str, Look] = {
    ItemOutcome.WAITING: Look("Not looked at yet", "dotted", "clock"),
    ItemOutcome.SAME: Look("The same", "green", "check"),
    ItemOutcome.CHANGED: Look("Otherwise", "amber", "question"),
    ItemOutcome.UNREPLAYABLE: Look("Cannot be replayed", "dotted", "stop"),
    ItemOutcome.FAILED: Look("Failed", "red", "cross"),
}

AGAIN: dict[str, str] = {
    Again.UNASKED: "not asked: nothing differed",
    Again.SAME: "comes out of its own rules again, byte for byte",
    Again.EVIDENCE: "comes out otherwise under its own rules too: evidence came since",
    Again.ENGINE: "comes out otherwise under its own rules too: the engine is another",
    Again.DIFFERS: "does not come out of its own rules and evidence again",
    Again.NO_RULES: "the text of its own rules was not kept",
}

JUDGED: dict[str, Look] = {
    Judgement.NONE: Look("Nobody said", "dotted", "clock"),
    Judgement.ACCEPTED: Look("Accepted", "green", "check"),
    Judgement.REJECTED: Look("Rejected", "red", "cross"),
}
