"""Evidence that is broken, hostile or just unlucky: a clear refusal or a verdict, never a traceback or a hang."""

import io
import json
import os
import socket
from pathlib import Path

import pytest

from rules.attempt import Attempt, InputError, checked, decode_attempt, expand_hostlist, natural
from rules.collect import collect
from rules.engine import attribute
from rules.files import blocks
from rules.formats import HumanDmesg, json_lines
from rules.incident import open_incident
from rules.print_verdict import print_verdict
from rules.verdict import Verdict, canonical_json
from tests.rules.builders import shipped

XID = "Nov  3 02:11:04 n2 kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.\n"
#: What a terminal acts on, and what turns or hides text.
ACTING = set(map(chr, [*range(32), *range(0x7F, 0xA0), 0x200B, 0x202E, 0x2028, 0x2066])) - {"\n"}


def explain(*paths: Path) -> tuple[Verdict, str]:
    """The verdict and its print."""
    incident = open_incident(list(paths))
    collected = collect(incident, shipped())
    verdict = attribute(incident.attempt, collected.observations, collected.reports, shipped())
    out = io.StringIO()
    print_verdict(verdict, incident.notes, out)
    canonical_json(verdict).decode("utf-8")
    return verdict, out.getvalue()


def nodes(*names: str) -> str:
    return json.dumps({"job_id": "1", "nodes": names})


REFUSED = {
    "a range in a range in a range": (nodes("a" + "[1]" * 5000), "nodes"),
    "a range of huge numbers": (nodes(f"a[{'9' * 5000}-{'9' * 5000}]"), "nodes"),
    "long numbers": (nodes(f"a[{'0' * 4000}-99999]"), "nodes"),
    "many long names": (nodes("x" * 1_000_000 + "[0-99999]"), "nodes"),
    "many names": (nodes("a" + "[0-9]" * 6), "nodes"),
    "a rank that is a digit and no number": ('{"job_id": "1", "ranks": {"²": {"node": "a"}}}', "ranks"),
    "a huge rank": (json.dumps({"job_id": "1", "ranks": {"9" * 5000: {"node": "a"}}}), "ranks"),
    "one rank twice": ('{"job_id": "1", "ranks": {"1": {"node": "a"}, "01": {"node": "b"}}}', "ranks"),
    "before the first year": ('{"job_id": "1", "start": "0001-01-01T00:00:00+14:00"}', "start"),
    "after the last year": ('{"job_id": "1", "end": "9999-12-31T23:59:59-01:00"}', "end"),
    "no zone on earth": ('{"job_id": "1", "utc_offset": "+99:99"}', "utc_offset"),
    "a clock that knows nothing": ('{"job_id": "1", "clock_bounds": {"syslog": 1e308}}', "clock_bounds"),
    "a huge exit code": ('{"job_id": "1", "exit_code": ' + "9" * 5000 + "}", "exit_code"),
    "nested without end": ('{"job_id": "1", "topology": ' + "[" * 100_000, "topology"),
}


