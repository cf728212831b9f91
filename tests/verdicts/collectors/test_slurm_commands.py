"""Slurm's commands: bounded, whatever they print, and what a real 22.05 printed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.verdicts.collectors.slurm_fake import FakeSlurm, a_live
from verdicts.collectors import slurm_text
from verdicts.collectors.ask import Budget, BudgetSpent, SourceError, Unreachable
from verdicts.collectors.slurm_commands import Commands
from verdicts.collectors.slurm_records import Job

RECORDED = Path(__file__).parent / "slurm"
RECORDED_FIELDS = [field for field in slurm_text.FIELDS if field not in slurm_text.NEWER]


def a_budget(*, seconds: float = 20, megabytes: int = 4) -> Budget:
    return Budget.of(seconds=seconds, megabytes=megabytes)


def a_program(folder: Path, name: str, script: str) -> Commands:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Commands(folder=str(folder))


def test_a_recorded_accounting_with_everything_in_it() -> None:
    jobs = slurm_text.jobs_in_rows((RECORDED / "sacct-22.05.txt").read_bytes(), "<>", RECORDED_FIELDS)
    told = {(job.id, job.component, job.submit): job for job in jobs}
    assert len(told) == len(jobs) == 15
    assert [(job.state, job.submit, job.start, job.end) for job in jobs if job.id == "6"] == [
        ("REQUEUED", 1796038840, 1796038840, 1796038842),
        ("RUNNING", 1796038842, 1796038848, 0),
    ]
    bus = told["12", None, 1796038840]
    assert (bus.exit_code, bus.derived) == ("7:0", "0:7")
    assert [(step.id, step.state, step.exit_code) for step in bus.steps] == [
        ("batch", "FAILED", "7:0"),
        ("0", "CANCELLED", "0:7"),
    ]
    assert {job.id for job in jobs if job.id.startswith("7")} == {"7_1", "7_2", "7_3"}
    assert [(job.component, job.nodes) for job in jobs if job.id == "8"] == [(0, "gpu-03"), (1, "gpu-04")]
    assert told["5", None, 1796038840].state == "CANCELLED by 5"
    assert told["2", None, 1796038840].comment == '{"APS":1}'


def test_the_nodes_of_partitions_hidden_ones_too(tmp_path: Path) -> None:
    said = 'case "$*" in *--all*) printf "train|gpu-[01-02]\\ntrain|gpu-03\\nempty|\\na|b|gpu-04\\n" ;; esac'
    found = a_program(tmp_path, "sinfo", said).partitions(a_budget())
    assert {name: sorted(nodes) for name, nodes in found.items()} == {
        "train": ["gpu-01", "gpu-02", "gpu-03"],
        "empty": [],
        "a b": ["gpu-04"],
    }
    with pytest.raises(SourceError, match="cannot be read"):
        a_program(tmp_path, "sinfo", "echo 'train|gpu-[1-x]'").partitions(a_budget())


def test_recorded_nodes() -> None:
    found = {node.name: node for node in slurm_text.nodes((RECORDED / "nodes-22.05.txt").read_bytes())}
    assert sorted(found) == ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]
    lost = found["gpu-04"]
    assert (lost.state, lost.reason, lost.by, lost.since) == (
        "DOWN+NOT_RESPONDING",
        "Not responding",
        "slurm",
        1796038869,
    )
    assert lost.boot == 1796025256
    assert not found["gpu-01"].reason


def test_recorded_events_of_nodes() -> None:
    raw = (
        b"gpu-04|1796038869|Unknown|DOWN*|slurm(64030)|Not responding\n|1796038000|Unknown||Cluster Registered TRES|\n"
    )
    [event] = slurm_text.events(raw)
    assert (event.name, event.state, event.reason, event.by) == ("gpu-04", "DOWN*", "Not responding", "slurm")
    assert (event.since, event.until) == (1796038869, 0)


def test_a_reason_with_a_bar_or_brackets_stays_whole() -> None:
    [event] = slurm_text.events(b"n1|5|6|DRAIN|root(0)|xid|79 [see T-1]\n")
    assert event.reason == "xid 79 [see T-1]"
    raw = b"NodeName=n1 Arch=x State=IDLE+DRAIN ThreadsPerCore=1 Reason=NHC: [gpu] lost State=DOWN  [root@1796038869]"
    [node] = slurm_text.nodes(raw)
    assert (node.state, node.reason, node.by) == ("IDLE+DRAIN", "NHC: [gpu] lost State=DOWN", "root")


@pytest.mark.parametrize("cut", [2, 7, 90])
def test_an_answer_that_was_cut_off_is_an_error_and_no_shorter_answer(cut: int) -> None:
    raw = (RECORDED / "sacct-22.05.txt").read_bytes()[:-cut].removesuffix(b"\n")
    with pytest.raises(SourceError, match="cut off after"):
        slurm_text.jobs_in_rows(raw, "<>", RECORDED_FIELDS)


def test_columns_of_squeue_are_read_where_it_prints_no_json() -> None:
    row = ["8+1", "a\nname", "ada", "research", "train", "RUNNING", "5", "6", "900", "n[1-2]", "None", "(null)"]
    raw = "".join(cell + "<>" for cell in row).encode() + b"\n"
    [job] = slurm_text.jobs_in_columns(raw, "<>")
    assert (job.id, job.component, job.name, job.live, job.restarts) == ("8", 1, "a name", True, None)


def test_restarts_and_exit_codes_come_in_columns_of_their_own() -> None:
    """As a real 22.05 prints them; the end of one job was told between the two calls."""
    jobs = [Job("1", submit=5), Job("8", component=1, submit=5), Job("9", submit=6), Job("10", submit=5)]
    raw = (
        b"1   5   FAILED 2   35072   0\n8+1   5  RUNNING 0   11   7   \n9   7   FAILED 1   256   0\n"
        b"nonsense\n9  6 FAILED N/A 0 0\n10 5 COMPLETING 3 0 0\n"
    )
    told = slurm_text.with_numbers(jobs, raw)
    assert [(job.restarts, job.exit_code, job.derived) for job in told] == [
        (2, "137:0", "0:0"),
        (0, "0:11", "0:7"),
        (None, "", ""),
        (None, "0:0", "0:0"),
    ]


def test_one_job_is_asked_for_without_the_whole_queue(tmp_path: Path) -> None:
    slurm = FakeSlurm(
        tmp_path, controller=[a_live(4, submit=5, exit_code=137 << 8, restart_cnt=2), a_live(5, submit=5)]
    )
    [job] = slurm.commands.job("4", a_budget())
    assert (job.id, job.restarts, job.exit_code, job.live, job.nodes) == ("4", 2, "137:0", True, "gpu-[01-02]")
    assert slurm.commands.job("6", a_budget()) == []
    assert all(any("--jobs=" in option for option in call) for call in slurm.calls("squeue"))


def test_an_answer_in_another_encoding_is_read() -> None:
    row = ["4", "gr\xf6\xdfe", *[""] * 4, "RUNNING", *[""] * (len(RECORDED_FIELDS) - 7)]
    raw = "".join(cell + "<>" for cell in row).encode("latin-1")
    [job] = slurm_text.jobs_in_rows(raw, "<>", RECORDED_FIELDS)
    assert job.name.startswith("gr")


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    commands = a_program(tmp_path, "sinfo", f"sleep 600 & echo $! > {tmp_path}/pid; sleep 600")
    with pytest.raises(Unreachable, match="sinfo: no answer within 1 s"):
        commands.run("sinfo", budget=a_budget(seconds=1))
    started = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    deadline = time.monotonic() + 10
    # Killed, it is gone or waits for somebody to ask how it ended.
    while started.exists() and started.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "what the command had started runs on"


def test_a_command_that_floods_is_ended_within_its_bytes(tmp_path: Path) -> None:
    commands = a_program(tmp_path, "squeue", "exec yes")
    budget = a_budget(megabytes=1)
    with pytest.raises(BudgetSpent, match="more than 1 MiB"):
        commands.jobs(budget)
    assert budget.taken < 3 << 20


def test_a_command_that_complains_without_end_is_read_no_further(tmp_path: Path) -> None:
    script = (
        "i=0; while [ $i -lt 5000 ]; do echo 'error: a long complaint of the same kind again' >&2; i=$((i+1)); done"
    )
    commands = a_program(tmp_path, "sinfo", f"{script}; exit 1")
    with pytest.raises(SourceError) as caught:
        commands.version(a_budget())
    assert len(str(caught.value)) < 400


def test_what_a_command_says_is_told_without_its_secrets(tmp_path: Path) -> None:
    commands = a_program(tmp_path, "sinfo", "echo 'sinfo: error: password=hunter2hunter2 refused' >&2; exit 3")
    with pytest.raises(SourceError, match="sinfo ended with 3") as caught:
        commands.version(a_budget())
    assert "hunter2hunter2" not in str(caught.value)


def test_a_missing_command_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"install Slurm's client or set commands\.folder"):
        Commands(folder=str(tmp_path)).version(a_budget())


def test_commands_get_an_environment_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://u:secret@db/x")
    monkeypatch.setenv("SACCT_FORMAT", "jobid")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    commands = a_program(tmp_path, "sinfo", "env | tr '\\n' ' '")
    said = commands.version(a_budget())
    assert "DATABASE_URL" not in said and "SACCT_FORMAT" not in said
    assert "TZ=UTC0" in said and "SLURM_TIME_FORMAT=%s" in said


def test_a_daemon_that_is_away_is_unreachable_and_a_wrong_question_is_not(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path, away={"sacct": "sacct: error: Problem talking to the database: Connection refused"})
    with pytest.raises(Unreachable, match="Problem talking to the database"):
        slurm.commands.ended_since(1, 2, a_budget())
    slurm.away = {"scontrol": "scontrol: error: invalid option"}
    with pytest.raises(SourceError) as caught:
        slurm.commands.nodes([], a_budget())
    assert not isinstance(caught.value, Unreachable)


def test_a_controller_that_is_away_is_told_with_success_by_squeues_json(tmp_path: Path) -> None:
    """What 22.05 prints, ending with 0."""
    said = '{"errors": [{"description": "Failed while looking for jobs", "error_number": -1, "source": "slurm_load_jobs"}]}'
    slurm = FakeSlurm(tmp_path, raw={"squeue": said})
    with pytest.raises(Unreachable, match="Failed while looking for jobs"):
        slurm.commands.jobs(a_budget())
    assert len(slurm.calls("squeue")) == 1


@pytest.mark.parametrize("said", ['{"jobs": [{"job_id": 4', "", "[]", '{"jobs": {"job_id": 4}}', "[" * 100_000])
def test_json_that_is_none_is_an_error(tmp_path: Path, said: str) -> None:
    slurm = FakeSlurm(tmp_path, raw={"squeue": said})
    if said:
        with pytest.raises(SourceError):
            slurm.commands.jobs(a_budget())
    else:
        # Nothing at all in columns is an empty queue.
        assert slurm.commands.jobs(a_budget()) == []


def test_ids_and_nodes_go_in_bounded_pieces(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    slurm.commands.history([str(n) for n in range(1, 1201)], a_budget())
    asked = [option for call in slurm.calls("sacct") for option in call if option.startswith("--jobs=")]
    assert [option.count(",") + 1 for option in asked] == [500, 500, 200]


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"commands\.folder"):
        Commands(folder="/does/not/exist").check()
    with pytest.raises(ValueError, match=r"commands\.conf"):
        Commands(conf=str(tmp_path / "slurm.conf")).check()
    Commands(folder=str(tmp_path)).check()
