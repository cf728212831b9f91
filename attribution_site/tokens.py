"""Tokens of the API, as they come in a header: apart from the login views, which the API's own settings load."""

from __future__ import annotations

from typing import Any

from knox.auth import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request


class ApiToken(TokenAuthentication):
    """knox's tokens; bytes that are no text are a wrong token, not an error of ours."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        try:
            found: tuple[Any, Any] | None = super().authenticate(request)
        except UnicodeDecodeError:
            raise AuthenticationFailed("Invalid token.") from None
        return found
