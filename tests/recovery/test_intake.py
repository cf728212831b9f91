"""What other tables tell comes into the ledger, once each."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from recovery.ledger import intake
from recovery.models import Intake, LedgerContent, LedgerEntry, LedgerLink
from recovery.words import EntryKind
from tests.verdicts.builders import a_user
from tests.verdicts.page_bodies import a_verdict, an_attempt
from verdicts.choices import Label, SourceHealth
from verdicts.models import Cluster, Review, SourceState, Verdict

E = EntryKind


def begun_an_hour_ago() -> None:
    for name in ("verdicts", "reviews", "rulesets", "sources"):
        Intake.objects.create(name=name, read_until=timezone.now() - timedelta(hours=1))


def kinds() -> list[str]:
    return sorted(LedgerEntry.objects.values_list("kind", flat=True))


def test_the_first_look_begins_at_its_own_time(db: None) -> None:
    a_verdict(an_attempt())
    assert intake.take_in() == 0
    assert Intake.objects.count() == 4


def test_verdicts_reviews_and_rulesets_come_in_once(db: None) -> None:
    begun_an_hour_ago()
    attempt = an_attempt()
    first = a_verdict(attempt)
    attempt.verdicts.current().update(is_current=False, superseded_at=timezone.now())
    second = a_verdict(attempt, number=2)
    ada = a_user("ada", "reviewer")
    review = Review.objects.create(verdict=second, author=ada, label=Label.RIGHT.value, note="seen on the machine")
    assert intake.take_in() == 5
    assert intake.take_in() == 0
    assert kinds() == sorted(
        [E.RULESET_CHANGED, E.VERDICT_ISSUED, E.VERDICT_ISSUED, E.VERDICT_SUPERSEDED, E.REVIEW_GIVEN]
    )
    old = LedgerEntry.objects.get(kind=E.VERDICT_SUPERSEDED.value)
    assert (old.subject, old.attempt) == (str(first.pk), attempt.pk)
    assert old.body["facts"]["by"] == {"verdict": str(second.pk), "number": 2, "sha256": second.body_sha256}
    given = LedgerEntry.objects.get(kind=E.REVIEW_GIVEN.value)
    assert (given.actor, given.body["roles"], given.subject) == ("user:ada", ["reviewer"], str(review.pk))
    assert LedgerContent.objects.get(entry=given).text == "seen on the machine"
    assert "seen on the machine" not in given.body_json


def test_a_source_that_goes_blind_and_sees_again_is_told_once_each(db: None) -> None:
    begun_an_hour_ago()
    cluster = Cluster.objects.create(name="alpha")
    said = {"kind": "loki", "source": "syslog", "checked_at": timezone.now()}
    SourceState.objects.create(cluster=cluster, name="fine", health=SourceHealth.SEES.value, **said)
    long_ago = timezone.now() - timedelta(days=2)
    SourceState.objects.create(cluster=cluster, name="old", health="blind", blind_since=long_ago, **said)
    row = SourceState.objects.create(cluster=cluster, name="loki", health="blind", blind_since=timezone.now(), **said)
    assert [intake.take_in(), intake.take_in()] == [1, 0]
    SourceState.objects.filter(pk=row.pk).update(health="sees", blind_since=None, checked_at=timezone.now())
    assert [intake.take_in(), intake.take_in()] == [1, 0]
    SourceState.objects.filter(pk=row.pk).update(health="blind", blind_since=timezone.now())
    assert intake.take_in() == 1
    assert kinds() == sorted([E.SOURCE_BLIND, E.SOURCE_SEES, E.SOURCE_BLIND])


def test_a_verdict_whose_transaction_ends_late_is_not_missed(transactional_db: None) -> None:
    begun_an_hour_ago()
    begun, seen = threading.Event(), threading.Event()
    a_verdict(an_attempt("0"))
    assert intake.take_in() == 2  # the verdict, and its ruleset

    def conclude() -> None:
        try:
            with transaction.atomic():
                a_verdict(an_attempt("1"))
                begun.set()
                assert seen.wait(30)
        finally:
            connection.close()

    late = threading.Thread(target=conclude)
    late.start()
    assert begun.wait(30)
    a_verdict(an_attempt("2"))
    assert intake.take_in() == 1  # and it is newer than the one that is not seen yet
    seen.set()
    late.join(30)
    assert intake.take_in() == 1
    assert intake.take_in() == 0
    assert LedgerEntry.objects.filter(kind=E.VERDICT_ISSUED.value).count() == Verdict.objects.count() == 3
    assert list(LedgerLink.objects.values_list("number", flat=True)) == [1, 2, 3, 4]


def test_two_looks_at_once_write_each_fact_once(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    begun_an_hour_ago()
    monkeypatch.setattr(intake, "BATCH", 3)
    for number in range(10):
        a_verdict(an_attempt(str(number)))
    start = threading.Barrier(4)

    def look() -> None:
        try:
            start.wait(30)
            intake.take_in()
        finally:
            connection.close()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    intake.take_in()
    assert LedgerEntry.objects.filter(kind=E.VERDICT_ISSUED.value).count() == 10
    assert LedgerLink.objects.count() == 11
