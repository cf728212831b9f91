"""Collectors' reports as the store has them."""

from typing import Any

import msgspec

from rules.attempt import MAX_COUNT, MAX_TEXT, CollectorReport
from verdicts.redaction import clean_text


def report_body(report: CollectorReport) -> dict[str, Any]:
    """A report as it is stored: it must be read back as what it was given as, and thousands of reasons are long."""
    reason = clean_text(report.reason)
    counts = {
        field: min(getattr(report, field), MAX_COUNT) for field in ("read", "kept", "delivered", "bytes", "redacted")
    }
    cut = reason if len(reason) <= MAX_TEXT else reason[: MAX_TEXT - 1] + "…"
    body: dict[str, Any] = msgspec.to_builtins(
        msgspec.structs.replace(report, reason=cut, files=[*map(clean_text, report.files)], **counts)
    )
    return body


def timeless(report: dict[str, Any] | None) -> dict[str, Any] | None:
    """A report without the time it took: another run of the same collector says the same."""
    return report and {field: value for field, value in report.items() if field != "seconds"}
