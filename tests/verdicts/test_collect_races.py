"""Workers, sweeps, discoveries and people at the same attempts at once: nothing is lost, doubled or locked up."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.db.models import Count
from django.db.models.functions import Now

from rules.words import Source
from tests.verdicts.builders import an_attempt
from verdicts import clusters, conclude
from verdicts.choices import CollectionReason, RequestState
from verdicts.collecting import discover, gather
from verdicts.collectors.ask import Ask
from verdicts.collectors.config import Clusters, ClusterSettings
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import SourceSettings
from verdicts.models import Attempt, AttributionRequest, Collection, CollectionTask, CollectorReport, Verdict
from verdicts.sources import standing as sources

pytestmark = pytest.mark.django_db(transaction=True)
KINDS = (Source.APPLOG, Source.SYSLOG, Source.NODE_METRICS)


class Quick(SourceSettings, tag="quick", frozen=True, kw_only=True):
    """A source with one line for each node."""

    def collect(self, ask: Ask, out: Sink) -> None:
        for node in ask.nodes:
            out.stream(node=node).feed(b"RuntimeError: it broke", [int(ask.begin.timestamp() * 1e9)])


@pytest.fixture
def settings_of_alpha(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> ClusterSettings:
    sources.forget()
    clusters.cluster_row.cache_clear()
    told: Any = [Quick(name=kind.value, source=kind) for kind in KINDS]
    settings = ClusterSettings(name="alpha", settle=0, source=told)
    for module in (gather, discover):
        monkeypatch.setattr(module, "current_clusters", lambda: Clusters(cluster=[settings]))
    return settings


def at_once(*work: Callable[[], object]) -> None:
    """Do these at the same time; an error of one is the test's."""
    start = threading.Barrier(len(work))
    errors: list[Exception] = []

    def do(one: Callable[[], object]) -> None:
        try:
            start.wait(30)
            one()
        except Exception as error:
            errors.append(error)
            raise
        finally:
            connections.close_all()

    threads = [threading.Thread(target=do, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []


def everything_is_done(attempts: int) -> None:
    assert Collection.objects.filter(reason=CollectionReason.ENDED.value, finished_at__isnull=False).count() == attempts
    assert not Collection.objects.filter(finished_at__isnull=True).exists()
    assert CollectorReport.objects.count() == attempts * len(KINDS)
    assert set(CollectionTask.objects.values_list("state", "status")) == {(RequestState.DONE.value, "ok")}
    AttributionRequest.objects.open().update(due_at=Now())
    conclude.work()
    per_attempt = Verdict.objects.current().values("attempt").annotate(number=Count("pk"))
    assert [one["number"] for one in per_attempt] == [1] * attempts


def test_two_discoveries_that_tell_of_the_same_attempts_begin_one_round_each(
    settings_of_alpha: ClusterSettings,
) -> None:
    told = [an_attempt(str(number), nodes=[f"n{number % 3}", "n9"]) for number in range(8)]
    look = [lambda given=given: discover.store(settings_of_alpha, given) for given in (told, told[::-1], told)]
    at_once(*look)
    assert Attempt.objects.count() == Collection.objects.count() == 8
    gather.work()
    everything_is_done(8)


def test_workers_sweeps_and_people_at_once_end_every_round_once(settings_of_alpha: ClusterSettings) -> None:
    discover.store(settings_of_alpha, [an_attempt(str(number)) for number in range(8)])
    first = Attempt.objects.order_by("job_id")[0]

    def asks() -> None:
        for _ in range(5):
            gather.ask(first.pk)

    def sweeps() -> None:
        for _ in range(5):
            gather.sweep()
            conclude.sweep()

    at_once(gather.work, gather.work, gather.work, sweeps, sweeps, asks, conclude.work)
    gather.work()
    everything_is_done(8)


def test_a_deadline_that_comes_while_the_last_source_is_stored_ends_the_round_once(
    settings_of_alpha: ClusterSettings,
) -> None:
    discover.store(settings_of_alpha, [an_attempt(str(number)) for number in range(6)])
    stop = threading.Event()

    def time_is_up() -> None:
        while not stop.wait(0.005):
            Collection.objects.filter(round=1, started_at__isnull=False).update(deadline=Now())
            gather.sweep()

    def works() -> None:
        try:
            gather.work()
        finally:
            stop.set()

    at_once(works, time_is_up)
    for _ in range(2):
        CollectionTask.objects.open().update(due_at=Now())
        Collection.objects.filter(finished_at__isnull=True).update(deadline=None, started_at=None)
        gather.work()
    assert not Collection.objects.filter(finished_at__isnull=True).exists()
    assert set(CollectorReport.objects.values_list("status", flat=True)) == {"ok"}
    assert CollectorReport.objects.count() == 18
    assert not AttributionRequest.objects.values("attempt").annotate(number=Count("pk")).filter(number__gt=2).exists()
