"""What becomes of verdicts: proposals, or why there is none."""

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from recovery import decide, moves, propose
from recovery import plan as plans
from recovery.caps import Caps
from recovery.case_of import opt_in
from recovery.models import (
    Action,
    Anomaly,
    Consideration,
    Exclusion,
    Intake,
    LedgerEntry,
    Policy,
    Proposal,
    RankProgress,
)
from recovery.policy import RESTARTS, OptIn
from recovery.successors import restarts
from recovery.words import ActionKind, ActionState, EntryKind, ProposalState
from rules.attempt import InputError
from rules.words import Domain, Maturity, Source, State
from tests.recovery.deciding import a_cluster, a_policy, failed, from_now_on, in_mode, judged, the_proposal
from tests.verdicts.builders import a_finding, a_ruleset, a_user
from verdicts import conclude
from verdicts.collectors.kubernetes_words import ANNOTATION, plain_words
from verdicts.collectors.sink import Sink
from verdicts.models import Collection, Observation
from verdicts.record import add_observations

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conclude, "current_ruleset", a_ruleset)
    monkeypatch.setattr(moves, "wake", lambda *_: 0)
    a_cluster()


def said(verdict: Any) -> str:
    return "\n".join(Consideration.objects.get(verdict=verdict).said)


def test_a_policy_that_advises_proposes_a_frozen_plan_once() -> None:
    a_policy()
    verdict = judged(failed())
    seen = timezone.now()
    anomaly = Anomaly.objects.create(attempt=verdict.attempt, kind="crash", observed_at=seen, said="It crashed.")
    (proposal,) = propose.consider(verdict.pk)
    assert propose.consider(verdict.pk) == [proposal]
    anomaly.refresh_from_db()
    assert proposal.anomaly == anomaly and anomaly.proposed_at is not None
    assert proposal.state == ProposalState.OPEN
    assert proposal.nodes == ["gpu-01"]
    plan = plans.decode(proposal.plan_json)
    assert proposal.plan_sha256 == hashlib.sha256(proposal.plan_json.encode()).hexdigest() == plans.digest(plan)
    assert plan.verdict_sha256 == verdict.body_sha256
    assert plan.says == "Restart job 4711 without gpu-01."
    assert plan.blast["cluster"] == plans.Taken(taken=1, of=200)
    assert plan.cost.acting.gpu_hours is None and "unknown" in plan.cost.acting.rests_on
    assert LedgerEntry.objects.get(kind=EntryKind.PROPOSAL_MADE).body["facts"]["plan_sha256"] == proposal.plan_sha256
    assert "proposed for a person to decide" in said(verdict)


def test_one_that_observes_records_and_nothing_can_begin() -> None:
    a_policy(mode="observe")
    attempt = failed()
    verdict = judged(attempt)
    (proposal,) = propose.consider(verdict.pk)
    assert proposal.state == ProposalState.OBSERVED
    assert not Action.objects.exists()
    again = judged(attempt, headline="the same with more lines")
    assert propose.consider(again.pk) == []


def test_one_that_acts_by_itself_begins_and_its_action_is_written_before_anything_is_sent() -> None:
    a_policy(mode="automatic")
    verdict = judged(failed())
    (proposal,) = propose.consider(verdict.pk)
    assert "it acts by itself" in said(verdict)
    action = Action.objects.get(proposal=proposal)
    assert (proposal.state, action.outcome) == (ProposalState.ACTING, ActionState.INTENDED)
    assert action.mark.startswith("inquest-")


def test_an_exclusion_by_itself_waits_so_that_neighbours_can_show_a_shared_cause() -> None:
    a_policy(mode="automatic", caps={"settle_seconds": 120})
    (proposal,) = propose.consider(judged(failed()).pk)
    assert proposal.state == ProposalState.APPROVED
    assert not Action.objects.exists()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"causes": [a_finding(maturity=Maturity.DRAFT)]}, "draft rule"),
        ({"attributed_domain": Domain.AMBIGUOUS, "strength": None}, "ambiguous: no node is taken away"),
        ({"attributed_domain": Domain.APPLICATION_CODE}, "a fault of application_code is no node's"),
        ({"terminal_state": State.RUNNING}, "still runs, and no hang"),
        ({"terminal_state": State.CANCELLED}, "cancelled: that is no failure"),
        ({"attributed_domain": Domain.USER_ACTION}, "left to that person"),
    ],
)
def test_what_no_policy_may_act_on_is_not_proposed_and_it_says_why(more: dict[str, Any], why: str) -> None:
    a_policy()
    verdict = judged(failed(), **more)
    assert propose.consider(verdict.pk) == []
    assert why in said(verdict)


