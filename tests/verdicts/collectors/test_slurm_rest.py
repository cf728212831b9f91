"""slurmrestd: which version is taken, who we are, what its answers mean in each version, and what else is asked then."""

from __future__ import annotations

import base64
import json
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.verdicts.collectors.slurm_fake import FakeSlurm, a_live, a_row
from verdicts.collectors import slurm_json, slurm_rest
from verdicts.collectors.ask import Budget, SourceError, Unreachable
from verdicts.collectors.server import Server
from verdicts.collectors.slurm import SlurmDiscovery, SlurmRecords
from verdicts.collectors.slurm_commands import Commands
from verdicts.collectors.slurm_rest import Rest, identified, offered

RECORDED = Path(__file__).parent / "slurm"
T0 = 1_796_000_000
NOTHING = {"errors": [{"description": "Nothing found", "error_number": 9003, "source": "slurmdb_jobs_get"}]}


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


def a_budget(seconds: float = 20) -> Budget:
    return Budget.of(seconds=seconds, megabytes=8)


def a_token(user: str = "inquest") -> str:
    middle = base64.urlsafe_b64encode(json.dumps({"exp": 1, "iat": 1, "sun": user}).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJIUzI1NiJ9.{middle}.c2lnbmF0dXJl"


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_rest, "_apis", {})


@pytest.fixture
def served(httpserver: HTTPServer) -> HTTPServer:
    """A slurmrestd of 22.05 with its recorded answers."""
    slurm, book = "/slurm/v0.0.38", "/slurmdb/v0.0.38"
    for path, name in (
        ("/openapi/v3", "openapi-22.05.json"),
        (f"{slurm}/jobs", "controller-22.05.json"),
        (f"{slurm}/nodes", "nodes-22.05.json"),
        (f"{book}/jobs", "accounting-22.05.json"),
        (f"{book}/job/6", "history-22.05.json"),
    ):
        httpserver.expect_request(path).respond_with_data(recorded(name), content_type="application/json")
    parts = [job for job in json.loads(recorded("accounting-22.05.json"))["jobs"] if job["het"]["job_id"] == 8]
    httpserver.expect_request(f"{book}/job/8").respond_with_json({"errors": [], "jobs": parts})
    return httpserver


def the_server(served: HTTPServer, **other: Any) -> Server:
    return Server(url=served.url_for("").rstrip("/"), **other)


def described(*versions: str, slash: bool = False, params: tuple[str, ...] = ()) -> bytes:
    paths: dict[str, Any] = {}
    end = "/" if slash else ""
    for version in versions:
        for call in ("jobs", "nodes", "diag"):
            paths[f"/slurm/{version}/{call}{end}"] = {}
        paths[f"/slurm/{version}/job/{{job_id}}"] = paths[f"/slurmdb/{version}/job/{{job_id}}"] = {}
        parameters = [{"name": name, "in": "query"} for name in params]
        paths[f"/slurmdb/{version}/jobs{end}"] = {"get": {"parameters": parameters}}
    return json.dumps({"openapi": "3.0.3", "paths": paths}).encode()


def a_closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# Versions


def test_the_recorded_description_offers_v38() -> None:
    api = offered(recorded("openapi-22.05.json"))
    assert (api.version, api.jobs, api.history) == ("v0.0.38", "/slurm/v0.0.38/jobs", "/slurmdb/v0.0.38/job/{}")
    assert "skip_steps" in api.takes


def test_the_newest_version_that_is_known_is_taken_with_its_own_paths() -> None:
    api = offered(described("v0.0.39", "v0.0.41", "v0.0.99", slash=True, params=("show_duplicates",)))
    assert (api.version, api.accounted) == ("v0.0.41", "/slurmdb/v0.0.41/jobs/")
    assert api.takes == {"show_duplicates"}


def test_a_version_without_accounting_is_not_taken() -> None:
    paths = json.loads(described("v0.0.38", "v0.0.42"))
    del paths["paths"]["/slurmdb/v0.0.42/jobs"]
    assert offered(json.dumps(paths).encode()).version == "v0.0.38"


