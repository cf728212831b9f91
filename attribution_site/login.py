"""Logging in by page, with a limit on wrong passwords, and by token for tools."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, PasswordChangeView
from django.core.cache import cache
from django.db import transaction
from django.forms import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse_lazy
from drf_spectacular.utils import extend_schema
from knox.models import AuthToken
from knox.views import LoginView as KnoxLoginView
from knox.views import LogoutView as KnoxLogoutView
from rest_framework import serializers
from rest_framework.authentication import BasicAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import ScopedRateThrottle

from attribution_site import noted
from attribution_site.tokens import ApiToken
from verdicts.people.preferences import carry_at_login


def caller(request: HttpRequest | Request) -> str:
    """The address a request came from, believing only as many proxies as the settings name."""
    proxies: int = settings.PROXIES
    forwarded = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",") if part.strip()]
    if proxies and forwarded:
        return forwarded[-min(proxies, len(forwarded))]
    return str(request.META.get("REMOTE_ADDR", ""))


class Failures:
    """The wrong passwords of late for one account and from one address, wherever they were given.

    After too many the password is not even looked at, so that a right guess cannot be told from a wrong one.
    """

    def __init__(self, name: str, request: HttpRequest | Request | None) -> None:
        self._name = name.strip().casefold()[:150]
        self._address = caller(request) if request is not None else ""
        self._counters = [f"login:name:{self._name.encode(errors='replace').hex()}", f"login:from:{self._address}"]

    def too_many(self) -> bool:
        """Whether it is time to wait."""
        return any(count >= settings.LOGIN_FAILURES_ALLOWED for count in cache.get_many(self._counters).values())

    def count(self) -> None:
        """One more; the one that makes somebody wait is written down."""
        counts = []
        for counter in self._counters:
            cache.add(counter, 0, timeout=settings.LOGIN_FAILURES_SECONDS)
            counts.append(cache.incr(counter))
        if settings.LOGIN_FAILURES_ALLOWED in counts:
            noted.guessing_stopped(self._name, self._address)


class LimitedLoginForm(AuthenticationForm):
    """The login form; after too many wrong passwords it asks to wait."""

    def clean(self) -> dict[str, Any]:
        if not settings.PASSWORD_LOGIN:
            raise ValidationError("Passwords are not taken here: use the single sign-on.", code="no-passwords")
        failures = Failures(str(self.data.get("username", "")), self.request)
        if failures.too_many():
            raise ValidationError("Too many wrong passwords. Wait five minutes and try again.", code="wait")
        try:
            return super().clean()
        except ValidationError:
            failures.count()
            raise


class LimitedAdminForm(LimitedLoginForm, AdminAuthenticationForm):
    """What somebody who is logged in, but not as staff, sees under /admin/: the same limit."""


class Login(LoginView):
    """The login page."""

    authentication_form = LimitedLoginForm

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Log in, and bring the person's own settings."""
        response = super().form_valid(form)
        noted.came_in(form.get_user(), how="password", address=caller(self.request))
        carry_at_login(self.request, response)
        return response

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        """What ways in there are."""
        ways = {"password_login": settings.PASSWORD_LOGIN, "sso": settings.OIDC.name if settings.OIDC.issuer else ""}
        return super().get_context_data(**more) | ways


class EndsTokens:
    """A form that sets a password: who may have known the former one may have made a token with it."""

    def save(self, commit: bool = True) -> Any:
        """Set it, and end the account's tokens."""
        with transaction.atomic():
            user = super().save(commit)  # type: ignore[misc]
            AuthToken.objects.filter(user=user).delete()
        return user


class OwnPasswordForm(EndsTokens, PasswordChangeForm):
    """The own password."""


class ChangePassword(PasswordChangeView):
    """The page to change the own password; who has none, coming by single sign-on, has no such page."""

    form_class = OwnPasswordForm
    template_name = "registration/password.html"
    success_url = reverse_lazy("login")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Only where there is one to change."""
        user = request.user
        if user.is_authenticated and not (settings.PASSWORD_LOGIN and user.has_usable_password()):
            raise Http404
        return super().dispatch(request, *args, **kwargs)


class LimitedBasic(BasicAuthentication):
    """Name and password with a request. They are looked at before any throttle, so they are counted here."""

    def authenticate_credentials(self, userid: str, password: str, request: Request | None = None) -> tuple[Any, None]:
        if not settings.PASSWORD_LOGIN:
            raise AuthenticationFailed("Passwords are not taken here: make the token while logged in.")
        failures = Failures(userid, request)
        if failures.too_many():
            raise Throttled(settings.LOGIN_FAILURES_SECONDS, "Too many wrong passwords.")
        try:
            if "\0" in userid + password:  # PostgreSQL has no such name
                raise AuthenticationFailed("Invalid username/password.")
            found: tuple[Any, None] = super().authenticate_credentials(userid, password, request)
        except AuthenticationFailed:
            failures.count()
            raise
        return found


class NewToken(serializers.Serializer):
    """A token as it is shown, once."""

    expiry = serializers.DateTimeField()
    token = serializers.CharField()


@extend_schema(request=None, responses={200: NewToken})
class Token(KnoxLoginView):
    """Make a token for the API. Name and password (HTTP Basic) or a session; the token is shown once."""

    authentication_classes = [LimitedBasic, SessionAuthentication]
    throttle_classes = [ScopedRateThrottle]
    throttle_scope = "token"

    def post(self, request: Request, *args: Any, **more: Any) -> Response:
        """Make it, and note it where it is an administrator's."""
        response: Response = super().post(request, *args, **more)
        if response.status_code < 400 and isinstance(request.user, User):
            noted.came_in(request.user, how="token", address=caller(request))
        return response


@extend_schema(request=None, responses={204: None})
class RevokeToken(KnoxLogoutView):
    """End the token that the request is made with."""

    authentication_classes = [ApiToken]