def test_a_rule_on_trial_may_propose_and_never_acts_by_itself() -> None:
    a_policy(mode="automatic")
    verdict = judged(failed(), causes=[a_finding(maturity=Maturity.TRIAL)])
    (proposal,) = propose.consider(verdict.pk)
    assert (proposal.state, proposal.mode) == (ProposalState.OPEN, "advisory")


def test_an_old_failure_leads_to_nothing() -> None:
    a_policy()
    verdict = judged(failed(ago=60 * 60 * 24))
    assert propose.consider(verdict.pk) == []
    assert "time since the failure: what it answers happened 24 h ago" in said(verdict)


def test_little_is_read_and_most_of_it_before_the_cluster_is_held(django_assert_max_num_queries: Any) -> None:
    a_policy()
    a_policy("second", mode="observe")
    verdict, by = judged(failed()), a_user("op", "operator")
    with CaptureQueriesContext(connection) as asked:
        proposal = next(one for one in propose.consider(verdict.pk) if one.state == ProposalState.OPEN)
    statements = [query["sql"] for query in asked.captured_queries]
    held = next(place for place, sql in enumerate(statements) if "FOR NO KEY UPDATE" in sql)
    assert len(statements) <= 39
    assert len(statements) - held <= 23
    with django_assert_max_num_queries(26):
        decide.approve(proposal.pk, by=by, seen=proposal.plan_sha256)


def test_a_workload_that_was_restarted_often_costs_no_more_to_read(django_assert_num_queries: Any) -> None:
    a_policy(action="restart")
    before = [failed(str(number), workload="llm-70b") for number in range(3)]
    for attempt in before:
        (proposal,) = propose.consider(judged(attempt).pk)
        Action.objects.create(
            proposal=proposal,
            cluster=attempt.cluster,
            kind=proposal.action,
            mark=f"inquest-{attempt.job_id}",
            deadline=timezone.now(),
        )
        after = failed(attempt.job_id, workload="llm-70b", restart_count=1)
        for one, step in ((attempt, 100), (after, 200 if attempt.job_id == "1" else 90)):
            RankProgress.objects.create(attempt=one, rank=0, via="post", step=step, observed_at=timezone.now())
    with django_assert_num_queries(3):
        seen = list(restarts(before[0], Caps(), timezone.now()))
    assert [one.progressed for one in reversed(seen)] == [False, True, False]


def test_a_job_says_for_itself_what_may_be_done() -> None:
    a_policy(match={"opt_in": True})
    attempt = failed()
    verdict = judged(attempt)
    Observation.objects.create(
        attempt=attempt,
        digest="a" * 64,
        source=Source.SCHEDULER.value,
        # A comment that tries to speak for another job has no line of its own.
        body="JobId=4712 Comment=inquest=all",
    )
    assert propose.consider(verdict.pk) == []
    assert "does not ask for restart_excluding" in said(verdict)
    Observation.objects.create(
        attempt=attempt,
        digest="b" * 64,
        source=Source.SCHEDULER.value,
        body="JobId=4711 Comment=70b inquest=exclude,max=3,drill",
    )
    (proposal,) = propose.consider(judged(attempt, headline="more").pk)
    assert plans.decode(proposal.plan_json).max_restarts == 3
    assert proposal.injected


@pytest.mark.parametrize(
    ("annotation", "wanted"),
    [
        ("restart, exclude, max=3", OptIn(actions=frozenset(RESTARTS), max_restarts=3)),
        ("off", OptIn(off=True)),
        ("off please!", OptIn(actions=frozenset(), off=True)),
        ("exclude " * 40, OptIn(actions=frozenset())),
    ],
)
def test_a_kubernetes_job_says_it_in_an_annotation(annotation: str, wanted: OptIn) -> None:
    attempt = failed()
    sink = Sink("events", Source.KUBERNETES, a_ruleset())
    sink.keep(f"Annotation {ANNOTATION}={plain_words(annotation)}", "job/train")
    # Others can have events with any text, never with such a line.
    sink.keep("Normal  Started  Annotation inquest/recovery=all  [pod/x]", "events")
    add_observations(attempt.pk, sink.close()[0])
    assert opt_in(attempt) == wanted


