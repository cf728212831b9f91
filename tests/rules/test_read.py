"""Prefixes of every form that clusters print."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.read import parse

XID = "NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("line", "stamp", "host"),
    [
        (f"Jun 17 20:18:08 node-211 kernel: {XID}", "--06-17T20:18:08", "node-211"),
        (
            f"<4>1 2025-01-21T04:41:44.285060+00:00 node7 kernel - - - {XID}",
            "2025-01-21T04:41:44.285060+00:00",
            "node7",
        ),
        (
            f"2025-01-21T04:41:44.285060+00:00 node7 kernel: [88.100000] {XID}",
            "2025-01-21T04:41:44.285060+00:00",
            "node7",
        ),
        (f"[Mon Oct  3 13:52:42 2022] {XID}", "2022-10-03T13:52:42", ""),
        (f"kern  :warn  : 2025-01-21T04:41:44,285060+00:00 {XID}", "2025-01-21T04:41:44.285060+00:00", ""),
        (f"2024-07-29T10:22:37.963223476Z stderr F {XID}", "2024-07-29T10:22:37.963223+00:00", ""),
        (f"2023-12-20 07:46:24.442 {XID}", "2023-12-20T07:46:24.442000", ""),
        (f"[2022-05-27T10:42:30.155] {XID}", "2022-05-27T10:42:30.155000", ""),
        (f"\x1b[31m2026-11-03 02:11:04\x1b[0m {XID}", "2026-11-03T02:11:04", ""),
    ],
)
def test_time_and_host(line: str, stamp: str, host: str) -> None:
    record = parse(line)
    assert (str(record.stamp), record.host, record.message) == (stamp, host, XID)


def test_uptime_is_kept_beside_a_date() -> None:
    record = parse(f"May  7 06:45:12 node-a kernel: [21584690.529862] {XID}")
    assert (str(record.stamp), str(record.uptime)) == ("--05-07T06:45:12", "boot:21584690.529862")


def test_a_traceback_that_is_indented_as_a_whole_ends_in_its_exception() -> None:
    assert parse("  TypeError: __init__() got an unexpected keyword argument 'x'").message.startswith("TypeError: ")
    assert parse("    raise ValueError('x')").message == "    raise ValueError('x')"


def test_a_line_quoted_by_itself_loses_the_quote() -> None:
    assert parse("`1488666  a1ql  main  4 OUT_OF_ME+  0:125 `").message.startswith("1488666 ")


def test_kmsg_counts_microseconds() -> None:
    assert str(parse(f"6,3973,227996636,-;{XID}").uptime) == "boot:227.996636"


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("[rank3]: KeyError: 'x'", 3),
        ("3: KeyError: 'x'", 3),
        ("  3: [rank3]: KeyError: 'x'", 3),
        ("[1,26]<stdout>:KeyError: 'x'", 26),
        ("[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] KeyError: 'x'", 0),
    ],
)
def test_ranks(line: str, rank: int) -> None:
    record = parse(line)
    assert record.rank == rank
    assert record.message.endswith("KeyError: 'x'")


def test_torchrun_names_the_rank_on_its_node_not_in_the_job() -> None:
    record = parse("[default3]:KeyError: 'x'")
    assert (record.rank, record.local_rank, record.message) == (None, 3, "KeyError: 'x'")


def test_nccl_names_its_host() -> None:
    record = parse("gpu-018:100:200 [0] misc/socket.cc:518 NCCL WARN Net : Connection closed")
    assert record.host == "gpu-018"
    assert record.message.startswith("misc/socket.cc:518")


def test_slurmstepd_names_its_node() -> None:
    assert parse("slurmstepd-gpu20-15: error: *** STEP 9.0 ON gpu20-15 CANCELLED").host == "gpu20-15"


@given(st.text(max_size=400))
def test_any_text_is_read_and_nothing_of_it_is_invented(text: str) -> None:
    record = parse(text)
    assert len(record.message) <= len(text)
