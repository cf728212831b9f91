"""The record of an attempt: it verifies, its page opens, its verdict is concluded again; a changed one is refused."""

import io
import json
import re
import stat
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.test import Client
from pytest_django import DjangoDbBlocker, Settings

from attribution_site.cli import main
from recovery.ledger import entries
from recovery.ledger.entries import Actor
from recovery.models import LedgerCheckpoint, LedgerEntry
from recovery.record import again
from recovery.record.container import BadRecord
from recovery.record.read import open_record
from recovery.words import EntryKind
from rules.ruleset import load_ruleset
from rules.verdict import verdict_digest
from tests.recovery.deciding import judged
from tests.recovery.recording import Made, changed, files, made
from tests.verdicts.builders import a_user, an_attempt
from verdicts.models import RulesetText
from verdicts.record import record_attempt

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def record(django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory) -> Made:
    with django_db_blocker.unblock():
        return made(tmp_path_factory.getbasetemp() / "record")


def refused(data: bytes, *keys: str) -> str:
    with pytest.raises(BadRecord) as caught:
        open_record(io.BytesIO(data), keys)
    return str(caught.value)


def test_one_state_gives_one_record_which_verifies(record: Made) -> None:
    assert record.data == record.again
    report = open_record(io.BytesIO(record.data), {record.public}).report
    assert (report.attempt, report.verdicts, report.in_ledger) == (str(record.attempt), 1, 1)
    assert (report.covered, report.sealed, report.erased) == (True, True, 0)
    assert {one.input for one in report.missing} >= {"source:fabric_manager", "source:node_metrics"}
    said = files(record.data)
    assert said["data/verdicts/0001.json"] == record.body
    for name in ("proposals", "decisions", "policies", "considerations", "reviews", "comments"):
        assert said[f"data/{name}.jsonl"], name
    kinds = re.findall(rb'"kind":"([a-z.]+)"', said[next(name for name in said if name.startswith("data/ledger/"))])
    assert {b"verdict.issued", b"proposal.made", b"proposal.rejected", b"review.given"} <= set(kinds)
    assert b"export.made" not in kinds


def test_the_verdict_is_concluded_again_byte_for_byte(record: Made, tmp_path: Path) -> None:
    opened = open_record(io.BytesIO(record.data))
    found = again.conclude(opened)
    assert (found.same, found.raw) == (True, record.body)
    site = tmp_path / "site"
    site.mkdir()
    (site / "site.toml").write_text(f'disable = ["{json.loads(record.body)["causes"][0]["rule"]}"]\n')
    assert any("no longer found" in said for said in again.otherwise(opened, found, load_ruleset(site, cache=False)))
    with pytest.raises(BadRecord, match="verdicts 1 to 1"):
        again.conclude(opened, 2)


def test_neither_django_nor_a_database_nor_a_network_is_needed(record: Made, tmp_path: Path) -> None:
    (tmp_path / "record.zip").write_bytes(record.data)
    program = """
import socket, sys
def closed(*_a, **_k): raise AssertionError("no network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = closed
from attribution_site.cli import main
for command in ("verify", "explain"):
    try: main([command, sys.argv[1]])
    except SystemExit as end: assert not end.code, end.code
assert "django" not in sys.modules and "celery" not in sys.modules
"""
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program, str(tmp_path / "record.zip")],
        check=True,
        timeout=300,
        capture_output=True,
        # With the cache that others have filled: to compile all rules takes seconds.
        env={"DATABASE_URL": "none://"},
    )
    assert b"the same byte for byte" in ran.stdout
    assert b"These are today's rules." in ran.stdout


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.others: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "href":
                self.links.append(value or "")
            elif name in ("src", "srcset", "action", "style", "data") or name.startswith("on"):
                self.others.append(name)


def test_the_page_needs_nothing_else_and_shows_what_is_hostile_as_text(record: Made) -> None:
    text = files(record.data)["index.html"].decode()
    page = _Page()
    page.feed(text)
    assert page.tags.isdisjoint({"script", "img", "link", "iframe", "object", "form", "base"})
    assert not page.others
    assert all(link.startswith("#") for link in page.links)
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
    body = json.loads(record.body)
    assert body["causes"][0]["title"] in text
    assert "onerror=alert(1)&gt;" in text
    for said in ("What was collected", "Why not the rest", "Proposals, decisions, results", "Ledger", "Other, not now"):
        assert said.lower().replace("other, ", "") in text.lower(), said


# --- What is refused ------------------------------------------------------------------------------


