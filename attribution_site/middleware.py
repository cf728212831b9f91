"""A log line for each request, and an id that joins all lines of one request."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from datetime import UTC

import structlog
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.functional import LazyObject, empty

from verdicts import zones
from verdicts.people import preferences

log = structlog.get_logger("inquest.request")

# A caller's id is repeated in our logs: short and of plain characters, or replaced.
CALLERS_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
QUIET = ("/healthz", "/readyz", "/metrics", "/static/")


def _name(request: HttpRequest) -> str | None:
    """The user's name, if the request has asked who it is: a log line must not cost a query."""
    user = request.__dict__.get("user")
    if user is None or (isinstance(user, LazyObject) and user.__dict__.get("_wrapped", empty) is empty):
        return None
    return user.get_username() or None


class RequestLog:
    """Bind a request id to the log lines of a request, return it as X-Request-ID, and log the outcome."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        request_id = given if CALLERS_ID.fullmatch(given) else uuid.uuid4().hex
        started = time.perf_counter()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            response = self.get_response(request)
            response["X-Request-ID"] = request_id
            quiet = request.path.startswith(QUIET) and response.status_code < 500
            (log.debug if quiet else log.info)(
                "request",
                method=request.method,
                path=request.path,
                status=response.status_code,
                ms=round((time.perf_counter() - started) * 1000, 1),
                user=_name(request),
            )
        return response


class Zone:
    """Show times in the zone that somebody chose, else in the one that their browser says, else in UTC."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        said = (request.COOKIES.get(name, "") for name in (preferences.ZONE, preferences.BROWSER_ZONE))
        token = zones.enter(next((zone for name in said if (zone := zones.named(name))), UTC))
        try:
            return self.get_response(request)
        finally:
            zones.leave(token)


class Private:
    """What is made for somebody is kept by no cache; an address with a NUL, which no text in the database has, is none.

    Views that say otherwise are heard. Static files are answered before.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "\0" in request.path:
            raise Http404
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", "no-store, private")
        return response
