"""Exports out of the database, their checkpoints, and the command that verifies them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from django.db import connection
from pytest_django import Settings
from pytest_httpserver import HTTPServer

from attribution_site.cli import main
from recovery.ledger import checkpoints
from recovery.ledger import entries as ledger
from recovery.ledger import export as ledger_export
from recovery.ledger import keys as ledger_keys
from recovery.ledger.chain import verify
from recovery.models import LedgerCheckpoint, LedgerEntry, LedgerLink
from recovery.words import EntryKind
from verdicts.webhook import Webhook, signature

SYSTEM = ledger.Actor.system("tests")


@pytest.fixture
def places(db: None, settings: Settings, tmp_path: Path) -> Path:
    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path / "data/key.pem")
    settings.INQUEST_LEDGER_CHECKPOINT_FILE = str(tmp_path / "data/checkpoints")
    settings.INQUEST_LEDGER_CHECKPOINT_WEBHOOK = ""
    return tmp_path


def entries(number: int, said: str = "too risky") -> None:
    """So many entries, chained as a commit would."""
    for _ in range(number):
        ledger.record(EntryKind.PROPOSAL_MADE, actor=SYSTEM, subject=("proposal", "1"), erasable={"reason": said})
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def test_what_the_database_exports_verifies(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_export, "AT_ONCE", 3)
    entries(5)
    assert checkpoints.make() is not None
    entries(4)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE recovery_ledgercontent SET text = '', salt = '', erased_at = now() WHERE id % 2 = 0")
    assert checkpoints.make() is not None
    assert checkpoints.make() is None
    report = verify(
        ledger_export.lines(), ledger_keys.check, outside=(places / "data/checkpoints").read_bytes().splitlines(True)
    )
    assert report.bad is None
    assert (report.entries, report.checkpoints, report.from_outside, report.signed_to) == (9, 2, 2, 9)
    assert report.erased in (4, 5)
    later = verify(ledger_export.lines(first=7), ledger_keys.check)
    assert (later.bad, later.first, later.entries) == (None, 7, 3)
    some = LedgerEntry.objects.filter(link__number__in=[3, 4])
    assert ledger_export.bounds(some) == (3, 5)
    extract = verify(ledger_export.lines(3, 5, some), ledger_keys.check)
    assert (extract.bad, extract.entries, extract.sealed, extract.signed_to) == (None, 2, 1, 5)


def test_what_the_owner_changed_behind_the_triggers_is_named(places: Path) -> None:
    entries(6)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE recovery_ledgerentry DISABLE TRIGGER appended_only")
        cursor.execute(
            "UPDATE recovery_ledgerentry SET body_json = replace(body_json, 'system:tests', 'system:other')"
            " WHERE id = (SELECT entry_id FROM recovery_ledgerlink WHERE number = 4)"
        )
    bad = verify(ledger_export.lines(), ledger_keys.check).bad
    assert bad is not None
    assert bad.number == 4


def test_the_key_and_the_file_are_private_and_public_as_they_should(places: Path) -> None:
    entries(1)
    checkpoints.make()
    assert (places / "data/key.pem").stat().st_mode & 0o777 == 0o600
    made = LedgerCheckpoint.objects.get()
    told = json.loads((places / "data/checkpoints").read_text())
    assert told["signature"] == made.signature
    assert told["checkpoint"]["public_key"] == made.public_key


def test_a_checkpoint_that_cannot_be_kept_is_told_once_a_day(
    places: Path, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    entries(1)
    (places / "file").write_text("")
    settings.INQUEST_LEDGER_CHECKPOINT_FILE = str(places / "file/below")
    assert checkpoints.make() is not None
    entries(1)
    assert checkpoints.make() is not None
    failed = LedgerEntry.objects.get(kind=EntryKind.CHECKPOINT_FAILED.value)
    assert failed.subject == "file"
    assert caplog.text.count("ledger.checkpoint_failed where=file") == 2
    (places / "key").write_text("not a key")
    settings.INQUEST_LEDGER_KEY_FILE = str(places / "key")
    assert checkpoints.make() is None
    assert LedgerEntry.objects.filter(subject_kind="checkpoint", subject="key").exists()


def test_a_history_that_was_changed_is_not_signed(places: Path) -> None:
    entries(3)
    assert checkpoints.make() is not None
    entries(2)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE recovery_ledgerlink DISABLE TRIGGER appended_only")
        cursor.execute("UPDATE recovery_ledgerlink SET hash = repeat('a', 64) WHERE number = 4")
    assert checkpoints.make() is None
    failed = LedgerEntry.objects.get(kind=EntryKind.CHECKPOINT_FAILED.value)
    assert (failed.subject, failed.body["facts"]["why"]) == ("chain", "the chain is broken at entry 4")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE recovery_ledgerlink SET hash = repeat('b', 64) WHERE number = 3")
    _, failures = checkpoints.attempt()
    assert "entry 3 is not what was signed" in str(failures[0])


def test_a_webhook_is_told_with_a_signature(places: Path, settings: Settings, httpserver: HTTPServer) -> None:
    secret = b"twenty-four bytes, or more of them"
    settings.WEBHOOKS = {"witness": Webhook(httpserver.url_for("/ledger"), secret)}
    settings.INQUEST_LEDGER_CHECKPOINT_WEBHOOK = "witness"
    httpserver.expect_ordered_request("/ledger").respond_with_data("", status=204)
    httpserver.expect_ordered_request("/ledger").respond_with_data("", status=500)
    entries(1)
    made = checkpoints.make()
    assert made is not None
    request, _ = httpserver.log[0]
    assert request.headers["webhook-signature"] == signature(
        secret, made.pk, int(request.headers["webhook-timestamp"]), request.data
    )
    assert request.json["data"]["checkpoint"]["number"] == 1
    entries(1)
    checkpoints.make()
    assert LedgerEntry.objects.get(kind=EntryKind.CHECKPOINT_FAILED.value).subject == "webhook"


def run(*words: str, **more: str) -> Result:
    return CliRunner().invoke(main, ["ledger", *words], **more)  # type: ignore[arg-type]


def test_the_commands_sign_export_and_verify(places: Path) -> None:
    entries(3)
    assert run("checkpoint").exit_code == 0
    key = run("key").output
    assert run("checkpoint").exit_code == 0  # nothing new
    assert run("export", "-o", str(places / "out")).exit_code == 0
    (places / "key.pub").write_text(key)
    arguments = ["verify", str(places / "out"), "--public-key", str(places / "key.pub")]
    said = run(*arguments, "--checkpoints", str(places / "data/checkpoints"))
    assert said.exit_code == 0, said.output
    assert "ok: 3 entries, from 1 to 3" in said.output
    assert "Signed up to entry 3" in said.output
    (places / "key.pub").write_text("ab" * 32)
    refused = run(*arguments)
    assert refused.exit_code == 1
    assert "BAD entry 3: the checkpoint is signed with another key" in refused.output
    assert run("export", "--since", "99").exit_code == 3
    assert LedgerLink.objects.count() == 3  # the exports' own entries are chained when they are committed


def test_verifying_needs_neither_django_nor_a_database(places: Path) -> None:
    entries(2)
    (places / "out").write_bytes(b"".join(ledger_export.lines()))
    program = (
        "import sys; from attribution_site.cli import main\n"
        "try: main(['ledger', 'verify', sys.argv[1]])\n"
        "except SystemExit as end: assert not end.code\n"
        "assert 'django' not in sys.modules and 'celery' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-I", "-c", program, str(places / "out")],
        check=True,
        timeout=60,
        env={"DATABASE_URL": "none://"},
    )
    cut = (places / "out").read_bytes().splitlines(keepends=True)[:-2]
    (places / "out").write_bytes(b"".join(cut))
    refused = run("verify", str(places / "out"))
    assert refused.exit_code == 1
    assert "BAD entry 2: the export was cut off" in refused.output
