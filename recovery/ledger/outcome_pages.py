"""The page of outcomes: what came of proposals, whether the diagnosis was right, and the same as a file."""

import csv
import json
from collections.abc import Callable, Iterator
from typing import Any

from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from recovery import wording
from recovery.ledger import outcomes
from recovery.ledger.entries import spelled
from recovery.ledger.outcome_form import OutcomesForm
from recovery.models import Proposal
from recovery.words import CaseLabel, Outcome
from verdicts.guard import Request, part_wanted, permitted
from verdicts.listing.export import Echo, cell
from verdicts.listing.paging import page_of
from verdicts.permissions import may_read

AT_ONCE = 500
COLUMNS = (
    "proposal", "attempt", "cluster", "job_id", "policy", "policy_version", "rule", "cause", "action", "mode", "state",
    "nodes", "outcome", "outcome_at", "outcome_by", "outcome_why", "diagnosis", "decided_by", "planted", "created_at",
    "ended_at", "page",
)  # fmt: skip
_OUTCOMES = [*((word.value, wording.OUTCOMES[word].text) for word in Outcome), (outcomes.UNSAID, "Nobody said")]
_LABELS = [*((word.value, wording.LABELS[word].text) for word in CaseLabel), (outcomes.UNSAID, "No label")]


@require_safe
@permitted(may_read)
def page(request: Request) -> HttpResponse:
    """Outcomes by policy, rule, reviewer or month, and the proposals themselves."""
    form = OutcomesForm(request.GET)
    found = page_of(form.shown, request.GET.get("page"))
    groups, more = outcomes.grouped(form.rows, form.by)
    whole = outcomes.together(form.rows)
    context: dict[str, Any] = {
        "section": "ledger",
        "tab": "outcomes",
        "form": form,
        "page": found,
        "rows": [(row, decided_by(row)) for row in found.object_list],
        "groups": [(group, form.within(group.name), _counts(group.outcomes, _OUTCOMES)) for group in groups],
        "more": more,
        "whole": whole,
        "by": dict(form.choices["by"])[form.by] if not form.errors else "",
        "outcomes": _OUTCOMES,
        "labels": _LABELS,
        "crossed": [(text, [whole.counted[outcome, label] for label, _ in _LABELS]) for outcome, text in _OUTCOMES],
        "start": form.address(),
    }
    part = part_wanted(request, "results")
    return render(request, "recovery/outcomes.html#results" if part else "recovery/outcomes.html", context)


def _counts(counted: Any, words: list[tuple[str, str]]) -> list[int]:
    return [counted[word] for word, _ in words]


def decided_by(row: Proposal) -> list[str]:
    """Who approved or rejected it."""
    return [one.by.get_username() for one in row.decisions.all() if one.kind in outcomes.FINAL]


# --- As a file, and for the API -------------------------------------------------------------------


def record(row: Any) -> dict[str, Any]:
    """A proposal of `OutcomesForm.shown` as data. What nobody said, of its outcome or its diagnosis, is null."""
    version = row.version
    return {
        "proposal": str(row.pk),
        "attempt": str(row.attempt_id),
        "cluster": row.attempt.cluster.name,
        "job_id": row.attempt.job_id,
        "policy": version.policy.name if version else None,
        "policy_version": version.number if version else None,
        "rule": row.rule,
        "cause": row.cause,
        "action": row.action,
        "mode": row.mode,
        "state": row.state,
        "nodes": row.nodes,
        "outcome": row.outcome or None,
        "outcome_at": spelled(row.outcome_at) if row.outcome_at else None,
        "outcome_by": row.outcome_by.get_username() if row.outcome_by else None,
        "outcome_why": row.outcome_why,
        "diagnosis": row.label if row.label != outcomes.UNSAID else None,
        "decided_by": decided_by(row),
        "planted": row.injected,
        "created_at": spelled(row.created_at),
        "ended_at": spelled(row.ended_at) if row.ended_at else None,
        "page": reverse("recovery:proposal", args=[row.pk]),
    }


def summary(group: outcomes.Group) -> dict[str, Any]:
    """A group as data."""
    return {
        "name": group.name,
        "total": group.total,
        "outcomes": {word: group.outcomes[word] for word, _ in _OUTCOMES},
        "labels": {word: group.labels[word] for word, _ in _LABELS},
        "worked": _share(group.worked),
        "right": _share(group.right),
        "mistaken": _share(group.mistaken),
        "worked_though_another_cause": group.worked_for_no_reason,
    }


def _share(one: Any) -> dict[str, Any]:
    return {"count": one.count, "of": one.whole, "share": one.value, "low": one.low, "high": one.high}


def _as_csv(form: OutcomesForm) -> Iterator[str]:
    writer = csv.writer(Echo())
    # The mark lets spreadsheets know that it is UTF-8.
    yield "\ufeff" + str(writer.writerow(COLUMNS))
    for said in map(record, form.shown.iterator(AT_ONCE)):
        yield str(writer.writerow([cell(said[name]) for name in COLUMNS]))


def _as_json(form: OutcomesForm) -> Iterator[str]:
    before = "[\n"
    for said in map(record, form.shown.iterator(AT_ONCE)):
        yield before + json.dumps(said, ensure_ascii=False)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


FORMS: dict[str, tuple[str, Callable[[OutcomesForm], Iterator[str]]]] = {
    "csv": ("text/csv; charset=utf-8", _as_csv),
    "json": ("application/json", _as_json),
}


@require_safe
@permitted(may_read)
def export(request: Request, form: str) -> HttpResponse:
    """All proposals of the address as a file."""
    if form not in FORMS:
        raise Http404
    asked = OutcomesForm(request.GET)
    if asked.errors:  # the list says what is wrong with it
        return redirect(f"{reverse('recovery:outcomes')}?{request.GET.urlencode()}")
    content, write = FORMS[form]
    response = StreamingHttpResponse((part.encode() for part in write(asked)), content_type=content)
    response["Content-Disposition"] = f'attachment; filename="inquest-outcomes-{timezone.now():%Y%m%dT%H%M%SZ}.{form}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response  # type: ignore[return-value]
