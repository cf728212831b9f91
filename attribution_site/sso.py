"""Single sign-on with OpenID Connect, by django-allauth. Everything is set in the environment.

What is ours is what a console for operators must not leave to a default: the identity token's signature is always
checked, with its nonce; an identity is never joined to an account that is there already, whatever its address; the
roles come from the provider's groups at every log-in and from nowhere else; nobody becomes staff or superuser by it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.internal import jwtkit
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from attribution_site import noted
from attribution_site.login import caller
from attribution_site.roles import ROLES
from recovery.ledger.entries import Actor
from verdicts.people.preferences import carry_at_login

log = structlog.get_logger("inquest.sso")

PROVIDER = "sso"
#: Signatures by a key pair: with a shared secret, whoever can check a token can make one.
SIGNATURES = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})


class Turned(PermissionDenied):
    """Whom the provider knows and this site does not let in. The text is for the person."""


@dataclass(frozen=True)
class Claims:
    """What the provider says of a person: the signed token first, the user-info answer for what it leaves out."""

    token: dict[str, Any]
    info: dict[str, Any]

    def get(self, name: str) -> Any:
        """A claim, or None."""
        return self.token.get(name, self.info.get(name))

    def groups(self) -> set[str]:
        """The groups of the person, from the claim that the settings name; dots lead into objects."""
        value: Any = self.get(settings.OIDC.groups_claim)
        if value is None:
            value = {**self.info, **self.token}
            for part in settings.OIDC.groups_claim.split("."):
                value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, str):
            value = [value]
        return {group for group in value if isinstance(group, str)} if isinstance(value, list) else set()


class Verifying(OpenIDConnectOAuth2Adapter):
    """The protocol, with an identity token that must be there and must be signed by the provider."""

    def complete_login(self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs: Any) -> SocialLogin:
        """The person as the provider describes them."""
        signed = kwargs["response"].get("id_token")
        if not isinstance(signed, str):
            raise OAuth2Error("no id_token")
        try:
            claims = self._decode_id_token(app, signed)
            info = self._fetch_user_info(token.token) if "userinfo_endpoint" in self.openid_config else {}
        except (KeyError, TypeError, ValueError) as error:
            raise OAuth2Error(f"an answer of the provider is not understood: {error!r}") from error
        if info and info.get("sub") != claims.get("sub"):
            raise OAuth2Error("the user-info answer is about somebody else")
        # The signed token names the person; the rest fills in what it leaves out.
        data = {"id_token": claims, "userinfo": {**info, **claims}}
        return self.get_provider().sociallogin_from_response(request, data)

    def _decode_id_token(self, app: SocialApp, id_token: str) -> dict[str, Any]:
        algorithm = jwtkit.jwt.get_unverified_header(id_token).get("alg")
        if algorithm not in SIGNATURES:
            raise OAuth2Error(f"the id_token is signed with {algorithm!r}")
        issuer = self.openid_config["issuer"]
        if issuer.rstrip("/") != app.settings["server_url"].rstrip("/"):
            raise OAuth2Error(f"the provider says that it is {issuer!r}")
        claims: dict[str, Any] = jwtkit.verify_and_decode(
            credential=id_token,
            keys_url=self.openid_config["jwks_uri"],
            issuer=issuer,
            audience=app.client_id,
            lookup_kid=jwtkit.lookup_kid_jwk,
        )
        return claims


class People(DefaultSocialAccountAdapter):
    """Who is let in, and with which roles."""

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """After the provider has vouched for somebody and before they are logged in."""
        data = sociallogin.account.extra_data
        claims = Claims(data["id_token"], data["userinfo"])
        if sociallogin.state.get("process") != AuthProcess.LOGIN:
            raise OAuth2Error("not a log-in")
        if not secrets.compare_digest(str(claims.token.get("nonce", "")), str(sociallogin.state.get("nonce"))):
            raise OAuth2Error("the id_token answers another request")
        _require_domain(claims)
        roles = _roles(claims)
        if sociallogin.is_existing:
            _give(sociallogin.user, roles)
        if not roles:
            raise Turned("None of your groups gives a role here. An administrator of this site says which would.")
        # Without addresses there is nothing to compare with other accounts', and nothing to confirm by mail.
        sociallogin.email_addresses = []

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        """Make the account of somebody who is here for the first time."""
        user: User = super().save_user(request, sociallogin, form)
        data = sociallogin.account.extra_data
        _give(user, _roles(Claims(data["id_token"], data["userinfo"])))
        log.info("sso.account", user=user.get_username())
        return user

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        """Whoever got this far has a role."""
        return True

    def list_apps(self, request: HttpRequest, provider: Any = None, client_id: Any = None) -> list[SocialApp]:
        """The one provider of the settings: none can be added in the database."""
        return [SocialApp(**settings.OIDC.app())] if settings.OIDC.issuer else []

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: Any = None,
    ) -> None:
        """Say what can be said to whoever is in front of the page; the rest is in the log."""
        if error == AuthError.CANCELLED:
            raise ImmediateHttpResponse(_refused(request, "The log-in was cancelled."))
        log.warning("sso.refused", reason=str(exception) if exception else str(error))
        if isinstance(exception, Turned):
            raise ImmediateHttpResponse(_refused(request, str(exception)))
        said = "The log-in did not succeed. It may have taken too long, or been started in another window: try again."
        raise ImmediateHttpResponse(_refused(request, said))


class Accounts(DefaultAccountAdapter):
    """Accounts are made by administrators and by single sign-on, not by filling in a form."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Never."""
        return False

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        """An account that was switched off stays so, whatever the provider says."""
        return _refused(request, "This account is switched off. An administrator of this site can switch it on.")

    def post_login(self, request: HttpRequest, user: Any, **more: Any) -> HttpResponse:
        """After the log-in: the person's own settings."""
        response: HttpResponse = super().post_login(request, user, **more)
        noted.came_in(user, how="sso", address=caller(request))
        carry_at_login(request, response)
        return response

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: the page says who is logged in."""

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Where a log-in leads that was not on its way to a page."""
        return str(settings.LOGIN_REDIRECT_URL)


