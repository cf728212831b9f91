"""What a list holds as a file: read some rows at a time, written as they come, never held as a whole."""

import csv
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from django.http import StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone

from verdicts.listing.filters import VerdictFilter
from verdicts.listing.read import Line, lines

COLUMNS = (
    "attempt", "verdict", "cluster", "workload", "job_id", "restart_count", "user", "account", "state", "domain",
    "strength", "headline", "nodes", "coverage", "not_seen_whole", "reviews", "ruleset", "mode", "ended_at",
    "created_at", "origin", "page",
)  # fmt: skip
#: A spreadsheet takes a cell that begins so for a formula; some strip blanks first, some read wide forms.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\0", "＝", "＋", "－", "＠")


def record(line: Line) -> dict[str, Any]:
    """A row as data; an attempt that was not analysed has no verdict and no headline."""
    row, verdict = line.row, line.verdict
    address = (
        reverse("verdicts:detail", args=[verdict.pk])
        if verdict
        else reverse("verdicts:attempt", args=[line.attempt.pk])
    )
    return {
        "attempt": str(line.attempt.pk),
        "verdict": str(verdict.pk) if verdict else None,
        "cluster": row.cluster,
        "workload": row.workload,
        "job_id": row.job_id,
        "restart_count": line.attempt.restart_count,
        "user": line.attempt.user,
        "account": row.account,
        "state": row.state,
        "domain": row.domain,
        "strength": row.strength,
        "headline": verdict.headline if verdict else "",
        "nodes": row.nodes,
        "coverage": {report["source"]: report["status"] for report in verdict.coverage} if verdict else {},
        "not_seen_whole": sorted(tag[2:] for tag in row.tags if tag.startswith("m:")),
        "reviews": sorted(tag[2:] for tag in row.tags if tag.startswith("l:")),
        "ruleset": row.ruleset,
        "mode": row.mode,
        "ended_at": _time(verdict.ended_at if verdict else line.attempt.ended_at),
        "created_at": _time(row.created_at),
        "origin": row.origin,
        "page": address,
    }


def _time(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat() if at else None


def cell(value: Any) -> str:
    """A value as a cell that no spreadsheet takes for a formula."""
    if value is None:
        return ""
    if isinstance(value, dict):
        value = " ".join(f"{name}={said}" for name, said in value.items())
    elif isinstance(value, list):
        value = " ".join(value)
    text = str(value)
    return f"'{text}" if text.lstrip(" \u00a0").startswith(_FORMULA) or text.startswith(_FORMULA) else text


class Echo:
    """What `csv` writes to: it gives back what it is given."""

    def write(self, text: str) -> str:
        return text


def _as_csv(filters: VerdictFilter) -> Iterator[str]:
    writer = csv.writer(Echo())
    # The mark lets spreadsheets know that it is UTF-8.
    yield "\ufeff" + str(writer.writerow(COLUMNS))
    for rows in filters.found().every():
        yield "".join(str(writer.writerow([cell(said[name]) for name in COLUMNS])) for said in map(record, lines(rows)))


def _as_json(filters: VerdictFilter) -> Iterator[str]:
    before = "[\n"
    for rows in filters.found().every():
        for said in map(record, lines(rows)):
            yield before + json.dumps(said, ensure_ascii=False)
            before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


FORMS: dict[str, tuple[str, Callable[[VerdictFilter], Iterator[str]]]] = {
    "csv": ("text/csv; charset=utf-8", _as_csv),
    "json": ("application/json", _as_json),
}


def exported(filters: VerdictFilter, form: str) -> StreamingHttpResponse:
    """The answer that brings all rows of an address as a file, named by the time."""
    kind, write = FORMS[form]
    response = StreamingHttpResponse((part.encode() for part in write(filters)), content_type=kind)
    response["Content-Disposition"] = f'attachment; filename="inquest-verdicts-{timezone.now():%Y%m%dT%H%M%SZ}.{form}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
