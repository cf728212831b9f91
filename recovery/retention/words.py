"""What people wrote, which expires by its own age: beside the ledger's chain, in reviews, comments and decisions."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from recovery.ledger import entries as ledger
from recovery.ledger.entries import Actor
from recovery.models import Proposal
from recovery.retention.due import cutoff, is_held
from recovery.retention.erase import NOTHING, Gone, deleted, emptied, plan_changed
from recovery.retention.lock import for_expiry
from recovery.words import EntryKind
from verdicts.keeping import EXPIRED, Kept
from verdicts.models import Attempt

#: What has words and belongs to no attempt: its table, the column that says when it ended, the columns with words.
#: They stay as long as what they are the reason of stands. The reasons of policies and their modes stand for ever.
_ENDED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "brake": ("recovery_brake", "released_at", ("reason", "released_why")),
    "veto": ("recovery_veto", "ended_at", ("reason",)),
    "incident": ("recovery_incident", "closed_at", ()),
    "replay": ("recovery_replay", "ended_at", ("reason",)),
    "hold": ("recovery_hold", "released_at", ("reason", "released_why")),
}

_OF_ATTEMPTS = """
SELECT entry.attempt FROM recovery_ledgercontent AS content
JOIN recovery_ledgerentry AS entry ON entry.id = content.entry_id
WHERE content.erased_at IS NULL AND entry.attempt IS NOT NULL AND entry.subject_kind <> 'hold' AND entry.at < %(before)s
UNION
SELECT verdict.attempt_id FROM verdicts_comment AS comment
JOIN verdicts_verdict AS verdict ON verdict.id = comment.verdict_id WHERE comment.created_at < %(before)s
UNION
SELECT verdict.attempt_id FROM verdicts_review AS review
JOIN verdicts_verdict AS verdict ON verdict.id = review.verdict_id
WHERE review.created_at < %(before)s AND review.note <> ''
"""


def attempts_due(now: datetime) -> Iterator[UUID]:
    """The attempts that have words so old that they are due, and no hold. Of one that is gone none is left."""
    before = cutoff(Kept.WORDS, now)
    if before is None:
        return
    with connection.cursor() as cursor:
        cursor.execute(_OF_ATTEMPTS, {"before": before})
        found = [row[0] for row in cursor.fetchall()]
    yield from (
        Attempt.objects.filter(~is_held(), pk__in=found).order_by("created_at", "pk").values_list("pk", flat=True)
    )


def erase(attempt_id: UUID, now: datetime) -> Gone:
    """Take out the words of an attempt that are due. The caller holds its lock."""
    before = cutoff(Kept.WORDS, now)
    if before is None:
        return NOTHING
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL inquest.erase = 'on'")
    of_verdict = "one.verdict_id IN (SELECT id FROM verdicts_verdict WHERE attempt_id = %s)"
    of_proposal = "one.proposal_id IN (SELECT id FROM recovery_proposal WHERE attempt_id = %s)"
    both = [attempt_id, before]
    gone = _contents("entry.attempt = %s AND entry.subject_kind <> 'hold' AND entry.at < %s", both)
    # Counted once: what stands below is the same words where the console shows them, but for comments.
    gone += deleted("verdicts_comment", f"{of_verdict} AND one.created_at < %s", both, "octet_length(one.text)")
    notes = emptied("verdicts_review", "note", f"{of_verdict} AND one.created_at < %s", both)
    # A decision's words end a proposal: they stand there too.
    emptied(
        "recovery_proposal",
        "ended_why",
        "one.attempt_id = %s AND one.ended_why IN (SELECT text FROM recovery_decision WHERE proposal_id = one.id"
        " AND at < %s)",
        both,
    )
    emptied("recovery_decision", "text", f"{of_proposal} AND one.at < %s", both)
    emptied("recovery_case", "text", f"{of_proposal} AND one.at < %s", both)
    emptied(
        "recovery_proposal",
        "outcome_why",
        "one.attempt_id = %s AND one.outcome_by_id IS NOT NULL AND one.outcome_at < %s",
        both,
    )
    lifted = "one.attempt_id = %s AND one.ended_at < %s AND one.state = 'lifted'"
    emptied("recovery_exclusion", "ended_why", lifted, both)
    by_hand = Proposal.objects.filter(attempt=attempt_id, created_at__lt=before, made_by__isnull=False)
    for proposal in by_hand.only("id", "plan_json"):
        plan_changed(proposal, {**json.loads(proposal.plan_json), "reason": ""})
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL inquest.erase = 'off'")
    return gone if gone.rows else gone + notes


def _contents(where: str, parameters: list[Any]) -> Gone:
    """Erase what stands beside the chain: the salt goes too, so that the hash says nothing any more."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH told AS (
                SELECT content.id, octet_length(content.text) AS size FROM recovery_ledgercontent AS content
                JOIN recovery_ledgerentry AS entry ON entry.id = content.entry_id
                WHERE content.erased_at IS NULL AND {where} FOR UPDATE OF content
            ), gone AS (
                UPDATE recovery_ledgercontent AS content SET text = '', salt = '', erased_at = %s
                FROM told WHERE content.id = told.id RETURNING told.size
            )
            SELECT count(*), COALESCE(sum(size), 0)::bigint FROM gone
            """,  # noqa: S608 - the module's own words
            [*parameters, timezone.now()],
        )
        return Gone(*cursor.fetchone())


@transaction.atomic
def without_attempt(now: datetime) -> Gone:
    """Take out words of things that ended long ago and belong to no attempt: brakes, vetoes, shared causes, holds."""
    before = cutoff(Kept.WORDS, now)
    if before is None:
        return NOTHING
    for_expiry()
    # A kill switch has no row; the file that stands for one has its reason in it.
    gone = {"kill_switch": _contents("entry.subject_kind = 'kill_switch' AND entry.at < %s", [before])}
    for kind, (table, ended, columns) in _ENDED.items():
        ours = "(entry.attempt IS NULL OR entry.subject_kind = 'hold')"
        subjects = f"entry.subject IN (SELECT id::text FROM {table} WHERE {ended} < %s)"  # noqa: S608
        gone[kind] = _contents(f"{ours} AND entry.subject_kind = %s AND {subjects}", [kind, before])
        for column in columns:
            emptied(table, column, f"one.{ended} < %s", [before], EXPIRED)
    # Why a change of rules was accepted or not is a word about rules.
    emptied("recovery_replayitem", "judged_why", "one.judged_at < %s", [before])
    total = sum(gone.values(), NOTHING)
    if total.rows:
        ledger.record(
            EntryKind.RETENTION,
            actor=Actor.system("retention"),
            subject=("retention", Kept.WORDS.value),
            body={
                "expired": [Kept.WORDS.value],
                **total._asdict(),
                "by_subject": {kind: one.rows for kind, one in gone.items() if one.rows},
            },
        )
    return total
