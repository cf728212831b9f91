"""Who gets in to a page, and which part of it is asked for: what all pages share."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

View = Callable[..., HttpResponse]


class Request(HttpRequest):
    """A request as the middleware leaves it and `permitted` lets it through."""

    htmx: HtmxDetails
    user: User


def permitted(allowed: Callable[[Any], bool]) -> Callable[[View], View]:
    """Let in who is logged in and allowed; a partial update of a session that ended leads to the log-in page."""

    def guard(view: View) -> View:
        @wraps(view)
        def guarded(request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.is_authenticated:
                if not request.htmx:
                    return redirect_to_login(request.get_full_path())
                page = urlsplit(request.htmx.current_url_abs_path or "/")
                return HttpResponseClientRedirect(redirect_to_login(page.geturl()).url)
            if not allowed(request.user):
                raise PermissionDenied
            response = view(request, *args, **kwargs)
            # The same address answers with a page or with a part of it.
            patch_vary_headers(response, ["HX-Request", "HX-Target"])
            return response

        return guarded

    return guard


def part_wanted(request: Request, target: str) -> bool:
    """Whether htmx asks for one part of the page; going back in history wants the whole."""
    return bool(request.htmx) and not request.htmx.history_restore_request and request.htmx.target == target
