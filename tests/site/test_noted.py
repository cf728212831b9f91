"""What of log-ins and accounts comes into the ledger."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from recovery.models import LedgerContent, LedgerEntry
from recovery.words import EntryKind
from tests.verdicts.builders import a_user

pytestmark = pytest.mark.django_db


def noted() -> list[LedgerEntry]:
    return list(LedgerEntry.objects.filter(kind=EntryKind.SIGN_IN.value).order_by("at"))


def test_guesses_that_are_stopped_are_told_once_and_never_with_what_was_typed(client: Client, settings: Any) -> None:
    settings.LOGIN_FAILURES_ALLOWED = 3
    a_user("ada")
    for _ in range(5):
        client.post("/accounts/login/", {"username": "Ada", "password": "hunter2"})
    (told,) = noted()
    assert (told.subject, told.body["facts"]["what"]) == ("ada", "too many wrong passwords")
    assert LedgerContent.objects.get(entry=told).text == "127.0.0.1"
    for _ in range(5):
        client.post("/accounts/login/", {"username": "my secret\0", "password": ""}, REMOTE_ADDR="192.0.2.7")
        client.post("/accounts/login/", {"username": "my secret\0", "password": "x"}, REMOTE_ADDR="192.0.2.7")
    assert not any("secret" in entry.body_json for entry in noted())


def test_an_administrator_s_change_of_rights_is_told(client: Client) -> None:
    client.force_login(a_user("ada", "administrator"))
    bob = a_user("bob", "viewer")
    said = {
        "username": "bob",
        "is_active": "on",
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
        "groups": [Group.objects.get(name="lead").pk],
    }
    assert client.post(f"/admin/auth/user/{bob.pk}/change/", said).status_code == 302
    assert list(User.objects.get(pk=bob.pk).groups.values_list("name", flat=True)) == ["lead"]
    assert client.post(f"/admin/auth/user/{bob.pk}/change/", said).status_code == 302
    (told,) = noted()
    assert (told.actor, told.subject) == ("user:ada", "bob")
    assert told.body["facts"]["before"]["roles"] == ["viewer"]
    assert told.body["facts"]["after"]["roles"] == ["lead"]
    assert client.get("/admin/auth/user/999999/change/").status_code == 302


def test_that_an_administrator_came_in_is_told_and_of_others_not(client: Client) -> None:
    for name, group in (("ada", "administrator"), ("bob", "lead")):
        person = a_user(name, group)
        person.set_password("correct horse battery")
        person.save()
        client.post("/accounts/login/", {"username": name, "password": "wrong"})
        assert (
            client.post("/accounts/login/", {"username": name, "password": "correct horse battery"}).status_code == 302
        )
        assert client.post("/api/v1/token").status_code == 200
    assert [(one.actor, one.body["facts"]["what"]) for one in noted()] == [
        ("user:ada", "signed in"),
        ("user:ada", "token made"),
    ]
    assert LedgerContent.objects.filter(entry__in=noted()).values_list("text", flat=True)[0] == "127.0.0.1"
