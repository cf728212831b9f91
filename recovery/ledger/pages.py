"""The pages of the ledger: the list, one entry with its proof, and the export."""

import json
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from recovery import permissions
from recovery.ledger import entries as ledger
from recovery.ledger import export as ledger_export
from recovery.ledger import find
from recovery.ledger.form import LedgerForm
from recovery.ledger.words import ENTRIES
from recovery.models import LedgerEntry
from recovery.words import EntryKind
from verdicts.guard import Request, part_wanted, permitted
from verdicts.listing.keyset import CursorError
from verdicts.models import Attempt
from verdicts.permissions import may_read

A_PAGE = 50


@require_safe
@permitted(may_read)
def entries(request: Request) -> HttpResponse:
    """The entries, filtered and paged by what the address says."""
    form = LedgerForm(request.GET)
    down = form.order.startswith("-")
    try:
        found = find.page(form.rows(), size=A_PAGE, cursor=form.cursor, descending=down)
    except CursorError as error:
        form.errors["cursor"] = f"The address's page cannot be understood: {error}."
        found = find.page(LedgerEntry.objects.none(), size=A_PAGE)
    part = part_wanted(request, "results")
    start = form.address()
    join = "&" if start != "?" else ""
    context: dict[str, Any] = {
        "section": "ledger",
        "form": form,
        "found": found,
        "rows": _rows(found.rows),
        "start": start,
        "next": f"{start}{join}cursor={found.next}" if found.next else "",
        "previous": f"{start}{join}cursor={found.previous}" if found.previous else "",
        "may_export": request.user.has_perm(permissions.EXPORT_LEDGER),
        "part": part,
    }
    if part:
        return render(request, "recovery/ledger.html#results", context)
    return render(request, "recovery/ledger.html", context | {"standing": find.standing()})


def _rows(entries: Sequence[LedgerEntry]) -> list[dict[str, Any]]:
    """What is shown of entries. An attempt that is gone, as those of drills are, has no page to lead to."""
    wanted = {entry.attempt for entry in entries if entry.attempt}
    there = set(Attempt.objects.filter(pk__in=wanted).values_list("pk", flat=True)) if wanted else set()
    return [_row(entry, gone=bool(entry.attempt) and entry.attempt not in there) for entry in entries]


def _row(entry: LedgerEntry, *, gone: bool) -> dict[str, Any]:
    facts = entry.body.get("facts", {})
    lost = gone and entry.subject_kind in ("attempt", "verdict", "importedrecord")
    return {
        "entry": entry,
        "gone": gone,
        "what": ENTRIES.get(entry.kind, entry.kind),
        "about": "" if lost else find.page_about(entry.subject_kind, entry.subject, facts),
        "gist": find.gist(facts),
    }


@require_safe
@permitted(may_read)
def entry(request: Request, number: int) -> HttpResponse:
    """One entry: what it says, what it is about, and whether it is what was written."""
    one = LedgerEntry.objects.select_related("link").filter(link__number=number).first()
    if one is None:
        raise Http404
    context = _rows([one])[0] | {
        "section": "ledger",
        "contents": find.contents_of([one]).get(one.pk, []),
        "proof": find.proof_of(one),
        "facts": [(name, _text(value)) for name, value in one.body.get("facts", {}).items()],
        "before": number - 1,
        "after": number + 1 if number < ledger_export.last_number() else 0,
    }
    return render(request, "recovery/ledger_entry.html", context)


def _text(value: Any) -> str:
    """A fact as a person reads it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@require_safe
@permitted(may_read)
def proof(_request: Request, number: int) -> HttpResponse:
    """One entry as an export, with the places from it to the checkpoint that covers it."""
    one = LedgerEntry.objects.filter(link__number=number)
    if not one.exists():
        raise Http404
    return _file(*ledger_export.bounds(one), one, name=f"inquest-ledger-{number}")


@require_POST
@permitted(may_read)
def export(request: Request) -> HttpResponse:
    """The entries of the address as an export, all if it filters nothing. Making it is an entry itself."""
    if not request.user.has_perm(permissions.EXPORT_LEDGER):
        raise PermissionDenied
    form = LedgerForm(request.GET)
    if form.errors:
        raise Http404
    return exported(form, ledger.Actor.user(request.user))


def exported(form: LedgerForm, actor: ledger.Actor) -> HttpResponse:
    """The answer that brings an export, which is recorded before its first line is sent."""
    with transaction.atomic():
        ledger.record(
            EntryKind.EXPORTED,
            actor=actor,
            subject=("ledger", "export"),
            body={"filters": {name: form.values(name) for name in form.data if name in form.labels}},
        )
    name = f"inquest-ledger-{timezone.now():%Y%m%dT%H%M%SZ}"
    if not form.narrows:
        return _file(1, ledger_export.last_number(), None, name=name)
    return _file(*ledger_export.bounds(form.rows()), form.rows(), name=name)


def _file(first: int, last: int, wanted: Any, *, name: str) -> HttpResponse:
    lines = ledger_export.lines(first, last, wanted)
    response = StreamingHttpResponse(lines, content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="{name}.ndjson"'
    response["X-Content-Type-Options"] = "nosniff"
    return response  # type: ignore[return-value]
