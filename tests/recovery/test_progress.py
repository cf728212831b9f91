"""How far workloads are: what signs of progress change, and what they must not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from recovery.models import ProgressSample, RankProgress
from recovery.progress import record as progress
from recovery.progress.record import Sign
from recovery.words import Via
from rules.attempt import Attempt as GivenAttempt
from rules.attempt import InputError
from verdicts.models import Attempt
from verdicts.record import record_attempt

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


def an_attempt(job_id: str = "77", *, cluster: str = "alpha", restart: int = 0, end: str | None = None) -> Attempt:
    given = GivenAttempt(
        job_id=job_id,
        cluster=cluster,
        scheduler="slurm",
        submit_time="2026-03-01T10:00:00Z",
        start="2026-03-01T10:01:00Z",
        restart_count=restart,
        end=end,
        state="FAILED" if end else "RUNNING",
        nodes=["n1", "n2"],
    )
    return record_attempt(given)[0]


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.django_db
def test_the_same_signs_again_change_nothing_but_when_we_last_heard() -> None:
    attempt = an_attempt()
    signs = [Sign(rank=rank, step=10, checkpoint_step=8, collective=100, at="2026-03-01T12:00:00Z") for rank in (0, 1)]
    first = progress.post(attempt, signs, Via.POST, now=at(0))
    again = progress.post(attempt, signs, Via.POST, now=at(20))
    assert (first.ranks, first.moved, again.moved, again.late) == (2, 2, 0, 0)
    rows = list(RankProgress.objects.all())
    assert [(row.rank, row.step, row.moved_at, row.observed_at) for row in rows] == [
        (0, 10, at(0), at(20)),
        (1, 10, at(0), at(20)),
    ]
    assert progress.latest(attempt.pk) == progress.Latest(10, 10, 8, datetime(2026, 3, 1, 12, tzinfo=UTC), at(20), 2)
    assert ProgressSample.objects.count() == 1


@pytest.mark.django_db
def test_a_sign_of_the_whole_job_has_one_row_and_unknown_is_not_zero() -> None:
    attempt = an_attempt()
    assert progress.latest(attempt.pk) is None
    progress.post(attempt, [Sign(phase="loading")], Via.LOG, now=at(0))
    progress.post(attempt, [Sign(phase="loading")], Via.LOG, now=at(5))
    found = progress.latest(attempt.pk)
    assert found is not None and found.step_min is None and found.checkpoint_step is None and found.ranks == 0
    assert RankProgress.objects.get().moved_at is None
    assert not ProgressSample.objects.exists()


@pytest.mark.django_db
def test_a_late_sign_sets_nothing_back_and_a_restart_inside_the_attempt_does() -> None:
    attempt = an_attempt()
    progress.post(attempt, [Sign(rank=0, step=50, at="2026-03-01T12:00:00Z")], Via.POST, now=at(0))
    late = progress.post(attempt, [Sign(rank=0, step=40, at="2026-03-01T11:59:00Z")], Via.POST, now=at(10))
    assert (late.late, RankProgress.objects.get().step) == (1, 50)
    progress.post(attempt, [Sign(rank=0, step=30, at="2026-03-01T12:00:40Z")], Via.POST, now=at(20))
    row = RankProgress.objects.get()
    assert (row.step, row.moved_at) == (30, at(20))


@pytest.mark.django_db
def test_clocks_may_jump_back_or_be_ahead() -> None:
    attempt = an_attempt()
    progress.post(attempt, [Sign(rank=0, step=1, at="2030-01-01T00:00:00Z")], Via.POST, now=at(0))
    assert RankProgress.objects.get().at == at(0)
    progress.post(attempt, [Sign(rank=0, step=2, at="2020-01-01T00:00:00Z")], Via.POST, now=at(10))
    assert RankProgress.objects.get().step == 2


@pytest.mark.django_db
def test_a_time_that_is_none_is_refused_by_its_field_and_nothing_is_stored() -> None:
    attempt = an_attempt()
    with pytest.raises(InputError, match=r"^signs\[1\]\.at: not a time"):
        progress.post(attempt, [Sign(rank=0, step=1), Sign(rank=1, step=1, at="yesterday")], Via.POST, now=at(0))
    assert not RankProgress.objects.exists()


@pytest.mark.django_db
def test_a_job_id_alone_means_the_newest_attempt_that_has_not_ended() -> None:
    an_attempt("9", restart=0, end="2026-03-01T11:00:00Z")
    running = an_attempt("9", restart=1)
    assert progress.attempt_of(cluster="alpha", job_id="9").pk == running.pk
    with pytest.raises(progress.NoSuchAttempt):
        progress.attempt_of(cluster="alpha", job_id="9", restart_count=0)  # it ended long ago
    with pytest.raises(progress.NoSuchAttempt):
        progress.attempt_of(cluster="alpha", job_id="9", restart_count=2)  # requeued, not found yet
    with pytest.raises(progress.NoSuchAttempt, match="no attempt of job '9' of cluster 'beta'"):
        progress.attempt_of(cluster="beta", job_id="9")


@pytest.mark.django_db
def test_the_times_of_steps_are_kept_for_a_window() -> None:
    attempt = an_attempt()
    for number in range(40):
        signs = [Sign(rank=0, step=number, step_seconds=1.0 + number)]
        progress.post(attempt, signs, Via.POST, now=at(10 * number))
    paces = RankProgress.objects.get().paces
    assert len(paces) == progress.PACES
    assert all(later[0] - earlier[0] >= progress.PACES_APART for earlier, later in pairwise(paces))
