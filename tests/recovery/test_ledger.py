"""The ledger as the database keeps it."""

import json
import re
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import DatabaseError, connection, transaction

from recovery.ledger import entries as ledger
from recovery.ledger.chain import START, body_hash, content_hash, link_hash
from recovery.models import LedgerCheckpoint, LedgerContent, LedgerEntry, LedgerLink, Veto
from recovery.words import EntryKind, VetoKind
from tests.verdicts.builders import a_user
from verdicts.models import Cluster

DEPLOY = Path(__file__).parents[2] / "docs/deploy.md"
SYSTEM = ledger.Actor.system("tests")


def an_entry(number: int = 1, **more: object) -> LedgerEntry:
    said = {"actor": SYSTEM, "subject": ("attempt", str(number)), "body": {"number": number}}
    return ledger.record(EntryKind.PROPOSAL_MADE, **(said | more))  # type: ignore[arg-type]


def chain_now() -> list[LedgerLink]:
    """The chain as a commit would leave it."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    return list(LedgerLink.objects.select_related("entry"))


def test_an_entry_is_chained_when_its_transaction_commits(db: None) -> None:
    an_entry(1, erasable={"reason": "too risky"}, attempt=uuid4())
    an_entry(2)
    assert not LedgerLink.objects.exists()
    first, second = chain_now()
    assert (first.number, first.previous, second.number, second.previous) == (1, START, 2, first.hash)
    for link in (first, second):
        assert link.entry.body_sha256 == body_hash(link.entry.body_json.encode())
        assert link.hash == link_hash(link.number, link.previous, link.entry.body_sha256)
        assert json.loads(link.entry.body_json) == link.entry.body
    content = LedgerContent.objects.get()
    assert first.entry.body["erasable"] == {"reason": content_hash(content.salt, "reason", "too risky")}


def test_concurrent_writers_and_those_who_roll_back_leave_no_gap(transactional_db: None) -> None:
    start = threading.Barrier(32)
    failed: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            start.wait(30)
            for turn in range(4):
                try:
                    with transaction.atomic():
                        an_entry(writer)
                        an_entry(writer)
                        if (writer + turn) % 3 == 0:
                            raise KeyError
                except KeyError:
                    continue
        except BaseException as error:  # noqa: BLE001  # told by the test
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    links = list(LedgerLink.objects.select_related("entry"))
    kept = 2 * sum((writer + turn) % 3 != 0 for writer in range(32) for turn in range(4))
    assert [link.number for link in links] == list(range(1, kept + 1))
    previous = START
    for link in links:
        assert link.previous == previous
        assert link.hash == link_hash(link.number, previous, link.entry.body_sha256)
        previous = link.hash


def test_who_waits_for_a_row_at_its_commit_does_not_hold_up_the_chain(transactional_db: None) -> None:
    """Foreign keys are looked at when a transaction commits, too: nobody may wait for them with the chain's lock."""
    cluster = Cluster.objects.create(name="alpha")
    ada = a_user("ada")
    failed: list[BaseException] = []

    def veto() -> None:
        try:
            with transaction.atomic():
                an_entry(1)
                Veto.objects.create(cluster=cluster, kind=VetoKind.NODE.value, value="gpu-01", reason="-", by=ada)
        except BaseException as error:  # noqa: BLE001  # told by the test
            failed.append(error)
        finally:
            connection.close()

    other = threading.Thread(target=veto)
    with transaction.atomic():
        Cluster.objects.select_for_update().get(pk=cluster.pk)
        other.start()
        deadline = time.monotonic() + 30
        waiting = False
        while not waiting:
            assert time.monotonic() < deadline
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()")
                waiting = cursor.fetchone()[0] > 0
        an_entry(2)
    other.join(30)
    assert not failed
    assert list(LedgerLink.objects.values_list("entry__subject", flat=True)) == ["2", "1"]


