"""What failures cost, why, and what would have cost less."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from recovery.goodput import find as goodput_find
from recovery.goodput import reckon as goodput
from recovery.goodput.reckon import Failure, Run
from recovery.models import Anomaly
from recovery.progress import record as progress
from recovery.progress import watch
from recovery.progress.record import Sign
from recovery.words import Via
from rules.attempt import Attempt as GivenAttempt
from tests.recovery.test_progress import NOW, an_attempt
from tests.recovery.test_watch import at, train
from verdicts.fleet.find import Span
from verdicts.record import record_attempt

HOUR = 3600.0


def a_failure(name: str = "a", **more: object) -> Failure:
    return Failure(**{"attempt": name, "cluster": "alpha", "cause": "gpu_hardware", "gpus": 8, **more})  # type: ignore[arg-type]


def test_losses_are_summed_by_cause_and_the_unknown_is_counted_and_in_no_sum() -> None:
    rows = goodput.lost_by(
        [
            a_failure(replay=HOUR, restore=HOUR / 2),
            a_failure("b", replay=None, restore=None),
            a_failure("c", cause="storage", gpus=None, replay=HOUR, hung=True, hang=HOUR),
        ],
        lambda one: one.cause,
    )
    assert [(row.cause, row.failures, row.total) for row in rows] == [("gpu_hardware", 2, 12.0), ("storage", 1, 0.0)]
    assert rows[0].known == {"replay": 1, "hang": 0, "restore": 1} and rows[0].unknown["replay"] == 1
    assert rows[0].unknown["hang"] == 0  # it did not hang
    assert rows[1].unknown == {"replay": 1, "hang": 1, "restore": 1}


def test_a_shorter_interval_saves_its_multiples_and_says_when_it_would_not() -> None:
    failures = [a_failure(replay=50 * 60, interval=HOUR), a_failure("b", replay=20 * 60, interval=HOUR), a_failure("c")]
    found = goodput.shorter_interval(failures, [Run(seconds=24 * HOUR, interval=HOUR)], 0.5)
    # The first would have lost 20 min and not 50; the second the same as before.
    assert (found.saved, found.n, found.unknown, found.changed) == (pytest.approx(4.0), 2, 1, 1)
    assert found.breaks_even == pytest.approx(4.0 * HOUR / (24 * 8))


def test_faster_detection_saves_what_hung_jobs_held() -> None:
    failures = [
        a_failure(hung=True, detection=660.0),
        a_failure("b", hung=True, detection=30.0),
        a_failure("c", hung=True, detection=None),
        a_failure("d", detection=9_000.0),
    ]
    found = goodput.faster_detection(failures, 60.0)
    assert (found.saved, found.n, found.unknown, found.changed) == (pytest.approx(8 * 600 / HOUR), 2, 1, 1)


def test_the_time_since_a_checkpoint_needs_one_that_was_seen() -> None:
    assert goodput.since_checkpoint([(100.0, 10), (700.0, 20), (1_300.0, 30)], 1_500.0) == (200.0, 600.0)
    assert goodput.since_checkpoint([], 1_500.0) == (None, None)
    assert goodput.since_checkpoint([(100.0, 10)], None) == (None, None)


@pytest.mark.django_db
def test_a_hang_that_people_ended_is_counted_with_its_checkpoint_its_hours_and_its_return() -> None:
    attempt = an_attempt()
    for number in range(31):
        saved = 100 * (number // 10)
        signs = [Sign(rank=rank, step=10 * number, checkpoint_step=saved) for rank in range(4)]
        progress.post(attempt, signs, Via.POST, now=at(60 * number - 30))
    watch.work(at(1_770 + 330))
    hang = Anomaly.objects.get()
    end = at(1_770 + 3_600)
    an_attempt(end=end.isoformat())
    watch.work(end + timedelta(seconds=60))
    again = record_attempt(
        GivenAttempt(
            job_id="77",
            cluster="alpha",
            scheduler="slurm",
            submit_time="2026-03-01T10:00:00Z",
            start=(end + timedelta(seconds=600)).isoformat(),
            restart_count=1,
            state="RUNNING",
        )
    )[0]
    progress.post(again, [Sign(rank=0, step=301)], Via.POST, now=end + timedelta(seconds=900))
    with CaptureQueriesContext(connection) as asked:
        found = goodput_find.measured(Span(NOW - timedelta(days=1), NOW + timedelta(days=1)))
    assert len(asked) <= 14
    (row,) = found.by_cause
    assert (row.cause, row.failures) == (goodput_find.NO_VERDICT, 1)
    assert row.hours["hang"] == pytest.approx(4 * (end - hang.event_at).total_seconds() / HOUR)  # type: ignore[operator]
    assert row.hours["restore"] == pytest.approx(4 * 300 / HOUR, abs=4 * 60 / HOUR)
    assert row.known["replay"] == 1
    n, times = found.by_hand_or_not[goodput_find.OUTSIDE]
    assert n == 1 and times["decide"] is None
    # It failed when it stopped moving, and came back beyond its checkpoint an hour and a quarter later.
    assert times["total"] is not None and times["restore"] is not None
    assert times["total"].most == pytest.approx(3_600 + 900, abs=60)
    assert found.faster[0].n == 1 and found.faster[0].saved == pytest.approx(4 * (330 - 60) / HOUR)
    assert found.detection["detected"] is not None


@pytest.mark.django_db
def test_a_time_without_failures_has_nothing_to_count() -> None:
    train(an_attempt(), steps=2)
    found = goodput_find.measured(Span(NOW - timedelta(days=1), NOW + timedelta(days=1)), cluster="alpha")
    assert (found.failures, found.by_cause, found.totals) == (0, [], [])


@pytest.mark.django_db
def test_of_more_failures_than_are_counted_it_is_said_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goodput_find, "MOST", 2)
    ends = [at(60 * number) for number in range(3)]
    for number, end in enumerate(ends):
        an_attempt(f"{number}", end=end.isoformat())
    span = Span(NOW - timedelta(days=1), NOW + timedelta(days=1))
    found = goodput_find.measured(span)
    assert (found.failures, found.counted_since) == (2, ends[1])
    monkeypatch.setattr(goodput_find, "MOST", 3)
    assert goodput_find.measured(span).counted_since is None
