"""What the environment says of single sign-on, checked at the start rather than at somebody's first log-in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from attribution_site.roles import ADMINISTRATOR, ROLES


@dataclass(frozen=True)
class Oidc:
    """The provider and who gets which role. `roles` goes from a group at the provider to a role here."""

    issuer: str = ""
    name: str = "single sign-on"
    client_id: str = ""
    secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"
    roles: dict[str, str] = field(default_factory=dict)
    default_role: str = ""
    email_domains: tuple[str, ...] = ()

    def app(self) -> dict[str, Any]:
        """The provider as allauth wants it."""
        return {
            "provider": "openid_connect",
            "provider_id": "sso",
            "name": self.name,
            "client_id": self.client_id,
            "secret": self.secret,
            "settings": {"server_url": self.issuer, "oauth_pkce_enabled": True, "scope": list(self.scopes)},
        }


def read(env: environ.Env, *, password_login: bool) -> Oidc:
    """The settings INQUEST_OIDC_…; without an issuer there is no single sign-on."""
    issuer = env.str("INQUEST_OIDC_ISSUER", default="")
    if not issuer:
        if not password_login:
            raise ImproperlyConfigured("INQUEST_PASSWORD_LOGIN is false without INQUEST_OIDC_ISSUER: no way in")
        return Oidc()
    said = Oidc(
        issuer=issuer,
        name=env.str("INQUEST_OIDC_NAME", default="single sign-on"),
        client_id=env.str("INQUEST_OIDC_CLIENT_ID"),
        secret=_secret(env, "INQUEST_OIDC_CLIENT_SECRET"),
        scopes=tuple(env.list("INQUEST_OIDC_SCOPES", default=["openid", "profile", "email"])),
        groups_claim=env.str("INQUEST_OIDC_GROUPS_CLAIM", default="groups"),
        roles=env.dict("INQUEST_OIDC_ROLES", default={}),
        default_role=env.str("INQUEST_OIDC_DEFAULT_ROLE", default=""),
        email_domains=tuple(domain.casefold() for domain in env.list("INQUEST_OIDC_EMAIL_DOMAINS", default=[])),
    )
    if unknown := {*said.roles.values(), *filter(None, [said.default_role])} - set(ROLES):
        raise ImproperlyConfigured(f"INQUEST_OIDC_ROLES: no such role: {', '.join(sorted(unknown))}")
    if said.default_role == ADMINISTRATOR:
        raise ImproperlyConfigured("INQUEST_OIDC_DEFAULT_ROLE: nobody becomes an administrator by default")
    if not (said.roles or said.default_role):
        raise ImproperlyConfigured("INQUEST_OIDC_ROLES or INQUEST_OIDC_DEFAULT_ROLE must say who gets which role")
    return said


def _secret(env: environ.Env, name: str) -> str:
    """A secret from a variable, or from the file that NAME_FILE names."""
    path = env.str(f"{name}_FILE", default="")
    try:
        return str(env.str(name, default="")) or (Path(path).read_text(encoding="utf-8").strip() if path else "")
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE cannot be read: {error}") from error
