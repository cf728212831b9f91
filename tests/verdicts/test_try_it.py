"""A pasted log tried against the rules: matches, the verdict it would give, and no trace left."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from rules.attempt import InputError
from rules.words import Source
from tests.verdicts.builders import a_user
from verdicts import conclude
from verdicts.models import Attempt, Observation, Verdict
from verdicts.rulebook import try_apart, try_it

XID = "Nov 12 11:02:10 gpu-031 kernel: NVRM: Xid (PCI:0000:65:00): 79, pid=0, GPU has fallen off the bus."


def tried(text: str, **more: Any) -> try_it.Tried:
    return try_it.try_text(text, conclude.current_ruleset(), **more)


def test_rules_that_match_are_named_with_line_and_place() -> None:
    found = tried(f"something harmless\n{XID}\n")
    match = next(match for match in found.matches if match.rule.id == "gpu.off-the-bus")
    assert match.ref.endswith(":2")
    assert match.locus["node"] == "gpu-031"
    assert found.source is Source.SYSLOG
    assert found.verdict["causes"][0]["rule"] == "gpu.off-the-bus"


def test_the_node_and_the_source_may_be_said() -> None:
    found = tried("NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.", source=Source.SYSLOG, node="n7")
    assert found.verdict["affected_nodes"][0]["name"] == "n7"
    assert found.why == "as given"


def test_an_unknown_error_is_no_match_and_is_kept_as_unknown() -> None:
    found = tried("ERROR: the flux capacitor is out of phase\n")
    assert found.matches == []
    assert found.verdict["attributed_domain"] == "unattributed"


@pytest.mark.parametrize("text", ["", " \n\t", "x" * (try_it.MOST_CHARACTERS + 1)])
def test_nothing_and_too_much_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        tried(text)


def test_reading_ends_when_its_time_is_over() -> None:
    ticks = count(0, 100)
    found = tried(f"{XID}\n" * 50, clock=lambda: float(next(ticks)))
    assert "took too long" in found.reason


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(min_size=1, max_size=400).filter(str.strip))
def test_any_text_is_tried(text: str) -> None:
    assert tried(text).verdict["headline"]


# --- In a process of its own ---------------------------------------------------------------------


def apart(text: str, **more: Any) -> try_it.Tried:
    return try_apart.try_apart(text, conclude.current_ruleset(), **more)


def test_apart_it_says_the_same() -> None:
    assert apart(f"ok\n{XID}\n\ud800\n") == tried(f"ok\n{XID}\n\ud800\n")


def test_what_takes_too_long_is_given_up_and_said() -> None:
    with pytest.raises(InputError, match=r"not done within 0\.01 s.*fewer lines"):
        apart(f"{XID}\n" * 1000, seconds=0.01)
    with pytest.raises(InputError, match="paste some lines"):
        apart(" ")


def test_the_child_gets_no_secret_of_the_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, str]] = []

    def run(*_: Any, env: dict[str, str], **__: Any) -> Any:
        given.append(env)
        raise subprocess.TimeoutExpired("x", 1)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(InputError):
        apart(XID)
    assert set(given[0]) == {"PYTHONPATH", "PATH"}


# --- Page and API -------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_page_shows_the_verdict_and_stores_nothing(client: Client) -> None:
    client.force_login(a_user("ada", "viewer"))
    assert client.get("/try/").status_code == 200
    page = client.post("/try/", {"text": f"{XID}\r\n<script>alert(1)</script>\r\n"}).content.decode()
    assert "gpu.off-the-bus" in page
    assert "gpu-031" in re.sub(r"<[^>]+>", "", page)
    assert "<script>alert" not in page
    assert not (Attempt.objects.exists() or Observation.objects.exists() or Verdict.objects.exists())


@pytest.mark.django_db
def test_what_cannot_be_tried_is_said_and_what_was_typed_stays(client: Client) -> None:
    client.force_login(a_user("ada", "viewer"))
    for said in ({"text": ""}, {"text": "x", "source": "dreams"}):
        answer = client.post("/try/", said)
        assert answer.status_code == 400
        assert 'role="alert"' in answer.content.decode()
    assert ">\nkeep me</textarea>" in client.post("/try/", {"text": "keep me", "source": "dreams"}).content.decode()


@pytest.mark.django_db
def test_only_readers_try_and_only_from_our_form() -> None:
    client = Client(enforce_csrf_checks=True)
    assert client.get("/try/").status_code == 302
    client.force_login(a_user("nobody"))
    assert client.get("/try/").status_code == 403
    client.force_login(a_user("ada", "viewer"))
    assert client.post("/try/", {"text": XID}).status_code == 403


@pytest.mark.django_db
def test_the_api_tries_too(client_of: Callable[..., APIClient]) -> None:
    said = client_of("viewer").post("/api/v1/try", {"text": XID}).json()
    assert said["matches"][0]["rule"] == "gpu.off-the-bus"
    assert said["verdict"]["attributed_domain"] == "gpu_hardware"
    assert client_of().post("/api/v1/try", {"text": XID}).status_code == 403
    assert client_of("lead").post("/api/v1/try", {"text": XID, "source": "dreams"}).status_code == 400
