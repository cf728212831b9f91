"""A job does not stand still because a proposal to leave nodes out waits, or was taken back."""

from datetime import timedelta

import pytest
from django.utils import timezone

from recovery import decide, incidents, meanwhile, moves, propose
from recovery.models import Action, Proposal
from recovery.shared_cause import Found
from recovery.words import ActionKind, ProposalState
from tests.recovery.deciding import a_cluster, a_policy, failed, judged, the_proposal
from tests.verdicts.builders import a_ruleset, a_user
from verdicts import conclude

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conclude, "current_ruleset", a_ruleset)
    monkeypatch.setattr(moves, "wake", lambda *_: 0)
    a_cluster()


def waits(minutes: int | None = 5, restart: str = "automatic") -> Proposal:
    """A proposal to leave a node out that nobody decided, and a policy that restarts."""
    a_policy("leave-out", **({} if minutes is None else {"waits_minutes": minutes}))
    a_policy("restart", action="restart", mode=restart)
    proposal = propose.consider(judged(failed()).pk)[0]
    assert proposal.action == ActionKind.RESTART_EXCLUDING and proposal.state == ProposalState.OPEN
    return proposal


def after(minutes: int) -> int:
    return meanwhile.sweep(now=timezone.now() + timedelta(minutes=minutes))


def test_what_waits_too_long_is_taken_back_and_its_job_is_restarted_once() -> None:
    proposal = waits()
    assert after(4) == 0
    assert after(6) == 1
    proposal.refresh_from_db()
    assert proposal.state == ProposalState.WITHDRAWN and "in 5 min" in proposal.ended_why
    restart = the_proposal(action=ActionKind.RESTART)
    assert restart.state == ProposalState.ACTING and Action.objects.get().kind == ActionKind.RESTART
    assert after(6) == 0


@pytest.mark.parametrize("more", [{"minutes": None}, {"restart": "advisory"}, {"restart": "observe"}], ids=str)
def test_it_waits_on_while_it_may_or_where_nothing_else_acts_by_itself(more: dict[str, object]) -> None:
    proposal = waits(**more)  # type: ignore[arg-type]
    assert after(6) == 0
    proposal.refresh_from_db()
    assert proposal.state == ProposalState.OPEN and not Action.objects.exists()


def test_where_the_restarts_are_used_up_it_waits_for_its_person() -> None:
    a_policy("leave-out", waits_minutes=5)
    a_policy("restart", action="restart", mode="automatic", caps={"restarts_per_workload": 0})
    proposal = propose.consider(judged(failed()).pk)[0]
    assert after(6) == 0
    proposal.refresh_from_db()
    assert proposal.state == ProposalState.OPEN


def test_what_a_shared_cause_took_back_is_restarted_on_all_its_nodes() -> None:
    proposal = waits(None)
    found = Found(element="switch", name="sw1", symptom="gpu_off_bus", nodes=("gpu-01",), of=32, said="They share it.")
    incidents.open_or_widen(proposal.attempt.cluster_id, found)
    assert meanwhile.sweep() == 1
    assert the_proposal(action=ActionKind.RESTART).state == ProposalState.ACTING


def test_what_a_person_took_back_or_rejected_is_left_to_people() -> None:
    proposal = waits(None)
    decide.withdraw(proposal.pk, by=a_user("ada", "operator"), text="I look at it myself")
    assert meanwhile.sweep() == 0 and not Action.objects.exists()
