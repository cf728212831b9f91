"""The writer of who read raw evidence: one row for an account, an attempt and an hour, at the cost of one insert."""

from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.cache import cache
from django.db import connection, transaction
from django.utils import timezone

_AN_HOUR = 3600


def note(user: AbstractBaseUser | AnonymousUser, attempt_id: UUID, *, via: str) -> None:
    """Note that somebody is shown lines of an attempt's evidence. What this process noted already costs no query.

    A row that another process wrote in the same hour is left as it is; nothing is waited for but that insert.
    """
    assert user.pk is not None
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    known = f"evidence-read:{user.pk}:{attempt_id}:{hour:%Y%m%d%H}"
    if cache.get(known):
        return
    # One statement without a transaction around it: the ORM's own would take three.
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO verdicts_evidenceread (user_id, attempt_id, hour, via, told) VALUES (%s, %s, %s, %s, false)
            ON CONFLICT DO NOTHING
            """,
            [user.pk, attempt_id, hour, via],
        )
    # Not before it is there for others: a transaction may be undone.
    transaction.on_commit(lambda: cache.set(known, 1, _AN_HOUR))
