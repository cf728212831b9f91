"""Attribution under a lease: one standing verdict, whoever dies, comes twice or comes late."""

import hashlib
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connection, connections, transaction
from django.db.models.functions import Now
from kombu.exceptions import OperationalError as BrokerError

from tests.verdicts.builders import an_attempt, an_engine_verdict, an_observation
from verdicts import conclude, lease, limits, record, waking
from verdicts.choices import Mode, RequestState
from verdicts.models import Attempt, AttributionRequest, Verdict

pytestmark = pytest.mark.django_db


def _asked(mode: Mode = Mode.SLOW, job: str = "4711") -> AttributionRequest:
    attempt, _ = record.record_attempt(an_attempt(job))
    record.add_observations(attempt.pk, [an_observation(1)])
    return conclude.request_attribution(attempt.pk, mode)


def test_a_request_becomes_a_verdict_with_its_rows(engine: Any) -> None:
    request = _asked()
    verdict = conclude.attribute_now(request.pk)
    request.refresh_from_db()
    assert verdict is not None
    assert (verdict.number, verdict.is_current, verdict.domain, verdict.strength) == (1, True, "gpu_hardware", "strong")
    assert (request.state, request.verdict_id, request.lease_owner) == (RequestState.DONE, verdict.pk, "")
    assert [node.name for node in verdict.nodes.all()] == ["gpu-01"]
    assert [(row.status, row.symptom, row.node, row.rank, row.explained_by) for row in verdict.findings.all()] == [
        ("cause", "gpu_off_bus", "gpu-01", 0, ""),
        ("demoted", "nccl_remote_error", "gpu-02", 8, "gpu.off-the-bus"),
    ]
    assert verdict.body["coverage"][0]["reason"] == "observations came without a collector report"
    assert hashlib.sha256(verdict.body_json.encode()).hexdigest() == verdict.body_sha256
    assert json.loads(verdict.body_json) == verdict.body


def test_the_same_conclusion_again_writes_no_new_version(engine: Any) -> None:
    first = conclude.attribute_now(_asked().pk)
    assert first is not None
    again = conclude.attribute_now(conclude.request_attribution(first.attempt_id, Mode.SLOW).pk)
    assert again == first
    assert Verdict.objects.count() == 1


def test_new_evidence_supersedes_and_keeps_the_old_one(engine: Any) -> None:
    first = conclude.attribute_now(_asked().pk)
    assert first is not None
    record.add_observations(first.attempt_id, [an_observation(2)])
    [request] = AttributionRequest.objects.open()
    assert request.mode == Mode.SLOW
    AttributionRequest.objects.update(due_at=Now())
    second = conclude.attribute_now(request.pk)
    first.refresh_from_db()
    assert second is not None
    assert (second.number, second.is_current) == (2, True)
    assert (first.is_current, first.superseded_at is not None) == (False, True)
    assert first.headline != second.headline


def test_late_evidence_gathers_for_a_moment_before_it_is_worked_on(engine: Any, sent: list[str]) -> None:
    first = conclude.attribute_now(_asked().pk)
    assert first is not None
    record.add_observations(first.attempt_id, [an_observation(2)])
    record.add_observations(first.attempt_id, [an_observation(3)])
    [request] = AttributionRequest.objects.open()
    assert conclude.attribute_now(request.pk) is None
    asked = conclude.request_attribution(first.attempt_id, Mode.SLOW)
    assert asked.pk == request.pk
    assert conclude.attribute_now(request.pk) is not None


def test_evidence_that_was_never_asked_about_is_not_attributed_by_itself(engine: Any) -> None:
    attempt, _ = record.record_attempt(an_attempt())
    record.add_observations(attempt.pk, [an_observation(1)])
    assert not AttributionRequest.objects.exists()


def test_evidence_that_comes_while_it_is_worked_on_makes_it_run_again(engine: Any, sent: list[str]) -> None:
    request = _asked()
    usual = engine[0]

    def interrupted(attempt: Any, observations: Any, *rest: Any, **more: Any) -> Any:
        if len(observations) == 1:
            record.add_observations(request.attempt_id, [an_observation(2)])
        return usual(attempt, observations, *rest, **more)

    engine.append(interrupted)
    first = conclude.attribute_now(request.pk)
    request.refresh_from_db()
    assert first is not None
    assert (request.state, request.tries) == (RequestState.PENDING, 0)
    second = conclude.attribute_now(request.pk)
    request.refresh_from_db()
    assert second is not None
    assert request.state == RequestState.DONE
    assert second.headline == "saw applog/rank0.log:1, applog/rank0.log:2"
    assert Verdict.objects.current().get() == second


