"""What was found afterwards: labels of the diagnosis, outcomes of the action, and what they do to the record."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from recovery.models import Exclusion, LedgerEntry, Scope
from recovery.policies import find as policy_find
from recovery.policies import labels
from recovery.words import CaseLabel, EntryKind, ExclusionKind, LabelBasis, Outcome, ProposalState
from rules.attempt import InputError
from tests.recovery.policy_builders import a_policy, a_scope, proposed
from tests.verdicts.builders import a_user
from verdicts.record import NotPermitted

pytestmark = pytest.mark.django_db


@pytest.fixture
def scope() -> Scope:
    return a_scope(a_policy(a_user("author", "policy admin")))


@pytest.fixture
def reviewer() -> Any:
    return a_user("rev", "reviewer")


def test_a_label_ends_the_wait_and_stands_in_the_ledger_without_its_words(scope: Scope, reviewer: Any) -> None:
    case = proposed(scope, 1, must_label=True)
    assert list(labels.awaiting()) == [case]
    labels.give(case.pk, CaseLabel.RIGHT, LabelBasis.VENDOR, by=reviewer, text="RMA 4711: bad HBM")
    assert not labels.awaiting().exists()
    entry = LedgerEntry.objects.get(kind=EntryKind.LABEL_GIVEN)
    assert entry.body["facts"]["label"] == "right" and "RMA" not in entry.body_json


def test_a_newer_label_replaces_the_older_one(scope: Scope, reviewer: Any) -> None:
    case = proposed(scope, 1, must_label=True)
    labels.give(case.pk, CaseLabel.RIGHT, LabelBasis.INSPECTION, by=reviewer, text="looks burnt")
    labels.give(case.pk, CaseLabel.WRONG, LabelBasis.VENDOR, by=reviewer, text="no fault found")
    assert case.labels.count() == 2
    assert labels.standing(case).label == CaseLabel.WRONG
    assert not labels.awaiting().exists()


@pytest.mark.parametrize("word", [CaseLabel.WRONG, CaseLabel.PRECAUTION, CaseLabel.UNDECIDABLE])
def test_whatever_is_not_right_counts_as_wrong(scope: Scope, reviewer: Any, word: CaseLabel) -> None:
    case = proposed(scope, 1, must_label=True)
    labels.give(case.pk, word, LabelBasis.DIAGNOSTICS, by=reviewer, text="see the ticket")
    assert policy_find.reading_of(scope).wrong == 1


def test_cases_on_one_node_within_two_weeks_are_one(scope: Scope) -> None:
    first, second, later = (timedelta(days=ago) for ago in (40, 30, 3))
    for number, ago in enumerate((first, second, later)):
        proposed(scope, number, ago=ago, nodes=["gpu-7"], must_label=True)
    assert [case.incident for case in policy_find.cases_of(scope)][0:2].count(str(_first(scope))) == 2
    assert len({case.incident for case in policy_find.cases_of(scope)}) == 2


def _first(scope: Scope) -> Any:
    return scope.proposals.order_by("created_at").first().pk


def test_a_case_that_was_not_drawn_never_counts_for_the_policy(scope: Scope, reviewer: Any) -> None:
    case = proposed(scope, 1)
    labels.give(case.pk, CaseLabel.RIGHT, LabelBasis.DIAGNOSTICS, by=reviewer, text="ok")
    assert policy_find.reading_of(scope).n == 0


def test_nobody_makes_a_case_a_planted_one_afterwards(scope: Scope, reviewer: Any) -> None:
    case = proposed(scope, 1, must_label=True)
    with pytest.raises(InputError, match=r"^basis: "):
        labels.give(case.pk, CaseLabel.WRONG, LabelBasis.INJECTED, by=reviewer, text="it was me")


def test_a_label_needs_the_right_and_says_what_was_found(scope: Scope, reviewer: Any) -> None:
    case = proposed(scope, 1, must_label=True)
    with pytest.raises(NotPermitted):
        labels.give(case.pk, CaseLabel.RIGHT, LabelBasis.VENDOR, by=a_user("op", "operator"), text="fine")
    with pytest.raises(InputError, match=r"^text: "):
        labels.give(case.pk, CaseLabel.RIGHT, LabelBasis.VENDOR, by=reviewer, text=" ")


def test_an_exclusion_that_proved_wrong_labels_its_case(scope: Scope) -> None:
    case = proposed(scope, 1, must_label=True, mode="advisory", state=ProposalState.CLOSED.value)
    Exclusion.objects.create(
        cluster=case.attempt.cluster,
        node="gpu-1",
        kind=ExclusionKind.JOB.value,
        attempt=case.attempt,
        proposal=case,
        expires_at=timezone.now() + timedelta(days=1),
        wrong_since=timezone.now(),
        wrong_why="the same Xid without gpu-1",
    )
    assert (labels.sweep(), labels.sweep()) == (1, 0)
    assert (labels.standing(case).label, labels.standing(case).basis) == ("wrong", "recurrence")


def test_an_outcome_waits_until_the_proposal_is_over(scope: Scope, reviewer: Any) -> None:
    going = proposed(scope, 1, mode="advisory", state=ProposalState.OPEN.value)
    with pytest.raises(InputError, match=r"^outcome: "):
        labels.give_outcome(going.pk, Outcome.WORKED, by=reviewer)
    over = proposed(scope, 2, mode="advisory", state=ProposalState.CLOSED.value)
    assert labels.give_outcome(over.pk, Outcome.WORKED, by=reviewer).outcome == "worked"
    assert policy_find.reading_of(scope).n == 0


def test_automatic_actions_that_were_drawn_wait_for_somebody_to_look(scope: Scope, reviewer: Any) -> None:
    drawn = proposed(scope, 1, mode="automatic", sampled=True, state=ProposalState.CLOSED.value)
    proposed(scope, 2, mode="automatic", sampled=True, state=ProposalState.APPROVED.value)
    proposed(scope, 3, mode="automatic", sampled=False, state=ProposalState.CLOSED.value)
    assert list(labels.sampled()) == [drawn]
    labels.give_outcome(drawn.pk, Outcome.WORKED, by=reviewer)
    assert not labels.sampled().exists()
