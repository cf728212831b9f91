"""The writer of what a collector obtained of its source, in place of what it had obtained before.

Every attempt passes here once for each of its sources, so that the statements are written out: to make them by the ORM
takes several times as long as PostgreSQL needs for them.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec
from django.db import connection

from rules.attempt import CollectorReport as GivenReport
from rules.observation import Observation as GivenObservation
from rules.words import ReportStatus
from verdicts.choices import Mode
from verdicts.collecting import observation_rows
from verdicts.collecting.report_rows import report_body, timeless
from verdicts.conclude import LATE_EVIDENCE_DELAY
from verdicts.conclude import ask as ask_attribution
from verdicts.models import Attempt, CollectionTask
from verdicts.storable import storable_struct


class _Before(NamedTuple):
    """What the store has: this collector's report, anything else of its source, and whether anybody asked."""

    status: str | None
    report: dict[str, Any]
    anything: bool
    asked: bool


def store_collected(
    attempt: Attempt,
    given: Sequence[GivenObservation],
    report: GivenReport,
    *,
    configured: Collection[str] = (),
) -> None:
    """Store what one collector obtained of its source.

    The caller holds the attempt's lock. A later round that obtained less takes nothing away: the source could not be
    asked, broke off sooner, or keeps nothing for so long. Then the earlier report stands. `configured` are the names
    of the cluster's sources: what one gave that has another name now is replaced by what it gives under that.
    """
    report = storable_struct(report)
    before = _before(attempt, report)
    if before.status is not None and _is_less(report, before):
        return
    renamed = 0
    if before.status is None and before.anything and configured and report.status is ReportStatus.OK:
        renamed = _without_renamed(attempt, report.source.value, configured)
    rows = observation_rows.rows_of(attempt.body, given)
    held: set[str] = set()
    if before.status is not None:
        mine = attempt.observations.filter(source=report.source.value, collector=report.collector)
        held = set(mine.values_list("digest", flat=True))
        if held - set(rows):
            mine.filter(digest__in=held - set(rows)).delete()
    new = [row for digest, row in rows.items() if digest not in held]
    fitting, refused = observation_rows.that_fit(attempt, new, empty=not before.anything)
    observation_rows.insert(attempt.pk, fitting)
    # Counted for each collector by itself: when it is read again, what was refused before is not counted twice.
    mine_cut = f"{report.source.value} {report.collector}"
    attempt.cut.pop(mine_cut, None)
    if refused:
        attempt.cut[mine_cut] = refused[report.source.value]
    body = report_body(report)
    changed = (
        bool(renamed or fitting or held - set(rows))
        or before.status is None
        or timeless(before.report) != timeless(body)
    )
    attempt.generation += changed
    _write(attempt, report, body)
    if changed and before.asked:
        ask_attribution(attempt, Mode.SLOW, delay=LATE_EVIDENCE_DELAY)


def _without_renamed(attempt: Attempt, source: str, configured: Collection[str]) -> int:
    """Take out what collectors gave of this source under names that are in the clusters file no more; says how much.

    Only what was collected: what somebody sent has no collection, whatever name it came under.
    """
    told = CollectionTask.objects.filter(collection__attempt=attempt, source=source).exclude(name__in=configured)
    old = list(told.values_list("name", flat=True).distinct())
    if not old:
        return 0
    for name in old:
        attempt.cut.pop(f"{source} {name}", None)
    gone, _ = attempt.observations.filter(source=source, collector__in=old).delete()
    reports, _ = attempt.reports.filter(source=source, collector__in=old).delete()
    return gone + reports


def _is_less(report: GivenReport, before: _Before) -> bool:
    """Whether a later round of a collector obtained less of its source than the one before."""
    if before.status not in (ReportStatus.OK, ReportStatus.PARTIAL):
        return report.status is ReportStatus.ERROR and before.status == ReportStatus.EMPTY
    if report.status is ReportStatus.PARTIAL:
        return report.read < int(before.report.get("read", 0))
    return report.status is not ReportStatus.OK


def _before(attempt: Attempt, report: GivenReport) -> _Before:
    """What the store has before this report, in one question."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT report.status, report.body,
                   EXISTS (SELECT FROM verdicts_observation WHERE attempt_id = %(attempt)s AND source = %(source)s),
                   EXISTS (SELECT FROM verdicts_attributionrequest WHERE attempt_id = %(attempt)s)
            FROM (VALUES (1)) AS always LEFT JOIN verdicts_collectorreport AS report
                ON attempt_id = %(attempt)s AND source = %(source)s AND collector = %(collector)s
            """,
            {"attempt": attempt.pk, "source": report.source.value, "collector": report.collector},
        )
        status, body, anything, asked = cursor.fetchone()
    return _Before(status, msgspec.json.decode(body) if body else {}, anything, asked)


def _write(attempt: Attempt, report: GivenReport, body: dict[str, Any]) -> None:
    """Write the report in place of the one before, and the attempt's generation and what was refused."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH told AS (
                INSERT INTO verdicts_collectorreport (attempt_id, source, collector, status, body)
                VALUES (%(attempt)s, %(source)s, %(collector)s, %(status)s, %(body)s)
                ON CONFLICT (attempt_id, source, collector) DO UPDATE
                SET status = excluded.status, body = excluded.body, received_at = statement_timestamp()
            )
            UPDATE verdicts_attempt SET generation = %(generation)s, cut = %(cut)s WHERE id = %(attempt)s
            """,
            {
                "attempt": attempt.pk,
                "source": report.source.value,
                "collector": report.collector,
                "status": body["status"],
                "body": msgspec.json.encode(body).decode(),
                "generation": attempt.generation,
                "cut": msgspec.json.encode(attempt.cut).decode(),
            },
        )