def test_only_unknown_versions_are_an_error_that_says_what_is_there() -> None:
    with pytest.raises(
        SourceError, match=r"offers v0\.0\.35, v0\.0\.99, .* start it with one of v0\.0\.38 to v0\.0\.45"
    ):
        offered(described("v0.0.35", "v0.0.99"))


@pytest.mark.parametrize(
    "raw", [b"", b"<html>", b'{"paths": 5}', b"[" * 50_000, b'{"paths": {"/slurmdb/v0.0.40/jobs": 5}}']
)
def test_a_description_that_is_none_is_an_error(raw: bytes) -> None:
    with pytest.raises(SourceError):
        offered(raw)


# Who we are


def test_a_token_goes_alone_into_slurms_headers_with_the_name_in_it(served: HTTPServer, tmp_path: Path) -> None:
    """A bearer's header beside it makes slurmrestd 22.05 refuse both."""
    file = tmp_path / "token"
    file.write_text(a_token("svc-inquest") + "\n")
    Rest(the_server(served, token_file=str(file))).jobs(a_budget())
    for request, _ in served.log:
        assert request.headers["X-SLURM-USER-NAME"] == "svc-inquest"
        assert request.headers["X-SLURM-USER-TOKEN"] == a_token("svc-inquest")
        assert "Authorization" not in request.headers


