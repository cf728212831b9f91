"""Brokers that are away or hang: soon over, and never an error."""

import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, cast

import pytest
from celery import current_app

from tests.verdicts.builders import a_user, an_attempt
from verdicts import conclude, limits, record, waking
from verdicts.choices import Mode
from verdicts.collecting import gather
from verdicts.lease import Kept
from verdicts.models import AttributionRequest, Discovery

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _not_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "_away_until", [0.0])


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener.getsockname()[1]


def _wake(monkeypatch: pytest.MonkeyPatch, url: str) -> tuple[int, float]:
    monkeypatch.setattr(current_app.conf, "broker_url", url)
    monkeypatch.setattr(current_app.conf, "broker_write_url", url)
    began = time.monotonic()
    return waking.wake([uuid.uuid4(), uuid.uuid4()]), time.monotonic() - began


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_is_down_is_left_to_the_sweep(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        sent, seconds = _wake(monkeypatch, f"{scheme}://127.0.0.1:{unused.getsockname()[1]}")
    assert sent == 0
    assert seconds < 5 * waking.PATIENCE


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_hangs_is_left_to_the_sweep(monkeypatch: pytest.MonkeyPatch, silent: int, scheme: str) -> None:
    sent, seconds = _wake(monkeypatch, f"{scheme}://127.0.0.1:{silent}")
    assert sent == 0
    assert seconds < 5 * waking.PATIENCE


@pytest.mark.parametrize("url", ["nobroker://host", "redis://host:port/0"])
def test_an_address_that_names_no_broker_is_left_to_the_sweep(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    assert _wake(monkeypatch, url)[0] == 0


def test_a_broker_that_was_not_reached_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch, silent: int, sent: list[str]
) -> None:
    tried: list[str] = []

    def fails(*_: object, **__: object) -> None:
        tried.append("send")
        raise OSError("hangs")

    with monkeypatch.context() as away:
        away.setattr(waking, "_send", fails)
        assert [waking.wake([uuid.uuid4()]) for _ in range(100)] == [0] * 100
    assert len(tried) == 2
    assert waking.wake([uuid.uuid4()]) == 0
    monkeypatch.setattr(waking, "_away_until", [0.0])
    assert waking.wake([uuid.uuid4()]) == 1
    assert sent == ["verdicts.attribute"]


def test_a_flood_sends_few_wake_ups_and_the_sweep_finds_what_sent_none(
    sent: list[str], django_capture_on_commit_callbacks: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "WITHIN", 600.0)
    attempts = [record.record_attempt(an_attempt(str(number)))[0] for number in range(waking.ENOUGH + 3)]
    for attempt in attempts:
        with django_capture_on_commit_callbacks(execute=True):
            conclude.request_attribution(attempt.pk, Mode.SLOW)
    assert len(sent) == waking.ENOUGH
    assert AttributionRequest.objects.filter(sent_at__isnull=True).count() == 3
    assert conclude.sweep() == 3
    with django_capture_on_commit_callbacks(execute=True):
        conclude.request_attribution(attempts[0].pk, Mode.FAST, by=a_user("who-waits"))
    assert len(sent) == waking.ENOUGH + 4


def test_a_worker_that_worked_long_enough_wakes_another_for_what_is_left(
    sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WORK_SECONDS", 0.0)
    assert (gather.work(), conclude.work()) == (0, 0)
    assert sent == ["verdicts.collect", "verdicts.attribute"]


def test_progress_that_cannot_be_said_does_not_lose_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RENEW_EVERY", timedelta(milliseconds=1))
    renewed = threading.Event()

    class Held:
        row = Discovery(name="slurm")

        def renew(self, **progress: object) -> bool:
            assert progress == {}
            renewed.set()
            return True

    def changes() -> dict[str, object]:
        raise RuntimeError("dictionary changed size during iteration")

    with Kept(cast("Any", Held()), changes):
        assert renewed.wait(30)
