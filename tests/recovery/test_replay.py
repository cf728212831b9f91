"""Replay: stored attempts concluded again under other rules, changing nothing."""

from typing import Any
from uuid import UUID

import msgspec
import pytest
from django.utils import timezone

from recovery.ledger.entries import Actor
from recovery.models import LedgerEntry, Replay, ReplayChunk
from recovery.replay import begin, blame, find, report, rulesets, work
from recovery.replay import conclude as one
from recovery.replay.begin import Wish
from recovery.replay.words import Again, ItemOutcome, ReplayState
from recovery.words import EntryKind
from rules.attempt import InputError
from rules.ruleset import Ruleset
from tests.recovery.replaying import DISK, FAN, LINK, a_rule, concluded, in_force, many, rules
from tests.verdicts.builders import a_user, an_attempt
from verdicts.choices import Mode
from verdicts.conclude import request_attribution
from verdicts.models import Attempt, AttributionRequest, Observation, Verdict
from verdicts.record import record_attempt
from verdicts.verdict_rows import write_verdict

pytestmark = pytest.mark.django_db
SYSTEM = Actor.system("test")


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Ruleset:
    monkeypatch.setattr(begin.waking, "wake_task", lambda *_, **__: True)
    return in_force(monkeypatch, rules())


def replayed(wish: Wish) -> Replay:
    """A replay that is done, in this process."""
    row = begin.begin(wish, SYSTEM)
    work.run(60, alone=True)
    row.refresh_from_db()
    return row


def under(ruleset: Ruleset, query: str = "") -> Replay:
    return replayed(Wish(ruleset=rulesets.keep(ruleset), query=query))


def named(row: Replay, **which: Any) -> set[UUID]:
    return set(row.items.filter(**which).values_list("attempt_id", flat=True))


def ids(attempts: list[Attempt]) -> set[UUID]:
    return {attempt.pk for attempt in attempts}


def test_a_one_line_change_names_exactly_the_attempts_that_it_touches_and_changes_nothing() -> None:
    stored = many(range(45))
    before = list(Verdict.objects.order_by("pk").values_list("pk", "body_sha256", "is_current"))
    row = under(rules(fan=a_rule("fan", "fan [0-9]+ stands quite still")))
    assert row.state == ReplayState.DONE and row.ended_at is not None
    assert named(row, outcome=ItemOutcome.CHANGED) == ids(stored[FAN])
    assert named(row, outcome=ItemOutcome.SAME) == ids(stored[DISK]) | ids(stored[LINK])
    (group,) = find.groups(row)
    assert (group.move, group.rules, group.attempts, group.weighty) == (
        "host_hardware → unattributed",
        ["test.fan"],
        15,
        True,
    )
    assert list(Verdict.objects.order_by("pk").values_list("pk", "body_sha256", "is_current")) == before
    text = "\n".join(report.lines(row))
    assert all(str(attempt.pk) in text for attempt in stored[FAN])
    assert not any(str(attempt.pk) in text for attempt in [*stored[DISK], *stored[LINK]])


def test_a_change_of_words_is_told_and_has_no_weight() -> None:
    attempt = concluded("1", FAN)
    row = under(rules(fan=a_rule("fan", "fan [0-9]+ stands still", title="A fan stands still")))
    assert named(row, outcome=ItemOutcome.CHANGED, weighty=False, move="words alone") == {attempt.pk}


def test_of_several_changed_rules_the_one_that_did_it_is_named() -> None:
    attempt = concluded("1", FAN)
    other = rules(
        fan=a_rule("fan", "fan [0-9]+ stands still", domain="facility"),
        link=a_rule("link", "link [0-9]+ is quite down", domain="network_fabric"),
        disk=None,
        door=a_rule("door", "the door stands open"),
    )
    assert blame.differing(rulesets.own(Verdict.objects.get().ruleset_id), other) == {  # type: ignore[arg-type]
        "test.fan": "changed",
        "test.link": "changed",
        "test.disk": "gone",
        "test.door": "new",
    }
    row = under(other)
    item = row.items.get(attempt=attempt)
    assert (item.rules, item.tried, item.move) == (["test.fan"], True, "host_hardware → facility")


