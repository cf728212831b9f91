"""Attempts of a Slurm cluster, look by look: nothing lost, nothing doubled, whatever is away in between."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rules.attempt import Attempt
from tests.verdicts.collectors.slurm_fake import FakeSlurm, a_live, a_row
from verdicts.collectors.ask import Budget, SourceError
from verdicts.collectors.slurm import SlurmDiscovery
from verdicts.collectors.source import Found

T0 = 1_796_000_000
DBD_AWAY = "sacct: error: Problem talking to the database: Connection refused\n"
CTL_AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"


class Looks:
    """Looks one after another, the way the pipeline makes them."""

    def __init__(self, slurm: FakeSlurm) -> None:
        self.slurm = slurm
        self.cursor: dict[str, Any] = {}
        self.options: dict[str, Any] = {}

    def at(self, moment: int) -> Found:
        """One look; the cursor goes on only when it did not fail."""
        discovery = SlurmDiscovery(name="slurm", commands=self.slurm.commands, **self.options)
        found = discovery.discover(
            self.cursor, datetime.fromtimestamp(moment, UTC), Budget.of(seconds=30, megabytes=16)
        )
        # What is remembered goes through the database as JSON.
        self.cursor = msgspec.json.decode(msgspec.json.encode(found.cursor))
        return found


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


@pytest.fixture
def looks(slurm: FakeSlurm) -> Looks:
    return Looks(slurm)


def at(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


def keys(found: Found) -> list[tuple[str, int, str | None]]:
    """The identities of what was found."""
    return [(a.job_id, a.restart_count, a.submit_time) for a in found.attempts]


def only(found: Found) -> Attempt:
    [attempt] = found.attempts
    return attempt


def test_a_running_job_is_told_once_and_its_end_once(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.accounting = [a_row("5", submit=T0, start=T0 + 3)]
    slurm.controller = [a_live(5, submit=T0, start=T0 + 3)]
    found = looks.at(T0 + 10)
    running = only(found)
    assert (running.job_id, running.state, running.end, running.nodes) == ("5", "RUNNING", None, ["gpu-01", "gpu-02"])
    assert (running.start, running.workload, running.user) == (at(T0 + 3), "train", "ada")
    assert found.listed == {"5"}
    assert not looks.at(T0 + 20).attempts
    slurm.accounting = [a_row("5", submit=T0, start=T0 + 3, end=T0 + 25, State="FAILED", ExitCode="13:0")]
    slurm.controller = []
    found = looks.at(T0 + 30)
    ended = only(found)
    assert (ended.state, ended.exit_code, ended.end, ended.signal) == ("FAILED", "13:0", at(T0 + 25), None)
    assert found.listed == frozenset()
    assert not looks.at(T0 + 40).attempts


def test_a_waiting_job_and_one_cancelled_before_it_began_are_no_attempts(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.accounting = [
        a_row("5", submit=T0, start="Unknown", State="PENDING", NodeList="None assigned"),
        a_row("6", submit=T0, start=T0 + 9, end=T0 + 9, State="CANCELLED by 1001", NodeList="None assigned"),
    ]
    slurm.controller = [a_live(5, submit=T0, job_state="PENDING", nodes="", start=T0 + 900)]
    found = looks.at(T0 + 10)
    assert not found.attempts
    assert found.listed == {"5"}


def test_each_requeue_is_an_attempt_of_its_own(slurm: FakeSlurm, looks: Looks) -> None:
    """As accounting of 22.05 has them: it does not say the restarts, the controller does of the last."""
    slurm.accounting = [
        a_row("6", submit=T0, end=T0 + 5, State="REQUEUED"),
        a_row("6", submit=T0 + 5, start=T0 + 33, end=T0 + 37, State="NODE_FAIL"),
        a_row("6", submit=T0 + 37, start=T0 + 39),
    ]
    slurm.controller = [a_live(6, submit=T0 + 37, start=T0 + 39, restart_cnt=2)]
    found = looks.at(T0 + 50)
    assert keys(found) == [("6", 0, at(T0)), ("6", 1, at(T0 + 5)), ("6", 2, at(T0 + 37))]
    assert [a.state for a in found.attempts] == ["REQUEUED", "NODE_FAIL", "RUNNING"]
    assert not slurm.calls("sacct")[2:], "the restarts were known without asking by id"


def test_an_attempt_that_was_requeued_at_once_may_have_no_start(slurm: FakeSlurm, looks: Looks) -> None:
    """As seen: the row has nodes and an end; its start never reached the database."""
    slurm.accounting = [a_row("3", submit=T0, start="None", end=T0 + 1, State="REQUEUED")]
    slurm.controller = [a_live(3, submit=T0 + 1, start=T0 + 7, restart_cnt=1)]
    found = looks.at(T0 + 10)
    assert keys(found) == [("3", 0, at(T0)), ("3", 1, at(T0 + 1))]
    assert found.attempts[0].start == at(T0)


def test_restarts_are_counted_from_the_beginning_where_only_the_last_is_in_the_window(
    slurm: FakeSlurm, looks: Looks
) -> None:
    slurm.accounting = [
        a_row("6", submit=T0 - 50_000, end=T0 - 20_000, State="REQUEUED"),
        a_row("6", submit=T0 - 20_000, end=T0 - 5, State="COMPLETED"),
    ]
    found = looks.at(T0)
    assert keys(found)[-1] == ("6", 1, at(T0 - 20_000))


def test_a_newer_accounting_says_the_restarts_itself(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.fields.append("Restarts")
    slurm.accounting = [a_row("6", submit=T0, end=T0 + 5, State="COMPLETED", Restarts=4)]
    assert keys(looks.at(T0 + 10)) == [("6", 4, at(T0))]


def test_a_reused_job_id_is_a_new_attempt_and_no_restart(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.accounting = [
        a_row("6", submit=T0, end=T0 + 5, State="FAILED"),
        a_row("6", submit=T0 + 2000, end=T0 + 2005, State="COMPLETED", JobName="other", User="eve"),
    ]
    looks.options = {"first_look": 86_400}
    found = looks.at(T0 + 2010)
    assert keys(found) == [("6", 0, at(T0)), ("6", 0, at(T0 + 2000))]
    assert [a.workload for a in found.attempts] == ["train", "other"]


def test_a_job_id_reused_within_a_minute_by_another_user_is_no_restart(slurm: FakeSlurm, looks: Looks) -> None:
    """A controller that lost its state begins at 1 again."""
    slurm.accounting = [
        a_row("1", submit=T0, end=T0 + 5, State="FAILED"),
        a_row("1", submit=T0 + 30, end=T0 + 35, State="COMPLETED", User="eve"),
    ]
    assert keys(looks.at(T0 + 40)) == [("1", 0, at(T0)), ("1", 0, at(T0 + 30))]


def test_tasks_of_an_array_are_attempts_and_what_waits_of_it_is_none(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.accounting = [
        a_row("7_0", submit=T0, end=T0 + 5, State="COMPLETED"),
        a_row("7_2", submit=T0, end=T0 + 6, State="FAILED", ExitCode="1:0"),
        a_row("7_[3-9%2]", submit=T0, start="Unknown", State="PENDING", NodeList="None assigned"),
    ]
    waiting = {"array_job_id": 7, "array_task_string": "3-9%2", "job_state": "PENDING", "nodes": ""}
    slurm.controller = [
        a_live(7, submit=T0, **waiting),
        a_live(8, submit=T0, end=T0 + 5, array_job_id=7, array_task_id=0, job_state="COMPLETED"),
    ]
    found = looks.at(T0 + 10)
    assert keys(found) == [("7_0", 0, at(T0)), ("7_2", 0, at(T0))]
    assert found.listed == {"7_[3-9%2]"}


def test_a_heterogeneous_job_is_one_attempt_with_all_its_nodes(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.accounting = [
        a_row("8+0", submit=T0, end=T0 + 30, State="COMPLETED", NodeList="cpu-1"),
        a_row("8+1", submit=T0, end=T0 + 31, State="FAILED", ExitCode="1:0", NodeList="gpu-[01-02]"),
    ]
    found = only(looks.at(T0 + 40))
    assert (found.job_id, found.nodes) == ("8", ["cpu-1", "gpu-01", "gpu-02"])
    assert (found.state, found.exit_code, found.end) == ("FAILED", "1:0", at(T0 + 31))


def test_a_component_that_ended_long_before_still_counts(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.accounting = [
        a_row("8+0", submit=T0, end=T0 + 30_000, State="COMPLETED", NodeList="cpu-1"),
        a_row("8+1", submit=T0, end=T0 + 5, State="COMPLETED", NodeList="gpu-01"),
    ]
    assert only(looks.at(T0 + 30_010)).nodes == ["cpu-1", "gpu-01"]


def test_a_requeue_that_is_under_way_is_not_counted_yet(slurm: FakeSlurm, looks: Looks) -> None:
    """As seen: while nodes are cleaned up the controller has the next restart count with the last submission's time."""
    slurm.controller = [a_live(2, submit=T0)]
    slurm.accounting = [a_row("2", submit=T0)]
    looks.at(T0 + 1)
    slurm.controller = [a_live(2, submit=T0 + 5, start=T0 + 11, job_state="COMPLETING", restart_cnt=2)]
    slurm.accounting = [
        a_row("2", submit=T0, end=T0 + 4, State="REQUEUED"),
        a_row("2", submit=T0 + 5, start=T0 + 11, end=T0 + 12, State="REQUEUED"),
    ]
    assert keys(looks.at(T0 + 12)) == [("2", 0, at(T0)), ("2", 1, at(T0 + 5))]
    slurm.controller = [a_live(2, submit=T0 + 12, start=T0 + 18, restart_cnt=2)]
    slurm.accounting.append(a_row("2", submit=T0 + 12, start=T0 + 18))
    assert keys(looks.at(T0 + 20)) == [("2", 2, at(T0 + 12))]


