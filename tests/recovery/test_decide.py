"""What people decide, on the plan that they saw, and what time and newer facts decide."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from recovery import brakes, decide, exclusions, machine, moves, propose
from recovery.ledger.entries import Actor
from recovery.models import Action, Brake, Decision, Exclusion, LedgerEntry, Proposal, RankProgress
from recovery.words import (
    ActionKind,
    ActionState,
    BrakeKind,
    EntryKind,
    ExclusionKind,
    ExclusionState,
    ProposalState,
    RejectReason,
    VetoKind,
)
from rules.attempt import InputError
from rules.words import Domain, State
from tests.recovery.deciding import a_cluster, a_policy, failed, judged
from tests.verdicts.builders import a_ruleset, a_user
from verdicts import conclude

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conclude, "current_ruleset", a_ruleset)
    monkeypatch.setattr(moves, "wake", lambda *_: 0)
    a_cluster()


@pytest.fixture
def proposal() -> Proposal:
    a_policy()
    (made,) = propose.consider(judged(failed()).pk)
    return made


@pytest.fixture
def ada() -> Any:
    return a_user("ada", "operator")


def kinds() -> list[str]:
    return list(
        LedgerEntry.objects.filter(subject_kind__in=["proposal", "action"])
        .order_by("at")
        .values_list("kind", flat=True)
    )


def test_an_approval_of_what_was_seen_begins_the_action(proposal: Proposal, ada: Any) -> None:
    done = decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256)
    assert done.state == ProposalState.ACTING
    assert Action.objects.get(proposal=proposal).outcome == ActionState.INTENDED
    assert Decision.objects.get().roles == ["operator"]
    assert kinds() == [EntryKind.PROPOSAL_MADE, EntryKind.PROPOSAL_APPROVED, EntryKind.ACTION_INTENDED]
    with pytest.raises(decide.AlreadyDecided, match="approve by ada"):
        decide.approve(proposal.pk, by=a_user("bob", "operator"), seen=proposal.plan_sha256)
    assert Action.objects.count() == 1


def test_another_plan_than_the_one_on_the_screen_is_refused(proposal: Proposal, ada: Any) -> None:
    with pytest.raises(decide.PlanChanged, match="look at it again"):
        decide.approve(proposal.pk, by=ada, seen="0" * 64)


def test_a_superseded_verdict_is_refused_and_then_taken_back(proposal: Proposal, ada: Any) -> None:
    judged(proposal.attempt, headline="late evidence")
    with pytest.raises(decide.PlanChanged, match="superseded"):
        decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256)
    assert decide.withdraw_stale() == 1
    proposal.refresh_from_db()
    assert proposal.state == ProposalState.WITHDRAWN
    with pytest.raises(decide.WrongMove, match="superseded"):
        decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256)


@pytest.mark.parametrize(
    ("later", "why"),
    [
        ({"restart_count": 1}, "was restarted meanwhile"),
        ({"submit_time": "in an hour"}, "belongs to a later submission"),
    ],
)
def test_a_job_that_runs_again_or_whose_id_was_given_away_is_left_alone(
    proposal: Proposal, ada: Any, later: dict[str, Any], why: str
) -> None:
    before = proposal.attempt.submit_time
    assert before is not None
    if "submit_time" in later:
        later = {"submit_time": (before + timedelta(hours=1)).isoformat()}
    else:
        later = later | {"submit_time": before.isoformat()}
    failed(**later)
    with pytest.raises(decide.PlanChanged, match=why):
        decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256)
    decide.sweep()
    proposal.refresh_from_db()
    assert proposal.state == ProposalState.WITHDRAWN


def test_a_job_that_moves_again_is_not_disturbed(ada: Any) -> None:
    a_policy(action="restart")
    attempt = failed(end=None, state="RUNNING")
    (made,) = propose.consider(judged(attempt, terminal_state=State.HUNG).pk)
    now = timezone.now()
    RankProgress.objects.create(attempt=attempt, via="post", step=8, observed_at=now, moved_at=now)
    with pytest.raises(decide.PlanChanged, match="moves again: step 8"):
        decide.approve(made.pk, by=ada, seen=made.plan_sha256)
    decide.sweep()
    made.refresh_from_db()
    assert made.state == ProposalState.WITHDRAWN


def test_who_may_not_decide_is_told_what_is_missing(proposal: Proposal) -> None:
    eve = a_user("eve", "viewer")
    assert "operator" in decide.why_not(proposal, eve)
    for act in (decide.approve, decide.ask):
        with pytest.raises(decide.NotPermitted, match="operator"):
            act(proposal.pk, by=eve, seen=proposal.plan_sha256, text="x")


def test_your_own_proposal_is_approved_by_another(ada: Any) -> None:
    made = propose.propose_by_hand(failed(), ActionKind.RESTART, [], by=ada, reason="try again")
    with pytest.raises(decide.NotPermitted, match="another person"):
        decide.approve(made.pk, by=ada, seen=made.plan_sha256)
    assert decide.approve(made.pk, by=a_user("bob", "operator"), seen=made.plan_sha256).state == ProposalState.ACTING


def test_draining_and_many_nodes_take_two_people(ada: Any) -> None:
    made = propose.propose_by_hand(failed(), ActionKind.DRAIN, ["gpu-01"], by=a_user("cleo", "operator"), reason="x")
    assert made.approvals_needed == 2
    first = decide.approve(made.pk, by=ada, seen=made.plan_sha256)
    assert first.state == ProposalState.OPEN and decide.wanting(first) == "another person approves"
    with pytest.raises(decide.AlreadyDecided, match="another person is needed"):
        decide.approve(made.pk, by=ada, seen=made.plan_sha256)
    assert decide.approve(made.pk, by=a_user("bob", "operator"), seen=made.plan_sha256).state == ProposalState.ACTING


def test_the_author_of_the_policy_is_not_enough_alone(proposal: Proposal, ada: Any) -> None:
    assert proposal.version is not None and proposal.version.author is not None
    author = proposal.version.author
    author.groups.add(*ada.groups.all())
    first = decide.approve(proposal.pk, by=author, seen=proposal.plan_sha256)
    assert first.state == ProposalState.OPEN and "did not write the policy" in decide.wanting(first)
    assert decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256).state == ProposalState.ACTING


def test_an_ambiguous_verdict_is_approved_with_words_only(ada: Any) -> None:
    verdict = judged(failed(), attributed_domain=Domain.AMBIGUOUS, strength=None, causes=[])
    made = propose.propose_by_hand(
        verdict.attempt, ActionKind.RESTART, [], by=a_user("bob", "operator"), reason="cheap to try"
    )
    with pytest.raises(InputError, match="the verdict is ambiguous"):
        decide.approve(made.pk, by=ada, seen=made.plan_sha256)
    assert decide.approve(made.pk, by=ada, seen=made.plan_sha256, text="it is cheap").state == ProposalState.ACTING


def test_a_rejection_has_a_reason_and_nothing_follows_it(proposal: Proposal, ada: Any) -> None:
    with pytest.raises(InputError, match="reason: one of wrong_node"):
        decide.reject(proposal.pk, by=ada, seen=proposal.plan_sha256, reason="because")
    with pytest.raises(InputError, match="in words"):
        decide.reject(proposal.pk, by=ada, seen=proposal.plan_sha256, reason=RejectReason.OTHER)
    decide.reject(proposal.pk, by=ada, seen=proposal.plan_sha256, reason=RejectReason.WRONG_NODE)
    with pytest.raises(decide.AlreadyDecided, match="reject by ada"):
        decide.approve(proposal.pk, by=a_user("bob", "operator"), seen=proposal.plan_sha256)
    assert not Action.objects.exists()
    assert LedgerEntry.objects.filter(kind=EntryKind.PROPOSAL_REJECTED).get().body["facts"]["reason"] == "wrong_node"


def test_asking_for_evidence_leaves_it_open_and_it_can_be_taken_back(proposal: Proposal, ada: Any) -> None:
    assert (
        decide.ask(proposal.pk, by=ada, seen=proposal.plan_sha256, text="dcgmi diag -r 3").state == ProposalState.OPEN
    )
    decide.ask(proposal.pk, by=ada, seen=proposal.plan_sha256, text="dcgmi diag -r 3")
    assert LedgerEntry.objects.filter(kind=EntryKind.PROPOSAL_ASKED).count() == 1, "pressed twice is asked once"
    taken = decide.withdraw(proposal.pk, by=ada, text="it was the switch")
    assert (taken.state, taken.ended_why) == (ProposalState.WITHDRAWN, "it was the switch")


def test_what_nobody_decided_in_time_expires(proposal: Proposal, ada: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    later = timezone.now() + timedelta(minutes=61)
    monkeypatch.setattr(timezone, "now", lambda: later)
    with pytest.raises(decide.Guarded, match="expired: it was good until"):
        decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256)
    assert decide.expire_due() == 1
    proposal.refresh_from_db()
    assert (proposal.state, proposal.ended_why) == (ProposalState.EXPIRED, "nobody decided in time")


def test_a_stop_holds_back_until_it_is_released_with_a_reason(proposal: Proposal, ada: Any) -> None:
    stop = brakes.pull(None, BrakeKind.STOP, "the fabric is being rebuilt", ada)
    assert brakes.pull(None, BrakeKind.STOP, "again", ada).pk == stop.pk
    with pytest.raises(decide.Guarded, match="recovery is stopped: the fabric is being rebuilt"):
        decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256)
    with pytest.raises(brakes.NotPermitted, match="lead"):
        brakes.release(stop.pk, by=ada, reason="done")
    lead = a_user("lea", "lead")
    with pytest.raises(InputError, match="say why"):
        brakes.release(stop.pk, by=lead, reason=" ")
    brakes.release(stop.pk, by=lead, reason="the fabric is whole")
    assert decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256).state == ProposalState.ACTING


def test_a_pace_clears_itself(proposal: Proposal, ada: Any) -> None:
    brake = brakes.pull(proposal.attempt.cluster, BrakeKind.PACE, "too much at once")
    with pytest.raises(decide.Guarded, match="slowed down"):
        decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256)
    Brake.objects.filter(pk=brake.pk).update(clears_at=timezone.now() - timedelta(seconds=1))
    assert decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256).state == ProposalState.ACTING
    assert brakes.clear_due() == 1
    assert brakes.pull(proposal.attempt.cluster, BrakeKind.PACE, "once more").pk != brake.pk


def test_the_stop_file_holds_back_and_works_without_a_database(
    proposal: Proposal, ada: Any, settings: Any, tmp_path: Any
) -> None:
    settings.INQUEST_RECOVERY_STOP_FILE = str(tmp_path / "stop")
    assert brakes.killed() is None
    (tmp_path / "stop").touch()
    with pytest.raises(decide.Guarded, match="kill switch: the stop file"):
        decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256)


@pytest.mark.parametrize(
    ("kind", "value"), [(VetoKind.NODE, "gpu-01"), (VetoKind.JOB, "4711"), (VetoKind.GROUP, "batch")]
)
def test_a_veto_on_its_node_job_or_group_ends_it(proposal: Proposal, ada: Any, kind: VetoKind, value: str) -> None:
    brakes.set_veto(proposal.attempt.cluster, kind, value, by=ada, reason="under study")
    with pytest.raises(decide.Guarded, match="is left alone: under study"):
        decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256)
    decide.sweep()
    proposal.refresh_from_db()
    assert proposal.state == ProposalState.VETOED


def test_a_veto_names_one_thing_and_ends_by_itself_or_by_hand(ada: Any) -> None:
    cluster = a_cluster()
    with pytest.raises(InputError, match="no pattern"):
        brakes.set_veto(cluster, VetoKind.NODE, "gpu-*", by=ada, reason="x")
    veto = brakes.set_veto(cluster, VetoKind.NODE, "gpu-09", by=ada, reason="x")
    assert brakes.set_veto(cluster, VetoKind.NODE, "gpu-09", by=ada, reason="y").pk == veto.pk
    assert brakes.end_veto(veto.pk, by=ada, reason="repaired").ended_at is not None


def test_what_acts_by_itself_is_taken_back_when_its_policy_is_demoted() -> None:
    scope = a_policy(mode="automatic", caps={"settle_seconds": 60})
    (made,) = propose.consider(judged(failed()).pk)
    assert made.state == ProposalState.APPROVED
    assert decide.sweep() == 0
    scope.mode = "advisory"
    scope.mode_until = None
    scope.save(update_fields=["mode", "mode_until"])
    assert decide.begin_due() == 0  # not its time yet
    with transaction.atomic(), pytest.raises(moves.Guarded, match="acts no longer by itself"):
        moves.begin(moves.held(made.pk), actor=Actor.system("test"))


def test_caps_hold_for_approvals_together(ada: Any) -> None:
    """Each plan alone would fit; the second finds the room taken."""
    a_policy(caps={"exclusions_alive": 1})
    (one,) = propose.consider(judged(failed("1", workload="a")).pk)
    (two,) = propose.consider(judged(failed("2", workload="b"), node="gpu-02").pk)
    decide.approve(one.pk, by=ada, seen=one.plan_sha256)
    with pytest.raises(decide.Guarded, match="nodes away at once: 2 nodes would be away at once, and 1 are allowed"):
        decide.approve(two.pk, by=ada, seen=two.plan_sha256)


def excluded(proposal: Proposal, ada: Any) -> Exclusion:
    decide.approve(proposal.pk, by=ada, seen=proposal.plan_sha256)
    made = exclusions.make(proposal, "gpu-01", ExclusionKind.JOB)
    assert exclusions.make(proposal, "gpu-01", ExclusionKind.JOB).pk == made.pk
    assert LedgerEntry.objects.filter(kind=EntryKind.EXCLUSION_MADE.value, subject=str(made.pk)).count() == 1
    return made


def test_lifting_is_held_up_by_no_brake_veto_or_kill_switch(
    proposal: Proposal, ada: Any, settings: Any, tmp_path: Any
) -> None:
    exclusion = excluded(proposal, ada)
    brakes.pull(None, BrakeKind.STOP, "all stop", ada)
    brakes.set_veto(exclusion.cluster, VetoKind.NODE, "gpu-01", by=ada, reason="hands off")
    settings.INQUEST_RECOVERY_STOP_FILE = str(tmp_path / "stop")
    (tmp_path / "stop").touch()
    lifted = exclusions.lift(exclusion.pk, by=ada, reason="it was repaired")
    assert lifted.state == ExclusionState.LIFTED
    relief = Proposal.objects.get(action=ActionKind.LIFT_EXCLUSION)
    assert relief.state == ProposalState.ACTING
    assert Action.objects.get(proposal=relief).kind == ActionKind.LIFT_EXCLUSION
    exclusions.lift(exclusion.pk, by=ada, reason="twice")
    assert Action.objects.count() == 2


def test_an_exclusion_ends_with_its_time(proposal: Proposal, ada: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    excluded(proposal, ada)
    assert exclusions.expire_due() == 0
    later = timezone.now() + timedelta(days=2)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert exclusions.expire_due() == 1
    assert Exclusion.objects.get().state == ExclusionState.EXPIRED
    assert Proposal.objects.get(action=ActionKind.LIFT_EXCLUSION).state == ProposalState.ACTING


def test_the_database_has_the_same_moves_as_the_code() -> None:
    tables = {
        "proposal": (ProposalState, machine.PROPOSAL_STARTS, machine.PROPOSAL_MOVES),
        "action": (ActionState, machine.ACTION_STARTS, machine.ACTION_MOVES),
        "exclusion": (ExclusionState, machine.EXCLUSION_STARTS, machine.EXCLUSION_MOVES),
    }
    with connection.cursor() as cursor:
        for kind, (words, starts, allowed) in tables.items():
            for after in words:
                cursor.execute("SELECT recovery_may_move(%s, '', %s)", [kind, after.value])
                assert cursor.fetchone()[0] is (after in starts)
                for before in words:
                    cursor.execute("SELECT recovery_may_move(%s, %s, %s)", [kind, before.value, after.value])
                    assert cursor.fetchone()[0] is (after in allowed[before]), (kind, before, after)


def test_the_database_refuses_what_may_not_be(proposal: Proposal, ada: Any) -> None:
    rows = Proposal.objects.filter(pk=proposal.pk)
    decide.ask(proposal.pk, by=ada, seen=proposal.plan_sha256, text="more")
    for change in (
        lambda: rows.update(state=ProposalState.CLOSED),
        lambda: rows.update(nodes=["gpu-02"]),
        lambda: rows.update(plan_json="{}"),
        lambda: rows.update(approvals_needed=0),
        lambda: Decision.objects.update(text="less"),
        lambda: Decision.objects.all().delete(),
        rows.delete,
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            change()
