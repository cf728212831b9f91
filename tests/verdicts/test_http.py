"""Over a real connection with a token from the command, as a collector does it."""

import json
import urllib.error
import urllib.request
from importlib import import_module
from io import StringIO
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django.live_server_helper import LiveServer

from tests.verdicts.builders import a_user, an_attempt, an_observation

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def groups(transactional_db: None) -> None:
    """The groups come from a migration, and an earlier test of this kind has emptied the tables."""
    import_module("verdicts.migrations.0003_groups").make_groups(apps, SimpleNamespace(connection=connection))


def _token(name: str) -> str:
    out = StringIO()
    call_command("create_token", name, stdout=out)
    return out.getvalue().strip()


class Caller:
    """A client that knows nothing of Django."""

    def __init__(self, root: str, token: str) -> None:
        self.root, self.token = root, token

    def __call__(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        request = urllib.request.Request(f"{self.root}/api/v1/{path}", data=body, method=method)  # noqa: S310
        request.add_header("Authorization", f"Token {self.token}")
        request.add_header("Content-Type", headers.pop("content_type", "application/json"))
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


def test_a_collector_sends_and_reads_a_verdict(live_server: LiveServer, engine: Any) -> None:
    a_user("otto", "operator")
    call = Caller(live_server.url, _token("otto"))
    status, attempt = call("POST", "attempts", msgspec.json.encode(an_attempt()))
    assert status == 201
    lines = b"\n".join(msgspec.json.encode(an_observation(number)) for number in range(50))
    path = f"attempts/{attempt['id']}"
    first = call("POST", f"{path}/observations", lines, content_type="application/x-ndjson", Idempotency_Key="k")
    again = call("POST", f"{path}/observations", lines, content_type="application/x-ndjson", Idempotency_Key="k")
    assert (first[0], first[1]["stored"], again[0], again[1]["replayed"]) == (201, 50, 200, True)
    status, asked = call("POST", f"{path}/attributions", b'{"mode": "fast", "wait": 0.2}')
    assert (status, asked["state"]) == (200, "done")
    status, verdict = call("GET", f"{path}/verdict")
    assert (status, verdict["id"]) == (200, asked["verdict"])
    assert verdict["page"] == f"/verdicts/{verdict['id']}/"


def test_a_wrong_token_opens_nothing(live_server: LiveServer) -> None:
    status, said = Caller(live_server.url, "inq_" + "0" * 60)("GET", "verdicts")
    assert (status, said["errors"][0]["code"]) == (401, "authentication_failed")


def test_a_token_is_only_made_for_a_user_that_is_there() -> None:
    with pytest.raises(CommandError, match="no active user"):
        _token("nobody")
