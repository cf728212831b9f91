"""The dispatcher on a real PostgreSQL, against a Slurm that misbehaves: one effect, and nothing left held."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from recovery import brakes, moves
from recovery.acting import dispatch as act
from recovery.ledger.entries import Actor
from recovery.models import Action, Exclusion, LedgerEntry, Milestone, Proposal
from recovery.words import ActionKind, ActionState, EntryKind, ProposalState, VetoKind
from tests.recovery.acting import a_failed_attempt, acting_on, an_action, dispatch, lose_worker, the_job
from tests.recovery.fake_slurm import FakeSlurm, Killed
from tests.verdicts.builders import a_user
from verdicts.models import Attempt
from verdicts.record import record_attempt

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt() -> Attempt:
    return a_failed_attempt()


@pytest.fixture(autouse=True)
def stop_file(settings: Any, tmp_path: Path) -> Path:
    settings.INQUEST_RECOVERY_STOP_FILE = str(tmp_path / "stop")
    return tmp_path / "stop"


def kinds(action: Action) -> list[str]:
    """What the ledger has of an action and its proposal, in order."""
    return list(
        LedgerEntry.objects.filter(subject__in=[str(action.pk), str(action.proposal_id)])
        .order_by("at")
        .values_list("kind", flat=True)
    )


def test_each_call_is_written_down_before_it_is_sent_and_the_end_is_what_was_seen(
    attempt: Attempt, monkeypatch: Any
) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)
    known: list[tuple[str, str]] = []

    def look_at_the_row(verb: str) -> None:
        row = Action.objects.get(pk=action.pk)
        known.append((row.calls[-1]["step"], row.calls[-1]["answer"]))
        assert row.outcome == ActionState.SENT

    fake.before_call = look_at_the_row
    with acting_on(fake, monkeypatch):
        dispatch()
    action.refresh_from_db()
    assert [step for step, _ in known] == ["requeue_hold", "mark", "exclude", "release"]
    assert {answer for _, answer in known} == {""}
    assert action.outcome == ActionState.CONVERGED and action.state == "done"
    assert [call["answer"] for call in action.calls] == ["ok"] * 4
    assert action.observed["restarts"] == 1 and action.observed["excluded"] == ["gpu-01"]
    assert kinds(action) == [
        EntryKind.ACTION_INTENDED,
        *[EntryKind.ACTION_SENT] * 4,
        EntryKind.ACTION_OBSERVED,
        EntryKind.MILESTONE,
        EntryKind.PROPOSAL_CLOSED,
    ]
    assert action.proposal.__class__.objects.get(pk=action.proposal_id).state == ProposalState.CLOSED
    [exclusion] = Exclusion.objects.all()
    assert (exclusion.node, exclusion.kind, exclusion.state) == ("gpu-01", "job", "standing")
    [milestone] = Milestone.objects.all()
    assert milestone.kind == "action_done" and milestone.at <= milestone.observed_at


VERBS = ["requeuehold", "admincomment", "excnodelist", "release"]


@pytest.mark.parametrize("fate", ["dies_before", "dies_after"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_dispatcher_that_dies_at_any_step_is_taken_over_without_a_second_effect(
    verb: str, fate: str, attempt: Attempt, monkeypatch: Any
) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)
    fake.fates = {verb: [fate]}
    with acting_on(fake, monkeypatch):
        with pytest.raises(Killed):
            dispatch()
        lose_worker()
        dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.CONVERGED
    assert fake.effects == {"requeue": 1, "exclude": 1}
    assert fake.record is not None and not fake.record.held
    assert Exclusion.objects.count() == 1


@pytest.mark.parametrize("verb", VERBS)
def test_a_call_that_was_applied_and_timed_out_is_unknown_until_it_is_seen(
    verb: str, attempt: Attempt, monkeypatch: Any
) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)
    fake.fates = {verb: ["timeout"]}
    states: list[str] = []
    fake.after_look = lambda: states.append(Action.objects.get(pk=action.pk).outcome)
    with acting_on(fake, monkeypatch, settle=3600.0):
        dispatch()
    action.refresh_from_db()
    assert ActionState.UNKNOWN in states
    assert action.outcome == ActionState.CONVERGED
    assert fake.effects == {"requeue": 1, "exclude": 1}


def test_what_may_still_be_applied_is_not_sent_again_and_what_cannot_be_seen_stays_unknown(
    attempt: Attempt, monkeypatch: Any
) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)
    fake.fates = {"requeuehold": ["late"]}
    with acting_on(fake, monkeypatch, settle=3600.0):
        monkeypatch.setattr(act, "PATIENCE", 0.0)
        dispatch(3)
        action.refresh_from_db()
        assert (action.outcome, action.state) == (ActionState.UNKNOWN, "pending")
        assert len(fake.sent) == 1
        fake.unseen = 2
        dispatch(2)
        action.refresh_from_db()
        assert action.outcome == ActionState.UNKNOWN and "cannot be looked at" in action.why
        fake.tick()
        dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.CONVERGED and fake.effects["requeue"] == 1
    assert action.tries < 3, "to look again is no failed try"


def test_a_veto_in_mid_flight_ends_it_before_the_next_step_and_gives_the_job_back(
    attempt: Attempt, monkeypatch: Any
) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)
    lead = a_user("lea", "lead")

    def veto(verb: str) -> None:
        if verb == "requeuehold":
            brakes.set_veto(attempt.cluster, VetoKind.NODE, "gpu-01", by=lead, reason="I am at the machine")

    fake.before_call = veto
    with acting_on(fake, monkeypatch):
        dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.ABANDONED and "veto" in action.why
    assert [call["step"] for call in action.calls] == ["requeue_hold", "release"]
    assert fake.record is not None and not fake.record.held and not fake.record.excluded
    assert Proposal.objects.get(pk=action.proposal_id).state == ProposalState.VETOED
    assert not Exclusion.objects.exists() and not Milestone.objects.exists()


def test_the_kill_switch_stops_everything_before_the_first_call(
    attempt: Attempt, monkeypatch: Any, stop_file: Path
) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)
    stop_file.touch()
    with acting_on(fake, monkeypatch):
        dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.ABANDONED and "stop file" in action.why
    assert fake.sent == []


def test_the_kill_switch_is_asked_at_the_last_moment_and_never_stops_a_release(
    attempt: Attempt, monkeypatch: Any, stop_file: Path
) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)
    fake.before_call = lambda verb: stop_file.touch() if verb == "requeuehold" else None
    with acting_on(fake, monkeypatch):
        dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.ABANDONED
    assert [sent[0] for sent in fake.sent] == ["requeuehold", "release"]
    assert fake.record is not None and not fake.record.held


def test_a_proposal_that_was_taken_back_meanwhile_is_not_acted_on(attempt: Attempt, monkeypatch: Any) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)
    moves.end(action.proposal_id, ProposalState.VETOED, actor=Actor.system("test"), why="no")
    with acting_on(fake, monkeypatch):
        dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.ABANDONED and fake.sent == []
    assert Proposal.objects.get(pk=action.proposal_id).state == ProposalState.VETOED


def test_a_job_that_runs_again_already_is_not_acted_on(attempt: Attempt, monkeypatch: Any) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt, restarts=1)
    with acting_on(fake, monkeypatch):
        dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.ABANDONED and "restart 1 already" in action.why and fake.sent == []


def test_the_next_attempt_of_the_job_being_found_does_not_stop_what_made_it(attempt: Attempt, monkeypatch: Any) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)
    later = (timezone.now() + timedelta(seconds=5)).isoformat()

    def found(verb: str) -> None:
        if verb == "release":
            from tests.verdicts.builders import an_attempt

            record_attempt(an_attempt("4711", submit_time=later, start=later, end=None, restart_count=1))

    fake.before_call = found
    fake.fates = {"release": ["dies_before"]}
    with acting_on(fake, monkeypatch):
        with pytest.raises(Killed):
            dispatch()
        lose_worker()
        dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.CONVERGED, action.why


def test_past_its_deadline_nothing_goes_forward(attempt: Attempt, monkeypatch: Any) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)

    def late(verb: str) -> None:
        if verb == "requeuehold":
            Action.objects.filter(pk=action.pk).update(deadline=timezone.now() - timedelta(seconds=1))

    fake.before_call = late
    fake.fates = {"requeuehold": ["dies_after"]}
    with acting_on(fake, monkeypatch):
        with pytest.raises(Killed):
            dispatch()
        lose_worker()
        dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.ABANDONED and "deadline" in action.why
    assert fake.record is not None and not fake.record.held and not fake.record.excluded


def test_a_worker_that_was_asleep_for_too_long_sends_nothing(attempt: Attempt, monkeypatch: Any) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)
    # Between its look and its call another worker takes the row over.
    fake.after_look = lambda: Action.objects.filter(pk=action.pk).update(fence=99)
    with acting_on(fake, monkeypatch):
        act.work(pause=lambda _: None)
    assert fake.sent == []


def test_without_a_way_to_the_scheduler_nothing_is_done(attempt: Attempt) -> None:
    action = an_action(attempt=attempt)
    dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.ABANDONED and "INQUEST_RECOVERY_FILE" in action.why


def test_an_action_that_is_not_allowed_here_is_not_done(attempt: Attempt, monkeypatch: Any) -> None:
    action, fake = an_action(ActionKind.STOP, attempt=attempt), FakeSlurm()
    with acting_on(fake, monkeypatch) as way:
        way.can = frozenset({ActionKind.RESTART})
        dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.ABANDONED and "stop is none of the actions" in action.why


def test_a_row_that_fails_for_a_reason_of_ours_is_tried_again_and_then_left_to_the_watchdog(
    attempt: Attempt, monkeypatch: Any
) -> None:
    action, fake = an_action(attempt=attempt), the_job(attempt)

    def broken() -> None:
        raise RuntimeError("a fault of ours")

    fake.after_look = broken
    with acting_on(fake, monkeypatch):
        dispatch()
    action.refresh_from_db()
    assert action.state == "failed" and action.outcome == ActionState.INTENDED and "a fault of ours" in action.error


def test_an_owner_is_told_by_mail_once(attempt: Attempt, settings: Any, mailoutbox: list[Any]) -> None:
    settings.EMAIL_URL = "smtp://mail"
    a_user("ada", "viewer").__class__.objects.filter(username="ada").update(email="ada@example.org")
    action = an_action(ActionKind.NOTIFY, attempt=attempt, says="Tell the owner of job 4711.", nodes=[])
    dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.CONVERGED, action.why
    [mail] = mailoutbox
    assert mail.to == ["ada@example.org"] and "Tell the owner" in mail.body


def test_an_owner_without_an_address_is_left_to_a_person(attempt: Attempt) -> None:
    action = an_action(ActionKind.NOTIFY, attempt=attempt, nodes=[])
    dispatch()
    action.refresh_from_db()
    assert action.outcome == ActionState.FAILED and "tell them yourself" in action.why
