"""Drills against a site that really answers; and what each check makes of a site, or a record, that is not right."""

import io
import json
import socket
import threading
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from knox.models import AuthToken
from pytest_django import DjangoDbBlocker, Settings
from pytest_django.live_server_helper import LiveServer

from attribution_site import metrics
from attribution_site.cli import main
from recovery.drill import checks, fetch, find, people, planted, record, run, sample, tasks
from recovery.drill.fetch import NotAsked, Site
from recovery.models import Drill, DrillCheck, LedgerEntry
from recovery.words import CheckOutcome
from rules.redact import PLAIN, marks
from tests.recovery.recording import Made, changed, made
from tests.verdicts.builders import a_user
from tests.verdicts.collectors.raw_server import raw_server
from verdicts import waking
from verdicts.choices import Origin
from verdicts.models import Attempt, ListRow, Node, Observation
from verdicts.record import NotPermitted

pytestmark = pytest.mark.django_db

EVERYTHING = [
    *("made", "obtained", "refused", "noted", "verifies", "missing", "in_time", "secrets", "again"),
    *("counted", "expires", "removed"),
]


@pytest.fixture(autouse=True)
def _own_key(settings: Settings, tmp_path: Path) -> None:
    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path / "key.pem")
    settings.INQUEST_LEDGER_CHECKPOINT_FILE = str(tmp_path / "checkpoints")