def test_headers_that_are_configured_win(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(a_token())
    server = Server(url="http://s", token_file=str(file), headers={"x-slurm-user-name": "other"})
    assert identified(server).headers == {"x-slurm-user-name": "other"}
    bearer = Server(url="http://s", token_file=str(file), auth_header="X-Proxy-Token")
    assert identified(bearer) is bearer


@pytest.mark.parametrize(
    "token", ["abc", "a.b.c", "a.!!.c", "a.W10.c", "a." + base64.b64encode(b'{"sun": 5}').decode() + ".c"]
)
def test_a_token_that_names_nobody_goes_without_a_name(tmp_path: Path, token: str) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    assert identified(Server(url="http://s", token_file=str(file))).headers == {}


# Answers


def test_recorded_jobs_of_the_controller(served: HTTPServer) -> None:
    jobs = {(job.id, job.component): job for job in Rest(the_server(served)).jobs(a_budget())}
    assert jobs["4", None].exit_code == "137:0"
    assert (jobs["6", None].restarts, jobs["6", None].submit) == (1, 1796038842)
    assert {name for name, _ in jobs} >= {"7_1", "7_2", "7_3", "8"}
    assert jobs["8", 1].nodes == "gpu-04"
    assert jobs["5", None].uid == 5


def test_accounting_of_v38_is_not_believed_where_it_says_that_a_failed_job_did_well(served: HTTPServer) -> None:
    jobs = {job.id: job for job in Rest(the_server(served)).ended_since(T0, T0 + 9, a_budget())}
    assert (jobs["2"].state, jobs["2"].exit_code) == ("FAILED", "")
    assert (jobs["1"].state, jobs["1"].exit_code) == ("COMPLETED", "0:0")
    assert jobs["3"].exit_code == "0:11"
    asked = served.log[-1][0].args
    assert asked.to_dict() == {"start_time": f"uts{T0}", "end_time": f"uts{T0 + 9}", "skip_steps": "true"}


def test_a_recorded_history_has_every_submission_and_its_steps(served: HTTPServer) -> None:
    jobs = Rest(the_server(served)).history(["6"], a_budget(), steps=True)
    assert [(job.state, job.submit) for job in jobs] == [("REQUEUED", 1796038840), ("RUNNING", 1796038842)]
    assert [(step.id, step.state, step.exit_code) for step in jobs[0].steps] == [("batch", "CANCELLED", "0:15")]


def test_recorded_nodes(served: HTTPServer) -> None:
    [node] = Rest(the_server(served)).nodes(["gpu-04"], a_budget())
    assert (node.state, node.reason, node.by, node.since) == (
        "DOWN+NOT_RESPONDING",
        "Not responding",
        "slurm",
        1796038869,
    )


def test_nothing_found_is_an_empty_answer_though_it_comes_as_http_500(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/openapi/v3").respond_with_data(recorded("openapi-22.05.json"))
    httpserver.expect_request("/slurmdb/v0.0.38/jobs").respond_with_json(NOTHING, status=500)
    assert Rest(the_server(httpserver)).ended_since(1, 2, a_budget()) == []
    assert len(httpserver.log) == 2, "it was asked once"


def test_the_older_path_of_the_description_is_tried(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/openapi/v3").respond_with_data("Unable find requested URL.", status=404)
    httpserver.expect_request("/openapi").respond_with_data(described("v0.0.39"))
    assert Rest(the_server(httpserver)).api(a_budget()).version == "v0.0.39"


def a_newer_number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def test_jobs_of_the_controller_in_v40_to_v43() -> None:
    code = {
        "status": ["ERROR"],
        "return_code": a_newer_number(13),
        "signal": {"id": a_newer_number(None), "name": ""},
    }
    job = {
        "job_id": 90, "array_job_id": a_newer_number(88), "array_task_id": a_newer_number(0), "name": "t",
        "array_task_string": "", "het_job_id": a_newer_number(0), "het_job_offset": a_newer_number(None),
        "user_name": "ada", "user_id": 1001, "job_state": ["FAILED"], "state_reason": "NonZeroExitCode",
        "submit_time": a_newer_number(T0), "start_time": a_newer_number(T0 + 1), "end_time": a_newer_number(T0 + 9),
        "restart_cnt": 2, "nodes": "n[1-2]", "exit_code": code, "failed_node": "n2",
    }  # fmt: skip
    [found] = slurm_json.controller_jobs(json.dumps({"jobs": [job], "errors": [], "warnings": []}).encode())
    assert (found.id, found.component, found.restarts, found.exit_code) == ("88_0", None, 2, "13:0")
    assert (found.submit, found.end, found.state, found.failed_node) == (T0, T0 + 9, "FAILED", "n2")


def test_jobs_of_accounting_in_v40_to_v43() -> None:
    killed = {
        "status": ["SIGNALED"],
        "return_code": a_newer_number(None),
        "signal": {"id": a_newer_number(9), "name": "SIGKILL"},
    }
    step = {
        "time": {"start": a_newer_number(T0 + 1), "end": a_newer_number(T0 + 8)}, "exit_code": killed,
        "nodes": {"count": 1, "range": "n1", "list": ["n1"]}, "state": ["CANCELLED"],
        "step": {"id": "90.batch", "name": "batch"},
    }  # fmt: skip
    job = {
        "job_id": 90, "array": {"job_id": 0, "task_id": a_newer_number(None)}, "name": "t", "user": "ada",
        "het": {"job_id": 0, "job_offset": a_newer_number(None)}, "nodes": "n1", "restart_cnt": 1,
        "state": {"current": ["CANCELLED"], "reason": "None"}, "kill_request_user": "root", "exit_code": killed,
        "derived_exit_code": killed, "time": {"submission": T0, "start": T0 + 1, "end": T0 + 9},
        "comment": {"administrator": "a", "job": "j", "system": "s"}, "steps": [step],
    }  # fmt: skip
    [found] = slurm_json.accounted_jobs(json.dumps({"jobs": [job], "errors": []}).encode())
    assert (found.id, found.state, found.exit_code, found.restarts) == ("90", "CANCELLED by 0", "0:9", 1)
    assert (found.comment, found.admin_comment, found.system_comment) == ("j", "a", "s")
    assert [(s.id, s.state, s.exit_code, s.nodes, s.end) for s in found.steps] == [
        ("batch", "CANCELLED", "0:9", "n1", T0 + 8)
    ]


def test_partitions_are_those_that_the_nodes_name() -> None:
    nodes = [{"name": "n1", "partitions": ["train", "urgent"]}, {"name": "n2", "partitions": "train"}, {"name": "n3"}]
    found = slurm_json.partitions(json.dumps({"nodes": nodes}).encode())
    assert found == {"train": {"n1", "n2"}, "urgent": {"n1"}}


def test_nodes_in_v40_to_v43() -> None:
    node = {
        "name": "n1", "state": ["IDLE", "DRAIN"], "reason": "xid 79", "reason_set_by_user": "root",
        "reason_changed_at": a_newer_number(T0), "boot_time": a_newer_number(5),
    }  # fmt: skip
    [found] = slurm_json.nodes(json.dumps({"nodes": [node]}).encode())
    assert (found.state, found.since, found.boot) == ("IDLE+DRAIN", T0, 5)


@pytest.mark.parametrize(
    "raw",
    [b'{"jobs": [{"job_id"', b"", b"null", b'{"jobs": 5}', b'{"jobs": [5]}', b'{"jobs": [{"time": []}]}', b"\xff\xfe"],
)
def test_answers_that_are_none_are_errors(raw: bytes) -> None:
    with pytest.raises(SourceError):
        slurm_json.accounted_jobs(raw)


def test_a_name_in_no_encoding_spoils_only_itself() -> None:
    raw = json.dumps({"jobs": [a_live(4, submit=T0, name="NAME"), a_live(5, submit=T0)]}).encode()
    found = slurm_json.controller_jobs(raw.replace(b"NAME", b"gr\xf6\xdfe"))
    assert [job.id for job in found] == ["4", "5"]


# When it does not answer


def a_look(server: Server, commands: Commands, cursor: dict[str, Any] | None = None) -> Any:
    discovery = SlurmDiscovery(name="slurm", server=server, commands=commands)
    return discovery.discover(cursor or {}, datetime.fromtimestamp(T0 + 50, UTC), a_budget())


def test_a_look_through_slurmrestd_needs_no_commands(served: HTTPServer, tmp_path: Path) -> None:
    discovery = SlurmDiscovery(name="slurm", server=the_server(served), commands=Commands(folder=str(tmp_path)))
    found = discovery.discover({}, datetime.fromtimestamp(1796038900, UTC), a_budget())
    told = {(a.job_id, a.restart_count): a for a in found.attempts}
    assert ("6", 0) in told and ("6", 1) in told
    assert told["2", 0].exit_code == "13:0", "the controller's, not accounting's"
    assert told["5", 0].state.startswith("CANCELLED")
    assert not found.notes


def test_slurmrestd_off_falls_back_to_commands_and_says_so(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path, accounting=[a_row("5", submit=T0)], controller=[a_live(5, submit=T0)])
    server = Server(url=f"http://127.0.0.1:{a_closed_port()}")
    found = a_look(server, slurm.commands)
    assert [a.job_id for a in found.attempts] == ["5"]
    assert found.listed == {"5"}
    [said] = found.notes
    assert said.startswith("slurmrestd did not answer (") and said.endswith("asked Slurm's commands instead")


def test_slurmrestd_off_and_no_commands_is_an_error_of_slurmrestd(tmp_path: Path) -> None:
    server = Server(url=f"http://127.0.0.1:{a_closed_port()}")
    with pytest.raises(Unreachable, match=server.url):
        a_look(server, Commands(folder=str(tmp_path)))


def test_a_token_that_is_refused_falls_back_and_is_told(httpserver: HTTPServer, tmp_path: Path) -> None:
    httpserver.expect_request("/openapi/v3").respond_with_data("Authentication failure", status=401)
    slurm = FakeSlurm(tmp_path, accounting=[a_row("5", submit=T0)], controller=[a_live(5, submit=T0)])
    found = a_look(the_server(httpserver), slurm.commands)
    assert [a.job_id for a in found.attempts] == ["5"]
    assert all("HTTP 401" in said for said in found.notes) and found.notes


def test_where_neither_way_answers_both_are_told_slurmrestd_first(httpserver: HTTPServer, tmp_path: Path) -> None:
    httpserver.expect_request("/openapi/v3").respond_with_data("Authentication failure", status=401)
    away = dict.fromkeys(("squeue", "sacct"), "Protocol authentication error")
    slurm = FakeSlurm(tmp_path, accounting=[], controller=[], away=away)
    with pytest.raises(
        SourceError, match=r"slurmrestd: .*HTTP 401.*; Slurm's commands: .*Protocol authentication error"
    ):
        a_look(the_server(httpserver), slurm.commands)


def test_a_slurmrestd_that_hangs_leaves_the_commands_their_time(httpserver: HTTPServer, tmp_path: Path) -> None:
    over = threading.Event()

    def hang(request: Request) -> Response:
        over.wait(20)
        return Response(status=503)

    httpserver.expect_request("/openapi/v3").respond_with_handler(hang)
    slurm = FakeSlurm(tmp_path, accounting=[a_row("5", submit=T0)], controller=[a_live(5, submit=T0)])
    discovery = SlurmDiscovery(name="slurm", server=the_server(httpserver), commands=slurm.commands)
    try:
        found = discovery.discover({}, datetime.fromtimestamp(T0 + 50, UTC), a_budget(4))
    finally:
        over.set()
    assert [a.job_id for a in found.attempts] == ["5"]
    assert "did not answer" in found.notes[0]


def test_a_flood_is_cut_off(httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_rest, "LARGEST", 1 << 20)
    httpserver.expect_request("/openapi/v3").respond_with_data(recorded("openapi-22.05.json"))
    httpserver.expect_request("/slurm/v0.0.38/jobs").respond_with_data(b'{"jobs": [' + b" " * (3 << 20))
    with pytest.raises(SourceError, match="an answer of more than 1 MiB"):
        Rest(the_server(httpserver)).jobs(a_budget())


def test_accounting_away_behind_slurmrestd_leaves_the_controller_to_it(served: HTTPServer, tmp_path: Path) -> None:
    """What slurmrestd 22.05 answers then, with HTTP 200."""
    away = {
        "errors": [{"description": "Failed connecting to slurmdbd", "error": "Unable to connect to database"}],
        "jobs": [],
    }
    served.clear()
    served.expect_request("/openapi/v3").respond_with_data(recorded("openapi-22.05.json"))
    served.expect_request("/slurmdb/v0.0.38/jobs").respond_with_json(away)
    served.expect_request("/slurm/v0.0.38/jobs").respond_with_json({"jobs": [a_live(5, submit=T0)]})
    found = a_look(the_server(served), Commands(folder=str(tmp_path)))
    assert [a.job_id for a in found.attempts] == ["5"]
    assert "Failed connecting to slurmdbd" in " ".join(found.notes)


def test_restarts_that_the_window_does_not_show_are_asked_for_one_by_one(served: HTTPServer, tmp_path: Path) -> None:
    rows = json.loads(recorded("history-22.05.json"))["jobs"]
    served.clear()
    served.expect_request("/openapi/v3").respond_with_data(recorded("openapi-22.05.json"))
    served.expect_request("/slurm/v0.0.38/jobs").respond_with_json({"jobs": []})
    served.expect_request("/slurmdb/v0.0.38/jobs").respond_with_json({"jobs": rows[-1:]})
    served.expect_request("/slurmdb/v0.0.38/job/6").respond_with_json({"jobs": rows})
    found = a_look(the_server(served), Commands(folder=str(tmp_path)))
    assert [(a.job_id, a.restart_count) for a in found.attempts] == [("6", 0), ("6", 1)]


def test_a_probe_says_version_clock_and_which_nodes_it_knows(served: HTTPServer, tmp_path: Path) -> None:
    diag = {"meta": {"Slurm": {"release": "22.05.8"}}, "errors": [], "statistics": {"req_time": T0}}
    served.expect_request("/slurm/v0.0.38/diag").respond_with_json(diag)
    source = SlurmRecords(name="slurm", server=the_server(served), commands=Commands(folder=str(tmp_path)))
    probe = source.probe(["gpu-01", "gpu-77"], a_budget())
    assert probe.version == "22.05.8 (API v0.0.38)"
    assert probe.server_time == datetime.fromtimestamp(T0, UTC)
    assert probe.nodes == {"gpu-01", "gpu-02", "gpu-03", "gpu-04"}
    assert probe.jobs is not None and "7_1" in probe.jobs
    assert probe.newest == datetime.fromtimestamp(1796038929, UTC)
