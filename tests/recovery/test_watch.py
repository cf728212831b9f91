"""The watch over what runs: anomalies with their four times, blindness, and what a verdict makes of it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from recovery import propose
from recovery.models import Anomaly, Blindness, LedgerEntry, ProgressFeed, ProgressReading
from recovery.progress import blindness, watch
from recovery.progress import find as progress_find
from recovery.progress import record as progress
from recovery.progress.detect import FatalLine
from recovery.progress.record import Sign
from recovery.words import EntryKind, Via
from rules.words import Domain, Role
from tests.recovery.deciding import a_cluster, a_policy, in_mode
from tests.recovery.test_progress import NOW, an_attempt
from verdicts.choices import Mode
from verdicts.collectors.config import Clusters, ClusterSettings
from verdicts.collectors.progress_settings import PrometheusFeed
from verdicts.collectors.server import Server
from verdicts.conclude import attribute_now, request_attribution
from verdicts.models import Attempt

pytestmark = pytest.mark.django_db


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def train(attempt: Attempt, steps: int = 10, *, every: float = 60, ranks: int = 2, last: int | None = None) -> float:
    """Have an attempt post a step every minute; the second of two ranks may be behind at the end."""
    for number in range(steps + 1):
        signs = [
            Sign(rank=rank, step=10 * number, collective=100 * number, node=f"n{rank + 1}") for rank in range(ranks)
        ]
        if number == steps and last is not None:
            signs[-1] = Sign(rank=ranks - 1, step=10 * number, collective=last, node=f"n{ranks}")
        progress.post(attempt, signs, Via.POST, now=at(every * number))
    return every * steps


def test_a_hang_is_found_once_told_to_the_ledger_and_ends_when_it_moves() -> None:
    attempt = an_attempt()
    stopped = train(attempt, last=999)
    assert watch.work(at(stopped + 200)) == 0
    assert watch.work(at(stopped + 320)) == 1
    assert watch.work(at(stopped + 340)) == 0
    found = Anomaly.objects.get()
    assert (found.kind, found.event_at, found.observed_at, found.detected_at) == (
        "hang",
        at(stopped),
        at(stopped + 300),
        at(stopped + 320),
    )
    assert (found.ranks, found.nodes, found.proposed_at) == ([1], ["n2"], None)
    entry = LedgerEntry.objects.get(kind=EntryKind.ANOMALY_DETECTED.value)
    assert entry.subject == str(found.pk) and entry.attempt == attempt.pk
    progress.post(attempt, [Sign(rank=0, step=1_000)], Via.POST, now=at(stopped + 400))
    watch.work(at(stopped + 410))
    found.refresh_from_db()
    assert found.ended_at == at(stopped + 410)


def test_a_verdict_of_a_hanging_attempt_says_hung_and_no_more_when_it_moves_again() -> None:
    attempt = an_attempt()
    stopped = train(attempt, last=999)
    watch.work(at(stopped + 320))
    request = request_attribution(attempt.pk, Mode.SLOW)
    verdict = attribute_now(request.pk)
    assert verdict is not None and verdict.state == "hung"
    assert "progress_stopped" in verdict.body_json
    progress.post(attempt, [Sign(rank=0, step=1_000)], Via.POST, now=at(stopped + 400))
    watch.work(at(stopped + 410))
    again = attribute_now(request_attribution(attempt.pk, Mode.SLOW).pk)
    assert again is not None and again.state == "running"


def test_a_hang_whose_finder_was_killed_before_it_told_of_it_is_told_of_by_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempt = an_attempt()
    stopped = train(attempt)
    with monkeypatch.context() as killed:
        killed.setattr(watch.watch_evidence, "tell", lambda _: None)
        assert watch.work(at(stopped + 320)) == 1
    watch.work(at(stopped + 335))
    assert not attempt.observations.exists() and not attempt.requests.exists()
    for _ in range(2):
        watch.work(at(stopped + 400))
    assert attempt.observations.count() == 1 and attempt.requests.count() == 1


def test_all_jobs_silent_at_once_are_blind_and_none_of_them_hangs() -> None:
    attempts = [an_attempt(str(number)) for number in range(5)]
    for attempt in attempts:
        stopped = train(attempt)
    assert watch.work(at(stopped + 900)) == 0
    assert {row.attempt_id for row in Blindness.objects.all()} == {one.pk for one in attempts}
    assert "delivers nothing for any job" in Blindness.objects.first().reason  # type: ignore[union-attr]
    progress.post(attempts[0], [Sign(rank=0, step=999)], Via.POST, now=at(stopped + 910))
    assert watch.work(at(stopped + 920)) == 4
    assert not Blindness.objects.exists()


def test_a_job_that_tells_nothing_is_blind_with_the_reason_and_is_told_of_once() -> None:
    attempt = an_attempt()
    watch.work(at(0))
    row = Blindness.objects.get()
    assert row.attempt_id == attempt.pk and "posts no progress" in row.reason
    since = row.since
    watch.work(at(60))
    assert Blindness.objects.get().since == since
    assert progress_find.watched() == {"alpha": (1, 1)}
    progress.post(attempt, [Sign(rank=0, step=1)], Via.POST, now=at(70))
    watch.work(at(75))
    assert not Blindness.objects.exists()
    assert progress_find.watched() == {"alpha": (1, 0)}
    entries = LedgerEntry.objects.filter(attempt=attempt.pk).order_by("at")
    assert [entry.kind for entry in entries] == [EntryKind.PROGRESS_BLIND, EntryKind.PROGRESS_SEES]
    assert "posts no progress" in entries[0].body["facts"]["reason"]


def test_where_the_collector_stopped_the_clock_of_silence_stops_and_the_job_is_blind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(url="http://metrics.example")
    alpha = ClusterSettings(name="alpha", progress=[PrometheusFeed(name="steps", server=server, step="steps")])
    monkeypatch.setattr(blindness, "current_clusters", lambda: Clusters(cluster=[alpha]))
    attempt = an_attempt()
    for number in range(11):
        progress.post(attempt, [Sign(rank=0, step=number)], Via.PROMETHEUS, now=at(60 * number))
    feed = ProgressFeed.objects.create(cluster=attempt.cluster, name="steps", via="prometheus")
    said = {"tried_at": at(3_600), "read_until": at(660), "signs": 1, "said": "connection refused"}
    reading = ProgressReading.objects.create(attempt=attempt, feed=feed, **said)
    assert watch.work(at(3_600)) == 0
    assert "last read 49 min ago: connection refused" in Blindness.objects.get().reason
    reading.read_until, reading.said = at(3_650), ""
    reading.save()
    assert watch.work(at(3_660)) == 1
    assert not Blindness.objects.exists() and Anomaly.objects.get().event_at == at(600)


def test_a_straggler_is_found_on_its_node_and_ends_when_it_is_level() -> None:
    attempt = an_attempt()
    for number in range(6):
        signs = [
            Sign(rank=rank, step=number, step_seconds=2.8 if rank in (4, 5) else 2.0, node=f"n{rank // 2}")
            for rank in range(12)
        ]
        progress.post(attempt, signs, Via.POST, now=at(60 * number))
    assert watch.work(at(310)) == 1
    found = Anomaly.objects.get()
    assert (found.kind, found.nodes, found.evidence["where"]) == ("straggler", ["n2"], "node")
    for number in range(6, 26):
        signs = [Sign(rank=rank, step=number, step_seconds=2.0) for rank in range(12)]
        progress.post(attempt, signs, Via.POST, now=at(60 * number))
    watch.work(at(60 * 25 + 10))
    found.refresh_from_db()
    assert found.ended_at == at(60 * 25 + 10)


def test_an_end_is_a_crash_once_and_what_ended_before_the_first_look_is_history() -> None:
    an_attempt("1", end="2026-03-01T11:00:00Z")
    assert watch.work(at(0)) == 0
    attempt = an_attempt("2", end="2026-03-01T12:05:00Z")
    assert watch.work(at(400)) == 1
    assert watch.work(at(420)) == 0
    found = Anomaly.objects.get()
    assert (found.kind, found.attempt_id, found.event_at) == ("crash", attempt.pk, attempt.ended_at)
    assert found.ended_at is not None and found.said == "It ended as FAILED."


def test_a_fatal_line_is_a_crash_before_the_process_is_gone_and_not_a_second_one_after() -> None:
    attempt = an_attempt()
    watch.work(at(0))
    line = FatalLine(
        "x.y", "cuda_oom", Role.EITHER, at=at(10).timestamp(), seen_at=at(20).timestamp(), node="n1", rank=0
    )
    assert watch.fatal({attempt.pk: [line]}, at(60)) == 1
    assert watch.fatal({attempt.pk: [line]}, at(120)) == 0
    an_attempt(end="2026-03-01T12:05:00Z")
    assert watch.work(at(400)) == 0
    found = Anomaly.objects.get()
    assert found.ended_at is not None and found.event_at == at(10) and found.nodes == ["n1"]


def test_a_pass_over_attempts_that_move_takes_few_statements_however_many_they_are() -> None:
    for number in range(12):
        progress.post(an_attempt(str(number)), [Sign(rank=0, step=1)], Via.POST, now=at(0))
    watch.work(at(10))
    with CaptureQueriesContext(
        connection,
    ) as few:
        watch.work(at(20))
    assert len(few) <= 14


def test_a_hang_leads_to_a_verdict_and_that_to_a_proposal_that_names_it() -> None:
    a_cluster()
    in_mode(
        a_policy("again", action="restart", match={"symptoms": ["progress_stopped"]}).policy,
        "advisory",
        Domain.UNATTRIBUTED,
    )
    attempt, now = an_attempt(), timezone.now()
    for number in range(12):
        signs = [Sign(rank=rank, step=number, collective=number, node=f"n{rank + 1}") for rank in (0, 1)]
        progress.post(attempt, signs, Via.POST, now=now - timedelta(seconds=60 * (20 - number)))
    assert watch.work(now) == 1
    verdict = attribute_now(request_attribution(attempt.pk, Mode.SLOW).pk)
    assert verdict is not None and (verdict.state, verdict.domain) == ("hung", "unattributed")
    (proposal,) = propose.consider(verdict.pk)
    found = Anomaly.objects.get()
    assert proposal.anomaly == found and proposal.state == "open"
    watch.work(timezone.now())
    found.refresh_from_db()
    assert found.proposed_at is not None and found.proposed_at >= found.detected_at >= found.observed_at
