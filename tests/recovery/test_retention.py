"""What is due expires, with tombstones; what is held does not; nothing of it is left anywhere."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from recovery.models import LedgerEntry
from recovery.retention import expire
from recovery.words import EntryKind
from tests.recovery.deciding import failed
from tests.verdicts.builders import an_observation
from verdicts.models import Attempt, Tombstone
from verdicts.record import add_observations

pytestmark = pytest.mark.django_db


def aged(attempt: Attempt, days: int) -> Attempt:
    """As if it had ended so long ago."""
    then = timezone.now() - timedelta(days=days)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=then, ended_at=then, started_at=then - timedelta(hours=1))
    attempt.refresh_from_db()
    return attempt


def with_lines(job_id: str = "4711", days: int = 200, number: int = 3, **more: Any) -> Attempt:
    attempt = failed(job_id, **more)
    add_observations(attempt.pk, [an_observation(one) for one in range(number)])
    return aged(attempt, days)


def test_lines_expire_by_their_time_with_a_tombstone_and_an_entry_and_once() -> None:
    old, new = with_lines(), with_lines("4712", days=100)
    done = expire.run()
    assert done.attempts == 1
    assert (old.observations.count(), new.observations.count()) == (0, 3)
    stone = Tombstone.objects.get()
    assert (stone.attempt, stone.kept, stone.rows) == (old, "lines", 3)
    assert stone.bytes > 3 * len("RuntimeError: it broke (1)")
    assert stone.rule.startswith("180 days after")
    entry = LedgerEntry.objects.get(kind=EntryKind.RETENTION.value)
    assert entry.attempt == old.pk
    assert entry.body["facts"]["by_class"]["lines"]["rows"] == 3
    assert expire.run().attempts == 0
    assert Tombstone.objects.count() == 1
