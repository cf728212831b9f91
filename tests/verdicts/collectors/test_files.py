"""Evidence in files: whose they are, what of them is read, and what a hostile or broken file system can do."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from rules.attempt import Attempt, CollectorReport
from rules.observation import Observation
from rules.ruleset import load_ruleset
from rules.words import ReportStatus, Source
from verdicts.collectors import files_guard
from verdicts.collectors.ask import Ask, Budget, BudgetSpent, SourceError, Unreachable
from verdicts.collectors.files import Files
from verdicts.collectors.files_guard import Guard
from verdicts.collectors.files_paths import Pattern
from verdicts.collectors.labels import Nodes
from verdicts.collectors.sink import Sink

BEGIN = datetime(2026, 11, 3, 1, 0, tzinfo=UTC)
END = datetime(2026, 11, 3, 3, 0, tzinfo=UTC)
NODES = ("gpu-017", "gpu-018")


catalogue = cache(load_ruleset)


def xid(minutes: int = 71, node: str = "gpu-017", number: int = 79) -> str:
    at = (BEGIN + timedelta(minutes=minutes)).isoformat()
    return f"{at} {node} kernel: NVRM: Xid (PCI:0000:65:00): {number}, pid=0, GPU has fallen off the bus."


def write(path: Path, *lines: str, mtime: datetime | None = END) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in lines).encode()
    packed = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}.get(path.suffix, bytes)
    path.write_bytes(packed(text))
    if mtime is not None:
        os.utime(path, (mtime.timestamp(), mtime.timestamp()))
    return path


def collect(
    root: Path,
    *paths: str,
    source: Source = Source.SYSLOG,
    attempt: dict[str, Any] | None = None,
    budget: Budget | None = None,
    begin: datetime = BEGIN,
    end: datetime = END,
    **more: Any,
) -> tuple[list[Observation], CollectorReport]:
    settings = Files(name="logs", source=source, root=str(root), paths=list(paths), **more)
    settings.check()
    given_attempt = Attempt(**{"job_id": "123", "nodes": list(NODES), **(attempt or {})})
    ruleset = catalogue()
    sink = Sink(collector="logs", source=source, ruleset=ruleset)
    error = None
    ask = Ask("a", given_attempt, begin, end, NODES, budget or Budget.of(seconds=20, megabytes=64), ruleset)
    try:
        settings.collect(ask, sink)
    except SourceError as raised:
        error = raised
    return sink.close(error)


def refs(observations: list[Observation]) -> list[str]:
    return sorted(f"{one.ref} {one.node}" for one in observations)


class TestWhoseFilesTheyAre:
    def test_a_node_in_a_name_is_the_node_of_its_lines(self, tmp_path: Path) -> None:
        for node in (*NODES, "gpu-099"):
            write(tmp_path / node / "messages", xid(node=node))
        observations, report = collect(tmp_path, "{node}/messages")
        assert refs(observations) == ["logs/gpu-017/messages:1 gpu-017", "logs/gpu-018/messages:1 gpu-018"]
        assert report.status is ReportStatus.OK

    def test_a_name_with_a_domain_is_the_node_too(self, tmp_path: Path) -> None:
        write(tmp_path / "gpu-017.cluster.example.log", xid())
        observations, _ = collect(tmp_path, "{node}.log")
        assert [one.node for one in observations] == ["gpu-017"]

    def test_a_number_at_the_end_of_a_nodes_name_is_no_rotation(self, tmp_path: Path) -> None:
        write(tmp_path / "gpu-017", xid())
        write(tmp_path / "gpu-017.1.gz", xid(5), mtime=BEGIN + timedelta(minutes=9))
        write(tmp_path / "gpu-018-20261103", xid(5), mtime=BEGIN + timedelta(minutes=9))
        observations, _ = collect(tmp_path, "{node}")
        assert [one.node for one in observations] == ["gpu-017", "gpu-017", "gpu-018"]

    def test_ranks_stand_in_names(self, tmp_path: Path) -> None:
        write(tmp_path / "run" / "nccl.3.log", "gpu-018:1:2 [0] NCCL WARN Cuda failure 'out of memory'", mtime=None)
        observations, _ = collect(tmp_path, "run/nccl.{rank}.log", source=Source.APPLOG)
        assert {one.rank for one in observations} == {3}

    def test_the_attempts_words_find_its_own_files(self, tmp_path: Path) -> None:
        for name in ("ann/pre-123-1.out", "ann/pre-123-0.out", "bob/pre-123-1.out", "ann/pre-1234-1.out"):
            write(tmp_path / "a" / name, xid())
        given_attempt = {"workload": "pre", "user": "ann", "restart_count": 1}
        observations, _ = collect(tmp_path, "{cluster}/{user}/{job_name}-{job_id}-{restart}.out", attempt=given_attempt)
        assert [one.ref for one in observations] == ["logs/a/ann/pre-123-1.out:1"]

    def test_stars_stay_in_one_folder_and_two_stars_do_not(self, tmp_path: Path) -> None:
        write(tmp_path / "x" / "y" / "a.log", xid())
        write(tmp_path / "b.log", xid())
        write(tmp_path / ".hidden" / "c.log", xid())
        assert len(collect(tmp_path, "*.log")[0]) == 1
        assert len(collect(tmp_path, "**/*.log")[0]) == 2

    def test_a_file_that_matches_twice_is_read_once(self, tmp_path: Path) -> None:
        write(tmp_path / "a.log", xid())
        (tmp_path / "b.log").hardlink_to(tmp_path / "a.log")
        (tmp_path / "up").symlink_to(tmp_path)
        assert collect(tmp_path, "a.log", "*.log", "**/*.log", "up/*.log")[1].read == 1

    def test_nothing_that_matches_is_empty_and_says_what_was_looked_for(self, tmp_path: Path) -> None:
        _, report = collect(tmp_path, "{node}/messages")
        assert report.status is ReportStatus.EMPTY
        assert "{node}/messages" in report.reason


class TestHostileNames:
    @pytest.mark.parametrize("name", ["../secret", "a/b", "/etc", "x\0y"])
    def test_a_job_name_cannot_leave_the_folder(self, tmp_path: Path, name: str) -> None:
        write(tmp_path / "secret", xid())
        write(tmp_path / "logs" / "a" / "b.out", xid())
        observations, report = collect(tmp_path / "logs", "{job_name}.out", attempt={"workload": name})
        assert observations == []
        assert report.status is ReportStatus.ERROR and "job_name holds a /" in report.reason

    @pytest.mark.parametrize("name", ["..", "."])
    def test_a_job_name_is_no_step_up(self, tmp_path: Path, name: str) -> None:
        write(tmp_path / "out", xid())
        (tmp_path / "logs").mkdir()
        _, report = collect(tmp_path / "logs", "{job_name}/out", attempt={"workload": name})
        assert report.status is ReportStatus.ERROR and f"would be {name}" in report.reason

    def test_wildcards_in_a_job_name_mean_themselves(self, tmp_path: Path) -> None:
        write(tmp_path / "other.out", xid())
        write(tmp_path / "*.out", xid())
        write(tmp_path / "[o]ther(?).out", xid())
        assert [o.ref for o in collect(tmp_path, "{job_name}.out", attempt={"workload": "*"})[0]] == ["logs/*.out:1"]
        assert len(collect(tmp_path, "{job_name}.out", attempt={"workload": "[o]ther(?)"})[0]) == 1
        assert len(collect(tmp_path, "{job_name}.out", attempt={"workload": "{user}"})[0]) == 0

    def test_an_attempt_without_the_word_is_a_gap(self, tmp_path: Path) -> None:
        _, report = collect(tmp_path, "{user}.out")
        assert "the attempt has no user" in report.reason

    def test_a_link_that_leads_out_is_not_followed(self, tmp_path: Path) -> None:
        write(tmp_path / "secret" / "x.log", xid())
        root = tmp_path / "logs"
        root.mkdir()
        (root / "a.log").symlink_to(tmp_path / "secret" / "x.log")
        (root / "folder").symlink_to(tmp_path / "secret")
        (root / "inside.log").symlink_to(write(root / "real" / "y.txt", xid()))
        (root / "loop").symlink_to(root / "loop")
        observations, report = collect(root, "*.log", "folder/*.log", "loop/*.log")
        assert [one.ref for one in observations] == ["logs/inside.log:1"]
        assert report.status is ReportStatus.PARTIAL and "leads out of" in report.reason

    def test_a_folder_whose_name_begins_alike_is_outside(self, tmp_path: Path) -> None:
        write(tmp_path / "logs-private" / "x.log", xid())
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "a.log").symlink_to(tmp_path / "logs-private" / "x.log")
        assert collect(tmp_path / "logs", "*.log")[0] == []

    def test_a_link_put_there_between_the_look_and_the_opening_is_seen(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        secret = write(tmp_path / "secret.log", xid())
        path = write(tmp_path / "logs" / "a" / "x.log", xid())
        real = os.open

        def exchanged(name: Any, *flags: int) -> int:
            if str(name) == str(path):
                (path.parent).rename(tmp_path / "logs" / "b")
                (tmp_path / "elsewhere").mkdir()
                secret.rename(tmp_path / "elsewhere" / "x.log")
                path.parent.symlink_to(tmp_path / "elsewhere")
            return real(name, *flags)

        monkeypatch.setattr(os, "open", exchanged)
        observations, report = collect(tmp_path / "logs", "a/x.log")
        assert observations == []
        assert "leads out of" in report.reason

    def test_bytes_that_are_no_text_in_a_name_reach_no_reference(self, tmp_path: Path) -> None:
        folder = os.fsencode(tmp_path)
        Path(os.fsdecode(folder + b"/bad\xff\n\x1b[31m.log")).write_text(xid() + "\n")
        (observation,), _ = collect(tmp_path, "*.log")
        assert observation.ref.isprintable() and observation.ref.encode()

    @given(st.text(min_size=1, max_size=12))
    def test_any_word_names_one_part_or_is_refused(self, tmp_path_factory: pytest.TempPathFactory, word: str) -> None:
        pattern = Pattern("x-{job_name}.out", {"job_name": word}, Nodes(()), False)
        try:
            (part,) = pattern.parts
        except ValueError:
            assert "/" in word or "\0" in word
            return
        assert part is not None and part.name == f"x-{word}.out" and part.names.fullmatch(part.name)
        assert not part.names.fullmatch("x-other-name.out")


class TestSettings:
    @pytest.mark.parametrize(
        ("path", "said"),
        [
            ("/var/log/x", "begin"),
            ("a/../b", r"\.\."),
            ("a//b", "empty"),
            ("{nodes}.log", "none of"),
            ("a/**", "name the"),
        ],
    )
    def test_patterns_that_cannot_work_are_refused(self, tmp_path: Path, path: str, said: str) -> None:
        with pytest.raises(ValueError, match=f"paths: .*{said}"):
            Files(name="x", source=Source.SYSLOG, root=str(tmp_path), paths=[path]).check()


class TestWhatIsRead:
    @pytest.mark.parametrize("name", ["messages.gz", "messages.zst", "messages"])
    def test_packed_files_are_read(self, tmp_path: Path, name: str) -> None:
        write(tmp_path / name, "noise", xid())
        observations, report = collect(tmp_path, name, rotated=False)
        assert [one.ref for one in observations] == [f"logs/{name}:2"]
        assert (report.status, report.read) == (ReportStatus.OK, 2)

    def test_only_the_windows_part_is_read_and_lines_without_a_time_go_with_the_one_before(
        self, tmp_path: Path
    ) -> None:
        write(
            tmp_path / "messages",
            xid(-300),
            "NVRM: Xid (PCI:0000:01:00): 79, of the old line",
            xid(1, number=48),
            "NVRM: Xid (PCI:0000:02:00): 79, of the first line",
            xid(119, number=94),
            "NVRM: Xid (PCI:0000:03:00): 79, of the last line",
            xid(300),
            "NVRM: Xid (PCI:0000:04:00): 79, of a later line",
        )
        observations, report = collect(tmp_path, "messages")
        assert sorted(int(one.ref.rpartition(":")[2]) for one in observations) == [3, 4, 5, 6]
        assert report.read == 4

    def test_lines_without_any_time_are_all_kept(self, tmp_path: Path) -> None:
        write(tmp_path / "train.out", "step 1", "[4711.000000] NVRM: Xid (PCI:0000:65:00): 79, pid=0", "step 3")
        observations, report = collect(tmp_path, "train.out")
        assert report.read == 3 and len(observations) >= 1

    def test_times_without_a_zone_are_cut_generously(self, tmp_path: Path) -> None:
        line = "Nov  {} {:02d}:00:00 gpu-017 kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=0"
        write(tmp_path / "messages", line.format(1, 2), line.format(2, 20), line.format(3, 2), line.format(5, 2))
        assert collect(tmp_path, "messages")[1].read == 2
        assert collect(tmp_path, "messages", utc_offset="Z")[1].read == 1

    def test_a_large_log_is_searched_for_the_window(self, tmp_path: Path) -> None:
        path = tmp_path / "messages"
        with path.open("w") as out:
            for second in range(-86_400, 86_400, 2):
                at = (BEGIN + timedelta(seconds=second)).isoformat()
                out.write(
                    f"{at} gpu-017 systemd[1]: Started Session {second} of User somebody who does things a lot {'x' * 90}.\n"
                )
                if second == 4_000:
                    out.write(xid() + "\n")
        budget = Budget.of(seconds=20, megabytes=8)
        (observation,), report = collect(tmp_path, "messages", budget=budget)
        assert report.status is ReportStatus.OK and 3_600 <= report.read <= 3_602
        name, _, line = observation.ref.rpartition(":")
        start = int(name.rpartition("@")[2])
        with path.open("rb") as file:
            file.seek(start)
            file.readline()
            assert [file.readline() for _ in range(int(line))][-1].decode().strip() == observation.body

    def test_of_a_part_that_is_too_long_the_beginning_and_the_end_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "train.out"
        with path.open("w") as out:
            out.write("NVRM: Xid (PCI:0000:01:00): 79, pid=0\n" + "step and step\n" * 2_000_000)
            out.write("NVRM: Xid (PCI:0000:02:00): 79, pid=0\n")
        observations, report = collect(tmp_path, "train.out", budget=Budget.of(seconds=20, megabytes=6))
        assert report.status is ReportStatus.PARTIAL
        assert "26 MiB; its first 1 MiB and its last 5 MiB were read" in report.reason
        assert len([one for one in observations if "Xid" in one.body]) == 2

    def test_ten_gigabytes_of_nothing_end_soon(self, tmp_path: Path) -> None:
        path = write(tmp_path / "messages", xid(), mtime=None)
        os.truncate(path, 10 << 30)
        write(tmp_path / "messages.txt", xid())
        observations, report = collect(tmp_path, "messages", "messages.txt", rotated=False)
        assert report.status is ReportStatus.PARTIAL and report.bytes < 70 << 20
        assert "logs/messages.txt:1" in [one.ref for one in observations]

    def test_a_packed_bomb_ends(self, tmp_path: Path) -> None:
        with gzip.open(tmp_path / "messages.gz", "wb", compresslevel=1) as out:
            for _ in range(300):
                out.write(b"a line of nothing at all\n" * 40_000)
        write(tmp_path / "z.log", xid())
        observations, report = collect(tmp_path, "messages.gz", "z.log", budget=Budget.of(seconds=60, megabytes=16))
        assert report.status is ReportStatus.PARTIAL and "unpacked; the rest was not read" in report.reason
        assert len(observations) == 1

    def test_damaged_and_binary_files_are_named_and_the_others_are_read(self, tmp_path: Path) -> None:
        write(tmp_path / "a.gz", *[xid()] * 3_000)
        (tmp_path / "a.gz").write_bytes((tmp_path / "a.gz").read_bytes()[:-20])
        (tmp_path / "core.log").write_bytes(bytes(range(256)) * 40)
        write(tmp_path / "b.log", xid())
        observations, report = collect(tmp_path, "a.gz", "*.log", rotated=False)
        assert report.status is ReportStatus.PARTIAL
        assert "a.gz: the packed data is damaged" in report.reason and "core.log: a binary file" in report.reason
        assert "logs/b.log:1" in [one.ref for one in observations]

    def test_a_file_that_grows_is_read_to_where_it_was(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path / "messages", xid(), mtime=None)
        real = Guard.read

        def growing(self: Guard, *rest: Any) -> bytes:
            with path.open("a") as out:
                out.write(xid() + "\n")
            return real(self, *rest)

        monkeypatch.setattr(Guard, "read", growing)
        assert collect(tmp_path, "messages")[1].read == 1

    def test_a_file_that_is_truncated_while_it_is_read_is_said(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(tmp_path / "messages", xid(), mtime=None)
        real = Guard.read

        def shrinking(self: Guard, *rest: Any) -> bytes:
            os.truncate(path, 0)
            return real(self, *rest)

        monkeypatch.setattr(Guard, "read", shrinking)
        _, report = collect(tmp_path, "messages")
        assert "became shorter while it was read" in report.reason

    def test_journald_in_both_forms(self, tmp_path: Path) -> None:
        micros = round((BEGIN + timedelta(hours=1)).timestamp() * 1_000_000)
        message = "NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus."
        record = {"__REALTIME_TIMESTAMP": str(micros), "_HOSTNAME": "gpu-017", "MESSAGE": message}
        write(tmp_path / "j.json", json.dumps({**record, "__REALTIME_TIMESTAMP": "1"}), json.dumps(record))
        head = f"__CURSOR=x\n__REALTIME_TIMESTAMP={micros}\n_HOSTNAME=gpu-017\n".encode()
        data = message.encode() + b"\nand more"
        (tmp_path / "j.export").write_bytes(head + b"MESSAGE\n" + len(data).to_bytes(8, "little") + data + b"\n\n")
        observations, report = collect(tmp_path, "j.*", rotated=False)
        assert refs(observations) == ["logs/j.export:7 ", "logs/j.json:2 "], report

    def test_a_flight_recorders_dump_is_read(self, tmp_path: Path) -> None:
        dump = {
            "pg_config": {"0": {"desc": "default_pg", "ranks": "[0, 1]"}},
            "pg_status": {"0": {"last_enqueued_collective": 7}},
            "entries": [],
        }
        (tmp_path / "nccl_trace_rank_1").write_bytes(pickle.dumps(dump))
        (observation,), report = collect(tmp_path, "nccl_trace_rank_{rank}", source=Source.PROGRESS, rotated=False)
        assert (observation.rank, observation.ref) == (1, "logs/nccl_trace_rank_1:1")
        assert report.status is ReportStatus.OK


class TestRotation:
    def test_what_was_rotated_away_belongs_to_the_log_and_is_read_once(self, tmp_path: Path) -> None:
        write(tmp_path / "messages", xid(100))
        write(tmp_path / "messages.1", xid(50), mtime=BEGIN + timedelta(minutes=60))
        write(tmp_path / "messages-20261103.gz", xid(10), mtime=BEGIN + timedelta(minutes=20))
        write(tmp_path / "messages.2.gz", xid(-600), mtime=BEGIN - timedelta(hours=5))
        write(tmp_path / "messages.old", xid(20))
        write(tmp_path / "messages.3.xz", xid(30))
        observations, report = collect(tmp_path, "messages")
        assert [one.ref for one in observations] == [
            "logs/messages-20261103.gz:1",
            "logs/messages.1:1",
            "logs/messages:1",
        ]
        assert "1 rotated file ended before the window" in report.reason
        assert "messages.3.xz: packed in a way that is not read" in report.reason

    def test_where_it_cannot_be_seen_what_was_rotated_away_it_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path / "messages", xid(100))
        listing, looks = Guard.listing, []

        def gone(self: Guard, *args: Any, **more: Any) -> Any:
            looks.append(args)
            if len(looks) > 1:
                raise OSError(5, "Input/output error")
            return listing(self, *args, **more)

        monkeypatch.setattr(Guard, "listing", gone)
        observations, report = collect(tmp_path, "messages")
        assert len(observations) == 1 and report.status is ReportStatus.PARTIAL
        assert "messages: what was rotated away from it: " in report.reason

    def test_a_log_that_is_just_being_packed_is_read_once(self, tmp_path: Path) -> None:
        write(tmp_path / "messages.1", xid(50))
        write(tmp_path / "messages.1.gz", xid(50))
        assert collect(tmp_path, "messages")[1].read == 1

    def test_a_rotation_between_look_and_opening_loses_and_doubles_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path / "messages", xid(100))
        write(tmp_path / "messages.1", xid(50), mtime=BEGIN + timedelta(minutes=60))
        real = Guard.open
        done: list[int] = []

        def rotating(self: Guard, path: Path) -> Any:
            if not done:
                done.append(1)
                (tmp_path / "messages.1").rename(tmp_path / "messages.2")
                (tmp_path / "messages").rename(tmp_path / "messages.1")
                write(tmp_path / "messages", xid(110))
            return real(self, path)

        monkeypatch.setattr(Guard, "open", rotating)
        observations, report = collect(tmp_path, "messages")
        minutes = sorted(one.body[14:16] for one in observations)
        assert minutes == ["40", "50", "50"] and report.read == 3  # 02:40, 01:50, 02:50


class TestBrokenFileSystems:
    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
    def test_a_file_that_may_not_be_read_says_what_to_do(self, tmp_path: Path) -> None:
        write(tmp_path / "messages", xid()).chmod(0)
        assert "let the user that runs the workers read it" in collect(tmp_path, "messages")[1].reason

    def test_a_refusal_says_what_to_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path / "a.log", xid())
        write(tmp_path / "b.log", xid())
        real = os.open

        def refusing(name: Any, *flags: int) -> int:
            if str(name).endswith("a.log"):
                raise PermissionError(13, "Permission denied")
            return real(name, *flags)

        monkeypatch.setattr(os, "open", refusing)
        observations, report = collect(tmp_path, "*.log")
        assert report.status is ReportStatus.PARTIAL and len(observations) == 1
        assert report.reason == (
            "a.log: permission denied: let the user that runs the workers read it (a group such as adm, or an ACL)"
        )

    def test_a_pipe_does_not_hold_it_up(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.log")
        write(tmp_path / "b.log", xid())
        observations, report = collect(tmp_path, "*.log")
        assert len(observations) == 1 and report.reason == "pipe.log: not a regular file"

    def test_a_root_that_is_not_there_is_an_error(self, tmp_path: Path) -> None:
        _, report = collect(tmp_path / "none", "*.log")
        assert report.status is ReportStatus.ERROR and "there is no such file or folder" in report.reason

    def test_a_folder_that_disappears_leaves_what_was_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for node in NODES:
            write(tmp_path / node / "messages", xid(node=node))
        real = Guard.open

        def removing(self: Guard, path: Path) -> Any:
            if "gpu-018" in str(path):
                path.unlink(missing_ok=True)
                path.parent.rmdir()
            return real(self, path)

        monkeypatch.setattr(Guard, "open", removing)
        observations, report = collect(tmp_path, "{node}/messages")
        assert [one.node for one in observations] == ["gpu-017"], report

    def test_more_files_than_allowed_are_said_and_the_newest_read(self, tmp_path: Path) -> None:
        for number in range(12):
            write(tmp_path / f"{number}.log", xid(number), mtime=BEGIN + timedelta(minutes=number))
        observations, report = collect(tmp_path, "*.log", files=3)
        assert report.status is ReportStatus.PARTIAL and report.reason == "12 files match; only the newest 3 were read"
        assert refs(observations) == ["logs/10.log:1 ", "logs/11.log:1 ", "logs/9.log:1 "]

    def test_thousands_of_names_are_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files_guard, "MAX_ENTRIES", 5)
        monkeypatch.setattr("verdicts.collectors.files_paths.MAX_ENTRIES", 5)
        for number in range(12):
            write(tmp_path / f"{number}.log", xid(number))
        write(tmp_path / "wanted.out", xid())
        assert "more than 5 names" in collect(tmp_path, "*.log")[1].reason
        assert len(collect(tmp_path, "wanted.out")[0]) == 1  # one name is looked for by itself


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A file system whose reads do not come back until the test is over."""
    over = threading.Event()
    real = os.pread

    def blocked(fd: int, size: int, at: int) -> bytes:
        over.wait(30)
        return real(fd, size, at)

    monkeypatch.setattr(os, "pread", blocked)
    yield over
    over.set()
    eventually(lambda: not any(t.name.startswith("files ") for t in threading.enumerate()))


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class TestHanging:
    def test_a_read_that_hangs_ends_with_the_budget(self, tmp_path: Path, hanging: threading.Event) -> None:
        write(tmp_path / "messages", xid())
        _, report = collect(tmp_path, "messages", budget=Budget.of(seconds=0.2, megabytes=1))
        assert report.status is ReportStatus.ERROR
        assert "the file system did not answer within" in report.reason and str(tmp_path) in report.reason

    def test_a_folder_that_hangs_again_and_again_is_left_alone_until_it_comes_back(
        self, tmp_path: Path, hanging: threading.Event
    ) -> None:
        write(tmp_path / "messages", xid())
        catalogue()
        for _ in range(3):
            collect(tmp_path, "messages", budget=Budget.of(seconds=0.2, megabytes=1))
        with pytest.raises(Unreachable, match="3 earlier looks still wait"):
            Guard(str(tmp_path), Budget.of(seconds=5, megabytes=1))
        hanging.set()
        eventually(lambda: not files_guard._stuck[str(tmp_path)])
        assert collect(tmp_path, "messages")[1].status is ReportStatus.OK

    def test_a_pipe_that_nobody_writes_to_is_left_behind_and_closed_later(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with (
            Guard(str(tmp_path), Budget.of(seconds=0.2, megabytes=1)) as guard,
            pytest.raises(BudgetSpent, match="did not answer"),
        ):
            guard.call(lambda: pipe.open("rb").close())
        with pipe.open("wb"):  # lets the one who waits go
            eventually(lambda: not files_guard._stuck[str(tmp_path)])

    def test_nothing_stays_open(self, tmp_path: Path) -> None:
        write(tmp_path / "a.log", xid())
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(5):
            collect(tmp_path, "*.log")
        eventually(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before)


def test_a_probe_says_which_nodes_have_files_and_how_old_they_are(tmp_path: Path) -> None:
    write(tmp_path / "gpu-017" / "7.log", xid())
    write(tmp_path / "gpu-018" / "8.log", xid(), mtime=BEGIN)
    write(tmp_path / "gpu-099" / "9.log", xid(), mtime=BEGIN)
    source = Files(name="x", source=Source.SYSLOG, root=str(tmp_path), paths=["{node}/{job_id}.log"])
    found = source.probe(NODES, Budget.of(seconds=10, megabytes=1))
    assert (found.nodes, found.jobs, found.newest) == (frozenset(NODES), frozenset({"7", "8"}), END)
    with pytest.raises(SourceError, match="no such file"):
        Files(name="x", source=Source.SYSLOG, root="/nowhere", paths=["x"]).probe([], Budget.of(seconds=5, megabytes=1))
