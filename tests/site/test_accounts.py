"""Who gives roles, and what nobody can give to themselves."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from attribution_site.roles import ROLES
from tests.verdicts.builders import a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(a_user("ada", "administrator"))
    return client


def form(user: User, **changes: Any) -> dict[str, Any]:
    """The form of an account as the page sends it."""
    said = {
        "username": user.username,
        "is_active": "on",
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
        "groups": [group.pk for group in user.groups.all()],
    }
    return said | changes


def test_every_role_is_a_group() -> None:
    assert set(Group.objects.values_list("name", flat=True)) == set(ROLES)


@pytest.mark.parametrize("role", [role for role in ROLES if role != "administrator"])
def test_only_administrators_see_the_accounts(client: Client, role: str) -> None:
    user = a_user("somebody", role)
    assert not user.has_perm("auth.change_user")
    client.force_login(user)
    assert client.get("/admin/auth/user/").status_code == 302
    assert client.get("/verdicts/").status_code == 200


def test_an_administrator_makes_accounts_and_gives_roles(admin: Client) -> None:
    made = admin.post(
        "/admin/auth/user/add/",
        {
            "username": "bob",
            "password1": "a long pass phrase",
            "password2": "a long pass phrase",
            "usable_password": "true",
        },
    )
    assert made.status_code == 302
    bob = User.objects.get(username="bob")
    role = Group.objects.get(name="reviewer")
    assert admin.post(f"/admin/auth/user/{bob.pk}/change/", form(bob, groups=[role.pk])).status_code == 302
    assert bob.has_perm("verdicts.review_verdict")
    assert "reviewer" in admin.get("/admin/auth/user/").content.decode()


def test_nobody_makes_themselves_or_others_superuser_or_staff(admin: Client) -> None:
    for user in (User.objects.get(username="ada"), a_user("bob", "viewer")):
        admin.post(f"/admin/auth/user/{user.pk}/change/", form(user, is_superuser="on", is_staff="on"))
        user.refresh_from_db()
        assert not (user.is_superuser or user.is_staff)


def test_a_superuser_is_changed_only_by_another(admin: Client) -> None:
    root = User.objects.create_superuser("root", password="a long pass phrase")
    answer = admin.post(f"/admin/auth/user/{root.pk}/change/", form(root, is_active=""))
    assert answer.status_code == 403
    assert admin.post(f"/admin/auth/user/{root.pk}/password/", {"password1": "x", "password2": "x"}).status_code == 403
    root.refresh_from_db()
    assert root.is_active
    other = Client()
    other.force_login(User.objects.create_superuser("second"))
    assert other.post(f"/admin/auth/user/{root.pk}/change/", form(root, is_superuser="on")).status_code == 302


def test_what_a_role_may_is_no_administrator_s_to_change(admin: Client) -> None:
    group = Group.objects.get(name="viewer")
    assert admin.get(f"/admin/auth/group/{group.pk}/change/").status_code == 200
    assert admin.post(f"/admin/auth/group/{group.pk}/change/", {"name": "viewer", "permissions": []}).status_code == 403
    assert group.permissions.exists()


def test_no_provider_and_no_token_of_one_is_kept_in_the_database(admin: Client) -> None:
    page = admin.get("/admin/").content.decode()
    assert "socialaccount/socialaccount" in page
    assert "socialapp" not in page
    assert "socialtoken" not in page
