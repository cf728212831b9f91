"""Who gets in to a page, and which part of it is asked for: what all pages share."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
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


def _where(request: Request) -> str:
    """The page of this site that a partial update belongs to, as the browser says."""
    try:
        return request.htmx.current_url_abs_path or "/"
    except ValueError:
        return "/"  # what was sent is no address


def permitted(allowed: Callable[[Any], bool]) -> Callable[[View], View]:
    """Let in who is logged in and allowed; a partial update of a session that ended leads to the log-in page."""

    def guard(view: View) -> View:
        @wraps(view)
        def guarded(request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.is_authenticated:
                if not request.htmx:
                    return redirect_to_login(request.get_full_path())
                return HttpResponseClientRedirect(redirect_to_login(_where(request)).url)
            if not allowed(request.user):
                raise PermissionDenied
            response = view(request, *args, **kwargs)
            # The same address answers with a page or with a part of it.
            patch_vary_headers(response, ["HX-Request", "HX-Target"])
            return response

        return guarded

    return guard


#: How much is kept of what was typed before a session ended.
KEPT_CHARACTERS = 12_000
_TYPED = "typed"


def keeps_typed(back: Callable[..., str], *fields: str, anchor: str) -> Callable[[View], View]:
    """For a form whose session may have ended: log in first, and find there what was typed, not stored yet.

    `back` makes the address of the page that shows the form, out of the view's arguments, `anchor` is the
    form's place on it. Only who had a session gets this, so that nobody fills the store without one.
    """

    def keeper(view: View) -> View:
        @wraps(view)
        def kept(request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.user.is_authenticated or request.method != "POST":
                return view(request, *args, **kwargs)
            page = back(*args, **kwargs)
            if settings.SESSION_COOKIE_NAME in request.COOKIES:
                typed = {name: request.POST[name][:KEPT_CHARACTERS] for name in fields if request.POST.get(name)}
                request.session[_TYPED] = {"page": page, "fields": typed}
            return redirect_to_login(page + anchor)

        return kept

    return keeper


def typed_before(request: Request, page: str) -> dict[str, str]:
    """What was typed into the forms of a page when the session had ended; it is given back once."""
    held = request.session.get(_TYPED)
    if not held or held.get("page") != page:
        return {}
    del request.session[_TYPED]
    return dict(held["fields"])


def part_wanted(request: Request, target: str) -> bool:
    """Whether htmx asks for one part of the page; going back in history wants the whole."""
    return bool(request.htmx) and not request.htmx.history_restore_request and request.htmx.target == target
