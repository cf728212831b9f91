"""How often recovery was wrong, counted from what was found afterwards."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from recovery.models import Case, Decision, Exclusion, Proposal
from recovery.review import quality
from recovery.words import CaseLabel, DecisionKind, LabelBasis, RejectReason
from tests.recovery.policy_builders import a_policy, a_scope, proposed
from tests.verdicts.builders import a_user
from verdicts.fleet.find import Span

pytestmark = pytest.mark.django_db


def span() -> Span:
    now = timezone.now() + timedelta(seconds=1)
    return Span(now - timedelta(days=30), now)


def excluded(proposal: Proposal, *, again: bool = False, label: str = "") -> None:
    Exclusion.objects.create(
        cluster=proposal.attempt.cluster,
        node=f"n{proposal.attempt.job_id}",
        kind="job",
        attempt=proposal.attempt,
        proposal=proposal,
        expires_at=timezone.now() + timedelta(days=1),
        wrong_since=timezone.now() if again else None,
    )
    if label:
        Case.objects.create(proposal=proposal, label=label, basis=LabelBasis.DIAGNOSTICS.value)


def test_exclusions_are_wrong_by_their_label_or_because_the_symptom_came_again() -> None:
    scope = a_scope(a_policy(a_user("pat", "policy admin")))
    said = (
        (False, CaseLabel.RIGHT),
        (True, CaseLabel.RIGHT),  # it came again for another reason, and diagnostics found the fault
        (True, ""),
        (False, CaseLabel.PRECAUTION),
        (False, CaseLabel.WRONG),
        (False, CaseLabel.UNDECIDABLE),
        (False, ""),
    )
    for number, (again, label) in enumerate(said):
        excluded(proposed(scope, number, state="closed", mode="advisory"), again=again, label=label)
    excluded(proposed(scope, 99, state="closed", mode="advisory", injected=True), again=True)
    found = quality.measured(span())
    assert found.exclusions == 7
    assert (found.wrong_exclusions.count, found.wrong_exclusions.whole) == (3, 5)
    assert (found.labelled.count, found.labelled.whole) == (5, 7)
    assert (found.wrong_actions.count, found.wrong_actions.whole) == (2, 4)
    assert quality.measured(span(), cluster="beta").exclusions == 0


def test_an_approval_says_nothing_about_being_right_and_a_rejection_only_with_such_a_reason() -> None:
    scope = a_scope(a_policy(a_user("pat", "policy admin")))
    ada = User.objects.create(username="ada")
    for number, (kind, reason) in enumerate(
        (
            (DecisionKind.APPROVE, ""),
            (DecisionKind.REJECT, RejectReason.WRONG_NODE),
            (DecisionKind.REJECT, RejectReason.NOT_WORTH_CAPACITY),
            (DecisionKind.ASK, ""),
        )
    ):
        Decision.objects.create(
            proposal=proposed(scope, number), kind=kind, by=ada, seen_sha256="0" * 64, reason=reason
        )
    found = quality.measured(span())
    assert (found.called_wrong.count, found.called_wrong.whole) == (1, 3)
    assert found.wrong_actions.whole == 0


def test_page_and_api_say_the_same_and_nothing_where_nothing_was_done(client: Client) -> None:
    client.force_login(a_user("eve", "viewer"))
    assert "Nothing was proposed or done" in client.get("/recovery/quality/").content.decode()
    scope = a_scope(a_policy(a_user("pat", "policy admin")))
    excluded(proposed(scope, 1, state="closed", mode="advisory"), label=CaseLabel.WRONG)
    assert "1 of 1 made" in client.get("/recovery/quality/?days=30").content.decode()
    told = client.get("/api/v1/recovery/quality?days=30").json()
    assert told["wrong_exclusions"]["count"] == 1
    assert client.get("/api/v1/recovery/quality?day=30").status_code == 400
