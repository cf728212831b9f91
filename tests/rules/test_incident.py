"""Folders and loose files as people hand them over, right and wrong."""

import gzip
import json
import pickle
from pathlib import Path

import pytest

from rules.attempt import InputError, decode_attempt, expand_hostlist
from rules.collect import collect
from rules.engine import attribute
from rules.incident import open_incident
from rules.print_verdict import print_verdict
from rules.verdict import Verdict
from rules.words import Domain, ReportStatus, Source
from tests.rules.builders import shipped

XID = "Nov  3 02:11:04 n2 kernel: [88.100000] NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus."


def explain(*paths: Path, **given: object) -> Verdict:
    incident = open_incident(list(paths), **given)  # type: ignore[arg-type]
    collected = collect(incident, shipped())
    return attribute(incident.attempt, collected.observations, collected.reports, shipped())


def a_folder(root: Path, attempt: dict[str, object] | str, **evidence: str | bytes) -> Path:
    (root / "attempt.json").write_text(attempt if isinstance(attempt, str) else json.dumps(attempt))
    for name, text in evidence.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def test_a_folder_says_source_and_node_by_its_places(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, {"job_id": "7"}, syslog__n2=XID, applog__x="iteration 1/ 5")
    assert {(f.source, f.node) for f in open_incident([folder]).files} == {(Source.SYSLOG, "n2"), (Source.APPLOG, "")}


def test_packed_and_plain_evidence_give_the_same_finding(tmp_path: Path) -> None:
    for name, pack in (("plain", bytes), ("packed", gzip.compress)):
        (tmp_path / name).mkdir()
        folder = a_folder(tmp_path / name, {"job_id": "7"})
        (folder / "syslog").mkdir()
        (folder / "syslog" / ("n2.log" + (".gz" if name == "packed" else ""))).write_bytes(pack(XID.encode()))
        verdict = explain(folder)
        assert [(c.rule, c.nodes) for c in verdict.causes] == [("gpu.off-the-bus", ["n2"])]


def test_loose_files_are_guessed_and_the_guess_is_said(tmp_path: Path) -> None:
    (tmp_path / "dmesg-node7.txt").write_text(
        "[  88.100000] NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus.\n"
    )
    (tmp_path / "slurm-1234.out").write_text("iteration 10/ 100 | lm loss: 1.0 |\n")
    incident = open_incident([tmp_path / "dmesg-node7.txt", tmp_path / "slurm-1234.out"])
    assert {(f.name, f.source, f.node) for f in incident.files} == {
        ("dmesg-node7.txt", Source.SYSLOG, "node7"),
        ("slurm-1234.out", Source.APPLOG, ""),
    }
    assert len(incident.notes) == 2


def test_the_users_word_outranks_the_guess(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(XID)
    incident = open_incident([], sources={}, nodes={str(path): "gpu-7"})
    assert [(f.source, f.node, f.why) for f in incident.files] == [(Source.SYSLOG, "gpu-7", "as given")]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"job_id": 5}', "job_id"),
        ('{"job_id": "5", "nodes": ["a", 3]}', r"nodes\[1\]"),
        ('{"job_id": "5", "foo": 1}', "foo"),
        ('{"job_id": "5", "start": "tomorrow"}', "start"),
        ('{"job_id": "5", "topology": {"planet": {}}}', "topology.planet"),
        ('{"job_id": "5", "ranks": {"one": {"node": "a"}}}', "ranks.one"),
        ('{"job_id": "5", "nodes": ["gpu-[3-1]"]}', "nodes"),
        ("not json", "not valid JSON"),
        ("\xff", "not valid JSON"),
    ],
)
def test_a_wrong_attempt_names_the_file_and_the_field(tmp_path: Path, text: str, field: str) -> None:
    (tmp_path / "attempt.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=f"attempt.json.*{field}"):
        open_incident([tmp_path])


def test_an_empty_folder_and_a_missing_file_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no evidence"):
        open_incident([tmp_path])
    with pytest.raises(InputError, match="no such file"):
        open_incident([tmp_path / "nothing"])


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(XID)
    folder = tmp_path / "incident"
    folder.mkdir()
    (folder / "attempt.json").write_text('{"job_id": "1"}')
    (folder / "log").symlink_to(secret)
    incident = open_incident([folder])
    assert incident.files == []
    assert "not followed" in incident.notes[0]


def test_a_binary_file_becomes_a_report_not_an_exception(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, {"job_id": "7"}, applog__core=bytes(range(256)) * 40)
    coverage = {r.source: r for r in explain(folder).coverage}
    assert coverage[Source.APPLOG].status is ReportStatus.ERROR
    assert "binary" in coverage[Source.APPLOG].reason


def test_control_characters_are_shown_and_not_sent_to_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "dmesg"
    path.write_text(XID + "\x1b]0;evil\x07 \x00 <script>\n")
    text = explain(path).causes[0].evidence[0].text
    assert "\x1b" not in text
    assert "\\x00" in text


def test_journald_json_is_read_with_its_time_and_host(tmp_path: Path) -> None:
    record = {"__REALTIME_TIMESTAMP": "1793670664000000", "_HOSTNAME": "n2", "SYSLOG_IDENTIFIER": "kernel",
              "MESSAGE": "NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus."}  # fmt: skip
    path = tmp_path / "journal.json"
    as_bytes = record | {"MESSAGE": list(str(record["MESSAGE"]).encode())}
    path.write_text(json.dumps(record) + "\n" + json.dumps(as_bytes) + "\n")
    (cause,) = explain(path).causes
    assert (cause.nodes, cause.count, cause.first) == (["n2"], 2, "2026-11-03T01:51:04.000000+00:00")


def test_a_pickled_dump_that_names_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (print, ("owned",))

    path = tmp_path / "nccl_trace_rank_3"
    path.write_bytes(pickle.dumps({"pg_config": {}, "x": Evil()}))
    coverage = {r.source: r for r in explain(path).coverage}
    assert any("only plain data is read" in r.reason for r in coverage.values())


def test_a_plain_pickled_dump_is_read(tmp_path: Path) -> None:
    for rank, number in ((0, 12), (1, 12), (2, 11), (3, 12)):
        config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
        status = {"0": {"last_enqueued_collective": number}}
        entries = [{"process_group": ["0", "default_pg"], "collective_seq_id": number, "state": "scheduled"}]
        dump = {"version": "2.9", "pg_config": config, "pg_status": status, "entries": entries}
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump))
    verdict = explain(*sorted(tmp_path.iterdir()))
    assert verdict.attributed_domain is Domain.UNATTRIBUTED
    assert [f.ranks for f in verdict.interesting] == [[2]]


