"""How drills read on a page. Pure."""

from recovery.words import CheckOutcome, DrillState
from verdicts.wording import Look

STATES: dict[str, Look] = {
    DrillState.ASKED: Look("Asked for", "blue", ""),
    DrillState.RUNNING: Look("Going on", "blue", ""),
    DrillState.PASSED: Look("Passed", "green", "check"),
    DrillState.FAILED: Look("Failed", "red", "cross"),
    DrillState.INCOMPLETE: Look("Not everything checked", "amber", "question"),
}
OUTCOMES: dict[str, Look] = {
    CheckOutcome.PASSED: Look("Passed", "green", "check"),
    CheckOutcome.FAILED: Look("Failed", "red", "cross"),
    CheckOutcome.NOT_CHECKED: Look("Could not be checked", "amber", "question"),
}
#: The facts of a drill that its page shows, in this order.
FACTS = {
    "asked_by": "Asked for by",
    "verdict_sha256": "Verdict, SHA-256",
    "record_sha256": "Record as obtained, SHA-256",
    "record_payload": "Its payload, SHA-256",
    "signed_by": "Signed by",
    "ruleset": "Ruleset",
    "engine": "Engine",
    "inquest": "Inquest",
    "postgresql": "PostgreSQL",
    "django": "Django",
    "python": "Python",
}