def test_what_the_controller_knows_stays_when_older_submissions_are_asked_for(slurm: FakeSlurm, looks: Looks) -> None:
    """The restart count and the whole exit code, which accounting has not."""
    slurm.accounting = [
        a_row("8+0", submit=T0, end=T0 + 30, State="FAILED", ExitCode="9:0", NodeList="n0"),
        a_row("8+1", submit=T0, end=T0 + 30, State="FAILED", ExitCode="9:0", NodeList="n1"),
    ]
    slurm.controller = [
        a_live(8 + part, submit=T0, end=T0 + 30, het_job_id=8, het_job_offset=part, nodes=f"n{part}", restart_cnt=3,
               job_state="FAILED", exit_code=137 << 8)
        for part in (0, 1)
    ]  # fmt: skip
    found = only(looks.at(T0 + 40))
    assert (found.job_id, found.restart_count, found.exit_code) == ("8", 3, "137:0")
    assert any("--jobs=8" in call for call in slurm.calls("sacct"))


def test_the_controller_knows_the_exit_code_that_accounting_cuts(slurm: FakeSlurm, looks: Looks) -> None:
    """`exit 137`: 9:0 in accounting, 137 << 8 at the controller."""
    slurm.accounting = [a_row("4", submit=T0, end=T0 + 5, State="FAILED", ExitCode="9:0")]
    slurm.controller = [a_live(4, submit=T0, end=T0 + 5, job_state="FAILED", exit_code=137 << 8)]
    assert only(looks.at(T0 + 10)).exit_code == "137:0"


