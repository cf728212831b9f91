"""Single sign-on against a real provider on the loopback: who gets in, with which roles, and who does not."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import requests
from allauth.socialaccount.models import SocialAccount
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import Group, User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from pytest_django import Settings

from attribution_site.sso_settings import Oidc
from tests.site.evaluated import evaluated
from tests.site.oidc_provider import CLIENT, SECRET, Provider, a_provider
from tests.verdicts.builders import a_user

pytestmark = pytest.mark.django_db

HOST = "http://testserver"


@pytest.fixture
def provider(settings: Settings) -> Iterator[Provider]:
    with a_provider() as provider:
        provider.redirect_uris = {f"{HOST}/accounts/sso/callback/"}
        settings.OIDC = Oidc(
            issuer=provider.issuer,
            name="Example",
            client_id=CLIENT,
            secret=SECRET,
            roles={"sre": "operator", "research": "viewer", "inquest-admins": "administrator"},
        )
        yield provider


def change(settings: Settings, **changes: Any) -> None:
    settings.OIDC = dataclasses.replace(settings.OIDC, **changes)


def to_provider(client: Client, address: str = "/accounts/sso/") -> str:
    answer = client.get(address)
    assert answer.status_code == 302, answer.content
    return str(answer["Location"])


def back_again(to: str) -> str:
    answer = requests.get(to, allow_redirects=False, timeout=10)
    assert answer.status_code == 302, answer.text
    return answer.headers["Location"].removeprefix(HOST)


def log_in(client: Client, address: str = "/accounts/sso/") -> Any:
    return client.get(back_again(to_provider(client, address)))


def logged_in(client: Client) -> User | None:
    user = client.session.get("_auth_user_id")
    return User.objects.get(pk=user) if user else None


def roles(user: User) -> list[str]:
    return sorted(user.groups.values_list("name", flat=True))


def refused(answer: Any, *words: str) -> None:
    assert answer.status_code == 403
    text = answer.content.decode()
    assert "You are not logged in" in text
    for word in words:
        assert word in text


def test_the_first_log_in_makes_an_account_with_the_roles_of_the_groups(client: Client, provider: Provider) -> None:
    answer = log_in(client)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    user = logged_in(client)
    assert user is not None
    assert (user.username, user.email, user.first_name) == ("grace", "grace@example.org", "Grace")
    assert roles(user) == ["operator"]
    assert not user.has_usable_password()
    assert not (user.is_staff or user.is_superuser)
    assert client.get("/verdicts/").status_code == 200


def test_the_second_log_in_is_the_same_account_whatever_its_name_became(client: Client, provider: Provider) -> None:
    log_in(client)
    provider.person |= {"preferred_username": "admiral", "email": "other@example.org"}
    other = Client()
    log_in(other)
    assert logged_in(other) == logged_in(client)
    assert User.objects.count() == SocialAccount.objects.count() == 1


def test_roles_follow_the_groups_at_every_log_in_and_nothing_else_is_touched(
    client: Client, provider: Provider
) -> None:
    log_in(client)
    user = User.objects.get()
    user.groups.add(Group.objects.create(name="on call"), Group.objects.get(name="reviewer"))
    provider.person["groups"] = ["inquest-admins", "everybody"]
    log_in(Client())
    assert roles(user) == ["administrator", "on call"]
    user.refresh_from_db()
    assert not (user.is_staff or user.is_superuser)
    provider.person["groups"] = ["research"]
    log_in(Client())
    assert roles(user) == ["on call", "viewer"]


def test_who_has_lost_every_group_is_out_and_has_no_role_left(client: Client, provider: Provider) -> None:
    log_in(client)
    provider.person["groups"] = []
    refused(log_in(Client()), "None of your groups")
    assert roles(User.objects.get()) == []


@pytest.mark.parametrize("groups", [None, [], ["unknown"], "unknown", 7, {"sre": True}, [["sre"]]])
def test_without_a_known_group_nobody_gets_in_and_no_account_is_made(
    client: Client, provider: Provider, groups: Any
) -> None:
    provider.person["groups"] = groups
    refused(log_in(client), "None of your groups")
    assert logged_in(client) is None
    assert not User.objects.exists()


def test_a_default_role_for_everybody_the_provider_knows(
    client: Client, provider: Provider, settings: Settings
) -> None:
    change(settings, default_role="viewer")
    provider.person["groups"] = ["unknown"]
    log_in(client)
    assert roles(User.objects.get()) == ["viewer"]


def test_groups_inside_an_object_and_only_in_the_user_info(
    client: Client, provider: Provider, settings: Settings
) -> None:
    change(settings, groups_claim="realm_access.roles")
    provider.person |= {"realm_access": {"roles": ["sre"]}, "groups": ["inquest-admins"]}
    provider.only_in_info = {"realm_access", "groups"}
    log_in(client)
    assert roles(User.objects.get()) == ["operator"]


def test_an_account_of_the_same_name_or_address_is_never_taken_over(client: Client, provider: Provider) -> None:
    mine = a_user("grace", "administrator")
    mine.email = "grace@example.org"
    mine.save()
    log_in(client)
    user = logged_in(client)
    assert user is not None
    assert user != mine
    assert roles(user) == ["operator"]
    assert roles(mine) == ["administrator"]


@pytest.mark.parametrize("person", [{"email": "grace@elsewhere.org"}, {"email_verified": False}, {"email": None}])
def test_only_confirmed_addresses_of_the_domains_that_are_let_in(
    client: Client, provider: Provider, settings: Settings, person: dict[str, Any]
) -> None:
    change(settings, email_domains=("example.org",))
    refused_client = Client()
    before = dict(provider.person)
    provider.person |= person
    refused(log_in(refused_client), "e-mail address")
    assert not User.objects.exists()
    provider.person = before
    log_in(client)
    assert logged_in(client) is not None


def test_an_account_that_was_switched_off_stays_so(client: Client, provider: Provider) -> None:
    log_in(client)
    User.objects.update(is_active=False)
    other = Client()
    refused(log_in(other), "switched off")
    assert logged_in(other) is None


def other_key() -> Any:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


WRONG: dict[str, dict[str, Any]] = {
    "signed by another key": {"signing": {"key": other_key()}},
    "not signed": {"signing": {"key": None, "algorithm": "none"}},
    "signed with a shared secret": {"signing": {"key": SECRET * 3, "algorithm": "HS256"}},
    "of an unknown key": {"signing": {"headers": {"kid": "k2"}}},
    "without a key's name": {"signing": {"headers": {}}},
    "of another issuer": {"token_changes": {"iss": "http://127.0.0.1:1"}},
    "for another client": {"token_changes": {"aud": "another"}},
    "expired": {"token_changes": {"exp": 1_700_000_000}},
    "of another log-in": {"token_changes": {"nonce": "another"}},
    "without a nonce": {"token_changes": {"nonce": None}},
    "without a subject": {"token_changes": {"sub": None}},
    "not there": {"leave_out": {"id_token"}},
    "about somebody else than the user-info": {"info_sub": "u-2"},
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_an_identity_token_that_is(client: Client, provider: Provider, wrong: str) -> None:
    for name, value in WRONG[wrong].items():
        setattr(provider, name, value)
    refused(log_in(client), "did not succeed")
    assert logged_in(client) is None
    assert not User.objects.exists()


def test_a_provider_that_calls_itself_otherwise_is_not_believed(
    client: Client, provider: Provider, settings: Settings
) -> None:
    to = to_provider(client)
    provider.issuer = "http://localhost:9"
    provider.token_changes = {"iss": provider.issuer}
    address = back_again(to)
    refused(client.get(address), "did not succeed")


def test_no_user_info_is_no_hindrance(client: Client, provider: Provider) -> None:
    provider.leave_out = {"userinfo_endpoint"}
    log_in(client)
    assert logged_in(client) is not None
    assert "/userinfo" not in provider.asked


def test_the_request_has_pkce_a_state_and_a_nonce_that_differ_each_time(client: Client, provider: Provider) -> None:
    first, second = (parse_qs(urlsplit(to_provider(client)).query) for _ in range(2))
    assert first["code_challenge_method"] == ["S256"]
    assert first["redirect_uri"] == [f"{HOST}/accounts/sso/callback/"]
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name][0]) >= 16
        assert first[name] != second[name]


def test_an_answer_counts_once_and_only_in_the_window_that_asked(client: Client, provider: Provider) -> None:
    address = back_again(to_provider(client))
    stranger = Client()
    refused(stranger.get(address))
    assert logged_in(stranger) is None
    client.get(address)
    assert logged_in(client) is not None
    client.logout()
    refused(client.get(address))
    assert logged_in(client) is None


def test_the_session_is_another_one_after_the_log_in(client: Client, provider: Provider) -> None:
    to = to_provider(client)
    before = client.session.session_key
    client.get(back_again(to))
    assert client.session.session_key != before


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"error": "access_denied"}, "cancelled"),
        ({"error": "server_error"}, "did not succeed"),
        ({"code": "made up"}, "did not succeed"),
        ({}, "did not succeed"),
    ],
)
def test_a_broken_answer_is_said(client: Client, provider: Provider, answer: dict[str, str], words: str) -> None:
    state = parse_qs(urlsplit(to_provider(client)).query)["state"][0]
    refused(client.get(f"/accounts/sso/callback/?{urlencode(answer | {'state': state})}"), words)


def test_it_leads_back_to_the_page_that_was_wanted_but_not_off_the_site(client: Client, provider: Provider) -> None:
    assert log_in(client, "/accounts/sso/?next=/rules/")["Location"] == "/rules/"
    for elsewhere in ("https://example.com/", "//example.com/", "javascript:alert(1)"):
        assert log_in(Client(), f"/accounts/sso/?{urlencode({'next': elsewhere})}")["Location"] == "/"


def test_no_other_site_starts_a_log_in(client: Client, provider: Provider) -> None:
    answer = client.get("/accounts/sso/", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer["Location"] == "/accounts/login/"
    assert provider.asked == []


def test_an_identity_cannot_be_joined_to_somebody_who_is_logged_in(client: Client, provider: Provider) -> None:
    mine = a_user("ada", "administrator")
    client.force_login(mine)
    log_in(client, "/accounts/sso/?process=connect")
    assert logged_in(client) != mine
    assert not SocialAccount.objects.filter(user=mine).exists()


def test_a_provider_that_does_not_answer_is_said(client: Client, provider: Provider, settings: Settings) -> None:
    change(settings, issuer="http://127.0.0.1:9")
    refused(client.get("/accounts/sso/"), "cannot be reached")
    change(settings, issuer=provider.issuer)
    provider.leave_out = {"authorization_endpoint"}
    refused(client.get("/accounts/sso/"), "cannot be reached")


def test_the_log_in_page_offers_what_there_is(client: Client, provider: Provider, settings: Settings) -> None:
    page = client.get("/accounts/login/?next=/rules/").content.decode()
    assert 'href="/accounts/sso/?next=%2Frules%2F"' in page
    assert "Log in with Example" in page
    assert "Password" in page
    settings.PASSWORD_LOGIN = False
    assert "Password" not in client.get("/accounts/login/").content.decode()
    settings.PASSWORD_LOGIN, settings.OIDC = True, Oidc()
    assert "sso" not in client.get("/accounts/login/").content.decode()
    assert client.get("/accounts/sso/").status_code == client.get("/accounts/sso/callback/").status_code == 404


def test_where_passwords_are_switched_off_none_is_taken(client: Client, provider: Provider, settings: Settings) -> None:
    settings.PASSWORD_LOGIN = False
    user = a_user("ada", "administrator")
    said = {"username": "ada", "password": "a long pass phrase"}
    assert "Passwords are not taken here" not in client.get("/accounts/login/").content.decode()
    assert client.post("/accounts/login/", said).status_code == 200
    assert logged_in(client) is None
    basic = {"HTTP_AUTHORIZATION": "Basic YWRhOmEgbG9uZyBwYXNzIHBocmFzZQ=="}
    assert client.post("/api/v1/token", **basic).status_code == 401
    client.force_login(user)
    assert client.get("/accounts/password/").status_code == 404


def test_who_came_by_sso_makes_tokens_with_the_session_and_has_no_password_to_change(
    client: Client, provider: Provider
) -> None:
    log_in(client)
    assert client.get("/accounts/password/").status_code == 404
    assert client.post("/api/v1/token").json()["token"].startswith("inq_")


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"INQUEST_PASSWORD_LOGIN": "false"}, "no way in"),
        ({"INQUEST_OIDC_ISSUER": "https://x"}, "INQUEST_OIDC_CLIENT_ID"),
        ({"INQUEST_OIDC_ISSUER": "https://x", "INQUEST_OIDC_CLIENT_ID": "i"}, "must say who gets which role"),
        (
            {"INQUEST_OIDC_ISSUER": "https://x", "INQUEST_OIDC_CLIENT_ID": "i", "INQUEST_OIDC_ROLES": "sre=god"},
            "no such role: god",
        ),
        (
            {
                "INQUEST_OIDC_ISSUER": "https://x",
                "INQUEST_OIDC_CLIENT_ID": "i",
                "INQUEST_OIDC_DEFAULT_ROLE": "administrator",
            },
            "nobody becomes an administrator by default",
        ),
        (
            {
                "INQUEST_OIDC_ISSUER": "https://x",
                "INQUEST_OIDC_CLIENT_ID": "i",
                "INQUEST_OIDC_CLIENT_SECRET_FILE": "/nowhere",
            },
            "cannot be read",
        ),
    ],
)
def test_settings_that_would_fail_later_fail_at_the_start(environment: dict[str, str], complaint: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=re.escape(complaint)):
        evaluated(SECRET_KEY="x", **environment)
