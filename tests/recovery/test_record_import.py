"""A record is loaded elsewhere: marked, once, verified, with the other site's words beside it and counting for nothing."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import DjangoDbBlocker, Settings

from attribution_site.cli import main
from recovery import propose
from recovery.ledger import intake
from recovery.ledger.entries import Actor
from recovery.models import Intake, LedgerEntry, Proposal
from recovery.record import load
from recovery.record.container import BadRecord
from recovery.words import ActionKind, EntryKind
from rules.attempt import Attempt as GivenAttempt
from rules.attempt import InputError
from tests.recovery.deciding import a_policy, from_now_on, judged
from tests.recovery.recording import Made, changed, files, made
from tests.verdicts.builders import a_user
from verdicts import conclude, limits
from verdicts.choices import Mode
from verdicts.models import Attempt, ImportedRecord, Review, RulesetText, Verdict
from verdicts.record import record_attempt

pytestmark = pytest.mark.django_db
ACTOR = Actor.system("tests")


@pytest.fixture(scope="module")
def record(django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory) -> Made:
    with django_db_blocker.unblock():
        return made(tmp_path_factory.getbasetemp() / "record")


@pytest.fixture
def elsewhere(settings: Settings, tmp_path: Path, record: Made) -> Path:
    """Another site, which knows the key of the first."""
    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path / "own.pem")
    settings.INQUEST_LEDGER_CHECKPOINT_FILE = str(tmp_path / "checkpoints")
    (tmp_path / "keys").write_text(record.public)
    settings.INQUEST_RECORD_KEYS_FILE = str(tmp_path / "keys")
    return tmp_path


def test_an_import_is_marked_whole_and_once(record: Made, elsewhere: Path, client: Client) -> None:
    from_now_on()
    for name in ("verdicts", "rulesets"):
        Intake.objects.update_or_create(name=name, defaults={"read_until": "2020-01-01T00:00:00Z"})
    loaded = load.load(io.BytesIO(record.data), load.known_keys(), actor=ACTOR)
    assert (loaded.new, loaded.verdicts) == (True, 1)
    assert not load.load(io.BytesIO(record.data), load.known_keys(), actor=ACTOR).new
    verdict = Verdict.objects.get()
    assert verdict.body_json.encode() == record.body
    assert verdict.attempt.imported.origin == record.attempt
    assert RulesetText.objects.count() == 1
    # The same evidence and rules lead to the same verdict here: what was concluded again stands as it is.
    request = conclude.request_attribution(loaded.attempt, Mode.SLOW)
    assert conclude.attribute_now(request.pk) == verdict
    # Nothing of it counts here.
    a_policy()
    assert propose.work() == 0
    assert propose.consider(verdict.pk) == []
    operator = a_user("olga", "operator")
    with pytest.raises(InputError, match="imported from another site"):
        propose.propose_by_hand(loaded.attempt, ActionKind.RESTART, [], by=operator, reason="try")
    assert not Proposal.objects.exists()
    assert not Review.objects.exists()
    assert intake.take_in() == 0
    kinds = LedgerEntry.objects.filter(attempt=loaded.attempt).values_list("kind", flat=True)
    assert list(kinds) == [EntryKind.IMPORTED.value]
    client.force_login(a_user("reader", "viewer"))
    page = client.get(f"/verdicts/{verdict.pk}/").content.decode()
    assert "from a record of another site" in page
    assert "onerror=alert(1)&gt;" in page
    assert "<img src=x" not in page


def test_what_does_not_verify_or_would_mix_is_refused(
    record: Made, elsewhere: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = changed(record.data, "data/comments.jsonl", b"", key=Ed25519PrivateKey.generate())
    with pytest.raises(BadRecord, match="another key"):
        load.load(io.BytesIO(forged), load.known_keys(), actor=ACTOR)
    monkeypatch.setattr(limits, "max_observations", lambda: 5)
    with pytest.raises(InputError, match="more observations"):
        load.load(io.BytesIO(record.data), load.known_keys(), actor=ACTOR)
    monkeypatch.undo()


def taken(data: bytes) -> load.Loaded:
    return load.load(io.BytesIO(data), load.known_keys(), actor=ACTOR)


def test_a_newer_record_goes_on_where_the_one_before_it_ended(record: Made, elsewhere: Path) -> None:
    first = taken(record.data)
    before = ImportedRecord.objects.get()
    later = taken(record.later)
    assert (later.attempt, later.new, later.extended) == (first.attempt, False, True)
    assert (later.verdicts, later.observations) == (1, 1)
    assert [one.is_current for one in Verdict.objects.order_by("number")] == [False, True]
    after = ImportedRecord.objects.get()
    assert len(after.told["comments"]) == len(before.told["comments"]) + 1
    told = LedgerEntry.objects.filter(kind=EntryKind.IMPORTED.value).order_by("at", "id")
    assert [one.body["facts"].get("before") for one in told] == [None, before.payload]
    assert not taken(record.later).extended
    with pytest.raises(InputError, match="has not all comments"):
        taken(record.data)
    assert Verdict.objects.count() == 2


def test_a_record_that_contradicts_the_one_before_it_is_refused_with_what_does(record: Made, elsewhere: Path) -> None:
    loaded = taken(record.data)
    lines = files(record.later)["data/observations/syslog.jsonl"].splitlines(keepends=True)
    less = changed(record.later, "data/observations/syslog.jsonl", b"".join(lines[1:]), key=record.key)
    with pytest.raises(InputError, match="1 lines of evidence that are here are not in it"):
        taken(less)
    info = files(record.later)["bag-info.txt"]
    day = b"Bagging-Date: "
    old = re.sub(day + rb"\d{4}", day + b"2020", info)
    with pytest.raises(InputError, match="was made on 2020"):
        taken(changed(record.later, "bag-info.txt", old, key=record.key))
    # This site has concluded something itself meanwhile.
    attempt = Attempt.objects.get(pk=loaded.attempt)
    judged(attempt)
    with pytest.raises(InputError, match="its verdict 2 is not the verdict 2 that is here"):
        taken(record.later)
    assert ImportedRecord.objects.get().told["comments"]
    assert Verdict.objects.count() == 2


def test_an_attempt_that_the_site_has_itself_stays_as_it_is(record: Made, elsewhere: Path) -> None:
    loaded = load.load(io.BytesIO(record.data), load.known_keys(), actor=ACTOR)
    body = Attempt.objects.get(pk=loaded.attempt).body
    ImportedRecord.objects.all().delete()
    record_attempt(load.msgspec.convert(body, GivenAttempt))
    with pytest.raises(InputError, match="this site has job 90210 of alpha itself"):
        load.load(io.BytesIO(record.data), load.known_keys(), actor=ACTOR)


def test_the_command_and_the_api(record: Made, elsewhere: Path, settings: Settings, client: Client) -> None:
    settings.INQUEST_RECORD_KEYS_FILE = ""
    path = elsewhere / "record.zip"
    path.write_bytes(record.data)
    said = CliRunner().invoke(main, ["import", str(path)])
    assert (said.exit_code, "BAD it is signed with another key" in said.output) == (1, True)
    client.force_login(a_user("reader", "viewer"))
    sent = {"file": SimpleUploadedFile("record.zip", record.data)}
    assert client.post("/api/v1/records", sent).status_code == 403
    client.force_login(a_user("olga", "operator"))
    sent = {"file": SimpleUploadedFile("record.zip", record.data)}
    refused = client.post("/api/v1/records", sent)
    assert (refused.status_code, "another key" in refused.content.decode()) == (400, True)
    settings.INQUEST_RECORD_KEYS_FILE = str(elsewhere / "keys")
    sent = {"file": SimpleUploadedFile("record.zip", record.data)}
    assert client.post("/api/v1/records", sent).status_code == 201
    said = CliRunner().invoke(main, ["import", str(path), "--public-key", str(elsewhere / "keys")])
    assert (said.exit_code, "here already" in said.output) == (0, True)


def test_the_page_takes_a_record_and_says_why_it_takes_none(
    record: Made, elsewhere: Path, settings: Settings, client: Client
) -> None:
    address = "/records/import/"

    def send(data: bytes, **more: str) -> Any:
        return client.post(address, {"files": SimpleUploadedFile("record.zip", data)}, headers=more)

    client.force_login(a_user("reader", "viewer"))
    assert client.get(address).status_code == send(record.data).status_code == 403
    client.force_login(a_user("olga", "operator"))
    assert b"Verify and import" in client.get(address).content
    bad = send(record.data[:-1])
    assert (bad.status_code, b"The record is refused: " in bad.content) == (400, True)
    assert "refused" in send(record.data[:-1], **{"X-Requested-With": "upload"}).json()["error"]
    assert client.post(address, {}).status_code == 400
    with_token = Client(enforce_csrf_checks=True)
    with_token.force_login(a_user("otto", "operator"))
    forged = with_token.post(address, {"files": SimpleUploadedFile("record.zip", record.data)})
    assert forged.status_code == 403
    taken_in = send(record.data)
    page = client.get(taken_in.headers["Location"], follow=True).content.decode()
    assert "Imported: 1 verdict," in page
    assert ImportedRecord.objects.get().imported_by.get_username() == "olga"  # type: ignore[union-attr]
    settings.INQUEST_UPLOAD_BYTES = 100
    assert send(record.data).status_code == 413
