"""Accounts under /admin/: administrators give roles, and nobody can make themselves more than they are."""

from __future__ import annotations

from typing import Any

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import AdminPasswordChangeForm
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import redirect

from attribution_site import noted
from attribution_site.login import EndsTokens
from recovery.ledger.entries import Actor
from verdicts.permissions import may_administer


class PasswordOf(EndsTokens, AdminPasswordChangeForm):
    """Somebody's password."""


class People(UserAdmin):
    """Accounts. Staff, superuser and single permissions are a superuser's to give, and superusers theirs to change."""

    change_password_form = PasswordOf
    list_display = ("username", "email", "roles", "is_active", "last_login")
    list_filter = ("groups", "is_active", "is_superuser")

    @staticmethod
    def roles(person: User) -> str:
        """The groups by name."""
        return ", ".join(sorted(group.name for group in person.groups.all()))

    def get_queryset(self, request: HttpRequest) -> Any:
        """With the groups, for the list."""
        return super().get_queryset(request).prefetch_related("groups")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """What only a superuser changes."""
        if request.user.is_superuser:
            return super().get_readonly_fields(request, obj)
        return (*super().get_readonly_fields(request, obj), "is_superuser", "is_staff", "user_permissions")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Not of somebody who is more than oneself."""
        return super().has_change_permission(request, obj) and self._within(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Not of somebody who is more than oneself."""
        return super().has_delete_permission(request, obj) and self._within(request, obj)

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, *args: Any, **more: Any) -> Any:
        """The form of an account; what it changes of rights is written down with it."""
        by = request.user
        if request.method != "POST" or object_id is None or not object_id.isdecimal() or not isinstance(by, User):
            return super().changeform_view(request, object_id, *args, **more)
        with transaction.atomic():
            person = User.objects.filter(pk=object_id).first()
            before = noted.rights(person) if person else {}
            response = super().changeform_view(request, object_id, *args, **more)
            if person is not None:
                noted.rights_changed(User.objects.get(pk=object_id), before, by=Actor.user(by))
        return response

    @staticmethod
    def _within(request: HttpRequest, obj: Any) -> bool:
        return obj is None or not obj.is_superuser or bool(request.user.is_superuser)


class Identities(ModelAdmin[SocialAccount]):
    """Who comes by single sign-on: to be looked at, and to be deleted when an identity shall start anew."""

    list_display = ("user", "uid", "last_login", "date_joined")
    search_fields = ("user__username", "uid")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """The provider vouches for people, an administrator does not."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """An identity is nobody else's."""
        return False


def arrange(site: AdminSite) -> None:
    """Replace what Django and allauth show by what this site has."""
    for model in (User, Group, EmailAddress, SocialApp, SocialToken, SocialAccount):
        if site.is_registered(model):
            site.unregister(model)
    site.register(User, People)
    site.register(Group, GroupAdmin)
    site.register(SocialAccount, Identities)
    # The own password is changed on one page.
    site.password_change = lambda *_, **__: redirect("password")  # type: ignore[assignment, method-assign]
    site.has_permission = lambda request: may_administer(request.user)  # type: ignore[method-assign]
