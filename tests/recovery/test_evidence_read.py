"""Who read raw evidence comes into the ledger: once for an account, an attempt and an hour, and no page waits for it."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from recovery.ledger import intake
from recovery.models import LedgerEntry
from recovery.words import EntryKind
from tests.verdicts.builders import a_user, an_attempt, an_observation
from verdicts import reading
from verdicts.models import Attempt, EvidenceRead
from verdicts.record import add_observations, record_attempt


@pytest.fixture
def attempt(db: None) -> Attempt:
    made, _ = record_attempt(an_attempt())
    add_observations(made.pk, [an_observation()])
    return made


def entries() -> list[Any]:
    return list(LedgerEntry.objects.filter(kind=EntryKind.EVIDENCE_READ.value).order_by("at", "id"))


def test_log_and_api_are_told_once_an_hour_and_others_not(attempt: Attempt, client: Client) -> None:
    ada = a_user("ada", "viewer")
    client.force_login(ada)
    for _ in range(3):
        assert client.get(f"/attempts/{attempt.pk}/log/").status_code == 200
        assert client.get(f"/api/v1/attempts/{attempt.pk}/observations").status_code == 200
    client.get(f"/attempts/{attempt.pk}/")
    assert EvidenceRead.objects.count() == 1
    assert intake.take_in() == 1
    assert intake.take_in() == 0
    (entry,) = entries()
    assert (entry.actor, entry.body["roles"], entry.attempt) == ("user:ada", ["viewer"], attempt.pk)
    assert (entry.subject_kind, entry.subject, entry.body["facts"]["via"]) == ("attempt", str(attempt.pk), "console")
    # Another person, and the next hour, are other entries.
    client.force_login(a_user("bob", "viewer"))
    client.get(f"/api/v1/attempts/{attempt.pk}/observations")
    EvidenceRead.objects.filter(user=ada).update(hour=timezone.now() - timedelta(hours=2))
    cache.clear()
    client.force_login(ada)
    client.get(f"/attempts/{attempt.pk}/log/")
    assert intake.take_in() == 2
    assert [one.actor for one in entries()] == ["user:ada", "user:bob", "user:ada"]
    EvidenceRead.objects.update(at=timezone.now() - timedelta(days=3))
    assert intake.take_in() == 0
    assert not EvidenceRead.objects.exists()


def test_sending_lines_is_no_reading_and_who_may_not_read_reads_nothing(attempt: Attempt, client: Client) -> None:
    client.force_login(a_user("olga", "operator"))
    line = {"source": "applog", "body": "x", "ref": "a:1"}
    address = f"/api/v1/attempts/{attempt.pk}/observations"
    assert client.post(address, {"observations": [line]}, "application/json").status_code == 201
    client.force_login(a_user("nobody"))
    assert client.get(address).status_code == client.get(f"/attempts/{attempt.pk}/log/").status_code == 403
    assert not EvidenceRead.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_it_costs_one_insert_then_none_and_waits_for_nobody(django_assert_num_queries: Any) -> None:
    ada = a_user("ada", "viewer")
    attempt, _ = record_attempt(an_attempt())
    with django_assert_num_queries(1):
        reading.note(ada, attempt.pk, via="console")
    with django_assert_num_queries(0):
        reading.note(ada, attempt.pk, via="console")
    other, _ = record_attempt(an_attempt("4712"))
    holder = connection.copy()
    try:
        # Ingest holds the attempt's row; a page that waited would wait for ever.
        holder.set_autocommit(False)
        with holder.cursor() as cursor:
            cursor.execute("SELECT 1 FROM verdicts_attempt WHERE id = %s FOR UPDATE", [other.pk])
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '2s'")
            reading.note(ada, other.pk, via="console")
    finally:
        holder.close()
    assert EvidenceRead.objects.count() == 2
