"""The pages of batches: what was asked for, how far it is, and what can be taken away."""

import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.http import FileResponse, Http404, HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from recovery import permissions
from recovery.ledger.entries import Actor, record
from recovery.models import ExportBatch, ExportedRecord
from recovery.record import bag, batch_find, batch_zip, beside, export
from recovery.record import batch as writing
from recovery.record.container import BadRecord
from recovery.words import EntryKind
from rules.attempt import InputError
from verdicts.choices import RequestState
from verdicts.guard import Request, part_wanted, permitted
from verdicts.listing.filter_form import Chip, FilterForm
from verdicts.listing.paging import page_of
from verdicts.listing.read import asked

log = logging.getLogger(__name__)

#: Records that failed and are told at the head of the page.
MOST_FAILED = 20


def may_export(user: Any) -> bool:
    """Who may take records away."""
    return bool(user.has_perm(permissions.EXPORT_LEDGER))


@require_safe
@permitted(may_export)
def batches(request: Request) -> HttpResponse:
    """All batches, the newest first."""
    page = page_of(batch_find.batches(), request.GET.get("page"))
    found = list(page.object_list)
    rows = [(one, how, _chips(one)) for one, how in zip(found, batch_find.progress(found), strict=True)]
    context = {"section": "ledger", "tab": "exports", "page": page, "rows": rows}
    return render(request, "record/batches.html", context)


@require_POST
@permitted(may_export)
def ask(request: Request) -> HttpResponse:
    """Ask for the records of all that the list shows."""
    query = request.POST.get("filter", "").removeprefix("?")
    try:
        made = writing.ask(query, by=request.user, via="console")
    except InputError as error:
        messages.error(request, _sentence(error))
        return redirect(f"{reverse('verdicts:list')}?{QueryDict(query).urlencode()}")
    return redirect("recovery:batch", made.pk)


@require_safe
@permitted(may_export)
def batch(request: Request, batch_id: UUID) -> HttpResponse:
    """One batch with its records; while it goes on, the page asks for this part of itself again."""
    one = _one(batch_id)
    (how,) = batch_find.progress([one])
    page = page_of(batch_find.records_of(one), request.GET.get("page"))
    failed = batch_find.records_of(one).filter(state=RequestState.FAILED.value).exclude(error=writing.STOPPED)
    context = {
        "section": "ledger",
        "tab": "exports",
        "batch": one,
        "how": how,
        "page": page,
        "rows": page.object_list,
        "failed": list(failed[:MOST_FAILED]) if how.failed else [],
        "chips": _chips(one),
    }
    return render(request, f"record/batch.html{'#all' if part_wanted(request, 'batch') else ''}", context)


def _one(batch_id: UUID) -> ExportBatch:
    found = batch_find.batches().filter(pk=batch_id).first()
    if found is None:
        raise Http404
    return found


def _chips(one: ExportBatch) -> list[Chip]:
    return FilterForm(asked(QueryDict(one.query))).chips


def _sentence(error: Exception) -> str:
    text = str(error).removeprefix("filter: ")
    return text[:1].upper() + text[1:].rstrip(".") + "."


# --- What is done to one --------------------------------------------------------------------------


def _done(request: Request, batch_id: UUID, do: Callable[..., Any], said: str) -> HttpResponse:
    try:
        do(batch_id, by=request.user)
    except ExportBatch.DoesNotExist:
        raise Http404 from None
    except InputError as error:
        messages.error(request, _sentence(error))
    else:
        messages.success(request, said)
    return redirect("recovery:batch", batch_id)


@require_POST
@permitted(may_export)
def stop(request: Request, batch_id: UUID) -> HttpResponse:
    """Take back what was not begun."""
    return _done(request, batch_id, writing.stop, "Stopped. What is written already can be taken away.")


@require_POST
@permitted(may_export)
def again(request: Request, batch_id: UUID) -> HttpResponse:
    """Go on with what was stopped or failed."""
    return _done(request, batch_id, writing.again, "It goes on with what is not written yet.")


@require_POST
@permitted(may_export)
def remove(request: Request, batch_id: UUID) -> HttpResponse:
    """Remove the files at once."""
    return _done(request, batch_id, writing.remove, "The files are removed.")


# --- Taking away ----------------------------------------------------------------------------------


@require_POST
@permitted(may_export)
def download(request: Request, batch_id: UUID, attempt_id: UUID) -> HttpResponse:
    """One record of a batch as a file."""
    return record_sent(_one(batch_id), attempt_id, by=request.user, via="console")


@require_POST
@permitted(may_export)
def download_whole(request: Request, batch_id: UUID) -> HttpResponse:
    """All records of a batch that are written, as one zip."""
    return whole_sent(_one(batch_id), by=request.user, via="console")


def record_sent(one: ExportBatch, attempt_id: UUID, *, by: User, via: str) -> HttpResponse:
    """The answer that brings a record of a batch; that it was taken is an entry. Raises Http404."""
    row = ExportedRecord.objects.filter(batch=one, attempt=attempt_id).first()
    path = batch_find.path_of(row) if row is not None else None
    if row is None or path is None:
        raise Http404
    try:
        whole = beside.completed(path)
    except (BadRecord, OSError) as error:
        log.error("the record %s cannot be sent: %s", path, error)
        raise Http404 from error
    said = {"what": "record", "via": via, "batch": one.pk, "sha256": bag.digest_of(whole, whole.seek(0, 2))}
    whole.seek(0)
    with transaction.atomic():
        record(EntryKind.EXPORTED, actor=Actor.user(by), subject=one, attempt=attempt_id, body=said)
    response = FileResponse(
        whole, as_attachment=True, filename=export.name_of(attempt_id), content_type="application/zip"
    )
    response["X-Content-Type-Options"] = "nosniff"
    return response  # type: ignore[return-value]


def whole_sent(one: ExportBatch, *, by: User, via: str) -> HttpResponse:
    """The answer that brings all records of a batch, made while it is sent. Raises Http404."""
    files = batch_find.of_whole(one)
    if not files:
        raise Http404
    missing = batch_find.not_written(one)
    said = {"what": "batch of records", "via": via, "records": len(files), "filter": one.query}
    with transaction.atomic():
        record(EntryKind.EXPORTED, actor=Actor.user(by), subject=one, body=said)
    name = f"inquest-records-{one.created_at:%Y%m%dT%H%M%SZ}"
    response = StreamingHttpResponse(batch_zip.whole(name, files, missing), content_type="application/zip")
    response["Content-Disposition"] = f'attachment; filename="{name}.zip"'
    response["X-Content-Type-Options"] = "nosniff"
    return response  # type: ignore[return-value]
