"""What is seen after an action: milestones, the watchdog that gives back, and where the time went."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from recovery import find
from recovery.acting import chores, verify, watchdog
from recovery.goodput.timings import PARTS, Moments, parts, spread, spreads, to_goodput
from recovery.models import Action, ActuatorState, LedgerEntry, Milestone, ProgressSample
from recovery.progress import record as progress
from recovery.progress.record import Sign
from recovery.words import ActionState, EntryKind, Via
from tests.recovery.acting import a_failed_attempt, acting_on, an_action, dispatch, lose_worker, the_job
from tests.recovery.fake_slurm import FakeSlurm, Killed
from tests.verdicts.builders import an_attempt
from verdicts.models import Attempt
from verdicts.record import record_attempt

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def stop_file(settings: Any, tmp_path: Any) -> Any:
    settings.INQUEST_RECOVERY_STOP_FILE = str(tmp_path / "stop")
    return tmp_path / "stop"


def restarted(attempt: Attempt, **more: Any) -> Attempt:
    """The next attempt of the job, on other nodes."""
    began = timezone.now().replace(microsecond=0)
    said = {
        "submit_time": began.isoformat(),
        "start": (began + timedelta(seconds=7)).isoformat(),
        "end": None,
        "state": "RUNNING",
        "restart_count": attempt.restart_count + 1,
        "nodes": ["gpu-[02-03]"],
    }
    row, _ = record_attempt(an_attempt(attempt.job_id, **(said | more)))
    return row


@pytest.fixture
def done(db: Any, monkeypatch: Any) -> Action:
    """A restart that was done."""
    attempt = a_failed_attempt()
    progress.post(attempt, [Sign(rank=0, step=1000, checkpoint_step=900), Sign(rank=1, step=998)], Via.POST)
    action = an_action(attempt=attempt)
    with acting_on(the_job(attempt), monkeypatch):
        dispatch()
    action.refresh_from_db()
    return action


def milestones() -> dict[str, Milestone]:
    return {one.kind: one for one in Milestone.objects.all()}


def test_each_milestone_is_seen_by_itself_and_has_its_own_time(done: Action) -> None:
    attempt = done.proposal.attempt
    assert verify.work() == 0 and set(milestones()) == {"action_done"}
    after = restarted(attempt)
    assert verify.work() == 1
    assert milestones()["allocation_restarted"].at == after.started_at
    assert milestones()["allocation_restarted"].evidence["on_excluded"] == []

    progress.post(after, [Sign(rank=0, step=900)], Via.POST)
    assert verify.work() == 0, "at the checkpoint is not beyond it"
    at = timezone.now() - timedelta(seconds=1)
    progress.post(after, [Sign(rank=0, step=901, at=at.isoformat())], Via.POST)
    assert verify.work() == 1
    assert milestones()["progress_restored"].at == at
    assert milestones()["progress_restored"].observed_at > at

    end = (timezone.now() + timedelta(hours=1)).replace(microsecond=0)
    record_attempt(
        an_attempt(
            attempt.job_id,
            submit_time=after.submit_time.isoformat(),  # type: ignore[union-attr]
            restart_count=1,
            state="COMPLETED",
            end=end.isoformat(),
            start=after.started_at.isoformat(),  # type: ignore[union-attr]
            nodes=["gpu-[02-03]"],
        )
    )
    assert verify.work() == 1 and verify.work() == 0
    assert milestones()["completed"].at == end
    entries = LedgerEntry.objects.filter(kind=EntryKind.MILESTONE).count()
    assert entries == 4

    later = (at + timedelta(minutes=2)).replace(second=0, microsecond=0)
    ProgressSample.objects.create(attempt=after, at=later, least_step=1000, most_step=1001, ranks=2)
    row = Action.objects.select_related("proposal__attempt", "proposal__anomaly").get(pk=done.pk)
    (found,) = verify.moments([row])
    assert found.progressed == at and found.restarted == after.started_at and found.caught_up == later
    assert set(parts(found)) == set(PARTS) and to_goodput(found) is not None


def test_a_restart_that_fails_again_is_neither_progress_nor_completed(done: Action) -> None:
    restarted(done.proposal.attempt, state="FAILED", end=(timezone.now() + timedelta(minutes=1)).isoformat())
    verify.work()
    assert set(milestones()) == {"action_done", "allocation_restarted"}


def test_unknown_progress_is_no_progress_and_no_lack_of_it(db: Any, monkeypatch: Any) -> None:
    attempt = a_failed_attempt()
    an_action(attempt=attempt)
    with acting_on(the_job(attempt), monkeypatch):
        dispatch()
    after = restarted(attempt)
    progress.post(after, [Sign(rank=0, step=5000)], Via.POST)
    verify.work()
    assert "progress_restored" not in milestones()


# The watchdog


def worn_out(fake: FakeSlurm, attempt: Attempt, monkeypatch: Any) -> Action:
    """An action of which every dispatcher that took it died, with its job held."""
    action = an_action(attempt=attempt)

    def die() -> None:
        if fake.record is not None and fake.record.held:
            raise Killed

    fake.after_look = die
    with acting_on(fake, monkeypatch):
        for _ in range(20):
            try:
                dispatch(1)
            except Killed:
                lose_worker()
    fake.after_look = lambda: None
    return action


@pytest.mark.django_db
def test_a_job_left_held_by_dispatchers_that_die_is_released_even_with_the_kill_switch_on(
    monkeypatch: Any, stop_file: Any
) -> None:
    attempt = a_failed_attempt()
    fake = the_job(attempt)
    action = worn_out(fake, attempt, monkeypatch)
    assert fake.record is not None and fake.record.held
    stop_file.touch()
    with acting_on(fake, monkeypatch):
        assert watchdog.sweep() == 1
    action.refresh_from_db()
    assert action.outcome == ActionState.ABANDONED and "could not go on" in action.why
    assert not fake.record.held and fake.effects["requeue"] == 1


@pytest.mark.django_db
def test_a_call_that_takes_effect_after_its_action_was_given_up_is_given_back(monkeypatch: Any) -> None:
    attempt = a_failed_attempt()
    action, fake = an_action(attempt=attempt), the_job(attempt)
    fake.fates = {"requeuehold": ["late", "no"]}
    with acting_on(fake, monkeypatch):
        dispatch()
        action.refresh_from_db()
        assert action.outcome == ActionState.FAILED
        assert watchdog.sweep() == 0
        fake.tick()
        assert fake.record is not None and fake.record.held
        assert watchdog.sweep() == 1
        assert not fake.record.held
        assert watchdog.sweep() == 0
    action.refresh_from_db()
    assert action.outcome == ActionState.FAILED, "how it ended stays as it was"
    assert action.calls[-1]["step"] == "release"
    assert LedgerEntry.objects.filter(actor="system:watchdog", kind=EntryKind.ACTION_SENT).count() == 1


@pytest.mark.django_db
def test_what_cannot_be_seen_long_after_its_deadline_is_told(monkeypatch: Any, caplog: Any) -> None:
    attempt = a_failed_attempt()
    action, fake = an_action(attempt=attempt), the_job(attempt)
    fake.unseen = 100
    Action.objects.update(deadline=timezone.now() - timedelta(hours=1))
    with acting_on(fake, monkeypatch):
        dispatch(2)
        watchdog.sweep()
    assert [row.pk for row in find.overdue()] == [action.pk]
    assert f"{action.mark} should have ended" in caplog.text


# Where the time went


def test_the_parts_follow_one_another_and_unknown_is_not_nought() -> None:
    def at(seconds: float) -> datetime:
        return NOON + timedelta(seconds=seconds)

    whole = Moments(
        failed=at(0),
        proposed=at(20),
        begun=at(80),
        done=at(85),
        restarted=at(105),
        progressed=at(165),
        caught_up=at(465),
    )
    assert list(parts(whole).values()) == [20, 60, 5, 20, 60, 300]
    assert to_goodput(whole) == 465
    some = Moments(failed=at(0), proposed=at(20), begun=at(10), done=at(85))
    assert parts(some) == {"detect": 20, "decide": 0, "act": 75, "queue": None, "restore": None, "replay": None}
    assert to_goodput(some) is None
    found = spreads([whole, some])
    assert found["act"] is not None and (found["act"].n, found["act"].p50, found["act"].most) == (2, 5, 75)
    assert found["queue"] is not None and found["queue"].n == 1


def test_percentiles_are_values_that_occurred() -> None:
    found = spread([float(number) for number in range(1, 101)])
    assert found is not None
    assert (found.n, found.p50, found.p90, found.p99, found.most) == (100, 50, 90, 99, 100)
    assert spread([None]) is None


@pytest.mark.django_db
def test_chores_are_sent_only_where_a_dispatcher_was_heard_of_lately(monkeypatch: Any) -> None:
    sent: list[tuple[str, str]] = []
    monkeypatch.setattr(chores, "wake_task", lambda name, *, queue: sent.append((name, queue)) or True)
    action = an_action()
    assert chores.send() == [] and sent == []
    state = ActuatorState.objects.create(cluster=action.proposal.attempt.cluster, kind="slurm")
    assert chores.send() == [chores.LOOK, chores.WATCHDOG]
    assert chores.send() == [], "not again so soon"
    ActuatorState.objects.filter(pk=state.pk).update(seen_at=timezone.now() - timedelta(hours=2))
    cache.clear()
    assert chores.send() == []
    assert sent == [(chores.LOOK, "inquest-recovery"), (chores.WATCHDOG, "inquest-recovery")]
