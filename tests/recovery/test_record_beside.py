"""Records of an export share their rulesets: each lies once beside them, and each record is verified with it."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.test import Client
from pytest_django import DjangoDbBlocker, Settings

from attribution_site.cli import main
from recovery.ledger import keys as ledger_keys
from recovery.ledger.entries import Actor
from recovery.record import again, bag, batch, batch_work, beside, load
from recovery.record.container import BadRecord
from recovery.record.mark import BASE
from recovery.record.read import open_record
from tests.recovery.deciding import judged
from tests.recovery.recording import Made, files, made
from tests.recovery.replaying import rules
from tests.verdicts.builders import a_user, an_attempt
from verdicts.models import RulesetText
from verdicts.record import record_attempt
from verdicts.rulebook import ruleset_text

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def record(django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory) -> Made:
    with django_db_blocker.unblock():
        return made(tmp_path_factory.getbasetemp() / "record")


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def shared(record: Made, folder: Path, key: Ed25519PrivateKey | None = None, **tags: bytes) -> Path:
    """The record as an export of many has it: its ruleset beside it."""
    key, told, path = key or record.key, files(record.data), folder / f"{BASE}{record.attempt}.zip"
    info = dict(line.split(": ", 1) for line in told[bag.INFO].decode().splitlines())
    info.pop("Payload-Oxum")
    with path.open("w+b") as out:
        writer = bag.BagWriter(out, str(record.attempt), shares=True)
        for name in [name.removeprefix("data/") for name in told if name.startswith("data/")]:
            if name.startswith(beside.FOLDER):
                beside.put(folder, name, told[f"data/{name}"])
                writer.beside(name, told[f"data/{name}"])
            else:
                writer.add(name, [told[f"data/{name}"]])
        writer._fetch = [tags[bag.FETCH].decode()] if bag.FETCH in tags else writer._fetch
        info["Inquest-Schema"] = tags.get("schema", bag.SHARED.encode()).decode()
        public = ledger_keys.public_hex(key)
        writer.close(info.items(), told[bag.PAGE], lambda said: (public, ledger_keys.sign(key, said)))
    return path


def test_it_verifies_and_is_concluded_again_with_what_lies_beside_it(record: Made, tmp_path: Path) -> None:
    path = shared(record, tmp_path)
    (text,) = beside.shared(tmp_path)
    assert path.stat().st_size < len(record.data) / 2
    said = run("verify", str(path))
    assert (said.exit_code, f"Beside it: rulesets/{text.name}" in said.output) == (0, True), said.output
    with path.open("rb") as file:
        opened = open_record(file, {record.public}, beside.near(path))
        assert again.conclude(opened).same
        # The same state of the attempt, wherever its rules lie.
        assert opened.report.payload == open_record(io.BytesIO(record.data)).report.payload
    assert run("explain", str(path), "--json").output.startswith(record.body.decode())


def test_without_its_ruleset_it_is_said_what_is_not_there(record: Made, tmp_path: Path) -> None:
    path = shared(record, tmp_path)
    (text,) = beside.shared(tmp_path)
    text.unlink()
    said = run("verify", str(path))
    assert said.exit_code == 1
    assert f"BAD rulesets/{text.name} is not beside the record: all else is as it was written" in said.output
    assert "is not beside the record" in run("explain", str(path)).output
    with pytest.raises(BadRecord, match="not beside the record any more"):
        beside.completed(path)


@pytest.mark.parametrize("wrong", ["another", "a folder", "too long"])
def test_a_wrong_ruleset_is_refused(record: Made, tmp_path: Path, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shared(record, tmp_path)
    (text,) = beside.shared(tmp_path)
    if wrong == "another":
        text.write_bytes(text.read_bytes().replace(b"gpu", b"cpu", 1))
        says = "is not what the record was made with"
    elif wrong == "too long":
        monkeypatch.setattr(beside, "MOST", 10)
        says = "is larger than"
    else:
        text.unlink()
        text.mkdir()
        says = "is not beside the record"
    said = run("verify", str(path))
    assert (said.exit_code, says in said.output) == (1, True), said.output


def test_taken_alone_it_has_everything_and_needs_no_new_signature(record: Made, tmp_path: Path) -> None:
    path = shared(record, tmp_path)
    with beside.completed(path) as whole:
        report = open_record(whole, {record.public}).report
        assert (report.sealed, report.beside, report.verdicts) == (True, [], 1)
        again_made = tmp_path / "alone.zip"
        whole.seek(0)
        again_made.write_bytes(whole.read())
    with beside.completed(again_made) as same:
        assert same.read() == again_made.read_bytes()


@pytest.mark.parametrize(
    ("tags", "says"),
    [
        ({"schema": b"inquest.record/1"}, "does not agree with the schema"),
        ({"schema": b"inquest.record/3"}, "this program reads inquest.record/1 and inquest.record/2"),
        ({bag.FETCH: b"../../etc/passwd 9 data/../../etc/passwd\n"}, "fetch.txt cannot be read"),
        ({bag.FETCH: b""}, "jsonl is missing"),
    ],
)
def test_what_does_not_agree_is_refused(record: Made, tmp_path: Path, tags: dict[str, bytes], says: str) -> None:
    path = shared(record, tmp_path, **tags)
    with path.open("rb") as file, pytest.raises(BadRecord, match=says):
        open_record(file, (), beside.near(path))


def test_a_site_that_has_the_rules_itself_takes_it_alone(record: Made, tmp_path: Path, settings: Settings) -> None:
    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path / "key.pem")
    path = shared(record, tmp_path)
    keys, actor = frozenset({record.public}), Actor.system("test")
    with path.open("rb") as file, pytest.raises(BadRecord, match="not beside the record"):
        load.load(file, keys, actor=actor)
    with path.open("rb") as file:
        assert load.load(file, keys, actor=actor, near=beside.near(path)).new
    assert RulesetText.objects.count() == 1
    with path.open("rb") as file:
        assert not load.load(file, keys, actor=actor).new


# --- Exports -------------------------------------------------------------------------------------


@pytest.fixture
def exports(settings: Settings, tmp_path: Path) -> Path:
    """Two attempts with verdicts of one ruleset."""
    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path / "key.pem")
    settings.INQUEST_LEDGER_CHECKPOINT_FILE = str(tmp_path / "checkpoints")
    settings.INQUEST_EXPORT_DIR = str(tmp_path / "exports")
    for number in range(2):
        attempt, _ = record_attempt(an_attempt(f"job-{number}", submit_time=f"2026-11-03T01:0{number}:00+00:00"))
        ruleset_text.keep(judged(attempt).ruleset, rules())
    return tmp_path / "out"


def test_the_command_writes_each_ruleset_once_and_again_where_it_was_lost(exports: Path) -> None:
    said = run("export", "--filter", "cluster=alpha", "--out", str(exports))
    assert said.exit_code == 0, said.output
    (text,) = beside.shared(exports)
    records = sorted(exports.glob("*.zip"))
    assert len(records) == 2
    assert [run("verify", str(one)).exit_code for one in records] == [0, 0]
    assert f"  rulesets/{text.name}\n" in (exports / "SHA256SUMS").read_text()
    before = text.read_bytes()
    text.write_bytes(before[:-9])
    assert "1 written, 1 there already" in run("export", "--out", str(exports), "--resume").output
    assert text.read_bytes() == before and not list(text.parent.glob("*.partial"))


def test_the_sites_zip_has_it_once_and_a_record_brought_alone_has_it_in_it(exports: Path, client: Client) -> None:
    lead: Any = a_user("lena", "lead")
    one = batch.ask("cluster=alpha", by=lead, via="console")
    assert batch_work.work() == 2
    client.force_login(lead)
    whole = b"".join(client.post(f"/records/{one.pk}/whole/").streaming_content)  # type: ignore[attr-defined]
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        names = [name.partition("/")[2] for name in archive.namelist()]
        assert sum(name.startswith("rulesets/") for name in names) == 1
        assert archive.read(archive.namelist()[-1]).count(b"\n") == 3
        archive.extractall(exports)
    (folder,) = exports.iterdir()
    for path in folder.glob("*.zip"):
        assert run("verify", str(path)).exit_code == 0
    row = one.records.first()
    alone = b"".join(client.post(f"/records/{one.pk}/{row.attempt_id}/").streaming_content)  # type: ignore[attr-defined]
    assert open_record(io.BytesIO(alone)).report.verdicts == 1
    (text,) = beside.shared(batch.folder_of(one.pk))
    text.unlink()
    assert client.post(f"/records/{one.pk}/{row.attempt_id}/").status_code == 404
