"""Many records exported at once: rows are the queue, what dies is taken over, what is taken away is in the ledger."""

import hashlib
import io
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from attribution_site.cli import main
from recovery.models import ExportBatch, ExportedRecord, LedgerEntry
from recovery.record import batch, batch_find, batch_work, export, folder
from recovery.record.read import open_record
from recovery.words import EntryKind
from rules.attempt import InputError
from tests.verdicts.builders import a_user, an_attempt
from verdicts.choices import RequestState
from verdicts.lease import take
from verdicts.models import Attempt
from verdicts.record import NotPermitted, record_attempt

pytestmark = pytest.mark.django_db


@pytest.fixture
def exports(settings: Settings, tmp_path: Path) -> Path:
    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path / "key.pem")
    settings.INQUEST_LEDGER_CHECKPOINT_FILE = str(tmp_path / "checkpoints")
    settings.INQUEST_EXPORT_DIR = str(tmp_path / "exports")
    for number in range(3):
        record_attempt(an_attempt(f"job-{number}", submit_time=f"2026-11-03T01:0{number}:00+00:00"))
    record_attempt(an_attempt("of-beta", cluster="beta"))
    return tmp_path / "exports"


@pytest.fixture
def lead(db: None) -> Any:
    return a_user("lena", "lead")


def exported() -> list[dict[str, Any]]:
    entries = LedgerEntry.objects.filter(kind=EntryKind.EXPORTED.value).order_by("at", "id")
    return [{"actor": entry.actor, "attempt": entry.attempt, **entry.body["facts"]} for entry in entries]


def written(made: ExportBatch) -> list[Path]:
    return [one.path for one in batch_find.of_whole(made)]


