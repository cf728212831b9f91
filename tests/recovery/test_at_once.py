"""What many people, or one impatient client, ask for in the same moment: it is done once, and the others are told."""

import threading
from collections import Counter
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connections

from recovery.models import Policy, Replay
from recovery.policies import record
from recovery.replay import begin
from rules.attempt import InputError
from tests.recovery.policy_builders import BODY
from tests.verdicts.page_bodies import a_verdict, an_attempt

AT_ONCE = 12


def at_once(ask: Callable[[], object]) -> Counter[str]:
    """Ask many times in the same moment; what came of it: "done", or the name of the error."""
    start, came = threading.Barrier(AT_ONCE), Counter[str]()

    def run() -> None:
        try:
            start.wait(30)
            ask()
            came["done"] += 1
        except (ValueError, DatabaseError) as error:
            came[type(error).__name__] += 1
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return came


def test_one_policy_of_a_name_and_no_more_replays_than_a_person_may_have(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lea = User.objects.create_superuser("lea")
    came = at_once(lambda: record.create("leave-out", BODY, by=lea, reason="to see how it does"))
    assert came == {"done": 1, InputError.__name__: AT_ONCE - 1}
    assert Policy.objects.get().versions.count() == 1

    a_verdict(an_attempt())
    monkeypatch.setattr(begin.waking, "wake_all", lambda: 0)
    came = at_once(lambda: begin.begin_as(begin.Wish(), by=lea))
    assert came == {"done": begin.MOST_OPEN, begin.NotNow.__name__: AT_ONCE - begin.MOST_OPEN}
    assert Replay.objects.count() == begin.MOST_OPEN