REFUSED = [
    "UPDATE recovery_ledgerentry SET actor = 'system:nobody'",
    "DELETE FROM recovery_ledgerentry",
    "TRUNCATE recovery_ledgerentry",
    "UPDATE recovery_ledgerlink SET number = number + 1",
    "DELETE FROM recovery_ledgerlink",
    "TRUNCATE recovery_ledgerlink",
    "UPDATE recovery_ledgercheckpoint SET number = 1",
    "DELETE FROM recovery_ledgercheckpoint",
    "TRUNCATE recovery_ledgercheckpoint",
    "DELETE FROM recovery_ledgercontent",
    "TRUNCATE recovery_ledgercontent",
    "UPDATE recovery_ledgercontent SET text = 'kinder', erased_at = now()",
    "UPDATE recovery_ledgercontent SET text = '', salt = '', erased_at = NULL",
    "UPDATE recovery_ledgercontent SET field = 'note', text = '', salt = '', erased_at = now()",
    """INSERT INTO recovery_ledgerlink (number, entry_id, previous, hash)
       SELECT 2, gen_random_uuid(), hash, repeat('a', 64) FROM recovery_ledgerlink""",
    """INSERT INTO recovery_ledgercontent (entry_id, field, salt, text)
       SELECT id, 'note', repeat('a', 64), 'said later' FROM recovery_ledgerentry""",
    """INSERT INTO recovery_ledgerentry (id, kind, at, actor, subject_kind, subject, body, body_json, body_sha256)
       SELECT gen_random_uuid(), kind, at, 'user:eve', subject_kind, subject, body, body_json, body_sha256
       FROM recovery_ledgerentry""",
]


@pytest.fixture
def guarded(db: None) -> None:
    """A ledger with an entry of each table, with the trigger that the tests' own clean-up switches off."""
    an_entry(erasable={"reason": "too risky"})
    link = chain_now()[0]
    LedgerCheckpoint.objects.create(
        number=link.number, hash=link.hash, made_at=datetime.now(UTC), public_key="0" * 64, signature="0" * 128
    )
    with connection.cursor() as cursor:
        for table in ("ledgerentry", "ledgerlink", "ledgercheckpoint", "ledgercontent"):
            cursor.execute(f"ALTER TABLE recovery_{table} ENABLE ALWAYS TRIGGER never_truncated")


def refusal(statement: str) -> str:
    """What the database says to it."""
    with pytest.raises(DatabaseError) as caught, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    return str(caught.value)


def test_the_owner_of_the_tables_cannot_rewrite_the_ledger(guarded: None) -> None:
    for statement in REFUSED:
        assert "refuse" in (said := refusal(statement)) or "made by the database" in said or "erased" in said, statement


def test_the_application_s_role_cannot_rewrite_the_ledger(guarded: None) -> None:
    grants = re.search(r"```sql\n(-- The application's role.*?)```", DEPLOY.read_text(), re.DOTALL)
    assert grants
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE inquest_app_of_tests")
        cursor.execute(grants[1].replace("inquest_app", "inquest_app_of_tests").replace("%", "%%"))
        cursor.execute("SET LOCAL ROLE inquest_app_of_tests")
        cursor.execute("SET LOCAL search_path = pg_temp, public")
        # A table that would be taken for the chain's, were its functions to look here first.
        cursor.execute(
            "CREATE TEMPORARY TABLE recovery_ledgerlink (number bigint, entry_id uuid, previous text, hash text)"
        )
        cursor.execute("SET LOCAL search_path = public, pg_temp")
    for statement in (*REFUSED, "DELETE FROM recovery_ledgerturn", "DROP TABLE recovery_ledgerlink"):
        said = refusal(statement.replace("recovery_ledgerlink", "public.recovery_ledgerlink"))
        assert "permission denied" in said or "must be owner" in said or "refused" in said or "erased" in said, (
            statement
        )
    an_entry(2)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SELECT max(number) FROM public.recovery_ledgerlink")
        assert cursor.fetchone() == (2,)
        cursor.execute("RESET ROLE")


def test_words_of_people_can_be_erased_and_nothing_else_of_them(guarded: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE recovery_ledgercontent SET text = '', salt = '', erased_at = now()")
    assert "can be erased, not changed" in refusal("UPDATE recovery_ledgercontent SET erased_at = now() + '1 day'")
    assert "can be erased, not changed" in refusal("UPDATE recovery_ledgercontent SET text = 'back', erased_at = NULL")
