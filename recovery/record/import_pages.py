"""The page that takes a record of another site."""

from typing import Any, BinaryIO, cast

from django.conf import settings
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import StopUpload
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods

from recovery.ledger.entries import Actor
from recovery.ledger.keys import KeyFileError
from recovery.record import load
from recovery.record.container import MOST_BYTES, BadRecord
from rules.attempt import InputError
from verdicts import permissions
from verdicts.guard import Request, permitted
from verdicts.upload.store import Bounded, NoRoom, TooLarge, room
from verdicts.upload.unpack import in_words


# Who may not send anything is turned away before a byte of the file is read, and reading it is what looks for
# the token in the form: so the check for the token stands behind both.
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(permissions.may_ingest)
def upload(request: Request) -> HttpResponse:
    """The page that takes a record, verifies it and stores its attempt, marked as imported."""
    if request.method != "POST":
        return _form(request)
    request.upload_handlers = [Bounded(request)]
    try:
        with room():
            return _take(request)
    except TooLarge as error:
        return _refused(request, str(error), 413)
    except NoRoom as error:
        return _refused(request, str(error), 507)


@csrf_protect
def _take(request: Request) -> HttpResponse:
    try:
        file = _file(request)
        loaded = load.load(
            cast("BinaryIO", file.file), load.known_keys(), actor=Actor.user(request.user), by=request.user
        )
    except TooLarge as error:
        return _refused(request, str(error), 413)
    except BadRecord as error:
        return _refused(request, f"The record is refused: {error}.", 400)
    except InputError as error:
        return _refused(request, _sentence(error), 400)
    except KeyFileError as error:
        return _refused(request, f"No record can be taken now: {error}.", 503)
    messages.success(request, load.said(loaded))
    page = reverse("verdicts:attempt", args=[loaded.attempt])
    return JsonResponse({"page": page}) if _by_script(request) else redirect(page)


def _file(request: Request) -> UploadedFile:
    try:
        sent = request.FILES.getlist("files")
    except StopUpload as error:
        raise InputError("the upload was broken off") from error
    if len(sent) != 1:
        raise InputError("send one record at a time" if sent else "no file was sent")
    return sent[0]


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _by_script(request: Request) -> bool:
    return request.headers.get("X-Requested-With") == "upload"


def _refused(request: Request, reason: str, status: int) -> HttpResponse:
    if _by_script(request):
        # Said by our own page to whoever uploads; a browser would complain of any other status in its console.
        return JsonResponse({"error": reason})
    return _form(request, reason, status)


def _form(request: Request, reason: str = "", status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {
        "section": "ledger",
        "tab": "import",
        "reason": reason,
        "most_bytes": settings.INQUEST_UPLOAD_BYTES,
        "most": in_words(settings.INQUEST_UPLOAD_BYTES),
        "most_unpacked": in_words(MOST_BYTES),
    }
    return render(request, "record/import.html", context, status=status)
