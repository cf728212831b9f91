"""The generic way to a scheduler: signed, told once, looked at afterwards."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from recovery.acting.sites import SiteError, read_sites
from recovery.actuators.base import Look, MaybeApplied, NotApplied, Refused, Unseen
from recovery.actuators.webhook import Webhook
from recovery.words import ActionKind, ActionState
from tests.recovery.test_stepper import Run, an_aim
from tests.verdicts.collectors.raw_server import raw_server
from verdicts import webhook_send

SECRET = b"0123456789abcdef0123456789abcdef"


class Receiver:
    """A site's own program: it holds what was asked for, once for each key."""

    def __init__(self) -> None:
        self.done: set[str] = set()
        self.keys: dict[str, int] = {}
        self.status: dict[str, list[int]] = {}
        self.job = True
        self.bodies: list[dict[str, Any]] = []

    def answer(self, request: Request) -> Response:
        signed = request.get_data() if request.method == "POST" else request.query_string
        name, at = request.headers["webhook-id"], request.headers["webhook-timestamp"]
        wanted = hmac.new(SECRET, f"{name}.{at}.".encode() + signed, hashlib.sha256).digest()
        if request.headers["webhook-signature"] != f"v1,{base64.b64encode(wanted).decode()}":
            return Response("who are you?", status=401)
        if request.method == "GET":
            if not self.job:
                return Response("no such job", status=404)
            return Response(json.dumps({"done": sorted(self.done), "facts": {"seen": True}}))
        body = json.loads(signed)
        self.bodies.append(body)
        status = (self.status.get(body["step"]) or [200]).pop(0)
        if status in (200, 502):
            key = request.headers["idempotency-key"]
            self.keys[key] = self.keys.get(key, 0) + 1
            self.done.add(body["step"])
        return Response("so it is", status=status)


@pytest.fixture
def receiver(httpserver: HTTPServer) -> Receiver:
    made = Receiver()
    httpserver.expect_request("/act").respond_with_handler(made.answer)
    return made


def a_way(httpserver: HTTPServer, secret: bytes = SECRET) -> Webhook:
    return Webhook(httpserver.url_for("/act"), secret, can=frozenset(ActionKind), settle=30, deadline=300)


def run(way: Webhook, action: ActionKind) -> Any:
    return Run(aim=an_aim(action), way=way).to_the_end()


def test_each_step_is_asked_for_once_and_the_end_is_what_the_receiver_says(
    httpserver: HTTPServer, receiver: Receiver
) -> None:
    receiver.status = {"exclude": [502]}
    assert run(a_way(httpserver), ActionKind.RESTART_EXCLUDING).outcome is ActionState.CONVERGED
    assert receiver.keys == {f"inquest-1234abcd.{step}": 1 for step in ("hold", "exclude", "restart")}
    assert receiver.bodies[0]["nodes"] == "gpu-01" and receiver.bodies[0]["restart_count"] == "0"


def test_a_refusal_in_the_middle_is_given_back(httpserver: HTTPServer, receiver: Receiver) -> None:
    receiver.status = {"exclude": [403]}
    receiver.done = {"include"}
    end = run(a_way(httpserver), ActionKind.RESTART_EXCLUDING)
    assert end.outcome is ActionState.FAILED and "403" in end.why
    assert [body["step"] for body in receiver.bodies] == ["hold", "exclude", "release"]


@pytest.mark.parametrize(
    ("status", "error"),
    [(429, NotApplied), (503, NotApplied), (500, MaybeApplied), (302, MaybeApplied), (409, Refused)],
)
def test_what_an_answer_means(httpserver: HTTPServer, receiver: Receiver, status: int, error: Any) -> None:
    receiver.status = {"stop": [status]}
    way, aim = a_way(httpserver), an_aim(ActionKind.STOP)
    with pytest.raises(error):
        way.do("stop", aim, way.look(aim))


def test_a_job_that_the_receiver_does_not_know_and_a_wrong_secret(httpserver: HTTPServer, receiver: Receiver) -> None:
    receiver.job = False
    assert "no such job" in a_way(httpserver).look(an_aim()).lost
    with pytest.raises(Unseen, match="401"):
        a_way(httpserver, b"x" * 32).probe()
    assert a_way(httpserver).probe() == "the receiver answers"


def test_an_answer_without_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_send, "SECONDS", 0.5)

    def without_end(connection: socket.socket, asked: bytes) -> None:
        # To a look a body that never ends, to a step a head that never does.
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" if b"GET" in asked else b"HTTP/1.1 200 OK\r\n")
        while True:
            connection.sendall(b" " * 65536 if b"GET" in asked else b"X-More: to come\r\n")

    with raw_server(without_end) as server:
        way = Webhook(f"{server.url}/act", SECRET, can=frozenset(ActionKind), settle=30, deadline=300)
        with pytest.raises(Unseen, match="cannot be read"):
            way.look(an_aim())
        with pytest.raises(MaybeApplied):
            way.do("hold", an_aim(), Look(done=frozenset()))


def test_the_secret_is_in_a_file_and_never_in_a_message(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    file = tmp_path / "recovery.toml"
    file.write_text(
        f'[[cluster]]\nname = "a"\n[cluster.actuator]\nkind = "webhook"\nurl = "https://s/act"\nsecret_file = "{secret}"\n'
    )
    secret.write_text("whsec_c2hvcnQ=")
    with pytest.raises(SiteError) as error:
        read_sites(file)
    assert "24 random bytes" in str(error.value) and "c2hvcnQ" not in str(error.value)
    secret.write_text("whsec_" + base64.b64encode(SECRET).decode())
    assert read_sites(file).cluster[0].actuator.actuator().kind == "webhook"
