"""The writer of who read raw evidence: one row for an account, an attempt and an hour, at the cost of one insert."""

from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.cache import cache
from django.db import transaction
from django.utils import timezone

from verdicts.models import EvidenceRead

_AN_HOUR = 3600


def note(user: AbstractBaseUser | AnonymousUser, attempt_id: UUID, *, via: str) -> None:
    """Note that somebody is shown lines of an attempt's evidence. What this process noted already costs no query.

    A row that another process wrote in the same hour is left as it is; nothing is waited for but that insert.
    """
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    known = f"evidence-read:{user.pk}:{attempt_id}:{hour:%Y%m%d%H}"
    if cache.get(known):
        return
    EvidenceRead.objects.bulk_create(
        [EvidenceRead(user_id=user.pk, attempt_id=attempt_id, hour=hour, via=via)], ignore_conflicts=True
    )
    # Not before it is there for others: a transaction may be undone.
    transaction.on_commit(lambda: cache.set(known, 1, _AN_HOUR))
