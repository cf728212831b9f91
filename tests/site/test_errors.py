"""Pages that stand where there is none: each says what happened and where to go on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from attribution_site import urls
from tests.verdicts.builders import a_user

pytestmark = pytest.mark.django_db


def broken(request: HttpRequest) -> HttpResponse:
    """A view with a mistake in it."""
    raise RuntimeError("a secret of the server")


urlpatterns = [path("broken/", broken), path("api/v1/broken", broken), *urls.urlpatterns]
handler404, handler500 = urls.handler404, urls.handler500


@pytest.fixture
def client(settings: Any) -> Client:
    settings.ROOT_URLCONF = __name__
    return Client(raise_request_exception=False)


def test_a_failed_page_names_the_request_and_nothing_else(client: Client) -> None:
    answer = client.get("/broken/", headers={"X-Request-ID": "abcdefgh-1234"})
    assert answer.status_code == 500
    page = answer.content.decode()
    assert "abcdefgh-1234" in page
    assert "secret" not in page
    assert "Content-Security-Policy" in answer.headers


def test_a_failed_call_of_the_api_is_said_in_its_form(client: Client) -> None:
    answer = client.get("/api/v1/broken")
    assert answer.status_code == 500
    assert answer.json()["type"] == "server_error"
    assert "secret" not in answer.content.decode()


def test_what_is_not_there_leads_on(client: Client) -> None:
    assert "Log in" in client.get("/nothing/").content.decode()
    client.force_login(a_user("ada", "viewer"))
    answer = client.get("/nothing/")
    assert answer.status_code == 404
    assert 'action="/verdicts/"' in answer.content.decode()


def test_what_is_not_permitted_says_which_role_would_do(client: Client) -> None:
    client.force_login(a_user("ada", "viewer"))
    answer = client.get("/upload/")
    assert answer.status_code == 403
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", answer.content.decode()))
    assert "with the role viewer" in said
    assert "uploads incidents" in said and "writes and promotes policies" in said
    client.force_login(a_user("nobody"))
    assert "without any role" in client.get("/verdicts/").content.decode()
