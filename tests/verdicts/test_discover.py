"""Looks for attempts: what one discovery says is about what it found, and nothing stops a look for good."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from rules.attempt import Attempt as GivenAttempt
from tests.verdicts.builders import an_attempt
from verdicts import clusters, limits, record
from verdicts.choices import RequestState
from verdicts.collecting import discover
from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.config import Clusters, ClusterSettings
from verdicts.collectors.source import DiscoverySettings, Found
from verdicts.lease import take
from verdicts.models import Attempt, Collection, Discovery

pytestmark = pytest.mark.django_db

FINDS: dict[str, Callable[[dict[str, Any]], Found]] = {}


class Told(DiscoverySettings, tag="told", frozen=True, kw_only=True):
    """A discovery that finds what the test says."""

    def discover(self, cursor: dict[str, Any], now: datetime, budget: Budget) -> Found:
        return FINDS[self.name](cursor)


Look = Callable[..., list[Discovery]]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> Look:
    """Have the discoveries of the cluster alpha look once: each finds these attempts, and lists those of them that
    have no end."""
    FINDS.clear()
    clusters.cluster_row.cache_clear()

    def once(**finds: list[GivenAttempt] | Found | Exception) -> list[Discovery]:
        told: Any = [Told(name=name) for name in finds]
        settings = ClusterSettings(name="alpha", settle=0, vanish_after=0, discovery=told)
        monkeypatch.setattr(discover, "current_clusters", lambda: Clusters(cluster=[settings]))
        FINDS.update({name: lambda _, found=found: answer(found) for name, found in finds.items()})  # type: ignore[misc]
        discover.ensure()
        Discovery.objects.update(due_at=Now())
        discover.work()
        return list(Discovery.objects.order_by("name"))

    return once


def answer(found: list[GivenAttempt] | Found | Exception) -> Found:
    if isinstance(found, Exception):
        raise found
    if isinstance(found, Found):
        return found
    return Found(attempts=found, cursor={}, listed=frozenset(one.job_id for one in found if not one.end))


def running(job_id: str, **more: Any) -> GivenAttempt:
    return an_attempt(job_id, **({"state": "RUNNING", "end": None} | more))


def states() -> dict[str, str]:
    return dict(Attempt.objects.values_list("job_id", "state"))


# Who speaks for what -----------------------------------------------------------------------------


def test_what_one_discovery_does_not_list_another_may_have(look: Look) -> None:
    pods = running("ml/job/llama@1f0c", scheduler="kubernetes")
    for _ in range(3):
        look(slurm=[running("1")], other=[running("2")], kubernetes=[pods])
    assert set(states().values()) == {"RUNNING"}
    assert not Attempt.objects.filter(missing_since__isnull=False).exists()


def test_what_a_tool_sent_does_not_vanish_because_no_discovery_lists_it(look: Look) -> None:
    record.record_attempt(running("sent"))
    for _ in range(3):
        look(slurm=[running("1")])
    assert states()["sent"] == "RUNNING"


def test_what_a_tool_sent_and_a_discovery_found_too_vanishes_with_it(look: Look) -> None:
    record.record_attempt(running("1"))
    look(slurm=[running("1")])
    look(slurm=[])
    look(slurm=[])
    assert states()["1"] == "UNKNOWN"


def test_a_discovery_that_was_renamed_goes_on_speaking_for_what_it_finds(look: Look) -> None:
    look(slurm=[running("1"), running("2")])
    look(renamed=[running("1"), running("2")])
    for _ in range(2):
        look(renamed=[running("2")])
    assert states() == {"1": "UNKNOWN", "2": "RUNNING"}


def test_a_job_that_moves_to_what_another_discovery_sees_does_not_vanish(look: Look) -> None:
    look(a=[running("1")], b=[])
    for _ in range(3):
        look(b=[running("1")], a=[])
    assert states() == {"1": "RUNNING"}


def test_a_job_that_is_back_after_it_was_given_up_goes_on_and_is_collected_when_it_ends(look: Look) -> None:
    look(slurm=[running("1")])
    for _ in range(2):
        look(slurm=[])
    assert Attempt.objects.get().ended_at is not None
    look(slurm=[running("1")])
    back = Attempt.objects.get()
    assert (back.state, back.ended_at, back.missing_since) == ("RUNNING", None, None)
    assert "reason" not in back.body
    look(slurm=[an_attempt("1", end=timezone.now().isoformat())])
    assert Attempt.objects.get().state == "FAILED"


def test_names_of_jobs_that_no_database_can_hold_hide_no_others(look: Look) -> None:
    for _ in range(2):
        [row] = look(static=[running("a\x00b"), running("c\ud800d"), running("good")])
        assert (row.failures, row.error) == (0, "")
    assert sorted(states()) == ["a\\x00b", "c\\ud800d", "good"]


def test_an_attempt_that_breaks_the_store_hides_no_others(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = record.record_attempt

    def breaks(given: GivenAttempt, **more: Any) -> Any:
        if given.job_id == "bad":
            raise ZeroDivisionError("x")
        return stored(given, **more)

    monkeypatch.setattr(record, "record_attempt", breaks)
    [row] = look(slurm=[running("bad"), running("good")])
    assert sorted(states()) == ["good"]
    assert row.notes == ["job bad: a fault of Inquest: ZeroDivisionError: x"]


def test_an_attempt_that_cannot_be_given_up_keeps_no_other(look: Look) -> None:
    look(slurm=[running("bad"), running("good")])
    Attempt.objects.filter(job_id="bad").update(body={"job_id": 7})
    look(slurm=[])
    [row] = look(slurm=[])
    assert states() == {"bad": "RUNNING", "good": "UNKNOWN"}
    assert any("job bad: a fault of Inquest" in note for note in row.notes)
    assert row.failures == 0


def test_a_look_at_the_same_attempts_again_writes_nothing(
    look: Look, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    many = [running(str(number)) for number in range(50)]
    look(slurm=many, other=[])
    with django_assert_max_num_queries(60):
        look(slurm=many, other=[])


# Looks that fail ---------------------------------------------------------------------------------


def test_a_discovery_that_was_taken_out_of_the_file_and_put_back_looks_again(look: Look) -> None:
    look(slurm=[running("1")], other=[])
    look(slurm=[running("1")])
    assert Discovery.objects.get(name="other").state == RequestState.FAILED
    look(slurm=[running("1")], other=[running("2")])
    assert sorted(states()) == ["1", "2"]
    assert Discovery.objects.get(name="other").error == ""


def test_a_discovery_whose_workers_died_again_and_again_is_tried_again_later(look: Look) -> None:
    look(slurm=[running("1")])
    gone = Now() - timedelta(seconds=1)
    Discovery.objects.update(state="running", lease_owner="dead", lease_until=gone, tries=limits.MAX_TRIES, fence=9)
    discover.ensure()
    row = Discovery.objects.get()
    assert (row.state, row.tries, row.failures) == ("pending", 0, 1)
    assert row.due_at > timezone.now()
    assert "workers that took it ended" in row.error
    [row] = look(slurm=[running("1")])
    assert (row.failures, row.error) == (0, "")


def test_a_look_that_fails_is_told_of_and_comes_round_later_each_time(look: Look) -> None:
    pauses = []
    for _ in range(8):
        [row] = look(slurm=SourceError("slurmrestd: HTTP 500"))
        pauses.append((row.due_at - timezone.now()).total_seconds())
    assert row.failures == 8
    assert row.error == "slurmrestd: HTTP 500"
    assert pauses[0] < 11
    assert pauses[-1] == pytest.approx(300, abs=5)
    assert row.turn_at == row.due_at


@pytest.mark.parametrize("cursor", [{"x": float("nan")}, {"x": object()}], ids=["nan", "no JSON"])
def test_a_cursor_that_cannot_be_stored_is_a_failed_look_that_keeps_the_old_one(look: Look, cursor: Any) -> None:
    look(slurm=Found(attempts=[], cursor={"at": 7}))
    [row] = look(slurm=Found(attempts=[running("1")], cursor=cursor))
    assert (row.state, row.failures, row.cursor) == ("pending", 1, {"at": 7})
    assert row.error.startswith("a fault of Inquest")
    assert sorted(states()) == ["1"]


def test_what_a_look_notes_is_stored_however_it_reads_and_however_many(look: Look) -> None:
    notes = (
        "a\x00b",
        "Authorization: Bearer hunter2hunter2hunter2",
        "x" * 9000,
        *(f"note {number}" for number in range(100)),
    )
    [row] = look(slurm=Found(attempts=[], cursor={"\x00": "\ud800"}, notes=notes))
    assert len(row.notes) == discover.MAX_NOTES
    assert row.notes[0] == "a\\x00b"
    assert "hunter2" not in row.notes[1]
    assert row.notes[-1] == "and 84 more"
    assert row.failures == 0


def test_a_worker_that_lost_its_look_to_another_moves_no_cursor(look: Look) -> None:
    def taken_over(cursor: dict[str, Any]) -> Found:
        row = Discovery.objects.get()
        Discovery.objects.update(lease_until=Now() - timedelta(seconds=1))
        assert take(Discovery, row.pk) is not None
        return Found(attempts=[running("1")], cursor={"at": 1})

    look(slurm=[])
    FINDS["slurm"] = taken_over
    Discovery.objects.update(due_at=Now())
    discover.work()
    row = Discovery.objects.get()
    assert (row.state, row.cursor) == ("running", {})
    assert Attempt.objects.count() == 1
    assert not Collection.objects.exists()