def test_a_job_that_is_being_cleaned_up_has_ended_where_accounting_says_so(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.accounting = [a_row("4", submit=T0, end=T0 + 5, State="FAILED", ExitCode="9:0")]
    slurm.controller = [a_live(4, submit=T0, job_state="COMPLETING", exit_code=137 << 8)]
    found = looks.at(T0 + 10)
    assert (only(found).state, only(found).exit_code) == ("FAILED", "137:0")
    assert found.listed == {"4"}


def test_rows_that_accounting_gets_late_are_found(slurm: FakeSlurm, looks: Looks) -> None:
    looks.at(T0)
    looks.at(T0 + 300)
    slurm.accounting = [a_row("4", submit=T0 + 10, end=T0 + 20, State="FAILED")]
    assert keys(looks.at(T0 + 310)) == [("4", 0, at(T0 + 10))]
    assert not looks.at(T0 + 320).attempts


@pytest.mark.parametrize("ahead", [-3_000, 5_000])
def test_a_clock_of_ours_that_is_wrong_loses_nothing(slurm: FakeSlurm, looks: Looks, ahead: int) -> None:
    looks.options = {"first_look": 86_400}
    slurm.accounting = [a_row("4", submit=T0, end=T0 + 5, State="FAILED")]
    looks.at(T0 + 10 + ahead)
    slurm.accounting.append(a_row("5", submit=T0 + 11, end=T0 + 15, State="FAILED"))
    assert keys(looks.at(T0 + 20 + ahead)) == [("5", 0, at(T0 + 11))]


def test_an_end_that_accounting_gets_later_than_the_overlap_is_asked_for_by_id(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.accounting = [a_row("4", submit=T0)]
    slurm.controller = [a_live(4, submit=T0)]
    looks.at(T0 + 10)
    slurm.accounting, slurm.controller = [], []
    looks.slurm.away = {"sacct": DBD_AWAY}
    looks.at(T0 + 5_000)
    looks.slurm.away = {}
    slurm.accounting = [a_row("4", submit=T0, end=T0 + 20, State="FAILED")]
    assert only(looks.at(T0 + 9_000)).end == at(T0 + 20)


def test_accounting_away_goes_on_with_the_controller_and_says_so(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.away = {"sacct": DBD_AWAY}
    slurm.controller = [
        a_live(4, submit=T0),
        a_live(3, submit=T0 - 9, end=T0, job_state="FAILED", exit_code=256, state_reason="NonZeroExitCode"),
    ]
    found = looks.at(T0 + 10)
    assert [(a.job_id, a.state, a.exit_code) for a in found.attempts] == [
        ("3", "FAILED", "1:0"),
        ("4", "RUNNING", None),
    ]
    assert "accounting did not answer" in " ".join(found.notes)
    assert found.listed == {"4"}


def test_what_happened_while_accounting_was_away_is_found_when_it_is_back(slurm: FakeSlurm, looks: Looks) -> None:
    """Even where its rows come minutes after it answers again: the controller sends them one after another."""
    looks.at(T0)
    slurm.away = {"sacct": DBD_AWAY}
    looks.at(T0 + 100)
    looks.at(T0 + 7_200)
    slurm.away = {}
    slurm.accounting = [a_row("4", submit=T0 + 200, end=T0 + 300, State="FAILED")]
    assert keys(looks.at(T0 + 7_210)) == [("4", 0, at(T0 + 200))]
    slurm.accounting.append(a_row("5", submit=T0 + 400, end=T0 + 500, State="TIMEOUT"))
    assert keys(looks.at(T0 + 7_300)) == [("5", 0, at(T0 + 400))]
    assert "outage" in looks.cursor
    looks.at(T0 + 8_000)
    assert "outage" not in looks.cursor


def test_a_requeue_seen_by_the_controller_alone_ends_the_attempt_before(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.away = {"sacct": DBD_AWAY}
    slurm.controller = [a_live(4, submit=T0)]
    looks.at(T0 + 10)
    slurm.controller = [a_live(4, submit=T0 + 20, start=T0 + 26, restart_cnt=1)]
    found = looks.at(T0 + 30)
    assert sorted(keys(found)) == [("4", 0, at(T0)), ("4", 1, at(T0 + 20))]
    before = next(a for a in found.attempts if a.restart_count == 0)
    assert (before.end, before.state, before.nodes) == (at(T0 + 20), "", [])
    assert "not known without accounting" in before.reason
    assert not looks.at(T0 + 40).attempts
    slurm.away = {}
    slurm.accounting = [
        a_row("4", submit=T0, end=T0 + 20, State="NODE_FAIL"),
        a_row("4", submit=T0 + 20, start=T0 + 26),
    ]
    after = looks.at(T0 + 50)
    assert [(a.restart_count, a.state) for a in after.attempts] == [(0, "NODE_FAIL")]


def test_the_controller_away_means_that_nothing_is_known_of_what_runs(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.away = {"squeue": CTL_AWAY}
    slurm.accounting = [a_row("4", submit=T0)]
    found = looks.at(T0 + 10)
    assert found.listed is None
    assert keys(found) == [("4", 0, at(T0))]
    assert "what it still runs is not known" in " ".join(found.notes)


def test_both_away_is_an_error_and_nothing_is_lost_or_doubled_after_it(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.accounting = [a_row("4", submit=T0)]
    slurm.controller = [a_live(4, submit=T0)]
    first = keys(looks.at(T0 + 10))
    before = looks.cursor
    slurm.away = {"sacct": DBD_AWAY, "squeue": CTL_AWAY}
    with pytest.raises(SourceError, match="Unable to contact slurm controller"):
        looks.at(T0 + 20)
    assert looks.cursor == before
    slurm.away = {}
    slurm.controller = []
    slurm.accounting = [
        a_row("4", submit=T0, end=T0 + 25, State="NODE_FAIL"),
        a_row("5", submit=T0 + 11, end=T0 + 100, State="COMPLETED"),
    ]
    found = looks.at(T0 + 7_200)
    assert keys(found) == [*first, ("5", 0, at(T0 + 11))]
    assert not looks.at(T0 + 7_210).attempts


def test_an_empty_cursor_tells_the_same_identities_again(slurm: FakeSlurm, looks: Looks) -> None:
    """A lost cursor doubles nothing: the store knows these attempts."""
    slurm.accounting = [
        a_row("6", submit=T0, end=T0 + 5, State="REQUEUED"),
        a_row("6", submit=T0 + 5, start=T0 + 33),
    ]
    slurm.controller = [a_live(6, submit=T0 + 5, start=T0 + 33, restart_cnt=1)]
    first = keys(looks.at(T0 + 40))
    looks.cursor, slurm.controller = {}, []
    slurm.accounting[1] |= {"End": T0 + 50, "State": "COMPLETED"}
    assert keys(looks.at(T0 + 400)) == first


def test_a_cluster_without_accounting_is_read_from_the_controller(slurm: FakeSlurm, looks: Looks) -> None:
    looks.options = {"accounting": False}
    slurm.controller = [a_live(4, submit=T0, end=T0 + 5, job_state="TIMEOUT", state_reason="TimeLimit")]
    found = looks.at(T0 + 10)
    assert (only(found).state, only(found).reason) == ("TIMEOUT", "TimeLimit")
    assert not found.notes and not slurm.calls("sacct")


def test_attempts_know_which_of_their_nodes_share_a_switch(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.topology = (
        "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu-[01,03] \n"
        "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=gpu-[02,04-99]\n"
        "SwitchName=bad Level=0 LinkSpeed=1 Nodes=n[1-99999999]\n"
        "SwitchName=spine Level=1 LinkSpeed=1 Nodes=gpu-[01-99] Switches=leaf[1-2]\n"
    )
    slurm.accounting = [a_row("5", submit=T0), a_row("6", submit=T0, NodeList="gpu-01")]
    told = {a.job_id: a.topology for a in looks.at(T0 + 10).attempts}
    assert told == {"5": {"switch": {"leaf1": ["gpu-01"], "leaf2": ["gpu-02"]}}, "6": {}}
    assert len([call for call in slurm.calls("scontrol") if "topology" in call]) == 1


def test_a_topology_that_is_not_to_be_had_is_told_and_hinders_nothing(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.away = {"scontrol": "scontrol: error: no topology here"}
    slurm.accounting = [a_row("5", submit=T0)]
    found = looks.at(T0 + 10)
    assert keys(found) == [("5", 0, at(T0))]
    assert "which nodes share a switch is not known" in " ".join(found.notes)
    looks.options = {"topology": False}
    slurm.accounting.append(a_row("6", submit=T0))
    assert not looks.at(T0 + 20).notes


def test_only_the_partitions_and_accounts_asked_for(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.accounting = [
        a_row("4", submit=T0, Partition="cpu"),
        a_row("5", submit=T0, Partition="train"),
        a_row("6", submit=T0, Account="other"),
    ]
    looks.options = {"partitions": ["train"], "accounts": ["research"]}
    assert keys(looks.at(T0 + 10)) == [("5", 0, at(T0))]


def test_one_accounting_for_several_clusters_wants_to_be_told_which_is_ours(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.away = {"squeue": CTL_AWAY}
    slurm.accounting = [a_row("4", submit=T0), a_row("5", submit=T0, Cluster="other")]
    with pytest.raises(SourceError):
        looks.at(T0 + 10)
    looks.options = {"slurm_cluster": "other"}
    assert keys(looks.at(T0 + 10)) == [("5", 0, at(T0))]
    assert "--clusters=other" in slurm.calls("sacct")[-1]


def test_a_long_outage_is_caught_up_with_piece_by_piece(slurm: FakeSlurm, looks: Looks) -> None:
    looks.at(T0)
    slurm.accounting = [
        a_row(str(n), submit=T0 + n * 3600, end=T0 + n * 3600 + 9, State="FAILED") for n in range(1, 30)
    ]
    assert len(looks.at(T0 + 30 * 3600).attempts) == 29
    windows = [call for call in slurm.calls("sacct") if any(option.startswith("--endtime") for option in call)]
    assert len(windows) > 5


def test_a_zone_gives_the_offset_at_the_time_of_the_attempt(slurm: FakeSlurm, looks: Looks) -> None:
    looks.options = {"timezone": "Europe/Berlin"}
    slurm.accounting = [a_row("4", submit=T0)]
    assert only(looks.at(T0 + 10)).utc_offset == "+01:00"


def test_a_name_cannot_end_a_field_or_forge_a_state(slurm: FakeSlurm, looks: Looks) -> None:
    name = "x|TIMEOUT|\n5|evil\x1fJobState=FAILED"
    slurm.accounting = [a_row("4", submit=T0, JobName=name, Comment="a\nb\x1f")]
    found = only(looks.at(T0 + 10))
    assert (found.job_id, found.state) == ("4", "RUNNING")
    assert not set("|\n\x1f") & set(found.workload)


def test_a_host_list_of_millions_is_refused_and_the_others_are_told(slurm: FakeSlurm, looks: Looks) -> None:
    slurm.accounting = [
        a_row("4", submit=T0, NodeList="n[1-9999999]"),
        a_row("5", submit=T0, NodeList="a[1-999]b[1-999]c[1-999]"),
        a_row("6", submit=T0),
    ]
    found = looks.at(T0 + 10)
    assert keys(found) == [("6", 0, at(T0))]
    assert sum("nodes cannot be read" in said for said in found.notes) == 2
