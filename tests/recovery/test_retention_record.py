"""Evidence that expired is in no table, no answer and no record, while the chain verifies and the record says what went."""

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from recovery import decide, propose
from recovery.ledger import chain, intake
from recovery.ledger import export as ledger_export
from recovery.ledger import keys as ledger_keys
from recovery.ledger.entries import Actor
from recovery.models import Intake, LedgerContent, Proposal
from recovery.record import again, export, load
from recovery.record.read import Record, open_record
from recovery.retention import expire, holds
from recovery.retention.holds import Scope
from recovery.words import ActionKind, RejectReason
from rules.attempt import InputError
from rules.observation import Observation
from rules.words import Source
from tests.recovery.deciding import a_policy, failed, from_now_on, judged
from tests.recovery.recording import an_incident, chained
from tests.verdicts.builders import a_report, a_user
from verdicts import conclude
from verdicts.choices import Label, Mode
from verdicts.models import Attempt, Verdict
from verdicts.people import talk
from verdicts.record import add_observations, record_reports, record_review

pytestmark = pytest.mark.django_db
SENTINEL = "zanzibar-4711-sentinel"


@pytest.fixture(autouse=True)
def _keys(settings: Settings, tmp_path: Path) -> None:
    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path / "key.pem")
    settings.INQUEST_LEDGER_CHECKPOINT_FILE = str(tmp_path / "checkpoints")


@pytest.fixture
def attempt() -> Attempt:
    """An attempt with the sentinel in everything that tools, collectors and people say of it."""
    from_now_on()
    for name in ("verdicts", "reviews", "rulesets"):
        Intake.objects.update_or_create(name=name, defaults={"read_until": "2020-01-01T00:00:00Z"})
    made = an_incident()
    lines = [
        f"FATAL: cannot open /data/{SENTINEL}",
        f'Traceback (most recent call last):\n  File "train.py", line 3\nRuntimeError: {SENTINEL}',
        f"ERROR {SENTINEL}: the frobnicator gave up",
    ]
    add_observations(
        made.pk,
        [
            Observation(source=Source.APPLOG, body=line, ref=f"applog/rank1.log:{9 + place}", rank=1)
            for place, line in enumerate(lines)
        ],
    )
    record_reports(made.pk, [a_report(Source.KUBERNETES, status="partial", reason=f"timed out at {SENTINEL}")])
    verdict = conclude.attribute_now(conclude.request_attribution(made.pk, Mode.SLOW).pk)
    assert verdict is not None
    assert SENTINEL in verdict.body_json
    a_policy()
    person = a_user("grace", "reviewer", "operator", "lead")
    record_review(verdict.pk, by=person, label=Label.RIGHT, note=f"as in {SENTINEL}")
    talk.add_comment(verdict.pk, by=person, text=f"see {SENTINEL}")
    for proposal in propose.consider(verdict.pk):
        seen = proposal.plan_sha256
        decide.reject(proposal.pk, by=person, seen=seen, reason=RejectReason.OTHER, text=f"no: {SENTINEL}")
    by_hand = propose.propose_by_hand(made, ActionKind.NOTIFY, [], by=person, reason=f"tell them of {SENTINEL}")
    decide.withdraw(by_hand.pk, by=person, text=f"told them {SENTINEL}")
    intake.take_in()
    chained()
    return made


def aged(attempt: Attempt, days: int) -> None:
    """Everything of the attempt as it would be so many days later; the ledger, which nobody changes, is left alone."""
    then = timezone.now() - timedelta(days=days)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=then, ended_at=then, started_at=then - timedelta(hours=1))


