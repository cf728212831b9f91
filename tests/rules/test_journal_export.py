"""journald's export format: one line per record at its true place, binary fields and damage included."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rules.collect import read_file
from rules.formats import MAX_FIELD, JournalExport, rewriter
from rules.incident import EvidenceFile
from rules.ruleset import load_ruleset
from rules.words import Source

XID = "NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus."
HEAD = b"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1762135864123456\n_HOSTNAME=gpu-017\nSYSLOG_IDENTIFIER=kernel\n"
PLAIN = HEAD + f"MESSAGE={XID}\nPRIORITY=3\n\n".encode()
LINE = f"2025-11-03T02:11:04.123456+00:00 gpu-017 kernel: {XID}"


def binary(name: str, value: bytes) -> bytes:
    return name.encode() + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"


def lines(text: bytes) -> list[str]:
    return [line for line in text.decode("utf-8", "replace").split("\n") if line]


def test_a_record_becomes_a_line_where_it_ends() -> None:
    out = JournalExport()(PLAIN * 2)
    assert out.decode().split("\n") == [*[""] * 6, LINE, *[""] * 6, LINE, ""]


def test_a_message_with_newlines_is_one_line() -> None:
    record = HEAD + binary("MESSAGE", b"first\nsecond\xff") + b"\n"
    out = JournalExport()(record)
    assert lines(out) == ["2025-11-03T02:11:04.123456+00:00 gpu-017 kernel: first second�"]
    assert out.count(b"\n") == record.count(b"\n")


@given(st.lists(st.integers(0, 400), max_size=6), st.binary(max_size=60))
def test_blocks_may_be_cut_anywhere(cuts: list[int], value: bytes) -> None:
    record = HEAD + binary("COREDUMP_PROC_MAPS", value) + f"MESSAGE={XID}\n\n".encode()
    whole = record * 2
    rewrite = JournalExport()
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    out = b"".join(rewrite(whole[a:b]) for a, b in pairwise(places))
    assert lines(out) == [LINE, LINE]
    assert out.count(b"\n") == whole.count(b"\n")


def test_a_memory_image_in_a_field_is_passed_over() -> None:
    rewrite = JournalExport()
    record = HEAD + binary("COREDUMP", b"\0" * (MAX_FIELD + 5)) + f"MESSAGE={XID}\n\n".encode()
    pieces = [record[at : at + 65_536] for at in range(0, len(record), 65_536)]
    assert lines(b"".join(map(rewrite, pieces))) == [LINE]


def test_damage_costs_a_record_and_no_memory() -> None:
    rewrite = JournalExport()
    damaged = HEAD + b"MESSAGE\n" + b"\xff" * 8 + b"\n"
    assert lines(rewrite(damaged + b"\n" + PLAIN))[-1] == LINE
    endless = JournalExport()
    out = b"".join(endless(b"x" * (1 << 20)) for _ in range(8))
    assert len(out) >= 5 << 20


@given(st.binary(max_size=300))
def test_anything_at_all_ends(data: bytes) -> None:
    JournalExport()(b"__CURSOR=" + data)


def test_a_short_export_with_binary_fields_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(HEAD + binary("MESSAGE", XID.encode()) + b"\n")
    assert isinstance(rewriter(path.read_bytes().decode("utf-8", "replace")), JournalExport)
    observations, report = read_file(EvidenceFile(path, "journal", Source.SYSLOG), load_ruleset())
    assert [(one.body, one.ref) for one in observations] == [(LINE, "journal:7")], report