def test_one_open_request_of_a_mode(engine: Any) -> None:
    request = _asked()
    assert conclude.request_attribution(request.attempt_id, Mode.SLOW).pk == request.pk
    assert conclude.request_attribution(request.attempt_id, Mode.FAST).pk != request.pk
    with pytest.raises(IntegrityError), transaction.atomic():
        AttributionRequest.objects.create(attempt_id=request.attempt_id, mode="slow")


def test_a_fast_answer_does_not_replace_a_slow_one_of_the_same_evidence(engine: Any) -> None:
    slow = conclude.attribute_now(_asked().pk)
    assert slow is not None
    fast = conclude.attribute_now(conclude.request_attribution(slow.attempt_id, Mode.FAST).pk)
    assert fast == slow


def test_a_slow_answer_replaces_a_fast_one(engine: Any) -> None:
    fast = conclude.attribute_now(_asked(Mode.FAST).pk)
    assert fast is not None
    slow = conclude.attribute_now(conclude.request_attribution(fast.attempt_id, Mode.SLOW).pk)
    assert slow is not None
    assert (fast.mode, slow.mode, slow.number) == ("fast", "slow", 2)


def test_a_redelivered_message_finds_nothing_to_do(engine: Any) -> None:
    request = _asked()
    assert conclude.attribute_now(request.pk) is not None
    assert conclude.attribute_now(request.pk) is None
    assert Verdict.objects.count() == 1


def test_a_worker_that_outlived_its_lease_writes_nothing(engine: Any) -> None:
    request = _asked()
    usual = engine[0]

    def overtaken(*args: Any, **more: Any) -> Any:
        AttributionRequest.objects.filter(pk=request.pk).update(lease_until=Now() - timedelta(seconds=1))
        engine.append(usual)
        assert conclude.attribute_now(request.pk, owner="another") is not None
        return an_engine_verdict(headline="what the sleeper thought")

    engine.append(overtaken)
    assert conclude.attribute_now(request.pk, owner="sleeper") is None
    assert Verdict.objects.get().headline == "saw applog/rank0.log:1"


def test_what_a_dead_worker_held_is_offered_again(engine: Any, sent: list[str]) -> None:
    request = _asked()
    assert lease.take(AttributionRequest, request.pk, "dead:1") is not None
    assert conclude.attribute_now(request.pk) is None
    assert conclude.sweep() == 0
    AttributionRequest.objects.update(lease_until=Now() - timedelta(seconds=1), sent_at=Now() - timedelta(minutes=1))
    sent.clear()
    assert conclude.sweep() == 1
    assert sent == ["verdicts.attribute"]
    assert conclude.attribute_now(request.pk) is not None


def test_a_lease_is_renewed_while_its_holder_lives(engine: Any) -> None:
    held = lease.take(AttributionRequest, _asked().pk, "me")
    assert held is not None
    AttributionRequest.objects.update(lease_until=Now() + timedelta(milliseconds=1))
    assert held.renew()
    row = AttributionRequest.objects.get()
    assert row.lease_until is not None
    assert row.lease_until - row.created_at > limits.LEASE / 2
    AttributionRequest.objects.update(fence=9)
    assert not held.renew()


def test_an_error_is_noted_tried_again_and_given_up_in_the_end(engine: Any) -> None:
    request = _asked()

    def broken(*args: Any, **more: Any) -> Any:
        raise ZeroDivisionError("in the engine\x00")

    engine.append(broken)
    for _ in range(limits.MAX_TRIES):
        AttributionRequest.objects.update(due_at=Now())
        with pytest.raises(ZeroDivisionError):
            conclude.attribute_now(request.pk)
        request.refresh_from_db()
        assert "ZeroDivisionError: in the engine\\x00" in request.error
    assert request.state == RequestState.FAILED
    assert conclude.attribute_now(request.pk) is None
    engine.pop()
    assert conclude.attribute_now(conclude.request_attribution(request.attempt_id, Mode.SLOW).pk) is not None


def test_a_request_that_kills_every_worker_is_given_up(engine: Any) -> None:
    request = _asked()
    for _ in range(limits.MAX_TRIES):
        assert lease.take(AttributionRequest, request.pk, "dies") is not None
        AttributionRequest.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert conclude.attribute_now(request.pk) is None
    conclude.sweep()
    request.refresh_from_db()
    assert request.state == RequestState.FAILED
    assert "5 tries" in request.error


def test_a_database_error_leaves_the_row_to_the_sweep(engine: Any) -> None:
    request = _asked()

    def gone(*args: Any, **more: Any) -> Any:
        raise OperationalError("the server closed the connection")

    engine.append(gone)
    with pytest.raises(OperationalError):
        conclude.attribute_now(request.pk)
    request.refresh_from_db()
    assert request.state == RequestState.RUNNING


