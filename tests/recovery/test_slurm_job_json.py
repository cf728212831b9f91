"""What the actuator reads of a job, in the JSON of each generation of Slurm.

The Slurm that can be run where these tests run is 22.05 (v0.0.38, tests/real). The newer forms follow what SchedMD
documents of v0.0.39 to v0.0.43: numbers as {set, infinite, number}, a state as a list with flags, lists as lists. They
are replayed here, not asked of a server.
"""

import json
from typing import Any

import pytest

from recovery.actuators.base import Unseen
from recovery.actuators.slurm_job import SlurmJob, read

SUBMIT = 1_796_000_000


def a_number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def old(**more: Any) -> dict[str, Any]:
    """v0.0.38: plain numbers and words."""
    said = {
        "job_id": 90, "array_job_id": 0, "array_task_id": None, "het_job_id": 0, "job_state": "RUNNING",
        "state_reason": "None", "submit_time": SUBMIT, "restart_cnt": 1, "priority": 4294901758,
        "excluded_nodes": "n[1-2],n4", "required_nodes": "", "requeue": True, "batch_flag": True,
        "partition": "train", "admin_comment": "inquest-1234abcd", "nodes": "n[5-6]",
    }  # fmt: skip
    return said | more


def new(**more: Any) -> dict[str, Any]:
    """v0.0.40 and later: objects for numbers that may be unset, lists for states and nodes."""
    said = {
        "array_job_id": a_number(0), "array_task_id": a_number(None), "het_job_id": a_number(0),
        "job_state": ["RUNNING"], "submit_time": a_number(SUBMIT), "priority": a_number(4294901758), "hold": False,
        "excluded_nodes": "n[1-2],n4", "required_nodes": "", "nodes": "n[5-6]",
    }  # fmt: skip
    return old(**said) | more


def asked(row: dict[str, Any], job_id: str = "90") -> SlurmJob | None:
    return read(json.dumps({"jobs": [row], "errors": [], "warnings": []}).encode(), job_id)


@pytest.mark.parametrize("row", [old(), new(), new(excluded_nodes=["n1", "n2", "n4"], required_nodes=[])])
def test_a_running_job_is_the_same_in_every_generation(row: dict[str, Any]) -> None:
    found = asked(row)
    assert found is not None
    assert (found.state, found.submit, found.restarts, found.held) == ("RUNNING", SUBMIT, 1, False)
    assert (found.excluded, found.required, found.nodes) == ({"n1", "n2", "n4"}, set(), "n[5-6]")
    assert found.requeue and found.batch and not found.heterogeneous
    assert (found.partition, found.admin_comment) == ("train", "inquest-1234abcd")


@pytest.mark.parametrize(
    "row",
    [
        old(job_state="PENDING", state_reason="JobHeldUser", priority=0),
        new(job_state=["PENDING"], state_reason="JobHeldUser", priority=a_number(0), hold=True),
        new(job_state=["PENDING", "REQUEUE_HOLD"], state_reason="JobHeldUser", priority=a_number(0)),
    ],
)
def test_a_job_that_is_held_is_seen_to_be_and_an_unset_priority_is_no_hold(row: dict[str, Any]) -> None:
    found = asked(row)
    assert found is not None and found.held
    unset = asked(new(job_state=["PENDING"], state_reason="JobHeldUser", priority=a_number(None)))
    assert unset is not None and not unset.held


@pytest.mark.parametrize("make", [old, new])
def test_an_array_is_asked_by_its_task(make: Any) -> None:
    number = a_number if make is new else int
    row = make(job_id=95, array_job_id=number(88), array_task_id=number(0))
    found = asked(row, "88_0")
    assert found is not None and found.id == "88_0"
    assert asked(row, "88") is None and asked(row, "95") is None


def test_what_the_server_complains_of_is_no_absent_job() -> None:
    complaint = {"error_number": 1007, "error": "Protocol authentication error", "description": "Failure to query jobs"}
    with pytest.raises(Unseen):
        read(json.dumps({"jobs": [], "errors": [complaint]}).encode(), "90")
    with pytest.raises(Unseen):
        read(b"<html>", "90")
    unknown = {"error_number": 2017, "error": "Invalid job id specified", "description": "Failure to query job 90"}
    assert read(json.dumps({"jobs": [], "errors": [unknown]}).encode(), "90") is None
