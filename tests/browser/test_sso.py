"""Logging in by single sign-on, in a real browser, from the page that was wanted and back to it."""

from __future__ import annotations

from playwright.sync_api import Browser, expect
from pytest_django import Settings

from attribution_site.sso_settings import Oidc
from tests.site.oidc_provider import CLIENT, SECRET, a_provider


def test_from_a_page_over_the_provider_back_to_the_page(browser: Browser, site: str, settings: Settings) -> None:
    with a_provider() as provider:
        provider.redirect_uris = {f"{site}/accounts/sso/callback/"}
        settings.OIDC = Oidc(
            issuer=provider.issuer, name="Example", client_id=CLIENT, secret=SECRET, roles={"sre": "operator"}
        )
        context = browser.new_context(base_url=site)
        complaints: list[str] = []
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.goto("/rules/")
        page.get_by_role("link", name="Log in with Example").click()
        expect(page).to_have_url(f"{site}/rules/")
        expect(page.get_by_text("grace", exact=True)).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        provider.person["groups"] = []
        page.get_by_role("link", name="Log in with Example").click()
        expect(page.get_by_role("heading", name="You are not logged in")).to_be_visible()
        context.close()
        assert [said for said in complaints if "403" not in said] == []