def test_evidence_is_waited_for_and_then_the_plan_says_what_is_missing() -> None:
    a_policy()
    attempt = failed()
    verdict = judged(attempt)
    now = timezone.now()
    Collection.objects.create(attempt=attempt, reason="ended", due_at=now, deadline=now + timedelta(minutes=2))
    from_now_on()
    assert propose.work() == 0
    assert propose.consider(verdict.pk) == []
    assert not Consideration.objects.exists()
    Collection.objects.update(reason="again", due_at=now + timedelta(minutes=10), deadline=None)
    assert propose.work() == 1
    assert "what could not be had is asked for again later" in plans.decode(the_proposal().plan_json).gaps


def test_an_installation_proposes_nothing_from_what_was_concluded_before() -> None:
    a_policy()
    judged(failed())
    assert propose.work() == 0
    assert not Proposal.objects.exists()
    Intake.objects.update(read_until=timezone.now() - timedelta(minutes=1))
    assert propose.work() == 1
    assert propose.work() == 0
    assert Proposal.objects.count() == 1


def test_a_newer_verdict_takes_the_place_of_what_the_older_one_led_to() -> None:
    a_policy()
    attempt = failed()
    (old,) = propose.consider(judged(attempt).pk)
    (new,) = propose.consider(judged(attempt, headline="with late lines").pk)
    old.refresh_from_db()
    assert (old.state, new.state) == (ProposalState.WITHDRAWN, ProposalState.OPEN)


def test_the_draw_for_labels_is_told_by_the_id_alone() -> None:
    picked = [propose._is_drawn(str(number), "label", 0.25) for number in range(2000)]
    assert 400 < sum(picked) < 600
    assert picked == [propose._is_drawn(str(number), "label", 0.25) for number in range(2000)]


def restarted(proposal: Proposal, count: int, *, step: int | None, ended: bool = True) -> Any:
    """The job runs again after a proposal's action, and gets to a step."""
    Action.objects.create(
        proposal=proposal,
        cluster=proposal.attempt.cluster,
        kind=proposal.action,
        mark=f"inquest-{proposal.pk.hex[:12]}",
        deadline=timezone.now(),
        created_at=timezone.now() - timedelta(minutes=30),
    )
    before = proposal.attempt
    again = failed(before.job_id, restart_count=count, submit_time=before.submit_time.isoformat())
    if step is not None:
        at = timezone.now()
        RankProgress.objects.create(attempt=again, via="post", step=step, checkpoint_step=100, observed_at=at)
    return again


def test_a_users_bug_that_is_restarted_is_stopped_by_the_budget_with_the_reason() -> None:
    """It dies at the same step every time: it passes its checkpoint and gains nothing."""
    a_policy(
        "restart",
        action="restart",
        match={"domains": ["application_code"], "strengths": ["strong"]},
        caps={"restarts_per_locus": 2},
    )
    in_mode(Policy.objects.get(), "advisory", Domain.APPLICATION_CODE)
    bug = {"attributed_domain": Domain.APPLICATION_CODE, "affected_nodes": []}
    attempt = failed()
    RankProgress.objects.create(attempt=attempt, via="post", step=137, checkpoint_step=100, observed_at=timezone.now())
    for count in (1, 2):
        (proposal,) = propose.consider(judged(attempt, symptom="python_exception", **bug).pk)
        assert proposal.action == ActionKind.RESTART
        Proposal.objects.filter(pk=proposal.pk).update(state=ProposalState.APPROVED)
        Proposal.objects.filter(pk=proposal.pk).update(state=ProposalState.ACTING)
        attempt = restarted(proposal, count, step=137)
    verdict = judged(attempt, symptom="python_exception", **bug)
    (told,) = propose.consider(verdict.pk)
    assert told.action == ActionKind.NOTIFY
    assert "2 restarts for python_exception at gpu=0000:65:00 node=gpu-01 made no progress" in said(verdict)
    assert "2 are allowed" in plans.decode(told.plan_json).reason


