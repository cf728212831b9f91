"""The two accounts of drills: one with the right to take a record away, one that may read and no more.

Nobody can log in with them: they have no password, and are switched off but while a drill runs. Their tokens live for
minutes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import Permission, User
from django.db import transaction
from knox.models import AuthToken

from recovery.permissions import EXPORT_LEDGER
from verdicts.permissions import READ

AUTHORISED, OUTSIDER = "inquest-drill", "inquest-drill-outsider"
RIGHTS = {AUTHORISED: (READ, EXPORT_LEDGER), OUTSIDER: (READ,)}
TOKEN_LIVES = timedelta(minutes=10)


@dataclass(frozen=True)
class Tokens:
    """What the two are known by, and whom the first is."""

    authorised: str
    outsider: str
    name: str = AUTHORISED


@contextmanager
def tokens(given: str = "") -> Iterator[Tokens]:
    """Tokens of both accounts while a drill runs; with one `given`, that is who is authorised."""
    accounts = {name: _account(name) for name in RIGHTS}
    try:
        made = {name: AuthToken.objects.create(user, expiry=TOKEN_LIVES)[1] for name, user in accounts.items()}
        yield Tokens(given or made[AUTHORISED], made[OUTSIDER], "" if given else AUTHORISED)
    finally:
        AuthToken.objects.filter(user__in=accounts.values()).delete()
        User.objects.filter(username__in=RIGHTS).update(is_active=False)


@transaction.atomic
def _account(name: str) -> User:
    """The account with just its rights, switched on."""
    user, made = User.objects.get_or_create(username=name)
    if made:
        user.set_unusable_password()
    user.is_active, user.is_staff, user.is_superuser = True, False, False
    user.save()
    user.groups.clear()
    user.user_permissions.set(_permission(right) for right in RIGHTS[name])
    return user


def _permission(right: str) -> Permission:
    app, _, codename = right.partition(".")
    return Permission.objects.get(content_type__app_label=app, codename=codename)
