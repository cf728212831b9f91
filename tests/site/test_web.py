"""Health, headers, login and tokens."""

from __future__ import annotations

import base64
import json
import logging
import subprocess
import sys

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client, RequestFactory
from django.urls import reverse
from drf_spectacular.validation import validate_schema
from knox.models import AuthToken

from attribution_site import health
from attribution_site.login import caller

PASSWORD = "correct horse battery"


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_user("ada", password=PASSWORD)


def test_healthz_answers_any_host_without_a_database(client: Client) -> None:
    response = client.get("/healthz", HTTP_HOST="10.1.2.3:8000")
    assert response.status_code == 200
    assert response.json() == {"status": "ok"}


def test_the_icon_that_a_browser_asks_for_by_itself_is_ours(client: Client) -> None:
    response = client.get("/favicon.ico")
    assert (response.status_code, response.headers["Location"]) == (302, "/static/verdicts/favicon.svg")


@pytest.mark.django_db
def test_readyz_tells_each_part(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.Broker, "state", lambda _: "ok")
    response = client.get("/readyz", HTTP_HOST="anything")
    assert response.status_code == 200
    body = response.json()
    assert (body["status"], body["database"], body["broker"]) == ("ok", "ok", "ok")
    assert len(body["ruleset"]) == 64


@pytest.mark.django_db
def test_a_broker_that_is_away_degrades(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.Broker, "state", lambda _: "unreachable")
    response = client.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("part", "value"), [("database", "unreachable"), ("database", "migrations pending"), ("ruleset_digest", None)]
)
def test_what_it_cannot_work_without_makes_it_not_ready(
    client: Client, monkeypatch: pytest.MonkeyPatch, part: str, value: str | None
) -> None:
    monkeypatch.setattr(health, part, lambda: value)
    response = client.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (503, "not ready")


def test_a_broker_is_asked_once_for_many_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    broker = health.Broker(fresh_for=60)
    monkeypatch.setattr(broker, "_ask", lambda: bool(asked.append(1)))
    assert {broker.state() for _ in range(5)} == {"unreachable"}
    assert len(asked) == 1


@pytest.mark.django_db
def test_every_page_carries_the_policy_and_a_request_id(client: Client) -> None:
    response = client.get("/accounts/login/")
    assert response.status_code == 200
    assert "script-src 'self'" in response["Content-Security-Policy"]
    assert "unsafe" not in response["Content-Security-Policy"]
    assert response["X-Frame-Options"] == "DENY"
    assert len(response["X-Request-ID"]) == 32


@pytest.mark.django_db
@pytest.mark.parametrize(("given", "kept"), [("trace-12345678", True), ("short", False), ("x" * 80, False)])
def test_a_caller_s_request_id_is_kept_if_it_is_plain(client: Client, given: str, kept: bool) -> None:
    response = client.get("/accounts/login/", headers={"X-Request-ID": given})
    assert (response["X-Request-ID"] == given) is kept


@pytest.mark.django_db
def test_each_request_is_one_log_line(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="inquest.request"):
        client.get("/accounts/login/")
    (record,) = [record for record in caplog.records if record.name == "inquest.request"]
    line = record.msg
    assert isinstance(line, dict)
    assert (line["path"], line["status"], line["user"]) == ("/accounts/login/", 200, None)
    assert len(line["request_id"]) == 32


def attempt(client: Client, password: str, name: str = "ada", **extra: str) -> int:
    return client.post("/accounts/login/", {"username": name, "password": password}, **extra).status_code  # type: ignore[arg-type]


def test_the_right_password_logs_in(client: Client, user: User) -> None:
    assert attempt(client, PASSWORD) == 302


def test_after_too_many_wrong_passwords_even_the_right_one_waits(
    client: Client, user: User, settings: pytest.FixtureRequest
) -> None:
    settings.LOGIN_FAILURES_ALLOWED = 3  # type: ignore[attr-defined]
    for _ in range(3):
        assert attempt(client, "wrong") == 200
    response = client.post("/accounts/login/", {"username": "ada", "password": PASSWORD})
    assert b"Wait five minutes" in response.content


def test_another_account_from_another_address_is_not_held_up(
    client: Client, user: User, settings: pytest.FixtureRequest
) -> None:
    settings.LOGIN_FAILURES_ALLOWED = 2  # type: ignore[attr-defined]
    for _ in range(2):
        attempt(client, "wrong", name="eve", REMOTE_ADDR="10.0.0.9")
    assert attempt(client, PASSWORD) == 302


@pytest.mark.parametrize(
    ("proxies", "header", "wanted"),
    [
        (0, "6.6.6.6", "127.0.0.1"),
        (1, "6.6.6.6, 10.0.0.1", "10.0.0.1"),
        (2, "6.6.6.6, 10.0.0.1, 10.0.0.2", "10.0.0.1"),
        (1, "", "127.0.0.1"),
    ],
)
def test_only_as_many_forwarded_addresses_are_believed_as_there_are_proxies(
    settings: pytest.FixtureRequest, proxies: int, header: str, wanted: str
) -> None:
    settings.PROXIES = proxies  # type: ignore[attr-defined]
    request = RequestFactory().get("/", headers={"X-Forwarded-For": header} if header else {})
    assert caller(request) == wanted


@pytest.mark.django_db
def test_the_admin_uses_the_login_page_that_counts(client: Client) -> None:
    response = client.get("/admin/", follow=True)
    assert response.redirect_chain[-1][0].startswith("/accounts/login/")


def test_admin_s_own_form_counts_wrong_passwords_too(
    client: Client, user: User, settings: pytest.FixtureRequest
) -> None:
    settings.LOGIN_FAILURES_ALLOWED = 1  # type: ignore[attr-defined]
    client.force_login(user)
    for _ in range(2):
        response = client.post("/admin/login/", {"username": "root", "password": "wrong"})
    assert b"Wait five minutes" in response.content


