"""The button that makes a record."""

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import FileResponse, Http404, HttpResponse
from django.views.decorators.http import require_POST

from recovery import permissions
from recovery.ledger.entries import Actor
from recovery.record import export
from verdicts.guard import Request, permitted
from verdicts.models import Attempt
from verdicts.permissions import may_read


@require_POST
@permitted(may_read)
def download(request: Request, attempt_id: UUID) -> HttpResponse:
    """The record of an attempt as a file; making it is an entry of the ledger."""
    if not request.user.has_perm(permissions.EXPORT_LEDGER):
        raise PermissionDenied
    try:
        return sent(attempt_id, Actor.user(request.user), via="console")
    except Attempt.DoesNotExist:
        raise Http404 from None
    except export.NotMade as error:
        return HttpResponse(f"{error}\n", status=503, content_type="text/plain; charset=utf-8")


def sent(attempt_id: UUID, actor: Actor, *, via: str) -> HttpResponse:
    """The answer that brings a record, in pieces. Raises Attempt.DoesNotExist and NotMade."""
    made = export.make(attempt_id, actor, via=via)
    response = FileResponse(
        made, as_attachment=True, filename=export.name_of(attempt_id), content_type="application/zip"
    )
    response["X-Content-Type-Options"] = "nosniff"
    return response  # type: ignore[return-value]