def test_a_broker_that_is_down_does_not_fail_the_asking(
    engine: Any, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    def refuses(*args: Any, **more: Any) -> None:
        raise BrokerError("connection refused")

    monkeypatch.setattr(waking.current_app, "send_task", refuses)
    with django_capture_on_commit_callbacks(execute=True):
        request = _asked()
    request.refresh_from_db()
    assert (request.state, request.sent_at) == (RequestState.PENDING, None)
    woken: list[str] = []
    monkeypatch.setattr(waking.current_app, "send_task", lambda name, **_more: woken.append(name))
    assert conclude.sweep() == 0, "a broker that was away is left alone for a while"
    monkeypatch.setattr(waking, "_away_until", [0.0])
    assert conclude.sweep() == 1
    assert woken == ["verdicts.attribute"]


def test_a_worker_is_woken_after_the_commit_only(
    engine: Any, sent: list[str], django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        request = _asked()
        assert sent == []
    assert sent == ["verdicts.attribute"]
    assert request.sent_at is not None


def test_a_fast_request_is_answered_without_workers(engine: Any) -> None:
    request = _asked(Mode.FAST)
    answered = conclude.answer_within(request.pk, 0.2)
    assert (answered.state, answered.verdict is not None) == (RequestState.DONE, True)


def test_a_slow_request_is_waited_for_and_then_left(engine: Any) -> None:
    request = _asked()
    assert conclude.answer_within(request.pk, 0.1).state == RequestState.PENDING


def test_a_fast_request_that_fails_shows_why(engine: Any) -> None:
    def broken(*args: Any, **more: Any) -> Any:
        raise ValueError("no")

    engine.append(broken)
    answered = conclude.answer_within(_asked(Mode.FAST).pk, 0.2)
    assert (answered.state, answered.error) == (RequestState.PENDING, "ValueError: no")


def _together(jobs: list[Callable[[], Any]]) -> list[Any]:
    """Run jobs at the same moment, each on a connection of its own; what they return or raise, in order."""
    barrier = threading.Barrier(len(jobs))
    outcomes: list[Any] = [None] * len(jobs)

    def run(place: int, job: Callable[[], Any]) -> None:
        try:
            barrier.wait(10)
            outcomes[place] = job()
        except Exception as error:  # noqa: BLE001 - handed to the test
            outcomes[place] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(place, job)) for place, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return outcomes


@pytest.mark.django_db(transaction=True)
def test_many_workers_on_one_request_make_one_verdict(engine: Any) -> None:
    request = _asked()
    outcomes = _together([lambda: conclude.attribute_now(request.pk)] * 6)
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    assert len([outcome for outcome in outcomes if outcome is not None]) == 1
    assert Verdict.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_fast_and_slow_at_once_leave_one_standing_verdict(engine: Any) -> None:
    slow = _asked()
    fast = conclude.request_attribution(slow.attempt_id, Mode.FAST)
    _together([lambda: conclude.attribute_now(slow.pk), lambda: conclude.attribute_now(fast.pk)])
    assert Verdict.objects.current().get().mode == "slow"
    assert not AttributionRequest.objects.open().exists()
    numbers = sorted(Verdict.objects.values_list("number", flat=True))
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.django_db(transaction=True)
def test_many_writers_of_one_attempt_make_one_attempt_with_each_record_once(engine: Any) -> None:
    def send(start: int) -> Callable[[], Any]:
        def job() -> Any:
            attempt, _ = record.record_attempt(an_attempt())
            return record.add_observations(attempt.pk, [an_observation(number) for number in range(start, start + 6)])

        return job

    outcomes = _together([send(start) for start in (0, 3, 0, 6, 3)])
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    attempt = Attempt.objects.get()
    assert attempt.observations.count() == 12
    assert sum(outcome.stored for outcome in outcomes if not outcome.replayed) == 12


@pytest.mark.django_db(transaction=True)
def test_evidence_in_a_storm_of_attributions_is_in_the_last_verdict(engine: Any) -> None:
    request = _asked()

    def send(number: int) -> Callable[[], Any]:
        return lambda: record.add_observations(request.attempt_id, [an_observation(number)])

    def work() -> None:
        for _ in range(5):
            for pk in AttributionRequest.objects.open().values_list("pk", flat=True):
                conclude.attribute_now(pk)

    outcomes = _together([work, work, *(send(number) for number in range(2, 6))])
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    AttributionRequest.objects.open().update(due_at=Now())
    work()
    assert not AttributionRequest.objects.open().exists()
    assert Verdict.objects.current().get().headline == "saw " + ", ".join(f"applog/rank0.log:{n}" for n in range(1, 6))


@pytest.mark.django_db(transaction=True)
def test_two_standing_verdicts_are_impossible_in_the_database(engine: Any) -> None:
    verdict = conclude.attribute_now(_asked().pk)
    assert verdict is not None
    verdict.pk, verdict.number = None, 2
    with pytest.raises(IntegrityError, match="verdict_one_current"):
        verdict.save(force_insert=True)
    assert connection.is_usable()
