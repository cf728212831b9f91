"""The site's addresses. `/healthz` and `/readyz` are answered by health.Health before this table."""

from __future__ import annotations

from csp.decorators import csp_update
from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from attribution_site import accounts, sso
from attribution_site.login import ChangePassword, LimitedAdminForm, Login, RevokeToken, Token

# One login page; and wrong passwords are counted on admin's own form too.
admin.site.login_form = LimitedAdminForm
admin.site.login = login_required(admin.site.login)  # type: ignore[method-assign]
admin.site.site_header = "Inquest: accounts"
accounts.arrange(admin.site)

docs = SpectacularSwaggerSplitView.as_view(url_name="schema", template_name="site/api_docs.html")


def icon(_request: HttpRequest) -> HttpResponse:
    """What browsers ask for by themselves where no page of ours names its icon: an answer in JSON, a plain file."""
    return redirect(static("verdicts/favicon.svg"))


handler404 = "verdicts.api.not_found"
handler500 = "attribution_site.errors.server_error"

urlpatterns = [
    path("favicon.ico", icon),
    path("", include("verdicts.urls")),
    path("", include("recovery.urls")),
    path("api/v1/", include("verdicts.api_urls")),
    path("api/v1/", include("recovery.api_urls")),
    path("api/v1/schema", SpectacularAPIView.as_view(), name="schema"),
    # Swagger UI sets styles from its script; nothing else on the site may.
    path("api/v1/docs", csp_update({"style-src": ["'unsafe-inline'"]})(login_required(docs)), name="api-docs"),
    path("api/v1/token", Token.as_view(), name="token"),
    path("api/v1/token/revoke", RevokeToken.as_view(), name="token-revoke"),
    path("accounts/login/", Login.as_view(), name="login"),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    path("accounts/password/", ChangePassword.as_view(), name="password"),
    path("accounts/sso/", sso.login, name="sso-login"),
    # The name by which allauth knows where the provider sends people back to.
    path("accounts/sso/callback/", sso.callback, {"provider_id": sso.PROVIDER}, name="openid_connect_callback"),
    path("admin/", admin.site.urls),
]
