"""Policies: made, changed, promoted on their record by two people, demoted by one or at once."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from recovery import brakes
from recovery.models import Brake, LedgerEntry, Policy, Promotion, Scope
from recovery.policies import find as policy_find
from recovery.policies import labels
from recovery.policies import record as policies
from recovery.policies import watch as policy_watch
from recovery.policies.diff import differences, tightened
from recovery.words import BrakeKind, CaseLabel, EntryKind, LabelBasis, PolicyMode
from rules.attempt import InputError
from tests.recovery.policy_builders import BODY, a_policy, a_scope, label, many_right, proposed
from tests.verdicts.builders import a_user
from verdicts import conclude
from verdicts.models import Cluster, DriftCheck
from verdicts.record import NotPermitted

pytestmark = pytest.mark.django_db
AUTOMATIC, ADVISORY, OBSERVE = PolicyMode.AUTOMATIC, PolicyMode.ADVISORY, PolicyMode.OBSERVE


@pytest.fixture
def author() -> Any:
    return a_user("author", "policy admin")


@pytest.fixture
def policy(author: Any) -> Policy:
    return a_policy(author)


@pytest.fixture
def scope(policy: Policy) -> Scope:
    return a_scope(policy)


@pytest.fixture
def leads() -> list[Any]:
    return [a_user("ada", "lead"), a_user("grace", "lead")]


@pytest.fixture
def automatic(scope: Scope, leads: list[Any]) -> Scope:
    """Promoted on a clean record of 373."""
    many_right(scope, 373)
    policies.ask_promotion(scope.pk, ADVISORY, by=leads[0], reason="it observed well")
    asked = policies.ask_promotion(scope.pk, AUTOMATIC, by=leads[0], reason="the record is clean")
    policies.second(asked.pk, by=leads[1])
    scope.refresh_from_db()
    return scope


def kinds() -> list[str]:
    return list(LedgerEntry.objects.order_by("at", "id").values_list("kind", flat=True))


def test_a_new_policy_observes_and_stands_in_the_ledger(policy: Policy, scope: Scope) -> None:
    assert scope.mode == OBSERVE
    assert kinds() == [EntryKind.POLICY_CREATED]


def test_what_is_wrong_with_a_policy_is_named_by_its_field(author: Any) -> None:
    for body, field in (
        ({"action": "explode"}, "action"),
        ({"action": "restart", "caps": {"nodes_per_day": -1}}, "caps.nodes_per_day"),
        ({"action": "restart", "caps": {"cluster_share": 0.9}}, "caps.cluster_share"),
        ({"action": "restart", "mach": {}}, "body"),
        ({"action": "drain", "match": {"domains": ["application_code"]}}, "match.domains"),
    ):
        with pytest.raises(InputError, match=f"^{field}: "):
            policies.checked(body)


def test_only_a_policy_admin_writes_policies() -> None:
    with pytest.raises(NotPermitted):
        a_policy(a_user("op", "operator"))


def test_a_change_of_what_it_matches_sends_it_back_to_observe_and_starts_its_record_anew(
    policy: Policy, automatic: Scope, author: Any
) -> None:
    wider = BODY | {"match": {"domains": ["gpu_hardware", "host_hardware"]}}
    policies.change(policy.pk, wider, by=author, reason="hosts too", seen=1)
    automatic.refresh_from_db()
    assert automatic.mode == OBSERVE
    assert policy_find.reading_of(policy_find.scope_row(automatic.pk)).n == 0
    entry = LedgerEntry.objects.get(kind=EntryKind.POLICY_CHANGED)
    assert [one["field"] for one in entry.body["facts"]["diff"]] == ["match.domains"]


def test_tighter_limits_leave_mode_and_record(policy: Policy, automatic: Scope, author: Any) -> None:
    policies.change(policy.pk, BODY | {"caps": {"nodes_per_day": 3}}, by=author, reason="carefully", seen=1)
    automatic.refresh_from_db()
    assert automatic.mode == AUTOMATIC
    assert policy_find.reading_of(policy_find.scope_row(automatic.pk)).n == 373


def test_a_change_that_started_from_an_older_version_is_refused(policy: Policy, author: Any) -> None:
    policies.change(policy.pk, BODY | {"approvals": 2}, by=author, reason="two", seen=1)
    with pytest.raises(policies.Changed, match="Version 2"):
        policies.change(policy.pk, BODY | {"approvals": 3}, by=author, reason="three", seen=1)


def test_every_limit_has_a_direction() -> None:
    loose = BODY | {"caps": {"cooldown_minutes": 20, "nodes_per_day": 5}}
    assert tightened(loose, BODY | {"caps": {"cooldown_minutes": 30, "nodes_per_day": 5}})
    assert not tightened(loose, BODY | {"caps": {"cooldown_minutes": 10, "nodes_per_day": 5}})
    assert not tightened(loose, BODY | {"caps": {"cooldown_minutes": 20, "nodes_per_day": 6}})
    assert differences(BODY, BODY | {"caps": {}}) == []


def test_one_person_makes_it_advisory(scope: Scope, leads: list[Any]) -> None:
    policies.ask_promotion(scope.pk, ADVISORY, by=leads[0], reason="it observed well")
    scope.refresh_from_db()
    assert scope.mode == ADVISORY


def test_automatic_needs_the_record(scope: Scope, leads: list[Any]) -> None:
    many_right(scope, 372)
    policies.ask_promotion(scope.pk, ADVISORY, by=leads[0], reason="ok")
    with pytest.raises(policies.NotPromotable, match="1 right incident is wanting"):
        policies.ask_promotion(scope.pk, AUTOMATIC, by=leads[0], reason="nearly")


def test_automatic_needs_two_different_people_who_may(scope: Scope, leads: list[Any]) -> None:
    many_right(scope, 373)
    policies.ask_promotion(scope.pk, ADVISORY, by=leads[0], reason="ok")
    asked = policies.ask_promotion(scope.pk, AUTOMATIC, by=leads[0], reason="clean")
    with pytest.raises(policies.NotPromotable, match="somebody else"):
        policies.second(asked.pk, by=leads[0])
    with pytest.raises(NotPermitted):
        policies.second(asked.pk, by=a_user("op", "operator"))
    policies.second(asked.pk, by=leads[1])
    scope.refresh_from_db()
    assert scope.mode == AUTOMATIC and scope.mode_until is not None
    assert scope.mode_until - timezone.now() > timedelta(days=89)
    assert LedgerEntry.objects.filter(kind=EntryKind.POLICY_PROMOTED).last().body["facts"]["people"] == ["ada", "grace"]


def test_the_authors_of_a_policy_do_not_promote_it_between_themselves(
    policy: Policy, scope: Scope, author: Any, leads: list[Any]
) -> None:
    other = a_user("other", "policy admin")
    policies.change(policy.pk, BODY | {"approvals": 2}, by=other, reason="stricter")
    many_right(scope, 373)
    policies.ask_promotion(scope.pk, ADVISORY, by=author, reason="ok")
    asked = policies.ask_promotion(scope.pk, AUTOMATIC, by=author, reason="mine")
    with pytest.raises(policies.NotPromotable, match="both wrote"):
        policies.second(asked.pk, by=other)
    policies.second(asked.pk, by=leads[0])
    scope.refresh_from_db()
    assert scope.mode == AUTOMATIC


def test_a_record_that_got_worse_meanwhile_stops_the_second(scope: Scope, leads: list[Any]) -> None:
    many_right(scope, 373)
    policies.ask_promotion(scope.pk, ADVISORY, by=leads[0], reason="ok")
    asked = policies.ask_promotion(scope.pk, AUTOMATIC, by=leads[0], reason="clean")
    label([proposed(scope, 1, must_label=True)], CaseLabel.WRONG)
    with pytest.raises(policies.NotPromotable, match="record"):
        policies.second(asked.pk, by=leads[1])


def test_a_promotion_without_a_second_person_ends_after_two_weeks(scope: Scope, leads: list[Any]) -> None:
    many_right(scope, 373)
    policies.ask_promotion(scope.pk, ADVISORY, by=leads[0], reason="ok")
    asked = policies.ask_promotion(scope.pk, AUTOMATIC, by=leads[0], reason="clean")
    Promotion.objects.filter(pk=asked.pk).update(asked_at=timezone.now() - timedelta(days=15))
    policies.sweep()
    asked.refresh_from_db()
    assert asked.ended_at is not None and not asked.granted


def test_one_person_demotes_at_any_time(automatic: Scope) -> None:
    policies.demote_by_hand(automatic.pk, OBSERVE, by=a_user("op", "operator"), reason="I do not trust it")
    automatic.refresh_from_db()
    assert automatic.mode == OBSERVE and automatic.mode_until is None


def test_automatic_ends_after_its_ninety_days(automatic: Scope) -> None:
    Scope.objects.filter(pk=automatic.pk).update(mode_until=timezone.now() - timedelta(seconds=1))
    assert policies.mode_now(policy_find.scope_row(automatic.pk), automatic.ruleset) is ADVISORY
    policies.sweep()
    automatic.refresh_from_db()
    assert automatic.mode == ADVISORY and "90 days" in automatic.said


def test_a_stop_ends_automatic(automatic: Scope) -> None:
    Brake.objects.create(kind=BrakeKind.STOP.value, reason="smoke", cluster=Cluster.objects.get(name="alpha"))
    policies.sweep()
    automatic.refresh_from_db()
    assert automatic.mode == ADVISORY


def test_a_stop_that_is_released_before_anybody_looks_ends_automatic_too(automatic: Scope) -> None:
    zoe, cluster = a_user("zoe", "lead"), Cluster.objects.get(name="alpha")
    stop = brakes.pull(cluster, BrakeKind.STOP, "smoke", zoe)
    automatic.refresh_from_db()
    assert (automatic.mode, automatic.mode_until) == (ADVISORY, None)
    brakes.release(stop.pk, by=zoe, reason="no fire")
    policies.sweep()
    automatic.refresh_from_db()
    assert automatic.mode == ADVISORY


def test_a_stop_takes_from_what_waits_for_a_replay_too(automatic: Scope) -> None:
    Scope.objects.filter(pk=automatic.pk).update(mode=ADVISORY)
    brakes.pull(None, BrakeKind.STOP, "smoke", a_user("zoe", "lead"))
    automatic.refresh_from_db()
    assert (automatic.mode, automatic.mode_until) == (ADVISORY, None)


def test_two_wrong_actions_within_a_week_end_automatic_with_the_second_label(automatic: Scope) -> None:
    by, hours = a_user("rev", "reviewer"), timedelta(hours=1)
    for number in (1, 2):
        assert Scope.objects.get(pk=automatic.pk).mode == AUTOMATIC
        wrong = proposed(automatic, number, ago=number * hours)
        labels.give(wrong.pk, CaseLabel.WRONG, LabelBasis.DIAGNOSTICS, by=by, text="diagnostics passed")
    automatic.refresh_from_db()
    assert automatic.mode == ADVISORY and "2 wrong actions" in automatic.said
    assert kinds()[-1] == EntryKind.POLICY_DEMOTED


def test_labels_that_fall_due_without_being_given_end_automatic(automatic: Scope) -> None:
    for number in (1, 2):
        proposed(automatic, number, ago=timedelta(days=14, hours=number), must_label=True)
    Scope.objects.filter(pk=automatic.pk).update(mode_since=timezone.now() - timedelta(days=30))
    policies.sweep()
    automatic.refresh_from_db()
    assert automatic.mode == ADVISORY


def test_another_ruleset_suspends_automatic(automatic: Scope) -> None:
    # What gives it back is in test_replay_gate.py.
    assert policies.mode_now(policy_find.scope_row(automatic.pk), "cd" * 32) is ADVISORY
    Scope.objects.filter(pk=automatic.pk).update(ruleset="cd" * 32)
    assert policy_watch.heed_rulesets() == 1
    automatic.refresh_from_db()
    assert automatic.mode == ADVISORY and automatic.mode_until is not None


def test_drift_in_what_a_rule_of_the_domain_sees_ends_automatic(automatic: Scope) -> None:
    rule = next(one for one in conclude.current_ruleset().rules if one.domain == "gpu_hardware")
    now = timezone.now()
    DriftCheck.objects.create(
        until=now,
        days=7,
        attempts_before=9,
        attempts_after=9,
        signs=[{"kind": "silent", "rule": rule.id, "text": "gone"}],
    )
    assert policy_watch.heed_drift() == 1
    automatic.refresh_from_db()
    assert automatic.mode == ADVISORY and rule.id in automatic.said
    assert policy_watch.heed_drift() == 0


def test_a_retired_policy_observes_and_takes_no_change(policy: Policy, automatic: Scope, author: Any) -> None:
    policies.retire(policy.pk, by=author, reason="replaced")
    automatic.refresh_from_db()
    assert automatic.mode == OBSERVE
    with pytest.raises(InputError, match="retired"):
        policies.change(policy.pk, BODY | {"approvals": 2}, by=author, reason="still")
