"""What came of proposals: said or seen, by policy, rule, reviewer and month, apart from whether the cause was right."""

import csv
import io
import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from django.http import QueryDict
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from recovery import decide, propose
from recovery.ledger import outcomes
from recovery.ledger.outcome_form import OutcomesForm
from recovery.models import Action, LedgerEntry, Milestone, Proposal
from recovery.policies import closing, labels
from recovery.words import (
    ActionState,
    CaseLabel,
    EntryKind,
    LabelBasis,
    MilestoneKind,
    Outcome,
    ProposalState,
    RejectReason,
)
from rules.attempt import Attempt as GivenAttempt
from tests.recovery.deciding import a_cluster, a_policy, failed, from_now_on, judged
from tests.verdicts.builders import a_user
from verdicts.record import record_attempt

pytestmark = pytest.mark.django_db


def proposed(number: int, *, node: str = "") -> Proposal:
    """A proposal of the policy that is there."""
    nodes = f"gpu-[{number:02d}-{number + 1:02d}]"
    attempt = failed(str(4700 + number), nodes=nodes, workload=f"training {number}")
    verdict = judged(attempt, node or f"gpu-{number:02d}")
    found = propose.consider(verdict.pk)
    assert found, verdict.consideration.said
    return found[0]


def another(like: Proposal, number: int) -> Proposal:
    """The same proposed for another attempt: more of a kind at once would be a shared cause."""
    copied = {field.attname: getattr(like, field.attname) for field in Proposal._meta.concrete_fields}
    del copied["created_at"]
    attempt = failed(str(4700 + number), workload=f"training {number}")
    more = {"id": uuid4(), "attempt_id": attempt.pk, "state": ProposalState.OPEN.value, "decided_at": None}
    return Proposal.objects.create(
        **copied | more | {"ended_at": None, "ended_why": "", "outcome": "", "outcome_why": "", "outcome_by_id": None}
    )


def over(proposal: Proposal, **more: Any) -> Proposal:
    """As if it had been over for a while; the database lets only its own moves pass."""
    Proposal.objects.filter(pk=proposal.pk).update(**more)
    proposal.refresh_from_db()
    return proposal


@pytest.fixture
def people(db: None) -> dict[str, Any]:
    from_now_on()
    a_cluster()
    a_policy()
    return {"grace": a_user("grace", "operator", "reviewer"), "heidi": a_user("heidi", "operator")}


def rejected(number: int, by: Any) -> Proposal:
    first = Proposal.objects.order_by("created_at").first()
    one = another(first, number) if first else proposed(number)
    decide.reject(one.pk, by=by, seen=one.plan_sha256, reason=RejectReason.OTHER, text="no")
    return one


def test_success_does_not_make_a_diagnosis_right(people: dict[str, Any], client: Client) -> None:
    grace, heidi = people["grace"], people["heidi"]
    told = [
        (Outcome.WORKED, CaseLabel.RIGHT, grace),
        (Outcome.WORKED, CaseLabel.WRONG, grace),
        (Outcome.WORKED, CaseLabel.PRECAUTION, heidi),
        (Outcome.DID_NOT, CaseLabel.WRONG, heidi),
        (Outcome.NOT_NEEDED, None, heidi),
        (None, None, heidi),
    ]
    for number, (outcome, label, by) in enumerate(told):
        one = rejected(2 * number + 1, by)
        if outcome:
            labels.give_outcome(one.pk, outcome, by=grace, text="=1+1" if number == 0 else "")
        if label:
            labels.give(one.pk, label, LabelBasis.INSPECTION, by=grace, text="looked")
    form = OutcomesForm(QueryDict())
    whole = outcomes.together(form.rows)
    assert (whole.total, whole.worked.count, whole.worked.whole) == (6, 3, 4)
    assert (whole.right.count, whole.right.whole, whole.mistaken.count) == (1, 4, 2)
    assert whole.worked_for_no_reason == 2
    assert whole.right.low < 0.25 < whole.right.high
    by_reviewer, _ = outcomes.grouped(form.rows, "reviewer")
    assert [(one.name, one.total, one.mistaken.count) for one in by_reviewer] == [("heidi", 4, 1), ("grace", 2, 1)]
    by_rule, _ = outcomes.grouped(form.rows, "rule")
    assert [(one.name, one.total) for one in by_rule] == [("gpu.off-the-bus", 6)]
    by_month, more = outcomes.grouped(form.rows, "month")
    assert (len(by_month), by_month[0].name, more) == (1, f"{timezone.now():%Y-%m}", False)

    client.force_login(a_user("reader", "viewer"))
    page = client.get("/ledger/outcomes/?by=reviewer").content.decode()
    assert "<b>2</b> worked although the cause was another" in page
    assert "?by=reviewer&amp;reviewer=heidi" in page
    figures = client.get("/api/v1/outcomes/figures?by=reviewer&reviewer=heidi").json()
    assert (figures["all"]["total"], figures["groups"][0]["labels"]["precaution"]) == (4, 1)
    rows = client.get("/api/v1/outcomes?outcome=none&outcome=not_needed").json()["results"]
    assert {row["outcome"] for row in rows} == {None, "not_needed"}
    assert client.get("/api/v1/outcomes?label=precaution").json()["count"] == 1
    assert client.get("/api/v1/outcomes?rule=gpu.*&policy=leave-out&cluster=alpha").json()["count"] == 6
    for wrong in ("nobody=1", "outcome=good", "after=soon"):
        assert client.get(f"/api/v1/outcomes?{wrong}").status_code == 400
        assert "Nothing was looked for" in client.get(f"/ledger/outcomes/?{wrong}").content.decode()
    said = b"".join(client.get("/ledger/outcomes/export/csv/?outcome=worked").streaming_content)  # type: ignore[attr-defined]
    table = list(csv.DictReader(io.StringIO(said.decode("utf-8-sig"))))
    assert (len(table), table[-1]["outcome_why"], table[-1]["diagnosis"]) == (3, "'=1+1", "right")
    as_json = b"".join(client.get("/ledger/outcomes/export/json/?outcome=worked").streaming_content)  # type: ignore[attr-defined]
    assert json.loads(as_json)[-1]["decided_by"] == ["grace"]
    assert client.get("/ledger/outcomes/export/xml/").status_code == 404