@pytest.mark.parametrize(("text", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_an_attempt_that_would_break_something_later_is_refused_by_field(text: str, field: str) -> None:
    with pytest.raises(InputError, match=f"attempt.json: {field}") as refused:
        decode_attempt(text.encode())
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_an_attempt_as_other_systems_write_it_is_read(encoding: str) -> None:
    bom = "\ufeff" if encoding == "utf-16-be" else ""
    assert decode_attempt((bom + '{"job_id": "ä"}').encode(encoding)).job_id == "ä"


def test_names_that_count_alike_keep_one_order() -> None:
    names = ["n1", "n01", "n001", "n2", "n10", "n²", "n" + "9" * 5000]
    backwards = names[::-1]
    assert sorted(names, key=natural) == sorted(backwards, key=natural)
    assert [checked(Attempt(job_id="1", nodes=order)).nodes for order in (["n1", "n01"], ["n01", "n1"])] == [
        ["n01", "n1"]
    ] * 2
    assert expand_hostlist("n[8-10]") == ["n8", "n9", "n10"]


def test_json_lines_with_values_of_any_kind_are_lines() -> None:
    records: list[dict[str, object]] = [
        {"message": "m", "exc_info": "\n \n"},
        {"message": "m", "rank": True},
        {"message": "m", "rank": 10**30},
        {"message": "m", "ts": float("nan")},
        {"message": "m\ud800"},
        {"MESSAGE": "m", "__REALTIME_TIMESTAMP": "9" * 30},
        {"MESSAGE": "m", "__REALTIME_TIMESTAMP": "²"},
        {"MESSAGE": [1, 300, "x", True, None]},
    ]
    block = "\n".join(map(json.dumps, records)).encode()
    assert json_lines(block).count(b"\n") == len(records) - 1
    deep = b'{"message":"m","x":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    assert json_lines(deep) == deep


def test_dmesg_deltas_beyond_every_calendar_are_lines() -> None:
    rewrite = HumanDmesg()
    rewrite(b"[May19 19:57] x")
    for _ in range(1000):
        assert b"text" in rewrite(b"[  +999999999.000127] text")
    assert b"text" in rewrite(b"[  +99999999999999999999.000127] text")


def test_utf16_pieces_end_inside_characters(tmp_path: Path) -> None:
    path = tmp_path / "log"
    text = "a" * (524_286) + "\U0001f600\n" + XID
    path.write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))
    assert b"".join(block.data for block in blocks(path)).decode() == text


def test_names_of_files_reach_neither_terminal_nor_references_as_they_are(tmp_path: Path) -> None:
    for name in (b"syslog/n\xff\x1b[2J.log", "syslog/a\u202eb\n:1.log".encode(), b"loose\r\xfe.log", b"app\nlog/x.log"):
        path = tmp_path / "case" / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(XID)
    verdict, printed = explain(tmp_path / "case")
    assert verdict.causes[0].rule == "gpu.off-the-bus"
    assert not ACTING & set(printed)
    assert not ACTING & set(canonical_json(verdict).decode())


def test_two_files_of_one_name_are_two(tmp_path: Path) -> None:
    for node in ("a", "b"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "dmesg.txt").write_text(XID)
    names = {file.name for file in open_incident([tmp_path / "a" / "dmesg.txt", tmp_path / "b" / "dmesg.txt"]).files}
    assert len(names) == 2


def test_what_is_no_file_is_passed_over_and_said(tmp_path: Path) -> None:
    folder = tmp_path / "case"
    (folder / "dir.log").mkdir(parents=True)
    (folder / "dir.log" / "dmesg.log").write_text(XID)
    os.mkfifo(folder / "fifo.log")
    (folder / "self.log").symlink_to("self.log")
    (folder / "nowhere.log").symlink_to("nothing")
    (folder / "up").symlink_to("..")
    (folder / "zero.log").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(folder / "s.log"))
        incident = open_incident([folder])
    assert [file.name for file in incident.files] == ["dir.log/dmesg.log"]
    said = " ".join(incident.notes)
    assert all(name in said for name in ("fifo.log", "self.log", "nowhere.log", "zero.log", "s.log"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "syslog").mkdir()
    (tmp_path / "syslog" / "n1.log").write_text(XID)
    (tmp_path / "app.log").write_text("step 1\n")
    (tmp_path / "syslog").chmod(0)
    incident = open_incident([tmp_path])
    (tmp_path / "syslog").chmod(0o700)
    assert "syslog: Permission denied" in incident.notes


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        open_incident([tmp_path / "pipe"])
    with pytest.raises(InputError, match="neither a file nor a folder"):
        open_incident([Path("/dev/zero")])


def test_a_huge_attempt_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "attempt.json", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match="larger than"):
        open_incident([tmp_path])


def test_one_file_that_may_not_be_read_is_a_report_and_the_others_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dmesg-n1.log").write_text(XID)
    (tmp_path / "dmesg-n2.log").write_text(XID)
    opened = Path.open

    def refuses(path: Path, *args: object, **more: object) -> object:
        if path.name == "dmesg-n1.log":
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuses)
    verdict, printed = explain(tmp_path)
    assert verdict.causes[0].nodes == ["n2"]
    assert "read only in part" in printed
