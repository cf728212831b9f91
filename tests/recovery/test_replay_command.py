"""`inquest replay`: worker processes, one of which is killed; the report; exported records."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from django.db import connection, connections, transaction
from django.db.models.functions import Now

from recovery.models import Replay, ReplayChunk
from recovery.replay import begin, find, records_cli, store_cli
from recovery.replay.cli import replay as command
from recovery.replay.words import ItemOutcome, ReplayState
from rules.ruleset import Ruleset
from tests.recovery.replaying import DISK, FAN, LINK, a_rule, concluded, in_force, many, rules
from verdicts.models import Attempt

OTHER_FAN = a_rule("fan", "fan [0-9]+ stands quite still")


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Ruleset:
    monkeypatch.setattr(begin.waking, "wake_task", lambda *_, **__: True)
    return in_force(monkeypatch, rules())


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Callable[[Ruleset], None]:
    """What the command loads as the rules to try."""

    def load(ruleset: Ruleset) -> None:
        monkeypatch.setattr(store_cli, "load_ruleset", lambda _=None: ruleset)
        monkeypatch.setattr(records_cli, "load_ruleset", lambda _=None: ruleset)

    return load


def run(*said: str) -> Any:
    return CliRunner().invoke(command, said, catch_exceptions=False)


def a_worker(row: Replay) -> "subprocess.Popen[bytes]":
    """A process that works on a replay, as a worker on another machine would."""
    settings = connection.settings_dict
    url = f"postgresql:///{settings['NAME']}?host={settings['HOST']}&user={settings['USER']}"
    if settings["PORT"]:
        url += f"&port={settings['PORT']}"
    environment = os.environ | {"DATABASE_URL": url, "PGPASSWORD": settings["PASSWORD"], "LOG_LEVEL": "ERROR"}
    program = "from attribution_site.cli import main; main()"
    call = [sys.executable, "-c", program, "replay", "--resume", str(row.pk), "--here"]
    return subprocess.Popen(call, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not become so in time"
        time.sleep(0.02)


@pytest.mark.django_db(transaction=True)
def test_two_workers_share_a_replay_one_is_killed_and_every_touched_attempt_is_named_once(
    monkeypatch: pytest.MonkeyPatch, tried: Callable[[Ruleset], None]
) -> None:
    stored = many(range(60))
    monkeypatch.setattr(begin, "CHUNK", 2)
    tried(rules(fan=OTHER_FAN))
    assert run("--no-wait").exit_code == store_cli.NOT_DONE
    row = Replay.objects.get()
    workers = [a_worker(row), a_worker(row)]
    try:
        with transaction.atomic():
            # Nobody can write an answer: each worker has taken a chunk, and is at its first attempt.
            connection.cursor().execute("LOCK TABLE recovery_replayitem IN SHARE MODE")
            until(lambda: ReplayChunk.objects.filter(state="running").count() == 2)
            workers[0].send_signal(signal.SIGKILL)
            workers[0].wait(10)
        # As if the lease of what it held had run out.
        held = ReplayChunk.objects.filter(state="running", lease_owner__contains=f":{workers[0].pid}:")
        assert held.update(lease_until=Now()) == 1
        until(lambda: _done(row))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait(10)
        connections.close_all()
    counts = find.counts(row)
    assert (counts.total, counts.waiting, counts.failed, counts.changed) == (60, 0, 0, 20)
    touched = set(row.items.filter(outcome=ItemOutcome.CHANGED).values_list("attempt_id", flat=True))
    assert touched == {attempt.pk for attempt in stored[FAN]}


def _done(row: Replay) -> bool:
    row.refresh_from_db()
    return row.state == ReplayState.DONE


@pytest.mark.django_db
def test_the_command_reports_and_its_exit_status_says_whether_anything_is_otherwise(
    tried: Callable[[Ruleset], None],
) -> None:
    fan, disk = concluded("1", FAN), concluded("2", DISK)
    tried(rules(fan=OTHER_FAN))
    said = run("--here")
    assert said.exit_code == store_cli.OTHERWISE
    assert "host_hardware → unattributed by test.fan (1)" in said.output
    assert str(fan.pk) in said.output and str(disk.pk) not in said.output
    told = json.loads(run("--here", "--json", "domain=storage").stdout)
    assert (told["counts"]["total"], told["counts"]["same"], told["items"]) == (1, 1, [])
    assert run("--here", "--own").exit_code == store_cli.SAME
    assert run("--resume", str(Replay.objects.first().pk)).exit_code == store_cli.SAME  # type: ignore[union-attr]
    assert run("--here", "--without", "syslog", "job=1").exit_code == store_cli.OTHERWISE
    assert run("--gate").exit_code == store_cli.SAME
    for wrong, status in (
        (("domian=storage",), store_cli.UNUSABLE),
        (("storage",), store_cli.UNUSABLE),
        (("--resume", "nonsense"), store_cli.UNUSABLE),
        (("--own", "--without", "syslog"), 2),
        (("--delay", "syslog"), 2),
        (("--without", "syslog", "--records", ".", "job=1"), 2),
    ):
        assert run(*wrong).exit_code == status, wrong


@pytest.mark.django_db
def test_ctrl_c_leaves_it_to_be_resumed(monkeypatch: pytest.MonkeyPatch, tried: Callable[[Ruleset], None]) -> None:
    many(range(6))
    monkeypatch.setattr(begin, "CHUNK", 2)
    tried(rules(fan=OTHER_FAN))
    work = store_cli.work.run

    def interrupted(_: float, **more: Any) -> int:
        work(0.0001, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(store_cli.work, "run", interrupted)
    said = run("--here")
    assert said.exit_code == store_cli.NOT_DONE
    row = Replay.objects.get()
    assert f"--resume {row.pk}" in said.output and 0 < find.counts(row).done < 6
    monkeypatch.setattr(store_cli.work, "run", work)
    assert run("--here", "--resume", str(row.pk)).exit_code == store_cli.OTHERWISE
    assert find.counts(row).changed == 2 and Attempt.objects.count() == 6


@pytest.mark.django_db(transaction=True)
def test_exported_records_are_replayed_without_a_database(
    tmp_path: Path, settings: Any, tried: Callable[[Ruleset], None]
) -> None:
    from recovery.ledger.entries import Actor
    from recovery.record import export

    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path / "key.pem")
    settings.INQUEST_LEDGER_CHECKPOINT_FILE = str(tmp_path / "checkpoints")
    folder = tmp_path / "records"
    folder.mkdir()
    attempts = {line: concluded(str(number), line) for number, line in enumerate((FAN, DISK, LINK))}
    for attempt in attempts.values():
        with export.make(attempt.pk, Actor.system("test"), via="test") as made:
            (folder / export.name_of(attempt.pk)).write_bytes(made.read())
    (folder / "zz.zip").write_bytes(b"no record at all")
    tried(rules(fan=OTHER_FAN))
    log = tmp_path / "log.jsonl"
    said = run("--records", str(folder), "--log", str(log))
    assert said.exit_code == records_cli.UNUSABLE  # one of them is no record
    assert "refused: zz.zip" in said.output
    assert "host_hardware → unattributed by test.fan (1)" in said.output
    assert str(attempts[FAN].pk) in said.output and str(attempts[DISK].pk) not in said.output
    (folder / "zz.zip").unlink()
    # What the log has is not done again; a line that was cut off is.
    lines = log.read_text().splitlines()
    for wrong in ("[1]", '{"asked": "x"}'):
        log.write_text(wrong + "\n")
        assert "no line of such a log" in run("--records", str(folder), "--log", str(log)).output
    log.write_text("\n".join(lines[:2]) + "\n" + lines[2][:40])
    again = run("--records", str(folder), "--log", str(log), "--json")
    assert again.exit_code == records_cli.OTHERWISE
    assert json.loads(again.stdout)["counts"] == {"changed": 1, "same": 2}
    tried(rules())
    assert run("--records", str(folder)).exit_code == records_cli.SAME
    assert run("--records", str(folder), "--own").exit_code == records_cli.SAME
    assert run("--records", str(folder), "--without", "syslog").exit_code == records_cli.OTHERWISE
    tried(rules(disk=None))
    assert run("--records", str(folder), "--log", str(log)).exit_code == records_cli.UNUSABLE  # another question's log