def tables_with(text: str) -> set[str]:
    """The columns of text, bytes and JSON that have it, in every table of the database."""
    found = set()
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT table_name, column_name, data_type FROM information_schema.columns
            WHERE table_schema = current_schema()
            AND data_type IN ('text', 'character varying', 'jsonb', 'json', 'bytea', 'ARRAY')
            """
        )
        for table, column, kind in cursor.fetchall():
            told = f"encode(\"{column}\", 'escape')" if kind == "bytea" else f'"{column}"::text'
            asked = f'SELECT EXISTS (SELECT FROM "{table}" WHERE {told} ILIKE %s)'  # noqa: S608 - the database's words
            cursor.execute(asked, [f"%{text}%"])
            if cursor.fetchone()[0]:
                found.add(f"{table}.{column}")
    return found


def answers(client: Client, attempt: Attempt, verdict: Verdict) -> Iterator[tuple[str, bytes]]:
    """What pages and API say of the attempt."""
    of_attempt = ("api-attempt", "api-observations", "api-reports", "api-attributions", "api-verdict-history")
    of_attempt += ("verdicts:log", "recovery:of-attempt", "verdicts:collection")
    of_verdict = ("api-verdict", "api-verdict-body", "api-verdict-short", "api-verdict-timeline", "api-comments")
    of_verdict += ("verdicts:detail",)
    addresses = [reverse(name, args=[attempt.pk]) for name in of_attempt]
    addresses += [reverse(name, args=[verdict.pk]) for name in of_verdict]
    addresses += [reverse("api-ledger") + f"?attempt={attempt.pk}&limit=500", reverse("api-reviews")]
    addresses += [reverse("api-proposal", args=[one.pk]) for one in Proposal.objects.all()]
    addresses += [reverse("recovery:proposal", args=[one.pk]) for one in Proposal.objects.all()]
    addresses += [reverse("verdicts:unrecognised"), reverse("verdicts:list") + f"?text={SENTINEL[:8]}"]
    for address in addresses:
        answer = client.get(address, follow=True)
        assert answer.status_code == 200, (address, answer.content[:500])
        yield address, answer.content.replace(f"text={SENTINEL[:8]}".encode(), b"")


def recorded(attempt: Attempt) -> tuple[bytes, Record]:
    with export.make(attempt.pk, Actor.system("test"), via="test") as out:
        chained()
        data = out.read()
    return data, open_record(io.BytesIO(data))


def whole(record: Record) -> bytes:
    """Everything that is in a record."""
    archive = record._zip
    return b"\n".join(archive.read(entry) for entry in archive.infolist())


def test_what_expired_is_nowhere_while_the_chain_verifies(attempt: Attempt, client: Client, settings: Settings) -> None:
    verdict = Verdict.objects.current().get(attempt=attempt)
    client.force_login(a_user("vera", "lead"))
    before = {address for address, said in answers(client, attempt, verdict) if SENTINEL.encode() in said}
    assert len(before) > 8
    assert len(tables_with(SENTINEL)) > 8
    _, record = recorded(attempt)
    assert SENTINEL.encode() in whole(record)
    issued = verdict.body_sha256

    aged(attempt, 1100)
    # What people wrote expires by its own age, which the ledger has: it is not changed here, its time is over instead.
    settings.INQUEST_KEEP_DAYS = settings.INQUEST_KEEP_DAYS | {"words": 1}
    later = timezone.now() + timedelta(days=2)
    done = expire.run(now=later)
    assert set(done.gone) == {"lines", "quotes", "words"}
    assert expire.run(now=later).attempts == 0
    chained()

    assert tables_with(SENTINEL) == set()
    assert [address for address, said in answers(client, attempt, verdict) if SENTINEL.encode() in said] == []
    assert not LedgerContent.objects.filter(erased_at__isnull=True, entry__attempt=attempt.pk).exists()
    report = chain.verify(ledger_export.lines(1, ledger_export.last_number()), ledger_keys.check)
    assert report.bad is None and report.erased >= 3

    data, record = recorded(attempt)
    assert SENTINEL.encode() not in data + whole(record)
    missing = {one.input: one.said for one in record.report.missing}
    assert "under class lines" in missing["expired:lines"]
    assert {"expired:quotes", "expired:words"} <= set(missing)
    assert [told.sha256 for told in record.verdicts][-1] == issued
    assert [row["kept"] for row in map(json.loads, record.lines("expired.jsonl"))][:2] == ["lines", "quotes"]
    with pytest.raises(again.Expired, match="cannot be concluded again"):
        again.conclude(record)
    verdict.refresh_from_db()
    assert verdict.body_sha256 == issued
    assert verdict.body["causes"][0]["evidence"][0]["ref"]
    imported(data, attempt, record.report.public_key)


def imported(data: bytes, attempt: Attempt, key: str) -> None:
    """Elsewhere, the record of what expired is imported with its tombstones."""
    elsewhere = "00000000-0000-4000-8000-000000000000"
    with connection.cursor() as cursor:
        # As if this were another site: it has neither the job nor the attempt.
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE verdicts_attempt SET id = %s, job_id = 'moved' WHERE id = %s", [elsewhere, attempt.pk])
        cursor.execute("SET LOCAL session_replication_role = origin")
    loaded = load.load(io.BytesIO(data), frozenset({key}), actor=Actor.system("test"))
    there = Attempt.objects.get(pk=loaded.attempt)
    assert there.lines_expired_at is not None
    assert all(stone.rule.endswith("where its record was made") for stone in there.tombstones.all())
    with pytest.raises(InputError, match="expired"):
        conclude.request_attribution(there.pk, Mode.SLOW)


def test_a_record_is_kept_no_longer_than_what_it_contains_and_names_the_hold() -> None:
    attempt = failed()

    def until(record: Record) -> int:
        day = timezone.datetime.fromisoformat(record.report.info["Inquest-Expires"]).date()
        return (day - timezone.now().date()).days

    assert until(recorded(attempt)[1]) in (179, 180)
    hold = holds.place(
        Scope(attempt=attempt),
        reason="a claim",
        owner=a_user("lena", "lead"),
        review_on=timezone.now().date(),
        by=a_user("lou", "lead"),
    )
    _, record = recorded(attempt)
    assert until(record) == 365
    assert str(hold.pk) in record.report.info["Inquest-Hold"]
    assert b"Held when it was made" in whole(record)


def test_what_is_quoted_goes_only_with_its_tombstone_and_a_plan_changes_in_nothing_else() -> None:
    attempt = failed()
    judged(attempt)
    proposal = propose.propose_by_hand(attempt, ActionKind.NOTIFY, [], by=a_user("lena", "lead"), reason="tell them")
    plan = {**proposal.plan, "nodes": ["gpu-99"]}
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL inquest.erase = 'on'")
    with pytest.raises(IntegrityError, match="written once"), transaction.atomic():
        Verdict.objects.filter(attempt=attempt).update(headline="another")
    with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
        Proposal.objects.filter(pk=proposal.pk).update(plan=plan, plan_json=json.dumps(plan))