def test_thousands_of_equal_lines_are_few_observations_and_one_count(tmp_path: Path) -> None:
    path = tmp_path / "dmesg"
    path.write_text((XID + "\n") * 5000)
    collected = collect(open_incident([path]), shipped())
    assert len(collected.observations) < 30
    assert sum(o.count for o in collected.observations) == 5000
    assert explain(path).causes[0].count == 5000


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-[01-03,7]", ["gpu-01", "gpu-02", "gpu-03", "gpu-7"]),
        ("a,b[1-2]x", ["a", "b1x", "b2x"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    assert expand_hostlist(text) == names


def test_a_host_list_of_millions_is_refused() -> None:
    with pytest.raises(InputError, match="nodes"):
        decode_attempt(b'{"job_id": "1", "nodes": ["n[0-99999]x[0-99999]"]}')


@pytest.mark.parametrize(
    "stamp",
    ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-11-03T02:11:04-99:99", "0000-00-00T00:00:00Z"],
)
def test_a_time_beyond_all_calendars_is_no_time(tmp_path: Path, stamp: str) -> None:
    path = tmp_path / "dmesg"
    path.write_text(f"{stamp} {XID.partition(': ')[2]}\n")
    assert explain(path).causes[0].first in (None, "boot:88.100000")


def test_a_file_of_blank_lines_is_guessed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("\n" * 200_000)
    assert explain(path).attributed_domain is Domain.UNATTRIBUTED


def test_a_programs_all_done_is_not_believed_after_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("RuntimeError: NCCL error: remote process exited or there was a network error\nAll done.\n")
    assert explain(path).attributed_domain is not Domain.NO_FAILURE


def test_progress_and_an_unknown_error_at_the_end_is_no_success(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text(" iteration       10/     100 | lm loss: 2.0E+00 | grad norm: 1.0 |\nFATAL: frobnicator exploded\n")
    assert explain(path).attributed_domain is Domain.UNATTRIBUTED


def test_a_hostile_job_id_does_not_reach_the_terminal_raw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_folder(tmp_path, {"job_id": "x\u001b]0;owned\u0007"}, syslog__n2=XID)
    print_verdict(explain(folder), [])
    assert "\x1b" not in capsys.readouterr().out


def test_the_last_of_very_many_unknown_errors_is_near_the_end_and_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rules.keep.MAX_MASKED", 50)
    path = tmp_path / "app.log"
    lines = [f"ERROR: frob {n} gave up" for n in range(2000)]
    path.write_text(
        "\n".join([*lines, "ERROR: marbles lost, Authorization: Bearer abcdefghijklmnopqrstuvwxyz0123456789"])
    )
    found = {u.template: u for u in explain(path).unrecognised}
    (last,) = [u for template, u in found.items() if "marbles" in template]
    assert last.near_end
    assert "abcdefghij" not in last.example.text
