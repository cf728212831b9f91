"""A real Chromium against the real site, and what every test demands of both."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from pytest_django import DjangoDbBlocker
from pytest_django.live_server_helper import LiveServer

from tests.verdicts.builders import a_user

# Playwright's synchronous calls run inside an event loop, from which Django would refuse the database.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

CHROMIUM = os.environ.get("INQUEST_CHROMIUM", "/usr/bin/chromium")
PASSWORD = "a long pass phrase"
#: Chromium refuses its sandbox to root; what it loads here is our own.
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]

#: Deadlines, for a machine that is busy with other suites: what comes in time is not waited for.
SECONDS = 30
expect.set_options(timeout=SECONDS * 1000)

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
Visit = Callable[..., Page]


@pytest.fixture(scope="session", autouse=True)
def _nobody_left(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Set up before the site and the browser, so ended after them: then the database can be removed.

    The site answers each connection of the browser in a thread with a session of its own in the database, and such a
    thread may end a moment later than both.
    """
    yield
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE {others}")  # noqa: S608


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for the run."""
    if not Path(CHROMIUM).exists():
        pytest.fail(f"{CHROMIUM} is not there: apt-get install chromium, or name another in INQUEST_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def site(live_server: LiveServer, transactional_db: None) -> str:
    """The address of the running site."""
    return str(live_server.url)


@pytest.fixture
def visit(browser: Browser, site: str) -> Iterator[Visit]:
    """Open a page in a window of its own, logged in when a group is named.

    The test fails if any window met a script error, a blocked or failed request, a complaint in the
    console, a dialog, or asked for anything but the site.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def complain(said: ConsoleMessage) -> None:
        place = said.location["url"]
        # A form that is refused is answered with its page and this status, which is no fault of the page.
        refused = "status of 400" in said.text and said.page is not None and said.page.url == place
        if said.type in ("error", "warning") and not refused:
            # The text alone does not say which request failed.
            complaints.append(f"{said.text} ({place})")

    def watch(page: Page) -> None:
        page.on("console", complain)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: (
                complaints.append(f"asked for {request.url}")
                if urlsplit(request.url).netloc != urlsplit(site).netloc
                else None
            ),
        )

    def open_page(address: str = "/verdicts/", *, group: str = "", width: int = 1280, **options: Any) -> Page:
        context = browser.new_context(base_url=site, viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(SECONDS * 1000)
        contexts.append(context)
        if group:
            # Not by the form, which has tests of its own.
            client = Client()
            client.force_login(a_user(f"{group}-{len(contexts)}", group))
            session = client.cookies[settings.SESSION_COOKIE_NAME].value
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": site}])
        page = context.new_page()
        watch(page)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def log_in(page: Page, name: str, password: str = PASSWORD) -> None:
    """Fill in the log-in page."""
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
