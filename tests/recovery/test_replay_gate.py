"""What a ruleset has to show before policies act by themselves on its word."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from recovery.ledger.entries import Actor
from recovery.models import LedgerEntry, Replay, Scope
from recovery.policies import watch
from recovery.replay import begin, gate, judge, rulesets, work
from recovery.replay.begin import Wish
from recovery.replay.words import Judgement, ReplayState
from recovery.words import EntryKind, PolicyMode
from rules.attempt import InputError
from rules.ruleset import Ruleset
from rules.words import Domain
from tests.recovery.deciding import a_policy, in_mode
from tests.recovery.replaying import DISK, FAN, a_rule, concluded, in_force, rules
from tests.verdicts.builders import a_user
from verdicts.record import NotPermitted

pytestmark = pytest.mark.django_db
OTHER_FAN = a_rule("fan", "fan [0-9]+ stands still", domain="facility")


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Ruleset:
    monkeypatch.setattr(begin.waking, "wake_task", lambda *_, **__: True)
    return in_force(monkeypatch, rules())


@pytest.fixture
def scope(own: Ruleset) -> Scope:
    """A policy that acts by itself on faults of hosts, promoted with the rules in force."""
    found = in_mode(a_policy().policy, PolicyMode.AUTOMATIC, Domain.HOST_HARDWARE)
    Scope.objects.filter(pk=found.pk).update(ruleset=own.digest)
    found.refresh_from_db()
    return found


def replayed(ruleset: Ruleset, query: str = "") -> Replay:
    row = begin.begin(Wish(ruleset=rulesets.keep(ruleset), query=query), Actor.system("test"))
    work.run(60, alone=True)
    row.refresh_from_db()
    return row


def now(scope: Scope) -> Any:
    scope.refresh_from_db()
    return PolicyMode(scope.mode)


def taken_into_use(monkeypatch: pytest.MonkeyPatch, ruleset: Ruleset) -> None:
    """A verdict of the policy's class comes from these rules, and the sweep sees it."""
    in_force(monkeypatch, ruleset)
    concluded("new", FAN, days_ago=0)
    watch.heed_rulesets()


