"""Logging in by page, with a limit on wrong passwords, and by token for tools."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.cache import cache
from django.forms import ValidationError
from django.http import HttpRequest
from drf_spectacular.utils import extend_schema
from knox.views import LoginView as KnoxLoginView
from knox.views import LogoutView as KnoxLogoutView
from rest_framework import serializers
from rest_framework.authentication import BasicAuthentication, SessionAuthentication
from rest_framework.throttling import ScopedRateThrottle


def caller(request: HttpRequest) -> str:
    """The address a request came from, believing only as many proxies as the settings name."""
    proxies: int = settings.PROXIES
    forwarded = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",") if part.strip()]
    if proxies and forwarded:
        return forwarded[-min(proxies, len(forwarded))]
    return str(request.META.get("REMOTE_ADDR", ""))


class LimitedLoginForm(AuthenticationForm):
    """The login form; after too many wrong passwords for one account or from one address it asks to wait.

    The password is not even looked at then, so that a right guess cannot be told from a wrong one.
    """

    def _counters(self) -> list[str]:
        name = str(self.data.get("username", "")).strip().casefold()[:150]
        address = caller(self.request) if self.request is not None else ""
        return [f"login:name:{name.encode().hex()}", f"login:from:{address}"]

    def clean(self) -> dict[str, Any]:
        counters = self._counters()
        counted = cache.get_many(counters)
        if any(count >= settings.LOGIN_FAILURES_ALLOWED for count in counted.values()):
            raise ValidationError("Too many wrong passwords. Wait five minutes and try again.", code="wait")
        try:
            return super().clean()
        except ValidationError:
            for counter in counters:
                cache.add(counter, 0, timeout=settings.LOGIN_FAILURES_SECONDS)
                cache.incr(counter)
            raise


class LimitedAdminForm(LimitedLoginForm, AdminAuthenticationForm):
    """What somebody who is logged in, but not as staff, sees under /admin/: the same limit."""


class Login(LoginView):
    """The login page."""

    authentication_form = LimitedLoginForm


class NewToken(serializers.Serializer):
    """A token as it is shown, once."""

    expiry = serializers.DateTimeField()
    token = serializers.CharField()


@extend_schema(request=None, responses={200: NewToken})
class Token(KnoxLoginView):
    """Make a token for the API. Name and password (HTTP Basic) or a session; the token is shown once."""

    authentication_classes = [BasicAuthentication, SessionAuthentication]
    throttle_classes = [ScopedRateThrottle]
    throttle_scope = "token"


@extend_schema(request=None, responses={204: None})
class RevokeToken(KnoxLogoutView):
    """End the token that the request is made with."""