def _refused(request: HttpRequest, reason: str) -> HttpResponse:
    return render(request, "registration/sso_refused.html", {"reason": reason}, status=403)


def _require_domain(claims: Claims) -> None:
    if not settings.OIDC.email_domains:
        return
    _, at, domain = str(claims.get("email") or "").rpartition("@")
    if not at or domain.casefold() not in settings.OIDC.email_domains or claims.get("email_verified") is not True:
        raise Turned("Your account there has no confirmed e-mail address of a domain that is let in here.")


def _roles(claims: Claims) -> set[str]:
    found = {settings.OIDC.roles[group] for group in claims.groups() & set(settings.OIDC.roles)}
    return found or ({settings.OIDC.default_role} if settings.OIDC.default_role else set())


def _give(user: User, roles: set[str]) -> None:
    """Make an account's roles those that were given, no more."""
    had = set(user.groups.filter(name__in=ROLES).values_list("name", flat=True))
    if had == roles:
        return
    before = noted.rights(user)
    user.groups.remove(*Group.objects.filter(name__in=had - roles))
    user.groups.add(*Group.objects.filter(name__in=roles - had))
    noted.rights_changed(user, before, by=Actor.system("sso"))
    log.info("sso.roles", user=user.get_username(), given=sorted(roles - had), taken=sorted(had - roles))


@never_cache
@require_GET
def login(request: HttpRequest) -> HttpResponse:
    """To the provider. Only from our own page or from none: nobody else's page starts a log-in here."""
    if not settings.OIDC.issuer:
        raise Http404
    following = request.GET.get("next", "")
    if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return redirect(reverse("login"))
    provider = get_adapter(request).get_provider(request, PROVIDER)
    nonce = secrets.token_urlsafe(32)
    ours = url_has_allowed_host_and_scheme(following, {request.get_host()}, require_https=request.is_secure())
    try:
        response: HttpResponse = provider.redirect(
            request, AuthProcess.LOGIN, next_url=following if ours else None, auth_params={"nonce": nonce}, nonce=nonce
        )
    except (OSError, KeyError) as error:  # of requests; the provider could not be asked where to send people
        log.warning("sso.unreachable", reason=str(error))
        return _refused(request, "The provider of the log-in cannot be reached now. Try again in a minute.")
    return response


@never_cache
@require_GET
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Back from the provider."""
    if not settings.OIDC.issuer:
        raise Http404
    view = OAuth2CallbackView.adapter_view(Verifying(request, provider_id))
    response: HttpResponse = view(request)
    return response