def test_the_page_costs_few_queries(
    people: dict[str, Any], client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(1, 9, 2):
        rejected(number, people["grace"])
    client.force_login(a_user("reader", "viewer"))
    with django_assert_max_num_queries(14):
        client.get("/ledger/outcomes/")


def carried_out(proposal: Proposal, by: Any, *steps: ActionState) -> Action:
    """Approved, and its action so far."""
    decide.approve(proposal.pk, by=by, seen=proposal.plan_sha256)
    action = Action.objects.get(proposal=proposal)
    for step in steps:
        Action.objects.filter(pk=action.pk).update(outcome=step.value, why="the scheduler refused")
    decide.close_ended()
    return action


def test_what_is_seen_closes_a_proposal_and_a_person_stands_above_it(people: dict[str, Any]) -> None:
    one = proposed(1)
    action = carried_out(one, people["grace"], ActionState.SENT, ActionState.CONVERGED)
    assert closing.sweep() == 0
    Milestone.objects.create(action=action, kind=MilestoneKind.COMPLETED.value, at=timezone.now())
    assert (closing.sweep(), closing.sweep()) == (1, 0)
    one.refresh_from_db()
    assert (one.state, one.outcome, one.outcome_by) == (ProposalState.CLOSED, Outcome.WORKED, None)
    entry = LedgerEntry.objects.filter(kind=EntryKind.OUTCOME_GIVEN.value, subject=str(one.pk)).get()
    assert entry.actor == "system:verifier"
    labels.give_outcome(one.pk, Outcome.NOT_NEEDED, by=people["grace"], text="it was requeued anyway")
    one.refresh_from_db()
    assert (one.outcome, one.outcome_by) == (Outcome.NOT_NEEDED, people["grace"])
    assert closing.sweep() == 0


def test_an_action_that_failed_did_not_work_and_an_open_proposal_waits(people: dict[str, Any]) -> None:
    one = proposed(1)
    assert proposed(3).state == ProposalState.OPEN
    carried_out(one, people["grace"], ActionState.FAILED)
    assert closing.sweep() == 1
    one.refresh_from_db()
    assert (one.outcome, one.outcome_why) == (Outcome.DID_NOT, "the scheduler refused")


def test_what_was_not_carried_out_was_not_needed_if_the_job_completed_without_it(people: dict[str, Any]) -> None:
    one, two = (rejected(number, people["grace"]) for number in (1, 3))
    assert closing.sweep() == 0
    given = msgspec.convert(one.attempt.body, GivenAttempt)
    again = msgspec.structs.replace(given, restart_count=1, state="COMPLETED", end=timezone.now().isoformat())
    record_attempt(again)
    for proposal in (one, two):
        over(proposal, ended_at=timezone.now() - timedelta(days=8))
    assert closing.sweep() == 2
    for proposal in (one, two):
        proposal.refresh_from_db()
    assert [one.outcome, two.outcome] == [Outcome.NOT_NEEDED, Outcome.CANNOT_TELL]


@pytest.mark.parametrize("query", ["by=x", "by=", "by=month&page=x", "outcome=x", "after=x"])
def test_an_address_that_cannot_be_understood_says_so(client: Client, query: str) -> None:
    client.force_login(a_user("ada", "viewer"))
    assert client.get(f"/ledger/outcomes/?{query}").status_code == 200
