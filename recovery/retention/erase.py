"""Taking out what expired of one attempt, class by class. The caller holds the attempt's lock and writes the tombstone.

Each says how many rows lost something, and how many bytes of text went.
"""

import json
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from django.db import connection
from django.db.models import Q

from recovery.models import Proposal
from verdicts.keeping import Kept, plan_without_quotes, without_quotes, without_reasons
from verdicts.models import CollectorReport, ImportedRecord, Verdict
from verdicts.storable import storable_json


class Gone(NamedTuple):
    """How much went."""

    rows: int
    bytes: int

    def __add__(self, other: Any) -> "Gone":
        return Gone(self.rows + other[0], self.bytes + other[1])


NOTHING = Gone(0, 0)


def erase(kept: Kept, attempt_id: UUID) -> Gone:
    """Take a class of an attempt out; words are taken out one by one (`words.py`)."""
    with connection.cursor() as cursor:
        # The tables that are written once let go what expires only to who says so.
        cursor.execute("SET LOCAL inquest.erase = 'on'")
    gone = _ERASERS[kept](attempt_id)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL inquest.erase = 'off'")
    return gone


def deleted(table: str, where: str, parameters: list[Any], size: str) -> Gone:
    """Delete rows; `size` is the length of their texts in SQL."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH gone AS (DELETE FROM {table} AS one WHERE {where} RETURNING {size} AS size)
            SELECT count(*), COALESCE(sum(size), 0)::bigint FROM gone
            """,  # noqa: S608 - the module's own words
            parameters,
        )
        return Gone(*cursor.fetchone())


def emptied(table: str, column: str, where: str, parameters: list[Any], left: str = "") -> Gone:
    """Empty a column of text where it says anything; what has to say something says `left`."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH told AS (
                SELECT id, octet_length({column}) AS size FROM {table} AS one
                WHERE {where} AND {column} NOT IN ('', %s) FOR UPDATE
            ), gone AS (
                UPDATE {table} AS one SET {column} = %s FROM told WHERE one.id = told.id RETURNING told.size
            )
            SELECT count(*), COALESCE(sum(size), 0)::bigint FROM gone
            """,  # noqa: S608 - the module's own words
            [*parameters, left, left],
        )
        return Gone(*cursor.fetchone())


def _lines(attempt_id: UUID) -> Gone:
    size = "octet_length(one.body) + octet_length(one.attributes::text) + octet_length(one.ref)"
    gone = deleted("verdicts_observation", "one.attempt_id = %s", [attempt_id], size)
    # That a delivery came is known by the tombstone from now on.
    deleted("verdicts_batch", "one.attempt_id = %s", [attempt_id], "octet_length(one.key)")
    return gone


def _quotes(attempt_id: UUID) -> Gone:
    gone = _verdicts(attempt_id) + _plans(attempt_id) + _reports(attempt_id)
    size = "octet_length(one.template) + octet_length(one.example)"
    of_attempt = "one.verdict_id IN (SELECT id FROM verdicts_verdict WHERE attempt_id = %s)"
    gone += deleted("verdicts_unrecognisedline", of_attempt, [attempt_id], size)
    of_round = "one.collection_id IN (SELECT id FROM verdicts_collection WHERE attempt_id = %s)"
    gone += emptied("verdicts_collectiontask", "reason", of_round, [attempt_id])
    gone += emptied("verdicts_attributionrequest", "error", "one.attempt_id = %s", [attempt_id])
    imported = ImportedRecord.objects.filter(attempt=attempt_id).exclude(told={})
    if (told := imported.values_list("told", flat=True).first()) is not None:
        imported.update(told={})
        gone += Gone(1, _length(told))
    return gone


def _verdicts(attempt_id: UUID) -> Gone:
    """What verdicts quote. The hash of what was issued stays, so that the ledger can still be compared with it."""
    gone = NOTHING
    for verdict in Verdict.objects.filter(attempt=attempt_id).only("id", "body_json", "coverage", "headline"):
        before = verdict.body_json.encode()
        body = without_quotes(msgspec.json.decode(before))
        after = msgspec.json.encode(body, order="sorted")
        if after == before:
            continue
        Verdict.objects.filter(pk=verdict.pk).update(
            body=storable_json(after),
            body_json=after.decode(),
            coverage=without_reasons(verdict.coverage),
            headline=storable_json(after)["headline"],
        )
        gone += Gone(1, max(len(before) - len(after), 0))
    return gone


def _plans(attempt_id: UUID) -> Gone:
    gone = NOTHING
    for proposal in Proposal.objects.filter(attempt=attempt_id).only("id", "plan_json"):
        gone += plan_changed(proposal, plan_without_quotes(json.loads(proposal.plan_json)))
    return gone


def plan_changed(proposal: Proposal, plan: dict[str, Any]) -> Gone:
    """Write a plan without what expired of it; its hash stays that of the plan that people saw."""
    after = msgspec.json.encode(plan, order="sorted").decode()
    size = len(proposal.plan_json.encode()) - len(after.encode())
    if after == proposal.plan_json:
        return NOTHING
    Proposal.objects.filter(pk=proposal.pk).update(plan=plan, plan_json=after)
    return Gone(1, max(size, 0))


def _reports(attempt_id: UUID) -> Gone:
    """What collectors said in words; whether and how much they read stays."""
    gone = NOTHING
    said = CollectorReport.objects.filter(~Q(body__reason=""), attempt=attempt_id, body__has_key="reason")
    for report in said:
        (body,) = without_reasons([report.body])
        if body != report.body:
            gone += Gone(1, _length(report.body["reason"]))
            CollectorReport.objects.filter(pk=report.pk).update(body=body)
    return gone


def _progress(attempt_id: UUID) -> Gone:
    gone = NOTHING
    for table in ("rankprogress", "progresssample", "progressreading", "blindness"):
        gone += deleted(f"recovery_{table}", "one.attempt_id = %s", [attempt_id], "pg_column_size(one.*)")
    return gone


def _length(value: Any) -> int:
    return len(value.encode()) if isinstance(value, str) else len(msgspec.json.encode(value))


_ERASERS = {Kept.LINES: _lines, Kept.QUOTES: _quotes, Kept.PROGRESS: _progress}
