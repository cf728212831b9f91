"""Rounds: which sources are asked when, and for what time, whatever a scheduler's clock says."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from rules.words import Source
from tests.verdicts.builders import an_attempt
from verdicts import clusters, conclude
from verdicts.choices import CollectionReason, Mode, RequestState
from verdicts.collecting import discover, gather, rounds
from verdicts.collectors.ask import Ask, Unreachable
from verdicts.collectors.config import Clusters, ClusterSettings
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import SourceSettings
from verdicts.models import Attempt, AttributionRequest, Collection, CollectionTask
from verdicts.sources import standing as sources

pytestmark = pytest.mark.django_db

ASKED: list[tuple[str, datetime, datetime]] = []
AWAY: set[str] = set()
LATE: dict[str, Callable[[], object]] = {}


class Noted(SourceSettings, tag="noted", frozen=True, kw_only=True):
    """A source that notes what it is asked for."""

    def collect(self, ask: Ask, out: Sink) -> None:
        ASKED.append((self.name, ask.begin, ask.end))
        if meanwhile := LATE.pop(self.name, None):
            meanwhile()
        if self.name in AWAY:
            raise Unreachable("connection refused")
        out.stream(node="gpu-01").feed(b"x", [int(ask.begin.timestamp() * 1e9)])


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> Callable[..., ClusterSettings]:
    """Configure the cluster alpha with sources of these names, which are their kinds of evidence."""
    ASKED.clear()
    AWAY.clear()
    LATE.clear()
    sources.forget()
    clusters.cluster_row.cache_clear()

    def make(*names: str, **more: Any) -> ClusterSettings:
        told = [Noted(name=name, source=Source(name), **more.pop(name, {})) for name in names]
        settings = ClusterSettings(name="alpha", source=told, **({"settle": 0} | more))  # type: ignore[arg-type]
        for module in (gather, discover):
            monkeypatch.setattr(module, "current_clusters", lambda: Clusters(cluster=[settings]))
        return settings

    return make


def told(settings: ClusterSettings, **more: Any) -> Attempt:
    """What discovery tells of an attempt."""
    assert discover.store(settings, [an_attempt(**more)]) == []
    return Attempt.objects.get(job_id="4711")


RUNS: dict[str, Any] = {"state": "RUNNING", "end": None}


def all_are_due() -> None:
    CollectionTask.objects.open().update(due_at=Now())


# An end, and who asked before it -----------------------------------------------------------------


def test_an_attempt_that_was_asked_about_while_it_ran_is_collected_when_it_ends(cluster: Any) -> None:
    settings = cluster("applog")
    attempt = told(settings, **RUNS)
    conclude.request_attribution(attempt.pk, Mode.SLOW)
    told(settings)
    assert [one.reason for one in attempt.collections.all()] == ["ended"]


def test_an_attempt_that_was_collected_while_it_ran_is_collected_when_it_ends(cluster: Any) -> None:
    settings = cluster("applog")
    attempt = told(settings, **RUNS)
    gather.ask(attempt.pk)
    gather.work()
    told(settings)
    told(settings, reason="another word of the same scheduler")
    assert [one.reason for one in attempt.collections.order_by("round")] == ["asked", "ended"]


def test_an_end_in_the_middle_of_a_round_has_its_sources_asked_once_more(cluster: Any) -> None:
    settings = cluster("applog", "syslog")
    attempt = told(settings, **RUNS)
    gather.ask(attempt.pk)
    LATE["syslog"] = lambda: told(settings)
    gather.work()
    assert sorted(name for name, _, _ in ASKED) == ["applog", "syslog"]
    all_are_due()
    gather.work()
    assert sorted(name for name, _, _ in ASKED[2:]) == ["applog", "syslog"]
    told(settings, reason="another word of the same scheduler")
    assert attempt.collections.count() == 2


def test_a_success_that_turns_out_to_be_a_failure_is_collected(cluster: Any) -> None:
    settings = cluster("applog")
    told(settings, state="COMPLETED")
    assert not Collection.objects.exists()
    told(settings, state="FAILED")
    assert Collection.objects.get().reason == CollectionReason.ENDED


# Who asks ----------------------------------------------------------------------------------------


def test_who_asks_does_not_wait_for_a_round_that_is_an_hour_ahead_and_gets_all_sources(cluster: Any) -> None:
    settings = cluster("applog", "syslog")
    AWAY.add("syslog")
    attempt = told(settings)
    gather.work()
    waiting = Collection.objects.get(round=2)
    assert [task.name for task in waiting.tasks.all()] == ["syslog"]
    asked = gather.ask(attempt.pk)
    assert (asked.pk, asked.reason) == (waiting.pk, "asked")
    assert asked.due_at <= timezone.now()
    AWAY.clear()
    assert gather.work() == 2
    assert Collection.objects.filter(finished_at__isnull=True).count() == 0


def test_what_stays_away_is_asked_three_times_more_and_anew_after_somebody_asked(cluster: Any) -> None:
    settings = cluster("applog", applog={"lag": 0.0})
    AWAY.add("applog")
    attempt = told(settings)
    for _ in range(6):
        sources.forget()
        all_are_due()
        gather.work()
    assert attempt.collections.count() == 4
    gather.ask(attempt.pk)
    for _ in range(6):
        all_are_due()
        gather.work()
    assert [one.reason for one in attempt.collections.order_by("round")][4:] == ["asked", "again", "again", "again"]


def test_a_source_that_is_an_hour_late_does_not_keep_one_waiting_that_is_a_minute_late(cluster: Any) -> None:
    settings = cluster("applog", "syslog", applog={"lag": 3600.0}, syslog={"lag": 60.0})
    attempt = told(settings, end=timezone.now().isoformat())
    gather.work()
    second = attempt.collections.get(round=2)
    assert second.due_at < timezone.now() + timedelta(minutes=2)


# Clocks ------------------------------------------------------------------------------------------

NEVER = [
    {"end": "9999-12-31T23:59:59.999999Z"},
    {"end": "9999-12-31T23:59:59.999999Z", "start": None, "submit_time": None},
    {"start": "0001-01-01T00:00:00Z"},
    {"start": "0001-01-01T00:00:00Z", "end": "0001-01-01T00:00:01Z", "submit_time": None},
    {"start": None, "end": "0001-01-01T00:00:01Z", "submit_time": None},
    {"start": "2026-11-03T03:00:00Z", "end": "2026-11-03T01:00:00Z"},
    {"start": "2026-11-03 01:00:00", "end": "2026-11-03 02:00:00", "submit_time": "2026-11-03 00:00:00"},
    {"start": None, "submit_time": None},
    {"start": "2026-10-01T00:00:00Z"},
]


@pytest.mark.parametrize("times", NEVER, ids=str)
def test_no_time_that_a_scheduler_says_ends_a_round_early(cluster: Any, times: dict[str, Any]) -> None:
    attempt = told(cluster("applog", applog={"lag": 86_400.0}), **times)
    for _ in range(6):
        all_are_due()
        gather.work()
        gather.sweep()
    assert conclude.work() >= 1
    assert attempt.verdicts.current().count() == 1
    assert not Collection.objects.filter(finished_at__isnull=True).exists()
    assert all(task.status == "ok" for task in CollectionTask.objects.all())
    assert all(begin < end for _, begin, end in ASKED)


def test_a_scheduler_whose_clock_is_an_hour_ahead_does_not_delay_the_look(cluster: Any) -> None:
    ahead = timezone.now() + timedelta(hours=1)
    attempt = told(cluster("applog", settle=5), end=ahead.isoformat())
    assert attempt.collections.get().due_at < timezone.now() + timedelta(seconds=10)
    all_are_due()
    gather.work()
    [(_, _, end)] = ASKED
    assert end == ahead


def test_the_window_of_an_attempt_that_runs_ends_now(cluster: Any) -> None:
    settings = cluster("syslog")
    attempt = told(settings, **RUNS)
    now = timezone.now()
    begin, end = rounds.window(attempt, settings.source[0], now)
    assert (begin, end) == (datetime(2026, 11, 3, 1, 5, tzinfo=UTC), now)


# Rounds that nobody can finish -------------------------------------------------------------------


def test_a_round_whose_sources_were_all_given_up_before_it_began_ends(cluster: Any) -> None:
    attempt = told(cluster("applog"))
    CollectionTask.objects.update(state=RequestState.FAILED.value, error="each worker that took it ended", tries=5)
    gather.sweep()
    assert Collection.objects.get(round=1).finished_at is not None
    conclude.work()
    [told_of] = [one for one in attempt.verdicts.current().get().body["coverage"] if one["source"] == "applog"]
    assert (told_of["status"], told_of["reason"]) == ("error", "each worker that took it ended")


def test_a_source_that_was_given_up_is_told_of_when_the_others_end_the_round(cluster: Any) -> None:
    attempt = told(cluster("applog", "syslog"))
    CollectionTask.objects.filter(name="applog").update(
        state=RequestState.FAILED.value, error="given up after 5 tries: x", tries=5
    )
    gather.work()
    conclude.work()
    [told_of] = [one for one in attempt.verdicts.current().get().body["coverage"] if one["source"] == "applog"]
    assert (told_of["status"], told_of["reason"]) == ("error", "given up after 5 tries: x")
    assert [task.name for task in Collection.objects.get(round=2).tasks.all()] == ["applog"]


def test_a_round_that_cannot_be_closed_does_not_keep_the_others_open(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = cluster("applog")
    for job in ("1", "2", "3"):
        assert discover.store(settings, [an_attempt(job)]) == []
    Collection.objects.update(deadline=Now(), started_at=Now())
    stored = gather.store_collected

    def fails_for_one(attempt: Attempt, *args: Any) -> None:
        if attempt.job_id == "2":
            raise ZeroDivisionError("x")
        stored(attempt, *args)

    monkeypatch.setattr(gather, "store_collected", fails_for_one)
    gather.sweep()
    still = Collection.objects.filter(round=1, finished_at__isnull=True)
    assert [one.attempt.job_id for one in still] == ["2"]


def test_an_attempt_that_is_removed_while_it_is_collected_leaves_nothing_and_stops_nothing(cluster: Any) -> None:
    settings = cluster("applog", "syslog")

    def removed() -> None:
        Collection.objects.all().delete()
        AttributionRequest.objects.all().delete()
        Attempt.objects.all().delete()

    LATE["applog"] = removed
    told(settings)
    gather.work()
    gather.sweep()
    assert not CollectionTask.objects.exists()
