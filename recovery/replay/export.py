"""The attempts of a replay as a file, written as they are read."""

import csv
import json
from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from recovery.models import Replay, ReplayItem
from recovery.replay import report
from verdicts.listing.export import Echo, cell

AT_ONCE = 500
COLUMNS = (
    "number", "attempt", "verdict", "cluster", "job_id", "restart_count", "outcome", "reproducible", "weighty",
    "stronger", "move", "rules", "rules_alone", "said", "domain_before", "strength_before", "domain_after",
    "strength_after", "why", "judged", "judged_by", "judged_at", "judged_why",
)  # fmt: skip
FORMS = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def exported(replay: Replay, rows: QuerySet[ReplayItem], form: str) -> StreamingHttpResponse:
    """The answer that brings them as a file."""
    parts = _as_csv(rows) if form == "csv" else _as_json(rows)
    response = StreamingHttpResponse((part.encode() for part in parts), content_type=FORMS[form])
    response["Content-Disposition"] = f'attachment; filename="inquest-replay-{replay.pk}.{form}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _rows(rows: QuerySet[ReplayItem]) -> Iterator[dict[str, Any]]:
    for item in rows.iterator(AT_ONCE):
        yield report.row(item)


def _as_csv(rows: QuerySet[ReplayItem]) -> Iterator[str]:
    writer = csv.writer(Echo())
    yield "\ufeff" + str(writer.writerow(COLUMNS))
    for said in _rows(rows):
        flat = said | {
            f"{name}_{when}": said[when].get(name, "")
            for name in ("domain", "strength")
            for when in ("before", "after")
        }
        yield str(writer.writerow([cell(flat[name]) for name in COLUMNS]))


def _as_json(rows: QuerySet[ReplayItem]) -> Iterator[str]:
    before = "[\n"
    for said in _rows(rows):
        yield before + json.dumps(said, ensure_ascii=False)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"