@pytest.fixture
def site(live_server: LiveServer, transactional_db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str:
    """A running site; its silent source is waited for for a moment only."""
    settings.INQUEST_PUBLIC_URL = live_server.url
    monkeypatch.setattr(sample, "SILENT_LIMIT", 0.2)
    monkeypatch.setattr(waking, "_away_until", [float("inf")])  # no broker is looked for
    return str(live_server.url)


def interrupt(*_given: object) -> None:
    raise KeyboardInterrupt


def said(drill: Drill) -> dict[str, str]:
    """What came of each check."""
    return {check.name: f"{check.outcome}: {check.seen}" for check in drill.checks.all()}


def test_a_site_that_is_right_passes_and_keeps_nothing_of_it(site: str, client: Client) -> None:
    tasks.drill()
    done = Drill.objects.get()
    told = said(done)
    assert (done.state, done.via, list(told)) == ("passed", "schedule", EVERYTHING), told
    tasks.drill()  # not again within its interval
    assert Drill.objects.count() == 1
    # Nothing of it is left but what the drill and the ledger say.
    assert not Attempt.objects.exists() and not Node.objects.exists() and not ListRow.objects.exists()
    assert not AuthToken.objects.exists()
    assert not User.objects.filter(username__in=people.RIGHTS, is_active=True).exists()
    kinds = LedgerEntry.objects.filter(attempt=done.attempt).order_by("at").values_list("kind", flat=True)
    assert [kind for kind in kinds if kind != "retention.applied"] == [
        *("drill.begun", "export.made", "export.made", "drill.ended"),
    ]
    # The file that is handed out has the digest that the ledger has, and the page says so.
    client.force_login(a_user("ada", "viewer"))
    body = client.get(f"/recovery/drills/{done.pk}/report.json").content
    entry = LedgerEntry.objects.get(kind="drill.ended")
    assert sha256(body).hexdigest() == entry.body["facts"]["report_sha256"] == done.report_sha256
    assert json.loads(body)["checks"][0]["outcome"] == "passed"
    page = client.get(f"/recovery/drills/{done.pk}/").content.decode()
    assert page.count(">Passed</span>") == len(EVERYTHING) + 1
    assert "of the ledger has it" in page
    text = client.get(f"/recovery/drills/{done.pk}/report.txt").content.decode()
    assert done.report_sha256 in text and "FAILED" not in text
    DrillCheck.objects.filter(name="secrets").update(seen="changed")
    assert "the report was changed" in client.get(f"/recovery/drills/{done.pk}/").content.decode()
    # And once more over one of the site's own: nothing of that is removed.
    chosen = sample.make()
    Attempt.objects.filter(pk=chosen.attempt).update(origin=Origin.OWN.value)
    again = run.carry_out(record.ask(via="api", attempt=chosen.attempt).pk)
    assert again is not None
    told = said(again)
    # Its collectors are in no clusters file, so that their limits are not known: that is not passed.
    assert [name for name, outcome in told.items() if not outcome.startswith("passed")] == ["in_time"], told
    assert again.state == "incomplete"
    assert Observation.objects.filter(attempt=chosen.attempt).exists()


def test_the_command_says_what_failed_and_ends_with_it(
    site: str, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(people, "RIGHTS", dict.fromkeys(people.RIGHTS, people.RIGHTS[people.AUTHORISED]))
    told = CliRunner().invoke(main, ["drill"])
    assert told.exit_code == 1
    assert "FAILED: Is it refused to who has no token" in told.output
    assert "it was handed out" in told.output
    assert not Attempt.objects.exists()
    # One that is interrupted is ended as not passed, and leaves nothing.
    with monkeypatch.context() as broken:
        broken.setattr(checks, "verified", interrupt)
        assert CliRunner().invoke(main, ["drill"]).exit_code == 1
    assert said(Drill.objects.first())["end"] == "not_checked: it was broken off: KeyboardInterrupt"  # type: ignore[arg-type]
    assert not Attempt.objects.exists() and not AuthToken.objects.exists()
    # A site that does not answer: what could not be asked is not passed, and what was made up is gone all the same.
    settings.INQUEST_PUBLIC_URL = "http://127.0.0.1:9"
    monkeypatch.undo()
    told = CliRunner().invoke(main, ["drill"])
    assert told.exit_code == 2
    assert "does not answer" in told.output and "COULD NOT BE CHECKED" in told.output
    assert not Attempt.objects.exists()
    assert find.standing().wants_somebody


def test_one_at_a_time_by_who_may_and_a_lost_one_is_ended(client: Client) -> None:
    with pytest.raises(NotPermitted):
        record.ask(via="console", by=a_user("vera", "viewer"))
    lead = a_user("lena", "lead")
    drill = record.ask(via="console", by=lead)
    with pytest.raises(record.NotNow, match="another can begin"):
        record.ask(via="api", by=lead)
    client.force_login(lead)
    assert "It waits for a worker" in client.get(f"/recovery/drills/{drill.pk}/").content.decode()
    assert ">Asked for</span>" in client.get("/recovery/drills/?via=console").content.decode()
    assert client.get("/api/v1/drills?state=passed").json()["count"] == 0
    assert client.get("/api/v1/drills/standing").json()["wants_somebody"] is False
    assert client.post("/api/v1/drills", {"attempt": str(drill.pk)}, content_type="application/json").status_code == 400
    assert client.post("/recovery/drills/run/", {"attempt": "none"}).status_code == 400


def test_a_drill_whose_process_is_gone_did_not_pass() -> None:
    drill = record.ask(via="schedule")
    record.take(drill.pk, address="", host="")
    Drill.objects.filter(pk=drill.pk).update(asked_at=timezone.now() - find.LOST_AFTER - timedelta(minutes=1))
    assert record.end_lost() == 1
    drill.refresh_from_db()
    assert drill.state == "incomplete"
    assert said(drill) == {"end": f"not_checked: {record.LOST}"}


def test_a_failed_or_overdue_drill_is_shown_where_people_look(client: Client, settings: Settings) -> None:
    client.force_login(a_user("ada", "viewer"))

    def shown() -> bool:
        return "Retention drill" in client.get("/recovery/waiting/").content.decode()

    assert find.is_due(timezone.now()) and not shown()
    drill = record.ask(via="schedule")
    assert not find.is_due(timezone.now())
    record.take(drill.pk, address="http://site", host="here")
    at = timezone.now()
    record.saw(drill, 1, "made", "?", checks.passed("so"), at=at, seconds=0.1)
    done = record.end(drill, record.Actor.system("drill"), facts={})
    assert done.state == "passed" and not shown()
    long_ago = timezone.now() - timedelta(hours=settings.INQUEST_DRILL_HOURS) - find.GRACE - timedelta(hours=1)
    Drill.objects.update(finished_at=long_ago, asked_at=long_ago)
    assert find.standing().overdue == long_ago + timedelta(hours=settings.INQUEST_DRILL_HOURS)
    assert find.is_due(timezone.now()) and shown()
    settings.INQUEST_DRILL_HOURS = 0
    assert not find.is_due(timezone.now()) and not shown()
    failing = record.ask(via="schedule")
    record.take(failing.pk, address="http://site", host="here")
    record.saw(failing, 1, "made", "?", checks.failed("not so"), at=at, seconds=0.1)
    record.end(failing, record.Actor.system("drill"), facts={})
    assert shown()
    numbers = metrics.Answer(0).text().decode()
    assert "inquest_drill_passed 0.0" in numbers and "inquest_drill_overdue 0.0" in numbers


# --- One record, looked at ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one(django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory) -> Made:
    with django_db_blocker.unblock():
        return made(tmp_path_factory.getbasetemp() / "record")


def opened(data: bytes, key: str) -> checks.Record:
    found, seen = checks.verified(io.BytesIO(data), {key})
    assert found is not None, seen
    return found


def test_a_record_by_another_key_or_without_one_known_does_not_pass(one: Made) -> None:
    assert checks.verified(io.BytesIO(one.data), {"00" * 32})[1].outcome is CheckOutcome.FAILED
    assert checks.verified(io.BytesIO(one.data), ())[1].outcome is CheckOutcome.NOT_CHECKED
    assert checks.verified(io.BytesIO(one.data), {one.public})[1].outcome is CheckOutcome.PASSED


def test_a_missing_input_that_is_not_listed_is_named(one: Made) -> None:
    assert checks.missing(opened(one.data, one.public)).outcome is CheckOutcome.PASSED
    silent = opened(changed(one.data, "data/missing.json", b"[]", key=one.key), one.public)
    seen = checks.missing(silent)
    assert seen.outcome is CheckOutcome.FAILED and "source:" in seen.said
    assert checks.missing(opened(one.data, one.public), {"source:gpu_events", "x"}).facts["not_listed"] == ["x"]


def test_a_collector_that_took_too_long_or_says_nothing_of_it_does_not_pass(one: Made) -> None:
    def with_reports(*seconds: float | None) -> checks.Record:
        lines = b"".join(
            json.dumps(
                {
                    "source": "syslog",
                    "collector": f"c{number}",
                    "body": {"source": "syslog", "status": "ok", "collector": f"c{number}"}
                    | ({"seconds": one} if one is not None else {}),
                }
            ).encode()
            + b"\n"
            for number, one in enumerate(seconds)
        )
        return opened(changed(one.data, "data/collector_reports.jsonl", lines, key=one.key), one.public)

    limits = {"c0": 2.0, "c1": 2.0}
    assert checks.in_time(with_reports(1.9, 2.5), limits).outcome is CheckOutcome.PASSED
    assert checks.in_time(with_reports(1.9, 3.5), limits).outcome is CheckOutcome.FAILED
    assert checks.in_time(with_reports(1.9, None), limits).outcome is CheckOutcome.NOT_CHECKED
    assert checks.in_time(with_reports(1.9), {}).outcome is CheckOutcome.NOT_CHECKED


def test_a_planted_secret_is_found_in_any_file_and_spelling(one: Made) -> None:
    secret = planted.Planted("password", 'a"b<c/' + "x" * 30, "")
    assert checks.secrets(io.BytesIO(one.data), [secret]).outcome is CheckOutcome.NOT_CHECKED  # no mark: never there
    assert checks.secrets(io.BytesIO(one.data), []).outcome is CheckOutcome.NOT_CHECKED
    for spelled in (json.dumps(secret.secret), secret.secret, "a&quot;b&lt;c/" + "x" * 20, secret.secret[-20:]):
        data = changed(one.data, "data/comments.jsonl", spelled.encode(), key=one.key)
        seen = checks.secrets(io.BytesIO(data), [secret])
        assert seen.outcome is CheckOutcome.FAILED and "data/comments.jsonl" in seen.said, spelled
    line = json.dumps({"text": "PGPASSWORD=" + "hunter2x psql"}).encode() + b"\n"
    data = changed(one.data, "data/comments.jsonl", line, key=one.key)
    assert checks.shapes(io.BytesIO(data), PLAIN).said.endswith("data/comments.jsonl:1")
    assert checks.shapes(io.BytesIO(one.data), PLAIN).outcome is CheckOutcome.PASSED


def test_each_planted_secret_has_a_shape_that_is_taken_out() -> None:
    for one in planted.plant(emails=True):
        clean_line = PLAIN.redact(one.line)
        assert one.secret not in clean_line and marks(clean_line), one.kind
    blocks = iter([b"ab", b"cdSEC", b"RETxy"])
    assert list(planted.found(blocks, [planted.Planted("k", "SECRET", "")])) == ["k"]


def test_a_verdict_that_is_not_the_same_again_is_not_passed(one: Made) -> None:
    assert checks.concluded_again(opened(one.data, one.public)).outcome is CheckOutcome.PASSED
    other = changed(one.data, "data/observations/syslog.jsonl", b"", key=one.key)
    assert checks.concluded_again(opened(other, one.public)).outcome is CheckOutcome.FAILED


@pytest.mark.parametrize(
    "address", ["", "ftp://site", "https://ada:pw@site", "https://site/?x=1", "site:8000", "http://[x"]
)
def test_no_other_address_is_asked(address: str) -> None:
    with pytest.raises(NotAsked), Site(address).get("verdicts"):
        pass


def test_an_answer_that_trickles_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "SECONDS", 0.5)
    over = threading.Event()

    def trickle(connection: socket.socket, _asked: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        # Each line comes long before a wait for one would be too long, and there is always another.
        while not over.wait(0.1):
            connection.sendall(b"X-More: to come\r\n")

    with raw_server(trickle) as server:
        try:
            with pytest.raises(NotAsked, match="does not answer"), Site(server.url).get("verdicts"):
                pass
        finally:
            over.set()
