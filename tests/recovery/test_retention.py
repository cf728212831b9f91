"""What is due expires, with tombstones; what is held does not; who is killed in between leaves nothing by halves."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import environ
import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from attribution_site import keep_settings
from recovery import brakes
from recovery.models import ExportBatch, ExportedRecord, Hold, LedgerContent, LedgerEntry
from recovery.retention import expire, find, holds
from recovery.retention.holds import Scope
from recovery.words import BrakeKind, EntryKind
from tests.recovery.deciding import failed
from tests.verdicts.builders import a_user, an_observation
from verdicts import conclude, keeping
from verdicts.choices import Mode
from verdicts.models import Attempt, Batch, Discovery, ImportedRecord, Tombstone
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


def held_by(scope: Scope) -> Any:
    person = a_user("lena", "lead")
    return holds.place(scope, reason="a claim", owner=person, review_on=timezone.now().date(), by=person)


@pytest.mark.parametrize("over", ["attempt", "workload", "cluster"])
def test_nothing_expires_during_a_hold_and_everything_after_it(over: str) -> None:
    attempt = with_lines()
    then = {"after": attempt.ended_at - timedelta(days=1), "before": attempt.ended_at + timedelta(days=1)}
    scope = {
        "attempt": Scope(attempt=attempt),
        "workload": Scope(workload=attempt.workload),
        "cluster": Scope(cluster=attempt.cluster, **then),
    }[over]
    beyond = with_lines("4712", days=220, workload="another") if over == "cluster" else None
    hold = held_by(scope)
    assert expire.run().attempts == (1 if beyond else 0)
    # Not even where the job had found it before the hold was placed.
    assert expire.expire(attempt.pk, timezone.now()) == {}
    assert attempt.observations.count() == 3
    assert not attempt.tombstones.exists()
    holds.release(hold.pk, by=hold.owner, reason="settled")
    assert expire.run().gone["lines"].rows == 3
    kinds = list(LedgerEntry.objects.filter(subject_kind="hold").order_by("at").values_list("kind", flat=True))
    assert kinds == [EntryKind.HOLD_SET.value, EntryKind.HOLD_ENDED.value]
    assert LedgerContent.objects.filter(text="a claim").exists()


def test_what_runs_or_is_owed_a_verdict_or_was_heard_of_lately_stays() -> None:
    owed, heard = with_lines("1"), with_lines("2")
    conclude.request_attribution(owed.pk, Mode.SLOW)
    Attempt.objects.filter(pk=heard.pk).update(ended_at=None)
    running = with_lines("3")
    look = Discovery.objects.create(cluster=running.cluster, name="slurm")
    Attempt.objects.filter(pk=running.pk).update(ended_at=None, found_by=look)
    Batch.objects.filter(attempt=running).update(received_at=timezone.now() - timedelta(days=300))
    assert expire.run().attempts == 0
    assert [one.observations.count() for one in (owed, heard, running)] == [3, 3, 3]


def test_a_class_that_is_kept_for_ever_stays_and_an_import_goes_when_its_record_said(settings: Any) -> None:
    settings.INQUEST_KEEP_DAYS = dict.fromkeys(settings.INQUEST_KEEP_DAYS, 0)
    ours, theirs = with_lines("1", days=4000), with_lines("2", days=10)
    ImportedRecord.objects.create(
        attempt=theirs,
        origin=uuid4(),
        payload="ab" * 32,
        public_key="cd" * 32,
        made_on=timezone.now().date(),
        expires_on=timezone.now().date() - timedelta(days=1),
        told={"comments": [{"text": "theirs"}]},
    )
    expire.run()
    assert (ours.observations.count(), theirs.observations.count()) == (3, 0)
    assert set(theirs.tombstones.values_list("kept", flat=True)) == {"lines", "quotes"}
    assert ImportedRecord.objects.get(attempt=theirs).told == {}


def test_who_is_killed_in_between_leaves_whole_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = [with_lines(str(number), days=300 - number) for number in range(3)]
    entry = expire._entry

    def killed(attempt: Attempt, *rest: Any) -> Any:
        if attempt.pk == attempts[1].pk:
            raise KeyboardInterrupt
        return entry(attempt, *rest)

    monkeypatch.setattr(expire, "_entry", killed)
    with pytest.raises(KeyboardInterrupt):
        expire.run()
    assert [one.observations.count() for one in attempts] == [0, 3, 3]
    assert [one.tombstones.count() for one in attempts] == [1, 0, 0]
    monkeypatch.undo()
    assert expire.run().attempts == 2


def test_words_about_no_attempt_go_when_what_they_are_the_reason_of_ended_long_ago() -> None:
    lead = a_user("lena", "lead")
    over, stands = (brakes.pull(None, kind, f"why {kind}", lead) for kind in (BrakeKind.STOP, BrakeKind.PACE))
    brakes.release(over.pk, by=lead, reason="mended")
    expire.run(now=timezone.now() + timedelta(days=1100))
    over.refresh_from_db()
    stands.refresh_from_db()
    assert (over.reason, over.released_why, stands.reason) == ("(expired)", "(expired)", "why pace")
    kept = LedgerContent.objects.filter(erased_at__isnull=True).values_list("text", flat=True)
    assert list(kept) == ["why pace"]
    entry = LedgerEntry.objects.get(kind=EntryKind.RETENTION.value)
    assert (entry.subject_kind, entry.body["facts"]["by_subject"]) == ("retention", {"brake": 2})


def test_a_record_that_waits_to_be_fetched_goes_with_what_it_contains(
    settings: Any, tmp_path: Path, django_capture_on_commit_callbacks: Any
) -> None:
    settings.INQUEST_EXPORT_DIR = str(tmp_path)
    attempt = with_lines()
    batch = ExportBatch.objects.create(total=1)
    row = ExportedRecord.objects.create(
        batch=batch, attempt=attempt, cluster=attempt.cluster, place=1, file="record.zip", state="done"
    )
    file = tmp_path / str(batch.pk) / "record.zip"
    file.parent.mkdir()
    file.write_bytes(b"a record")
    with django_capture_on_commit_callbacks(execute=True):
        expire.run()
    row.refresh_from_db()
    assert (file.exists(), row.file, row.error) == (False, "", "what it contained expired")


def test_times_that_would_bring_expired_quotations_back_are_refused() -> None:
    env = environ.Env()
    env.ENVIRON = {"INQUEST_KEEP_LINES_DAYS": "900"}
    with pytest.raises(ImproperlyConfigured, match="INQUEST_KEEP_QUOTES_DAYS"):
        keep_settings.read(env)
    env.ENVIRON = {"INQUEST_KEEP_LINES_DAYS": "0", "INQUEST_KEEP_QUOTES_DAYS": "0"}
    assert keep_settings.read(env) == {"lines": 0, "quotes": 0, "progress": 180, "words": 1095}


def test_what_a_rule_quotes_goes_and_what_it_concluded_stays() -> None:
    line = 'RuntimeError: tensor "secret-plan" at 0x7f, code 12'
    finding = {
        "id": "f1",
        "title": "It broke",
        "decoded": {"code": "12", "tensor": "secret-plan", "means": "no such tensor"},
        "evidence": [{"text": line, "ref": "a:1", "frame": "train.py:3 in step"}],
    }
    body = {
        "headline": "gpu-01 broke",
        "causes": [finding],
        "overturned_by": [{"text": f"another reading of “{line}”"}],
        "unrecognised": [{"template": "oh no", "example": {"text": "oh no 1"}}],
        "coverage": [{"source": "applog", "status": "partial", "reason": "disk /secret full", "read": 3}],
    }
    left = keeping.without_quotes(body)
    assert left["causes"][0]["decoded"] == {"code": "12", "means": "no such tensor"}
    assert left["causes"][0]["evidence"] == [{"text": "", "ref": "a:1", "frame": ""}]
    assert left["overturned_by"] == [{"text": "another reading of “(expired)”"}]
    assert (left["unrecognised"], left["coverage"][0]["reason"], left["coverage"][0]["read"]) == ([], "", 3)
    assert "secret" not in str(left)


@pytest.mark.django_db(transaction=True)
def test_a_hold_waits_for_what_expires_at_that_moment_and_stops_what_comes_after() -> None:
    attempt, other = with_lines(), with_lines("4712")
    began, go_on = threading.Event(), threading.Event()
    gone: dict[Any, Any] = {}

    def expiring() -> None:
        try:
            with transaction.atomic():
                gone.update(expire.expire(attempt.pk, timezone.now()))
                began.set()
                go_on.wait(30)
        finally:
            connection.close()

    worker = threading.Thread(target=expiring)
    worker.start()
    assert began.wait(30)
    person = User.objects.create_superuser("lena")
    today = timezone.now().date()

    def place() -> Hold:
        scope = Scope(workload=attempt.workload)
        return holds.place(scope, reason="a claim", owner=person, review_on=today, by=person)

    def place_at_once() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '100ms'")
            place()

    with pytest.raises(OperationalError, match="lock timeout"):
        place_at_once()
    go_on.set()
    worker.join(30)
    hold = place()
    assert gone["lines"].rows == 3
    assert expire.expire(other.pk, timezone.now()) == {}
    assert find.reach(hold) == (2, 1)