def test_where_only_several_together_change_it_all_of_them_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Either of two rules finds the line: it takes both to go before nothing is found.
    first = a_rule("fan", "fan [0-9]+ stands still")
    second = first.replace(b"test.fan", b"test.twin")
    in_force(monkeypatch, rules(twin=second))
    concluded("1", FAN)
    item = under(rules(fan=None)).items.get()
    assert (item.rules, item.tried, item.move) == (["test.fan", "test.twin"], False, "host_hardware → unattributed")


def test_under_its_own_rules_every_verdict_comes_out_byte_for_byte() -> None:
    many(range(9))
    row = replayed(Wish())
    assert row.items.filter(outcome=ItemOutcome.SAME, again=Again.SAME).count() == 9


def test_a_verdict_that_does_not_come_out_again_is_a_finding() -> None:
    attempt = concluded("1", FAN)
    told = Verdict.objects.get()
    told.attempt.verdicts.update(is_current=False, superseded_at=timezone.now())
    raw = msgspec.json.encode(told.body | {"headline": "something else"}, order="sorted")
    write_verdict(attempt, raw, number=2, ruleset=rules(), generation=told.generation)
    row = replayed(Wish())
    assert named(row, again=Again.DIFFERS, outcome=ItemOutcome.CHANGED) == {attempt.pk}
    assert "NOT REPRODUCIBLE: 1" in "\n".join(report.lines(row))
    # Under rules that would have made no difference it is told all the same, and blamed on no rule.
    row = under(rules(link=None))
    item = row.items.get()
    assert (item.outcome, item.again, item.rules) == (ItemOutcome.SAME, Again.DIFFERS, [])


def test_late_evidence_is_not_blamed_on_a_rule() -> None:
    attempt = concluded("1", FAN)
    Observation.objects.filter(attempt=attempt).update(count=1)
    Attempt.objects.filter(pk=attempt.pk).update(generation=99)
    late = Observation.objects.get(attempt=attempt)
    late.pk, late.digest, late.body, late.ref = None, "cd" * 32, f"kernel: {LINK}", "syslog/gpu-01.log:2"
    late.save()
    item = replayed(Wish()).items.get()
    assert (item.outcome, item.again) == (ItemOutcome.CHANGED, Again.EVIDENCE)


def test_what_cannot_be_replayed_says_why() -> None:
    gone, expired, cut = (concluded(str(number), FAN) for number in range(1, 4))
    none, _ = record_attempt(an_attempt("4"))
    Observation.objects.filter(attempt=gone).delete()
    Attempt.objects.filter(pk=expired.pk).update(lines_expired_at=timezone.now())
    Attempt.objects.filter(pk=cut.pk).update(cut={"syslog": 12})
    row = under(rules(fan=None))
    assert row.total == 4
    why = dict(row.items.values_list("attempt_id", "why"))
    assert why[gone.pk] == "its evidence is not there any more: syslog: 1 records then, 0 now"
    assert why[expired.pk].startswith("its lines expired on ")
    assert why[none.pk] == one.NO_VERDICT
    assert named(row, outcome=ItemOutcome.UNREPLAYABLE) == {gone.pk, expired.pk, none.pk}
    # What was kept of the fourth is concluded again, and it is said that it is not all there was.
    assert row.items.get(attempt=cut).outcome == ItemOutcome.CHANGED
    assert why[cut.pk].startswith("never kept whole: 12 of syslog were refused")
    assert sum(reason["attempts"] for reason in find.reasons(row)) == 4