def test_a_token_is_given_for_a_password_and_can_be_revoked(client: Client, user: User) -> None:
    basic = "Basic " + base64.b64encode(f"ada:{PASSWORD}".encode()).decode()
    response = client.post("/api/v1/token", headers={"Authorization": basic})
    assert response.status_code == 200
    token = response.json()["token"]
    assert token.startswith("inq_")
    headers = {"Authorization": f"Token {token}"}
    assert client.get("/api/v1/schema", headers=headers).status_code == 200
    assert client.post("/api/v1/token/revoke", headers=headers).status_code == 204
    assert client.get("/api/v1/schema", headers=headers).status_code == 401


@pytest.mark.django_db
@pytest.mark.parametrize("by_whom", ["the owner", "an administrator"])
def test_a_new_password_ends_the_tokens_that_the_former_one_may_have_made(
    client: Client, user: User, by_whom: str
) -> None:
    _, token = AuthToken.objects.create(user)
    new = {"new_password1": "quite another phrase", "new_password2": "quite another phrase"}
    if by_whom == "the owner":
        client.force_login(user)
        assert client.post(reverse("password"), {"old_password": PASSWORD} | new).status_code == 302
        User.objects.filter(pk=user.pk).update(is_staff=True, is_superuser=True)
        assert client.get("/admin/password_change/").headers["Location"] == reverse("password")
    else:
        client.force_login(User.objects.create_superuser("root-of-all"))
        said = {"password1": "quite another phrase", "password2": "quite another phrase", "usable_password": "true"}
        assert client.post(reverse("admin:auth_user_password_change", args=[user.pk]), said).status_code == 302
    assert Client().get("/api/v1/me", headers={"Authorization": f"Token {token}"}).status_code == 401


def test_without_a_login_the_api_answers_in_its_own_form(client: Client) -> None:
    response = client.get("/api/v1/schema", headers={"Accept": "application/json"})
    assert response.status_code == 401
    assert response.json()["type"] == "client_error"


def test_a_token_for_a_tool_is_made_by_command(client: Client, user: User, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("create_token", "ada", "--days", "3")
    token = capsys.readouterr().out.strip()
    assert token.startswith("inq_")
    assert client.get("/api/v1/schema", headers={"Authorization": f"Token {token}"}).status_code == 200
    with pytest.raises(CommandError, match="no active user is called 'bob'"):
        call_command("create_token", "bob")


def test_the_schema_describes_the_api(client: Client, user: User) -> None:
    client.force_login(user)
    schema = json.loads(client.get("/api/v1/schema", headers={"Accept": "application/json"}).content)
    assert schema["openapi"].startswith("3.")
    validate_schema(schema)
    assert all(path.startswith("/api/v1/") for path in schema["paths"])
    assert reverse("api-policy-try") in schema["paths"]


def test_the_api_s_own_documentation_needs_a_login_and_loads_nothing_from_elsewhere(client: Client, user: User) -> None:
    assert client.get("/api/v1/docs").status_code == 302
    client.force_login(user)
    response = client.get("/api/v1/docs")
    assert response.status_code == 200
    assert b"http://" not in response.content
    assert b"https://" not in response.content
    assert "script-src 'self';" in response["Content-Security-Policy"] + ";"


@pytest.mark.parametrize("guesses", [["wrong"] * 3, ["wrong", "\0", "wrong"]])
def test_wrong_passwords_for_a_token_count_like_those_of_the_login_page(
    client: Client, user: User, settings: pytest.FixtureRequest, guesses: list[str]
) -> None:
    settings.LOGIN_FAILURES_ALLOWED = 3  # type: ignore[attr-defined]

    def asked(password: str) -> int:
        basic = "Basic " + base64.b64encode(f"ada:{password}".encode()).decode()
        return client.post("/api/v1/token", headers={"Authorization": basic}).status_code

    assert [asked(guess) for guess in guesses] == [401] * 3
    assert asked(PASSWORD) == 429
    assert b"Wait five minutes" in client.post("/accounts/login/", {"username": "ada", "password": PASSWORD}).content


def test_bytes_that_are_no_text_are_a_wrong_token(client: Client, user: User) -> None:
    for address in ("/api/v1/verdicts", "/api/v1/token/revoke"):
        response = client.generic("POST" if "revoke" in address else "GET", address, HTTP_AUTHORIZATION="Token \xff")
        assert response.status_code == 401


@pytest.mark.django_db
def test_an_address_of_the_api_that_is_not_there_answers_as_the_api_does(client: Client) -> None:
    assert client.get("/api/v1/verdicts/none").json()["errors"][0]["code"] == "not_found"
    assert client.get("/none")["Content-Type"].startswith("text/html")


def test_a_traceback_in_the_log_shows_no_variables() -> None:
    script = (
        "from attribution_site import logs; import logging\nlogs.configure(level='INFO', form='console')\n"
        "def login():\n    password = 'hun' + 'ter2'\n    1 / 0\n"
        "try:\n    login()\nexcept ZeroDivisionError:\n    logging.exception('x')\n"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr
    assert "ZeroDivisionError" in printed
    assert "hunter2" not in printed


def test_no_cache_keeps_what_a_login_shows(client: Client, user: User) -> None:
    client.force_login(user)
    for address in ("/verdicts/", "/api/v1/schema", "/none"):
        assert "no-store" in client.get(address)["Cache-Control"]


def test_an_address_with_a_nul_is_none(client: Client, user: User) -> None:
    client.force_login(user)
    for address in ("/rules/%00/", "/rules/unrecognised/%00/", "/api/v1/rules/%00"):
        assert client.get(address).status_code == 404
