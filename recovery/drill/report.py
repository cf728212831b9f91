"""The report of a drill: as data with one spelling, whose digest stands in the ledger, and as text."""

import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from recovery.ledger.canonical import canonical
from recovery.ledger.entries import spelled
from recovery.models import Drill, DrillCheck
from recovery.words import CheckOutcome, DrillState
from rules.verdict import plain_text

SCHEMA = "inquest.drill/1"
OUTCOMES = {
    CheckOutcome.PASSED: "passed",
    CheckOutcome.FAILED: "FAILED",
    CheckOutcome.NOT_CHECKED: "COULD NOT BE CHECKED",
}
STATES = {
    DrillState.ASKED: "is asked for",
    DrillState.RUNNING: "is going on",
    DrillState.PASSED: "passed",
    DrillState.FAILED: "FAILED",
    DrillState.INCOMPLETE: "did not pass: not everything could be checked",
}
_WIDTH = 100


def as_data(drill: Drill, checks: Sequence[DrillCheck]) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "schema": SCHEMA,
        "drill": str(drill.pk),
        "state": drill.state,
        "over": "made up for the drill" if drill.made_up else "an attempt of the site",
        "attempt": str(drill.attempt) if drill.attempt else None,
        "job_id": drill.job_id,
        "via": drill.via,
        "asked_at": spelled(drill.asked_at),
        "started_at": _time(drill.started_at),
        "finished_at": _time(drill.finished_at),
        "address": drill.address,
        "host": drill.host,
        "facts": drill.facts,
        "checks": [
            {
                "name": check.name,
                "asked": check.asked,
                "outcome": check.outcome,
                "seen": check.seen,
                "facts": check.facts,
                "at": spelled(check.at),
                "seconds": check.seconds,
            }
            for check in checks
        ],
    }


def as_bytes(drill: Drill, checks: Sequence[DrillCheck]) -> bytes:
    """The report as canonical JSON (RFC 8785): `sha256sum` of the file is what the ledger says."""
    return canonical(as_data(drill, checks))


def digest_of(drill: Drill, checks: Sequence[DrillCheck]) -> str:
    """SHA-256 of those bytes."""
    return sha256(as_bytes(drill, checks)).hexdigest()


def as_text(drill: Drill, checks: Sequence[DrillCheck]) -> str:
    """The report for a terminal or a printer."""
    over = "an attempt made up for it" if drill.made_up else "an attempt that was chosen"
    when = f"{_moment(drill.started_at)} to {_moment(drill.finished_at)}"
    lines = [
        f"Retention drill {drill.pk} {STATES[DrillState(drill.state)]}",
        f"Over {over}: {drill.job_id or '(none)'}, {drill.attempt or '(none)'}",
        f"Asked at {drill.address or '(no address)'} from {drill.host}, {when}",
        "",
    ]
    for check in checks:
        lines.append(f"{check.place:2}. {OUTCOMES[CheckOutcome(check.outcome)]}: {check.asked}")
        lines += textwrap.wrap(
            plain_text(check.seen), _WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False
        )
        lines.append(f"    {_moment(check.at)}, {check.seconds:.2f} s")
    lines.append("")
    lines += [f"{name}: {value}" for name, value in sorted(drill.facts.items()) if value]
    lines.append(f"report_sha256: {drill.report_sha256} (in the ledger's entry drill.ended)")
    return "\n".join(lines) + "\n"


def _time(at: datetime | None) -> str | None:
    return spelled(at) if at else None


def _moment(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else "(not yet)"
