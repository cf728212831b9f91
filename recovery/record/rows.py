"""What a record has out of recovery and of people: which columns of which rows, as lines of JSON in a fixed order."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import msgspec
from django.db.models import F, QuerySet

from recovery.models import (
    Action,
    Anomaly,
    Case,
    Consideration,
    Decision,
    Exclusion,
    Incident,
    Milestone,
    PolicyVersion,
    Proposal,
)
from verdicts.models import Comment, Review
from verdicts.redaction import clean_text

#: Columns in which people wrote in their own words: what has the shape of a secret is taken out of the record.
_OWN_WORDS = frozenset({"text", "note", "reason", "outcome_why"})
AT_ONCE = 1000


def tables(attempt_id: UUID) -> Iterator[tuple[str, QuerySet[Any]]]:
    """The name of each file and its rows, in the order in which they stand there."""
    proposals = Proposal.objects.filter(attempt=attempt_id)
    yield (
        "proposals",
        proposals.order_by("created_at", "pk").values(
            *("id", "cause", "action", "mode", "state", "nodes", "plan_json", "plan_sha256", "generation"),
            *("approvals_needed", "created_at", "expires_at", "decided_at", "ended_at", "ended_why", "must_label"),
            *("injected", "sampled", "outcome", "outcome_at", "outcome_why"),
            *("verdict_id", "anomaly_id", "incident_id"),
            verdict_number=F("verdict__number"),
            policy=F("version__policy__name"),
            policy_version=F("version__number"),
            made_by_name=F("made_by__username"),
        ),
    )
    yield (
        "decisions",
        Decision.objects.filter(proposal__in=proposals)
        .order_by("at", "pk")
        .values("id", "proposal_id", "kind", "roles", "seen_sha256", "reason", "text", "at", by_name=F("by__username")),
    )
    actions = Action.objects.filter(proposal__in=proposals)
    yield (
        "actions",
        actions.order_by("created_at", "pk").values(
            *("id", "proposal_id", "kind", "outcome", "mark", "step", "calls", "observed", "observed_at"),
            *("deadline", "why", "created_at", "finished_at"),
        ),
    )
    yield (
        "milestones",
        Milestone.objects.filter(action__in=actions)
        .order_by("at", "pk")
        .values("action_id", "kind", "at", "observed_at", "evidence", seen_in=F("attempt__job_id")),
    )
    yield (
        "exclusions",
        Exclusion.objects.filter(attempt=attempt_id)
        .order_by("made_at", "pk")
        .values(
            *("proposal_id", "node", "kind", "symptom", "state", "made_at", "expires_at", "ended_at", "ended_why"),
            *("wrong_since", "wrong_why"),
        ),
    )
    yield (
        "labels",
        Case.objects.filter(proposal__in=proposals)
        .order_by("at", "pk")
        .values("proposal_id", "label", "basis", "text", "at", "replaced_at", by_name=F("by__username")),
    )
    yield (
        "policies",
        PolicyVersion.objects.filter(proposals__in=proposals)
        .order_by("policy__name", "number")
        .distinct()
        .values("number", "body", "reason", "created_at", name=F("policy__name"), author_name=F("author__username")),
    )
    yield (
        "considerations",
        Consideration.objects.filter(verdict__attempt=attempt_id)
        .order_by("verdict__number")
        .values("at", "said", number=F("verdict__number")),
    )
    yield (
        "incidents",
        Incident.objects.filter(proposals__in=proposals)
        .order_by("opened_at", "pk")
        .distinct()
        .values("id", "element", "value", "symptom", "opened_at", "closed_at", "nodes", "said"),
    )
    yield (
        "anomalies",
        Anomaly.objects.filter(attempt=attempt_id)
        .order_by("detected_at", "pk")
        .values(
            *("id", "kind", "event_at", "observed_at", "detected_at", "proposed_at", "ended_at", "nodes", "ranks"),
            *("evidence", "said"),
        ),
    )
    yield (
        "reviews",
        Review.objects.filter(verdict__attempt=attempt_id)
        .order_by("created_at", "pk")
        .values(
            *("id", "label", "actual_domain", "actual_nodes", "note", "created_at", "replaced_at"),
            number=F("verdict__number"),
            author_name=F("author__username"),
        ),
    )
    yield (
        "comments",
        Comment.objects.filter(verdict__attempt=attempt_id)
        .order_by("created_at", "pk")
        .values("id", "text", "created_at", number=F("verdict__number"), author_name=F("author__username")),
    )


def plain(rows: QuerySet[Any]) -> Iterator[dict[str, Any]]:
    """Rows as plain data, secrets taken out of what people wrote."""
    for row in rows.iterator(AT_ONCE):
        yield msgspec.to_builtins(
            {name: clean_text(value) if name in _OWN_WORDS and value else value for name, value in row.items()}
        )


def line(row: Mapping[str, Any]) -> bytes:
    """A row as a line of JSON with sorted keys."""
    return msgspec.json.encode(row, order="sorted") + b"\n"