def test_any_changed_byte_and_any_cut_is_found(record: Made) -> None:
    size = len(record.data)
    for place in [*range(0, size, size // 25), *range(size - 120, size, 7)]:
        flipped = bytearray(record.data)
        flipped[place] ^= 4
        refused(bytes(flipped))
    for end in (0, 10, size // 2, size - 100, size - 1):
        refused(record.data[:end])
    assert "added at its end" in refused(record.data + b"x")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("data/attempt.json", b"{}", "the payload has not the size"),
        ("data/reports.json", None, "data/reports.json is missing"),
        ("data/more.json", b"{}", "was put in"),
        ("more.txt", b"{}", "was put in"),
        ("index.html", b"<p>all is well</p>", "index.html was changed"),
        ("bag-info.txt", b"Inquest-Schema: inquest.record/1\n", "bag-info.txt was changed"),
        ("signature.json", b"{}", "signature.json cannot be read"),
        ("tagmanifest-sha256.txt", b"", "the signature is wrong"),
        ("manifest-sha256.txt", b"", "manifest-sha256.txt was changed"),
        ("bagit.txt", b"BagIt-Version: 0.97\n", "no bag of the version"),
    ],
)
def test_a_bag_that_was_packed_again_is_read_and_a_changed_one_refused(
    record: Made, name: str, content: bytes | None, why: str
) -> None:
    whole = changed(record.data, "bagit.txt", files(record.data)["bagit.txt"])
    assert not open_record(io.BytesIO(whole)).report.sealed
    assert why in refused(changed(record.data, name, content))


def test_a_record_that_was_signed_again_is_told_by_its_key(record: Made) -> None:
    forger = Ed25519PrivateKey.generate()
    text = files(record.data)["data/observations/syslog.jsonl"].replace(b"fallen", b"risen!")
    again_signed = changed(record.data, "data/observations/syslog.jsonl", text, key=forger)
    assert "signed with another key" in refused(again_signed, record.public)
    assert "signed again by somebody else" in refused(again_signed)


def test_with_the_sites_own_key_the_ledger_still_tells(record: Made) -> None:
    told = files(record.data)
    ledger = next(name for name in told if name.startswith("data/ledger/"))
    lines = told[ledger].splitlines(keepends=True)
    cut = changed(record.data, ledger, b"".join(lines[:-1]), key=record.key)
    assert "cut off" in refused(cut)
    other = changed(record.data, ledger, told[ledger].replace(b"user:grace", b"user:frank"), key=record.key)
    assert "not as it was written, entry" in refused(other)
    body = record.body.replace(b'"strength":"strong"', b'"strength":"weak"')
    swapped = changed(record.data, "data/verdicts/0001.json", body, key=record.key)
    assert "verdict 1 is not the one" in refused(swapped)
    digest = verdict_digest(body).encode()
    index = told["data/verdicts.json"].replace(verdict_digest(record.body).encode(), digest)
    both = changed(swapped, "data/verdicts.json", index, key=record.key)
    assert "not the one that the ledger says was issued" in refused(both)


def test_evidence_that_does_not_give_the_verdict_is_told(record: Made, tmp_path: Path) -> None:
    text = files(record.data)["data/observations/syslog.jsonl"].replace(b"fallen off the bus", b"gone for a walk!!!")
    path = tmp_path / "record.zip"
    path.write_bytes(changed(record.data, "data/observations/syslog.jsonl", text, key=record.key))
    said = run("explain", str(path))
    assert said.exit_code == 1
    assert "NOT THE SAME as verdict 1" in said.output
    rules = next(name for name in files(record.data) if name.startswith("data/rulesets/"))
    path.write_bytes(changed(record.data, rules, None, key=record.key))
    assert "the rules of verdict 1 are not in the record" in run("explain", str(path)).output


# --- Hostile zips ---------------------------------------------------------------------------------

BASE = "inquest-record-00000000-0000-0000-0000-000000000000"


def packed(*entries: tuple[str, bytes], **more: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = more.get("mode", 0) << 16
            archive.writestr(entry, content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../data/x.json", "no file of a record"),
        (f"{BASE}/../x", "no file of a record"),
        (f"{BASE}/data/../../x", "no file of a record"),
        (f"/{BASE}/data/x", "no file of a record"),
        (f"{BASE}\\data\\x", "no file of a record"),
        (f"{BASE}/data/a\x1b[31m", "no file of a record"),
        (f"{BASE}/data/{'a/' * 30}x", "no file of a record"),
        (f"{BASE}/data/{'a' * 300}", "no file of a record"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(name: str, why: str) -> None:
    assert why in refused(packed((name, b"x")))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_bombs_links_doubles_and_crowds_are_refused() -> None:
    assert "link" in refused(packed((f"{BASE}/data/x", b"/etc/passwd"), mode=stat.S_IFLNK | 0o777))
    assert "twice" in refused(packed((f"{BASE}/data/x", b"1"), (f"{BASE}/data/x", b"2")))
    assert "more than 4,000 files" in refused(packed(*((f"{BASE}/data/x{n}", b"") for n in range(9_000))))
    assert "one folder" in refused(packed())
    lying = bytearray(packed((f"{BASE}/bagit.txt", b"x")))
    at = lying.rfind(b"PK\1\2")
    lying[at + 24 : at + 28] = (1 << 31).to_bytes(4, "little")
    assert "would unpack to" in refused(bytes(lying))
    crowd = bytearray(packed((f"{BASE}/bagit.txt", b"x")))
    at = crowd.rfind(b"PK\5\6")
    crowd[at + 12 : at + 16] = (80_000_000).to_bytes(4, "little")
    assert "more than 4,000 files" in refused(bytes(crowd))
    assert "very large archive" in refused(b"PK\6\7" + bytes(40) + packed((f"{BASE}/bagit.txt", b"x"))[-22:])
    assert "damaged or no record" in refused(b"not a zip at all")


def test_a_file_that_is_larger_than_it_says_is_refused(record: Made) -> None:
    whole = changed(record.data, "data/missing.json", b"[]" + b" " * 5_000_000)
    assert "payload has not the size" in refused(whole)


# --- Commands, the button, the API ----------------------------------------------------------------


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_the_commands(record: Made, tmp_path: Path) -> None:
    path, key = tmp_path / "record.zip", tmp_path / "key"
    path.write_bytes(record.data)
    key.write_text(record.public)
    said = run("verify", str(path), "--public-key", str(key))
    assert said.exit_code == 0, said.output
    assert "one of the keys given" in said.output
    key.write_text("ab" * 32)
    said = run("verify", str(path), "--public-key", str(key))
    assert (said.exit_code, "BAD it is signed with another key" in said.output) == (1, True)
    key.write_text("no key")
    assert run("verify", str(path), "--public-key", str(key)).exit_code == 3
    assert run("explain", str(path), "--json").output.startswith(record.body.decode())


def test_a_record_is_made_by_command_button_and_api(tmp_path: Path, settings: Settings, client: Client) -> None:
    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path / "key.pem")
    settings.INQUEST_LEDGER_CHECKPOINT_FILE = str(tmp_path / "checkpoints")
    attempt, _ = record_attempt(an_attempt())
    # A fact by the name of what templates ask a dict for.
    facts = {"items": [{"number": 1, "before": "", "attempt": str(attempt.pk)}]}
    entries.record(EntryKind.REPLAY_JUDGED, actor=Actor.system("test"), subject=attempt, attempt=attempt.pk, body=facts)
    path = tmp_path / "out.zip"
    said = run("export", str(attempt.pk), "-o", str(path))
    assert said.exit_code == 0, said.output
    report = open_record(io.BytesIO(path.read_bytes())).report
    assert (report.attempt, report.verdicts) == (str(attempt.pk), 0)
    assert "the attempt has no verdict" in run("verify", str(path)).output
    assert run("export", str(attempt.pk).replace(str(attempt.pk)[:8], "00000000")).exit_code == 1
    pages = (f"/recovery/attempts/{attempt.pk}/record/", f"/api/v1/attempts/{attempt.pk}/record")
    client.force_login(a_user("reader", "viewer"))
    assert [client.post(page).status_code for page in pages] == [403, 403]
    client.force_login(a_user("root-of-all", "administrator"))
    for page in pages:
        answer = client.post(page)
        assert answer.status_code == 200
        assert b"".join(answer.streaming_content)[:4] == b"PK\3\4"
    told = LedgerEntry.objects.filter(kind=EntryKind.EXPORTED.value, attempt=attempt.pk).order_by("at")
    assert [entry.body["facts"]["via"] for entry in told] == ["command-line", "console", "api"]
    LedgerCheckpoint.objects.create(number=1, hash="0" * 64, public_key="ab" * 32, signature="0" * 128)
    other_key = client.post(pages[0])
    assert (other_key.status_code, "has not signed the ledger" in other_key.content.decode()) == (503, True)
    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path)
    client.raise_request_exception = False
    assert client.post(pages[0]).status_code == client.get(pages[1]).status_code == 503
    assert told.count() == 3


def test_rules_whose_text_was_not_kept_are_said_to_be_missing(tmp_path: Path, settings: Settings) -> None:
    settings.INQUEST_LEDGER_KEY_FILE = str(tmp_path / "key.pem")
    settings.INQUEST_LEDGER_CHECKPOINT_FILE = str(tmp_path / "checkpoints")
    attempt, _ = record_attempt(an_attempt())
    verdict = judged(attempt)
    RulesetText.objects.filter(pk=verdict.ruleset_id).delete()
    path = tmp_path / "out.zip"
    assert run("export", str(attempt.pk), "-o", str(path)).exit_code == 0
    digest = verdict.ruleset.digest
    missing = {one.input: one.said for one in open_record(io.BytesIO(path.read_bytes())).report.missing}
    assert missing[f"ruleset:{digest}"] == "its text was not kept: it was used before texts were"
    assert f"Missing: ruleset:{digest}: its text was not kept" in run("verify", str(path)).output
    assert "its text was not kept" in files(path.read_bytes())["index.html"].decode()
    said = run("explain", str(path))
    assert (said.exit_code, "are not in the record: their text was not kept" in said.output) == (2, True)
