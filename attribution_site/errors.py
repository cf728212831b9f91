"""What is answered when a view failed: a page that names the lines of the log, or the API's own form."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from structlog.contextvars import get_contextvars


def server_error(request: HttpRequest) -> HttpResponse:
    """Nothing here asks the database, a session or a user: any of them may be what failed."""
    name = str(get_contextvars().get("request_id", ""))
    if request.path.startswith("/api/"):
        said = f"The server could not answer; its log has the error under the request id {name}."
        error = {"code": "error", "detail": said, "attr": None}
        return JsonResponse({"type": "server_error", "errors": [error]}, status=500)
    return HttpResponse(render_to_string("500.html", {"request_id": name}), status=500)
