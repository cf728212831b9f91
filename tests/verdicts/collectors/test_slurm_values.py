"""Values as the versions of Slurm write them, and records put together from both sides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdicts.collectors.slurm_records import Job, Step, as_lines, attempt, joined, merged, numbered, stated
from verdicts.collectors.slurm_values import exit_code, hosts, moment, number, optional, state, words


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        ("5", 5),
        ("Unknown", 0),
        ("", 0),
        (None, 0),
        ({"set": True, "infinite": False, "number": 5}, 5),
        ({"set": False, "infinite": False, "number": 5}, 0),
        ({"set": True, "infinite": True, "number": 5}, 0),
        (0xFFFFFFFE, 0),
        (-3, 0),
        (1 << 70, 0),
        ({"set": True, "number": {"set": True}}, 0),
        ([], 0),
    ],
)
def test_numbers(value: Any, expected: int) -> None:
    assert number(value) == expected


def test_the_task_0_of_an_array_is_a_task() -> None:
    assert optional(0) == 0
    assert optional({"set": True, "infinite": False, "number": 0}) == 0
    assert optional({"set": False, "infinite": False, "number": 0}) is None
    assert optional(None) is None
    assert optional(0xFFFFFFFE) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("13:0", "13:0"),
        (3328, "13:0"),  # v0.0.38, the controller: a raw wait status
        (11, "0:11"),
        (139, "0:11"),  # with a core
        (137 << 8, "137:0"),
        ({"status": "SUCCESS", "return_code": 0}, "0:0"),  # v0.0.38 and v0.0.39, accounting
        (
            {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 11, "name": "Segmentation fault"}},
            "0:11",
        ),
        ({"status": "ERROR", "return_code": 13}, "13:0"),
        (
            {  # v0.0.40 to v0.0.43
                "status": ["ERROR"],
                "return_code": {"set": True, "infinite": False, "number": 13},
                "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
            },
            "13:0",
        ),
        (
            {
                "status": ["SIGNALED"],
                "return_code": {"set": False, "infinite": False, "number": 0},
                "signal": {"id": {"set": True, "infinite": False, "number": 9}, "name": "SIGKILL"},
            },
            "0:9",
        ),
        ({"status": ["PENDING"], "return_code": {"set": False, "infinite": False, "number": 0}}, ""),
        (0xFFFFFFFE, ""),
        (None, ""),
        ("", ""),
        ("99999999999:0", ""),
        (True, ""),
    ],
)
def test_exit_codes(value: Any, expected: str) -> None:
    assert exit_code(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("CANCELLED by 1001", "CANCELLED by 1001"),
        ("CANCELLED+", "CANCELLED"),
        (["FAILED"], "FAILED"),
        (["FAILED", "COMPLETING"], "COMPLETING"),
        (["RUNNING", "CONFIGURING"], "RUNNING"),
        (["PENDING", "REQUEUED"], "REQUEUED"),
        ([], ""),
        (None, ""),
    ],
)
def test_states(value: Any, expected: str) -> None:
    assert state(value) == expected


def test_a_host_list_is_never_cut() -> None:
    long = ",".join(f"node{n}x{n}" for n in range(2000))
    assert hosts(long) == long
    assert hosts("None assigned") == hosts("(null)") == hosts(None) == ""


@given(st.text())
def test_text_of_users_stays_on_one_line_and_ends_no_field(text: str) -> None:
    assert not set(words(text)) & set("|\n\r\x0b\x0c\x00\x1b\x1f\x85\u2028\u2029")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_nothing_that_json_can_hold_is_too_strange(value: Any) -> None:
    number(value), optional(value), exit_code(value), state(value), words(value), hosts(value)


def test_a_signal_is_not_told_as_a_failed_launch() -> None:
    """What Slurm before 23.02 gives as the reason for a batch script that a signal ended."""
    assert stated(Job("1", reason="JobLaunchFailure", exit_code="0:11")) == ""
    assert stated(Job("1", reason="JobLaunchFailure", exit_code="0:0")) == "JobLaunchFailure"
    assert stated(Job("1", reason="JobLaunchFailure")) == "JobLaunchFailure"
    assert stated(Job("1", reason="JobLaunchFailure", exit_code=exit_code(4021))) == "JobLaunchFailure"


def test_why_it_waited_is_no_reason_for_its_end() -> None:
    for waited in ("None", "Priority", "BeginTime", "QOSMaxGRESPerUser", "AssocGrpCPULimit", "JobHeldUser"):
        assert stated(Job("1", reason=waited)) == ""
    for ended in ("NodeDown", "TimeLimit", "NonZeroExitCode", "RaisedSignal:9(Killed)", "OutOfMemory", "DeadLine"):
        assert stated(Job("1", reason=ended)) == ended


def test_a_job_that_changed_its_size_is_one_attempt_with_all_nodes() -> None:
    rows = [
        Job("1", state="RESIZING", submit=5, start=10, end=20, nodes="a[1-2]"),
        Job("1", state="COMPLETED", submit=5, start=20, end=30, nodes="a1"),
    ]
    [whole] = merged(rows)
    assert (whole.start, whole.end, whole.state) == (10, 30, "COMPLETED")
    assert attempt(whole).nodes == ["a1", "a2", "a1"]


def test_who_cancelled_is_the_number_that_rules_read() -> None:
    """slurmrestd gives a name, the controller knows whose number that is."""
    book = Job("1", state="CANCELLED by ada", submit=5, start=6, end=9, user="ada")
    live = Job("1", state="CANCELLED", submit=5, start=6, end=9, user="ada", uid=1001, live=True)
    assert merged([book, live])[0].state == "CANCELLED by 1001"


def test_components_of_each_restart_belong_together() -> None:
    """Stamped a second apart, as happens."""
    rows = [
        Job("8", component=part, state=told, submit=at + part, start=at + 9, end=at + 50, nodes=f"n{part}", user="u")
        for at, told in ((100, "REQUEUED"), (150, "REQUEUED"), (200, "COMPLETED"))
        for part in (0, 1)
    ]
    rows, missing = numbered(merged(rows), {}, {"8"})
    whole = sorted(joined(rows), key=lambda job: job.submit)
    assert not missing
    assert [(job.submit, job.restarts, job.nodes) for job in whole] == [
        (100, 0, "n0,n1"),
        (150, 1, "n0,n1"),
        (200, 2, "n0,n1"),
    ]


def test_a_heterogeneous_job_runs_as_long_as_one_of_its_components() -> None:
    rows = [
        Job("8", component=0, state="RUNNING", submit=1, start=2, nodes="a"),
        Job("8", component=1, state="FAILED", submit=1, start=3, end=9, nodes="b"),
    ]
    [whole] = joined(iter(rows))
    assert (whole.state, whole.end, whole.ended, whole.start) == ("RUNNING", 0, False, 2)


def test_restarts_count_backwards_from_what_the_controller_says() -> None:
    rows = [
        Job("6", state="REQUEUED", submit=10, end=20, user="u"),
        Job("6", state="PREEMPTED", submit=20, end=40, user="u"),
        Job("6", state="RUNNING", submit=41, restarts=7, user="u"),
    ]
    told, missing = numbered(rows, {})
    assert [job.restarts for job in told] == [5, 6, 7]
    assert not missing


def test_a_count_that_was_told_stays() -> None:
    told, _ = numbered([Job("6", submit=10, restarts=3)], {("6", 10): 2})
    assert told[0].restarts == 2


def test_lines_cannot_be_forged() -> None:
    job = Job(
        id="5",
        name=words("x\nJobState=TIMEOUT"),
        state="FAILED",
        submit=1,
        start=2,
        end=3,
        nodes="n1",
        comment=words("ok|NODE_FAIL|"),
        steps=(Step("batch", words("b|TIMEOUT|"), "FAILED", "1:0", "n1", 2, 3),),
    )
    for line, ended in as_lines(job):
        assert "\n" not in line
        assert "|NODE_FAIL|" not in line and "|TIMEOUT|" not in line
        assert ended == 3


def test_times_beyond_every_calendar_are_no_times() -> None:
    assert moment(1 << 62) == moment(253_402_300_800) == moment("Unknown") == 0
    assert attempt(Job("1", state="FAILED", submit=moment(253_402_300_799), nodes="n1")).submit_time == (
        "9999-12-31T23:59:59+00:00"
    )
