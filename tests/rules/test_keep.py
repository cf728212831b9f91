"""Lines that come in feeds: what is kept of them does not depend on how they were cut."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rules.collect import read_file
from rules.incident import EvidenceFile
from rules.keep import LOOK_BACK_BYTES, LineReader
from rules.observation import Observation
from rules.ruleset import load_ruleset
from rules.words import Source

OUT_OF_MEMORY = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
TRACEBACK = [
    b"Traceback (most recent call last):",
    b'  File "/home/ada/train.py", line 41, in <module>',
    b"    main()",
    b'  File "/home/ada/train.py", line 7, in main',
    b"    loss = model(batch)",
    OUT_OF_MEMORY,
]
LINES = [
    *TRACEBACK,
    b"",
    b"   ",
    b"2026-11-03 02:00:01,123 INFO step 12 loss 1.9",
    b"step 13 loss 1.8\r",
    b"\r 10%|#   | 1/10\r 20%|##  | 2/10",
    b"[rank3]: RuntimeError: something that no rule knows",
    b"NVRM: Xid (PCI:0000:65:00): 79, pid=7, GPU has fallen off the bus.",
    b"Nov  3 02:00:00 gpu-01 kernel: [88.1] NVRM: Xid (PCI:0000:65:00): 79, pid=7, GPU has fallen off the bus.",
    b"ERROR \x00\xff\xfe it broke in a strange way",
    b'{"time":"2026-11-03T02:00:00Z","host":"gpu-01","message":"RuntimeError: CUDA out of memory"}',
    b'{"not a record": 1}',
    b"[Nov 3 02:00] NVRM: Xid (PCI:0000:65:00): 79, pid=7, GPU has fallen off the bus.",
    b"[  +0.000127] NVRM: Xid (PCI:0000:65:00): 31, pid=7, name=python",
    b"x" * (LOOK_BACK_BYTES - 100),
]


#: Loaded once: looking at each file of the catalogue takes longer than all these lines.
RULESET = load_ruleset()


def a_reader() -> LineReader:
    return LineReader(source=Source.APPLOG, name="train.log", ruleset=RULESET)


def kept(feeds: Sequence[bytes], times: Sequence[Sequence[int]] | None = None) -> tuple[LineReader, list[Observation]]:
    """What is kept of these feeds."""
    reader = a_reader()
    for index, data in enumerate(feeds):
        reader.feed(data, times[index] if times else None)
    reader.end()
    return reader, reader.observations()


def cut(lines: list[bytes], ends: set[int], last_newline: bool) -> list[bytes]:
    """The lines as feeds that end after these lines, each with or without its last newline.

    An empty line at a feed's end cannot do without: it would be taken for the newline of the one before it.
    """
    stops = sorted({end for end in ends if 0 < end < len(lines)} | {len(lines)})
    feeds = [lines[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]
    return [b"\n".join(feed) + (b"\n" if last_newline or not feed[-1] else b"") for feed in feeds]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=30), st.sets(st.integers(1, 29)))
@example(TRACEBACK, set(range(1, 6)))
@example([b"", LINES[15], LINES[15]], {1})
@example([LINES[17], LINES[18], LINES[18]], {1, 2})
@example([LINES[8], LINES[19], *TRACEBACK], {2, 4})
@example([TRACEBACK[0], TRACEBACK[0], b""], {1, 3})
def test_what_is_kept_does_not_depend_on_the_feeds(tmp_path: Path, lines: list[bytes], ends: set[int]) -> None:
    lines = [*lines, b"the end"]
    whole, wanted = kept([b"\n".join(lines) + b"\n"])
    for last_newline in (True, False):
        reader, got = kept(cut(lines, ends, last_newline))
        assert got == wanted
        assert reader.lines == whole.lines == len(lines)
    path = tmp_path / "train.log"
    path.write_bytes(b"\n".join(lines) + b"\n")
    given_file = EvidenceFile(path=path, name="train.log", source=Source.APPLOG, node="", rank=None)
    got, report = read_file(given_file, RULESET)
    if report.read:  # a file whose beginning is binary is not read; a store's line is
        assert got == wanted


def test_the_frame_and_the_time_of_an_exception_are_found_in_the_feeds_before() -> None:
    dated = b"2026-11-03 02:00:01,123 INFO step 12"
    _, [found] = kept([dated, *TRACEBACK])
    assert found.attributes["frame"] == "/home/ada/train.py:7 in main"
    assert found.timestamp is not None
    assert found.timestamp.startswith("2026-11-03T02:00:01")


def test_times_must_be_one_for_each_line() -> None:
    for times in ([], [1], [1, 2, 3]):
        with pytest.raises(ValueError, match=f"{len(times)} times for 2 lines"):
            a_reader().feed(b"a\nb", times)


def test_streams_that_are_fed_in_turns_do_not_mix() -> None:
    one, other = a_reader(), a_reader()
    for line in TRACEBACK:
        one.feed(line)
        other.feed(b"2026-11-03 02:00:01,123 INFO fine")
    assert [found.attributes.get("frame") for found in one.observations()] == ["/home/ada/train.py:7 in main"]
    assert other.observations() == []


def test_bytes_are_those_that_came() -> None:
    reader, _ = kept([b"a", b"b\n", b"c\nd"])
    assert (reader.lines, reader.bytes) == (4, 6)


def test_a_line_of_megabytes_is_one_line_and_is_cut() -> None:
    reader, [found] = kept([OUT_OF_MEMORY + b" " + b"y" * (2 << 20)])
    assert reader.lines == 1
    assert len(found.body) <= 16_384
