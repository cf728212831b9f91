"""What log stores give becomes lines, whatever is in them; one bad entry hides no other."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.words import ReportStatus, Source
from tests.verdicts.collectors.raw_server import ok, raw_server
from tests.verdicts.collectors.recorder import BEGIN, NANOS, SECOND, Recorder, an_ask, collected, the_ruleset
from verdicts.collectors.elasticsearch import Elasticsearch
from verdicts.collectors.http import Server
from verdicts.collectors.loki import Loki
from verdicts.collectors.mend import decode, mended
from verdicts.collectors.stores import HOUR, Batch, halves, moment, nanoseconds, parse_time, spans, stamp
from verdicts.collectors.victorialogs import VictoriaLogs

text = st.text(st.characters(codec="utf-8"), max_size=30)


@given(st.lists(st.tuples(st.integers(0, 20), text), max_size=15))
def test_entries_become_lines_in_the_order_of_their_times(rows: list[tuple[int, str]]) -> None:
    out = Recorder(collector="x", source=Source.SYSLOG, ruleset=the_ruleset())
    batch = Batch(out)
    for at, line in rows:
        batch.add(("", "gpu-01", None), [NANOS + at], [line])
    batch.feed()
    fed = [entry for entries in out.fed.values() for entry in entries]
    assert [at for at, _ in fed] == sorted(at for at, _ in fed)
    several = any("\n" in line for _, line in rows)
    parts = [(at, line.rstrip("\r\n").split("\n") if several else [line]) for at, line in rows]
    assert sorted(fed) == sorted((NANOS + at, line) for at, lines in parts for line in lines)


@pytest.mark.parametrize("hours", [0.1, 1, 1.4, 1.6, 12, 24, 168, 24 * 60])
def test_the_parts_of_a_window_are_the_whole_window(hours: float) -> None:
    parts = spans(an_ask(minutes=hours * 60))
    assert parts[0][1] == NANOS + int(hours * HOUR)
    assert parts[-1][0] == NANOS
    assert all(later[0] == earlier[1] for later, earlier in pairwise(parts))
    assert all(0 < end - begin <= 36 * HOUR for begin, end in parts)
    assert len(parts) < 80


def test_a_window_without_length_has_no_parts() -> None:
    assert spans(an_ask(minutes=0)) == []


@given(st.integers(0, 7 * 10**15), st.integers(0, 999))
def test_times_are_written_and_read_to_the_nanosecond(micros: int, rest: int) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    nanos = nanoseconds(at) + rest
    assert parse_time(f"{moment(nanos):%Y-%m-%dT%H:%M:%S}.{nanos % SECOND:09d}Z") == nanos
    assert moment(nanos) == at


def test_times_in_other_forms_are_read() -> None:
    assert parse_time("2026-11-30T10:00:00Z") == NANOS
    assert parse_time("2026-11-30T10:00:00.5Z") == NANOS + SECOND // 2
    assert parse_time("2026-11-30T11:00:00.25+01:00") == NANOS + SECOND // 4
    for bad in ("", "Z", "soon", "2026-13-01T00:00:00Z", "2026-11-30T10:00:00.xZ"):
        with pytest.raises(ValueError):
            parse_time(bad)
    assert stamp(NANOS + SECOND) == "2026-11-30T10:00:01Z"
    assert nanoseconds(BEGIN + timedelta(microseconds=1)) == NANOS + 1_000


def test_a_part_is_halved_the_later_first() -> None:
    assert list(halves(0, 10)) == [(5, 10), (0, 5)]


# --- answers with lines that are no text ----------------------------------------------------------------------------


@given(st.binary(max_size=60))
def test_what_is_mended_is_text(raw: bytes) -> None:
    mended(raw).decode()
    json.loads(b'"' + mended(b"\x01\xff\\ud800 \\\\ud800 \\ud83d\\ude00") + b'"')


@given(st.text(max_size=30))
def test_what_is_whole_stays_as_it_is(line: str) -> None:
    raw = json.dumps({"a": line}).encode()
    whole = line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if whole == line:
        assert mended(raw) == raw
    assert decode(raw, dict[str, str])["a"].count("\ufffd") >= line.count("\ufffd")


def test_a_wrong_kind_is_not_mended() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(b'{"a": 1}', dict[str, str])
    with pytest.raises(msgspec.DecodeError):
        decode(b"{", dict[str, str])


BAD = [b"bad \xff byte", b"half \\ud800 of a pair", b"the other \\udc00x half", b"nul \x00 and \x1f", b"\xed\xa0\x80"]


def stores(url: str) -> list[Any]:
    server, source = Server(url=url), Source.APPLOG
    return [
        Loki(name="x", source=source, server=server, node_label="node"),
        VictoriaLogs(name="x", source=source, server=server, node_field="node"),
        Elasticsearch(name="x", source=source, server=server, node_field="node", index="x"),
    ]


@pytest.mark.parametrize("bad", BAD)
def test_one_bad_line_hides_no_other(bad: bytes) -> None:
    at = stamp(NANOS).replace("Z", ".000000000Z").encode()
    rows = [b"one", bad, b"three"]
    loki = b",".join(b'["%d","%s"]' % (NANOS + number, row) for number, row in enumerate(rows))
    hits = b",".join(b'{"_source":{"node":"gpu-01","message":"%s"},"sort":[%d]}' % (row, NANOS) for row in rows)
    answers = [
        [b'{"data":{"resultType":"streams","result":[{"stream":{"node":"gpu-01"},"values":[%s]}]}}' % loki],
        [
            b'{"hits":[{"timestamps":["%s"],"values":[3]}]}' % at,
            b"".join(b'{"_msg":"%s","node":"gpu-01","_time":"%s"}\n' % (row, at) for row in rows),
        ],
        [b'{"_shards":{"total":1},"hits":{"total":3,"hits":[%s]}}' % hits],
    ]
    for number, given_answers in enumerate(answers):
        with raw_server(*map(ok, given_answers)) as raw:
            out, report = collected(stores(raw.url)[number], an_ask(["gpu-01"]))
        assert report.status is ReportStatus.OK, report.reason
        lines = out.lines_of()
        assert (len(lines), lines[0], lines[-1]) == (3, "one", "three")
        assert "\ufffd" in lines[1]


@pytest.mark.parametrize(
    "line", ["\x1b[31mred\x1b[0m", "a\rb", "x" * 1_000_000, "tab\there", "\u2028", "\x85", "<script>"]
)
def test_lines_that_are_strange_are_read(line: str) -> None:
    streams = [{"stream": {"node": "gpu-01"}, "values": [[str(NANOS), line]]}]
    body = json.dumps({"data": {"resultType": "streams", "result": streams}}).encode()
    with raw_server(ok(body)) as raw:
        out, report = collected(stores(raw.url)[0], an_ask(["gpu-01"]))
    assert (out.lines_of(), report.status) == ([line], ReportStatus.OK)
