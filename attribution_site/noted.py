"""What of log-ins and accounts is worth an entry of the ledger.

Guesses that were stopped, rights that changed, and that somebody came in who may give rights.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from recovery.ledger import entries as ledger
from recovery.words import EntryKind
from verdicts.permissions import may_administer
from verdicts.storable import storable_text


def rights(user: User) -> dict[str, Any]:
    """What an account may do, in short."""
    return {
        "roles": sorted(user.groups.values_list("name", flat=True)),
        "active": user.is_active,
        "staff": user.is_staff,
        "superuser": user.is_superuser,
    }


def rights_changed(user: User, before: dict[str, Any], *, by: ledger.Actor) -> None:
    """Write down that an account may do something else now, if it does."""
    after = rights(user)
    if after != before:
        with transaction.atomic():
            ledger.record(
                EntryKind.SIGN_IN,
                actor=by,
                subject=("account", user.get_username()),
                body={"what": "rights changed", "before": before, "after": after},
            )


def came_in(user: User, *, how: str, address: str) -> None:
    """Write down that an account which may give rights logged in, or made a token: by "password", "sso" or "token".

    Those of others are in the log of requests alone: thousands of entries would hide the few that matter.
    """
    if not may_administer(user):
        return
    with transaction.atomic():
        ledger.record(
            EntryKind.SIGN_IN,
            actor=ledger.Actor.user(user),
            subject=("account", user.get_username()),
            body={"what": "token made" if how == "token" else "signed in", "how": how},
            erasable={"address": address} if address else {},
        )


@transaction.atomic
def guessing_stopped(name: str, address: str) -> None:
    """Write down that an account, or an address, is made to wait after too many wrong passwords.

    A name that is no account's is not told: people type passwords there.
    """
    known = User.objects.filter(username__iexact=storable_text(name)).first()
    ledger.record(
        EntryKind.SIGN_IN,
        actor=ledger.Actor.system("login"),
        subject=("account", known.get_username() if known else ""),
        body={"what": "too many wrong passwords", "account": bool(known)},
        erasable={"address": address} if address else {},
    )