def test_rules_that_were_replayed_without_a_change_before_do_not_suspend(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    concluded("1", FAN)
    other = rules(disk=None)
    replayed(other)
    taken_into_use(monkeypatch, other)
    assert now(scope) is PolicyMode.AUTOMATIC and scope.ruleset == other.digest
    entry = LedgerEntry.objects.get(kind=EntryKind.POLICY_PROMOTED)
    assert (entry.body["facts"]["replayed"], entry.body["facts"]["changed"]) == (1, 0)


def test_other_rules_suspend_and_a_replay_of_all_that_is_begun_by_itself_gives_it_back(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    concluded("1", FAN)
    concluded("2", DISK)
    taken_into_use(monkeypatch, rules(disk=None))
    assert now(scope) is PolicyMode.ADVISORY and scope.mode_until is not None
    assert watch.settle_suspended() == 1
    begun = Replay.objects.get()
    assert begun.state == ReplayState.RUNNING and begun.actor == "system:replay"
    # Nothing more is begun while it runs.
    assert watch.settle_suspended() == 0 and Replay.objects.count() == 1
    work.run(60, alone=True)
    assert now(scope) is PolicyMode.AUTOMATIC
    assert "A replay of 2 cases" in scope.said and "no change" in scope.said


def test_a_change_of_its_class_has_to_be_accepted_by_a_person(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    concluded("1", FAN)
    other = rules(fan=a_rule("fan", "fan [0-9]+ stands still", role="either"))
    in_force(monkeypatch, other)
    concluded("new", FAN, days_ago=0)
    watch.heed_rulesets()
    row = replayed(other)
    assert row.items.filter(weighty=True).count() == 1
    watch.settle_suspended()
    assert now(scope) is PolicyMode.ADVISORY and "1 changes to its cases wait" in scope.said
    reviewer = a_user("ada", "reviewer")
    number = row.items.get(weighty=True).number
    judge.judge(row.pk, [number], Judgement.REJECTED, by=reviewer, reason="the fan did stand still")
    gate.look(row.pk)
    assert now(scope) is PolicyMode.ADVISORY and "rejected" in scope.said
    judge.judge(row.pk, [number], Judgement.ACCEPTED, by=reviewer, reason="it was moved by hand")
    gate.look(row.pk)
    assert now(scope) is PolicyMode.AUTOMATIC
    assert "1 changes, all accepted" in scope.said
    facts = LedgerEntry.objects.get(kind=EntryKind.POLICY_PROMOTED).body["facts"]
    assert (facts["replay"], facts["accepted_by"]) == (str(row.pk), ["ada"])
    judged = LedgerEntry.objects.filter(kind=EntryKind.REPLAY_JUDGED).order_by("at")
    assert [entry.body["facts"]["judgement"] for entry in judged] == ["rejected", "accepted"]
    assert judged[1].body["facts"]["items"][0]["before"] == "rejected"


def test_what_would_newly_be_of_its_class_counts_too(scope: Scope) -> None:
    concluded("1", DISK)
    row = replayed(rules(disk=a_rule("disk", "disk [a-z]+ gave up", domain="host_hardware")))
    (told,) = gate.gates_of(row)
    assert not told.passes and "wait to be accepted" in told.said


def test_a_replay_of_a_part_speaks_for_nobody(scope: Scope) -> None:
    concluded("1", FAN)
    other = rules(disk=None)
    for query in ("domain=host_hardware", "cluster=beta", f"after={(timezone.now() - timedelta(days=3)).isoformat()}"):
        if query != "cluster=beta":
            replayed(other, query.replace("+00:00", "Z"))
    assert "No replay" in gate.of_scope(scope, other.digest).said
    replayed(other, "cluster=alpha")
    assert gate.of_scope(scope, other.digest).passes
    Replay.objects.update(created_at=timezone.now() - timedelta(days=31))
    assert not gate.of_scope(scope, other.digest).passes


def test_where_nothing_of_its_class_is_there_it_has_to_be_promoted_anew(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scope.objects.filter(pk=scope.pk).update(ruleset="cd" * 32)
    watch.heed_rulesets()
    concluded("2", DISK)
    watch.settle_suspended()
    work.run(60, alone=True)
    assert now(scope) is PolicyMode.ADVISORY and scope.mode_until is None
    assert "promoted anew" in scope.said


def test_who_may_start_and_who_may_judge(scope: Scope) -> None:
    concluded("1", FAN)
    wish = Wish(ruleset=rulesets.keep(rules(fan=OTHER_FAN)))
    with pytest.raises(NotPermitted):
        begin.begin_as(wish, by=a_user("vera", "viewer"))
    operator, reviewer = a_user("otto", "operator"), a_user("rita", "reviewer")
    row = begin.begin_as(wish, by=operator)
    work.run(60, alone=True)
    with pytest.raises(NotPermitted):
        judge.judge(row.pk, None, Judgement.ACCEPTED, by=operator, reason="fine")
    for numbers, reason, said in (([1], " ", "reason"), ([7], "fine", "no change of this replay has number 7")):
        with pytest.raises(InputError, match=said):
            judge.judge(row.pk, numbers, Judgement.ACCEPTED, by=reviewer, reason=reason)
    assert judge.judge(row.pk, None, Judgement.ACCEPTED, by=reviewer, reason="fine") == 1
    with pytest.raises(InputError, match="no change to judge"):
        judge.judge(row.pk, None, Judgement.REJECTED, by=reviewer, reason="all that is left")


def test_who_began_a_replay_does_not_accept_what_a_policy_hangs_on(scope: Scope) -> None:
    concluded("1", FAN)
    lead, other = a_user("lena", "lead"), a_user("rita", "reviewer")
    row = begin.begin_as(Wish(ruleset=rulesets.keep(rules(fan=OTHER_FAN))), by=lead)
    work.run(60, alone=True)
    row.refresh_from_db()
    assert "by another person than lena" in gate.of_replay(row, scope).said
    with pytest.raises(NotPermitted, match="You began this replay: policy leave-out acts by itself"):
        judge.judge(row.pk, None, Judgement.ACCEPTED, by=lead, reason="fine")
    # Where no policy acts by itself it is theirs to say, and counts for nothing once one does.
    acts = Scope.objects.filter(pk=scope.pk)
    acts.update(mode=PolicyMode.OBSERVE.value)
    assert judge.judge(row.pk, None, Judgement.ACCEPTED, by=lead, reason="fine") == 1
    acts.update(mode=PolicyMode.AUTOMATIC.value)
    told = gate.of_replay(row, scope)
    assert not told.passes and "another person has to accept" in told.said
    assert judge.judge(row.pk, [1], Judgement.REJECTED, by=lead, reason="it is not") == 1
    assert judge.judge(row.pk, [1], Judgement.ACCEPTED, by=other, reason="it is") == 1
    assert gate.of_replay(row, scope).passes
    facts = LedgerEntry.objects.filter(kind=EntryKind.REPLAY_JUDGED).order_by("at").last().body["facts"]
    assert facts["begun_by"] == "user:lena"


@pytest.mark.parametrize("first", ["user:lena", "system:command-line lena"])
def test_nor_does_who_brought_the_rules_whoever_began_the_replay(scope: Scope, first: str) -> None:
    concluded("1", FAN)
    lead, other = a_user("lena", "lead"), a_user("rita", "reviewer")
    wish = Wish(ruleset=rulesets.keep(rules(fan=OTHER_FAN)))
    begin.begin(wish, Actor(first))
    row = begin.begin_as(wish, by=other)
    work.run(60, alone=True)
    for person, why in ((lead, "You were the first to try these rules"), (other, "You began this replay")):
        with pytest.raises(NotPermitted, match=why):
            judge.judge(row.pk, None, Judgement.ACCEPTED, by=person, reason="fine")
    assert judge.judge(row.pk, None, Judgement.ACCEPTED, by=a_user("third", "reviewer"), reason="fine") == 1