def test_a_filter_s_attempts_become_records_that_verify(exports: Path, lead: Any) -> None:
    made = batch.ask("?cluster=alpha&cursor=xyz", by=lead, via="console")
    assert (made.total, made.query) == (3, "cluster=alpha")
    assert batch_work.work() == 3
    made.refresh_from_db()
    assert made.finished_at
    assert made.expires_at
    (how,) = batch_find.progress([made])
    assert (how.state, how.done, how.failed, how.pending) == ("finished", 3, 0, 0)
    for row in ExportedRecord.objects.filter(batch=made):
        path = batch_find.path_of(row)
        assert path
        data = path.read_bytes()
        assert (row.size, row.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert open_record(io.BytesIO(data)).report.attempt == str(row.attempt_id)
        assert path.stat().st_mode & 0o077 == 0
    said = exported()
    assert (said[0]["what"], said[0]["records"], said[0]["filter"]) == ("batch of records", 3, "cluster=alpha")
    assert [(one["actor"], one["via"], one["batch"]) for one in said[1:]] == [("user:lena", "batch", str(made.pk))] * 3


def test_what_cannot_be_asked_for_is_refused(exports: Path, lead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotPermitted):
        batch.ask("", by=a_user("reader", "viewer"), via="api")
    for query, why in (("nobody=x", "no such filter"), ("cluster=gamma", "no attempt matches"), ("after=x", "after")):
        with pytest.raises(InputError, match=why):
            batch.ask(query, by=lead, via="api")
    monkeypatch.setattr(batch, "MOST_RECORDS", 3)
    with pytest.raises(InputError, match="more than 3 attempts"):
        batch.ask("", by=lead, via="api")
    monkeypatch.setattr(batch, "MOST_OPEN", 1)
    batch.ask("cluster=beta", by=lead, via="api")
    with pytest.raises(InputError, match="not finished"):
        batch.ask("cluster=beta", by=lead, via="api")


def test_what_a_dead_worker_left_is_taken_over_and_a_late_one_keeps_nothing(exports: Path, lead: Any) -> None:
    made = batch.ask("cluster=beta", by=lead, via="console")
    row = ExportedRecord.objects.get(batch=made)
    late = take(ExportedRecord, row.pk)
    assert late
    place = batch.folder_of(made.pk)
    place.mkdir(parents=True)
    (place / f"{row.attempt_id}.1.partial").write_bytes(b"half")
    assert batch_work.work() == 0
    ExportedRecord.objects.filter(pk=row.pk).update(lease_until=Now() - timedelta(seconds=1))
    assert batch_work.work() == 1
    (kept,) = place.iterdir()
    row.refresh_from_db()
    assert (kept.name, row.state, row.tries) == (row.file, "done", 2)
    # The one that was taken for dead comes back.
    with pytest.raises(batch_work.LeaseLost):
        batch_work._keep(late, batch_work._written(late.row))
    assert [one.name for one in place.iterdir()] == [row.file]


def test_what_is_stopped_or_failed_can_go_on(exports: Path, lead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = batch.ask("cluster=alpha", by=lead, via="console")

    def refuse(*_: Any, **__: Any) -> None:
        raise export.NotMade("no key today")

    with monkeypatch.context() as patched:
        patched.setattr(export, "announce", refuse)
        patched.setattr(batch_work, "WORK_SECONDS", 0)
        assert batch_work.work() == 1
    assert batch.stop(made.pk, by=lead) == 2
    batch.settle(made.pk)
    (how,) = batch_find.progress([ExportBatch.objects.get()])
    assert (how.state, how.failed, how.stopped) == ("stopped", 1, 2)
    assert {why for _, why in batch_find.not_written(made)} == {"no key today", batch.STOPPED}
    assert batch.again(made.pk, by=lead) == 3
    assert batch_work.work() == 3
    (how,) = batch_find.progress([ExportBatch.objects.get()])
    assert (how.state, how.done) == ("finished", 3)


def test_who_lost_the_right_gets_nothing_more(exports: Path, lead: Any) -> None:
    batch.ask("cluster=beta", by=lead, via="console")
    lead.groups.clear()
    batch_work.work()
    row = ExportedRecord.objects.get()
    assert (row.state, "may not export" in row.error) == (RequestState.FAILED.value, True)


def test_files_go_when_their_time_is_over_or_their_evidence_expires(exports: Path, lead: Any) -> None:
    made = batch.ask("cluster=alpha", by=lead, via="console")
    batch_work.work()
    one, *others = written(made)
    row = ExportedRecord.objects.get(file=one.name)
    # The test's transaction does not end, as that of a process which is killed after it: the file is left behind.
    assert batch.forget([row.attempt_id], "the evidence expired") == 1
    row.refresh_from_db()
    assert row.file == "" and one.exists()
    batch.sweep()
    assert not one.exists()
    assert all(other.exists() for other in others)
    stray = exports / "00000000-0000-4000-8000-000000000000"
    stray.mkdir()
    batch.sweep()
    assert not stray.exists()
    ExportBatch.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    batch.sweep()
    assert list(exports.iterdir()) == []
    (how,) = batch_find.progress([ExportBatch.objects.get()])
    assert how.state == "removed"
    with pytest.raises(InputError, match="removed"):
        batch.again(made.pk, by=lead)


def test_files_that_cannot_be_removed_are_told_and_tried_again(
    exports: Path, lead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = batch.ask("cluster=beta", by=lead, via="console")
    batch_work.work()

    def stuck(path: Path) -> None:
        raise PermissionError(13, "no", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(batch.shutil, "rmtree", stuck)
        with pytest.raises(InputError, match="tried again"):
            batch.remove(made.pk, by=lead)
    assert ExportBatch.objects.get().removed_at is None
    batch.sweep()
    assert ExportBatch.objects.get().removed_at
    assert list(exports.iterdir()) == []


def test_a_batch_that_is_removed_while_it_is_written_leaves_nothing(exports: Path, lead: Any) -> None:
    made = batch.ask("cluster=beta", by=lead, via="console")
    held = take(ExportedRecord, ExportedRecord.objects.get().pk)
    assert held
    told = batch_work._written(held.row)
    batch.remove(made.pk, by=lead)
    with pytest.raises(batch_work.LeaseLost):
        batch_work._keep(held, told)
    assert list(exports.iterdir()) == []


def test_a_record_that_is_written_while_its_evidence_expires_is_begun_anew(exports: Path, lead: Any) -> None:
    batch.ask("cluster=beta", by=lead, via="console")
    row = ExportedRecord.objects.get()
    held = take(ExportedRecord, row.pk)
    assert held
    told = batch_work._written(held.row)
    batch.forget([row.attempt_id], "expired")
    with pytest.raises(batch_work.LeaseLost):
        batch_work._keep(held, told)
    assert not told.path.exists()
    assert batch_work.work() == 1


# --- Pages and API --------------------------------------------------------------------------------


def test_pages_ask_show_and_bring(exports: Path, lead: Any, client: Client) -> None:
    client.force_login(a_user("reader", "viewer"))
    assert b"Export records" not in client.get("/verdicts/").content
    assert client.get("/records/").status_code == client.post("/records/ask/", {"filter": ""}).status_code == 403
    client.force_login(lead)
    assert b"Export records" in client.get("/verdicts/?cluster=alpha").content
    refused = client.post("/records/ask/", {"filter": "nobody=x"}, follow=True)
    assert b"no such filter" in refused.content
    page = client.post("/records/ask/", {"filter": "?cluster=alpha"}).headers["Location"]
    part = client.get(page, headers={"HX-Request": "true", "HX-Target": "batch"}).content.decode()
    assert 'hx-trigger="every 2s"' in part
    assert "<html" not in part
    batch_work.work()
    part = client.get(page, headers={"HX-Request": "true", "HX-Target": "batch"}).content.decode()
    assert "hx-trigger" not in part
    assert "Download all" in part
    whole = client.post(f"{page}whole/")
    data = b"".join(whole.streaming_content)  # type: ignore[attr-defined]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        names = {entry.filename.partition("/")[2] for entry in archive.infolist()}
        assert len(names) == 4
        assert "SHA256SUMS" in names
    row = ExportedRecord.objects.filter(batch_id=page.split("/")[2]).first()
    assert row
    one = client.post(f"{page}{row.attempt_id}/")
    assert hashlib.sha256(b"".join(one.streaming_content)).hexdigest() == row.sha256  # type: ignore[attr-defined]
    assert b"cluster" in client.get("/records/").content.lower()
    assert [said.get("via") for said in exported()[-2:]] == ["console", "console"]
    assert b"files are removed" in client.post(f"{page}remove/", follow=True).content
    assert client.post(f"{page}whole/").status_code == 404
    for other in ("stop", "again", "remove", "whole"):
        assert client.post(f"/records/{row.pk}/{other}/").status_code == 404


def test_the_api_does_what_the_pages_do(exports: Path, lead: Any, client: Client) -> None:
    start = "/api/v1/record-batches"
    client.force_login(a_user("reader", "viewer"))
    assert client.get(start).status_code == client.post(start, {"filter": ""}).status_code == 403
    client.force_login(lead)
    assert client.post(start, {"filter": "nobody=x"}, "application/json").status_code == 400
    made = client.post(start, {"filter": "cluster=alpha"}, "application/json")
    assert (made.status_code, made.json()["state"], made.json()["total"]) == (201, "waiting", 3)
    one = f"{start}/{made.json()['id']}"
    assert client.post(f"{one}/stop").json()["stopped"] == 3
    assert client.post(f"{one}/again").json()["stopped"] == 0
    batch_work.work()
    assert client.get(one).json()["done"] == 3
    assert client.get(start).json()["results"][0]["state"] == "finished"
    rows = client.get(f"{one}/records?state=done").json()["results"]
    assert client.get(f"{one}/records?state=nobody").status_code == 400
    file = client.get(rows[0]["file_url"])
    assert hashlib.sha256(b"".join(file.streaming_content)).hexdigest() == rows[0]["sha256"]  # type: ignore[attr-defined]
    assert b"".join(client.get(f"{one}/file").streaming_content)[:4] == b"PK\3\4"  # type: ignore[attr-defined]
    assert client.delete(one).status_code == 204
    assert client.get(one).json()["state"] == "removed"


# --- The command ----------------------------------------------------------------------------------


def test_the_command_goes_on_where_it_stopped(exports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"

    def run(*words: str) -> Any:
        return CliRunner().invoke(main, ["export", "--out", str(out), *words])

    real, count = export.write, [0]

    def ended(*args: Any, **more: Any) -> None:
        count[0] += 1
        if count[0] == 2:
            raise KeyboardInterrupt
        real(*args, **more)

    monkeypatch.setattr(export, "write", ended)
    assert "nothing was begun" in run("--resume").output
    said = run("--filter", "cluster=alpha")
    assert (said.exit_code, "--resume goes on" in said.output) == (130, True), said.output
    monkeypatch.setattr(export, "write", real)
    first, *_ = sorted(out.glob("*.zip"))
    before = first.stat().st_mtime_ns
    assert list(out.glob("*.partial"))
    assert run("--filter", "cluster=alpha").exit_code == 2
    assert "begun with the filter" in run("--filter", "cluster=beta", "--resume").output
    # What came since is no part of what was asked for.
    record_attempt(an_attempt("later", submit_time="2026-11-03T02:00:00+00:00"))
    said = run("--resume")
    assert (said.exit_code, "2 written, 1 there already and verified" in said.output) == (0, True), said.output
    assert first.stat().st_mtime_ns == before
    assert not list(out.glob("*.partial"))
    # A file that was cut is written again, one that is whole is not.
    first.write_bytes(first.read_bytes()[:-9])
    said = run("--resume")
    assert "1 written, 2 there already" in said.output
    for line in (out / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    assert len((out / "SHA256SUMS").read_text().splitlines()) == 3
    assert exported()[0]["records"] == 3
    with folder.alone(out):
        assert "another export is writing" in run("--resume").output


def test_the_command_refuses_what_makes_no_sense(exports: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    attempt = str(Attempt.objects.all()[0].pk)
    for words in (
        [],
        ["--filter", "cluster=alpha"],
        [attempt, "--filter", "x"],
        ["--filter", "cluster=gamma", "--out", str(tmp_path / "new")],
        ["--filter", "", "--out", str(tmp_path / "full")],
        ["--filter", "nobody=1", "--out", str(tmp_path / "new")],
    ):
        assert CliRunner().invoke(main, ["export", *words]).exit_code == 2, words
