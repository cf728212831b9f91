"""Collections: every source asked, every gap told, one verdict, whatever happens in between."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from rules.attempt import Attempt as GivenAttempt
from rules.words import ReportStatus, Source
from tests.verdicts.builders import an_attempt, an_observation
from verdicts import clusters, conclude, limits, record
from verdicts.choices import CollectionReason, Mode, RequestState
from verdicts.collecting import discover, gather
from verdicts.collectors.ask import Ask, BudgetSpent, SourceError, Unreachable
from verdicts.collectors.config import Clusters, ClusterSettings
from verdicts.collectors.sink import Sink
from verdicts.collectors.source import Found, SourceSettings
from verdicts.lease import Turns
from verdicts.models import (
    Attempt,
    AttributionRequest,
    Collection,
    CollectionTask,
    CollectorReport,
    Observation,
    SourceState,
    Verdict,
)
from verdicts.sources import standing as sources

pytestmark = pytest.mark.django_db

LINE = b"[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
Does = Callable[[Ask, Sink], None]


class Told(SourceSettings, tag="told", frozen=True, kw_only=True):
    """A source that does what the test tells it."""

    def collect(self, ask: Ask, out: Sink) -> None:
        BEHAVIOUR[self.name](ask, out)


BEHAVIOUR: dict[str, Does] = {}


def gives(*lines: bytes) -> Does:
    def collect(ask: Ask, out: Sink) -> None:
        moment = int(ask.begin.timestamp() * 1e9)
        out.stream(node=ask.nodes[0]).feed(b"\n".join(lines), [moment + number for number in range(len(lines))])

    return collect


def says_nothing(ask: Ask, out: Sink) -> None:
    """A source that answers and has nothing."""


def fails(error: Exception, after: Does | None = None) -> Does:
    def collect(ask: Ask, out: Sink) -> None:
        if after is not None:
            after(ask, out)
        raise error

    return collect


@pytest.fixture(autouse=True)
def _clean() -> None:
    BEHAVIOUR.clear()
    sources.forget()
    clusters.cluster_row.cache_clear()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> Callable[..., ClusterSettings]:
    """Configure the cluster alpha with a source for each behaviour: its name is its kind of evidence."""

    def make(said: dict[str, Does], **more: Any) -> ClusterSettings:
        told = [Told(name=name, source=Source(name.split(".")[0]), **more.pop(name, {})) for name in said]
        settings = ClusterSettings(name="alpha", settle=0, source=told, **more)  # type: ignore[arg-type]
        configured = Clusters(cluster=[settings])
        for module in (gather, discover):
            monkeypatch.setattr(module, "current_clusters", lambda: configured)
        BEHAVIOUR.update(said)
        return settings

    return make


def over(settings: ClusterSettings, **more: Any) -> Attempt:
    """An attempt that discovery found to be over."""
    notes = discover.store(settings, [an_attempt(**more)])
    assert notes == []
    return Attempt.objects.get(job_id=more.get("job_id", "4711"))


def verdict_of(attempt: Attempt) -> Verdict:
    conclude.work()
    return attempt.verdicts.current().get()


def coverage(attempt: Attempt) -> dict[str, tuple[str, str]]:
    return {one["source"]: (one["status"], one.get("reason", "")) for one in verdict_of(attempt).body["coverage"]}


def test_an_attempt_that_ended_is_collected_from_every_source_and_gets_one_verdict(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE), "syslog": gives(b"Nov  3 02:00:00 gpu-01 systemd[1]: Started x.")})
    attempt = over(settings)
    assert gather.work() == 2
    assert verdict_of(attempt).domain == "resource_exhaustion"
    assert Verdict.objects.count() == 1
    said = coverage(attempt)
    assert said["applog"][0] == "ok"
    assert said["syslog"][0] == "ok"
    assert said["node_metrics"][0] == "not_configured"
    [line] = Observation.objects.all()
    assert (line.node, line.collector, line.ref) == ("gpu-01", "applog", "applog/gpu-01:1")
    assert line.timestamp is not None


def test_lines_of_any_characters_are_stored_as_they_were_collected(cluster: Any) -> None:
    odd = LINE + ' %s \'"\\ \\u0000 \x00 🔥 {"a": 1}'.encode()
    attempt = over(cluster({"applog": gives(odd, b"caf\xe9 " + LINE)}))
    gather.work()
    bodies = sorted(attempt.observations.values_list("body", flat=True))
    assert bodies == sorted([odd.decode().replace("\x00", "\\x00"), "caf\\xe9 " + LINE.decode()])
    assert attempt.reports.get(source="applog").body["kept"] == 2
    assert coverage(attempt)["applog"] == ("ok", "")


def test_a_requeued_job_is_not_asked_for_what_the_attempt_before_printed(cluster: Any) -> None:
    asked: dict[str, Any] = {}

    def collect(ask: Ask, out: Sink) -> None:
        asked[out.collector] = ask.begin

    settings = cluster({"applog": collect, "syslog": collect})
    start = over(settings, restart_count=1).started_at
    gather.work()
    assert start is not None
    assert asked == {"applog": start, "syslog": start - timedelta(seconds=300)}


def test_a_second_look_at_the_same_attempt_changes_nothing(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)})
    attempt = over(settings)
    gather.work()
    conclude.work()
    over(settings)
    assert Collection.objects.count() == 1
    assert gather.work() == 0
    assert conclude.work() == 0
    assert attempt.verdicts.count() == 1


@pytest.mark.parametrize(
    ("does", "status", "words"),
    [
        (fails(SourceError("HTTP 500: ingester is down")), "error", "ingester is down"),
        (fails(BudgetSpent("not finished within its 30 s"), gives(LINE)), "partial", "within its 30 s"),
        (says_nothing, "empty", "asked for 2 nodes; nothing came"),
        (fails(ZeroDivisionError("x")), "error", "a fault of Inquest: ZeroDivisionError"),
    ],
)
def test_what_a_source_could_not_give_is_said_in_the_coverage(
    cluster: Any, does: Does, status: str, words: str
) -> None:
    attempt = over(cluster({"applog": does}))
    gather.work()
    got = coverage(attempt)["applog"]
    assert got[0] == status
    assert words in got[1]


def test_what_was_obtained_before_an_error_is_kept(cluster: Any) -> None:
    attempt = over(cluster({"applog": fails(SourceError("cut off"), gives(LINE))}))
    gather.work()
    assert verdict_of(attempt).domain == "resource_exhaustion"
    assert coverage(attempt)["applog"] == ("partial", "cut off")


def test_a_gap_that_is_named_makes_the_source_partial(cluster: Any) -> None:
    def collect(ask: Ask, out: Sink) -> None:
        gives(LINE)(ask, out)
        out.partial("node gpu-02: no stream")

    attempt = over(cluster({"applog": collect}))
    gather.work()
    assert coverage(attempt)["applog"] == ("partial", "node gpu-02: no stream")


def test_a_round_ends_at_its_deadline_and_says_who_did_not_answer(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE), "syslog": gives(b"x")}, deadline=60)
    attempt = over(settings)
    task = CollectionTask.objects.get(name="syslog")
    CollectionTask.objects.filter(pk=task.pk).update(
        state=RequestState.RUNNING.value, lease_owner="hangs", lease_until=Now() + timedelta(minutes=5), tries=1
    )
    assert gather.work() == 1
    assert not attempt.requests.exists()
    Collection.objects.update(deadline=Now())
    gather.sweep()
    assert coverage(attempt)["applog"][0] == "ok"
    status, reason = coverage(attempt)["syslog"]
    assert status == "error"
    assert reason.startswith("no answer within the ")


def test_a_worker_that_comes_after_the_deadline_writes_nothing(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)})

    def late(ask: Ask, out: Sink) -> None:
        gives(LINE)(ask, out)
        Collection.objects.update(deadline=Now())
        gather.sweep()

    BEHAVIOUR["applog"] = late
    attempt = over(settings)
    gather.work()
    assert coverage(attempt)["applog"][0] == "error"
    assert not Observation.objects.exists()
    again = Collection.objects.get(round=2)
    assert again.reason == CollectionReason.AGAIN


def test_the_clock_of_a_round_starts_with_its_first_source_not_while_it_waits_in_a_queue(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)}, deadline=1)
    attempt = over(settings)
    Collection.objects.update(due_at=Now() - timedelta(hours=2), created_at=Now() - timedelta(hours=2))
    gather.sweep()
    assert Collection.objects.get().finished_at is None
    gather.work()
    assert coverage(attempt)["applog"][0] == "ok"


def test_a_first_verdict_is_given_from_what_came_and_replaced_when_all_came(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE), "syslog": gives(b"x")})
    attempt = over(settings)
    CollectionTask.objects.filter(name="syslog").update(due_at=Now() + timedelta(minutes=1))
    gather.work()
    Collection.objects.update(fast_at=Now())
    gather.sweep()
    gather.sweep()
    conclude.work()
    first = attempt.verdicts.current().get()
    assert (first.mode, first.domain) == (Mode.FAST, "resource_exhaustion")
    CollectionTask.objects.filter(name="syslog").update(due_at=Now())
    gather.work()
    AttributionRequest.objects.open().update(due_at=Now())
    second = verdict_of(attempt)
    assert (second.mode, second.number) == (Mode.SLOW, 2)
    assert Collection.objects.get().finished_at is not None


def test_a_killed_worker_is_followed_by_another_and_nothing_is_doubled(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)})
    attempt = over(settings)
    CollectionTask.objects.update(
        state=RequestState.RUNNING.value, lease_owner="dead", lease_until=Now() - timedelta(seconds=1), tries=1, fence=1
    )
    gather.work()
    conclude.work()
    assert attempt.observations.count() == 1
    assert attempt.verdicts.count() == 1


def test_what_could_not_be_had_is_asked_once_more_and_the_verdict_changes(cluster: Any) -> None:
    settings = cluster({"applog": fails(Unreachable("connection refused"))})
    attempt = over(settings)
    gather.work()
    assert verdict_of(attempt).domain == "unattributed"
    again = Collection.objects.get(round=2)
    assert again.due_at > timezone.now()
    BEHAVIOUR["applog"] = gives(LINE)
    CollectionTask.objects.filter(collection=again).update(due_at=Now())
    gather.work()
    AttributionRequest.objects.open().update(due_at=Now())
    assert verdict_of(attempt).domain == "resource_exhaustion"
    assert attempt.verdicts.count() == 2


def test_a_round_that_could_not_ask_takes_nothing_away(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)})
    attempt = over(settings)
    gather.work()
    conclude.work()
    BEHAVIOUR["applog"] = fails(SourceError("down"))
    gather.ask(attempt.pk)
    gather.work()
    AttributionRequest.objects.open().update(due_at=Now())
    assert verdict_of(attempt).domain == "resource_exhaustion"
    assert coverage(attempt)["applog"][0] == "ok"
    assert attempt.verdicts.count() == 1


def test_a_later_round_replaces_what_the_source_gave_before(cluster: Any) -> None:
    settings = cluster({"applog": gives(*[LINE] * 30)})
    attempt = over(settings)
    gather.work()
    before = attempt.observations.count()
    BEHAVIOUR["applog"] = gives(*[LINE] * 45)
    gather.ask(attempt.pk)
    gather.work()
    assert attempt.observations.count() == before
    assert sum(attempt.observations.values_list("count", flat=True)) == 45
    assert CollectorReport.objects.get().body["kept"] == 45


@pytest.mark.parametrize(
    "later",
    [
        says_nothing,
        fails(SourceError("down")),
        fails(BudgetSpent("not finished within its 30 s"), gives(*[LINE] * 3)),
    ],
    ids=["keeps nothing for so long", "is down", "breaks off sooner"],
)
def test_a_later_round_that_obtained_less_takes_nothing_away(cluster: Any, later: Does) -> None:
    settings = cluster({"applog": gives(*[LINE] * 30)})
    attempt = over(settings)
    gather.work()
    BEHAVIOUR["applog"] = later
    gather.ask(attempt.pk)
    gather.work()
    assert sum(attempt.observations.values_list("count", flat=True)) == 30
    assert coverage(attempt)["applog"][0] == "ok"


def test_a_source_taken_out_of_the_file_takes_its_evidence_not_along(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = over(cluster({"applog": gives(LINE), "syslog": gives(b"x")}))
    gather.work()
    gather.ask(attempt.pk)
    cluster({"syslog": gives(b"x")})
    gather.work()
    task = CollectionTask.objects.get(collection__round=2, name="applog")
    assert task.status == ReportStatus.NOT_CONFIGURED
    assert verdict_of(attempt).domain == "resource_exhaustion"
    assert coverage(attempt)["applog"][0] == "ok"


def test_a_source_that_was_renamed_is_not_counted_twice(cluster: Any) -> None:
    attempt = over(cluster({"applog": gives(*[LINE] * 30)}))
    gather.work()
    record.add_observations(attempt.pk, [an_observation(7, collector="applog.sent")])
    cluster({"applog.new": gives(*[LINE] * 30)})
    gather.ask(attempt.pk)
    gather.work()
    assert set(attempt.observations.values_list("collector", flat=True)) == {"applog.new", "applog.sent"}
    assert sum(attempt.observations.filter(collector="applog.new").values_list("count", flat=True)) == 30
    assert [row.collector for row in CollectorReport.objects.all()] == ["applog.new"]


def test_a_partial_round_that_obtained_more_replaces_what_was_there(cluster: Any) -> None:
    attempt = over(cluster({"applog": gives(*[LINE] * 30)}))
    gather.work()
    BEHAVIOUR["applog"] = fails(SourceError("cut off"), gives(*[LINE] * 45))
    gather.ask(attempt.pk)
    gather.work()
    assert sum(attempt.observations.values_list("count", flat=True)) == 45
    assert coverage(attempt)["applog"] == ("partial", "cut off")


def test_what_the_store_has_no_room_for_is_on_the_verdict_until_there_is_room(cluster: Any, settings: Any) -> None:
    settings.INQUEST_MAX_OBSERVATIONS = 10
    attempt = over(cluster({"applog": gives(*[LINE] * 15), "applog.b": gives(LINE)}))
    gather.work()
    status, reason = coverage(attempt)["applog"]
    assert (status, "the store's limit for this source was reached" in reason) == ("partial", True)
    for _ in range(2):
        gather.ask(attempt.pk)
        gather.work()
    attempt.refresh_from_db()
    assert sum(attempt.cut.values()) == 6
    settings.INQUEST_MAX_OBSERVATIONS = 100
    gather.ask(attempt.pk)
    gather.work()
    AttributionRequest.objects.open().update(due_at=Now())
    assert coverage(attempt)["applog"] == ("ok", "")


def test_what_is_lost_between_collector_and_store_is_on_the_verdict(cluster: Any) -> None:
    attempt = over(cluster({"applog": gives(*[LINE] * 5)}))
    gather.work()
    attempt.observations.order_by("line").last().delete()  # type: ignore[union-attr]
    assert coverage(attempt)["applog"] == ("partial", "fewer observations reached the store than the collector kept")


def test_a_source_that_does_not_answer_is_left_alone_and_tried_by_one(cluster: Any) -> None:
    asked: list[str] = []

    def away(ask: Ask, out: Sink) -> None:
        asked.append(ask.attempt.job_id)
        raise Unreachable("no answer within 5 s")

    settings = cluster({"applog": away})
    for number in range(6):
        over(settings, job_id=str(number))
    gather.work()
    assert len(asked) == sources.FAILURES
    left = Attempt.objects.get(job_id="5")
    assert "did not answer 3 times in a row" in coverage(left)["applog"][1]
    SourceState.objects.update(retry_at=Now())
    sources.forget()
    over(settings, job_id="6")
    over(settings, job_id="7")
    gather.work()
    assert len(asked) == sources.FAILURES + 1
    BEHAVIOUR["applog"] = gives(LINE)
    SourceState.objects.update(retry_at=Now())
    sources.forget()
    over(settings, job_id="8")
    gather.work()
    state = SourceState.objects.get()
    assert (state.failures, state.retry_at) == (0, None)


def test_nothing_from_a_blind_source_is_no_answer(cluster: Any) -> None:
    settings = cluster({"syslog": says_nothing})
    attempt = over(settings)
    state = sources.state_of("alpha", settings.source[0])
    SourceState.objects.filter(pk=state.pk).update(
        blind_since=Now(), health="blind", check_body={"summary": "no node of the cluster is in its labels"}
    )
    sources.forget()
    gather.work()
    status, reason = coverage(attempt)["syslog"]
    assert status == "error"
    assert "blind since" in reason
    assert "no node of the cluster" in reason


def test_the_evidence_of_a_success_is_left_where_it_is(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)})
    attempt = over(settings, state="COMPLETED")
    assert gather.work() == 0
    assert verdict_of(attempt).domain == "no_failure"
    assert coverage(attempt)["applog"][1] == "not asked: the attempt succeeded"


def test_a_flood_of_one_cluster_does_not_keep_another_waiting(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def collect(ask: Ask, out: Sink) -> None:
        order.append(f"{ask.cluster}/{ask.attempt.job_id}")

    flood = cluster({"applog": collect})
    calm = ClusterSettings(name="beta", settle=0, source=flood.source)
    both = Clusters(cluster=[flood, calm])
    monkeypatch.setattr(gather, "current_clusters", lambda: both)
    for number in range(10):
        over(flood, job_id=str(number))
    discover.store(calm, [an_attempt("late")])
    first = Turns(CollectionTask).take()
    assert first is not None
    assert Turns(CollectionTask, "other").take().row.cluster != first.row.cluster  # type: ignore[union-attr]


def test_a_job_that_fails_over_and_over_lets_others_of_its_cluster_go_first(cluster: Any) -> None:
    order: list[str] = []

    def collect(ask: Ask, out: Sink) -> None:
        order.append(ask.attempt.workload)

    settings = cluster({"applog": collect})
    for number in range(10):
        over(settings, job_id=str(number), workload="flood")
    over(settings, job_id="other", workload="calm")
    gather.work()
    assert order.index("calm") < 3


def test_a_job_of_slurm_is_not_asked_of_kubernetes(cluster: Any) -> None:
    settings = cluster({"kubernetes": gives(LINE), "scheduler": gives(LINE)})
    over(settings)
    assert [task.source for task in CollectionTask.objects.all()] == ["scheduler"]


def test_asking_for_a_cluster_that_has_no_sources_is_refused_in_words(cluster: Any) -> None:
    cluster({"applog": gives(LINE)})
    attempt, _ = record.record_attempt(an_attempt(cluster="elsewhere"))
    with pytest.raises(gather.NotConfigured, match="no sources are configured for the cluster 'elsewhere'"):
        gather.ask(attempt.pk)


@pytest.mark.django_db(transaction=True)
def test_progress_is_on_the_row_while_a_source_is_read(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RENEW_EVERY", timedelta(milliseconds=10))
    seen: list[int] = []

    def slow(ask: Ask, out: Sink) -> None:
        gives(LINE, LINE)(ask, out)
        deadline = time.monotonic() + 10
        while not seen and time.monotonic() < deadline:
            seen.extend(CollectionTask.objects.filter(read=2).values_list("read", flat=True))

    over(cluster({"applog": slow}))
    gather.work()
    assert seen == [2]


# Discovery ---------------------------------------------------------------------------------------


def running(job_id: str, **more: Any) -> GivenAttempt:
    return an_attempt(job_id, **({"state": "RUNNING", "end": None} | more))


def test_a_running_attempt_is_kept_and_not_collected(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)})
    discover.store(settings, [running("1")])
    assert Attempt.objects.get().state == "RUNNING"
    assert not Collection.objects.exists()


def test_a_requeued_job_is_an_attempt_for_each_time_it_ran(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)})
    for restart in range(3):
        discover.store(settings, [an_attempt(restart_count=restart, submit_time=f"2026-11-03T0{restart}:00:00Z")])
    gather.work()
    conclude.work()
    assert Verdict.objects.current().count() == 3


def test_an_attempt_that_is_not_listed_any_more_is_unknown_after_a_while_and_only_then(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)}, vanish_after=300)
    discover.store(settings, [running("1"), running("2")])
    listed = Found(attempts=[], cursor={}, listed=frozenset({"2"}))
    assert discover.vanished(settings, listed) == []
    Attempt.objects.filter(job_id="1").update(missing_since=Now() - timedelta(seconds=301))
    [note] = discover.vanished(settings, listed)
    assert "job 1" in note
    gone = Attempt.objects.get(job_id="1")
    assert (gone.state, gone.ended_at is not None) == ("UNKNOWN", True)
    gather.work()
    assert verdict_of(gone).state in ("unknown", "failed")
    assert Attempt.objects.get(job_id="2").missing_since is None


def test_silence_of_the_scheduler_is_unknown_never_gone(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)})
    discover.store(settings, [running("1")])
    assert discover.vanished(settings, Found(attempts=[], cursor={}, listed=None)) == []
    assert Attempt.objects.get().missing_since is None


def test_what_the_accounting_says_later_replaces_unknown(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)}, vanish_after=0)
    discover.store(settings, [running("1")])
    nothing = Found(attempts=[], cursor={}, listed=frozenset())
    discover.vanished(settings, nothing)
    discover.vanished(settings, nothing)
    gather.work()
    attempt = Attempt.objects.get()
    verdict_of(attempt)
    discover.store(settings, [an_attempt("1", state="NODE_FAIL", end="2026-11-03T02:00:00Z")])
    AttributionRequest.objects.open().update(due_at=Now())
    assert verdict_of(attempt).state == "node_failed"


def test_an_attempt_that_cannot_be_stored_is_named_and_the_others_are_taken(cluster: Any) -> None:
    settings = cluster({"applog": gives(LINE)})
    [note] = discover.store(settings, [an_attempt("bad", workload="x" * 300), an_attempt("good")])
    assert "bad" in note
    assert "workload" in note
    assert [attempt.job_id for attempt in Attempt.objects.all()] == ["good"]


def test_statuses_are_those_of_the_reports(cluster: Any) -> None:
    over(cluster({"applog": gives(LINE)}))
    gather.work()
    assert CollectionTask.objects.get().status == ReportStatus.OK