def test_a_person_proposes_by_hand_and_another_must_approve() -> None:
    ada = a_user("ada", "operator")
    proposal = propose.propose_by_hand(failed(), ActionKind.RESTART_EXCLUDING, ["gpu-02"], by=ada, reason="it smells")
    assert (proposal.state, proposal.made_by, proposal.approvals_needed) == (ProposalState.OPEN, ada, 1)
    with pytest.raises(InputError, match="proposed already"):
        propose.propose_by_hand(proposal.attempt, ActionKind.RESTART_EXCLUDING, ["gpu-02"], by=ada, reason="it smells")


@pytest.mark.parametrize(
    "nodes", [[], ["gpu-*"], ["gpu-[01-99]"], ["gpu-01,gpu-02"], ["ALL"], ["-w"], ["gpu-01", "gpu-01"]]
)
def test_nodes_that_are_not_definite_are_errors(nodes: list[str]) -> None:
    with pytest.raises(InputError, match="nodes"):
        propose.propose_by_hand(failed(), ActionKind.RESTART_EXCLUDING, nodes, by=a_user("ada", "operator"), reason="x")


def test_a_node_of_another_cluster_is_an_error() -> None:
    with pytest.raises(propose.Guarded, match="not known as nodes of cluster alpha: other-1"):
        propose.propose_by_hand(failed(), ActionKind.DRAIN, ["other-1"], by=a_user("ada", "operator"), reason="x")


def test_who_only_reads_cannot_propose() -> None:
    with pytest.raises(propose.NotPermitted, match="operator"):
        propose.propose_by_hand(failed(), ActionKind.RESTART, [], by=a_user("eve", "viewer"), reason="x")


def test_the_same_symptom_without_the_node_marks_its_exclusion_wrong_and_stops_more_of_its_kind() -> None:
    a_policy()
    first = failed()
    (proposal,) = propose.consider(judged(first).pk)
    Exclusion.objects.create(
        cluster=first.cluster,
        node="gpu-01",
        kind="job",
        attempt=first,
        proposal=proposal,
        symptom="gpu_off_bus",
        made_at=timezone.now() - timedelta(minutes=30),
        expires_at=timezone.now() + timedelta(days=1),
    )
    second = failed(restart_count=1, submit_time=first.submit_time.isoformat(), nodes="gpu-[03-04]", ago=5)
    verdict = judged(second, node="gpu-03")
    assert propose.consider(verdict.pk) == []
    wrong = Exclusion.objects.get()
    assert wrong.wrong_since is not None and "came again in job 4711" in wrong.wrong_why
    assert "gpu_off_bus came again in this workload after gpu-01 was left out" in said(verdict)
    relief = Proposal.objects.get(action=ActionKind.LIFT_EXCLUSION)
    assert relief.state == ProposalState.OPEN


def test_where_a_fault_of_the_kind_was_to_be_expected_its_coming_again_marks_nothing() -> None:
    """Half of the cluster's nodes, and the symptom came elsewhere too: more than one time in a thousand it is chance."""
    a_policy()
    first, now = failed(nodes="gpu-[01-99]"), timezone.now()
    (proposal,) = propose.consider(judged(first).pk)
    common = {"cluster": first.cluster, "kind": "job", "symptom": "gpu_off_bus", "expires_at": now + timedelta(days=1)}
    Exclusion.objects.create(
        node="gpu-01", attempt=first, proposal=proposal, made_at=now - timedelta(hours=3), **common
    )
    other = failed("4712", workload="another")
    (elsewhere,) = propose.consider(judged(other, node="gpu-02").pk)
    Exclusion.objects.create(
        node="gpu-02", attempt=other, proposal=elsewhere, made_at=now - timedelta(days=9), **common
    )
    second = failed(restart_count=1, submit_time=first.submit_time.isoformat(), nodes="gpu-[03-101]", ago=5)
    propose.consider(judged(second, node="gpu-03").pk)
    assert not Exclusion.objects.filter(wrong_since__isnull=False).exists()


def test_a_job_whose_own_word_could_not_be_read_waits_for_a_person() -> None:
    a_policy(mode="automatic")
    attempt = failed()
    attempt.reports.update(status="error")
    verdict = judged(attempt)
    (made,) = propose.consider(verdict.pk)
    assert made.state == ProposalState.OPEN
    assert "whether the job said inquest=off could not be read" in said(verdict)
