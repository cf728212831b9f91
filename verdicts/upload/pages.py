"""From nothing to the first verdict: the first steps, the upload page, and the samples to try it with."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import StopUpload
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from rules.attempt import MAX_NAME, InputError
from verdicts import permissions
from verdicts.guard import Request, permitted
from verdicts.models import Attempt
from verdicts.overview import first_steps
from verdicts.upload.ingest import Stored, ingest_path
from verdicts.upload.store import Bounded, NoRoom, TooLarge, room, store_upload
from verdicts.upload.unpack import ENDINGS, in_words

#: Guesses that were made about loose files: so many are said on the page that follows.
MOST_NOTES = 4


class UploadForm(forms.Form):
    """What is asked beside the files: what the incident itself may not say."""

    cluster = forms.CharField(max_length=MAX_NAME, required=False)
    job = forms.CharField(max_length=MAX_NAME, required=False)


@require_safe
@permitted(permissions.may_read)
def start(request: Request) -> HttpResponse:
    """The first steps, each with whether it is done."""
    context = {
        "section": "start",
        "steps": first_steps.look(),
        "samples": first_steps.samples(),
        "may_ingest": permissions.may_ingest(request.user),
    }
    return render(request, "site/start.html", context)


@require_POST
@permitted(permissions.may_ingest)
def sample(request: Request, sample: str) -> HttpResponse:
    """Store one of the shipped samples, as if it had been uploaded."""
    found = first_steps.sample(sample)
    if found is None:
        raise Http404
    return _leads_to(request, ingest_path(found.path, by=request.user))


# Who may not send anything is turned away before a byte of the files is read, and reading them is what looks for
# the token in the form: so the check for the token stands behind both.
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(permissions.may_ingest)
def upload(request: Request) -> HttpResponse:
    """The page that takes an incident folder, as an archive or file by file."""
    if request.method != "POST":
        return _form(request, UploadForm())
    request.upload_handlers = [Bounded(request)]
    try:
        with room():
            return _take(request)
    except TooLarge as error:
        return _refused(request, UploadForm(), str(error), 413)
    except NoRoom as error:
        return _refused(request, UploadForm(), str(error), 507)


@csrf_protect
def _take(request: Request) -> HttpResponse:
    form = UploadForm(request.POST)
    if not form.is_valid():
        problem = "; ".join(f"{name}: {' '.join(map(str, errors))}" for name, errors in form.errors.items())
        return _refused(request, form, problem, 400)
    said = form.cleaned_data
    try:
        stored = store_upload(_files(request), by=request.user, cluster=said["cluster"], job=said["job"])
    except NoRoom as error:
        return _refused(request, form, str(error), 507)
    except InputError as error:
        return _refused(request, form, str(error), 400)
    return _leads_to(request, stored)


def _files(request: Request) -> list[UploadedFile]:
    try:
        return list(request.FILES.getlist("files"))
    except StopUpload as error:
        raise InputError("The upload was broken off.") from error


def _leads_to(request: Request, stored: Stored) -> HttpResponse:
    """To the attempt, which says how its verdict is coming; a script is told the address and goes there itself."""
    lines = stored.stored + stored.repeated
    known = f", {stored.repeated:,} of them were known" if stored.repeated else ""
    messages.success(request, f"Stored job {stored.job_id}: {lines:,} line{'s'[: lines != 1]} of evidence{known}.")
    if stored.cut:
        messages.warning(request, f"{stored.cut:,} lines were not kept: the store holds no more of one source.")
    for note in stored.notes[:MOST_NOTES]:
        messages.info(request, note)
    if len(stored.notes) > MOST_NOTES:
        messages.info(request, f"{len(stored.notes) - MOST_NOTES:,} more guesses of this kind were made.")
    page = reverse("verdicts:attempt", args=[stored.attempt])
    return JsonResponse({"page": page}) if _by_script(request) else redirect(page)


def _refused(request: Request, form: UploadForm, reason: str, status: int) -> HttpResponse:
    if _by_script(request):
        # Said by our own page to whoever uploads; a browser would complain of any other status in its console.
        return JsonResponse({"error": reason})
    return _form(request, form, reason, status)


def _by_script(request: Request) -> bool:
    return request.headers.get("X-Requested-With") == "upload"


def _form(request: Request, form: UploadForm, reason: str = "", status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {
        "section": "upload",
        "form": form,
        "reason": reason,
        "endings": ENDINGS,
        "most_bytes": settings.INQUEST_UPLOAD_BYTES,
        "most": in_words(settings.INQUEST_UPLOAD_BYTES),
        "most_unpacked": in_words(settings.INQUEST_UPLOAD_UNPACKED_BYTES),
        "most_files": settings.INQUEST_UPLOAD_FILES,
        "nothing_stored": not Attempt.objects.exists(),
    }
    return render(request, "site/upload.html", context, status=status)