def test_an_engine_that_fails_at_one_attempt_fails_at_that_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = concluded("1", FAN), concluded("2", FAN)
    engine = one.attribute

    def sometimes(attempt: Any, *given: Any, **more: Any) -> Any:
        if attempt.job_id == "1":
            raise RuntimeError("no idea")
        return engine(attempt, *given, **more)

    monkeypatch.setattr(one, "attribute", sometimes)
    row = under(rules(fan=None))
    assert (row.items.get(attempt=bad).outcome, row.items.get(attempt=bad).why) == ("failed", "RuntimeError: no idea")
    assert row.items.get(attempt=good).outcome == ItemOutcome.CHANGED


def test_a_filter_names_the_attempts_as_the_list_does() -> None:
    concluded("1", FAN)
    wanted = concluded("2", DISK)
    assert named(under(rules(fan=None), "domain=storage&job=2")) == {wanted.pk}
    for query, said in (("domian=storage", "domian"), ("superseded=true", "superseded"), ("job=9", "no attempt")):
        with pytest.raises(InputError, match=said):
            under(rules(fan=None), query)


def test_it_is_cancelled_and_resumed_where_it_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    many(range(7))
    monkeypatch.setattr(begin, "CHUNK", 2)
    lead = a_user("lead", "lead")
    row = begin.begin_as(Wish(ruleset=rulesets.keep(rules(fan=None))), by=lead)
    work.run(0.0001, alone=True)
    begun = find.counts(row).done
    assert 0 < begun < 7
    assert begin.cancel(row.pk, by=lead).state == ReplayState.CANCELLED
    assert work.run(60, alone=True) == 0
    with pytest.raises(begin.NotNow):
        begin.cancel(row.pk, by=lead)
    begin.resume(row.pk, by=lead)
    assert work.run(60, alone=True) == 7 - begun
    row.refresh_from_db()
    assert row.state == ReplayState.DONE and not row.chunks.exists()
    kinds = list(LedgerEntry.objects.filter(subject_kind="replay").order_by("at").values_list("kind", flat=True))
    assert kinds == [EntryKind.REPLAY_BEGUN, EntryKind.REPLAY_ENDED, EntryKind.REPLAY_BEGUN, EntryKind.REPLAY_ENDED]


def test_who_lost_the_lease_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    concluded("1", FAN)
    row = begin.begin(Wish(ruleset=rulesets.keep(rules(fan=None))), SYSTEM)
    answer = work.answer

    def taken_over(*asked: Any) -> Any:
        ReplayChunk.objects.update(fence=99)
        return answer(*asked)

    monkeypatch.setattr(work, "answer", taken_over)
    assert work.run(60, alone=True) == 0
    assert row.items.get().outcome == ItemOutcome.WAITING


def test_an_attempt_that_ends_its_workers_is_left_and_the_others_go_on() -> None:
    many(range(3))
    row = begin.begin(Wish(ruleset=rulesets.keep(rules(fan=None))), SYSTEM)
    ReplayChunk.objects.update(at=1, tries=work.TRIES - 1)
    work.run(60, alone=True)
    assert list(row.items.order_by("number").values_list("outcome", flat=True)).count("failed") == 1
    assert "each of 2 workers" in row.items.get(number=1).why
    row.refresh_from_db()
    assert row.state == ReplayState.DONE


def test_attributions_that_are_owed_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    many(range(4))
    row = begin.begin(Wish(ruleset=rulesets.keep(rules(fan=None))), SYSTEM)
    answer = work.answer
    owed: list[int] = []

    def watched(*asked: Any) -> Any:
        owed.append(AttributionRequest.objects.open().count())
        if len(owed) == 2:  # one comes while it works
            request_attribution(Attempt.objects.first().pk, Mode.SLOW)  # type: ignore[union-attr]
        return answer(*asked)

    monkeypatch.setattr(work, "answer", watched)
    request_attribution(Attempt.objects.first().pk, Mode.SLOW)  # type: ignore[union-attr]
    work.run(60)
    assert owed == [0, 0, 0, 0]
    assert find.counts(row).done == 4
