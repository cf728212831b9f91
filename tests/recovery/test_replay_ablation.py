"""Evidence left out, delayed or put in, and how conclusions move."""

import msgspec
import pytest

from recovery.ledger.entries import Actor
from recovery.models import Replay
from recovery.replay import begin, report, work
from recovery.replay.ablate import INJECTED, Ablation, Given, Unanswerable, ablated, checked
from recovery.replay.begin import Wish
from recovery.replay.words import ItemOutcome
from rules.attempt import InputError
from rules.observation import Observation
from rules.words import ReportStatus, Source
from tests.recovery.replaying import DISK, FAN, LINK, concluded, in_force, rules
from tests.verdicts.builders import a_report, an_attempt, an_observation


def given(*observations: Observation) -> Given:
    return Given(an_attempt(nodes=["gpu-01", "gpu-02"]), list(observations), [a_report(Source.SYSLOG), a_report()])


def test_without_a_source_neither_its_lines_nor_its_report_are_there() -> None:
    kept = an_observation(1)
    left = ablated(given(kept, an_observation(2, source=Source.SYSLOG)), Ablation(without=Source.SYSLOG))
    assert left.observations == [kept] and [report.source for report in left.reports] == [Source.APPLOG]
    assert left.attempt.state == "FAILED"


def test_without_the_scheduler_its_word_in_the_attempt_goes_too() -> None:
    left = ablated(given(), Ablation(without=Source.SCHEDULER))
    assert (left.attempt.state, left.attempt.exit_code) == ("", None)


def test_a_delay_shifts_what_a_record_carries_and_what_its_text_alone_says() -> None:
    printed = an_observation(2, source=Source.SYSLOG, timestamp=None, body="2026-11-03T02:11:04+00:00 gpu-01 kernel: x")
    dated = an_observation(1, source=Source.SYSLOG, timestamp="2026-11-03T02:11:00+00:00")
    undated = an_observation(3, source=Source.SYSLOG, timestamp=None, body="no time at all")
    other = an_observation(4)
    left = ablated(given(dated, printed, undated, other), Ablation(delay=Source.SYSLOG, seconds=90))
    assert [one.timestamp for one in left.observations] == [
        "2026-11-03T02:12:30+00:00",
        "2026-11-03T02:12:34+00:00",
        None,
        other.timestamp,
    ]
    early = ablated(
        given(an_observation(1, source=Source.SYSLOG, timestamp="boot:12.5")), Ablation(delay=Source.SYSLOG, seconds=2)
    )
    assert early.observations[0].timestamp == "boot:14.500000"


def test_a_line_is_put_in_elsewhere_at_its_time_and_is_reported() -> None:
    left = ablated(given(), Ablation(line="fan 1 stands still", at="-60s"), frozenset({"gpu-01"}))
    (line,) = left.observations
    assert (line.node, line.timestamp, line.ref) == ("gpu-02", "2026-11-03T02:10:04+00:00", INJECTED)
    assert [report.delivered for report in left.reports] == [2, 1]
    new = ablated(given(), Ablation(line="x", source=Source.FABRIC_MANAGER, at="2026-11-03T02:00:00Z", node="gpu-09"))
    assert new.reports[-1].status is ReportStatus.PARTIAL and new.observations[0].node == "gpu-09"
    endless = Given(msgspec.structs.replace(an_attempt(), end=None), [], [])
    with pytest.raises(Unanswerable, match="no end"):
        ablated(endless, Ablation(line="x"))


def test_an_ablation_that_asks_nothing_is_refused() -> None:
    for wrong, field in (
        (Ablation(), "ablation"),
        (Ablation(delay=Source.SYSLOG), "seconds"),
        (Ablation(delay=Source.SYSLOG, seconds=float("nan")), "seconds"),
        (Ablation(delay=Source.SYSLOG, seconds=float("inf")), "seconds"),
        (Ablation(delay=Source.SYSLOG, seconds=-1e300), "seconds"),
        (Ablation(line="x", at="soon"), "at"),
    ):
        with pytest.raises(InputError, match=f"^{field}: "):
            checked(wrong)


@pytest.mark.django_db
def test_how_conclusions_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begin.waking, "wake_task", lambda *_, **__: True)
    in_force(monkeypatch, rules())
    attempts = {line: concluded(str(number), line) for number, line in enumerate((FAN, DISK))}

    def replayed(ablation: Ablation) -> Replay:
        row = begin.begin(Wish(ablation=ablation), Actor.system("test"))
        work.run(60, alone=True)
        row.refresh_from_db()
        return row

    row = replayed(Ablation(without=Source.SYSLOG))
    moves = dict(row.items.values_list("attempt_id", "move"))
    assert moves == {
        attempts[FAN].pk: "host_hardware → unattributed",
        attempts[DISK].pk: "storage → unattributed",
    }
    assert not row.items.filter(stronger=True).exists()
    # With less to see nothing is told with more strength.
    row = replayed(Ablation(without=Source.APPLOG))
    assert not row.items.filter(stronger=True).exists()
    # What was not there cannot be missed.
    row = replayed(Ablation(without=Source.FABRIC_MANAGER))
    assert row.items.filter(outcome=ItemOutcome.SAME).count() == 2
    row = replayed(Ablation(line=f"kernel: {LINK}", at="-300s"))
    assert set(row.items.values_list("move", flat=True)) == {
        "host_hardware → ambiguous",
        "storage → ambiguous",
    }
    assert "a node not at fault" in "\n".join(report.lines(row))
