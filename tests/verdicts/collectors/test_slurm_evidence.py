"""What Slurm says of one attempt reaches the rules: the end, the node, the log; nothing of other attempts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rules.attempt import Attempt, CollectorReport
from rules.observation import Observation
from rules.ruleset import load_ruleset
from rules.words import ReportStatus, Source
from tests.verdicts.collectors.slurm_fake import FakeSlurm, a_live, a_row
from verdicts.collectors.ask import Ask, Budget, SourceError
from verdicts.collectors.sink import Sink
from verdicts.collectors.slurm import SlurmRecords

T0 = 1_796_000_000
DBD_AWAY = "sacct: error: Problem talking to the database: Connection refused\n"
CTL_AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
RULESET = load_ruleset()


def at(moment: int) -> datetime:
    return datetime.fromtimestamp(moment, UTC)


def an_attempt(**other: Any) -> Attempt:
    given: dict[str, Any] = {
        "job_id": "6",
        "scheduler": "slurm",
        "submit_time": at(T0).isoformat(),
        "start": at(T0).isoformat(),
        "end": at(T0 + 60).isoformat(),
        "state": "FAILED",
        "nodes": ["gpu-01", "gpu-02"],
    }
    return Attempt(**(given | other))


def collected(
    slurm: FakeSlurm, attempt: Attempt | None = None, *, before: int = 300, **settings: Any
) -> tuple[list[Observation], CollectorReport]:
    """One collection, as the pipeline makes it."""
    attempt = attempt or an_attempt()
    source = SlurmRecords(name="slurm", commands=slurm.commands, **settings)
    out = Sink(collector="slurm", source=Source.SCHEDULER, ruleset=RULESET)
    ask = Ask(
        cluster="ml",
        attempt=attempt,
        begin=at(T0) - timedelta(seconds=before),
        end=at(T0 + 120),
        nodes=tuple(attempt.nodes),
        budget=Budget.of(seconds=20, megabytes=4),
        ruleset=RULESET,
    )
    failure: SourceError | None = None
    try:
        source.collect(ask, out)
    except SourceError as error:
        failure = error
    return out.close(failure)


def bodies(observations: list[Observation]) -> str:
    return "\n".join(observation.body for observation in observations)


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


def test_the_record_of_the_job_and_the_rows_of_its_steps(slurm: FakeSlurm) -> None:
    slurm.accounting = [
        a_row("6", submit=T0, end=T0 + 60, State="FAILED", ExitCode="7:0", DerivedExitCode="0:7"),
        a_row("6.batch", submit=T0, end=T0 + 60, State="FAILED", ExitCode="7:0", JobName="batch"),
        a_row("6.0", submit=T0, end=T0 + 59, State="CANCELLED", ExitCode="0:7", JobName="python"),
    ]
    slurm.controller = [
        a_live(6, submit=T0, end=T0 + 60, job_state="FAILED", exit_code=135 << 8, state_reason="NonZeroExitCode")
    ]
    observations, report = collected(slurm)
    said = bodies(observations)
    assert "JobState=FAILED Reason=NonZeroExitCode Restarts=0 ExitCode=135:0 DerivedExitCode=0:7" in said
    assert "6.0|python|||CANCELLED|0:7|gpu-[01-02]" in said
    assert report.status is ReportStatus.OK
    record = next(o for o in observations if "JobState=" in o.body)
    assert record.timestamp is not None and record.timestamp.startswith(at(T0 + 60).isoformat()[:19])


def test_what_a_job_says_of_recovery_in_its_comment_is_kept_though_no_rule_knows_it(slurm: FakeSlurm) -> None:
    slurm.accounting = [a_row("6", submit=T0, end=T0 + 60, State="FAILED", Comment="70b inquest=restart,max=3")]
    observations, _ = collected(slurm)
    assert "JobId=6 Comment=70b inquest=restart,max=3" in bodies(observations)
    slurm.accounting = [
        a_row("6", submit=T0, end=T0 + 60, State="FAILED", Comment="no inquest here", JobName="inquest=all")
    ]
    observations, _ = collected(slurm)
    assert "inquest" not in bodies([one for one in observations if "Comment=" in one.body])


def test_only_this_attempt_of_a_requeued_job(slurm: FakeSlurm) -> None:
    slurm.accounting = [
        a_row("6", submit=T0 - 900, end=T0, State="NODE_FAIL"),
        a_row("6", submit=T0, end=T0 + 60, State="REQUEUED"),
        a_row("6", submit=T0 + 60, start=T0 + 66, end=T0 + 99, State="TIMEOUT"),
    ]
    slurm.controller = [a_live(6, submit=T0 + 60, start=T0 + 66, restart_cnt=2)]
    said = bodies(collected(slurm)[0])
    assert "JobState=REQUEUED" in said
    assert "NODE_FAIL" not in said and "TIMEOUT" not in said and "RUNNING" not in said


def test_who_cancelled_it_is_in_a_row_as_sacct_prints_it(slurm: FakeSlurm) -> None:
    slurm.accounting = [a_row("6", submit=T0, end=T0 + 60, State="CANCELLED by 1001")]
    said = bodies(collected(slurm, an_attempt(state="CANCELLED by 1001"))[0])
    assert "6|train|train|research|CANCELLED by 1001|0:0|gpu-[01-02]" in said


def test_a_lost_node_is_told_by_its_record_and_by_the_event_once(slurm: FakeSlurm) -> None:
    slurm.accounting = [a_row("6", submit=T0, end=T0 + 60, State="NODE_FAIL")]
    slurm.nodes = (
        f"NodeName=gpu-02 Arch=x State=DOWN+NOT_RESPONDING Threads=1 Reason=Not responding [slurm@{T0 + 58}]\n"
        f"NodeName=gpu-01 Arch=x State=IDLE ThreadsPerCore=1 \n"
    )
    slurm.events = f"gpu-02|{T0 + 58}|Unknown|DOWN*|slurm(64030)|Not responding\n"
    observations, _ = collected(slurm, an_attempt(state="NODE_FAIL"))
    lost = [o for o in observations if "Not responding" in o.body]
    assert [(o.node, "Reason=Not responding [slurm@" in o.body) for o in lost] == [("gpu-02", True)]
    assert not any("gpu-01 State" in o.body for o in observations)


def test_what_was_done_to_a_node_afterwards_says_nothing(slurm: FakeSlurm) -> None:
    slurm.accounting = [a_row("6", submit=T0, end=T0 + 60, State="FAILED")]
    slurm.nodes = f"NodeName=gpu-02 Arch=x State=IDLE+DRAIN ThreadsPerCore=1 Reason=Prolog error [root@{T0 + 90_000}]\n"
    assert "Prolog" not in bodies(collected(slurm)[0])


def test_accounting_away_is_a_gap_beside_what_the_controller_says(slurm: FakeSlurm) -> None:
    slurm.away = {"sacct": DBD_AWAY, "sacctmgr": DBD_AWAY}
    slurm.controller = [a_live(6, submit=T0, end=T0 + 60, job_state="FAILED", exit_code=256)]
    observations, report = collected(slurm)
    assert "JobState=FAILED" in bodies(observations)
    assert report.status is ReportStatus.PARTIAL
    assert "accounting did not answer: sacct ended with 1" in report.reason


def test_a_cluster_without_accounting_has_no_gap_for_it(slurm: FakeSlurm) -> None:
    slurm.away = {"sacct": "sacct: error: Slurm accounting storage is disabled", "sacctmgr": "the same"}
    slurm.controller = [a_live(6, submit=T0, end=T0 + 60, job_state="FAILED", exit_code=256)]
    observations, report = collected(slurm, accounting=False)
    assert "JobState=FAILED" in bodies(observations)
    assert report.status is ReportStatus.OK and not slurm.calls("sacct")


def test_all_away_is_an_error_with_their_words(slurm: FakeSlurm) -> None:
    slurm.away = {"sacct": DBD_AWAY, "sacctmgr": DBD_AWAY, "squeue": CTL_AWAY, "scontrol": CTL_AWAY}
    observations, report = collected(slurm)
    assert not observations
    assert report.status is ReportStatus.ERROR
    assert "Problem talking to the database" in report.reason and "Unable to contact slurm controller" in report.reason


def test_a_job_that_slurm_does_not_know_is_an_empty_report(slurm: FakeSlurm) -> None:
    observations, report = collected(slurm)
    assert not observations
    assert report.status is ReportStatus.EMPTY


LOG = """\
[{before}] Time limit exhausted for JobId=6
[{in_}] _job_complete: JobId=6 WEXITSTATUS 1
[{in_}] error: Nodes gpu-[02-03] not responding, setting DOWN
[{in_}] error: Nodes gpu-[07-09] not responding, setting DOWN
[{in_}] Killing JobId=60 on failed node gpu-02
[{in_}] update_node: node gpu-022 state set to DRAINED
[{in_}] _slurm_rpc_requeue: JobId=6_3 usec=312
[{after}] Time limit exhausted for JobId=6
"""


def local(moment: int, hours: int = 1) -> str:
    """A stamp as slurmctld writes it in Berlin's winter."""
    return (at(moment) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S.100")


def test_lines_of_the_controllers_log_that_speak_of_the_job_or_its_nodes(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.accounting = [a_row("6", submit=T0, end=T0 + 60, State="FAILED")]
    log = tmp_path / "slurmctld.log"
    log.write_text(LOG.format(before=local(T0 - 9_000), in_=local(T0 + 50), after=local(T0 + 9_000)))
    observations, report = collected(slurm, controller_log=str(log), timezone="Europe/Berlin")
    said = bodies([o for o in observations if "slurmctld.log" in o.ref])
    assert "JobId=6 WEXITSTATUS 1" in said and "gpu-[02-03] not responding" in said
    for foreign in ("Time limit", "gpu-[07-09]", "JobId=60", "gpu-022"):
        assert foreign not in said
    assert f"[{at(T0 + 50).strftime('%Y-%m-%dT%H:%M:%S')}.100+00:00]" in said
    assert report.status is ReportStatus.OK


def test_what_befell_another_attempt_of_the_job_stands_in_its_log_alone(slurm: FakeSlurm, tmp_path: Path) -> None:
    """Attempts of one job follow each other within seconds, and the window reaches minutes further."""
    slurm.accounting = [
        a_row("6", submit=T0 - 50, end=T0, State="REQUEUED"),
        a_row("6", submit=T0, start=T0 + 6, end=T0 + 20, State="REQUEUED"),
        a_row("6", submit=T0 + 20, start=T0 + 26, end=T0 + 40, State="CANCELLED by 0"),
    ]
    log = tmp_path / "slurmctld.log"
    log.write_text(
        f"[{local(T0, 0)}] Requeuing JobId=6\n"
        f"[{local(T0 + 6, 0)}] error: Nodes gpu-01 not responding\n"
        f"[{local(T0 + 20, 0)}] Requeuing JobId=6 State=0x0\n"
        f"[{local(T0 + 40, 0)}] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=6 uid 0\n"
        f"[{local(T0 + 60, 0)}] error: Nodes gpu-01 not responding, setting DOWN\n"
    )
    log_of = {}
    for restart, submit in ((0, T0 - 50), (1, T0), (2, T0 + 20)):
        attempt = an_attempt(submit_time=at(submit).isoformat(), restart_count=restart, state="REQUEUED")
        found, _ = collected(slurm, attempt, controller_log=str(log), timezone="UTC")
        log_of[restart] = [o.body.partition("] ")[2] for o in found if "slurmctld.log" in o.ref]
    lost = ["error: Nodes gpu-01 not responding", "error: Nodes gpu-01 not responding, setting DOWN"]
    assert log_of == {
        0: ["Requeuing JobId=6", *lost],
        1: [lost[0], "Requeuing JobId=6 State=0x0", lost[1]],
        2: [lost[0], "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=6 uid 0", lost[1]],
    }


def test_a_log_that_begins_too_late_is_read_with_the_one_before_it_or_is_a_gap(
    slurm: FakeSlurm, tmp_path: Path
) -> None:
    slurm.accounting = [a_row("6", submit=T0, end=T0 + 60, State="FAILED")]
    log = tmp_path / "slurmctld.log"
    log.write_text(f"[{local(T0 + 50, 0)}] _job_complete: JobId=6 WEXITSTATUS 1\n")
    _, report = collected(slurm, controller_log=str(log), timezone="UTC")
    assert report.status is ReportStatus.PARTIAL and "controller_log begins at" in report.reason
    (tmp_path / "slurmctld.log.1").write_text(
        f"[{local(T0 - 9_000, 0)}] slurmctld version 22.05.8 started\n"
        f"[{local(T0 + 5, 0)}] error: Nodes gpu-01 not responding, setting DOWN\n"
    )
    observations, report = collected(slurm, controller_log=str(log), timezone="UTC")
    assert report.status is ReportStatus.OK
    assert "gpu-01 not responding" in bodies(observations)


def test_the_window_is_found_in_a_large_log_without_reading_it_all(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.accounting = [a_row("6", submit=T0, end=T0 + 60, State="FAILED")]
    log = tmp_path / "slurmctld.log"
    with log.open("w") as lines:
        for second in range(-60_000, 60_000):
            lines.write(
                f"[{local(T0 + second, 0)}] sched: Allocate JobId={second + 100_000} NodeList=x #CPUs=64 Partition=p\n"
            )
            if second == 30:
                lines.write(f"[{local(T0 + 30, 0)}] _job_complete: JobId=6 WTERMSIG 9\n")
    assert log.stat().st_size > 8 << 20, "more than the budget's four megabytes twice over"
    observations, report = collected(slurm, controller_log=str(log), timezone="UTC")
    assert "JobId=6 WTERMSIG 9" in bodies(observations)
    assert report.status is ReportStatus.OK, report.reason


def test_a_log_that_cannot_be_read_is_a_gap(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.accounting = [a_row("6", submit=T0, end=T0 + 60, State="FAILED")]
    observations, report = collected(slurm, controller_log=str(tmp_path / "none.log"))
    assert observations
    assert report.status is ReportStatus.PARTIAL and "No such file" in report.reason


def test_a_log_of_nonsense_is_no_evidence(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.accounting = [a_row("6", submit=T0, end=T0 + 60, State="FAILED")]
    log = tmp_path / "slurmctld.log"
    log.write_bytes(b"[2026-99-99T00:00:00.000] JobId=6\n" + b"\xff\x00" * 200_000 + b"\n[" * 1000)
    _, report = collected(slurm, controller_log=str(log), timezone="UTC")
    assert report.status is ReportStatus.OK


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="timezone: 'Mars/Olympus'"):
        SlurmRecords(name="slurm", timezone="Mars/Olympus").check()
    assert SlurmRecords(name="slurm").source is Source.SCHEDULER
